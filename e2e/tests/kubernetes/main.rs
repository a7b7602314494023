//! The chart and the images on the tests' real Kubernetes (`scripts/kube`). Without it all trials are reported as ignored.

mod certificates;
mod chart;
mod disturbances;
mod install;
mod pods;
mod release;
mod replicas;
mod rights;
mod variants;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use e2e::kube::{self, Client, Cluster};
use libtest_mimic::{Arguments, Failed, Trial};

/// What the names of all trials begin with: `--skip` this one leaves all of them out.
const PREFIX: &str = "kubernetes:";

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // There is one cluster, and one IngressClass of a name.
    arguments.test_threads = Some(1);
    let missing = kube::missing();
    if let Some(reason) = missing {
        eprintln!("ignored trials: {reason}");
        arguments.include_ignored = false;
        arguments.ignored = false;
    }
    let all = format!("{PREFIX} ");
    let unwanted = arguments
        .skip
        .iter()
        .any(|skip| all.contains(skip.as_str()));
    let cluster = if missing.is_some() || arguments.list || unwanted {
        None
    } else {
        match Cluster::start() {
            Ok(cluster) => Some(Arc::new(cluster)),
            Err(error) => {
                eprintln!("{error:#}");
                return ExitCode::FAILURE;
            }
        }
    };
    let conclusion = libtest_mimic::run(&arguments, trials(cluster.as_ref()));
    if let Some(cluster) = cluster.and_then(Arc::into_inner)
        && let Err(error) = cluster.stop()
    {
        eprintln!("{error:#}");
        return ExitCode::FAILURE;
    }
    conclusion.exit_code()
}

fn trials(cluster: Option<&Arc<Cluster>>) -> Vec<Trial> {
    let accepted = chart::value_files().into_iter().map(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("chart: {name} is accepted by the API server");
        trial(name, cluster, move |client| chart::accepted(client, file))
    });
    let others = [
        trial(
            "chart: misspelt values are refused",
            cluster,
            chart::misspelt,
        ),
        trial(
            "pods: two echo Pods behind a load balancer",
            cluster,
            pods::echo,
        ),
        on_release(
            "helm: install, from nothing to the first answer",
            cluster,
            install::from_nothing,
        ),
        on_release("rights: what the accounts may do", cluster, rights::listed),
        on_release("rights: what other Pods are told", cluster, rights::ports),
        on_release(
            "certificates: replaced under traffic",
            cluster,
            certificates::rotated,
        ),
        on_release(
            "objects: edited, renamed, deleted",
            cluster,
            disturbances::objects,
        ),
        on_release(
            "backends: scaled, rolled, killed",
            cluster,
            disturbances::backends,
        ),
        on_release(
            "namespace: deleted and made again",
            cluster,
            disturbances::namespace,
        ),
        on_release(
            "API server and etcd: killed and restarted",
            cluster,
            disturbances::api_server,
        ),
        on_release(
            "control plane: killed",
            cluster,
            disturbances::control_plane,
        ),
        on_release("helm: upgrades under traffic", cluster, install::upgrades),
        on_release(
            "replicas: both serve, one writes, either may die",
            cluster,
            replicas::either_may_die,
        ),
        on_release(
            "values: DaemonSet, low ports as root, SotW, policies",
            cluster,
            variants::daemon_set,
        ),
        on_release(
            "values: one namespace, rights in it only",
            cluster,
            variants::one_namespace,
        ),
        on_release(
            "helm: uninstall leaves nothing",
            cluster,
            install::uninstall,
        ),
    ];
    accepted.chain(others).collect()
}

/// A trial on the chart's release, whose Pods explain what fails.
fn on_release<F>(
    name: &str,
    cluster: Option<&Arc<Cluster>>,
    test: impl FnOnce(Client) -> F + Send + 'static,
) -> Trial
where
    F: Future<Output = Result<()>>,
{
    trial(name, cluster, |client| release::explained(client, test))
}

fn trial<F>(
    name: impl Into<String>,
    cluster: Option<&Arc<Cluster>>,
    test: impl FnOnce(Client) -> F + Send + 'static,
) -> Trial
where
    F: Future<Output = Result<()>>,
{
    let cluster = cluster.cloned();
    let ignored = cluster.is_none();
    let run = move || {
        let cluster = cluster.context("no cluster");
        let result = cluster.and_then(|cluster| cluster.inside(test));
        result.map_err(|error| Failed::from(format!("{error:#}")))
    };
    Trial::test(format!("{PREFIX} {}", name.into()), run).with_ignored_flag(ignored)
}
