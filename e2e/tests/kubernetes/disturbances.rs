//! What happens to a gateway in its life: edits, backends that come and go, namespaces that are deleted, an API server that
//! dies. A neighbour's requests run all the time, and none of them may fail.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::http::Target;
use e2e::kube::{self, Client};
use e2e::load::Load;

use crate::release::{self, CONTROLLER, NAMESPACE, Tenant, ingress, traffic};

/// Requests that may fail when Pods are killed without a word: those that were on their way to them.
const IN_FLIGHT: u64 = 8;

/// The stage of a trial: the release, a neighbour under load, and a tenant to whom things happen.
struct Stage<'c> {
    client: &'c Client,
    target: Target,
    neighbour: Tenant,
    load: Load,
    tenant: Tenant,
}

impl<'c> Stage<'c> {
    async fn set(client: &'c Client, name: &str) -> Result<Self> {
        release::with(client, &[]).await?;
        let target = release::target(client).await?;
        let neighbour = Tenant::new(client, &format!("{name}-neighbour"), &target).await?;
        let tenant = Tenant::new(client, name, &target).await?;
        let load = neighbour.load(&target);
        traffic(&load, Duration::from_secs(1)).await?;
        Ok(Self {
            client,
            target,
            neighbour,
            load,
            tenant,
        })
    }

    async fn clear(self) -> Result<()> {
        traffic(&self.load, Duration::from_secs(1)).await?;
        self.load.finish().await.context("the neighbour")?;
        self.tenant.remove(self.client).await?;
        self.neighbour.remove(self.client).await
    }

    async fn kubectl(&self, args: &[&str]) -> Result<()> {
        let args = [&["-n", &self.tenant.namespace], args].concat();
        self.client.kubectl(&args).await.map(drop)
    }

    async fn answers(&self, status: u16) -> Result<()> {
        self.tenant.answers(self.client, &self.target, status).await
    }
}

/// Runs `happen` on a stage.
async fn on_stage(
    client: Client,
    name: &str,
    happen: impl AsyncFnOnce(&Stage<'_>) -> Result<()>,
) -> Result<()> {
    let stage = Stage::set(&client, name).await?;
    happen(&stage).await?;
    stage.clear().await
}

/// An Ingress is edited, renamed and deleted.
pub(crate) async fn objects(client: Client) -> Result<()> {
    on_stage(client, "objects", async |stage| {
        let (client, tenant) = (stage.client, &stage.tenant);
        let load = tenant.load(&stage.target);
        // Another path beside the old one, while both are asked for.
        for path in ["/a", "/b"] {
            let next = ingress(&tenant.namespace, "more", &tenant.host, path);
            client.apply(&next).await?;
            traffic(&load, Duration::from_secs(1)).await?;
        }
        stage.kubectl(&["delete", "ingress", "more"]).await?;
        // A new name: the same rules in another object, then the old one goes.
        let renamed = ingress(&tenant.namespace, "renamed", &tenant.host, "/");
        client.apply(&renamed).await?;
        stage.kubectl(&["delete", "ingress", "shop"]).await?;
        traffic(&load, Duration::from_secs(2)).await?;
        load.finish().await.context("while the objects changed")?;
        let class = ["patch", "ingress", "renamed", "--type=merge", "-p"];
        let other = r#"{"spec":{"ingressClassName":"other"}}"#;
        stage.kubectl(&[&class[..], &[other]].concat()).await?;
        stage.answers(404).await?;
        stage
            .no_status("renamed")
            .await
            .context("of another class")?;
        let ours = r#"{"spec":{"ingressClassName":"higress"}}"#;
        stage.kubectl(&[&class[..], &[ours]].concat()).await?;
        stage.answers(200).await?;
        stage.kubectl(&["delete", "ingress", "renamed"]).await?;
        stage.answers(404).await
    })
    .await
}

impl Stage<'_> {
    /// Waits until an Ingress has no address in its status.
    async fn no_status(&self, name: &str) -> Result<()> {
        let object = format!("ingress/{name}");
        let look = async || {
            let ingress = self
                .client
                .get(&self.tenant.namespace, &object)
                .await
                .ok()?;
            let addresses = ingress["status"]["loadBalancer"]["ingress"].as_array();
            addresses.is_none_or(Vec::is_empty).then_some(())
        };
        self.client.until("the status is cleared", look).await
    }
}

