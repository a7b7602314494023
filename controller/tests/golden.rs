//! Golden fixtures: `1-input.yaml` (users' objects) gives `2-configs.yaml` (the pilot's input) and `diagnostics.txt`.
//!
//! `UPDATE_GOLDEN=1 cargo test -p controller --test golden` rewrites the expected files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use controller::app::Pipeline;
use controller::ingest;
use controller::model::Scope;

fn fixtures() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../e2e/fixtures/ingress");
    let mut folders: Vec<PathBuf> = fs::read_dir(root)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    folders.sort();
    folders
}

fn translate(folder: &Path) -> (String, String) {
    let input = fs::read(folder.join("1-input.yaml")).unwrap();
    let mut pipeline = Pipeline::new(Arc::new(Scope::default()));
    pipeline.apply(ingest::parse("1-input.yaml", &input));
    let snapshot = pipeline.snapshot();
    let documents = snapshot.decode().map(|config| config.to_yaml().unwrap());
    let configs = documents.collect::<Vec<_>>().join("---\n");
    let diagnostics = pipeline
        .reports()
        .all()
        .iter()
        .map(|d| format!("{d}\n"))
        .collect();
    (configs, diagnostics)
}

#[test]
fn outputs_are_as_recorded() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut wrong = Vec::new();
    let folders = fixtures();
    assert!(!folders.is_empty());
    for folder in folders {
        let (configs, diagnostics) = translate(&folder);
        for (name, found) in [
            ("2-configs.yaml", configs),
            ("diagnostics.txt", diagnostics),
        ] {
            let path = folder.join(name);
            let expected = fs::read_to_string(&path).unwrap_or_default();
            if found == expected {
                continue;
            }
            if !update {
                wrong.push(format!("{}:\n{found}", path.display()));
            } else if found.is_empty() {
                fs::remove_file(&path).unwrap();
            } else {
                fs::write(&path, found).unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "differs:\n{}", wrong.join("\n"));
}
