//! The chart as text: what it renders passes the API server, and mistakes in values are refused.

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use e2e::envoy::workspace;
use e2e::kube::Client;

/// Namespace of the dry runs.
const NAMESPACE: &str = "isthmus-chart";

/// Folder of the chart.
pub(crate) fn folder() -> String {
    workspace()
        .join("deploy/helm/isthmus")
        .display()
        .to_string()
}

/// The documented sets of values.
pub(crate) fn value_files() -> Vec<PathBuf> {
    let folder = workspace().join("deploy/helm/isthmus/ci");
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.sort();
    files
}

async fn template(client: &Client, more: &[&str]) -> Result<String> {
    let chart = folder();
    let args = ["template", "isthmus", &chart, "--namespace", NAMESPACE];
    client.helm(&[&args[..], more].concat()).await
}

/// Renders the chart and has the API server check every object, its admission included, without keeping any.
pub(crate) async fn accepted(client: Client, values: PathBuf) -> Result<()> {
    let values = values.display().to_string();
    client
        .helm(&["lint", "--strict", &folder(), "-f", &values])
        .await?;
    let manifests = template(&client, &["-f", &values]).await?;
    for (file, crd) in [
        ("pod-monitor.yaml", "crd/podmonitors.monitoring.coreos.com"),
        ("certificate.yaml", "crd/certificates.cert-manager.io"),
    ] {
        let text = std::fs::read_to_string(workspace().join("e2e/kube").join(file))?;
        client.apply(&text).await?;
        client
            .kubectl(&["wait", "--for=condition=Established", crd, "--timeout=30s"])
            .await?;
    }
    client.namespace(NAMESPACE).await?;
    let dry = ["apply", "--dry-run=server", "--validate=strict", "-f", "-"];
    let said = client.kubectl_with(&dry, &manifests).await?;
    let objects = manifests
        .lines()
        .filter(|line| line.starts_with("kind: "))
        .count();
    ensure!(
        said.lines().count() == objects && objects >= 4,
        "{objects} objects were rendered, but the API server spoke of these:\n{said}"
    );
    Ok(())
}

/// A value that nobody reads would be ignored without a word.
pub(crate) async fn misspelt(client: Client) -> Result<()> {
    for (wrong, named) in [
        ("gateway.htpPort=1", "htpPort"),
        ("gateway.kind=Deployments", "kind"),
        ("gateway.replicas=two", "replicas"),
        ("contoller.replicas=2", "contoller"),
    ] {
        match template(&client, &["--set", wrong]).await {
            Ok(_) => bail!("{wrong} was accepted"),
            Err(error) => ensure!(format!("{error:#}").contains(named), "{wrong}: {error:#}"),
        }
    }
    Ok(())
}
