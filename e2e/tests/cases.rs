//! Runs the acceptance cases of `e2e/cases/` and of the folders in `ISTHMUS_CASES` (separated by `:`) against the real
//! programs and the real Envoy, several at a time. A part of a case's path or name selects it:
//! `cargo test -p e2e --test cases -- paths-exact`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use e2e::case::{self, Case};
use e2e::trial::{self, Needs};
use e2e::{envoy, runner};
use libtest_mimic::Trial;

/// Cases that run at the same time.
const PARALLEL: usize = 4;

fn main() -> ExitCode {
    match trials() {
        Ok(trials) => trial::run(trials, PARALLEL),
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn trials() -> Result<Vec<Trial>> {
    let own = envoy::workspace().join("e2e/cases");
    let others = std::env::var_os("ISTHMUS_CASES").unwrap_or_default();
    let others = std::env::split_paths(&others).filter(|path| !path.as_os_str().is_empty());
    let mut trials = Vec::new();
    for folder in std::iter::once(own).chain(others) {
        for file in case::find_files(&folder)? {
            let label: PathBuf = file
                .strip_prefix(&folder)
                .unwrap_or(&file)
                .with_extension("");
            for case in case::load_file(&file)? {
                trials.push(one(format!("{}: {}", label.display(), case.name), case));
            }
        }
    }
    Ok(trials)
}

fn one(name: String, case: Case) -> Trial {
    trial::trial(name, Needs::Envoy, move || async move {
        runner::run(&case).await
    })
}
