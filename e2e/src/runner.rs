//! Runs one case: backends, the three programs, then its requests one after the other.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::case::{Case, Request, Scheme, Text};
use crate::echo::{BIND_LIMIT, Backends};
use crate::http::{Exchange, Target};
use crate::judge::{self, Outcome};
use crate::manifests;
use crate::process::POLL;
use crate::stack::{Options, Port, Stack};
use crate::tls::TlsOptions;

/// How long the first request of a case, and its first `https` one, are tried again.
const RETRY_LIMIT: Duration = Duration::from_secs(5);
/// Pause between two tries.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// How long requests that a backend gets besides the answered one (mirrors) may take.
const HITS_LIMIT: Duration = Duration::from_secs(1);
/// How long to look for more of them than allowed.
const HITS_SETTLE: Duration = Duration::from_millis(150);
/// Environment variable that keeps the folder of a failed case.
const KEEP: &str = "ISTHMUS_KEEP";

/// A way to run all three programs, besides what a case asks for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mode {
    /// Label in the report; empty for the defaults.
    pub name: &'static str,
    /// Extra arguments of `pilot serve`.
    pub pilot_args: &'static [&'static str],
    /// Extra arguments of `pilot bootstrap`.
    pub bootstrap_args: &'static [&'static str],
}

/// Runs a case whose manifests are in a folder.
///
/// # Errors
/// A program does not start, an answer does not fit or Envoy refuses configuration; the message is the report.
pub async fn run(case: &Case, mode: Mode) -> Result<()> {
    let mut options = options(case);
    options.manifests.clone_from(&case.manifests);
    options.files.clone_from(&case.files);
    let owned = |args: &[&str]| args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>();
    options.pilot_args.splice(..0, owned(mode.pilot_args));
    options.bootstrap_args = owned(mode.bootstrap_args);
    check(case, options, async |_| Vec::new()).await
}

/// What a case asks for, but for where its objects come from.
pub(crate) fn options(case: &Case) -> Options {
    let texts = |args: &[Text]| args.iter().map(|arg| arg.0.clone()).collect::<Vec<_>>();
    Options {
        controller_args: texts(&case.controller_args),
        pilot_args: texts(&case.pilot_args),
        ..Options::default()
    }
}

/// Starts backends and programs, sends the requests, and looks at `more` when all is well so far.
pub(crate) async fn check(
    case: &Case,
    options: Options,
    more: impl AsyncFnOnce(&Stack) -> Vec<String>,
) -> Result<()> {
    let texts = std::iter::once(&case.manifests).chain(case.files.values());
    let endpoints = texts.flat_map(|text| manifests::endpoints(text)).collect();
    let mut backends = Backends::new();
    backends.add(&endpoints, BIND_LIMIT).await?;
    let mut stack = Stack::new(options)?;
    let mut problems = match stack.start().await {
        Ok(()) => send_all(case, &stack, &mut backends).await,
        Err(error) => vec![format!("{error:#}")],
    };
    if problems.is_empty() {
        problems = more(&stack).await;
    }
    if let Err(error) = stack.check_alive() {
        problems.push(format!("{error:#}"));
    }
    if !case.allow_rejects {
        problems.extend(
            stack
                .rejections()
                .into_iter()
                .map(|line| format!("Envoy refused configuration: {line}")),
        );
    }
    if problems.is_empty() {
        return Ok(());
    }
    if std::env::var_os(KEEP).is_some() {
        problems.push(format!("kept: {}", stack.keep().display()));
    }
    bail!(
        "{} ({})\n{}\n{}",
        case.name,
        case.source,
        problems.join("\n"),
        stack.logs()
    );
}

async fn send_all(case: &Case, stack: &Stack, backends: &mut Backends) -> Vec<String> {
    let mut problems = Vec::new();
    let mut seen_https = false;
    for (index, request) in case.requests.iter().enumerate() {
        let first_https = request.scheme == Scheme::Https && !seen_https;
        seen_https |= first_https;
        tokio::time::sleep(Duration::from_secs_f64(request.wait)).await;
        let start = Instant::now();
        let wrong = loop {
            let wrong = attempt(request, stack, backends).await;
            let retry = (index == 0 || first_https) && start.elapsed() < RETRY_LIMIT;
            if wrong.is_empty() || !retry {
                break wrong;
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        };
        if !wrong.is_empty() {
            problems.push(format!("request {}: {}", index + 1, request.label()));
            problems.extend(wrong.into_iter().map(|line| format!("    {line}")));
        }
    }
    problems
}

/// Sends a request as often as it asks for, and says what does not fit.
async fn attempt(request: &Request, stack: &Stack, backends: &Backends) -> Vec<String> {
    let (exchange, target) = (exchange(request), target(request, stack));
    let before = backends.hits();
    let mut outcomes: Vec<Outcome> = Vec::new();
    for number in 1..=request.times() {
        let outcome = exchange
            .send(&target)
            .await
            .map_err(|error| format!("{error:#}"));
        let wrong = match &request.share {
            Some(_) => Vec::new(),
            None => judge::answer(&request.expect, &outcome),
        };
        if !wrong.is_empty() {
            let turn = format!("answer {number} of {}", request.times());
            return wrong
                .into_iter()
                .map(|line| format!("{turn}: {line}"))
                .collect();
        }
        outcomes.push(outcome);
    }
    if let Some(share) = &request.share {
        return judge::shares(share, &outcomes);
    }
    let mut problems = Vec::new();
    if request.expect.sticky {
        problems.extend(judge::sticky(&outcomes));
    }
    if !request.expect.hits.is_empty() {
        let start = Instant::now();
        while !judge::hits_reached(&request.expect, &before, &backends.hits())
            && start.elapsed() < HITS_LIMIT
        {
            tokio::time::sleep(POLL).await;
        }
        // There is nothing to wait for when no further request may come: only time can show that none does.
        tokio::time::sleep(HITS_SETTLE).await;
        problems.extend(judge::hits(&request.expect, &before, &backends.hits()));
    }
    problems
}

fn exchange(request: &Request) -> Exchange {
    let lines = request.headers.iter().flat_map(|(name, values)| {
        let values = values.as_slice().iter();
        values.map(move |value| (name.as_str(), value.0.as_str()))
    });
    let host = std::iter::once(("Host", request.host.as_str()));
    let body = request.body.as_ref().map(|text| text.0.as_str());
    Exchange::build(&request.method, &request.path, host.chain(lines), body)
}

fn target(request: &Request, stack: &Stack) -> Target {
    let (port, tls) = match request.scheme {
        Scheme::Http => (Port::Http, None),
        Scheme::Https => {
            let server_name = request.server_name().map(str::to_owned);
            let client_cert = request.client_cert.clone();
            (
                Port::Https,
                Some(TlsOptions {
                    server_name,
                    client_cert,
                    alpn: Vec::new(),
                    trusted: None,
                }),
            )
        }
    };
    Target {
        address: stack.address(port),
        source: request.source,
        tls,
    }
}
