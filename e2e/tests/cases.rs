//! Runs the acceptance cases of `e2e/cases/` and of the folders in `ISTHMUS_CASES` (separated by `:`) against the real
//! programs and the real Envoy, several at a time. A part of a case's path or name selects it:
//! `cargo test -p e2e --test cases -- paths-exact`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use e2e::case::{self, Case};
use e2e::envoy;
use e2e::runner::{self, Mode};
use e2e::trial::{self, Needs};
use libtest_mimic::Trial;

/// What users see must not depend on how routes travel: every case runs in every mode.
const MODES: [Mode; 4] = [
    Mode {
        name: "",
        pilot_args: &[],
        bootstrap_args: &[],
    },
    Mode {
        name: "on demand",
        pilot_args: &["--on-demand-rds"],
        bootstrap_args: &[],
    },
    Mode {
        name: "without scopes",
        pilot_args: &["--enable-scoped-rds=false"],
        bootstrap_args: &[],
    },
    Mode {
        name: "state of the world",
        pilot_args: &[],
        bootstrap_args: &["--protocol", "sotw"],
    },
];

/// Cases that hold with scoped routes only: one is about the scope header, the others about the fallback from an exact to a
/// wildcard host, which plain routes do not have.
const SCOPED_ONLY: [&str; 3] = [
    "ingress/scope-header",
    "ingress/hosts-exact-fallback",
    "ingress/semantics-hosts",
];

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
                let name = format!("{}: {}", label.display(), case.name);
                let modes = MODES.into_iter().filter(|mode| {
                    mode.name != "without scopes"
                        || !SCOPED_ONLY.iter().any(|only| label.ends_with(only))
                });
                trials.extend(modes.map(|mode| one(&name, case.clone(), mode)));
            }
        }
    }
    Ok(trials)
}

fn one(name: &str, case: Case, mode: Mode) -> Trial {
    let name = match mode.name {
        "" => name.to_owned(),
        mode => format!("{name} [{mode}]"),
    };
    trial::trial(name, Needs::Envoy, move || async move {
        runner::run(&case, mode).await
    })
}
