//! Properties of the whole pipeline: order does not matter, incremental equals from scratch, work is proportional.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use controller::app::Pipeline;
use controller::ingest::{Change, Object};
use controller::model::{
    Backend, BackendPort, Ingress, IngressClass, IngressPath, IngressRule, IngressTls, ObjectKind,
    ObjectRef, PathType, Scope, Secret, Service, ServicePort, parse_host,
};
use controller::resolve::Alias;
use controller::translate::ingress::annotations::table::{HIGRESS, KEYS, NGINX};
use controller::translate::ingress::annotations::unsupported::UNSUPPORTED;
use controller::translate::ingress::needs;
use proptest::prelude::*;
use shared_proto::Kind;

type Event = (ObjectRef, Option<Object>);

fn text(text: &str) -> Arc<str> {
    Arc::from(text)
}

fn pick(choices: &'static [&'static str]) -> impl Strategy<Value = Arc<str>> {
    proptest::sample::select(choices).prop_map(text)
}

fn backend() -> impl Strategy<Value = Backend> {
    let port = prop_oneof![
        4 => (1u16..4).prop_map(BackendPort::Number),
        3 => pick(&["web", "api", "nope"]).prop_map(BackendPort::Name),
        1 => Just(BackendPort::Absent),
    ];
    prop_oneof![
        8 => (pick(&["s", "t", "bad name"]), port).prop_map(|(name, port)| Backend::Service { name, port }),
        1 => Just(Backend::Absent),
    ]
}

fn path() -> impl Strategy<Value = IngressPath> {
    let path_type = prop_oneof![
        4 => Just(PathType::Prefix),
        3 => Just(PathType::Exact),
        1 => Just(PathType::Absent),
        1 => Just(PathType::Unknown(text("Odd"))),
    ];
    let path = pick(&[
        "", "/", "/a", "/a/", "/a/b", "/b", "b", "/*", "/(a)/b.?", "/[a",
    ]);
    (path, path_type, backend()).prop_map(|(path, path_type, backend)| IngressPath {
        path,
        path_type,
        backend,
    })
}

fn rule() -> impl Strategy<Value = IngressRule> {
    let host = pick(&["", "a.test", "A.test", "b.test", "*.test", "a:b", "c.test"]);
    (host, proptest::collection::vec(path(), 0..4)).prop_map(|(host, paths)| IngressRule {
        host: parse_host(&host)
            .map(Arc::from)
            .map_err(|error| (host, error)),
        paths: paths.into(),
    })
}

fn tls() -> impl Strategy<Value = IngressTls> {
    let hosts = proptest::collection::vec(pick(&["a.test", "b.test", "*"]), 1..3);
    (hosts, pick(&["", "x", "y"])).prop_map(|(hosts, secret)| IngressTls {
        hosts: hosts.into(),
        secret,
    })
}

/// An annotation of any known key, one that does nothing, or one that nobody knows; with a value that may fit or not.
fn annotation() -> impl Strategy<Value = (Arc<str>, Arc<str>)> {
    let known = proptest::sample::select(KEYS);
    let known = (known, any::<bool>()).prop_map(|(key, nginx)| {
        let full = if nginx { key.nginx } else { key.higress };
        format!("{full}{}", if key.named { "x" } else { "" })
    });
    let key = prop_oneof![
        12 => known,
        1 => proptest::sample::select(UNSUPPORTED).prop_map(|row| format!("{NGINX}{}", row.name)),
        1 => "[a-z/.-]{0,12}".prop_map(|name| format!("{HIGRESS}{name}")),
    ];
    let value = prop_oneof![
        5 => Just("true".to_owned()),
        12 => proptest::sample::select(VALUES).prop_map(str::to_owned),
        1 => ".{0,12}",
    ];
    (key, value).prop_map(|(key, value)| (Arc::from(key), Arc::from(value)))
}

/// Values that some annotation takes, and near misses.
const VALUES: &[&str] = &[
    "",
    "*",
    "on",
    "off",
    "0",
    "1",
    "5",
    "-1",
    "50",
    "99999999999",
    "503, 404",
    "/",
    "/x",
    "/$1",
    "/$9\\",
    "s",
    "n/s",
    "m/t:80",
    "http://b.test",
    "https://b.test:8443/x?y#z",
    "b.test",
    "GET POST",
    "x-a 1\nx-b \"2 3\"",
    "10.0.0.0/8, ::1",
    "10.0.0.0/99",
    "error http_503",
    "(unclosed",
    "a.*|b",
    "HTTPS",
    "grpc",
    "least_conn",
    "$http_x",
    "cookie",
    "TLSv1.2",
    "x",
    "x-cacert",
    "\u{1}",
    "ingress-nginx",
    "30% a.nacos:80 v1\n70% b.static",
    "basic",
    "any",
    "https://$host/a",
    "http://s.n.svc:80/a?b",
    "http://127.0.0.1/",
    "8m",
    "x-a ${secret.s.auth}",
];

