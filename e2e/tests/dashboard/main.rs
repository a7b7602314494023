//! The Grafana dashboard shows what running programs export: every metric and every label of each of its expressions.

mod promql;

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::api_server::ApiServer;
use e2e::echo::{BIND_LIMIT, Backends};
use e2e::envoy::workspace;
use e2e::http::{Exchange, Target};
use e2e::process::wait_until;
use e2e::scenario::{ingress, service};
use e2e::stack::{Options, Port, Stack};
use e2e::trial::{self, Needs};
use serde_json::Value;

/// How long programs may take to start and to find each other.
const LIMIT: Duration = Duration::from_secs(30);
/// Labels that whoever collects metrics adds.
const SCRAPED: [&str; 5] = ["container", "instance", "job", "namespace", "pod"];
/// Metrics that only programs on a Kubernetes API have.
const KUBERNETES: &str = "isthmus_kubernetes_";
/// Metrics of gateways.
const ENVOY: &str = "envoy_";

fn main() -> ExitCode {
    let trials = vec![
        trial::trial("expressions are read", Needs::Nothing, promql::check),
        trial::trial("the dashboard is well formed", Needs::Nothing, form),
        trial::trial(
            "controller and pilot export what is shown",
            Needs::Programs,
            programs,
        ),
        trial::trial(
            "watches of a Kubernetes API export what is shown",
            Needs::ApiServer,
            kubernetes,
        ),
        trial::trial("gateways export what is shown", Needs::Envoy, gateways),
    ];
    trial::run(trials, 1)
}

/// An expression and where it stands.
struct Shown {
    panel: String,
    expression: String,
}

fn dashboard() -> Result<Value> {
    let path = workspace().join("deploy/helm/isthmus/dashboards/isthmus.json");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Ok(serde_json::from_str(&text)?)
}

fn list<'a>(value: &'a Value, name: &str) -> Result<&'a Vec<Value>> {
    value[name]
        .as_array()
        .with_context(|| format!("no {name} in {}", value["title"]))
}

fn text(value: &Value, name: &str) -> Result<String> {
    let text = value[name].as_str();
    Ok(text.with_context(|| format!("no {name}"))?.to_owned())
}

/// All expressions of panels and variables, with values for Grafana's variables.
fn shown() -> Result<Vec<Shown>> {
    let dashboard = dashboard()?;
    let mut shown = Vec::new();
    for panel in list(&dashboard, "panels")? {
        let title = text(panel, "title")?;
        if panel["type"] == "row" {
            continue;
        }
        for target in list(panel, "targets")? {
            shown.push(Shown {
                panel: title.clone(),
                expression: text(target, "expr")?.replace("$__rate_interval", "5m"),
            });
        }
    }
    for variable in list(&dashboard["templating"], "list")? {
        if variable["type"] == "query" {
            let query = text(&variable["query"], "query")?;
            let inner = query
                .strip_prefix("label_values(")
                .and_then(|rest| rest.rsplit_once(','));
            let (expression, _) = inner.with_context(|| format!("{query} is understood"))?;
            shown.push(Shown {
                panel: format!("variable {}", variable["name"]),
                expression: expression.to_owned(),
            });
        }
    }
    Ok(shown)
}

async fn form() -> Result<()> {
    let dashboard = dashboard()?;
    let (mut ids, mut places) = (BTreeSet::new(), BTreeSet::new());
    for panel in list(&dashboard, "panels")? {
        let title = text(panel, "title")?;
        ensure!(
            ids.insert(panel["id"].to_string()),
            "{title}: its id is taken"
        );
        let at = |name: &str| {
            panel["gridPos"][name]
                .as_u64()
                .with_context(|| title.clone())
        };
        for x in at("x")?..at("x")? + at("w")? {
            for y in at("y")?..at("y")? + at("h")? {
                ensure!(
                    x < 24 && places.insert((x, y)),
                    "{title}: its place is taken"
                );
            }
        }
        if panel["type"] == "row" {
            continue;
        }
        let targets = list(panel, "targets")?;
        ensure!(!targets.is_empty(), "{title} shows nothing");
        for part in targets.iter().chain([panel]) {
            let source = &part["datasource"]["uid"];
            ensure!(source == "${datasource}", "{title}: reads {source}");
        }
    }
    let selectors = shown()?
        .iter()
        .map(|s| promql::selectors(&s.expression))
        .collect::<Result<Vec<_>>>()?;
    ensure!(selectors.iter().flatten().count() > 50, "too few metrics");
    Ok(())
}

/// What pages of metrics hold: the labels of the series of each name.
#[derive(Debug, Default)]
struct Exported(BTreeMap<String, BTreeSet<String>>);

impl Exported {
    fn read(&mut self, page: &str) {
        for line in page.lines().filter(|line| !line.starts_with('#')) {
            let end = line.find(['{', ' ']).unwrap_or(line.len());
            let labels = self.0.entry(line[..end].to_owned()).or_default();
            // A label is a word before `="`; values do not hold that.
            let parts = line[end..].split("=\"");
            let names = parts.filter_map(|part| part.rsplit(['{', ',']).next());
            let is_name = |name: &&str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            labels.extend(names.filter(is_name).map(str::to_owned));
        }
    }

