//! What annotations make a host or an upstream depend on: a change touches exactly these units.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fmt::Write as _;
use std::sync::Arc;

use controller::app::{Outcome, Pipeline};
use controller::ingest::{self, Change, Object};
use controller::model::{ObjectKind, ObjectRef, Scope};
use shared_proto::Kind;

fn parse(text: &str) -> Change {
    let change = ingest::parse("test.yaml", text.as_bytes());
    assert!(change.problems.iter().all(|(_, found)| found.is_empty()));
    change
}

/// An Ingress of one host and one path with annotations, in ingress-nginx's prefix.
fn ingress(name: &str, host: &str, service: &str, annotations: &[(&str, &str)]) -> String {
    let mut text = format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: {name}\n  namespace: n\n  annotations:\n    unrelated: x\n"
    );
    for (key, value) in annotations {
        writeln!(text, "    nginx.ingress.kubernetes.io/{key}: {value:?}").unwrap();
    }
    write!(
        text,
        "spec:\n  ingressClassName: higress\n  rules: [{{host: {host}, http: {{paths: [{{path: /, pathType: Prefix, backend: {{service: {service}}}}}]}}}}]\n---\n"
    )
    .unwrap();
    text
}

fn service(name: &str, port: u16) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: n}}\nspec: {{ports: [{{name: http, port: {port}}}]}}\n---\n"
    )
}

fn pipeline(text: &str) -> Pipeline {
    let mut pipeline = Pipeline::new(Arc::new(Scope::default()));
    pipeline.apply(parse(text));
    pipeline
}

/// (units, resources) of a change.
fn work(outcome: &Outcome) -> (usize, usize) {
    (outcome.units, outcome.resources)
}

fn gone(kind: ObjectKind, name: &str) -> Change {
    let reference = ObjectRef {
        kind,
        namespace: Arc::from("n"),
        name: Arc::from(name),
    };
    Change {
        objects: vec![(reference, None::<Object>)],
        ..Change::default()
    }
}

const BY_NUMBER: &str = "{name: web, port: {number: 80}}";
const BY_NAME: &str = "{name: web, port: {name: http}}";

#[test]
fn services_that_annotations_name_concern_the_hosts_of_the_ingress() {
    let mut text = ingress(
        "mirror",
        "m.test",
        BY_NUMBER,
        &[("mirror-target-service", "shadow")],
    );
    text += &ingress(
        "spare",
        "s.test",
        BY_NUMBER,
        &[("default-backend", "n/shadow")],
    );
    text += &ingress("plain", "p.test", BY_NUMBER, &[("load-balance", "random")]);
    let mut pipeline = pipeline(&text);
    assert_eq!(
        pipeline.reports().all().len(),
        2,
        "both Services are missing"
    );
    let outcome = pipeline.apply(parse(&service("shadow", 8080)));
    assert_eq!(work(&outcome), (2, 2));
    assert_eq!(pipeline.reports().all().len(), 0);
    let outcome = pipeline.apply(parse(&service("web", 80)));
    assert_eq!(work(&outcome), (0, 0), "nobody looks its ports up");
    let outcome = pipeline.apply(parse(&service("shadow", 8081)));
    assert_eq!(work(&outcome), (2, 2));
    pipeline.apply(gone(ObjectKind::Ingress, "mirror"));
    let outcome = pipeline.apply(gone(ObjectKind::Service, "shadow"));
    assert_eq!(work(&outcome), (1, 1));
}

