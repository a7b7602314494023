//! Runs the acceptance cases of `e2e/cases/` and of the folders in `ISTHMUS_CASES` (separated by `:`) against the real
//! programs and the real Envoy, several at a time. A part of a case's path or name selects it:
//! `cargo test -p e2e --test cases -- paths-exact`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use e2e::api_cases::{self, Pool};
use e2e::case::{self, Case};
use e2e::runner::{self, Mode};
use e2e::trial::{self, Needs};
use e2e::{envoy, network};
use libtest_mimic::Trial;

/// What users see must not depend on how routes travel: every case runs in every mode.
const MODES: [Mode; 4] = [
    Mode {
        name: "",
        pilot_args: &[],
        bootstrap_args: &[],
    },
    Mode {
        name: "on demand",
        pilot_args: &["--on-demand-rds"],
        bootstrap_args: &[],
    },
    Mode {
        name: "without scopes",
        pilot_args: &["--enable-scoped-rds=false"],
        bootstrap_args: &[],
    },
    Mode {
        name: "state of the world",
        pilot_args: &[],
        bootstrap_args: &["--protocol", "sotw"],
    },
];

/// Cases that hold with scoped routes only: one is about the scope header, the others about the fallback from an exact to a
/// wildcard host, which plain routes do not have.
const SCOPED_ONLY: [&str; 3] = [
    "ingress/scope-header",
    "ingress/hosts-exact-fallback",
    "ingress/semantics-hosts",
];

/// The case that also runs while the status of Ingresses is written.
const WITH_STATUS: &str = "ingress/hosts-exact";

/// Cases that run at the same time.
const PARALLEL: usize = 4;

fn main() -> ExitCode {
    match trials() {
        Ok(trials) => trial::run(trials, PARALLEL),
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn trials() -> Result<Vec<Trial>> {
    let own = envoy::workspace().join("e2e/cases");
    let others = std::env::var_os("ISTHMUS_CASES").unwrap_or_default();
    let others = std::env::split_paths(&others).filter(|path| !path.as_os_str().is_empty());
    let mut trials = Vec::new();
    let pool = Arc::new(Pool::default());
    let mut refused = Refused::default();
    for folder in std::iter::once(own).chain(others) {
        for file in case::find_files(&folder)? {
            let on_api = case::load_with(&file, network::ADDRESSES)?;
            let label: PathBuf = file
                .strip_prefix(&folder)
                .unwrap_or(&file)
                .with_extension("");
            for (case, mut on_api) in case::load_file(&file)?.into_iter().zip(on_api) {
                let name = format!("{}: {}", label.display(), case.name);
                let modes = MODES.into_iter().filter(|mode| {
                    mode.name != "without scopes"
                        || !SCOPED_ONLY.iter().any(|only| label.ends_with(only))
                });
                trials.extend(modes.map(|mode| one(&name, case.clone(), mode)));
                refused.objects += on_api.api_server.refuses.len();
                refused.requests += on_api.drop_refused();
                if label.ends_with(WITH_STATUS) {
                    trials.push(on_api_server(&name, on_api.clone(), &pool, true));
                }
                trials.push(on_api_server(&name, on_api, &pool, false));
            }
        }
    }
    eprintln!(
        "an API server refuses {} objects of the cases, so that {} requests for them are not sent there",
        refused.objects, refused.requests
    );
    Ok(trials)
}

/// What the cases have that an API server does not take.
#[derive(Default)]
struct Refused {
    objects: usize,
    requests: usize,
}

/// The same case with its objects in an API server. Objects that it does not take are part of the case, so that the list of
/// them stays true.
fn on_api_server(name: &str, case: Case, pool: &Arc<Pool>, status: bool) -> Trial {
    let mode = if status {
        "API server, status"
    } else {
        "API server"
    };
    let pool = pool.clone();
    let name = format!("{name} [{mode}]");
    trial::trial(name, Needs::ApiServerAndEnvoy, move || async move {
        api_cases::run(&case, &pool, status).await
    })
}

fn one(name: &str, case: Case, mode: Mode) -> Trial {
    let name = match mode.name {
        "" => name.to_owned(),
        mode => format!("{name} [{mode}]"),
    };
    trial::trial(name, Needs::Envoy, move || async move {
        runner::run(&case, mode).await
    })
}