    async fn fetch(&mut self, target: &Target, path: &str) -> Result<()> {
        let answer = Exchange::get("localhost", path).send(target).await?;
        ensure!(answer.status == 200, "{path}: {}", answer.status);
        self.read(&answer.text());
        Ok(())
    }

    /// What is shown of the metrics that `ours` says and is not exported, in words.
    fn missing(&self, ours: impl Fn(&str) -> bool) -> Result<Vec<String>> {
        let mut missing = Vec::new();
        let mut seen = 0;
        for Shown { panel, expression } in shown()? {
            for selector in promql::selectors(&expression)? {
                if !ours(&selector.name) {
                    continue;
                }
                seen += 1;
                let Some(labels) = self.0.get(&selector.name) else {
                    missing.push(format!("{panel}: {} is not exported", selector.name));
                    continue;
                };
                let added = |label: &&String| SCRAPED.contains(&label.as_str());
                for label in selector.labels.iter().filter(|label| !added(label)) {
                    if !labels.contains(label) {
                        let name = &selector.name;
                        missing.push(format!(
                            "{panel}: {name} has no label {label}, but {labels:?}"
                        ));
                    }
                }
            }
        }
        ensure!(seen > 0, "nothing of this is shown");
        Ok(missing)
    }

    fn check(&self, ours: impl Fn(&str) -> bool) -> Result<()> {
        let missing = self.missing(ours)?;
        ensure!(missing.is_empty(), "{}", missing.join("\n"));
        Ok(())
    }
}

async fn of_control_plane(stack: &Stack) -> Result<Exported> {
    let mut exported = Exported::default();
    for port in [Port::ControllerHttp, Port::Monitoring] {
        exported.fetch(&stack.target(port), "/metrics").await?;
    }
    Ok(exported)
}

/// Without any object, change or gateway: what appears with its first event only has no rate at that event.
async fn programs() -> Result<()> {
    let mut stack = Stack::new(Options::default())?;
    stack.start_control_plane().await?;
    let exported = of_control_plane(&stack).await?;
    exported.check(|name| !name.starts_with(KUBERNETES) && !name.starts_with(ENVOY))?;
    let nothing = Exported::default().missing(|name| name == "isthmus_ready")?;
    ensure!(nothing.len() > 1, "what is missing is not found");
    stack.check_alive()
}

async fn kubernetes() -> Result<()> {
    let api = ApiServer::start().await?;
    let system = "apiVersion: v1\nkind: Namespace\nmetadata: {name: higress-system}\n";
    api.apply(system).await?;
    let mut stack = Stack::new(Options {
        kubeconfig: Some(api.kubeconfig()),
        ..Options::default()
    })?;
    stack.start_control_plane().await?;
    let leads = wait_until("the controller leads", LIMIT, async || {
        let leader = stack
            .metric(Port::ControllerHttp, "isthmus_leader", "")
            .await;
        leader.ok().filter(|leader| *leader == 1.0)
    });
    leads.await.with_context(|| stack.logs())?;
    let watches = wait_until("the leader's watches", LIMIT, async || {
        let name = "isthmus_kubernetes_lists_total";
        let lists = stack.metric(Port::ControllerHttp, name, "status").await;
        lists.ok().filter(|lists| *lists >= 2.0)
    });
    watches.await.with_context(|| stack.logs())?;
    for port in [Port::ControllerHttp, Port::Monitoring] {
        let mut exported = Exported::default();
        exported.fetch(&stack.target(port), "/metrics").await?;
        exported.check(|name| name.starts_with(KUBERNETES))?;
    }
    stack.check_alive()
}

/// Through the port that the chart opens for metrics.
async fn gateways() -> Result<()> {
    let mut stack = Stack::new(Options::default())?;
    let (backend, metrics) = (stack.backend(0), stack.backend(1));
    stack.add_bootstrap_args(&["--metrics-port".to_owned(), metrics.port().to_string()]);
    let mut backends = Backends::new();
    let names = BTreeMap::from([(backend, "shop".to_owned())]);
    backends.add(&names, BIND_LIMIT).await?;
    let objects = ingress("shop.example.com", "shop", None) + &service("shop", &[backend]);
    stack.write("all.yaml", &objects)?;
    stack.start().await?;
    let (request, target) = (
        Exchange::get("shop.example.com", "/"),
        stack.target(Port::Http),
    );
    let answered = wait_until("an answer", LIMIT, async || {
        let answer = request.send(&target).await.ok()?;
        (answer.status == 200).then_some(())
    });
    answered.await.with_context(|| stack.logs())?;
    // Envoy shows a histogram some seconds after its first value.
    let target = Target::plain(metrics);
    let mut missing = Vec::new();
    let complete = wait_until("all of it is exported", LIMIT, async || {
        let mut exported = Exported::default();
        exported.fetch(&target, "/stats/prometheus").await.ok()?;
        missing = exported.missing(|name| name.starts_with(ENVOY)).ok()?;
        missing.is_empty().then_some(())
    });
    let complete = complete.await;
    complete.with_context(|| format!("{}\n{}", missing.join("\n"), stack.logs()))
}
