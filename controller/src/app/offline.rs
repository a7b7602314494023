//! `controller translate`: the objects that would be served, without serving them.

use std::io::{self, Read, Write};
use std::sync::Arc;

use anyhow::Context;
use serde_json::json;

use crate::app::pipeline::Pipeline;
use crate::args::{OutputFormat, TranslateArgs};
use crate::ingest;
use crate::model::{Scope, Severity};

/// Name of standard input as a path.
const STDIN: &str = "-";

/// Prints the objects on `out` and the mistakes on `err`. False when there is an error among them.
pub(super) fn run(
    args: TranslateArgs,
    out: &mut impl Write,
    err: &mut impl Write,
) -> anyhow::Result<bool> {
    let change = if args.file.as_os_str() == STDIN {
        let mut content = Vec::new();
        let read = io::stdin().read_to_end(&mut content);
        read.context("-f -: standard input cannot be read")?;
        ingest::parse(STDIN, &content)
    } else {
        let path = args.file.as_path();
        ingest::load(path).with_context(|| {
            format!(
                "-f {}: cannot be read; give a manifest, a folder of them, or `-`",
                path.display()
            )
        })?
    };
    let mut pipeline = Pipeline::new(Arc::new(Scope::from(args.scope)));
    pipeline.apply(change);
    let objects = pipeline
        .snapshot()
        .decode()
        .map(|config| config.to_json())
        .collect::<Vec<_>>();
    match args.output {
        OutputFormat::Yaml => {
            for object in &objects {
                write!(out, "---\n{}", serde_yaml::to_string(object)?)?;
            }
        }
        OutputFormat::Json => {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
            writeln!(out, "{}", serde_json::to_string_pretty(&list)?)?;
        }
    }
    let mut good = true;
    for diagnostic in pipeline.reports().all() {
        good &= diagnostic.severity() != Severity::Error;
        writeln!(err, "{diagnostic}")?;
    }
    Ok(good)
}