#[test]
fn a_policy_concerns_its_upstream_only() {
    let ports = |pipeline: &Pipeline| -> Vec<u64> {
        let snapshot = pipeline.snapshot();
        let rules = snapshot
            .decode()
            .filter(|c| c.kind() == Kind::DestinationRule);
        let specs = rules.map(|c| c.spec.to_json());
        let ports = specs.flat_map(|spec| {
            let all = spec["trafficPolicy"]["portLevelSettings"]
                .as_array()
                .unwrap()
                .clone();
            all.into_iter()
                .map(|s| s["port"]["number"].as_u64().unwrap())
        });
        ports.collect()
    };
    let mut text = ingress("a", "a.test", BY_NAME, &[("load-balance", "random")]);
    text += &ingress("b", "b.test", BY_NUMBER, &[]);
    let mut pipeline = pipeline(&text);
    assert_eq!(
        ports(&pipeline),
        [] as [u64; 0],
        "the port is not known yet"
    );
    // Host a.test and the upstream.
    let outcome = pipeline.apply(parse(&service("web", 80)));
    assert_eq!(work(&outcome), (2, 2));
    assert_eq!(ports(&pipeline), [80]);
    let outcome = pipeline.apply(parse(&service("web", 81)));
    assert_eq!(work(&outcome), (2, 2));
    assert_eq!(ports(&pipeline), [81]);
    // An annotation that is no policy leaves the upstream alone.
    let other = [("load-balance", "random"), ("ssl-redirect", "true")];
    let outcome = pipeline.apply(parse(&ingress("a", "a.test", BY_NAME, &other)));
    assert_eq!(work(&outcome), (1, 1));
    // A policy leaves routes alone.
    let other = [("load-balance", "least_conn"), ("ssl-redirect", "true")];
    let outcome = pipeline.apply(parse(&ingress("a", "a.test", BY_NAME, &other)));
    assert_eq!(work(&outcome), (2, 1));
    // Without Ingress there is no policy.
    let outcome = pipeline.apply(gone(ObjectKind::Ingress, "a"));
    assert_eq!(work(&outcome), (2, 3));
    assert_eq!(ports(&pipeline), [] as [u64; 0]);
}

#[test]
fn a_class_concerns_its_own_ingresses_only() {
    let class = |name: &str, semantics: &str| {
        parse(&format!(
            "apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {{name: {name}, annotations: {{higress.io/annotation-semantics: {semantics}}}}}\n"
        ))
    };
    let rewrite = [("rewrite-target", "/x")];
    let mut text = ingress("a", "a.test", BY_NUMBER, &rewrite);
    text += &ingress("b", "b.test", BY_NUMBER, &[]);
    text += &ingress("c", "c.test", BY_NUMBER, &rewrite).replace(
        "    unrelated: x\n",
        "    higress.io/annotation-semantics: higress\n",
    );
    text += &ingress("d", "d.test", BY_NUMBER, &rewrite)
        .replace("ingressClassName: higress", "ingressClassName: other");
    let scope = Scope {
        ingress_class: String::new(),
        ..Scope::default()
    };
    let mut pipeline = Pipeline::new(Arc::new(scope));
    pipeline.apply(parse(&text));
    let plain = pipeline.snapshot().decode().collect::<Vec<_>>();
    let outcome = pipeline.apply(class("higress", "ingress-nginx"));
    assert_eq!(outcome.units, 2, "a.test and b.test");
    let outcome = pipeline.apply(class("higress", "ingress-nginx"));
    assert_eq!(outcome.units, 0, "nothing new");
    let outcome = pipeline.apply(class("other", "nginx"));
    assert_eq!(work(&outcome), (0, 0));
    assert_eq!(pipeline.reports().all().len(), 1);
    let outcome = pipeline.apply(class("other", "ingress-nginx"));
    assert_eq!(outcome.units, 1, "d.test");
    assert_eq!(pipeline.reports().all().len(), 0);
    for name in ["higress", "other"] {
        let reference = ObjectRef {
            kind: ObjectKind::IngressClass,
            namespace: Arc::from(""),
            name: Arc::from(name),
        };
        pipeline.apply(Change {
            objects: vec![(reference, None)],
            ..Change::default()
        });
    }
    let after: Vec<_> = pipeline.snapshot().decode().collect();
    assert_eq!(
        after.iter().map(|c| c.to_json()).collect::<Vec<_>>(),
        plain.iter().map(|c| c.to_json()).collect::<Vec<_>>()
    );
}

