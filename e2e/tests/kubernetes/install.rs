//! The chart as a user installs it: from nothing to the first answer, upgrades under traffic, and nothing left behind.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::http::Target;
use e2e::kube::{self, Client};

use crate::release::{self, GATEWAY, NAMESPACE, Tenant};

/// What a namespace has of its own.
const OWN: [&str; 2] = ["configmap/kube-root-ca.crt", "serviceaccount/default"];

/// `helm install` with default values, to the first answer and the address in the Ingress's status.
pub(crate) async fn from_nothing(client: Client) -> Result<()> {
    release::images().await?;
    let uninstall = [
        "uninstall",
        "isthmus",
        "-n",
        NAMESPACE,
        "--ignore-not-found",
        "--wait",
    ];
    client.helm(&uninstall).await?;
    client.fresh_namespace(NAMESPACE).await?;
    release::helm(&client, &["install"], kube::TAG, &[]).await?;
    let target = release::target(&client).await?;
    let tenant = Tenant::new(&client, "first", &target).await?;
    let (address, gateway) = (tenant.status(&client, "shop").await?, target.address.ip());
    ensure!(
        address == gateway.to_string(),
        "the status says {address}, the gateway has {gateway}"
    );
    client.helm(&["test", "isthmus", "-n", NAMESPACE]).await?;
    tenant.remove(&client).await
}

/// Other numbers of gateways, other values and another image, while 200 requests a second are sent: none fails.
pub(crate) async fn upgrades(client: Client) -> Result<()> {
    release::with(&client, &["gateway.replicas=1"]).await?;
    let target = release::target(&client).await?;
    let tenant = Tenant::new(&client, "upgrades", &target).await?;
    upgrade_under_traffic(&client, &tenant, &target).await?;
    tenant.remove(&client).await
}

async fn upgrade_under_traffic(client: &Client, tenant: &Tenant, target: &Target) -> Result<()> {
    let gateways = format!("app={GATEWAY}");
    let list = [
        "get", "pods", "-n", NAMESPACE, "-l", &gateways, "-o", "name",
    ];
    for (tag, values, count) in [
        (kube::TAG, "gateway.replicas=3", 3),
        (kube::TAG, "gateway.replicas=1", 1),
        (kube::TAG, "gateway.replicas=1,global.onDemandRDS=true", 1),
        (kube::NEXT_TAG, "gateway.replicas=2", 2),
    ] {
        let load = tenant.load(target);
        release::traffic(&load, Duration::from_secs(1)).await?;
        release::helm(client, &["upgrade"], tag, &[values]).await?;
        // Pods that go are drained after helm has seen the new ones.
        let ended = async || {
            let pods = client.kubectl(&list).await.ok()?;
            (pods.lines().count() == count).then_some(())
        };
        let what = format!("only {count} gateways are left");
        client.until(&what, ended).await?;
        release::traffic(&load, Duration::from_secs(1)).await?;
        load.finish()
            .await
            .with_context(|| format!("upgrade to {tag}, {values}"))?;
    }
    Ok(())
}

/// `helm uninstall` takes away all that the chart and the running programs made.
pub(crate) async fn uninstall(client: Client) -> Result<()> {
    release::with(&client, &[]).await?;
    client
        .helm(&["uninstall", "isthmus", "-n", NAMESPACE, "--wait"])
        .await?;
    let kinds = "all,configmap,secret,serviceaccount,role,rolebinding,networkpolicy,poddisruptionbudget,ingress,lease";
    let mut names = String::new();
    let gone = async || {
        let get = ["get", kinds, "-n", NAMESPACE, "-o", "name"];
        names = client.kubectl(&get).await.ok()?;
        names.lines().all(|name| OWN.contains(&name)).then_some(())
    };
    let done = client.until("nothing is left in the namespace", gone).await;
    done.map_err(|error| error.context(format!("left behind:\n{names}")))?;
    let cluster = "clusterrole,clusterrolebinding,ingressclass";
    let ours = "app.kubernetes.io/part-of=isthmus";
    let left = client
        .kubectl(&["get", cluster, "-l", ours, "-o", "name"])
        .await?;
    ensure!(left.is_empty(), "left behind:\n{left}");
    Ok(())
}