fn ingress() -> impl Strategy<Value = Event> {
    let name = (pick(&["n", "m", "higress-system"]), pick(&["i", "j", "k"]));
    let class = prop_oneof![5 => Just(Some(text("higress"))), 1 => Just(None)];
    let default = proptest::option::weighted(0.2, backend());
    let rules = proptest::collection::vec(rule(), 0..4);
    let tls = proptest::collection::vec(tls(), 0..3);
    let annotations = proptest::collection::vec(annotation(), 0..5);
    (name, 0i64..3, class, default, rules, tls, annotations).prop_map(
        |((namespace, name), created, class_name, default_backend, rules, tls, annotations)| {
            let reference = reference(ObjectKind::Ingress, &namespace, &name);
            let mut ingress = Ingress::new(namespace, name);
            ingress.created = created;
            ingress.class_name = class_name;
            ingress.default_backend = default_backend;
            ingress.rules = rules.into();
            ingress.tls = tls.into();
            ingress.annotations = annotations.into_iter().collect();
            (
                reference,
                Some(Object::Ingress(Box::new(ingress.indexed()))),
            )
        },
    )
}

fn service() -> impl Strategy<Value = Event> {
    let port = (pick(&["web", "api"]), 80u16..84);
    let ports = proptest::collection::vec(port, 0..3);
    (pick(&["n", "m"]), pick(&["s", "t"]), ports).prop_map(|(namespace, name, ports)| {
        let ports = ports
            .into_iter()
            .map(|(name, number)| ServicePort { name, number });
        let service = Service {
            ports: ports.collect(),
        };
        let reference = reference(ObjectKind::Service, &namespace, &name);
        (reference, Some(Object::Service(service)))
    })
}

fn secret() -> impl Strategy<Value = Event> {
    let value = pick(&["", "u:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=", "u:x", "\n"]);
    (pick(&["n", "m"]), pick(&["s", "x"]), value).prop_map(|(namespace, name, value)| {
        let secret = Secret::new([("auth".to_owned(), value.as_bytes().to_vec())]);
        let reference = reference(ObjectKind::Secret, &namespace, &name);
        (reference, Some(Object::Secret(secret)))
    })
}

fn class() -> impl Strategy<Value = Event> {
    let value = pick(&["ingress-nginx", "higress", "nginx", ""]);
    (pick(&["higress", "other"]), value).prop_map(|(name, value)| {
        let class = IngressClass {
            semantics: Some(value),
        };
        let reference = reference(ObjectKind::IngressClass, "", &name);
        (reference, Some(Object::IngressClass(class)))
    })
}

fn reference(kind: ObjectKind, namespace: &str, name: &str) -> ObjectRef {
    ObjectRef {
        kind,
        namespace: text(namespace),
        name: text(name),
    }
}

fn event() -> impl Strategy<Value = Event> {
    let upsert = prop_oneof![8 => ingress(), 2 => service(), 2 => secret(), 1 => class()];
    (upsert, prop::bool::weighted(0.25))
        .prop_map(|((reference, object), gone)| (reference, object.filter(|_| !gone)))
}

fn pipeline() -> Pipeline {
    Pipeline::new(Arc::new(Scope::default()))
}

fn change(objects: impl IntoIterator<Item = Event>) -> Change {
    Change {
        objects: objects.into_iter().collect(),
        ..Change::default()
    }
}

/// Everything that can be seen from outside.
fn view(pipeline: &Pipeline) -> (BTreeMap<String, Vec<u8>>, Vec<String>) {
    let snapshot = pipeline.snapshot();
    let resources = Kind::ALL.iter().flat_map(|kind| snapshot.of(*kind).iter());
    let resources = resources.map(|(name, resource)| (name.to_string(), resource.any().to_vec()));
    let reports = pipeline
        .reports()
        .all()
        .iter()
        .map(ToString::to_string)
        .collect();
    (resources.collect(), reports)
}