#[test]
fn one_edit_among_many_ingresses_of_one_service_is_one_host_and_one_upstream() {
    const HOSTS: usize = 2000;
    let one = |index: usize, balance: &str| {
        let (name, host) = (format!("i{index}"), format!("h{index}.test"));
        ingress(&name, &host, BY_NUMBER, &[("load-balance", balance)])
    };
    let text: String = (0..HOSTS).map(|index| one(index, "random")).collect();
    let mut pipeline = pipeline(&text);
    let outcome = pipeline.apply(parse(&one(7, "least_conn")));
    assert_eq!(work(&outcome), (2, 0), "an older Ingress decides");
    assert_eq!(outcome.new_diagnostics.len(), 1);
    let outcome = pipeline.apply(gone(ObjectKind::Ingress, "i0"));
    assert_eq!(work(&outcome), (2, 2));
    let outcome = pipeline.apply(parse(&one(1, "round_robin")));
    assert_eq!(work(&outcome), (2, 1), "it is the oldest now");
}

#[test]
fn the_oldest_ingress_decides_about_a_port_whatever_arrives_first() {
    let old = ingress("a", "a.test", BY_NUMBER, &[("affinity", "cookie")]);
    let new = ingress(
        "b",
        "b.test",
        "{name: web, port: {number: 81}}",
        &[("load-balance", "random")],
    );
    let same = ingress("c", "c.test", BY_NUMBER, &[("load-balance", "random")]);
    let view = |texts: &[&String]| {
        let mut pipeline = Pipeline::new(Arc::new(Scope::default()));
        for text in texts {
            pipeline.apply(parse(text));
        }
        let snapshot = pipeline.snapshot();
        let configs: Vec<_> = snapshot.decode().map(|c| c.to_yaml().unwrap()).collect();
        let reports: Vec<_> = pipeline
            .reports()
            .all()
            .iter()
            .map(|d| d.message.clone())
            .collect();
        (configs, reports)
    };
    let first = view(&[&old, &new, &same]);
    assert_eq!(first, view(&[&same, &new, &old]));
    assert_eq!(first, view(&[&new, &old, &same]));
    assert_eq!(first.1.len(), 1);
    let rule = first
        .0
        .iter()
        .find(|c| c.contains("kind: DestinationRule"))
        .unwrap();
    assert!(
        rule.contains("httpCookie") && rule.contains("RANDOM"),
        "{rule}"
    );
}

#[test]
fn a_host_beside_another_follows_it() {
    let routes = |pipeline: &Pipeline| -> Vec<String> {
        let snapshot = pipeline.snapshot();
        let services = snapshot
            .decode()
            .filter(|c| c.kind() == Kind::VirtualService);
        let mut found: Vec<String> = services
            .map(|c| {
                let spec = c.spec.to_json();
                let http = &spec["http"][0];
                let to = &http["route"][0]["destination"]["port"]["number"];
                let host = spec["hosts"][0].as_str().unwrap().to_owned();
                format!("{host} {to} {}", http["redirect"]["authority"])
            })
            .collect();
        found.sort();
        found
    };
    let annotations = [("server-alias", "b.test"), ("from-to-www-redirect", "true")];
    let mut pipeline = pipeline(&ingress("a", "a.test", BY_NAME, &annotations));
    pipeline.apply(parse(&service("web", 80)));
    let all = [
        "a.test 80 null",
        "b.test 80 null",
        "www.a.test null \"a.test\"",
    ];
    assert_eq!(routes(&pipeline), all);
    // The port of the Service, the host itself, an Ingress that has nothing to do with it.
    let outcome = pipeline.apply(parse(&service("web", 81)));
    assert_eq!(work(&outcome), (3, 2));
    assert_eq!(routes(&pipeline)[1], "b.test 81 null");
    let outcome = pipeline.apply(parse(&ingress("c", "c.test", BY_NUMBER, &[])));
    assert_eq!(work(&outcome), (1, 2));
    // Rules of its own win, and the alias comes back when they go.
    let outcome = pipeline.apply(parse(&ingress("b", "b.test", BY_NUMBER, &[])));
    assert_eq!(work(&outcome), (1, 2));
    assert_eq!(outcome.new_diagnostics.len(), 1);
    assert_eq!(routes(&pipeline)[1], "b.test 80 null");
    pipeline.apply(gone(ObjectKind::Ingress, "b"));
    assert_eq!(routes(&pipeline)[1], "b.test 81 null");
    assert_eq!(pipeline.reports().all(), []);
    // A certificate for the alias alone touches the alias alone.
    let text = ingress("a", "a.test", BY_NAME, &annotations);
    let tls = "spec:\n  tls: [{hosts: [b.test], secretName: s}]\n";
    let outcome = pipeline.apply(parse(&text.replace("spec:\n", tls)));
    assert_eq!(work(&outcome), (1, 1));
    // Without the annotations the hosts go.
    pipeline.apply(parse(&ingress("a", "a.test", BY_NAME, &[])));
    assert_eq!(routes(&pipeline), ["a.test 81 null", "c.test 80 null"]);
}

