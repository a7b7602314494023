//! The chart's release that the trials share, and tenants with two echo Pods and an Ingress each.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result};
use e2e::http::{Answer, Exchange, Target};
use e2e::kube::{self, Client};
use e2e::load::Load;
use tokio::sync::OnceCell;

use crate::{chart, pods};

/// Namespace of the release.
pub(crate) const NAMESPACE: &str = "higress-system";
/// Name of the controller's Deployment, Service and account.
pub(crate) const CONTROLLER: &str = "higress-controller";
/// Name of the gateways' Deployment, Service and account.
pub(crate) const GATEWAY: &str = "higress-gateway";
/// How long helm may wait for Pods.
const HELM_LIMIT: &str = "180s";

/// Brings the images to the node, once.
pub(crate) async fn images() -> Result<()> {
    static LOADED: OnceCell<()> = OnceCell::const_new();
    let load = || async { kube::load_images(&["controller", "pilot", "gateway", "echo"]) };
    LOADED.get_or_try_init(load).await.map(drop)
}

/// Runs `helm install` or `helm upgrade` with the images under test and waits until all Pods are ready.
///
/// # Errors
/// helm refuses, or Pods do not get ready.
pub(crate) async fn helm(client: &Client, verb: &[&str], tag: &str, sets: &[&str]) -> Result<()> {
    let chart = chart::folder();
    let tags = format!(
        "controller.tag={tag},pilot.tag={tag},gateway.tag={tag},global.imagePullPolicy=Never"
    );
    let fixed = [
        "isthmus",
        &chart,
        "--namespace",
        NAMESPACE,
        "--wait",
        "--timeout",
        HELM_LIMIT,
        "--set",
        &tags,
    ];
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    client
        .helm(&[verb, &fixed[..], &sets].concat())
        .await
        .with_context(|| format!("helm {} {}", verb.join(" "), sets.join(" ")))?;
    Ok(())
}

/// The release with these values; what other trials left is upgraded.
///
/// # Errors
/// As in [`helm`].
pub(crate) async fn with(client: &Client, sets: &[&str]) -> Result<()> {
    images().await?;
    client.namespace(NAMESPACE).await?;
    helm(
        client,
        &["upgrade", "--install", "--reset-values"],
        kube::TAG,
        sets,
    )
    .await
}

/// Runs a trial; when it fails, adds what the Pods of the release say.
///
/// # Errors
/// Those of the trial.
pub(crate) async fn explained<F>(client: Client, test: impl FnOnce(Client) -> F) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    match test(client.clone()).await {
        Ok(()) => Ok(()),
        Err(error) => Err(error.context(client.describe_pods(NAMESPACE).await)),
    }
}

/// Pods of the release that are not about to end, by name, with their addresses.
///
/// # Errors
/// One has no address yet.
pub(crate) async fn pods(client: &Client, app: &str) -> Result<BTreeMap<String, IpAddr>> {
    let selector = format!("app={app}");
    let list = [
        "get", "pods", "-n", NAMESPACE, "-l", &selector, "-o", "json",
    ];
    let list: serde_json::Value = serde_json::from_str(&client.kubectl(&list).await?)?;
    let pods = list["items"].as_array().into_iter().flatten();
    let running = pods.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    running
        .map(|pod| {
            let name = pod["metadata"]["name"].as_str().context("no name")?;
            let address = pod["status"]["podIP"].as_str().context("no address")?;
            Ok((name.to_owned(), address.parse()?))
        })
        .collect()
}

/// A page of a Pod.
///
/// # Errors
/// It does not answer.
pub(crate) async fn page(pod: IpAddr, port: u16, path: &str) -> Result<Answer> {
    let target = Target::plain(SocketAddr::new(pod, port));
    Exchange::get("localhost", path).send(&target).await
}

/// The gateways' address.
///
/// # Errors
/// The Service has none in time.
pub(crate) async fn target(client: &Client) -> Result<Target> {
    let address = client.load_balancer(NAMESPACE, GATEWAY).await?;
    Ok(Target::plain(SocketAddr::new(address, 80)))
}

