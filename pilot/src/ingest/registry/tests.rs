use proptest::prelude::*;

use super::*;

const SERVICE_YAML: &str = "
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {ports: [{name: http, port: 80}]}
";
const HOST: &str = "web.shop.svc.cluster.local";

fn slice_yaml(name: &str, addresses: &str, ready: bool) -> String {
    format!(
        "
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: {name}, namespace: shop, labels: {{kubernetes.io/service-name: web}}}}
addressType: IPv4
ports: [{{name: http, port: 8080}}]
endpoints: [{{addresses: [{addresses}], conditions: {{ready: {ready}}}}}]
"
    )
}

fn secret_yaml(cert: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Secret, metadata: {{name: s}}, stringData: {{tls.crt: {cert:?}, tls.key: k}}}}"
    )
}

fn read(text: &str) -> manifest_dir::Change<Fact> {
    let loaded = manifest_dir::parse("-", text.as_bytes(), kind_table("cluster.local"));
    assert_eq!(loaded.problems, []);
    manifest_dir::Change {
        upserts: loaded.objects,
        ..Default::default()
    }
}

fn removal(kind: &'static str, name: &str) -> manifest_dir::Change<Fact> {
    manifest_dir::Change {
        removed: vec![ObjectKey {
            kind,
            namespace: "shop".into(),
            name: name.into(),
        }],
        ..Default::default()
    }
}

/// Endpoints that a change tells, as text.
fn endpoints(changes: &[Change]) -> Vec<String> {
    let [Change::Endpoints(host, endpoints)] = changes else {
        panic!("{changes:?}");
    };
    assert_eq!(&**host, HOST);
    endpoints
        .port("http")
        .iter()
        .map(|endpoint| endpoint.address.to_string())
        .collect()
}

#[test]
fn a_service_is_told_once() {
    let mut registry = Registry::new("cluster.local");
    let changes = registry.apply(read(SERVICE_YAML));
    assert!(matches!(&changes[..], [Change::Service(host, Some(_))] if &**host == HOST));
    assert_eq!(registry.apply(read(SERVICE_YAML)), []);
    let touched = SERVICE_YAML.replace("namespace: shop", "namespace: shop, labels: {a: b}");
    assert_eq!(registry.apply(read(&touched)), []);
    let changes = registry.apply(removal(SERVICE, "web"));
    assert_eq!(changes, [Change::Service(HOST.into(), None)]);
    assert_eq!(registry.apply(removal(SERVICE, "web")), []);
}

#[test]
fn slices_are_merged_and_no_ops_suppressed() {
    let mut registry = Registry::new("cluster.local");
    let both = [
        slice_yaml("a", "10.0.0.2", true),
        slice_yaml("b", "10.0.0.1", true),
    ]
    .join("---");
    assert_eq!(
        endpoints(&registry.apply(read(&both))),
        ["10.0.0.1", "10.0.0.2"]
    );
    assert_eq!(
        registry.apply(read(&slice_yaml("c", "10.0.0.3", false))),
        []
    );
    assert_eq!(registry.apply(read(&slice_yaml("d", "10.0.0.1", true))), []);
    assert_eq!(registry.apply(removal(ENDPOINT_SLICE, "b")), []);
    assert_eq!(
        endpoints(&registry.apply(removal(ENDPOINT_SLICE, "d"))),
        ["10.0.0.2"]
    );
    assert_eq!(
        endpoints(&registry.apply(read(&slice_yaml("a", "10.0.0.2", false)))),
        [""; 0]
    );
    assert_eq!(registry.apply(removal(ENDPOINT_SLICE, "a")), []);
    assert_eq!(registry.apply(removal(ENDPOINT_SLICE, "c")), []);
    assert!(registry.pools.is_empty() && registry.slices.is_empty());
}

#[test]
fn a_slice_that_changes_its_service_moves() {
    let mut registry = Registry::new("cluster.local");
    registry.apply(read(&slice_yaml("a", "10.0.0.1", true)));
    let other =
        slice_yaml("a", "10.0.0.1", true).replace("service-name: web", "service-name: other");
    let changes = registry.apply(read(&other));
    let told: Vec<_> = changes
        .iter()
        .map(|change| match change {
            Change::Endpoints(host, endpoints) => (&**host, endpoints.is_empty()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        told,
        [("other.shop.svc.cluster.local", false), (HOST, true)]
    );
}

#[test]
fn an_unusable_secret_is_told_as_such() {
    let mut registry = Registry::new("cluster.local");
    let changes = registry.apply(read(&secret_yaml("junk")));
    let [Change::Secret(name, SecretState::Invalid(reason))] = &changes[..] else {
        panic!("{changes:?}");
    };
    assert_eq!(name.to_string(), "default/s");
    assert!(
        reason.starts_with("Secret default/s: data[tls.crt]: not PEM"),
        "{reason}"
    );
    assert_eq!(registry.apply(read(&secret_yaml("junk"))), []);
    let opaque = secret_yaml("").replace("tls.key: k", "password: p");
    let changes = registry.apply(read(&opaque));
    assert!(
        matches!(&changes[..], [Change::Secret(_, SecretState::Absent)]),
        "{changes:?}"
    );
    assert!(registry.secrets.is_empty());
}

/// One step: a slice with these addresses (last byte, ready), or none.
type Step = (usize, Option<Vec<(u8, bool)>>);

fn fact(addresses: &[(u8, bool)]) -> Fact {
    let text: Vec<_> = addresses
        .iter()
        .map(|(last, ready)| serde_json::json!({"addresses": [format!("10.0.0.{last}")], "conditions": {"ready": ready}}))
        .collect();
    let object = serde_json::json!({
        "metadata": {"name": "x", "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080}],
        "endpoints": text,
    });
    Fact::of_slice(&serde_json::from_value(object).unwrap())
}

proptest! {
    /// What was told step by step is what a fresh registry tells of the final state.
    #[test]
    fn incremental_equals_from_scratch(
        steps in prop::collection::vec(
            (0..4_usize, prop::option::of(prop::collection::vec((0..6_u8, any::<bool>()), 0..4))),
            1..20,
        ),
    ) {
        let key = |index: usize| ObjectKey {
            kind: ENDPOINT_SLICE,
            namespace: "shop".into(),
            name: format!("slice-{index}").into(),
        };
        let last = |changes: Vec<Change>| changes.into_iter().filter_map(|change| match change {
            Change::Endpoints(_, endpoints) => Some(endpoints),
            _ => None,
        }).next_back();
        let mut registry = Registry::new("cluster.local");
        let mut told = Arc::<Endpoints>::default();
        let mut state: BTreeMap<usize, Vec<(u8, bool)>> = BTreeMap::new();
        for (index, addresses) in &steps as &[Step] {
            let changes = registry.update([(key(*index), addresses.as_deref().map(fact))]);
            if let Some(endpoints) = last(changes) {
                prop_assert_ne!(&endpoints, &told, "a change that changes nothing");
                told = endpoints;
            }
            match addresses {
                Some(addresses) => drop(state.insert(*index, addresses.clone())),
                None => drop(state.remove(index)),
            }
        }
        let facts = state.iter().rev().map(|(index, addresses)| (key(*index), Some(fact(addresses))));
        let fresh = Registry::new("cluster.local").update(facts);
        prop_assert_eq!(last(fresh).unwrap_or_default(), told);
    }
}
