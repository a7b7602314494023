//! The worked examples of Higress's annotations: for each, the routes, policies and TLS that follow, in Istio's terms.
//!
//! The examples are in `worked-examples.yaml`, in a short form that is explained there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;

use controller::app::Pipeline;
use controller::ingest;
use controller::model::Scope;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use shared_proto::Kind;

const EXAMPLES: &str = include_str!("worked-examples.yaml");
/// Short forms of the prefixes of annotations.
const PREFIXES: [(&str, &str); 2] = [
    ("nginx/", "nginx.ingress.kubernetes.io/"),
    ("hg/", "higress.io/"),
];
/// Services of every example. The first port of `err` is 8080, of all others 80.
const SERVICES: [&str; 7] = ["web", "web2", "web3", "v1", "v2", "v3", "err"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Example {
    name: String,
    ingresses: Vec<Given>,
    /// The routes of the host, in their order.
    routes: Vec<Value>,
    /// Service -> its traffic policy, where one is expected.
    #[serde(default)]
    policies: BTreeMap<String, Value>,
    /// Servers of the host.
    #[serde(default)]
    servers: Option<Value>,
    /// Reasons of the diagnostics.
    #[serde(default)]
    reports: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    #[serde(default = "default_name")]
    name: String,
    #[serde(default = "default_host")]
    host: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    /// `<path type> <path> <service>:<port>`.
    paths: Vec<String>,
    /// Secret of the host's certificate.
    #[serde(default)]
    tls: Option<String>,
}

fn default_name() -> String {
    "i".to_owned()
}

fn default_host() -> String {
    "shop.example.com".to_owned()
}

impl Given {
    /// The object; `age` makes the first one the oldest.
    fn object(&self, age: usize) -> Value {
        let annotations: Map<String, Value> = self
            .annotations
            .iter()
            .map(|(key, value)| (full(key), json!(value)))
            .collect();
        let tls = self
            .tls
            .iter()
            .map(|secret| json!({"hosts": [self.host], "secretName": secret}));
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
            "metadata": {
                "name": self.name, "namespace": "default", "annotations": annotations,
                "creationTimestamp": format!("2024-01-01T00:00:{age:02}Z"),
            },
            "spec": {
                "ingressClassName": "higress",
                "tls": tls.collect::<Vec<_>>(),
                "rules": [{"host": self.host, "http": {"paths": self.paths.iter().map(|path| path_of(path)).collect::<Vec<_>>()}}],
            },
        })
    }
}

fn full(key: &str) -> String {
    let prefix = PREFIXES.iter().find(|(short, _)| key.starts_with(short));
    let (short, long) = prefix.unwrap_or_else(|| panic!("{key} has no known prefix"));
    key.replacen(short, long, 1)
}

fn path_of(text: &str) -> Value {
    let (kind, rest) = text.split_once(' ').unwrap();
    let (path, backend) = rest.rsplit_once(' ').unwrap();
    let backend = match backend.split_once(':') {
        Some((service, port)) => {
            json!({"service": {"name": service, "port": {"number": port.parse::<u16>().unwrap()}}})
        }
        None => {
            json!({"resource": {"apiGroup": "networking.higress.io", "kind": "McpBridge", "name": backend}})
        }
    };
    json!({"path": path, "pathType": kind, "backend": backend})
}

fn services() -> impl Iterator<Item = Value> {
    SERVICES.iter().map(|name| {
        let port = if *name == "err" { 8080 } else { 80 };
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"}, "spec": {"ports": [{"port": port}]}})
    })
}

/// What an example leads to.
struct Outcome {
    routes: Vec<Value>,
    policies: BTreeMap<String, Value>,
    servers: Value,
    reports: Vec<String>,
}

