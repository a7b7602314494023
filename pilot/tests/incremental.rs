//! For random sequences of events the next state equals one built from scratch, in all its indexes and resources.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use pilot::model::change::{Change, NamespacedName, SecretState};
use pilot::model::config::{Facts, StoredConfig};
use pilot::model::endpoint::{Endpoint, Endpoints};
use pilot::model::proxy::ProxyClass;
use pilot::model::secret::TlsSecret;
use pilot::model::service::{Protocol, Resolution, Service, ServicePort};
use pilot::push::world::World;
use pilot::xds::class::{ClassSnapshot, PushOptions};
use proptest::prelude::*;
use shared_proto::config::{Config, ConfigKey, Meta};
use shared_proto::networking::v1alpha3 as istio;
use shared_proto::{Kind, mcp};

const HOSTS: [&str; 6] = ["a.test", "b.test", "*.test", "*", "x.y.test", "*.y.test"];

#[derive(Clone, Debug)]
enum Op {
    Gateway {
        name: u8,
        host: usize,
        tls: Option<u8>,
        mutual: bool,
        labels: bool,
        port: u8,
    },
    DropGateway {
        name: u8,
    },
    Service {
        name: u8,
        hosts: Vec<usize>,
        gateways: Vec<u8>,
        to: u8,
        port: Option<u8>,
        fallback: Option<u8>,
        path: u8,
    },
    DropService {
        name: u8,
    },
    Rule {
        name: u8,
        text: usize,
        host: usize,
        secret: u8,
        root: bool,
    },
    DropRule {
        name: u8,
        root: bool,
    },
    Registry {
        name: u8,
        ports: u8,
        dns: bool,
    },
    DropRegistry {
        name: u8,
    },
    Endpoints {
        name: u8,
        count: u8,
    },
    Secret {
        name: u8,
        state: u8,
    },
    Filter {
        name: u8,
        texts: Vec<usize>,
        head: usize,
        root: bool,
    },
    DropFilter {
        name: u8,
        root: bool,
    },
    Push,
}

fn op() -> impl Strategy<Value = Op> {
    let name = || 0..4u8;
    prop_oneof![
        1 => (
            name(),
            0..HOSTS.len(),
            prop::option::of(name()),
            any::<(bool, bool)>(),
            0..2u8
        )
            .prop_map(|(name, host, tls, (mutual, labels), port)| Op::Gateway {
                name,
                host,
                tls,
                mutual,
                labels,
                port
            }),
        1 => name().prop_map(|name| Op::DropGateway { name }),
        1 => (
            name(),
            prop::collection::vec(0..HOSTS.len(), 1..3),
            prop::collection::vec(name(), 1..3),
            name(),
            prop::option::of(0..2u8),
            prop::option::of(name()),
            0..3u8
        )
            .prop_map(
                |(name, hosts, gateways, to, port, fallback, path)| Op::Service {
                    name,
                    hosts,
                    gateways,
                    to,
                    port,
                    fallback,
                    path
                }
            ),
        1 => rule(),
        1 => rule(),
        1 => filter(),
        1 => filter(),
        1 => (name(), any::<bool>()).prop_map(|(name, root)| Op::DropFilter { name, root }),
        1 => (name(), any::<bool>()).prop_map(|(name, root)| Op::DropRule { name, root }),
        1 => name().prop_map(|name| Op::DropService { name }),
        1 => (name(), 0..3u8, any::<bool>()).prop_map(|(name, ports, dns)| Op::Registry {
            name,
            ports,
            dns
        }),
        1 => name().prop_map(|name| Op::DropRegistry { name }),
        1 => (name(), 0..3u8).prop_map(|(name, count)| Op::Endpoints { name, count }),
        2 => (name(), 0..4u8).prop_map(|(name, state)| Op::Secret { name, state }),
        4 => Just(Op::Push),
    ]
}

fn rule() -> impl Strategy<Value = Op> {
    (
        0..4u8,
        0..RULES.len(),
        0..RULE_HOSTS.len(),
        0..4u8,
        any::<bool>(),
    )
        .prop_map(|(name, text, host, secret, root)| Op::Rule {
            name,
            text,
            host,
            secret,
            root,
        })
}

