//! Other shapes of a release than the default, run and not only rendered.

use anyhow::{Result, ensure};
use e2e::kube::Client;

use crate::release::{self, CONTROLLER, NAMESPACE, Tenant};

/// Gateways as a DaemonSet that may not have low ports without privileges, on ports of their own behind the Service.
pub(crate) async fn daemon_set(client: Client) -> Result<()> {
    let values = [
        "gateway.kind=DaemonSet",
        "gateway.unprivilegedPortSupported=false",
        "gateway.xdsProtocol=sotw",
        "networkPolicy.enabled=true",
    ];
    release::with(&client, &values).await?;
    let target = release::target(&client).await?;
    let tenant = Tenant::new(&client, "daemonset", &target).await?;
    client.helm(&["test", "isthmus", "-n", NAMESPACE]).await?;
    tenant.remove(&client).await
}

/// Only some namespaces are read, with rights in these only.
pub(crate) async fn one_namespace(client: Client) -> Result<()> {
    client.fresh_namespace("isthmus-watched").await?;
    release::with(&client, &["global.watchNamespace=isthmus-watched"]).await?;
    let target = release::target(&client).await?;
    let tenant = |name: &str| Tenant {
        namespace: format!("isthmus-{name}"),
        host: format!("{name}.example.com"),
    };
    let (watched, other) = (tenant("watched"), tenant("unwatched"));
    client.fresh_namespace(&other.namespace).await?;
    other.fill(&client).await?;
    watched.fill(&client).await?;
    watched.answers(&client, &target, 200).await?;
    other.answers(&client, &target, 404).await?;
    let who = format!("--as=system:serviceaccount:{NAMESPACE}:{CONTROLLER}");
    for (namespace, expected) in [(&watched.namespace, "yes"), (&other.namespace, "no")] {
        let ask = ["auth", "can-i", "list", "secrets", "-n", namespace, &who];
        // It says no with an exit code.
        let said = match client.kubectl(&ask).await {
            Ok(said) => said,
            Err(error) => format!("{error:#}"),
        };
        let found = if said.trim() == "yes" { "yes" } else { "no" };
        ensure!(found == expected, "secrets of {namespace}: {said}");
    }
    let logs = client
        .kubectl(&[
            "logs",
            "-n",
            NAMESPACE,
            &format!("deployment/{CONTROLLER}"),
            "--all-containers",
        ])
        .await?;
    let refused = logs.lines().find(|line| line.contains("forbidden"));
    ensure!(refused.is_none(), "{}", refused.unwrap_or_default());
    watched.remove(&client).await?;
    other.remove(&client).await
}
