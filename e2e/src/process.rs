//! A child process whose output goes to a file and that ends with its owner.

use std::ffi::OsStr;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// How long a program may take to end after SIGTERM before it is killed.
const TERM_GRACE: Duration = Duration::from_secs(10);
/// How often a condition is looked at again.
pub const POLL: Duration = Duration::from_millis(10);

/// A running program. It is killed when dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    log: PathBuf,
    child: Child,
    pid: u32,
}

impl Process {
    /// Starts `program` with `args`; standard output and error are appended to `log`.
    ///
    /// # Errors
    /// The log cannot be written or the program cannot be started.
    pub fn start(name: &str, program: &Path, args: &[String], log: &Path) -> Result<Self> {
        let out = File::options().create(true).append(true).open(log);
        let out = out.with_context(|| format!("cannot write {}", log.display()))?;
        let child = Command::new(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {name}: {}", program.display()))?;
        let pid = child
            .id()
            .context("a child that was just started has an id")?;
        Ok(Self {
            name: name.to_owned(),
            log: log.to_owned(),
            child,
            pid,
        })
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// What the program has printed so far.
    pub fn output(&self) -> String {
        read_log(&self.log)
    }

    /// Fails with the tail of the log when the program has ended.
    ///
    /// # Errors
    /// The program has ended.
    pub fn check_alive(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!(
                "{} ended ({status}):\n{}",
                self.name,
                tail(&self.output(), 30)
            ),
        }
    }

    /// Waits until `address` accepts connections.
    ///
    /// # Errors
    /// The program ends, or `limit` passes first.
    pub async fn wait_for_port(&mut self, address: SocketAddr, limit: Duration) -> Result<()> {
        let start = Instant::now();
        while TcpStream::connect(address).await.is_err() {
            self.check_alive()?;
            if start.elapsed() > limit {
                let log = tail(&self.output(), 30);
                bail!(
                    "{} does not accept connections on {address} after {limit:?}:\n{log}",
                    self.name
                );
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// Ends the program at once (SIGKILL) and waits until it is gone.
    ///
    /// # Errors
    /// The program cannot be waited for.
    pub async fn kill(mut self) -> Result<()> {
        self.child
            .kill()
            .await
            .with_context(|| format!("cannot kill {}", self.name))
    }

    /// Asks the program to end (SIGTERM) and returns whether it ended with success.
    ///
    /// # Errors
    /// It does not end in time, and is killed.
    pub async fn terminate(mut self) -> Result<bool> {
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw)
            && self.child.try_wait()?.is_none()
        {
            kill_process(pid, Signal::TERM)?;
        }
        match tokio::time::timeout(TERM_GRACE, self.child.wait()).await {
            Ok(status) => Ok(status?.success()),
            Err(_) => {
                self.child.kill().await?;
                bail!(
                    "{} did not end within {TERM_GRACE:?} after SIGTERM",
                    self.name
                )
            }
        }
    }
}

/// The text of a log file; bytes that are no UTF-8 are replaced.
pub fn read_log(path: &Path) -> String {
    std::fs::read(path)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}

/// The last `count` lines of `text`.
pub fn tail(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines
        .get(lines.len().saturating_sub(count)..)
        .unwrap_or_default()
        .join("\n")
}

/// Runs `program` to its end and returns its standard output.
///
/// # Errors
/// As in [`output`].
pub async fn run(program: &Path, args: &[String]) -> Result<Vec<u8>> {
    output(Command::new(program).args(args), "").await
}

/// Runs a command to its end with `input`, and returns its standard output.
///
/// # Errors
/// It cannot be started or ends without success; the message holds its standard error.
pub async fn output(command: &mut Command, input: &str) -> Result<Vec<u8>> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot start {}", shown(command)))?;
    let mut stdin = child.stdin.take().context("the input is a pipe")?;
    let write = async {
        // A program that has seen enough closes its input; its exit status says whether that was right.
        stdin.write_all(input.as_bytes()).await.ok();
        drop(stdin);
    };
    let (done, ()) = tokio::join!(child.wait_with_output(), write);
    let done = done?;
    if !done.status.success() {
        let error = String::from_utf8_lossy(&done.stderr);
        bail!("{} failed ({}):\n{error}", shown(command), done.status);
    }
    Ok(done.stdout)
}

/// A command as it is typed.
fn shown(command: &Command) -> String {
    let command = command.as_std();
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(OsStr::to_string_lossy).collect();
    words.join(" ")
}

/// Waits until `check` gives a value, looking at it again every few milliseconds.
///
/// # Errors
/// `limit` passes first; `what` is named in the message.
pub async fn wait_until<T>(
    what: &str,
    limit: Duration,
    check: impl AsyncFnMut() -> Option<T>,
) -> Result<T> {
    wait_polling(what, limit, POLL, check).await
}

/// Like [`wait_until`], with a pause of `poll` between two looks, for those that cost something.
///
/// # Errors
/// `limit` passes first; `what` is named in the message.
pub async fn wait_polling<T>(
    what: &str,
    limit: Duration,
    poll: Duration,
    mut check: impl AsyncFnMut() -> Option<T>,
) -> Result<T> {
    let start = Instant::now();
    loop {
        if let Some(value) = check().await {
            return Ok(value);
        }
        if start.elapsed() > limit {
            bail!("not within {limit:?}: {what}");
        }
        tokio::time::sleep(poll).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_program_that_ends_early_shows_its_log() {
        let dir = tempfile::tempdir().unwrap();
        let args = ["-c".to_owned(), "echo port is taken; exit 3".to_owned()];
        let mut process =
            Process::start("sh", Path::new("/bin/sh"), &args, &dir.path().join("log")).unwrap();
        let free = SocketAddr::from(([127, 0, 0, 1], 1));
        let error = process
            .wait_for_port(free, Duration::from_secs(5))
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("exit status: 3") && error.contains("port is taken"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn terminate_ends_a_program() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let process =
            Process::start("sleep", Path::new("/bin/sleep"), &["60".to_owned()], &log).unwrap();
        assert!(!process.terminate().await.unwrap());
    }
}
