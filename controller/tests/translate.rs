//! `controller translate`: exit codes, severities and where objects come from.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::process::{Command, Stdio};

use rstest::rstest;
use serde_json::{Value, json};

const SHOP: &str = "\
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: shop
  annotations:
    higress.io/load-balance: least_conn
spec:
  ingressClassName: higress
  tls:
  - hosts: [shop.test]
    secretName: shop-cert
  rules:
  - host: shop.test
    http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: shop-next
  annotations:
    higress.io/canary: 'true'
    higress.io/canary-weight: '10'
spec:
  ingressClassName: higress
  rules:
  - host: shop.test
    http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: web-next, port: {number: 80}}}}
";
const WITH_WARNING: (&str, &str) = ("load-balance: least_conn", "lod-balance: least_conn");
const WITH_ERROR: (&str, &str) = ("load-balance: least_conn", "load-balance: none");

struct Run {
    code: Option<i32>,
    out: String,
    err: String,
}

/// Translates `shop.yaml`, which holds [`SHOP`] with one text replaced by another.
fn translate((from, to): (&str, &str), flags: &[&str]) -> Run {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("shop.yaml"), SHOP.replace(from, to)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_controller"));
    let command = command.current_dir(folder.path());
    let command = command.args(["translate", "-f", "shop.yaml"]);
    let output = command.args(flags).output().unwrap();
    Run {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

#[rstest]
#[case::good(("", ""), &[], 0, "")]
#[case::good_strict(("", ""), &["--strict"], 0, "")]
#[case::warning(WITH_WARNING, &[], 0, "warning: shop.yaml:1: ")]
#[case::warning_strict(WITH_WARNING, &["--strict"], 1, "warning: shop.yaml:1: ")]
#[case::error(WITH_ERROR, &[], 1, "error: shop.yaml:1: ")]
#[case::error_strict(WITH_ERROR, &["--strict"], 1, "error: shop.yaml:1: ")]
#[case::no_such_flag(("", ""), &["--stric"], 2, "error: unexpected argument '--stric'")]
fn exit_codes(
    #[case] replaced: (&str, &str),
    #[case] flags: &[&str],
    #[case] code: i32,
    #[case] message: &str,
) {
    let run = translate(replaced, flags);
    assert_eq!(run.code, Some(code), "{}", run.err);
    assert!(run.err.starts_with(message), "{}", run.err);
    assert_eq!(run.err.lines().count(), usize::from(!message.is_empty()));
    assert_eq!(run.out.is_empty(), code == 2);
}

#[test]
fn a_file_that_is_not_there_is_a_mistake_in_flags() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_controller"));
    let command = command.args(["translate", "--strict", "-f", "/no/such/file.yaml"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        message.starts_with("error: -f /no/such/file.yaml: "),
        "{message}"
    );
}

/// The provenance of an object of one kind.
fn provenance(list: &Value, kind: &str) -> Value {
    let items = list["items"].as_array().unwrap();
    let object = items.iter().find(|item| item["kind"] == kind).unwrap();
    let text = &object["metadata"]["annotations"]["isthmus.io/provenance"];
    serde_json::from_str(text.as_str().unwrap()).unwrap()
}

#[test]
fn objects_and_routes_say_where_they_come_from() {
    let run = translate(("", ""), &["-o", "json", "--with-provenance"]);
    let list: Value = serde_json::from_str(&run.out).unwrap();
    let shop = |field: &str| json!({"object": "Ingress default/shop", "field": field, "place": "shop.yaml:1"});
    let expected = json!([shop("spec.rules[0]"), shop("spec.tls[0]")]);
    assert_eq!(provenance(&list, "Gateway"), expected);
    let annotation = r#"metadata.annotations["higress.io/load-balance"]"#;
    let expected = json!([shop(annotation)]);
    assert_eq!(provenance(&list, "DestinationRule"), expected);
    let route = |object: &str, place: &str| json!({"route": "default/shop", "object": object, "field": "spec.rules[0].http.paths[0]", "place": place});
    // A Prefix is one route here, and a canary shares its requests.
    let expected = json!([
        route("Ingress default/shop", "shop.yaml:1"),
        route("Ingress default/shop-next", "shop.yaml:18"),
    ]);
    assert_eq!(provenance(&list, "VirtualService"), expected);
}

#[test]
fn without_the_flag_there_is_no_provenance() {
    let run = translate(("", ""), &[]);
    assert!(run.out.contains("kind: VirtualService"));
    assert!(!run.out.contains("isthmus.io"));
}

#[test]
fn no_ingress_of_the_class_is_said() {
    let run = translate(
        ("ingressClassName: higress", "ingressClassName: other"),
        &[],
    );
    assert_eq!((run.code, run.out.as_str()), (Some(0), ""));
    assert!(
        run.err
            .starts_with("note: shop.yaml has no Ingress of class higress"),
        "{}",
        run.err
    );
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    // More than a pipe holds.
    let many = (0..500).map(|n| SHOP.replace("name: shop", &format!("name: shop{n}")));
    fs::write(
        folder.path().join("shop.yaml"),
        many.collect::<Vec<_>>().join("---\n"),
    )
    .unwrap();
    for arguments in [&["translate", "-f", "shop.yaml"][..], &["annotations"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_controller"));
        let command = command.current_dir(folder.path()).args(arguments);
        let (reader, writer) = std::io::pipe().unwrap();
        let child = command.stdout(writer).stderr(Stdio::piped());
        let child = child.spawn().unwrap();
        drop(reader);
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{err}");
        assert!(!err.contains("roken pipe"), "{err}");
    }
}
