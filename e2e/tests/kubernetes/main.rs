//! The chart and the images on the tests' real Kubernetes (`scripts/kube`). Without it all trials are reported as ignored.

mod chart;
mod install;
mod pods;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use e2e::kube::{self, Client, Cluster};
use libtest_mimic::{Arguments, Failed, Trial};

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
    let cluster = if missing.is_some() || arguments.list {
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
        trial(
            "helm: install, upgrade, uninstall under traffic",
            cluster,
            install::lifecycle,
        ),
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
    Trial::test(name, run).with_ignored_flag(ignored)
}
