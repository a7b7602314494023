//! Controller and pilot on a Kubernetes API: watches, the API server's death, status, Events, the election of a leader.
//! Without the API's programs all trials are reported as ignored.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::api_server::{ApiServer, NARROW};
use e2e::http::Exchange;
use e2e::process::wait_until;
use e2e::stack::{Options, Port, Stack};
use e2e::trial::{self, Needs};
use serde_json::{Value, json};

/// How long a change may take to be seen; the machine may be busy.
const LIMIT: Duration = Duration::from_secs(30);
/// Lease of the tests' leaders, in seconds.
const LEASE: &str = "3";

fn main() -> ExitCode {
    let trials = vec![
        trial::trial(
            "objects are followed, and the API server may die",
            Needs::ApiServer,
            watches,
        ),
        trial::trial(
            "status and Events, written once, by one of two replicas",
            Needs::ApiServer,
            status,
        ),
        trial::trial(
            "missing rights are named, stop nothing else, and are taken up",
            Needs::ApiServer,
            rights,
        ),
        trial::trial(
            "without a cluster the programs end with one line",
            Needs::Programs,
            no_cluster,
        ),
    ];
    trial::run(trials, 1)
}

fn ingress(name: &str, host: &str, class: &str, path: &str) -> String {
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{name: {name}, namespace: default}}\nspec:\n  \
         ingressClassName: {class}\n  rules:\n  - host: {host}\n    http:\n      paths:\n      - {{path: {path}, \
         pathType: Prefix, backend: {{service: {{name: web, port: {{name: http}}}}}}}}\n---\n"
    )
}

/// A Service with an endpoint, and a class.
const WEB: &str = "
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec: {ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: default, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.1.2.3]}]
---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: higress}
spec: {controller: higress.io/higress-controller}
---
";

/// A gateway with a load balancer.
const GATEWAY: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: higress-system}
---
apiVersion: v1
kind: Service
metadata: {name: higress-gateway, namespace: higress-system, labels: {app: higress-gateway}}
spec: {type: LoadBalancer, ports: [{name: http, port: 80}]}
---
";

fn stack(api: &ApiServer, more: &[&str]) -> Result<Stack> {
    stack_as(api.kubeconfig(), more)
}

fn stack_as(kubeconfig: PathBuf, more: &[&str]) -> Result<Stack> {
    let mut controller_args = vec!["--lease-seconds".to_owned(), LEASE.to_owned()];
    controller_args.extend(more.iter().map(|arg| (*arg).to_owned()));
    Stack::new(Options {
        kubeconfig: Some(kubeconfig),
        controller_args,
        ..Options::default()
    })
}

async fn page(stack: &Stack, port: Port, path: &str) -> Option<String> {
    let (request, target) = (Exchange::get("localhost", path), stack.target(port));
    let answer = request.send(&target).await.ok()?;
    (answer.status == 200).then(|| answer.text())
}

/// Waits until the page contains a text, or does not.
async fn shows(stack: &Stack, port: Port, path: &str, text: &str, wanted: bool) -> Result<()> {
    let what = format!("{path} of {port:?} shows {text}: {wanted}");
    let seen = wait_until(&what, LIMIT, async || {
        let page = page(stack, port, path).await?;
        (page.contains(text) == wanted).then_some(())
    });
    seen.await.with_context(|| stack.logs())
}

