//! A changed DestinationRule costs the clusters of its service, and routes only where requests are hashed.
#![allow(missing_docs, clippy::unwrap_used)]

use std::sync::Arc;

use pilot::model::change::{Change, NamespacedName, SecretState};
use pilot::model::config::StoredConfig;
use pilot::model::endpoint::{Endpoint, Endpoints};
use pilot::model::proxy::ProxyClass;
use pilot::model::secret::TlsSecret;
use pilot::model::service::{Protocol, Resolution, Service, ServicePort};
use pilot::push::world::World;
use pilot::xds::class::{ClassSnapshot, Counts, PushOptions};
use shared_proto::config::{Config, Meta};
use shared_proto::networking::v1alpha3 as istio;
use shared_proto::{Spec, mcp};

/// Services, each with a host of its own; one more host leads to the first two of them.
const SERVICES: usize = 50;

struct Pilot {
    world: World,
    snapshot: ClassSnapshot,
    options: PushOptions,
}

impl Pilot {
    fn new() -> Self {
        let mut changes = vec![object::<istio::Gateway>(
            "all",
            "servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}]",
        )];
        for n in 0..SERVICES {
            let port = ServicePort {
                name: "http".into(),
                number: 80,
                protocol: Protocol::Http,
            };
            let service = Service {
                hostname: hostname(n).into(),
                namespace: "app".into(),
                name: format!("s{n}").into(),
                ports: vec![port],
                resolution: Resolution::Eds,
                created: 0,
            };
            changes.push(Change::Service(hostname(n).into(), Some(Arc::new(service))));
            let endpoint = Endpoint::new([10, 0, 0, 1].into(), 8080);
            let endpoints = Endpoints::new([("http".into(), endpoint)]);
            changes.push(Change::Endpoints(hostname(n).into(), Arc::new(endpoints)));
            changes.push(host(&format!("h{n}"), &[n]));
        }
        changes.push(host("both", &[0, 1]));
        let (world, _) = World::default().next(changes);
        let options = PushOptions {
            scoped_rds: true,
            domain: "cluster.local".into(),
            root_namespace: "root".into(),
            ..Default::default()
        };
        let class = ProxyClass {
            namespace: "sys".into(),
            labels: Default::default(),
            secrets: true,
        };
        let snapshot = ClassSnapshot::build(class, &world, &options).snapshot;
        Self {
            world,
            snapshot,
            options,
        }
    }

    fn change(&mut self, change: Change) -> Counts {
        let (world, changed) = self.world.next(vec![change]);
        let built = self.snapshot.next(&world, &changed, &self.options);
        self.world = world;
        self.snapshot = built.snapshot;
        built.generated
    }
}

fn hostname(n: usize) -> String {
    format!("s{n}.app.svc.cluster.local")
}

fn object<T: serde::de::DeserializeOwned + Into<Spec>>(name: &str, yaml: &str) -> Change {
    let spec: T = serde_yaml::from_str(yaml).unwrap();
    let (_, bytes) = mcp::encode(&Config::new(Meta::new("sys", name), spec));
    let stored = StoredConfig::from_mcp(mcp::decode(bytes).unwrap(), "cluster.local").unwrap();
    Change::Config(stored.key.clone(), Some(Arc::new(stored)))
}

fn host(name: &str, to: &[usize]) -> Change {
    let routes = to.iter().map(|n| {
        format!(
            "{{destination: {{host: {}, port: {{number: 80}}}}, weight: 1}}",
            hostname(*n)
        )
    });
    let routes: Vec<String> = routes.collect();
    object::<istio::VirtualService>(
        name,
        &format!(
            "{{hosts: [{name}.test], gateways: [sys/all], http: [{{route: [{}]}}]}}",
            routes.join(", ")
        ),
    )
}

fn rule(policy: &str) -> Change {
    let host = hostname(0);
    object::<istio::DestinationRule>("r", &format!("{{host: {host}, {policy}}}"))
}

fn counts(cds: u64, eds: u64, rds: u64, sds: u64) -> Counts {
    Counts {
        cds,
        eds,
        rds,
        sds,
        ..Counts::default()
    }
}

#[test]
fn a_rule_costs_what_depends_on_it() {
    let mut pilot = Pilot::new();
    let hash = |header: &str, more: &str| {
        rule(&format!(
            "trafficPolicy: {{loadBalancer: {{consistentHash: {{httpHeaderName: {header}}}}}{more}}}"
        ))
    };
    let steps = [
        (
            rule("trafficPolicy: {loadBalancer: {simple: RANDOM}}"),
            counts(1, 0, 0, 0),
        ),
        (hash("a", ""), counts(1, 0, 2, 0)),
        (
            hash("a", ", connectionPool: {tcp: {maxConnections: 5}}"),
            counts(1, 0, 0, 0),
        ),
        (hash("b", ""), counts(1, 0, 2, 0)),
        (
            rule("trafficPolicy: {loadBalancer: {simple: RANDOM}}"),
            counts(1, 0, 2, 0),
        ),
        (rule("subsets: [{name: all}]"), counts(2, 2, 0, 0)),
        (
            rule("subsets: [{name: all, labels: {v: x}}]"),
            counts(2, 1, 0, 0),
        ),
    ];
    for (n, (change, expected)) in steps.into_iter().enumerate() {
        assert_eq!(pilot.change(change), expected, "step {n}");
    }
}

#[test]
fn a_secret_costs_its_clusters_when_it_comes_and_itself_when_it_changes() {
    let mut pilot = Pilot::new();
    let secret = |ca: Option<&'static str>| {
        let state = ca.map_or(SecretState::Absent, |ca| {
            SecretState::Valid(Arc::new(TlsSecret {
                ca: Some(ca.into()),
                ..TlsSecret::default()
            }))
        });
        Change::Secret(NamespacedName::new("app", "ca"), state)
    };
    let tls = rule(
        "trafficPolicy: {tls: {mode: SIMPLE, credentialName: 'kubernetes-ingress://Kubernetes/app/ca'}}",
    );
    assert_eq!(pilot.change(secret(Some("one"))), Counts::default());
    assert_eq!(pilot.change(secret(None)), Counts::default());
    assert_eq!(pilot.change(tls), counts(1, 0, 0, 0));
    assert!(pilot.snapshot.generated().secrets.is_empty());
    assert_eq!(pilot.change(secret(Some("one"))), counts(1, 0, 0, 1));
    assert_eq!(pilot.change(secret(Some("two"))), counts(0, 0, 0, 1));
    assert_eq!(pilot.change(secret(None)), counts(1, 0, 0, 0));
    assert!(pilot.snapshot.generated().secrets.is_empty());
}
