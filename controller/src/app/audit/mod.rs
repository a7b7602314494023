//! `controller audit`: what would differ from ingress-nginx. Both meanings of the same objects are translated and asked the same
//! requests; what is told is where the answers differ.

mod compare;
mod differences;
mod probes;
mod report;
mod world;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use crate::app::offline;
use crate::args::{AuditArgs, AuditFormat};
use crate::ingest::{Change, Object};
use crate::model::{Ingress, ObjectKind, ObjectRef, SEMANTICS_ANNOTATION, Scope, Semantics};

use compare::compare;
use report::Report;
use world::World;

/// The class of ingress-nginx; it also serves Ingresses without a class.
const NGINX: &str = "nginx";

/// Prints the report on `out`, and what cannot be read on `err`. True when everything could be read and nothing differs.
pub(super) fn run(
    args: AuditArgs,
    out: &mut impl Write,
    err: &mut impl Write,
) -> anyhow::Result<bool> {
    let mut change = Change::default();
    for file in &args.file {
        change.merge(offline::read(Path::new(file))?);
    }
    let mut readable = true;
    for diagnostic in change.problems.iter().flat_map(|(_, found)| found) {
        readable = false;
        writeln!(err, "{diagnostic}")?;
    }
    let scope = Scope::from(args.scope);
    let report = audit(&scope, change);
    let text = match args.output {
        AuditFormat::Text => report.text(),
        AuditFormat::Json => format!("{:#}\n", report.json()),
    };
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    offline::until_closed(written.map_err(Into::into))?;
    Ok(readable && report.rows.is_empty())
}

/// Compares what is served with what ingress-nginx would do.
fn audit(scope: &Scope, mut change: Change) -> Report {
    change.objects.retain(|(_, object)| match object {
        Some(Object::Ingress(ingress)) => is_audited(scope, ingress),
        _ => true,
    });
    let is_ingress =
        |(_, object): &&(ObjectRef, Option<Object>)| matches!(object, Some(Object::Ingress(_)));
    let ingresses = change.objects.iter().filter(is_ingress);
    let ingresses: BTreeSet<ObjectRef> =
        ingresses.map(|(reference, _)| reference.clone()).collect();
    // Classes were looked at.
    let scope = Scope {
        ingress_class: String::new(),
        ..scope.clone()
    };
    let nginx = World::new(
        Scope {
            semantics: Semantics::IngressNginx,
            ..scope.clone()
        },
        as_nginx(&change),
    );
    let ours = World::new(scope, change);
    compare(&ingresses, &nginx, &ours)
}

/// Ingresses of the class that is served, and those that ingress-nginx serves.
fn is_audited(scope: &Scope, ingress: &Ingress) -> bool {
    let class = ingress.class();
    let ours = class.is_empty() || class == NGINX || class == scope.ingress_class;
    (ours || scope.ingress_class.is_empty()) && scope.watches(&ingress.namespace)
}

/// The same objects without a word about semantics.
fn as_nginx(change: &Change) -> Change {
    let objects = change
        .objects
        .iter()
        .filter(|(r, _)| r.kind != ObjectKind::IngressClass);
    let objects = objects.cloned().map(|(reference, mut object)| {
        if let Some(Object::Ingress(ingress)) = &mut object {
            ingress.annotations.remove(SEMANTICS_ANNOTATION);
        }
        (reference, object)
    });
    Change {
        objects: objects.collect(),
        places: change.places.clone(),
        problems: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