/// Backends are scaled, rolled and killed.
pub(crate) async fn backends(client: Client) -> Result<()> {
    on_stage(client, "backends", async |stage| {
        let (client, tenant) = (stage.client, &stage.tenant);
        let load = tenant.load(&stage.target);
        for replicas in ["--replicas=4", "--replicas=1", "--replicas=3"] {
            stage
                .kubectl(&["scale", "deployment/echo", replicas])
                .await?;
            client
                .rollout(&tenant.namespace, "deployment/echo", kube::LIMIT)
                .await?;
            traffic(&load, Duration::from_secs(2)).await?;
        }
        stage
            .kubectl(&["rollout", "restart", "deployment/echo"])
            .await?;
        client
            .rollout(&tenant.namespace, "deployment/echo", kube::LIMIT)
            .await?;
        traffic(&load, Duration::from_secs(3)).await?;
        load.finish().await.context("scaled and rolled")?;

        let load = tenant.load(&stage.target);
        traffic(&load, Duration::from_secs(1)).await?;
        let pod = stage.one_pod().await?;
        stage
            .kubectl(&["delete", &pod, "--grace-period=0", "--force"])
            .await?;
        traffic(&load, Duration::from_secs(3)).await?;
        load.finish_with(IN_FLIGHT)
            .await
            .context("a Pod was killed")?;

        stage
            .kubectl(&["scale", "deployment/echo", "--replicas=0"])
            .await?;
        stage.answers(503).await?;
        stage
            .kubectl(&["scale", "deployment/echo", "--replicas=2"])
            .await?;
        stage.answers(200).await
    })
    .await
}

impl Stage<'_> {
    async fn one_pod(&self) -> Result<String> {
        let list = ["get", "pods", "-n", &self.tenant.namespace, "-o", "name"];
        let names = self.client.kubectl(&list).await?;
        let first = names.lines().next().context("no Pod")?;
        Ok(first.to_owned())
    }
}

/// A namespace is deleted with all that is in it, and made again.
pub(crate) async fn namespace(client: Client) -> Result<()> {
    on_stage(client, "namespace", async |stage| {
        stage
            .client
            .delete_namespace(&stage.tenant.namespace)
            .await?;
        stage.answers(404).await?;
        stage.client.namespace(&stage.tenant.namespace).await?;
        stage.tenant.fill(stage.client).await?;
        stage.answers(200).await
    })
    .await
}

/// etcd and the API server die, both tiers are killed in the meantime, all come back, and changes arrive again.
pub(crate) async fn api_server(client: Client) -> Result<()> {
    on_stage(client, "api", async |stage| {
        for component in ["kube-apiserver", "etcd"] {
            kube::kill(component)?;
        }
        let away = traffic(&stage.load, Duration::from_secs(10)).await;
        for component in ["etcd", "kube-apiserver"] {
            kube::revive(component)?;
        }
        away?;
        let ready = async || stage.client.kubectl(&["get", "--raw=/readyz"]).await.ok();
        stage.client.until("the API server is back", ready).await?;
        let next = ingress(&stage.tenant.namespace, "after", "after.example.com", "/");
        stage.client.apply(&next).await?;
        let after = Tenant {
            namespace: stage.tenant.namespace.clone(),
            host: "after.example.com".to_owned(),
        };
        after.answers(stage.client, &stage.target, 200).await?;
        stage
            .kubectl(&["delete", "ingress", "after", "shop"])
            .await?;
        stage.answers(404).await
    })
    .await
}

/// The control plane's Pod is killed: gateways keep what they have, and what was changed meanwhile arrives afterwards.
pub(crate) async fn control_plane(client: Client) -> Result<()> {
    on_stage(client, "control", async |stage| {
        let selector = format!("app={CONTROLLER}");
        let kill = [
            "delete",
            "pod",
            "-n",
            NAMESPACE,
            "-l",
            &selector,
            "--grace-period=0",
            "--force",
        ];
        for _ in 0..2 {
            stage.client.kubectl(&kill).await?;
            stage.kubectl(&["delete", "ingress", "shop"]).await?;
            stage.answers(404).await?;
            let again = ingress(&stage.tenant.namespace, "shop", &stage.tenant.host, "/");
            stage.client.apply(&again).await?;
            stage.answers(200).await?;
        }
        let pods = stage
            .client
            .kubectl(&["get", "pods", "-n", NAMESPACE, "-o", "json"])
            .await?;
        let pods: serde_json::Value = serde_json::from_str(&pods)?;
        for pod in pods["items"].as_array().into_iter().flatten() {
            for container in pod["status"]["containerStatuses"]
                .as_array()
                .into_iter()
                .flatten()
            {
                ensure!(
                    container["restartCount"] == 0,
                    "{} of {} was restarted",
                    container["name"],
                    pod["metadata"]["name"]
                );
            }
        }
        Ok(())
    })
    .await
}
