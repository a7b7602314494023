//! The tests' real Kubernetes (`scripts/kube`): starting it, running trials inside its network, talking to it.
//!
//! Addresses of Services and Pods exist only in the cluster's network namespace. [`Cluster::inside`] moves a thread, and with
//! it all that the thread starts, into the namespace, so that the harness's clients work there as they are.

mod client;
mod images;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context as _, Result, bail};

use crate::envoy::workspace;
use crate::network;

pub use client::{Client, LIMIT};
pub use images::{ECHO, NEXT_TAG, TAG, load_images};

/// Exit code of `scripts/kube` on a machine that cannot run the cluster.
const CANNOT: i32 = 77;

/// The cluster of this checkout.
#[derive(Debug)]
pub struct Cluster {
    namespace: PathBuf,
    kubeconfig: PathBuf,
    programs: PathBuf,
    started_here: bool,
}

/// Why this machine cannot run the cluster; `None` = it can. Asked once.
pub fn missing() -> Option<&'static str> {
    static REASON: OnceLock<Option<String>> = OnceLock::new();
    let ask = || match script(&["check"]) {
        Ok(_) => None,
        Err(error) => Some(format!("{error:#}")),
    };
    REASON.get_or_init(ask).as_deref()
}

impl Cluster {
    /// Starts the cluster, or finds it running.
    ///
    /// # Errors
    /// It does not come up; the message holds the reason.
    pub fn start() -> Result<Self> {
        let was_running = script(&["status"]).is_ok();
        script(&["start"])?;
        // What the script knows is not written a second time here.
        let text = script(&[
            "exec",
            "sh",
            "-c",
            "echo $KUBECONFIG; dirname $(command -v kubectl)",
        ])?;
        let (kubeconfig, programs) = text.trim().split_once('\n').context("two lines expected")?;
        let state = Path::new(kubeconfig).parent().context("no state folder")?;
        let name = state.file_name().and_then(|name| name.to_str());
        let name = name
            .and_then(|name| name.strip_prefix("kube-"))
            .with_context(|| format!("{} is no state folder", state.display()))?;
        Ok(Self {
            namespace: Path::new("/run/netns").join(name),
            kubeconfig: kubeconfig.into(),
            programs: programs.into(),
            started_here: !was_running,
        })
    }

    /// Ends the cluster when it was started here; one that ran before goes on running.
    ///
    /// # Errors
    /// Something of it stays.
    pub fn stop(self) -> Result<()> {
        if self.started_here {
            script(&["stop"])?;
        }
        Ok(())
    }

    /// Runs `test` inside of the cluster's network, on a thread and a runtime of its own.
    ///
    /// # Errors
    /// Those of the test, or the namespace cannot be entered.
    pub fn inside<F>(&self, test: impl FnOnce(Client) -> F + Send) -> Result<()>
    where
        F: Future<Output = Result<()>>,
    {
        let client = Client::new(&self.kubeconfig, &self.programs);
        network::inside(&self.namespace, || test(client))
    }
}

/// Ends a component of the cluster at once, as a crash does; `scripts/kube status` lists them.
///
/// # Errors
/// There is none of that name.
pub fn kill(component: &str) -> Result<()> {
    script(&["kill", component]).map(drop)
}

/// Starts a component again that was killed.
///
/// # Errors
/// There is none of that name, or it does not start.
pub fn revive(component: &str) -> Result<()> {
    script(&["revive", component]).map(drop)
}

/// Runs `scripts/kube` and returns what it printed.
fn script(args: &[&str]) -> Result<String> {
    run(
        "kube",
        Command::new(workspace().join("scripts/kube")).args(args),
    )
}

/// Runs a script to its end; in the error its own words come first.
fn run(name: &str, command: &mut Command) -> Result<String> {
    let done = command.stdin(Stdio::null()).output();
    let done = done.with_context(|| format!("cannot run scripts/{name}"))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    match done.status.code() {
        Some(CANNOT) => bail!("{}", said.trim()),
        _ => bail!("scripts/{name} failed ({}): {}", done.status, said.trim()),
    }
}
