use super::*;
use k8s_openapi::api::core::v1::{Namespace, Service};
use proptest::prelude::*;

fn table() -> KindTable<String> {
    KindTable::new()
        .with("v1", "Service", Scope::Namespaced, |s: Service| {
            s.metadata.name.unwrap_or_default()
        })
        .with("v1", "Namespace", Scope::Cluster, |n: Namespace| {
            n.metadata.name.unwrap_or_default()
        })
}

fn read(text: &str) -> Parsed<String> {
    parse(&table(), Format::Yaml, text.as_bytes(), 7)
}

fn keys(parsed: &Parsed<String>) -> Vec<String> {
    parsed.items.iter().map(|i| i.key.to_string()).collect()
}

#[rstest::rstest]
#[case::plain(
    "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n",
    "Service default/a"
)]
#[case::namespace(
    "apiVersion: v1\nkind: Service\nmetadata:\n  name: a\n  namespace: b\n",
    "Service b/a"
)]
#[case::flow(
    "{apiVersion: v1, kind: Service, metadata: {name: a}}",
    "Service default/a"
)]
#[case::quoted(
    "\"apiVersion\": v1\n'kind': Service\nmetadata: {name: a}\n",
    "Service default/a"
)]
#[case::cluster(
    "apiVersion: v1\nkind: Namespace\nmetadata: {name: a, namespace: x}\n",
    "Namespace a"
)]
#[case::json(
    "{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"metadata\":{\"name\":\"a\"}}",
    "Service default/a"
)]
fn decodes(#[case] text: &str, #[case] key: &str) {
    assert_eq!(keys(&read(text)), [key]);
}

#[rstest::rstest]
#[case::other_kind("apiVersion: v1\nkind: Pod\nspec: [")]
#[case::other_group("apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: a}\n")]
#[case::no_version_of_unknown_kind("kind: Nothing\nspec: {}\n")]
fn ignores(#[case] text: &str) {
    let parsed = read(text);
    assert!(parsed.items.is_empty() && parsed.faults.is_empty());
}

#[rstest::rstest]
#[case::syntax(
    "apiVersion: v1\nkind: Service\nmetadata: {name: a\n",
    Reason::InvalidSyntax,
    Some("Service default/a")
)]
#[case::indent(
    "apiVersion: v1\nkind: Service\nmetadata:\n  name: a\n   namespace: b c\n",
    Reason::InvalidSyntax,
    Some("Service default/a")
)]
#[case::no_kind("apiVersion: v1\nspec: {}\n", Reason::MissingKind, None)]
#[case::no_version(
    "kind: Service\nmetadata: {name: a}\n",
    Reason::MissingKind,
    Some("Service default/a")
)]
#[case::version(
    "apiVersion: v2\nkind: Service\nmetadata: {name: a}\n",
    Reason::UnsupportedVersion,
    Some("Service default/a")
)]
#[case::shape(
    "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: 3}\n",
    Reason::InvalidObject,
    Some("Service default/a")
)]
#[case::no_name("apiVersion: v1\nkind: Service\n", Reason::InvalidName, None)]
#[case::bad_name(
    "apiVersion: v1\nkind: Service\nmetadata: {name: A/b}\n",
    Reason::InvalidName,
    None
)]
#[case::bad_namespace(
    "apiVersion: v1\nkind: Service\nmetadata: {name: a, namespace: b.c}\n",
    Reason::InvalidName,
    None
)]
#[case::scalar("just text", Reason::InvalidSyntax, None)]
fn reports(#[case] text: &str, #[case] reason: Reason, #[case] object: Option<&str>) {
    let parsed = read(text);
    assert!(parsed.items.is_empty());
    let found: Vec<_> = parsed
        .faults
        .iter()
        .map(|f| (f.reason, f.object.as_ref().map(ToString::to_string)))
        .collect();
    assert_eq!(found, [(reason, object.map(str::to_owned))]);
}

#[test]
fn shape_errors_name_their_line() {
    let parsed = read("apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec:\n  ports: 3\n");
    assert_eq!(parsed.faults[0].line, 5);
}

#[test]
fn not_utf8_is_reported_with_its_line() {
    let parsed = parse(&table(), Format::Yaml, b"apiVersion: v1\nkind: \xff\n", 0);
    assert_eq!(
        (parsed.faults[0].line, parsed.faults[0].reason),
        (2, Reason::InvalidEncoding)
    );
}

#[test]
fn lists_are_unrolled_and_a_bad_item_loses_only_itself() {
    let parsed = read(
        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Service, metadata: {name: a}}\n\
         - {apiVersion: v1, kind: Service, metadata: {name: b}, spec: 3}\n- {apiVersion: v1, kind: Pod}\n\
         - {apiVersion: v1, kind: Service, metadata: {name: c}}\n",
    );
    assert_eq!(keys(&parsed), ["Service default/a", "Service default/c"]);
    assert_eq!(parsed.faults.len(), 1);
    assert!(
        parsed.faults[0].message.starts_with("items[1]: "),
        "{}",
        parsed.faults[0].message
    );
    let parsed = read("apiVersion: v1\nkind: ServiceList\nitems:\n- {metadata: {name: a}}\n");
    assert_eq!(keys(&parsed), ["Service default/a"]);
}

#[test]
fn depth_costs_no_time() {
    let started = std::time::Instant::now();
    let head = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: ";
    for text in [
        head.to_owned() + &"[".repeat(200_000),
        "{kind: ".repeat(200_000),
    ] {
        let parsed = read(&text);
        assert_eq!(parsed.faults[0].reason, Reason::InvalidSyntax);
    }
    assert!(started.elapsed() < std::time::Duration::from_secs(5));
    let annotation = format!("{head}{{externalName: '{}'}}\n", "[".repeat(200));
    assert_eq!(keys(&read(&annotation)), ["Service default/a"]);
}

proptest! {
    #[test]
    fn no_text_panics(text in proptest::collection::vec(prop_oneof![
        Just("apiVersion: v1\n"), Just("kind: Service\n"), Just("kind: List\n"), Just("items:\n"), Just("- "), Just("metadata:\n"),
        Just("  name: a\n"), Just("{"), Just("]"), Just("\""), Just("&a "), Just("*a\n"), Just("spec:\n"), Just("\t"), Just("\0")], 0..12)) {
        let _ = read(&text.concat());
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&table(), Format::Yaml, &bytes, 0);
        let _ = parse(&table(), Format::Json, &bytes, 0);
    }
}
