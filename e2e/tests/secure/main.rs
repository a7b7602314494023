//! xDS over TLS: real Envoys that prove who they are get private keys, others get nothing; where the certificate of the port
//! comes from, and how it is replaced.

mod authority;
mod files;
mod tokens;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::http::Exchange;
use e2e::process::wait_until;
use e2e::stack::{Port, Stack};
use e2e::tls::{TlsOptions, handshake, server_certificate};
use e2e::trial::{self, Needs};
use tokio::net::TcpStream;

/// How long a change may take to be seen; the machine may be busy.
const LIMIT: Duration = Duration::from_secs(60);
/// The HTTPS host of the trials.
const HOST: &str = "secret.example.com";
/// Name of the pilot.
const PILOT: &str = "pilot.test";

fn main() -> ExitCode {
    let trials = vec![
        trial::trial(
            "a gateway with a token gets private keys, others get nothing",
            Needs::AllPrograms,
            tokens::tokens,
        ),
        trial::trial(
            "pilots agree on an authority with the rights of the chart",
            Needs::ApiServer,
            authority::agreement,
        ),
        trial::trial(
            "without a cluster: certificate files, replaced, and client certificates",
            Needs::Envoy,
            files::files,
        ),
    ];
    trial::run(trials, 1)
}

/// A Secret, an Ingress that uses it, its Service and class.
fn manifests(certificate: &str, key: &str) -> String {
    let indented = |text: &str| text.trim().replace('\n', "\n    ");
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: secret, namespace: default}}\ntype: kubernetes.io/tls\nstringData:\n  \
         tls.crt: |\n    {}\n  tls.key: |\n    {}\n---\n\
         apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {{name: higress}}\n\
         spec: {{controller: higress.io/higress-controller}}\n---\n\
         apiVersion: v1\nkind: Service\nmetadata: {{name: web, namespace: default}}\nspec: {{ports: [{{name: http, port: 80}}]}}\n---\n\
         apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{name: web, namespace: default}}\nspec:\n  \
         ingressClassName: higress\n  tls: [{{hosts: [{HOST}], secretName: secret}}]\n  rules:\n  - host: {HOST}\n    http:\n      \
         paths: [{{path: /, pathType: Prefix, backend: {{service: {{name: web, port: {{name: http}}}}}}}}]\n---\n",
        indented(certificate),
        indented(key),
    )
}

/// A self-signed certificate of the host with its key, and the manifests with both.
struct Site {
    der: Vec<u8>,
    manifests: String,
}

impl Site {
    fn new() -> Result<Self> {
        let made = rcgen::generate_simple_self_signed([HOST.to_owned()])?;
        let manifests = manifests(&made.cert.pem(), &made.signing_key.serialize_pem());
        Ok(Self {
            der: made.cert.der().to_vec(),
            manifests,
        })
    }

    /// Waits until Envoy shows the host's certificate.
    async fn is_served(&self, stack: &Stack) -> Result<()> {
        let served = wait_until("Envoy shows the host's certificate", LIMIT, async || {
            let target = stack.tls_target(HOST);
            let answer = Exchange::get(HOST, "/").send(&target).await.ok()?;
            (answer.certificate.as_ref() == Some(&self.der)).then_some(())
        });
        served.await.with_context(|| stack.logs())
    }
}

/// Envoy has no listener, and serves nothing.
async fn serves_nothing(stack: &Stack) -> Result<()> {
    let listeners = Exchange::get("localhost", "/listeners")
        .send(&stack.target(Port::Admin))
        .await?;
    let listeners = listeners.text();
    ensure!(
        listeners.trim().is_empty(),
        "Envoy listens: {listeners}\n{}",
        stack.logs()
    );
    Ok(())
}

/// Streams that came to this result.
async fn count(stack: &Stack, result: &str) -> f64 {
    let label = format!("result=\"{result}\"");
    let name = "isthmus_xds_authentications_total";
    let count = stack.metric(Port::Monitoring, name, &label).await;
    count.unwrap_or(0.0)
}

/// Waits until more streams than `before` came to this result.
async fn counted(stack: &Stack, result: &str, before: f64) -> Result<()> {
    let what = format!("a stream is {result}");
    let more = wait_until(&what, LIMIT, async || {
        (count(stack, result).await > before).then_some(())
    });
    more.await.with_context(|| stack.logs())
}

/// Waits until the log of a program has a text.
async fn says(stack: &Stack, program: &str, text: &str) -> Result<()> {
    let what = format!("{program} says {text:?}");
    let said = wait_until(&what, LIMIT, async || {
        stack.log_of(program).contains(text).then_some(())
    });
    said.await.with_context(|| stack.logs())
}

/// The certificate that the pilot shows, DER; `None` when it shows none that the authority vouches for.
async fn pilots_certificate(stack: &Stack, trusted: Option<&str>) -> Option<Vec<u8>> {
    let stream = TcpStream::connect(stack.address(Port::Secure)).await.ok()?;
    let options = TlsOptions {
        server_name: Some(PILOT.to_owned()),
        alpn: vec!["h2"],
        trusted: trusted.map(str::to_owned),
        ..TlsOptions::default()
    };
    server_certificate(&handshake(stream, &options).await.ok()?)
}
