//! Two replicas of each tier: both serve, one writes, and either may die.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use e2e::http::Target;
use e2e::kube::Client;
use e2e::stack::sum_metric;
use rustix::process::{Pid, Signal};

use crate::release::{self, CONTROLLER, NAMESPACE, Tenant, ingress, page, pods, traffic};
use crate::rights;

/// Name of the separate pilot, and of its account.
pub(crate) const PILOT: &str = "higress-pilot";
/// As long as a silent leader is waited for (`--lease-seconds`), and time to look.
const TAKEOVER: Duration = Duration::from_secs(15 + 5);
/// Port of the controller's metrics.
const CONTROLLER_HTTP: u16 = 8888;
/// Port of the pilot's metrics.
const PILOT_MONITORING: u16 = 15014;

/// Two controllers, two pilots, two gateways.
pub(crate) async fn either_may_die(client: Client) -> Result<()> {
    let client = &client;
    let values = [
        "controller.replicas=2",
        "pilot.separate=true",
        "pilot.replicaCount=2",
    ];
    release::with(client, &values).await?;
    rights::of_separate_tiers(client).await?;
    let target = release::target(client).await?;
    let tenant = Tenant::new(client, "replicas", &target).await?;
    let load = tenant.load(&target);
    one_writes(client, &tenant).await?;
    controller_hangs(client, &tenant, &target).await?;
    controller_dies(client, &tenant).await?;
    pilots_die(client, &tenant, &target).await?;
    traffic(&load, Duration::from_secs(1)).await?;
    load.finish().await?;
    tenant.remove(client).await
}

/// Status is written by the holder of the Lease only, while both are ready and serve pilots.
async fn one_writes(client: &Client, tenant: &Tenant) -> Result<()> {
    tenant.status(client, "shop").await?;
    // A controller of the release before may have led, and written that, on its way out.
    let wrote = async || {
        let wrote = writes(client, &leader(client).await?).await.ok()?;
        (*wrote.get(&true)? > 0.0).then_some(wrote)
    };
    let what = "two controllers are ready, and the one that leads has written";
    let wrote = client.until(what, wrote).await?;
    ensure!(wrote[&false] == 0.0, "the other one wrote");
    Ok(())
}

/// How often the leader and the other controller wrote status; both are asked whether they lead and are ready.
async fn writes(client: &Client, leader: &str) -> Result<BTreeMap<bool, f64>> {
    let pods = pods(client, CONTROLLER).await?;
    ensure!(pods.len() == 2, "controllers: {pods:?}");
    let mut wrote = BTreeMap::new();
    for (name, address) in &pods {
        let leads = value(*address, CONTROLLER_HTTP, "isthmus_leader").await? == 1.0;
        let count = value(*address, CONTROLLER_HTTP, "isthmus_status_writes_total").await?;
        ensure!(
            leads == (name == leader),
            "{name}: leads {leads}, the Lease says {leader}"
        );
        let ready = page(*address, CONTROLLER_HTTP, "/ready").await?;
        ensure!(ready.status == 200, "{name} is not ready: {}", ready.text());
        wrote.insert(leads, count);
    }
    Ok(wrote)
}

/// The leader hangs: the other one writes within the lease's time, and pilots that were connected to the first one find the
/// other. When it wakes up, it writes no more.
async fn controller_hangs(client: &Client, tenant: &Tenant, target: &Target) -> Result<()> {
    let before = leader(client).await.context("nobody leads")?;
    let hung = controller_process(&before)?;
    rustix::process::kill_process(hung, Signal::STOP)?;
    let since = Instant::now();
    let host = "while-hung.example.com";
    let during = async {
        let manifest = ingress(&tenant.namespace, "while-hung", host, "/");
        client.apply(&manifest).await?;
        tenant.status(client, "while-hung").await?;
        let took = since.elapsed();
        ensure!(took < TAKEOVER, "status was written after {took:?}");
        let there = Tenant {
            namespace: tenant.namespace.clone(),
            host: host.to_owned(),
        };
        there.answers(client, target, 200).await
    };
    let during = during.await;
    rustix::process::kill_process(hung, Signal::CONT)?;
    during?;
    let after = leader(client).await.context("nobody leads")?;
    ensure!(after != before, "{after} still leads");
    let settled = async || writes(client, &after).await.ok();
    client.until("one of both leads", settled).await?;
    Ok(())
}

