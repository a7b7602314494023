//! `controller audit`: exit codes, forms and what cannot be read.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::process::{Command, Output};

use rstest::rstest;
use serde_json::Value;

const PLAIN: &str = "\
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: plain, namespace: n}
spec:
  rules: [{host: p.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
";
const REWRITE: &str = "\
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: rewrite, namespace: n, annotations: {nginx.ingress.kubernetes.io/rewrite-target: /bar}}
spec:
  ingressClassName: nginx
  rules: [{host: r.test, http: {paths: [{path: /foo, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
";

/// Audits files with these contents.
fn audit(files: &[&str], flags: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_controller"));
    command.current_dir(folder.path()).arg("audit");
    for (index, content) in files.iter().enumerate() {
        let name = format!("{index}.yaml");
        fs::write(folder.path().join(&name), content).unwrap();
        command.args(["-f", &name]);
    }
    command.args(flags).output().unwrap()
}

#[rstest]
#[case::same(&[PLAIN], &[], 0, "1 Ingresses: 1 identical", "")]
#[case::different(&[PLAIN, REWRITE], &[], 1, "2 Ingresses: 1 identical, 1 differ", "")]
#[case::chosen(&[PLAIN, REWRITE], &["--annotation-semantics", "ingress-nginx"], 0, "2 Ingresses: 2 identical", "")]
#[case::broken(&["a: [", PLAIN], &[], 1, "1 Ingresses: 1 identical", "error: 0.yaml:")]
#[case::no_file(&[], &[], 2, "", "error: ")]
#[case::no_such_file(&[PLAIN], &["-f", "no.yaml"], 2, "", "error: -f no.yaml: ")]
#[case::no_such_semantics(&[PLAIN], &["--annotation-semantics", "nginx"], 2, "", "error: invalid value 'nginx'")]
fn exit_codes(
    #[case] files: &[&str],
    #[case] flags: &[&str],
    #[case] code: i32,
    #[case] summary: &str,
    #[case] message: &str,
) {
    let output = audit(files, flags);
    let (out, err) = (output.stdout, output.stderr);
    let (out, err) = (
        String::from_utf8(out).unwrap(),
        String::from_utf8(err).unwrap(),
    );
    assert_eq!(output.status.code(), Some(code), "{out}{err}");
    assert!(
        out.lines().last().unwrap_or_default().starts_with(summary),
        "{out}"
    );
    assert!(err.starts_with(message), "{err}");
    assert_eq!(err.is_empty(), message.is_empty(), "{err}");
}

#[test]
fn rows_have_place_and_request() {
    let output = audit(&[PLAIN, REWRITE], &["-o", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["differences"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{report:#}");
    let first = &rows[0];
    assert_eq!(first["ingress"], "n/rewrite");
    assert_eq!(first["place"], "1.yaml:1");
    assert_eq!(first["request"], "curl http://r.test/foo/x");
    assert_eq!(first["ingressNginx"], "web.n:80 sees /bar");
    assert_eq!(first["isthmus"], "web.n:80 sees /bar/x");
    assert_eq!(report["summary"]["differ"], 1);
}
