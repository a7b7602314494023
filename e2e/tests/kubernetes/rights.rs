//! What the accounts of the chart may do, and what its Pods tell whom. More than this is a decision, not an accident.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use e2e::http::Target;
use e2e::kube::Client;

use crate::release::{self, CONTROLLER, GATEWAY, NAMESPACE};
use crate::replicas::PILOT;

/// Rights of the controller, as `resource: verbs`.
const CONTROLLER_MAY: &[&str] = &[
    "events.events.k8s.io: create",
    "ingressclasses.networking.k8s.io: get list watch",
    "ingresses.networking.k8s.io/status: patch",
    "ingresses.networking.k8s.io: get list watch",
    "leases.coordination.k8s.io: get create update",
    "secrets: get list watch",
    "services: get list watch",
];

/// Rights of the pilot.
const PILOT_MAY: &[&str] = &[
    "configmaps: get update",
    "endpointslices.discovery.k8s.io: get list watch",
    "secrets: get list watch",
    "secrets: get update",
    "services: get list watch",
    "tokenreviews.authentication.k8s.io: create",
];

/// The accounts may do what is listed, and nothing else. Both tiers run in one Pod by default, so they have one account.
pub(crate) async fn listed(client: Client) -> Result<()> {
    release::with(&client, &[]).await?;
    may_do(&client, CONTROLLER, &[CONTROLLER_MAY, PILOT_MAY]).await?;
    may_do(&client, GATEWAY, &[]).await
}

/// The same of a release with separate pilots, which is there: each tier has what it needs itself.
pub(crate) async fn of_separate_tiers(client: &Client) -> Result<()> {
    may_do(client, CONTROLLER, &[CONTROLLER_MAY]).await?;
    may_do(client, PILOT, &[PILOT_MAY]).await?;
    may_do(client, GATEWAY, &[]).await
}

async fn may_do(client: &Client, account: &str, rights: &[&[&str]]) -> Result<()> {
    let who = format!("--as=system:serviceaccount:{NAMESPACE}:{account}");
    let list = [
        "auth",
        "can-i",
        "--list",
        "--no-headers",
        "-n",
        NAMESPACE,
        &who,
    ];
    let found = parse(&client.kubectl(&list).await?);
    let expected = rights.concat().into_iter().map(ToOwned::to_owned).collect();
    ensure!(found == expected, "{account} may do this:\n{found:#?}");
    Ok(())
}

/// What shows configs without asking who wants them does not answer other Pods; the rest does.
pub(crate) async fn ports(client: Client) -> Result<()> {
    release::with(&client, &[]).await?;
    let pods = release::pods(&client, CONTROLLER).await?;
    let pod = *pods.values().next().context("no Pod")?;
    for port in [15010, 15051] {
        let connected = Target::plain(SocketAddr::new(pod, port)).connect().await;
        ensure!(connected.is_err(), "port {port} is open to other Pods");
    }
    for (port, path, expected) in [
        (8888, "/debug/configz", 403),
        (8888, "/debug", 403),
        (8080, "/debug/config_dump", 403),
        (8888, "/metrics", 200),
        (8080, "/ready", 200),
        (15014, "/metrics", 200),
    ] {
        let status = release::page(pod, port, path).await?.status;
        ensure!(status == expected, "{port}{path} answers {status}");
    }
    Ok(())
}

/// Lines of `kubectl auth can-i --list`: resource, URLs, names, verbs, each list in brackets. What everybody may (questions
/// about oneself, public URLs, which have no resource) is left out.
fn parse(text: &str) -> BTreeSet<String> {
    let everybody = ["selfsubject", " "];
    let lines = text.lines();
    lines
        .filter(|line| everybody.iter().all(|start| !line.starts_with(start)))
        .filter_map(|line| {
            let resource = line.split_whitespace().next()?;
            let verbs = line.rsplit_once('[')?.1.strip_suffix(']')?;
            Some(format!("{resource}: {verbs}"))
        })
        .collect()
}
