//! Both worlds asked about each Ingress: where their answers differ, and what is not understood.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::differences::{Aspect, between};
use super::probes;
use super::report::{Report, Row};
use super::world::{Hosts, World};
use crate::model::{Diagnostic, Ingress, ObjectRef, Reason};
use crate::translate::explain::Request;
use crate::translate::ingress::annotations::table::{
    PROXY_NEXT_UPSTREAM, PROXY_NEXT_UPSTREAM_TIMEOUT, PROXY_NEXT_UPSTREAM_TRIES,
};
use crate::translate::ingress::annotations::unsupported::UNSUPPORTED;
use crate::translate::ingress::needs;

/// How to get the same as in ingress-nginx.
const CHOOSE: &str = "choose --annotation-semantics ingress-nginx (or the annotation higress.io/annotation-semantics)";

/// Compares both worlds for these Ingresses, in their order.
pub(super) fn compare(ingresses: &BTreeSet<ObjectRef>, nginx: &World, ours: &World) -> Report {
    let (nginx_hosts, our_hosts) = (nginx.hosts(), ours.hosts());
    let canaries = canaries(ingresses, ours);
    let diagnostics = by_object(ours.pipeline.reports().all());
    let mut rows = Vec::new();
    for reference in ingresses {
        let found = |world: &World| world.ingress(reference);
        let (Some(as_nginx), Some(ingress)) = (found(nginx), found(ours)) else {
            continue;
        };
        let subject = Subject {
            reference,
            ingress: &ingress,
            place: ours
                .pipeline
                .reports()
                .place(reference)
                .map_or(String::new(), ToString::to_string),
        };
        let hosts = (&nginx_hosts, &our_hosts);
        subject.paths(hosts, &canaries, &mut rows);
        subject.endpoints(nginx, ours, &as_nginx, &mut rows);
        let of_it = diagnostics.get(reference).map_or(&[][..], Vec::as_slice);
        subject.annotations(&our_hosts, of_it, &mut rows);
    }
    // Every Service has the same suffix, which tells nothing.
    let suffix = format!(".svc.{}", ours.pipeline.scope().domain);
    for row in &mut rows {
        row.nginx = row.nginx.replace(&suffix, "");
        row.ours = row.ours.replace(&suffix, "");
    }
    let left = by_object(nginx.pipeline.reports().all());
    let left = left
        .into_iter()
        .filter(|(_, found)| found.iter().any(is_about_annotations));
    Report {
        rows,
        ingresses: ingresses.len(),
        left: left.count(),
    }
}

/// An Ingress that is looked at.
struct Subject<'a> {
    reference: &'a ObjectRef,
    ingress: &'a Arc<Ingress>,
    place: String,
}

/// Host and path -> canaries.
type Canaries = BTreeMap<(Arc<str>, Arc<str>), Vec<Arc<Ingress>>>;