/// A Secret with one field.
fn secret(name: &str, key: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}, namespace: n}}\nstringData: {{{key:?}: {value:?}}}\n---\n"
    )
}

/// Names of the generated EnvoyFilters.
fn filters(pipeline: &Pipeline) -> Vec<String> {
    let snapshot = pipeline.snapshot();
    let all = snapshot.of(Kind::EnvoyFilter).keys();
    all.map(|name| name.rsplit("ingress-").next().unwrap().to_owned())
        .collect()
}

#[test]
fn a_secret_concerns_the_hosts_that_are_made_of_it() {
    const USER: &str = "u:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=";
    let basic = [("auth-type", "basic"), ("auth-secret", "users")];
    let text = ingress("a", "a.test", BY_NUMBER, &basic) + &ingress("b", "b.test", BY_NUMBER, &[]);
    let mut pipeline = pipeline(&text);
    assert_eq!(pipeline.reports().all().len(), 1, "there is no Secret yet");
    assert_eq!(filters(&pipeline), [] as [&str; 0]);
    // The host's routes, its EnvoyFilter and the filter itself.
    let outcome = pipeline.apply(parse(&secret("users", "auth", USER)));
    assert_eq!(work(&outcome), (2, 3));
    assert_eq!(
        filters(&pipeline),
        [
            "filter-isthmus.basic-auth",
            "route-filters-410f437450097bf9"
        ]
    );
    assert_eq!(pipeline.reports().all().len(), 0);
    let outcome = pipeline.apply(parse(&secret("other", "auth", USER)));
    assert_eq!(work(&outcome), (0, 0), "nobody names it");
    let new = USER.replace("u:", "v:");
    let outcome = pipeline.apply(parse(&secret("users", "auth", &new)));
    assert_eq!(work(&outcome), (1, 1));
    let outcome = pipeline.apply(gone(ObjectKind::Secret, "users"));
    assert_eq!(work(&outcome), (2, 3));
    assert_eq!(filters(&pipeline), [] as [&str; 0]);
}

#[test]
fn another_host_with_a_known_filter_costs_its_own_objects_only() {
    let one = |index: usize| {
        let (name, host) = (format!("i{index}"), format!("h{index}.test"));
        ingress(&name, &host, BY_NUMBER, &[("limit-rps", "5")])
    };
    let mut pipeline = pipeline(&(0..50).map(one).collect::<String>());
    assert_eq!(filters(&pipeline).len(), 51);
    // Gateway, VirtualService and EnvoyFilter.
    let outcome = pipeline.apply(parse(&one(50)));
    assert_eq!(work(&outcome), (1, 3));
    for index in 0..50 {
        let outcome = pipeline.apply(gone(ObjectKind::Ingress, &format!("i{index}")));
        assert_eq!(work(&outcome), (1, 3));
    }
    let outcome = pipeline.apply(gone(ObjectKind::Ingress, "i50"));
    assert_eq!(
        work(&outcome),
        (2, 4),
        "the last user takes the filter along"
    );
}
