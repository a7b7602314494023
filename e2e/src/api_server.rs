//! A bare Kubernetes API: etcd and kube-apiserver on loopback, without nodes. What watches and writes objects needs no more.
//!
//! The programs are those that `scripts/kube build` makes, in `$ISTHMUS_KUBE_CACHE` or `.cache/kube`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use anyhow::{Result, bail};
use rcgen::KeyPair;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use crate::audit::{self, Calls, USERS};
use crate::envoy::workspace;
use crate::ports::PortBlock;
use crate::process::{self, Process, wait_until};

/// How long the API may take to answer after its start.
const START_LIMIT: Duration = Duration::from_secs(120);
/// Bearer token of the tests' administrator.
const TOKEN: &str = "tests";
/// Bearer token and name of a user who has only the rights that a test gives.
pub const NARROW: &str = "narrow";

/// The three programs.
#[derive(Debug, Clone)]
struct Programs {
    etcd: PathBuf,
    server: PathBuf,
    kubectl: PathBuf,
}

static PROGRAMS: LazyLock<std::result::Result<Programs, String>> = LazyLock::new(find);

fn find() -> std::result::Result<Programs, String> {
    let cache = std::env::var_os("ISTHMUS_KUBE_CACHE").map(PathBuf::from);
    let bin = cache
        .unwrap_or_else(|| workspace().join(".cache/kube"))
        .join("bin");
    let one = |name: &str| {
        let path = bin.join(name);
        let hint = || format!("no {name} in {}: run `scripts/kube build`", bin.display());
        path.is_file().then_some(path).ok_or_else(hint)
    };
    Ok(Programs {
        etcd: one("etcd")?,
        server: one("kube-apiserver")?,
        kubectl: one("kubectl")?,
    })
}

/// Why there can be none; `None` = there can.
pub fn missing() -> Option<&'static str> {
    PROGRAMS.as_ref().err().map(String::as_str)
}

/// A running API; its programs are killed and its state removed when it is dropped.
#[derive(Debug)]
pub struct ApiServer {
    root: TempDir,
    ports: PortBlock,
    programs: Programs,
    etcd: Option<Process>,
    server: Option<Process>,
}

