//! A changed DestinationRule or EnvoyFilter costs what depends on it, and nothing else.
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
            metadata: Default::default(),
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

fn filter(name: &str, patches: &str) -> Change {
    object::<istio::EnvoyFilter>(name, &format!("configPatches: [{patches}]"))
}

/// A patch of all routes of a host.
fn patch_of(host: &str, value: &str) -> String {
    format!(
        "{{applyTo: HTTP_ROUTE, match: {{routeConfiguration: {{vhost: {{name: '{host}.test:80'}}}}}}, \
         patch: {{operation: MERGE, value: {{stat_prefix: {value}}}}}}}"
    )
}

#[test]
fn a_patch_costs_what_it_is_for() {
    let mut pilot = Pilot::new();
    let all = SERVICES as u64;
    let clean = pilot.snapshot.generated().clone();
    // One object per host, as many as there are hosts.
    for n in 0..SERVICES {
        let name = format!("h{n}");
        let cost = pilot.change(filter(&name, &patch_of(&name, "one")));
        assert_eq!(cost, counts(0, 0, 1, 0), "{name}");
    }
    let patched = pilot.snapshot.generated().clone();
    assert_ne!(patched.routes, clean.routes);
    assert!(patched.clusters.ptr_eq(&clean.clusters) && patched.listeners.ptr_eq(&clean.listeners));
    assert!(patched.routes["higress-rds-80.both.test"] == clean.routes["higress-rds-80.both.test"]);

    let listener = |value: &str| {
        format!(
            "{{applyTo: LISTENER, patch: {{operation: MERGE, value: {{stat_prefix: {value}}}}}}}"
        )
    };
    let cluster = |of: &str| {
        format!(
            "{{applyTo: CLUSTER, match: {{cluster: {of}}}, patch: {{operation: MERGE, value: {{alt_stat_name: x}}}}}}"
        )
    };
    let lds = Counts {
        lds: 1,
        ..Counts::default()
    };
    let named = format!("{{name: 'outbound|80||{}'}}", hostname(1));
    let two = [patch_of("h1", "two"), patch_of("h2", "two")].join(", ");
    let three = [patch_of("h1", "two"), patch_of("h2", "three")].join(", ");
    let elsewhere = patch_of("nowhere", "x");
    let steps = [
        (filter("one", &listener("a")), lds),
        (filter("one", &listener("a")), Counts::default()),
        (filter("one", &cluster("{}")), Counts { cds: all, ..lds }),
        (filter("one", &cluster(&named)), counts(all, 0, 0, 0)),
        (filter("one", &two), counts(1, 0, 2, 0)),
        (filter("one", &three), counts(0, 0, 1, 0)),
        (filter("one", &elsewhere), counts(0, 0, 2, 0)),
        (
            filter(
                "one",
                "{applyTo: HTTP_ROUTE, patch: {operation: MERGE, value: {stat_prefix: x}}}",
            ),
            counts(0, 0, all + 1, 0),
        ),
        // For other proxies.
        (
            object::<istio::EnvoyFilter>(
                "other",
                &format!(
                    "workloadSelector: {{labels: {{a: b}}}}\nconfigPatches: [{two}, {}]",
                    listener("b")
                ),
            ),
            Counts::default(),
        ),
    ];
    for (n, (change, expected)) in steps.into_iter().enumerate() {
        assert_eq!(pilot.change(change), expected, "step {n}");
    }
}

#[test]
fn a_cluster_that_only_a_patch_names_is_sent() {
    let mut pilot = Pilot::new();
    let service = Service {
        hostname: "auth.app.svc.cluster.local".into(),
        namespace: "app".into(),
        name: "auth".into(),
        ports: vec![ServicePort {
            name: "http".into(),
            number: 80,
            protocol: Protocol::Http,
        }],
        resolution: Resolution::Eds,
        created: 0,
    };
    let service = Change::Service(service.hostname.clone(), Some(Arc::new(service)));
    assert_eq!(pilot.change(service), Counts::default());
    let patch = "{applyTo: HTTP_FILTER, patch: {operation: INSERT_FIRST, value: {name: a, typed_config: \
         {'@type': type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz, \
         http_service: {server_uri: {uri: 'http://auth', timeout: 1s, cluster: 'outbound|80||auth.app.svc.cluster.local'}}}}}}";
    let cost = pilot.change(filter("auth", patch));
    assert_eq!((cost.cds, cost.eds, cost.lds), (1, 1, 1));
    let name = "outbound|80||auth.app.svc.cluster.local";
    assert!(pilot.snapshot.generated().clusters.contains_key(name));
    pilot.change(filter("auth", ""));
    assert!(!pilot.snapshot.generated().clusters.contains_key(name));
}