async fn watches() -> Result<()> {
    let mut api = ApiServer::start().await?;
    api.apply(&(WEB.to_owned() + GATEWAY + &ingress("a", "a.example.com", "higress", "/a")))
        .await?;
    let mut stack = stack(&api, &[])?;
    stack.start_control_plane().await?;
    let configs = "/debug/configz";
    for port in [Port::ControllerHttp, Port::PilotHttp] {
        shows(&stack, port, configs, "a.example.com", true).await?;
    }
    api.apply(&ingress("b", "b.example.com", "higress", "/b"))
        .await?;
    shows(&stack, Port::PilotHttp, configs, "b.example.com", true).await?;
    // Other classes are not served, and what changes its class goes.
    api.apply(&ingress("b", "b.example.com", "other", "/b"))
        .await?;
    shows(&stack, Port::PilotHttp, configs, "b.example.com", false).await?;

    // Away, it has deleted nothing.
    api.kill().await?;
    let failing = "isthmus_kubernetes_failing_watches";
    for port in [Port::ControllerHttp, Port::Monitoring] {
        wait_until("the failure is counted", LIMIT, async || {
            let failing = stack.metric(port, failing, "").await.ok()?;
            (failing > 0.0).then_some(())
        })
        .await?;
    }
    shows(&stack, Port::PilotHttp, configs, "a.example.com", true).await?;
    for port in [Port::ControllerHttp, Port::PilotHttp] {
        let ready = page(&stack, port, "/ready").await;
        ensure!(
            ready.is_some(),
            "{port:?} is not ready without an API server"
        );
    }
    let translated = stack
        .metric(Port::ControllerHttp, "isthmus_units_translated_total", "")
        .await?;
    api.revive().await?;
    api.apply(&ingress("c", "c.example.com", "higress", "/c"))
        .await?;
    shows(&stack, Port::PilotHttp, configs, "c.example.com", true).await?;
    let after = stack
        .metric(Port::ControllerHttp, "isthmus_units_translated_total", "")
        .await?;
    ensure!(
        after - translated == 1.0,
        "{} units for one new host",
        after - translated
    );
    api.kubectl(&["delete", "ingress", "a"]).await?;
    shows(&stack, Port::PilotHttp, configs, "a.example.com", false).await?;
    for port in [Port::ControllerHttp, Port::Monitoring] {
        wait_until("all watches are well", LIMIT, async || {
            let failing = stack.metric(port, failing, "").await.ok()?;
            (failing == 0.0).then_some(())
        })
        .await?;
    }
    stack.check_alive()
}

async fn address_of(api: &ApiServer, name: &str) -> Option<Value> {
    let ingress = api.get(&["ingress", name]).await.ok()?;
    Some(ingress["status"]["loadBalancer"].clone())
}

async fn has_address(api: &ApiServer, name: &str, wanted: &Value) -> Result<()> {
    let what = format!("the status of {name} is {wanted}");
    wait_until(&what, LIMIT, async || {
        (address_of(api, name).await? == *wanted).then_some(())
    })
    .await
}

async fn set_gateway(api: &ApiServer, addresses: Value) -> Result<()> {
    let patch = json!({"status": {"loadBalancer": {"ingress": addresses}}}).to_string();
    let args = [
        "patch",
        "service",
        "higress-gateway",
        "-n",
        "higress-system",
        "--subresource=status",
        "--type=merge",
        "-p",
        &patch,
    ];
    api.kubectl(&args).await?;
    Ok(())
}

async fn versions(api: &ApiServer) -> Result<Vec<String>> {
    let mut versions = Vec::new();
    for name in ["a", "wrong"] {
        let ingress = api.get(&["ingress", name]).await?;
        versions.push(ingress["metadata"]["resourceVersion"].to_string());
    }
    Ok(versions)
}

async fn leads(stack: &Stack) -> Option<()> {
    let leader = stack
        .metric(Port::ControllerHttp, "isthmus_leader", "")
        .await
        .ok()?;
    (leader == 1.0).then_some(())
}

async fn events(api: &ApiServer) -> Result<Vec<Value>> {
    let list = api.get(&["events.events.k8s.io"]).await?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}

