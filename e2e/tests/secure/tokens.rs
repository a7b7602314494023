//! Gateways with ServiceAccount tokens.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use e2e::api_server::ApiServer;
use e2e::http::Exchange;
use e2e::process::wait_until;
use e2e::stack::{Options, Port, Stack};

use super::{LIMIT, PILOT, Site, count, counted, says, serves_nothing};

/// Namespace of pilot and gateways.
const NAMESPACE: &str = "higress-system";

/// A token of an account, made now.
async fn token(api: &ApiServer, namespace: &str, account: &str, audience: &str) -> Result<String> {
    let audience = format!("--audience={audience}");
    let args = ["create", "token", account, "-n", namespace, &audience];
    Ok(api.kubectl(&args).await?.trim().to_owned())
}

/// Replaces a file in one step.
fn put(path: &Path, text: &str) -> Result<()> {
    let next = path.with_extension("next");
    std::fs::write(&next, text)?;
    Ok(std::fs::rename(next, path)?)
}

/// Waits for the published authority.
async fn root(api: &ApiServer, stack: &Stack) -> Result<String> {
    let published = wait_until("the authority is published", LIMIT, async || {
        let args = ["configmap", "higress-xds-root", "-n", NAMESPACE];
        let config = api.get(&args).await.ok()?;
        let root = config["data"]["root-cert.pem"].as_str()?;
        Some(root.to_owned())
    });
    published.await.with_context(|| stack.logs())
}

/// A gateway's run of Envoy.
struct Gateway<'a> {
    stack: &'a mut Stack,
    ca: String,
    token: String,
}

impl Gateway<'_> {
    async fn start(&mut self, namespace: &str) -> Result<()> {
        self.stop().await?;
        let args = [
            "--xds-ca-file",
            &self.ca,
            "--xds-token-file",
            &self.token,
            "--xds-server-name",
            PILOT,
            "--namespace",
            namespace,
        ];
        self.stack.set_bootstrap_args(&args);
        self.stack.start_envoy().await?;
        self.stack.wait_for(Port::Admin).await
    }

    async fn stop(&mut self) -> Result<()> {
        match self.stack.envoy.take() {
            Some(envoy) => envoy.kill().await,
            None => Ok(()),
        }
    }

    /// Starts with a token that is not good enough.
    async fn refused(&mut self, token: &str, namespace: &str, result: &str) -> Result<()> {
        put(Path::new(&self.token), token)?;
        let before = count(self.stack, result).await;
        self.start(namespace).await?;
        counted(self.stack, result, before).await?;
        serves_nothing(self.stack).await
    }
}

pub(crate) async fn tokens() -> Result<()> {
    let mut api = ApiServer::start().await?;
    let site = Site::new()?;
    let namespace =
        format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {NAMESPACE}}}\n---\n");
    api.apply(&(namespace + &site.manifests)).await?;
    for (namespace, account) in [(NAMESPACE, "gateway"), ("default", "other")] {
        let args = ["create", "serviceaccount", account, "-n", namespace];
        api.kubectl(&args).await?;
    }
    let mut stack = Stack::new(Options {
        kubeconfig: Some(api.kubeconfig()),
        secure: true,
        pilot_args: vec!["--xds-server-names".to_owned(), PILOT.to_owned()],
        ..Options::default()
    })?;
    stack.start_control_plane().await?;
    let root = root(&api, &stack).await?;
    stack.wait_for(Port::Secure).await?;
    let dir = tempfile::tempdir()?;
    let path = |name: &str| dir.path().join(name).display().to_string();
    put(Path::new(&path("root.pem")), &root)?;
    let mut gateway = Gateway {
        stack: &mut stack,
        ca: path("root.pem"),
        token: path("token"),
    };

    // Not ours, not for us, not where it says.
    let foreign = token(&api, "default", "other", "istio-ca").await?;
    gateway
        .refused(&foreign, "default", "other_account")
        .await?;
    says(gateway.stack, "envoy", "ServiceAccount default/other").await?;
    let wrong = token(&api, NAMESPACE, "gateway", "somebody-else").await?;
    gateway.refused(&wrong, NAMESPACE, "bad_token").await?;
    gateway.refused("a.b.c", NAMESPACE, "bad_token").await?;
    let good = token(&api, NAMESPACE, "gateway", "istio-ca").await?;
    // Says all the right things, and is not signed by the API server.
    let unsigned = good.rsplit_once('.').context("three parts")?.0;
    let forged = format!("{unsigned}.c2ln");
    gateway.refused(&forged, NAMESPACE, "bad_token").await?;
    gateway.refused(&good, "default", "wrong_namespace").await?;

    // Ours.
    gateway.start(NAMESPACE).await?;
    site.is_served(gateway.stack).await?;
    let page = Exchange::get("localhost", "/debug/syncz")
        .send(&gateway.stack.target(Port::PilotHttp))
        .await?;
    let text = "token of ServiceAccount higress-system/gateway";
    ensure!(page.text().contains(text), "{}", page.text());

    replaced_token(&api, &site, &mut gateway, &foreign).await?;
    strange_authority(&mut gateway, &path("other.pem")).await?;

    // Nobody can verify a token that was not seen before: Envoy waits.
    let unseen = token(&api, NAMESPACE, "gateway", "istio-ca").await?;
    api.kill().await?;
    gateway.refused(&unseen, NAMESPACE, "unavailable").await?;
    api.revive().await?;
    site.is_served(gateway.stack).await
}

/// Envoy reads the file for every stream, and a pilot that starts again goes on with the same authority.
async fn replaced_token(
    api: &ApiServer,
    site: &Site,
    gateway: &mut Gateway<'_>,
    foreign: &str,
) -> Result<()> {
    put(Path::new(&gateway.token), foreign)?;
    gateway
        .stack
        .pilot
        .take()
        .context("it runs")?
        .kill()
        .await?;
    gateway.stack.start_pilot()?;
    gateway.stack.wait_for(Port::Secure).await?;
    counted(gateway.stack, "other_account", 0.0).await?;
    // What Envoy has, it keeps.
    site.is_served(gateway.stack).await?;
    let fresh = token(api, NAMESPACE, "gateway", "istio-ca").await?;
    put(Path::new(&gateway.token), &fresh)?;
    counted(gateway.stack, "allowed", 0.0).await?;
    site.is_served(gateway.stack).await
}

async fn strange_authority(gateway: &mut Gateway<'_>, path: &str) -> Result<()> {
    let strange = rcgen::generate_simple_self_signed([PILOT.to_owned()])?;
    put(Path::new(path), &strange.cert.pem())?;
    let good = std::mem::replace(&mut gateway.ca, path.to_owned());
    gateway.start(NAMESPACE).await?;
    says(
        gateway.stack,
        "pilot",
        "does not trust this pilot's certificate",
    )
    .await?;
    serves_nothing(gateway.stack).await?;
    gateway.ca = good;
    Ok(())
}