/// The controller's process in a Pod.
fn controller_process(pod: &str) -> Result<Pid> {
    let name = format!("POD_NAME={pod}");
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let read = |file: &str| std::fs::read(entry.path().join(file)).unwrap_or_default();
        let program = read("cmdline");
        let ours = read("environ")
            .split(|byte| *byte == 0)
            .any(|var| var == name.as_bytes());
        let program = program.split(|byte| *byte == 0).next().unwrap_or_default();
        if ours && program.ends_with(b"/controller") {
            let pid = entry.file_name().to_string_lossy().parse()?;
            return Pid::from_raw(pid).context("no process id");
        }
    }
    bail!("no controller runs for {pod}")
}

/// The leader is killed: the other one writes within the lease's time.
async fn controller_dies(client: &Client, tenant: &Tenant) -> Result<()> {
    let before = leader(client).await.context("nobody leads")?;
    kill(client, &before).await?;
    let killed = Instant::now();
    let name = "second";
    let manifest = ingress(&tenant.namespace, name, "second.example.com", "/");
    client.apply(&manifest).await?;
    tenant.status(client, name).await?;
    let took = killed.elapsed();
    ensure!(took < TAKEOVER, "status was written after {took:?}");
    let after = leader(client).await.context("nobody leads")?;
    ensure!(after != before, "{after} still leads");
    Ok(())
}

/// Either pilot is killed: changes go on to arrive at both gateways.
async fn pilots_die(client: &Client, tenant: &Tenant, target: &Target) -> Result<()> {
    let pods = pods(client, PILOT).await?;
    ensure!(pods.len() == 2, "pilots: {pods:?}");
    let both = async || {
        let mut clients = 0.0;
        for address in pods.values() {
            clients += value(*address, PILOT_MONITORING, "pilot_xds").await.ok()?;
        }
        (clients == 2.0).then_some(())
    };
    client.until("both gateways are connected", both).await?;
    for (number, pod) in pods.keys().enumerate() {
        kill(client, pod).await?;
        let after = Tenant {
            namespace: tenant.namespace.clone(),
            host: format!("after-{number}.example.com"),
        };
        let manifest = ingress(
            &tenant.namespace,
            &format!("after-{number}"),
            &after.host,
            "/",
        );
        client.apply(&manifest).await?;
        after.answers(client, target, 200).await?;
        client
            .rollout(NAMESPACE, &format!("deployment/{PILOT}"), e2e::kube::LIMIT)
            .await?;
    }
    Ok(())
}

async fn kill(client: &Client, pod: &str) -> Result<()> {
    let args = [
        "delete",
        "pod",
        "-n",
        NAMESPACE,
        pod,
        "--grace-period=0",
        "--force",
    ];
    client.kubectl(&args).await.map(drop)
}

/// Pod that holds the Lease; each run of it has a name of its own there, `POD_NUMBER`.
async fn leader(client: &Client) -> Option<String> {
    let lease = client
        .get(NAMESPACE, "lease/isthmus-controller-higress")
        .await
        .ok()?;
    let holder = lease["spec"]["holderIdentity"].as_str()?;
    Some(holder.rsplit_once('_')?.0.to_owned())
}

/// Sum of a metric's series.
async fn value(address: IpAddr, port: u16, metric: &str) -> Result<f64> {
    let page = page(address, port, "/metrics").await?;
    ensure!(page.status == 200, "metrics of {address}: {}", page.status);
    Ok(sum_metric(&page.text(), metric, ""))
}