fn filter() -> impl Strategy<Value = Op> {
    let texts = prop::collection::vec(0..PATCHES.len(), 1..4);
    (0..4u8, texts, 0..FILTER_HEADS.len(), any::<bool>()).prop_map(|(name, texts, head, root)| {
        Op::Filter {
            name,
            texts,
            head,
            root,
        }
    })
}

/// For whom an EnvoyFilter is.
const FILTER_HEADS: [&str; 4] = [
    "",
    "priority: -1, ",
    "workloadSelector: {labels: {app: gw}}, ",
    "workloadSelector: {labels: {app: other}}, ",
];

/// Patches of all sorts, each with one that does the same another time.
const PATCHES: [&str; 24] = [
    "{applyTo: HTTP_ROUTE, match: {routeConfiguration: {vhost: {name: 'a.test:80', route: {name: r}}}}, patch: {operation: MERGE, value: {stat_prefix: a}}}",
    "{applyTo: HTTP_ROUTE, match: {routeConfiguration: {vhost: {name: 'a.test:80'}}}, patch: {operation: MERGE, value: {stat_prefix: b, route: {cluster: 'outbound|81||s2.app.svc.cluster.local'}}}}",
    "{applyTo: HTTP_ROUTE, match: {routeConfiguration: {vhost: {name: '*.test:81'}}}, patch: {operation: REMOVE}}",
    "{applyTo: HTTP_ROUTE, match: {routeConfiguration: {vhost: {domainName: b.test}}}, patch: {operation: INSERT_FIRST, value: {match: {prefix: /f}, redirect: {}}}}",
    "{applyTo: HTTP_ROUTE, patch: {operation: MERGE, value: {stat_prefix: c}}}",
    "{applyTo: HTTP_ROUTE, match: {routeConfiguration: {portNumber: 81, portName: p}}, patch: {operation: MERGE, value: {stat_prefix: d}}}",
    "{applyTo: VIRTUAL_HOST, match: {routeConfiguration: {gateway: sys/g1}}, patch: {operation: MERGE, value: {request_headers_to_remove: [x]}}}",
    "{applyTo: VIRTUAL_HOST, match: {routeConfiguration: {name: http.80}}, patch: {operation: ADD, value: {name: added, domains: [b.test]}}}",
    "{applyTo: VIRTUAL_HOST, match: {routeConfiguration: {name: higress-rds-80.b.test, vhost: {name: 'b.test:80'}}}, patch: {operation: REPLACE, value: {name: other, domains: [q.test]}}}",
    "{applyTo: ROUTE_CONFIGURATION, match: {routeConfiguration: {name: higress-rds-443.x.y.test}}, patch: {operation: MERGE, value: {most_specific_header_mutations_wins: true}}}",
    "{applyTo: ROUTE_CONFIGURATION, match: {routeConfiguration: {vhost: {name: 'blackhole:80'}}}, patch: {operation: MERGE, value: {most_specific_header_mutations_wins: true}}}",
    "{applyTo: CLUSTER, patch: {operation: MERGE, value: {connect_timeout: 3s}}}",
    "{applyTo: CLUSTER, match: {cluster: {name: 'outbound|80||s1.app.svc.cluster.local'}}, patch: {operation: REMOVE}}",
    "{applyTo: CLUSTER, match: {cluster: {service: s3.app.svc.cluster.local, subset: all}}, patch: {operation: MERGE, value: {connect_timeout: 4s}}}",
    "{applyTo: CLUSTER, patch: {operation: ADD, value: {name: own, connect_timeout: 1s}}}",
    "{applyTo: CLUSTER, patch: {operation: ADD, value: {name: own, connect_timeout: 2s}}}",
    "{applyTo: LISTENER, patch: {operation: ADD, value: {name: 0.0.0.0_443, address: {pipe: {path: /x}}}}}",
    "{applyTo: LISTENER, match: {listener: {portNumber: 443}}, patch: {operation: REMOVE}}",
    "{applyTo: LISTENER, match: {listener: {portName: p}}, patch: {operation: MERGE, value: {stat_prefix: s}}}",
    "{applyTo: FILTER_CHAIN, match: {listener: {filterChain: {sni: a.test}}}, patch: {operation: REMOVE}}",
    "{applyTo: HTTP_FILTER, match: {listener: {portNumber: 80}}, patch: {operation: INSERT_FIRST, value: {name: f, disabled: true}}}",
    "{applyTo: EXTENSION_CONFIG, patch: {operation: ADD, value: {name: e, typed_config: {'@type': type.googleapis.com/google.protobuf.Duration, value: 1s}}}}",
    "{applyTo: HTTP_FILTER, match: {proxy: {metadata: {TIER: front}}}, patch: {operation: ADD, value: {name: g}}}",
    "{applyTo: HTTP_FILTER, match: {proxy: {proxyVersion: '^1'}}, patch: {operation: ADD, value: {name: h}}}",
];