impl ApiServer {
    /// Starts an empty one and waits until it answers.
    ///
    /// # Errors
    /// The programs are missing or do not start.
    pub async fn start() -> Result<Self> {
        let programs = PROGRAMS.clone().map_err(anyhow::Error::msg)?;
        let root = tempfile::Builder::new().prefix("isthmus-api-").tempdir()?;
        let mut api = Self {
            root,
            ports: PortBlock::claim()?,
            programs,
            etcd: None,
            server: None,
        };
        let key = KeyPair::generate()?;
        std::fs::write(api.path("accounts.key"), key.serialize_pem())?;
        std::fs::write(api.path("accounts.pub"), key.public_key_pem())?;
        let tokens = [(TOKEN, "admin")].into_iter();
        let tokens = tokens.chain(USERS.map(|user| (user, user)));
        let tokens = tokens.map(|(token, user)| format!("{token},{user},{user},system:masters\n"));
        let narrow = format!("{NARROW},{NARROW},{NARROW}\n");
        std::fs::write(api.path("tokens.csv"), tokens.collect::<String>() + &narrow)?;
        std::fs::write(api.path("audit.yaml"), audit::POLICY)?;
        api.revive().await?;
        Ok(api)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn address(&self, index: u16) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports.port(index)).into()
    }

    /// Kills etcd and the API server at once; what they hold stays on disk.
    ///
    /// # Errors
    /// One cannot be killed.
    pub async fn kill(&mut self) -> Result<()> {
        for process in [self.server.take(), self.etcd.take()].into_iter().flatten() {
            process.kill().await?;
        }
        Ok(())
    }

    /// Starts both (again) and waits until they answer.
    ///
    /// # Errors
    /// One does not start.
    pub async fn revive(&mut self) -> Result<()> {
        let (client, peer) = (self.address(0), self.address(1));
        let client = format!("http://{client}");
        let etcd = [
            ("data-dir", self.path("etcd").display().to_string()),
            ("listen-client-urls", client.clone()),
            ("advertise-client-urls", client.clone()),
            ("listen-peer-urls", format!("http://{peer}")),
            ("unsafe-no-fsync", "true".to_owned()),
        ];
        let log = self.path("etcd.log");
        self.etcd = Some(Process::start(
            "etcd",
            &self.programs.etcd,
            &flags(&etcd),
            &log,
        )?);
        let path = |name: &str| self.path(name).display().to_string();
        let server = [
            ("etcd-servers", client),
            ("bind-address", Ipv4Addr::LOCALHOST.to_string()),
            ("secure-port", self.address(2).port().to_string()),
            ("cert-dir", path("certs")),
            ("token-auth-file", path("tokens.csv")),
            ("authorization-mode", "RBAC".to_owned()),
            (
                "service-account-issuer",
                "https://kubernetes.default.svc".to_owned(),
            ),
            ("service-account-key-file", path("accounts.pub")),
            ("service-account-signing-key-file", path("accounts.key")),
            ("service-cluster-ip-range", "10.96.0.0/14".to_owned()),
            // Nobody connects to it. Without it a machine without a default route has none that could be told.
            ("advertise-address", "192.0.2.1".to_owned()),
            ("audit-policy-file", path("audit.yaml")),
            ("audit-log-path", path("audit.log")),
            // No controllers run that would make the accounts that it asks for.
            ("disable-admission-plugins", "ServiceAccount".to_owned()),
        ];
        let log = self.path("server.log");
        let program = &self.programs.server;
        self.server = Some(Process::start(
            "kube-apiserver",
            program,
            &flags(&server),
            &log,
        )?);
        self.write_kubeconfig(&self.kubeconfig(), TOKEN)?;
        let ready = wait_until("the API server answers", START_LIMIT, async || {
            let answer = self.kubectl(&["get", "--raw", "/readyz"]).await;
            answer.ok().filter(|text| text.contains("ok"))
        });
        if let Err(error) = ready.await {
            let server = self
                .server
                .as_ref()
                .map(Process::output)
                .unwrap_or_default();
            bail!("{error:#}\n{}", crate::process::tail(&server, 20));
        }
        Ok(())
    }

    fn write_kubeconfig(&self, path: &Path, token: &str) -> Result<()> {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: tests\n\
             clusters: [{{name: tests, cluster: {{server: 'https://{}', certificate-authority: '{}', \
             tls-server-name: kubernetes.default.svc}}}}]\n\
             users: [{{name: tests, user: {{token: {token}}}}}]\n\
             contexts: [{{name: tests, context: {{cluster: tests, user: tests}}}}]\n",
            self.address(2),
            self.path("certs/apiserver.crt").display(),
        );
        Ok(std::fs::write(path, text)?)
    }

    /// File that tells one of [`USERS`], or [`NARROW`], how to reach it; the requests of the former are counted.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn kubeconfig_of(&self, user: &str) -> Result<PathBuf> {
        let path = self.path(&format!("kubeconfig-{user}"));
        self.write_kubeconfig(&path, user)?;
        Ok(path)
    }

    /// Requests of [`USERS`] so far.
    ///
    /// # Errors
    /// The log is unreadable.
    pub fn calls(&self) -> Result<Calls> {
        Calls::read(&self.path("audit.log"))
    }

    /// File that tells how to reach it.
    pub fn kubeconfig(&self) -> PathBuf {
        self.path("kubeconfig")
    }

    /// Runs kubectl and returns what it printed.
    ///
    /// # Errors
    /// It ends without success; the message holds what it said.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.kubectl_with(args, "").await
    }

    async fn kubectl_with(&self, args: &[&str], input: &str) -> Result<String> {
        let mut command = Command::new(&self.programs.kubectl);
        command
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .args(args);
        let said = process::output(&mut command, input).await?;
        Ok(String::from_utf8_lossy(&said).into_owned())
    }

    /// Applies manifests.
    ///
    /// # Errors
    /// The API server refuses one.
    pub async fn apply(&self, manifests: &str) -> Result<()> {
        let args = ["apply", "--server-side", "-f", "-"];
        self.kubectl_with(&args, manifests).await.map(drop)
    }

    /// An object, given as `kind/name`, in the namespace `default` unless `args` say otherwise.
    ///
    /// # Errors
    /// There is none.
    pub async fn get(&self, args: &[&str]) -> Result<Value> {
        let args = [&["get", "-o", "json"], args].concat();
        Ok(serde_json::from_str(&self.kubectl(&args).await?)?)
    }
}

fn flags(pairs: &[(&str, String)]) -> Vec<String> {
    let flag = |(name, value): &(&str, String)| format!("--{name}={value}");
    pairs.iter().map(flag).collect()
}
