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

use std::pin::Pin;
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

type Test = fn(Client) -> Pin<Box<dyn Future<Output = Result<()>>>>;

fn trials(cluster: Option<&Arc<Cluster>>) -> Vec<Trial> {
    let accepted = chart::value_files().into_iter().map(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("chart: {name} is accepted by the API server");
        trial(name, cluster, move |client| chart::accepted(client, file))
    });
    let test = |name: &str, test: Test| trial(name, cluster, test);
    let others = [
        test("chart: misspelt values are refused", |client| {
            Box::pin(chart::misspelt(client))
        }),
        test("pods: two echo Pods behind a load balancer", |client| {
            Box::pin(pods::echo(client))
        }),
        test(
            "helm: install, from nothing to the first answer",
            |client| Box::pin(install::from_nothing(client)),
        ),
        test("rights: what the accounts may do", |client| {
            Box::pin(rights::listed(client))
        }),
        test("rights: what other Pods are told", |client| {
            Box::pin(rights::ports(client))
        }),
        test("certificates: replaced under traffic", |client| {
            Box::pin(certificates::rotated(client))
        }),
        test("objects: edited, renamed, deleted", |client| {
            Box::pin(disturbances::objects(client))
        }),
        test("backends: scaled, rolled, killed", |client| {
            Box::pin(disturbances::backends(client))
        }),
        test("namespace: deleted and made again", |client| {
            Box::pin(disturbances::namespace(client))
        }),
        test("API server and etcd: killed and restarted", |client| {
            Box::pin(disturbances::api_server(client))
        }),
        test("control plane: killed", |client| {
            Box::pin(disturbances::control_plane(client))
        }),
        test("helm: upgrades under traffic", |client| {
            Box::pin(install::upgrades(client))
        }),
        test(
            "replicas: both serve, one writes, either may die",
            |client| Box::pin(replicas::either_may_die(client)),
        ),
        test(
            "values: DaemonSet, low ports as root, SotW, policies",
            |client| Box::pin(variants::daemon_set(client)),
        ),
        test("values: one namespace, rights in it only", |client| {
            Box::pin(variants::one_namespace(client))
        }),
        test("helm: uninstall leaves nothing", |client| {
            Box::pin(install::uninstall(client))
        }),
    ];
    accepted.chain(others).collect()
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