fn envoy_filter(texts: &[usize], head: usize) -> istio::EnvoyFilter {
    let patches: Vec<&str> = texts.iter().map(|text| PATCHES[*text]).collect();
    let text = format!(
        "{{{}configPatches: [{}]}}",
        FILTER_HEADS[head],
        patches.join(", ")
    );
    serde_yaml::from_str(&text).unwrap()
}

const RULE_HOSTS: [&str; 6] = [
    "s0.app.svc.cluster.local",
    "s1.app.svc.cluster.local",
    "s2.app.svc.cluster.local",
    "s3.app.svc.cluster.local",
    "*.app.svc.cluster.local",
    "*",
];

/// `HOST` and `SECRET` are replaced.
const RULES: [&str; 10] = [
    "{host: HOST, trafficPolicy: {loadBalancer: {simple: RANDOM}}}",
    "{host: HOST, trafficPolicy: {loadBalancer: {consistentHash: {useSourceIp: true}}}}",
    "{host: HOST, trafficPolicy: {portLevelSettings: [{port: {number: 80}, loadBalancer: {consistentHash: {httpHeaderName: x}}}]}}",
    "{host: HOST, subsets: [{name: all}, {name: some, labels: {v: '1'}}]}",
    "{host: HOST, subsets: [{name: all, trafficPolicy: {loadBalancer: {consistentHash: {httpHeaderName: y}}}}]}",
    "{host: HOST, trafficPolicy: {tls: {mode: SIMPLE, credentialName: SECRET}}}",
    "{host: HOST, trafficPolicy: {tls: {mode: MUTUAL, credentialName: SECRET, insecureSkipVerify: false}}}",
    "{host: HOST, trafficPolicy: {tls: {mode: MUTUAL, credentialName: SECRET}}, exportTo: ['.']}",
    "{host: HOST, workloadSelector: {matchLabels: {app: gw}}, trafficPolicy: {connectionPool: {http: {h2UpgradePolicy: UPGRADE}}}}",
    "{host: HOST, workloadSelector: {matchLabels: {app: other}}, trafficPolicy: {loadBalancer: {simple: ROUND_ROBIN}}}",
];

fn destination_rule(text: usize, host: usize, secret: u8) -> istio::DestinationRule {
    let secret = format!("\"kubernetes-ingress://Kubernetes/app/k{secret}\"");
    let host = format!("\"{}\"", RULE_HOSTS[host]);
    let text = RULES[text]
        .replace("HOST", &host)
        .replace("SECRET", &secret);
    serde_yaml::from_str(&text).unwrap()
}

fn stored(name: &str, spec: impl Into<shared_proto::Spec>) -> Change {
    stored_in("sys", name, spec)
}

fn stored_in(namespace: &str, name: &str, spec: impl Into<shared_proto::Spec>) -> Change {
    let config = Config::new(Meta::new(namespace, name), spec);
    let (_, bytes) = mcp::encode(&config);
    let stored = StoredConfig::from_mcp(mcp::decode(bytes).unwrap(), "cluster.local").unwrap();
    Change::Config(stored.key.clone(), Some(Arc::new(stored)))
}

fn hostname(name: u8) -> Arc<str> {
    format!("s{name}.app.svc.cluster.local").into()
}