#[test]
fn clusters_are_those_of_the_ports_that_routes_name() {
    let mut pilot = Pilot::new();
    let name = "many.app.svc.cluster.local";
    let port = |number| ServicePort {
        name: format!("p{number}").into(),
        number,
        protocol: Protocol::Http,
    };
    let service = Service {
        hostname: name.into(),
        namespace: "app".into(),
        name: "many".into(),
        ports: (1..=3000).map(port).collect(),
        resolution: Resolution::Eds,
        created: 0,
    };
    let to = |host: &str, port: &str| {
        object::<istio::VirtualService>(
            host,
            &format!(
                "{{hosts: [{host}.test], gateways: [sys/all], http: [{{route: [{{destination: {{host: {name}{port}}}}}]}}]}}"
            ),
        )
    };
    let clusters = |pilot: &Pilot| {
        let all = pilot.snapshot.generated().clusters.keys();
        all.filter(|cluster| cluster.ends_with(name)).count()
    };
    pilot.change(Change::Service(name.into(), Some(Arc::new(service))));
    assert_eq!(clusters(&pilot), 0);
    let seven = ", port: {number: 7}";
    assert_eq!(pilot.change(to("a", seven)), with_scope(counts(1, 1, 1, 0)));
    assert_eq!(clusters(&pilot), 1);
    // A second user of the port costs its routes.
    assert_eq!(pilot.change(to("b", seven)), with_scope(counts(0, 0, 1, 0)));
    // A further port.
    pilot.change(to("b", ", port: {number: 8}"));
    assert_eq!(clusters(&pilot), 2);
    // One that the service does not have.
    pilot.change(to("b", ", port: {number: 4000}"));
    assert_eq!(clusters(&pilot), 1);
    // Whoever names none may mean any.
    pilot.change(to("b", ""));
    assert_eq!(clusters(&pilot), 3000);
    pilot.change(to("b", seven));
    assert_eq!(clusters(&pilot), 1);
    assert_eq!(
        pilot
            .snapshot
            .generated()
            .endpoints
            .keys()
            .filter(|n| n.ends_with(name))
            .count(),
        1
    );
}

fn with_scope(counts: Counts) -> Counts {
    Counts { srds: 1, ..counts }
}

#[test]
fn routes_that_pass_tls_on_cost_the_listener_of_their_gateway() {
    let mut pilot = Pilot::new();
    let lds = |lds: u64, rest: Counts| Counts { lds, ..rest };
    let gateway = object::<istio::Gateway>(
        "tls",
        "servers: [{port: {number: 443, name: tls, protocol: TLS}, tls: {mode: PASSTHROUGH}, hosts: [p.test]}]",
    );
    let route = |port: u16| {
        object::<istio::VirtualService>(
            "p",
            &format!(
                "{{hosts: [p.test], gateways: [sys/tls], tls: [{{match: [{{port: 443, sniHosts: [p.test]}}], route: [{{destination: {{host: {}, port: {{number: {port}}}}}}}]}}]}}",
                hostname(0)
            ),
        )
    };
    let cluster = |pilot: &Pilot| {
        let listener = &pilot.snapshot.generated().listeners["0.0.0.0_443"];
        let (_, bytes) = listener.parts().unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let start = text.find("outbound|").map(|at| text[at..].to_owned());
        start.map(|name| name.split("||").next().unwrap().to_owned())
    };
    // Without a route the host is closed.
    assert_eq!(pilot.change(gateway).lds, 1);
    assert_eq!(cluster(&pilot), None);
    assert_eq!(pilot.change(route(80)), lds(1, counts(0, 0, 0, 0)));
    assert_eq!(cluster(&pilot).unwrap(), "outbound|80");
    assert_eq!(pilot.change(route(81)).lds, 1);
    assert_eq!(cluster(&pilot).unwrap(), "outbound|81");
    // Routes of other hosts do not touch listeners, and nothing is routed by HTTP on that port.
    assert_eq!(pilot.change(host("h0", &[1])).lds, 0);
    assert!(
        !pilot
            .snapshot
            .generated()
            .scopes
            .keys()
            .any(|name| name.starts_with("443"))
    );
}