fn host_of(config: &shared_proto::Config) -> String {
    let spec = config.spec.to_json();
    let hosts = spec
        .get("hosts")
        .or_else(|| spec.pointer("/servers/0/hosts"))
        .unwrap();
    hosts[0].as_str().unwrap().to_owned()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn incremental_equals_from_scratch(steps in proptest::collection::vec(proptest::collection::vec(event(), 1..4), 1..12)) {
        let mut incremental = pipeline();
        let mut state: BTreeMap<ObjectRef, Object> = BTreeMap::new();
        for step in steps {
            for (reference, object) in &step {
                match object {
                    Some(object) => _ = state.insert(reference.clone(), object.clone()),
                    None => _ = state.remove(reference),
                }
            }
            let before = view(&incremental).0;
            let outcome = incremental.apply(change(step));
            let mut scratch = pipeline();
            scratch.apply(change(state.clone().into_iter().map(|(r, o)| (r, Some(o)))));
            prop_assert_eq!(view(&incremental), view(&scratch));
            prop_assert_eq!(incremental.unit_count(), scratch.unit_count());
            // The outcome says exactly how many resources differ.
            let after = view(&incremental).0;
            let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            let differ = names.iter().filter(|name| before.get(**name) != after.get(**name)).count();
            prop_assert_eq!(outcome.resources, differ);
        }
    }

    #[test]
    fn order_of_arrival_does_not_matter(events in proptest::collection::vec(event(), 1..10).prop_shuffle(), seed in any::<u64>()) {
        let unique: BTreeMap<ObjectRef, Option<Object>> = events.into_iter().collect();
        let sorted: Vec<Event> = unique.into_iter().collect();
        let mut shuffled = sorted.clone();
        let count = shuffled.len() as u64;
        for at in 0..shuffled.len() {
            let other = seed.rotate_left(at as u32 * 7) % count;
            shuffled.swap(at, other as usize);
        }
        let (mut one, mut other) = (pipeline(), pipeline());
        one.apply(change(sorted));
        for event in shuffled {
            other.apply(change([event]));
        }
        prop_assert_eq!(view(&one), view(&other));
    }

    #[test]
    fn an_ingress_touches_its_own_hosts_only(events in proptest::collection::vec(event(), 1..10), fresh in ingress()) {
        let mut pipeline = pipeline();
        let others: Vec<Alias> = events.iter().flat_map(|(_, object)| aliases(object)).collect();
        pipeline.apply(change(events));
        let old = pipeline.snapshot();
        let mut own: BTreeSet<String> = BTreeSet::new();
        let (mut reference, mut object) = fresh;
        reference.name = text("fresh");
        if let Some(Object::Ingress(ingress)) = &mut object {
            ingress.name = text("fresh");
            own.extend(ingress.units().map(ToString::to_string));
        }
        // A host that stands beside one of these changes with it.
        let fresh = aliases(&object);
        let beside = others.into_iter().chain(fresh).filter(|alias| own.contains(&*alias.of));
        let beside: Vec<String> = beside.map(|alias| alias.host.to_string()).collect();
        own.extend(beside);
        pipeline.apply(change([(reference, object)]));
        let new = pipeline.snapshot();
        for kind in [Kind::Gateway, Kind::VirtualService] {
            for (name, resource) in old.of(kind) {
                if new.of(kind).get(name) != Some(resource) {
                    let config = old.decode().find(|c| c.kind() == kind && format!("{}/{}", c.meta.namespace, c.meta.name) == **name);
                    let host = host_of(&config.unwrap());
                    prop_assert!(own.contains(&host), "{} changed", host);
                }
            }
        }
    }
}

/// The hosts that an Ingress asks for beside those of its rules.
fn aliases(object: &Option<Object>) -> Vec<Alias> {
    match object {
        Some(Object::Ingress(ingress)) => needs(&Scope::default(), ingress).aliases,
        _ => Vec::new(),
    }
}

fn simple(index: usize, service: &str) -> Event {
    let (namespace, name) = (format!("team-{}", index % 50), format!("ingress-{index}"));
    let mut ingress = Ingress::new(text(&namespace), text(&name));
    ingress.class_name = Some(text("higress"));
    ingress.rules = Box::new([IngressRule {
        host: Ok(Arc::from(format!("host-{index}.example.com"))),
        paths: Box::new([IngressPath {
            path: text("/"),
            path_type: PathType::Prefix,
            backend: Backend::Service {
                name: text(service),
                port: BackendPort::Name(text("http")),
            },
        }]),
    }]);
    let reference = reference(ObjectKind::Ingress, &namespace, &name);
    (
        reference,
        Some(Object::Ingress(Box::new(ingress.indexed()))),
    )
}