async fn status() -> Result<()> {
    let api = ApiServer::start().await?;
    let wrong = ingress("wrong", "wrong.example.com", "higress", "/").replace(
        "namespace: default}",
        "namespace: default, annotations: {higress.io/timeout: soon}}",
    );
    api.apply(
        &(WEB.to_owned() + GATEWAY + &wrong + &ingress("a", "a.example.com", "higress", "/")),
    )
    .await?;
    api.apply(&ingress("foreign", "f.example.com", "other", "/"))
        .await?;
    set_gateway(&api, json!([{"ip": "192.0.2.1"}])).await?;
    let (mut first, mut second) = (stack(&api, &[])?, stack(&api, &[])?);
    first.start_controller()?;
    wait_until("the first one leads", LIMIT, async || leads(&first).await)
        .await
        .with_context(|| first.logs())?;
    second.start_controller()?;
    second.wait_for(Port::Mcp).await?;
    let one = json!({"ingress": [{"ip": "192.0.2.1"}]});
    has_address(&api, "a", &one)
        .await
        .with_context(|| first.logs())?;
    has_address(&api, "wrong", &one).await?;
    ensure!(
        address_of(&api, "foreign").await == Some(json!({})),
        "not ours"
    );
    let told = wait_until("an Event about the mistake", LIMIT, async || {
        events(&api).await.ok()?.first().cloned()
    });
    let told = told.await.with_context(|| first.logs())?;
    ensure!(
        told["regarding"]["name"] == "wrong" && told["reason"] == "InvalidAnnotation",
        "{told}"
    );
    ensure!(leads(&second).await.is_none(), "two leaders");

    // The gateway moves; what leaves the class is cleared.
    set_gateway(
        &api,
        json!([{"hostname": "lb.example.com"}, {"ip": "192.0.2.2"}]),
    )
    .await?;
    let two = json!({"ingress": [{"hostname": "lb.example.com"}, {"ip": "192.0.2.2"}]});
    has_address(&api, "a", &two).await?;
    has_address(&api, "wrong", &two).await?;
    api.apply(&ingress("a", "a.example.com", "other", "/"))
        .await?;
    has_address(&api, "a", &json!({}))
        .await
        .with_context(|| first.logs())?;
    api.apply(&ingress("a", "a.example.com", "higress", "/"))
        .await?;
    has_address(&api, "a", &two).await?;

    // The leader dies: the other one takes over and finds nothing to write.
    let before = versions(&api).await?;
    let dead = first.controller.take().context("it runs")?;
    dead.kill().await?;
    wait_until("the second one leads", LIMIT, async || leads(&second).await)
        .await
        .with_context(|| second.logs())?;
    // It writes this one, and had come past the others before.
    api.apply(&ingress("later", "later.example.com", "higress", "/"))
        .await?;
    has_address(&api, "later", &two).await?;
    wait_until("the mistake was looked at", LIMIT, async || {
        let known = second
            .metric(Port::ControllerHttp, "isthmus_events_total", "conflict")
            .await;
        known.ok().filter(|known| *known == 1.0)
    })
    .await?;
    ensure!(
        versions(&api).await? == before,
        "a new leader wrote what was right"
    );
    ensure!(events(&api).await?.len() == 1, "a mistake was told twice");
    let writes = second
        .metric(Port::ControllerHttp, "isthmus_status_writes_total", "")
        .await?;
    ensure!(writes == 1.0, "{writes} writes for one new Ingress");

    // It gives the lease up when it ends.
    let process = second.controller.take().context("it runs")?;
    ensure!(process.terminate().await?, "it did not end well");
    let lease = api
        .get(&[
            "lease",
            "isthmus-controller-higress",
            "-n",
            "higress-system",
        ])
        .await?;
    ensure!(lease["spec"]["holderIdentity"] == "", "{lease}");
    Ok(())
}

/// A role with all rights of a controller but some, and its binding.
async fn allow(api: &ApiServer, but: &[&str]) -> Result<()> {
    let rules = [
        ("networking.k8s.io", "ingresses", "get, list, watch"),
        ("networking.k8s.io", "ingressclasses", "get, list, watch"),
        ("networking.k8s.io", "ingresses/status", "patch"),
        ("", "services", "get, list, watch"),
        ("", "secrets", "get, list, watch"),
        ("events.k8s.io", "events", "create"),
        ("coordination.k8s.io", "leases", "get, create, update"),
    ];
    let rules: String = rules
        .iter()
        .filter(|(_, resource, _)| !but.contains(resource))
        .map(|(group, resource, verbs)| {
            format!("- {{apiGroups: ['{group}'], resources: ['{resource}'], verbs: [{verbs}]}}\n")
        })
        .collect();
    api.apply(&format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {{name: tests}}\nrules:\n{rules}---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {{name: tests}}\n\
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tests}}\n\
         subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: {NARROW}}}]\n"
    ))
    .await
}

