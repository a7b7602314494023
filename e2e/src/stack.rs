//! Controller, pilot and Envoy of one run, on ports and in a folder of their own.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use crate::envoy;
use crate::http::{Exchange, Target};
use crate::ports::PortBlock;
use crate::process::{self, Process};

/// How long a program may take until it accepts connections.
const START_LIMIT: Duration = Duration::from_secs(25);
/// Name of the file in the config folder that holds the manifests.
const MANIFESTS: &str = "manifests.yaml";

/// The ports of a run, as offsets in its block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// Controller: MCP over xDS.
    Mcp,
    /// Controller: readiness, debug, metrics.
    ControllerHttp,
    /// Pilot: xDS.
    Grpc,
    /// Pilot: readiness and debug.
    PilotHttp,
    /// Pilot: metrics.
    Monitoring,
    /// Envoy: admin.
    Admin,
    /// Envoy: plain text.
    Http,
    /// Envoy: TLS.
    Https,
    /// Pilot: xDS over TLS. The ports in between are those of backends.
    Secure = 14,
}

/// The programs under test.
#[derive(Debug, Clone)]
pub struct Programs {
    /// Controller binary.
    pub controller: PathBuf,
    /// Pilot binary.
    pub pilot: PathBuf,
}

/// Finds the programs in `$ISTHMUS_BIN_DIR`, else beside the test executable.
///
/// # Errors
/// One of them has not been built.
pub fn programs() -> Result<Programs> {
    let dir = match std::env::var_os("ISTHMUS_BIN_DIR") {
        Some(dir) => PathBuf::from(dir),
        None => {
            let here = std::env::current_exe().context("no path of the running program")?;
            let parent = here.parent().context("the running program has no folder")?;
            if parent.ends_with("deps") {
                parent.join("..")
            } else {
                parent.to_path_buf()
            }
        }
    };
    let find = |name: &str| {
        let hint = || {
            format!(
                "no {name} in {}: run `cargo build`, or set ISTHMUS_BIN_DIR",
                dir.display()
            )
        };
        std::fs::canonicalize(dir.join(name)).with_context(hint)
    };
    Ok(Programs {
        controller: find("controller")?,
        pilot: find("pilot")?,
    })
}

/// Input of a run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Text of the manifest file.
    pub manifests: String,
    /// Further files of the config folder.
    pub files: BTreeMap<String, String>,
    /// Both programs read this cluster instead of the config folder.
    pub kubeconfig: Option<PathBuf>,
    /// The pilot reads it as another user than the controller does.
    pub pilot_kubeconfig: Option<PathBuf>,
    /// Pilot serves xDS over TLS too, and Envoy uses it.
    pub secure: bool,
    /// Extra arguments of `controller serve`.
    pub controller_args: Vec<String>,
    /// Extra arguments of `pilot serve`.
    pub pilot_args: Vec<String>,
    /// Extra arguments of `pilot bootstrap`.
    pub bootstrap_args: Vec<String>,
}

/// A run; its programs are killed and its folder removed when it is dropped.
#[derive(Debug)]
pub struct Stack {
    options: Options,
    programs: Programs,
    ports: PortBlock,
    root: TempDir,
    /// Running controller.
    pub controller: Option<Process>,
    /// Running pilot.
    pub pilot: Option<Process>,
    /// Running Envoy.
    pub envoy: Option<Process>,
}

impl Stack {
    /// Writes the input to a fresh folder and claims ports; nothing is started yet.
    ///
    /// # Errors
    /// A program is missing, or the folder cannot be written.
    pub fn new(options: Options) -> Result<Self> {
        let root = tempfile::Builder::new().prefix("isthmus-e2e-").tempdir()?;
        let stack = Self {
            programs: programs()?,
            ports: PortBlock::claim()?,
            root,
            options,
            controller: None,
            pilot: None,
            envoy: None,
        };
        std::fs::create_dir(stack.config_dir())?;
        stack.write(MANIFESTS, &stack.options.manifests)?;
        for (name, text) in &stack.options.files {
            stack.write(name, text)?;
        }
        Ok(stack)
    }

    /// Adds arguments of `pilot bootstrap`, such as those that need ports of this run.
    pub fn add_bootstrap_args(&mut self, args: &[String]) {
        self.options.bootstrap_args.extend(args.iter().cloned());
    }

    /// The folder that controller and pilot watch.
    pub fn config_dir(&self) -> PathBuf {
        self.root.path().join("config")
    }