fn translate(example: &Example) -> Outcome {
    let ingresses = example
        .ingresses
        .iter()
        .enumerate()
        .map(|(age, given)| given.object(age));
    let documents: Vec<String> = services()
        .chain(ingresses)
        .map(|object| object.to_string())
        .collect();
    let mut pipeline = Pipeline::new(Arc::new(Scope::default()));
    pipeline.apply(ingest::parse(
        "example.yaml",
        documents.join("\n---\n").as_bytes(),
    ));
    let mut outcome = Outcome {
        routes: Vec::new(),
        policies: BTreeMap::new(),
        servers: Value::Null,
        reports: Vec::new(),
    };
    for config in pipeline.snapshot().decode() {
        let mut spec = config.spec.to_json();
        match config.kind() {
            Kind::VirtualService => outcome
                .routes
                .extend(spec["http"].as_array().unwrap().iter().map(short)),
            Kind::Gateway => outcome.servers = spec["servers"].take(),
            Kind::DestinationRule => {
                let host = short_host(spec["host"].as_str().unwrap());
                outcome.policies.insert(host, spec["trafficPolicy"].take());
            }
            _ => {}
        }
    }
    outcome.reports = pipeline
        .reports()
        .all()
        .iter()
        .map(|found| format!("{:?}", found.reason))
        .collect();
    outcome
}

fn short_host(host: &str) -> String {
    host.trim_end_matches(".default.svc.cluster.local")
        .to_owned()
}

/// A route in the short form of the examples.
fn short(route: &Value) -> Value {
    let mut route = route.as_object().unwrap().clone();
    if let Some(Value::Array(conditions)) = route.remove("match") {
        let uris = conditions.iter().map(|condition| {
            match condition["uri"]
                .as_object()
                .and_then(|uri| uri.iter().next())
            {
                Some((kind, path)) => json!(format!(
                    "{} {}",
                    kind[..1].to_uppercase(),
                    path.as_str().unwrap()
                )),
                None => json!("any"),
            }
        });
        route.insert("match".to_owned(), uris.collect());
        let mut rest = conditions[0].clone();
        rest.as_object_mut().unwrap().remove("uri");
        route.insert("when".to_owned(), rest);
    }
    if let Some(Value::Array(destinations)) = route.remove("route") {
        route.insert(
            "to".to_owned(),
            destinations.iter().map(destination).collect(),
        );
    }
    Value::Object(route)
}

fn destination(route: &Value) -> Value {
    let one = |destination: &Value| {
        let port = destination
            .pointer("/port/number")
            .map(|port| format!(":{port}"))
            .unwrap_or_default();
        let subset = destination["subset"]
            .as_str()
            .map(|subset| format!(" {subset}"))
            .unwrap_or_default();
        format!(
            "{}{port}{subset}",
            short_host(destination["host"].as_str().unwrap())
        )
    };
    let mut text = format!("{} {}", one(&route["destination"]), route["weight"]);
    for fallback in route["fallbackClusters"].as_array().into_iter().flatten() {
        text = format!("{text}, else {}", one(fallback));
    }
    json!(text)
}

/// Adds to `wrong` where `found` lacks something of `expected`. Lists have to be equal in length; `null` means absent.
fn compare(at: &str, expected: &Value, found: &Value, wrong: &mut Vec<String>) {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            for (member, expected) in expected {
                compare(
                    &format!("{at}.{member}"),
                    expected,
                    found.get(member).unwrap_or(&Value::Null),
                    wrong,
                );
            }
        }
        (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => {
            for (index, (expected, found)) in expected.iter().zip(found).enumerate() {
                compare(&format!("{at}[{index}]"), expected, found, wrong);
            }
        }
        _ if expected == found => {}
        _ => wrong.push(format!("{at}: expected {expected}, found {found}")),
    }
}

#[test]
fn every_example_holds() {
    let examples: Vec<Example> = serde_yaml::from_str(EXAMPLES).unwrap();
    assert_eq!(examples.len(), 44);
    let mut wrong = Vec::new();
    for example in &examples {
        let found = translate(example);
        let (name, before) = (&example.name, wrong.len());
        compare(
            &format!("{name}: routes"),
            &json!(example.routes),
            &json!(found.routes),
            &mut wrong,
        );
        if example.policies.is_empty() && !found.policies.is_empty() {
            wrong.push(format!(
                "{name}: no policies are expected, found {:?}",
                found.policies
            ));
        }
        compare(
            &format!("{name}: policies"),
            &json!(example.policies),
            &json!(found.policies),
            &mut wrong,
        );
        if let Some(servers) = &example.servers {
            compare(
                &format!("{name}: servers"),
                servers,
                &found.servers,
                &mut wrong,
            );
        }
        compare(
            &format!("{name}: reports"),
            &json!(example.reports),
            &json!(found.reports),
            &mut wrong,
        );
        if wrong.len() > before {
            wrong.push(format!("  all routes: {}", json!(found.routes)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