impl Subject<'_> {
    fn row(&self, host: &str, path: &str, aspect: Aspect) -> Row {
        let instead = match aspect.instead() {
            "" => CHOOSE.to_owned(),
            instead => format!("{CHOOSE}; or {instead}"),
        };
        Row {
            ingress: self.reference.clone(),
            place: self.place.clone(),
            host: host.to_owned(),
            path: path.to_owned(),
            aspect,
            key: String::new(),
            request: String::new(),
            nginx: String::new(),
            ours: String::new(),
            remedy: instead,
        }
    }

    /// Its hosts and paths, each once.
    fn places(&self) -> BTreeSet<(&Arc<str>, &Arc<str>)> {
        let rules = self.ingress.rules.iter();
        let rules = rules.filter_map(|rule| Some((rule.host.as_ref().ok()?, &rule.paths)));
        rules
            .flat_map(|(host, paths)| paths.iter().map(move |path| (host, &path.path)))
            .collect()
    }

    /// Asks both worlds; the first request that shows an aspect of a path stands for all.
    fn paths(
        &self,
        (nginx, ours): (&Hosts<'_>, &Hosts<'_>),
        canaries: &Canaries,
        rows: &mut Vec<Row>,
    ) {
        let keys = [
            &PROXY_NEXT_UPSTREAM,
            &PROXY_NEXT_UPSTREAM_TRIES,
            &PROXY_NEXT_UPSTREAM_TIMEOUT,
        ];
        // Without a word about attempts every route differs in the same way, which the guide tells.
        let retries = keys
            .iter()
            .any(|key| probes::value(self.ingress, key).is_some());
        for (host, path) in self.places() {
            let found = canaries.get(&(host.clone(), path.clone()));
            let canaries: Vec<&Ingress> = found.into_iter().flatten().map(|c| &**c).collect();
            let mut seen = BTreeSet::new();
            for request in probes::requests(self.ingress, host, path, &canaries) {
                let differences = between(&nginx.answer(&request), &ours.answer(&request), retries);
                for (aspect, nginx, ours) in differences {
                    if seen.insert(aspect) {
                        rows.push(Row {
                            request: request.to_string(),
                            nginx,
                            ours,
                            ..self.row(host, path, aspect)
                        });
                    }
                }
            }
        }
    }

    /// Compares how endpoints are chosen.
    fn endpoints(&self, nginx: &World, ours: &World, as_nginx: &Arc<Ingress>, rows: &mut Vec<Row>) {
        let shown = |world: &World, ingress: &Ingress| {
            let policy = needs(world.pipeline.scope(), ingress).policy;
            let chosen = policy.load_balancer.as_ref();
            chosen.and_then(|chosen| serde_json::to_string(chosen).ok())
        };
        let (nginx, ours) = (shown(nginx, as_nginx), shown(ours, self.ingress));
        let places = self.places();
        let Some((host, path)) = places.first().filter(|_| nginx != ours) else {
            return;
        };
        let or_default = |text: Option<String>| text.unwrap_or_else(|| "the default".to_owned());
        rows.push(Row {
            request: Request::get(&probes::host(host), &probes::plain(path)).to_string(),
            nginx: or_default(nginx),
            ours: or_default(ours),
            ..self.row(host, path, Aspect::Endpoints)
        });
    }

    /// What is not understood, with a request for the first path.
    fn annotations(&self, ours: &Hosts<'_>, found: &[Diagnostic], rows: &mut Vec<Row>) {
        let nothing = (&Arc::from("*"), &Arc::from("/"));
        let (host, path) = self.places().into_iter().next().unwrap_or(nothing);
        let request = Request::get(&probes::host(host), &probes::plain(path));
        for diagnostic in found.iter().filter(|d| is_about_annotations(d)) {
            let full = diagnostic
                .field
                .split('"')
                .nth(1)
                .unwrap_or(&diagnostic.field);
            let name = full.rsplit('/').next().unwrap_or(full);
            let known = UNSUPPORTED.iter().find(|row| row.name == name);
            let effect = known.map_or("reads it".to_owned(), |row| format!("would {}", row.effect));
            rows.push(Row {
                key: full.to_owned(),
                request: request.to_string(),
                nginx: effect,
                ours: ours.answer(&request).action.to_string(),
                remedy: diagnostic.message.clone(),
                ..self.row(host, path, Aspect::Annotation)
            });
        }
    }
}

impl World {
    /// An Ingress as it is understood.
    fn ingress(&self, reference: &ObjectRef) -> Option<Arc<Ingress>> {
        self.pipeline
            .ingress(&reference.namespace, &reference.name)
            .cloned()
    }
}

/// What an annotation or a path written for ingress-nginx costs; mistakes that have nothing to do with it are left to `translate`.
fn is_about_annotations(diagnostic: &Diagnostic) -> bool {
    diagnostic.field.starts_with("metadata.annotations[")
        || diagnostic.reason == Reason::InvalidRegex
}

fn by_object(all: Vec<Diagnostic>) -> BTreeMap<ObjectRef, Vec<Diagnostic>> {
    let mut result: BTreeMap<ObjectRef, Vec<Diagnostic>> = BTreeMap::new();
    for diagnostic in all {
        if let Some(object) = &diagnostic.object {
            result.entry(object.clone()).or_default().push(diagnostic);
        }
    }
    result
}

fn canaries(ingresses: &BTreeSet<ObjectRef>, ours: &World) -> Canaries {
    let mut all = Canaries::new();
    let canaries = ingresses
        .iter()
        .filter_map(|reference| ours.ingress(reference));
    for canary in canaries.filter(|ingress| probes::is_canary(ingress)) {
        for rule in &canary.rules {
            let Ok(host) = &rule.host else { continue };
            for path in &rule.paths {
                let place = (host.clone(), path.path.clone());
                all.entry(place).or_default().push(canary.clone());
            }
        }
    }
    all
}
