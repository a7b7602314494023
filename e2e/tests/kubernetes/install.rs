//! The chart as a user installs it: from nothing to the first answer, upgrades under traffic, rights, and nothing left behind.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use e2e::http::{Exchange, Target};
use e2e::kube::{self, Client};
use e2e::load::Load;

use crate::{chart, pods};

const NAMESPACE: &str = "higress-system";
const BACKENDS: &str = "isthmus-shop";
const HOST: &str = "shop.example.com";
/// What a namespace has of its own.
const OWN: [&str; 2] = ["configmap/kube-root-ca.crt", "serviceaccount/default"];

/// What the control plane may do, as `resource: verbs`. What is more than this is a decision, not an accident.
const RIGHTS: [&str; 8] = [
    "endpointslices.discovery.k8s.io: get list watch",
    "events.events.k8s.io: create",
    "ingressclasses.networking.k8s.io: get list watch",
    "ingresses.networking.k8s.io/status: patch",
    "ingresses.networking.k8s.io: get list watch",
    "leases.coordination.k8s.io: get create update",
    "secrets: get list watch",
    "services: get list watch",
];

/// The whole life of a release.
pub(crate) async fn lifecycle(client: Client) -> Result<()> {
    kube::load_images(&["controller", "pilot", "gateway", "echo"])?;
    client
        .helm(&[
            "uninstall",
            "isthmus",
            "-n",
            NAMESPACE,
            "--ignore-not-found",
            "--wait",
        ])
        .await?;
    client.fresh_namespace(NAMESPACE).await?;
    client.fresh_namespace(BACKENDS).await?;
    client
        .apply(&pods::manifests(BACKENDS, "ClusterIP"))
        .await?;
    client.apply(&ingress()).await?;
    client
        .rollout(BACKENDS, "deployment/echo", kube::LIMIT)
        .await?;
    let result = installed(&client).await;
    let result = match result {
        Ok(()) => Ok(()),
        Err(error) => Err(error.context(client.describe_pods(NAMESPACE).await)),
    };
    client.delete_namespace(BACKENDS).await?;
    result
}

async fn installed(client: &Client) -> Result<()> {
    helm(client, "install", &[]).await?;
    let address = client.load_balancer(NAMESPACE, "higress-gateway").await?;
    let target = Target::plain(SocketAddr::new(address, 80));
    let first = async || {
        let answer = Exchange::get(HOST, "/").send(&target).await.ok()?;
        (answer.status == 200).then_some(())
    };
    client.until("the first answer", first).await?;
    let status = async || {
        let ingress = client.get(BACKENDS, "ingress/shop").await.ok()?;
        let ip = ingress["status"]["loadBalancer"]["ingress"][0]["ip"].as_str()?;
        (ip == address.to_string()).then_some(())
    };
    client
        .until("the address in the Ingress's status", status)
        .await?;
    client.helm(&["test", "isthmus", "-n", NAMESPACE]).await?;
    rights(client).await?;
    upgrades(client, &target).await?;
    client
        .helm(&["uninstall", "isthmus", "-n", NAMESPACE, "--wait"])
        .await?;
    nothing_left(client).await
}

/// Runs `helm install` or `helm upgrade` with the images under test.
async fn helm(client: &Client, verb: &str, more: &[&str]) -> Result<()> {
    let (chart, tag) = (chart::folder(), kube::TAG);
    let tags = format!("controller.tag={tag},pilot.tag={tag},gateway.tag={tag}");
    let args = [
        verb,
        "isthmus",
        &chart,
        "-n",
        NAMESPACE,
        "--wait",
        "--timeout",
        "120s",
        "--set",
        &tags,
        "--set",
        "global.imagePullPolicy=Never",
    ];
    client.helm(&[&args[..], more].concat()).await?;
    Ok(())
}

/// Other numbers of gateways and other values, while requests are sent: none fails.
async fn upgrades(client: &Client, target: &Target) -> Result<()> {
    let load = Load::start(target, HOST, 2);
    load.more(200).await?;
    for values in [
        "gateway.replicas=3",
        "gateway.replicas=1",
        "gateway.replicas=1,gateway.podAnnotations.turn=two,controller.podAnnotations.turn=two",
    ] {
        helm(client, "upgrade", &["--set", values])
            .await
            .with_context(|| values.to_owned())?;
        load.more(200).await.with_context(|| values.to_owned())?;
    }
    load.finish().await
}

async fn rights(client: &Client) -> Result<()> {
    let expected: BTreeSet<String> = RIGHTS.iter().map(|line| (*line).to_owned()).collect();
    for (account, expected) in [
        ("higress-controller", expected),
        ("higress-gateway", BTreeSet::new()),
    ] {
        let who = format!("--as=system:serviceaccount:{NAMESPACE}:{account}");
        let list = [
            "auth",
            "can-i",
            "--list",
            "--no-headers",
            "-n",
            NAMESPACE,
            &who,
        ];
        let found = parse_rights(&client.kubectl(&list).await?);
        ensure!(found == expected, "{account} may do this:\n{found:#?}");
    }
    Ok(())
}

/// Lines of `kubectl auth can-i --list`: resource, URLs, names, verbs, each list in brackets. What everybody may (questions
/// about oneself, public URLs) is left out.
fn parse_rights(text: &str) -> BTreeSet<String> {
    let own = ["selfsubject", "["];
    let lines = text
        .lines()
        .filter(|line| own.iter().all(|start| !line.starts_with(start)));
    lines
        .filter_map(|line| {
            let resource = line.split_whitespace().next()?;
            let verbs = line.rsplit_once('[')?.1.strip_suffix(']')?;
            Some(format!("{resource}: {verbs}"))
        })
        .collect()
}

async fn nothing_left(client: &Client) -> Result<()> {
    let kinds = "all,configmap,secret,serviceaccount,role,rolebinding,networkpolicy,poddisruptionbudget,ingress";
    let gone = async || {
        let left = client
            .kubectl(&["get", kinds, "-n", NAMESPACE, "-o", "name"])
            .await
            .ok()?;
        let mut names = left
            .lines()
            .map(|line| line.replacen(".rbac.authorization.k8s.io", "", 1));
        names.all(|name| OWN.contains(&name.as_str())).then_some(())
    };
    client
        .until("nothing is left in the namespace", gone)
        .await?;
    let cluster = "clusterrole,clusterrolebinding,ingressclass";
    let left = client
        .kubectl(&[
            "get",
            cluster,
            "-l",
            "app.kubernetes.io/part-of=isthmus",
            "-o",
            "name",
        ])
        .await?;
    ensure!(left.is_empty(), "left behind:\n{left}");
    Ok(())
}

fn ingress() -> String {
    format!(
        r#"
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {{ name: shop, namespace: {BACKENDS} }}
spec:
  ingressClassName: higress
  rules:
    - host: {HOST}
      http:
        paths:
          - path: /
            pathType: Prefix
            backend: {{ service: {{ name: echo, port: {{ number: 80 }} }} }}
"#
    )
}
