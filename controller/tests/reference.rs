//! The reference of annotations: the committed page is what the program prints.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::Path;
use std::process::Command;

use controller::translate::ingress::annotations::table::KEYS;

fn printed(args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_controller"));
    let output = command.args(args).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn annotations(args: &[&str]) -> String {
    printed(&[&["annotations"], args].concat())
}

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    fs::read_to_string(path.join(name)).unwrap_or_default()
}

#[test]
fn the_pages_are_current() {
    let hint = "is out of date: run scripts/gen-docs and commit the result";
    assert!(
        page("annotations.md") == annotations(&[]),
        "docs/annotations.md {hint}"
    );
    assert!(
        page("flags.md").contains(&printed(&["flags"])),
        "docs/flags.md {hint}"
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

/// The text of all files below a folder.
fn texts(folder: &Path) -> String {
    let mut all = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all += &texts(&path);
        } else {
            all += &fs::read_to_string(&path).unwrap();
        }
    }
    all
}

#[test]
fn every_key_is_in_a_case_or_a_fixture() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut all = texts(&root.join("e2e/cases")) + &texts(&root.join("e2e/fixtures"));
    let examples = root.join("controller/tests/worked-examples.yaml");
    all += &fs::read_to_string(examples)
        .unwrap()
        .replace("nginx/", "nginx.ingress.kubernetes.io/")
        .replace("hg/", "higress.io/");
    let absent = KEYS.iter().filter(|key| {
        let end = if key.named { "" } else { ":" };
        let mut full = key.full().map(|full| format!("{full}{end}"));
        !full.any(|full| all.contains(&full))
    });
    let absent: Vec<&str> = absent.map(|key| key.name).collect();
    assert!(absent.is_empty(), "no case or fixture uses {absent:?}");
}
