//! What everything else rests on: the cluster runs our images, and a Service's address leads to all of its Pods.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use anyhow::{Result, ensure};
use e2e::echo::Seen;
use e2e::http::{Exchange, Target};
use e2e::kube::{self, Client};

/// Two echo Pods answer at their Service's address.
pub(crate) async fn echo(client: Client) -> Result<()> {
    let namespace = "isthmus-echo";
    kube::load_images(&["echo"])?;
    client.fresh_namespace(namespace).await?;
    client.apply(&manifests(namespace, "LoadBalancer")).await?;
    client
        .rollout(namespace, "deployment/echo", kube::LIMIT)
        .await?;
    let address = client.load_balancer(namespace, "echo").await?;
    let target = Target::plain(SocketAddr::new(address, 80));
    // The address stands in the status a moment before the node leads it anywhere.
    let first = async || {
        let answer = Exchange::get("echo.example.com", "/").send(&target).await;
        answer.is_ok().then_some(())
    };
    client.until("the load balancer answers", first).await?;
    let mut endpoints = BTreeSet::new();
    for _ in 0..40 {
        let answer = Exchange::get("echo.example.com", "/who")
            .send(&target)
            .await?;
        ensure!(answer.status == 200, "status {}", answer.status);
        let seen: Seen = serde_json::from_slice(&answer.body)?;
        ensure!(seen.path == "/who", "path {}", seen.path);
        endpoints.insert(seen.endpoint);
    }
    ensure!(endpoints.len() == 2, "answers came from {endpoints:?}");
    client.delete_namespace(namespace).await
}

/// A Deployment of two echo Pods and their Service.
pub(crate) fn manifests(namespace: &str, service_type: &str) -> String {
    format!(
        r#"
apiVersion: apps/v1
kind: Deployment
metadata: {{ name: echo, namespace: {namespace} }}
spec:
  replicas: 2
  selector: {{ matchLabels: {{ app: echo }} }}
  template:
    metadata: {{ labels: {{ app: echo }} }}
    spec:
      automountServiceAccountToken: false
      terminationGracePeriodSeconds: 5
      containers:
        - name: echo
          image: {image}
          imagePullPolicy: Never
          args: ["$(POD_IP):8080=echo"]
          env: [{{ name: POD_IP, valueFrom: {{ fieldRef: {{ fieldPath: status.podIP }} }} }}]
          readinessProbe: {{ httpGet: {{ path: /, port: 8080 }}, periodSeconds: 1 }}
          # As a backend should: it goes on serving until all have heard that it ends.
          lifecycle: {{ preStop: {{ sleep: {{ seconds: 2 }} }} }}
---
apiVersion: v1
kind: Service
metadata: {{ name: echo, namespace: {namespace} }}
spec:
  type: {service_type}
  selector: {{ app: echo }}
  ports: [{{ port: 80, targetPort: 8080 }}]
"#,
        image = kube::ECHO
    )
}