/// A namespace with a Deployment `echo` of two Pods and an Ingress that leads to it.
#[derive(Debug)]
pub(crate) struct Tenant {
    pub(crate) namespace: String,
    pub(crate) host: String,
}

impl Tenant {
    /// Makes it anew and waits until its host answers.
    ///
    /// # Errors
    /// Something does not come up.
    pub(crate) async fn new(client: &Client, name: &str, target: &Target) -> Result<Self> {
        let tenant = Self {
            namespace: format!("isthmus-{name}"),
            host: format!("{name}.example.com"),
        };
        client.fresh_namespace(&tenant.namespace).await?;
        tenant.fill(client).await?;
        tenant.answers(client, target, 200).await?;
        Ok(tenant)
    }

    /// Makes all that is in its namespace.
    ///
    /// # Errors
    /// The API server refuses, or the Pods do not get ready.
    pub(crate) async fn fill(&self, client: &Client) -> Result<()> {
        let backends = pods::manifests(&self.namespace, "ClusterIP");
        client.apply(&backends).await?;
        let ingress = ingress(&self.namespace, "shop", &self.host, "/");
        client.apply(&ingress).await?;
        client
            .rollout(&self.namespace, "deployment/echo", kube::LIMIT)
            .await
    }

    /// Waits until its host answers with a status.
    ///
    /// # Errors
    /// It does not; the message says what it answered last.
    pub(crate) async fn answers(
        &self,
        client: &Client,
        target: &Target,
        status: u16,
    ) -> Result<()> {
        let mut last = String::new();
        let look = async || match self.ask(target, "/").await {
            Ok(answer) if answer.status == status => Some(()),
            Ok(answer) => {
                last = format!("{}: {}", answer.status, answer.text());
                None
            }
            Err(error) => {
                last = format!("{error:#}");
                None
            }
        };
        let what = format!("{} answers {status}", self.host);
        let done = client.until(&what, look).await;
        done.with_context(|| format!("last answer of {}: {last}", self.host))
    }

    /// Waits for an address in the status of one of its Ingresses, and returns it.
    ///
    /// # Errors
    /// There is none in time.
    pub(crate) async fn status(&self, client: &Client, name: &str) -> Result<String> {
        let object = format!("ingress/{name}");
        let look = async || {
            let ingress = client.get(&self.namespace, &object).await.ok()?;
            let address = &ingress["status"]["loadBalancer"]["ingress"][0]["ip"];
            Some(address.as_str()?.to_owned())
        };
        client
            .until(&format!("an address in the status of {name}"), look)
            .await
    }

    /// Sends a request to its host.
    ///
    /// # Errors
    /// There is no answer.
    pub(crate) async fn ask(&self, target: &Target, path: &str) -> Result<Answer> {
        Exchange::get(&self.host, path).send(target).await
    }

    /// Two hundred requests a second to its host.
    pub(crate) fn load(&self, target: &Target) -> Load {
        Load::paced(target, &self.host, 4, 50)
    }

    /// Removes it, without waiting for its end.
    ///
    /// # Errors
    /// The API server refuses.
    pub(crate) async fn remove(self, client: &Client) -> Result<()> {
        let delete = ["delete", "namespace", &self.namespace, "--wait=false"];
        client.kubectl(&delete).await.map(drop)
    }
}

/// An Ingress that leads a path of a host to the Service `echo`.
pub(crate) fn ingress(namespace: &str, name: &str, host: &str, path: &str) -> String {
    format!(
        r#"
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {{ name: {name}, namespace: {namespace} }}
spec:
  ingressClassName: higress
  rules:
    - host: {host}
      http:
        paths:
          - path: {path}
            pathType: Prefix
            backend: {{ service: {{ name: echo, port: {{ number: 80 }} }} }}
"#
    )
}

/// Lets some time of traffic pass.
///
/// # Errors
/// The requests are not answered in time.
pub(crate) async fn traffic(load: &Load, time: Duration) -> Result<()> {
    load.more((time.as_secs_f64() * 200.0) as u64).await
}