    /// Replaces a file of the config folder in one step, as editors and mounted volumes do.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        let (path, next) = (self.config_dir().join(name), self.root.path().join("next"));
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(&next, text)?;
        std::fs::rename(&next, &path).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Removes a file of the config folder.
    ///
    /// # Errors
    /// There is none.
    pub fn remove(&self, name: &str) -> Result<()> {
        Ok(std::fs::remove_file(self.config_dir().join(name))?)
    }

    /// Loopback address of a port of this run.
    pub fn address(&self, port: Port) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports.port(port as u16)).into()
    }

    /// Plain text target of a port of this run.
    pub fn target(&self, port: Port) -> Target {
        Target::plain(self.address(port))
    }

    /// Loopback address for a backend of this run; `index` counts from 0 to 5.
    pub fn backend(&self, index: u16) -> SocketAddr {
        (
            Ipv4Addr::LOCALHOST,
            self.ports.port(Port::Https as u16 + 1 + index),
        )
            .into()
    }

    /// Target for TLS with a server name.
    pub fn tls_target(&self, server_name: &str) -> Target {
        Target::tls(self.address(Port::Https), server_name)
    }

    /// Where objects come from; `directory` is the flag for a folder.
    fn source(
        &self,
        directory: &'static str,
        kubeconfig: Option<&PathBuf>,
    ) -> (&'static str, String) {
        match kubeconfig.or(self.options.kubeconfig.as_ref()) {
            Some(file) => ("--kubeconfig", file.display().to_string()),
            None => (directory, self.config_dir().display().to_string()),
        }
    }

    /// Arguments of `pilot bootstrap` for the next start of Envoy.
    pub fn set_bootstrap_args(&mut self, args: &[&str]) {
        self.options.bootstrap_args = args.iter().map(|&arg| arg.to_owned()).collect();
    }

    /// What a program has written, `controller`, `pilot` or `envoy`.
    pub fn log_of(&self, name: &str) -> String {
        process::read_log(&self.log(name))
    }

    fn log(&self, name: &str) -> PathBuf {
        self.root.path().join(format!("{name}.log"))
    }

    /// Starts the controller.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start_controller(&mut self) -> Result<()> {
        let mut args = flags(&[
            self.source("--config-dir", None),
            ("--mcp-address", self.address(Port::Mcp).to_string()),
            (
                "--http-address",
                self.address(Port::ControllerHttp).to_string(),
            ),
            (
                "--gateway-http-port",
                self.address(Port::Http).port().to_string(),
            ),
            (
                "--gateway-https-port",
                self.address(Port::Https).port().to_string(),
            ),
        ]);
        args.extend(self.options.controller_args.iter().cloned());
        let log = self.log("controller");
        self.controller = Some(Process::start(
            "controller",
            &self.programs.controller,
            &args,
            &log,
        )?);
        Ok(())
    }

    /// Starts pilot.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start_pilot(&mut self) -> Result<()> {
        let secure = match self.options.secure {
            true => self.address(Port::Secure).to_string(),
            false => String::new(),
        };
        let mut args = flags(&[
            (
                "--config-source",
                format!("xds://{}", self.address(Port::Mcp)),
            ),
            self.source("--registry-dir", self.options.pilot_kubeconfig.as_ref()),
            ("--grpc-address", self.address(Port::Grpc).to_string()),
            ("--secure-grpc-address", secure),
            ("--http-address", self.address(Port::PilotHttp).to_string()),
            (
                "--monitoring-address",
                self.address(Port::Monitoring).to_string(),
            ),
        ]);
        args.extend(self.options.pilot_args.iter().cloned());
        self.pilot = Some(Process::start(
            "pilot",
            &self.programs.pilot,
            &args,
            &self.log("pilot"),
        )?);
        Ok(())
    }

    /// Starts Envoy with the bootstrap that pilot prints.
    ///
    /// # Errors
    /// There is no Envoy, or pilot prints no bootstrap.
    pub async fn start_envoy(&mut self) -> Result<()> {
        let bootstrap = self.root.path().join("bootstrap.json");
        let xds = match self.options.secure {
            true => Port::Secure,
            false => Port::Grpc,
        };
        let mut args = vec![
            "bootstrap".to_owned(),
            "--xds-address".to_owned(),
            self.address(xds).to_string(),
            "--admin-port".to_owned(),
            self.address(Port::Admin).port().to_string(),
        ];
        args.extend(self.options.bootstrap_args.iter().cloned());
        std::fs::write(&bootstrap, process::run(&self.programs.pilot, &args).await?)?;
        let path = bootstrap.display().to_string();
        let args = [
            "-c",
            &path,
            "--concurrency",
            "1",
            "--disable-hot-restart",
            "-l",
            "warning",
        ]
        .map(str::to_owned);
        self.envoy = Some(Process::start(
            "envoy",
            &envoy::find()?,
            &args,
            &self.log("envoy"),
        )?);
        Ok(())
    }

    /// Starts controller and pilot one after the other.
    ///
    /// # Errors
    /// One of them does not start or does not accept connections in time.
    pub async fn start_control_plane(&mut self) -> Result<()> {
        self.start_controller()?;
        self.wait_for(Port::Mcp).await?;
        self.start_pilot()?;
        self.wait_for(Port::Grpc).await
    }

    /// Starts the three programs one after the other, and waits until Envoy accepts requests.
    ///
    /// # Errors
    /// One of them does not start or does not accept connections in time.
    pub async fn start(&mut self) -> Result<()> {
        self.start_control_plane().await?;
        self.start_envoy().await?;
        self.wait_for(Port::Http).await
    }

    /// Waits until the owner of `port` accepts connections.
    ///
    /// # Errors
    /// It is not running, ends, or does not listen in time.
    pub async fn wait_for(&mut self, port: Port) -> Result<()> {
        let address = self.address(port);
        let process = match port {
            Port::Mcp | Port::ControllerHttp => &mut self.controller,
            Port::Grpc | Port::Secure | Port::PilotHttp | Port::Monitoring => &mut self.pilot,
            Port::Admin | Port::Http | Port::Https => &mut self.envoy,
        };
        process
            .as_mut()
            .context("the program is not running")?
            .wait_for_port(address, START_LIMIT)
            .await
    }

    /// Fails when one of the started programs has ended.
    ///
    /// # Errors
    /// One has ended; the message holds the end of its log.
    pub fn check_alive(&mut self) -> Result<()> {
        for process in [&mut self.controller, &mut self.pilot, &mut self.envoy]
            .into_iter()
            .flatten()
        {
            process.check_alive()?;
        }
        Ok(())
    }

    /// Lines of Envoy's log that tell of refused configuration.
    pub fn rejections(&self) -> Vec<String> {
        let log = process::read_log(&self.log("envoy"));
        log.lines()
            .filter(|line| line.contains("rejected"))
            .map(str::to_owned)
            .collect()
    }

    /// The ends of all logs, for a report.
    pub fn logs(&self) -> String {
        let one = |name: &str| {
            format!(
                "--- {name}\n{}\n",
                process::tail(&process::read_log(&self.log(name)), 25)
            )
        };
        ["controller", "pilot", "envoy"].map(one).concat()
    }

    /// Reads a counter of `/metrics`; the values of all series whose labels contain `label` are added up.
    ///
    /// # Errors
    /// The page does not answer.
    pub async fn metric(&self, port: Port, name: &str, label: &str) -> Result<f64> {
        let page = Exchange::get("localhost", "/metrics")
            .send(&self.target(port))
            .await?
            .text();
        Ok(sum_metric(&page, name, label))
    }

    /// Keeps the folder of the run and returns its path.
    pub fn keep(&mut self) -> &Path {
        self.root.disable_cleanup(true);
        self.root.path()
    }
}

fn flags(pairs: &[(&str, String)]) -> Vec<String> {
    let pairs = pairs
        .iter()
        .flat_map(|(name, value)| [(*name).to_owned(), value.clone()]);
    std::iter::once("serve".to_owned()).chain(pairs).collect()
}

/// Sum of the series `name` in a Prometheus page whose label text contains `label`.
pub fn sum_metric(page: &str, name: &str, label: &str) -> f64 {
    let series = page.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let (labels, value) = match rest.strip_prefix('{') {
            Some(rest) => rest.rsplit_once('}')?,
            None => ("", rest.strip_prefix(' ')?),
        };
        labels
            .contains(label)
            .then(|| value.split_whitespace().next()?.parse::<f64>().ok())
            .flatten()
    });
    series.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_added_up() {
        let page = "# TYPE a counter\na_total{type=\"rds\"} 3\na_total{type=\"cds\"} 4 12\nab_total 9\nb_total 2\n";
        assert_eq!(sum_metric(page, "a_total", ""), 7.0);
        assert_eq!(sum_metric(page, "a_total", "type=\"rds\""), 3.0);
        assert_eq!(sum_metric(page, "b_total", ""), 2.0);
        assert_eq!(sum_metric(page, "c_total", ""), 0.0);
    }
}
