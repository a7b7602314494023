//! kubectl and helm, as a user runs them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use serde_json::Value;
use tokio::process::Command;

use crate::process::{self, wait_polling};

/// How long a condition may take unless a test says otherwise.
pub const LIMIT: Duration = Duration::from_secs(90);
/// Pause between two looks; each is a process of its own.
const POLL: Duration = Duration::from_millis(250);

/// Talks to the cluster as its admin.
#[derive(Debug, Clone)]
pub struct Client {
    kubeconfig: PathBuf,
    programs: PathBuf,
}

impl Client {
    pub(super) fn new(kubeconfig: &Path, programs: &Path) -> Self {
        Self {
            kubeconfig: kubeconfig.to_owned(),
            programs: programs.to_owned(),
        }
    }

    /// Runs kubectl.
    ///
    /// # Errors
    /// It ends without success; the message holds what it said.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.run("kubectl", args, "").await
    }

    /// Runs helm.
    ///
    /// # Errors
    /// It ends without success; the message holds what it said.
    pub async fn helm(&self, args: &[&str]) -> Result<String> {
        self.run("helm", args, "").await
    }

    /// Runs kubectl with `text` as its input.
    ///
    /// # Errors
    /// It ends without success; the message holds what it said.
    pub async fn kubectl_with(&self, args: &[&str], text: &str) -> Result<String> {
        self.run("kubectl", args, text).await
    }

    /// Applies manifests.
    ///
    /// # Errors
    /// The API server refuses one.
    pub async fn apply(&self, manifests: &str) -> Result<String> {
        self.kubectl_with(&["apply", "-f", "-"], manifests).await
    }

    /// An object, as the API server has it.
    ///
    /// # Errors
    /// There is none.
    pub async fn get(&self, namespace: &str, object: &str) -> Result<Value> {
        let text = self
            .kubectl(&["get", "-n", namespace, object, "-o", "json"])
            .await?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Waits until all Pods of a Deployment or DaemonSet, given as `kind/name`, are there in their newest form.
    ///
    /// # Errors
    /// Not within `limit`; the message says what the Pods of the namespace do instead.
    pub async fn rollout(&self, namespace: &str, workload: &str, limit: Duration) -> Result<()> {
        let timeout = format!("--timeout={}s", limit.as_secs());
        let done = self
            .kubectl(&["rollout", "status", "-n", namespace, workload, &timeout])
            .await;
        match done {
            Ok(_) => Ok(()),
            Err(error) => {
                let pods = self.describe_pods(namespace).await;
                Err(error.context(format!("Pods of {namespace}:\n{pods}")))
            }
        }
    }

    /// Waits for the address of a Service of type LoadBalancer.
    ///
    /// # Errors
    /// It has none within [`LIMIT`].
    pub async fn load_balancer(&self, namespace: &str, service: &str) -> Result<std::net::IpAddr> {
        let object = format!("service/{service}");
        let what = format!("address of {namespace}/{service}");
        let found = self.until(&what, async || {
            let service = self.get(namespace, &object).await.ok()?;
            service["status"]["loadBalancer"]["ingress"][0]["ip"]
                .as_str()?
                .parse()
                .ok()
        });
        found.await
    }

    /// Waits until `look` finds something.
    ///
    /// # Errors
    /// Not within [`LIMIT`]; `what` is named in the message.
    pub async fn until<T>(&self, what: &str, look: impl AsyncFnMut() -> Option<T>) -> Result<T> {
        wait_polling(what, LIMIT, POLL, look).await
    }

    /// Makes a namespace, empty: one of the same name that an earlier run left is removed first.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn fresh_namespace(&self, name: &str) -> Result<()> {
        self.delete_namespace(name).await?;
        self.namespace(name).await
    }

    /// Makes a namespace unless it is there, and waits until Pods can be admitted to it: its own account has to exist.
    ///
    /// # Errors
    /// The API server refuses, or the account does not come.
    pub async fn namespace(&self, name: &str) -> Result<()> {
        let create = [
            "create",
            "namespace",
            name,
            "--dry-run=client",
            "-o",
            "yaml",
        ];
        self.apply(&self.kubectl(&create).await?).await?;
        let account = async || self.get(name, "serviceaccount/default").await.ok();
        let account = self.until("the namespace's own account", account).await;
        account.map(drop)
    }

    /// Removes a namespace and waits until all in it is gone.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn delete_namespace(&self, name: &str) -> Result<()> {
        self.kubectl(&[
            "delete",
            "namespace",
            name,
            "--ignore-not-found",
            "--timeout=90s",
        ])
        .await?;
        Ok(())
    }

    /// States, events and last log lines of the Pods of a namespace, for messages.
    pub async fn describe_pods(&self, namespace: &str) -> String {
        let mut text = String::new();
        for args in [
            &["get", "pods", "-n", namespace, "-o", "wide"][..],
            &[
                "get",
                "events",
                "-n",
                namespace,
                "--field-selector=type=Warning",
            ][..],
        ] {
            text += &self
                .kubectl(args)
                .await
                .unwrap_or_else(|error| format!("{error:#}"));
        }
        let names = self
            .kubectl(&["get", "pods", "-n", namespace, "-o", "name"])
            .await;
        for pod in names.unwrap_or_default().lines() {
            let args = [
                "logs",
                "-n",
                namespace,
                pod,
                "--all-containers",
                "--prefix",
                "--tail=15",
            ];
            text += &self
                .kubectl(&args)
                .await
                .unwrap_or_else(|error| format!("{pod}: {error:#}\n"));
        }
        text
    }

    async fn run(&self, program: &str, args: &[&str], input: &str) -> Result<String> {
        let mut command = Command::new(self.programs.join(program));
        command.args(args).env("KUBECONFIG", &self.kubeconfig);
        let said = process::output(&mut command, input).await?;
        Ok(String::from_utf8_lossy(&said).into_owned())
    }
}
