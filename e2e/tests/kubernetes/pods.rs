//! What everything else rests on: the cluster runs our images, and a Service's address leads to all of its Pods.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use anyhow::Result;
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
    // The address stands in the status, and a Pod is ready, a moment before the node leads anywhere.
    let ask = async || {
        let request = Exchange::get("echo.example.com", "/who");
        let answer = request.send(&target).await.ok()?;
        let seen: Seen = serde_json::from_slice(&answer.body).ok()?;
        (answer.status == 200 && seen.path == "/who").then_some(seen.endpoint)
    };
    let both = async || {
        let mut endpoints = BTreeSet::new();
        for _ in 0..40 {
            endpoints.insert(ask().await?);
        }
        (endpoints.len() == 2).then_some(())
    };
    client.until("both Pods answer, always", both).await?;
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
