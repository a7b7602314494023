//! The reference of annotations: the committed page is what the program prints.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::Path;
use std::process::Command;

fn annotations(args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_controller"));
    let output = command.arg("annotations").args(args).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_page_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/annotations.md");
    let page = fs::read_to_string(path).unwrap_or_default();
    assert!(
        page == annotations(&[]),
        "docs/annotations.md is out of date: run scripts/gen-docs and commit the result"
    );
}

#[test]
fn json_has_the_full_keys() {
    let all: serde_json::Value = serde_json::from_str(&annotations(&["-o", "json"])).unwrap();
    let find = |list: &str, key: &str| {
        let rows = all[list].as_array().unwrap();
        rows.iter().find(|row| row["key"] == key).unwrap().clone()
    };
    let both = find("supported", "canary");
    let expected = ["nginx.ingress.kubernetes.io/canary", "higress.io/canary"];
    assert_eq!(both["annotations"], serde_json::json!(expected));
    let named = find("supported", "exact-match-header-<name>");
    assert_eq!(named["annotations"][0], "higress.io/exact-match-header-");
    assert_eq!(find("unsupported", "auth-snippet")["closesRoutes"], true);
}