async fn metric_is(stack: &Stack, name: &str, label: &str, wanted: f64) -> Result<()> {
    let what = format!("{name} of {label} is {wanted}");
    let seen = wait_until(&what, LIMIT, async || {
        let value = stack.metric(Port::ControllerHttp, name, label).await.ok()?;
        (value == wanted).then_some(())
    });
    seen.await.with_context(|| stack.logs())
}

/// What makes a program not ready is what its page says.
async fn waits_for(stack: &Stack, port: Port, parts: &[&str]) -> Result<()> {
    wait_until(&format!("/ready of {port:?} says why"), LIMIT, async || {
        let request = Exchange::get("localhost", "/ready");
        let answer = request.send(&stack.target(port)).await.ok()?;
        let text = answer.text();
        let says = answer.status == 503 && parts.iter().all(|part| text.contains(part));
        says.then_some(())
    })
    .await
    .with_context(|| stack.logs())
}

async fn rights() -> Result<()> {
    let mut api = ApiServer::start().await?;
    let objects = WEB.to_owned() + GATEWAY + &ingress("a", "a.example.com", "higress", "/a");
    api.apply(&objects).await?;
    set_gateway(&api, json!([{"ip": "192.0.2.1"}])).await?;
    allow(&api, &["secrets", "ingresses/status"]).await?;
    let mut stack = stack_as(api.kubeconfig_of(NARROW)?, &[])?;
    stack.start_controller()?;
    // A kind that was never read keeps it from serving half of a configuration.
    let failing = "isthmus_kubernetes_failing_watches";
    metric_is(&stack, failing, "kind=\"Secret\"", 1.0).await?;
    metric_is(&stack, failing, "", 1.0).await?;
    stack.start_pilot()?;
    // The pilot misses other kinds as well, in any order.
    let parts = [
        "not read from the cluster: ",
        "Secret (secrets is forbidden",
    ];
    waits_for(&stack, Port::ControllerHttp, &parts).await?;
    waits_for(&stack, Port::PilotHttp, &parts).await?;
    waits_for(&stack, Port::PilotHttp, &["configs of xds://"]).await?;
    let logs = stack.logs();
    ensure!(
        logs.contains("secrets is forbidden") && logs.contains("RBAC"),
        "{logs}"
    );

    allow(&api, &["ingresses/status"]).await?;
    stack.wait_for(Port::Mcp).await?;
    metric_is(&stack, failing, "", 0.0).await?;
    let refused = "the status of Ingresses cannot be written";
    wait_until("the missing right to write is told", LIMIT, async || {
        stack.logs().contains(refused).then_some(())
    })
    .await?;
    allow(&api, &[]).await?;
    has_address(&api, "a", &json!({"ingress": [{"ip": "192.0.2.1"}]})).await?;

    // Taken away later, only changes of that kind are missed. A watch that is open goes on: a new one begins at a restart.
    allow(&api, &["services"]).await?;
    api.kill().await?;
    api.revive().await?;
    let port = Port::ControllerHttp;
    metric_is(&stack, failing, "kind=\"Service\",purpose=\"input\"", 1.0).await?;
    api.apply(&ingress("b", "b.example.com", "higress", "/b"))
        .await?;
    shows(&stack, port, "/debug/configz", "b.example.com", true).await?;
    shows(&stack, port, "/debug/configz", "a.example.com", true).await?;
    allow(&api, &[]).await?;
    metric_is(&stack, failing, "", 0.0).await?;
    stack.check_alive()
}

async fn no_cluster() -> Result<()> {
    let programs = e2e::stack::programs()?;
    let source = ["--config-source", "xds://127.0.0.1:1"];
    for (program, more) in [
        (&programs.controller, &[][..]),
        (&programs.pilot, &source[..]),
    ] {
        let done = tokio::process::Command::new(program)
            .arg("serve")
            .args(more)
            .args(["--http-address", "127.0.0.1:0"])
            .env_remove("KUBERNETES_SERVICE_HOST")
            .output()
            .await?;
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        ensure!(done.status.code() == Some(2), "{:?}: {said}", done.status);
        ensure!(
            said.lines().count() == 1 && said.contains("--kubeconfig FILE"),
            "{said}"
        );
    }
    Ok(())
}
