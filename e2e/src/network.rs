//! A network of its own: loopback, and a range of addresses that are local there without being loopback ones.
//!
//! An API server takes no endpoint with a loopback address. On a machine's own network a test cannot have others without
//! changing the machine, so trials that need them run in a network namespace, which ends with the process that made it.

use std::io::{BufRead as _, BufReader};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

use anyhow::{Context as _, Result, anyhow, bail};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Beginning of the backends' addresses in the cases, and what it becomes in a network of its own.
pub const ADDRESSES: (&str, &str) = ("127.0.1.", "10.254.1.");

/// Sets the namespace up, says so, and stays for as long as its input is open.
const SETUP: &str = "ip link set lo up && ip route add local 10.254.0.0/16 dev lo && echo up && exec cat >/dev/null";

/// A namespace and the process that holds it.
#[derive(Debug)]
struct Network {
    path: PathBuf,
    /// Ends when its input is closed, so at the latest when this process ends.
    _holder: Child,
}

static OWN: LazyLock<std::result::Result<Network, String>> =
    LazyLock::new(|| make().map_err(|error| format!("{error:#}")));

fn make() -> Result<Network> {
    let mut holder = Command::new("unshare")
        .args(["--net", "sh", "-c", SETUP])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("no network namespace can be made: cannot run unshare (util-linux)")?;
    let out = holder.stdout.take().context("its output is a pipe")?;
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line)?;
    if line.trim() != "up" {
        let said = holder.wait_with_output()?.stderr;
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        bail!("no network namespace can be made, which needs root: {said}");
    }
    Ok(Network {
        path: format!("/proc/{}/ns/net", holder.id()).into(),
        _holder: holder,
    })
}

/// Why there can be none; `None` = there is one.
pub fn missing() -> Option<&'static str> {
    OWN.as_ref().err().map(String::as_str)
}

/// Runs `test` in this process's own network.
///
/// # Errors
/// Those of the test, or there is none.
pub fn inside_own<F>(test: impl FnOnce() -> F + Send) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    let network = OWN.as_ref().map_err(|reason| anyhow!("{reason}"))?;
    inside(&network.path, test)
}

/// Runs `test` inside of a network namespace, given as a file, on a thread and a runtime of its own. What it starts is
/// inside too.
///
/// # Errors
/// Those of the test, or the namespace cannot be entered.
pub fn inside<F>(namespace: &Path, test: impl FnOnce() -> F + Send) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    let run = || {
        let file = std::fs::File::open(namespace)
            .with_context(|| format!("cannot open {}", namespace.display()))?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        runtime.block_on(test())
    };
    let joined = std::thread::scope(|scope| scope.spawn(run).join());
    joined.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(anyhow!("panic: {}", text.unwrap_or_default()))
    })
}
