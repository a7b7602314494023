//! `controller translate`: the objects that would be served, without serving them.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use serde_json::{Map, Value, json};
use shared_proto::Config;

use crate::app::pipeline::Pipeline;
use crate::args::{OutputFormat, TranslateArgs};
use crate::ingest::{self, Change};
use crate::model::{Diagnostic, Place, Scope, Severity};
use crate::translate::ingress::Source;
use crate::translate::names;

/// Name of standard input as a path.
const STDIN: &str = "-";

/// Prints the objects on `out` and the mistakes on `err`. False when one of them counts as an error.
pub(super) fn run(
    args: TranslateArgs,
    out: &mut impl Write,
    err: &mut impl Write,
) -> anyhow::Result<bool> {
    let change = read(&args.file)?;
    let scope = Arc::new(Scope::from(args.scope));
    let mut pipeline = Pipeline::new(scope.clone());
    pipeline.apply(change);
    let mut configs: Vec<Config> = pipeline.snapshot().decode().collect();
    if args.with_provenance {
        annotate(&mut configs, &pipeline);
    }
    until_closed(print(&configs, args.output, out))?;
    let all = pipeline.reports().all();
    until_closed(say(&all, err))?;
    if configs.is_empty() {
        until_closed(
            writeln!(err, "note: {}", nothing(&args.file, &pipeline, &scope)).map_err(Into::into),
        )?;
    }
    Ok(all
        .iter()
        .all(|diagnostic| !args.strict && diagnostic.severity() == Severity::Warning))
}

fn print(configs: &[Config], format: OutputFormat, out: &mut impl Write) -> anyhow::Result<()> {
    let objects: Vec<Value> = configs.iter().map(Config::to_json).collect();
    match format {
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
    Ok(out.flush()?)
}

fn say(diagnostics: &[Diagnostic], err: &mut impl Write) -> anyhow::Result<()> {
    for diagnostic in diagnostics {
        writeln!(err, "{diagnostic}")?;
    }
    Ok(())
}

/// A reader that has seen enough (`| head`) is no failure.
pub(super) fn until_closed(written: anyhow::Result<()>) -> anyhow::Result<()> {
    let closed = |error: &anyhow::Error| {
        let error = error.downcast_ref::<io::Error>();
        error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    };
    written.or_else(|error| if closed(&error) { Ok(()) } else { Err(error) })
}

/// Why there is no output.
fn nothing(file: &Path, pipeline: &Pipeline, scope: &Scope) -> String {
    let file = file.display();
    if pipeline.ingress_count() > 0 {
        return format!("there is nothing to serve in {file}; what is wrong is said above");
    }
    match scope.ingress_class.as_str() {
        "" => format!("{file} has no Ingress, so that there is nothing to serve"),
        class => format!(
            "{file} has no Ingress of class {class}, so that there is nothing to serve; give --ingress-class for another class"
        ),
    }
}

/// Reads a manifest, a folder of manifests, or standard input.
pub(super) fn read(path: &Path) -> anyhow::Result<Change> {
    if path.as_os_str() == STDIN {
        let mut content = Vec::new();
        let read = io::stdin().read_to_end(&mut content);
        read.context("-f -: standard input cannot be read")?;
        return Ok(ingest::parse(STDIN, &content));
    }
    ingest::load(path).with_context(|| {
        format!(
            "-f {}: cannot be read; give a manifest, a folder of them, or `-`",
            path.display()
        )
    })
}

/// Writes its sources into each object.
fn annotate(configs: &mut [Config], pipeline: &Pipeline) {
    let provenance = pipeline.provenance();
    for config in configs {
        let sources = provenance.get(&config.key()).into_iter().flatten();
        let list = sources.map(|source| {
            let place = pipeline.reports().place(&source.object);
            source_json(source, place)
        });
        let list: Value = list.collect();
        let annotations = &mut config.meta.annotations;
        annotations.insert(names::PROVENANCE_ANNOTATION.to_owned(), list.to_string());
    }
}

/// `route` and `place` are left out where there is none.
fn source_json(source: &Source, place: Option<&Place>) -> Value {
    let entries = [
        ("route", source.route.clone()),
        ("object", Some(source.object.to_string())),
        ("field", Some(source.field.clone())),
        ("place", place.map(ToString::to_string)),
    ];
    let given = |(name, text): (&str, Option<String>)| Some((name.to_owned(), text?.into()));
    entries
        .into_iter()
        .filter_map(given)
        .collect::<Map<_, _>>()
        .into()
}