#[test]
fn one_edit_among_twenty_thousand_hosts_is_one_unit_and_one_resource() {
    const HOSTS: usize = 20_000;
    let port = |number| {
        let ports = Box::new([ServicePort {
            name: text("http"),
            number,
        }]);
        Some(Object::Service(Service { ports }))
    };
    let mut pipeline = pipeline();
    let mut all: Vec<Event> = (0..HOSTS).map(|index| simple(index, "web")).collect();
    let service = |namespace: &str, name: &str| reference(ObjectKind::Service, namespace, name);
    all.push((service("team-7", "web"), port(80)));
    let outcome = pipeline.apply(change(all));
    assert_eq!((outcome.units, outcome.resources), (HOSTS, 2 * HOSTS));

    let before = pipeline.snapshot();
    let outcome = pipeline.apply(change([simple(7, "other")]));
    assert_eq!((outcome.units, outcome.resources), (1, 1));
    let after = pipeline.snapshot();
    let differ = |kind| before.of(kind).diff(after.of(kind)).count();
    assert_eq!(
        (differ(Kind::VirtualService), differ(Kind::Gateway)),
        (1, 0)
    );

    // The same once more, and a change of nothing that matters: no work.
    assert_eq!(pipeline.apply(change([simple(7, "other")])).units, 0);
    // A Service touches the hosts that use its port names.
    let outcome = pipeline.apply(change([(service("team-7", "web"), port(81))]));
    assert_eq!(outcome.units, HOSTS / 50 - 1);
    let outcome = pipeline.apply(change([(service("team-7", "unused"), port(81))]));
    assert_eq!(outcome.units, 0);
    // One host more, one host less.
    let outcome = pipeline.apply(change([simple(HOSTS, "web")]));
    assert_eq!((outcome.units, outcome.resources), (1, 2));
    let outcome = pipeline.apply(change([(simple(HOSTS, "web").0, None)]));
    assert_eq!((outcome.units, outcome.resources), (1, 2));
}

#[test]
fn one_changed_rule_of_a_large_ingress_is_one_unit() {
    let large = |port: u16| {
        let rules = (0..1000).map(|index| IngressRule {
            host: Ok(Arc::from(format!("host-{index}.example.com"))),
            paths: Box::new([IngressPath {
                path: text("/"),
                path_type: PathType::Prefix,
                backend: Backend::Service {
                    name: text("web"),
                    port: BackendPort::Number(if index == 500 { port } else { 80 }),
                },
            }]),
        });
        let mut ingress = Ingress::new(text("n"), text("large"));
        ingress.class_name = Some(text("higress"));
        ingress.rules = rules.collect();
        let object = Object::Ingress(Box::new(ingress.indexed()));
        (reference(ObjectKind::Ingress, "n", "large"), Some(object))
    };
    let mut pipeline = pipeline();
    assert_eq!(pipeline.apply(change([large(80)])).units, 1000);
    let outcome = pipeline.apply(change([large(81)]));
    assert_eq!((outcome.units, outcome.resources), (1, 1));
}

#[test]
fn a_virtual_service_changes_its_name_with_its_first_route() {
    let mut pipeline = pipeline();
    let names = |pipeline: &Pipeline| -> Vec<String> {
        let snapshot = pipeline.snapshot();
        snapshot
            .of(Kind::VirtualService)
            .keys()
            .map(ToString::to_string)
            .collect()
    };
    let ingress = |name: &str, path: &str| {
        let mut ingress = Ingress::new(text("n"), text(name));
        ingress.class_name = Some(text("higress"));
        ingress.rules = Box::new([IngressRule {
            host: Ok(text("a.test")),
            paths: Box::new([IngressPath {
                path: text(path),
                path_type: PathType::Prefix,
                backend: Backend::Absent,
            }]),
        }]);
        let object = Object::Ingress(Box::new(ingress.indexed()));
        (reference(ObjectKind::Ingress, "n", name), Some(object))
    };
    pipeline.apply(change([ingress("short", "/")]));
    assert!(names(&pipeline)[0].contains("-n-short-"));
    let outcome = pipeline.apply(change([ingress("long", "/long")]));
    assert_eq!(names(&pipeline).len(), 1);
    assert!(names(&pipeline)[0].contains("-n-long-"));
    assert_eq!(outcome.resources, 2, "the old name goes, the new one comes");
}