fn gateway(
    host: usize,
    tls: Option<u8>,
    mutual: bool,
    labels: bool,
    second_port: u8,
) -> istio::Gateway {
    let port = |number: u32, protocol: &str| {
        Some(istio::Port {
            number,
            protocol: protocol.into(),
            name: "p".into(),
            ..Default::default()
        })
    };
    let mut servers = vec![istio::Server {
        port: port(80 + u32::from(second_port), "HTTP"),
        hosts: vec![HOSTS[host].into()],
        ..Default::default()
    }];
    if let Some(secret) = tls {
        servers.push(istio::Server {
            port: port(443, "HTTPS"),
            hosts: vec![HOSTS[host].into()],
            tls: Some(istio::ServerTlsSettings {
                mode: if mutual { 2 } else { 1 },
                credential_name: format!("kubernetes-ingress://Kubernetes/app/k{secret}"),
                ..Default::default()
            }),
            ..Default::default()
        });
    }
    let selector = labels.then(|| ("app".to_owned(), "gw".to_owned()));
    istio::Gateway {
        servers,
        selector: selector.into_iter().collect(),
    }
}

fn virtual_service(
    hosts: &[usize],
    gateways: &[u8],
    (to, port): (u8, Option<u8>),
    fallback: Option<u8>,
    path: u8,
) -> istio::VirtualService {
    let destination = |to, port: Option<u8>| istio::Destination {
        host: hostname(to).to_string(),
        port: port.map(|port| istio::PortSelector {
            number: 80 + u32::from(port),
        }),
        subset: if path == 2 { "all" } else { "" }.into(),
    };
    let fallbacks = fallback.map(|to| destination(to, Some(0)));
    let matching = istio::HttpMatchRequest {
        uri: Some(istio::StringMatch {
            match_type: Some(istio::string_match::MatchType::Prefix(format!("/{path}"))),
        }),
        ..Default::default()
    };
    istio::VirtualService {
        hosts: hosts.iter().map(|host| HOSTS[*host].into()).collect(),
        gateways: gateways
            .iter()
            .map(|gateway| format!("sys/g{gateway}"))
            .collect(),
        http: vec![istio::HttpRoute {
            name: "r".into(),
            r#match: vec![matching],
            route: vec![istio::HttpRouteDestination {
                destination: Some(destination(to, port)),
                fallback_clusters: fallbacks.into_iter().collect(),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn change(op: &Op) -> Option<Change> {
    let key = |kind, letter: char, name: u8| ConfigKey::new(kind, "sys", format!("{letter}{name}"));
    Some(match op {
        Op::Gateway {
            name,
            host,
            tls,
            mutual,
            labels,
            port,
        } => stored(
            &format!("g{name}"),
            gateway(*host, *tls, *mutual, *labels, *port),
        ),
        Op::Rule {
            name,
            text,
            host,
            secret,
            root,
        } => stored_in(
            namespace(*root),
            &format!("d{name}"),
            destination_rule(*text, *host, *secret),
        ),
        Op::Filter {
            name,
            texts,
            head,
            root,
        } => stored_in(
            namespace(*root),
            &format!("f{name}"),
            envoy_filter(texts, *head),
        ),
        Op::DropFilter { name, root } => Change::Config(
            ConfigKey::new(Kind::EnvoyFilter, namespace(*root), format!("f{name}")),
            None,
        ),
        Op::DropRule { name, root } => Change::Config(
            ConfigKey::new(Kind::DestinationRule, namespace(*root), format!("d{name}")),
            None,
        ),
        Op::DropGateway { name } => Change::Config(key(Kind::Gateway, 'g', *name), None),
        Op::Service {
            name,
            hosts,
            gateways,
            to,
            port,
            fallback,
            path,
        } => stored(
            &format!("v{name}"),
            virtual_service(hosts, gateways, (*to, *port), *fallback, *path),
        ),
        Op::DropService { name } => Change::Config(key(Kind::VirtualService, 'v', *name), None),
        Op::Registry { name, ports, dns } => {
            let port = |number: u8| ServicePort {
                name: format!("p{number}").into(),
                number: 80 + u16::from(number),
                protocol: Protocol::Http,
            };
            let resolution = if *dns {
                Resolution::Dns {
                    address: "far.test".into(),
                }
            } else {
                Resolution::Eds
            };
            let service = Service {
                hostname: hostname(*name),
                namespace: "app".into(),
                name: format!("s{name}").into(),
                ports: (0..*ports).map(port).collect(),
                resolution,
                created: 0,
            };
            Change::Service(hostname(*name), Some(Arc::new(service)))
        }
        Op::DropRegistry { name } => Change::Service(hostname(*name), None),
        Op::Endpoints { name, count } => {
            let endpoint = |n: u8| ("p0".into(), Endpoint::new([10, 0, 0, n].into(), 8080));
            Change::Endpoints(
                hostname(*name),
                Arc::new(Endpoints::new((0..*count).map(endpoint))),
            )
        }
        Op::Secret { name, state } => {
            let secret = |text: &str, ca: Option<&'static str>| {
                SecretState::Valid(Arc::new(TlsSecret {
                    cert_chain: text.to_owned().into(),
                    private_key: "k".into(),
                    ca: ca.map(Into::into),
                }))
            };
            let state = match state {
                0 => SecretState::Absent,
                1 => secret("one", None),
                2 => secret("one", Some("anchors")),
                // Invalid keeps what was there, which depends on history: not part of this property.
                _ => secret("two", None),
            };
            Change::Secret(NamespacedName::new("app", format!("k{name}")), state)
        }
        Op::Push => return None,
    })
}

fn namespace(root: bool) -> &'static str {
    if root { "root" } else { "sys" }
}

fn class() -> ProxyClass {
    let labels: BTreeMap<String, String> = [("app".to_owned(), "gw".to_owned())].into();
    ProxyClass {
        namespace: "sys".into(),
        labels,
        secrets: true,
        metadata: [("TIER".to_owned(), "front".to_owned())].into(),
    }
}

/// A world in which most later events matter: all services are there and routes lead to them.
fn base() -> Vec<Op> {
    let mut ops = vec![Op::Gateway {
        name: 0,
        host: 3,
        tls: None,
        mutual: false,
        labels: false,
        port: 0,
    }];
    for name in 0..4 {
        ops.push(Op::Registry {
            name,
            ports: 2,
            dns: false,
        });
        ops.push(Op::Service {
            name,
            hosts: vec![usize::from(name)],
            gateways: vec![0],
            to: name,
            port: Some(0),
            fallback: None,
            path: 0,
        });
    }
    ops.push(Op::Push);
    ops
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let random = prop::collection::vec(op(), 1..40);
    (any::<bool>(), random).prop_map(|(based, random)| {
        let base = if based { base() } else { Vec::new() };
        base.into_iter().chain(random).collect()
    })
}

fn check(ops: &[Op], options: &PushOptions) {
    let mut world = World::default();
    let mut snapshot = ClassSnapshot::build(class(), &world, options).snapshot;
    let (mut batch, mut all) = (Vec::new(), Vec::new());
    for op in ops.iter().chain([&Op::Push]) {
        if let Some(change) = change(op) {
            batch.push(change.clone());
            all.push(change);
            continue;
        }
        let (next, changed) = world.next(std::mem::take(&mut batch));
        snapshot = snapshot.next(&next, &changed, options).snapshot;
        world = next;
        let (scratch, _) = World::default().next(all.clone());
        assert_eq!(world, scratch);
        let built = ClassSnapshot::build(class(), &scratch, options).snapshot;
        assert_eq!(snapshot.generated(), built.generated());
    }
}

#[test]
fn every_patch_of_the_property_is_one() {
    for n in 0..PATCHES.len() {
        let Change::Config(_, Some(config)) = stored("f", envoy_filter(&[n], 0)) else {
            panic!("a config");
        };
        let Facts::EnvoyFilter(facts) = &config.facts else {
            panic!("an EnvoyFilter");
        };
        assert_eq!((facts.patches.len(), &*facts.mistakes), (1, &[][..]));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn scoped(ops in ops()) {
        check(&ops, &PushOptions { scoped_rds: true, domain: "cluster.local".into(), root_namespace: "root".into(), ..Default::default() });
    }

    #[test]
    fn merging_subsets(ops in ops()) {
        check(&ops, &PushOptions {
            scoped_rds: true, merge_subset: true, domain: "cluster.local".into(), root_namespace: "root".into(), ..Default::default()
        });
    }

    #[test]
    fn plain(ops in ops()) {
        check(&ops, &PushOptions {
            scoped_rds: false, all_clusters: true, domain: "cluster.local".into(), root_namespace: "root".into(), ..Default::default()
        });
    }
}
