//! All stages after ingest in one object: changes in, encoded output and diagnostics out. Synchronous and deterministic.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::OrdSet;
use shared_proto::{Config, ConfigKey};

use crate::app::sharing::Sharing;
use crate::ingest::Change;
use crate::model::{
    Diagnostic, Ingress, ObjectKind, ObjectRef, ReportSource, Reports, Scope, Upstream,
    cap_per_object,
};
use crate::resolve::{Dirty, Resolver};
use crate::translate::ingress::{
    HostInputs, Shared, Source, Unit, UpstreamInputs, UpstreamUnit, annotations, needs,
    translate_host, translate_upstream,
};
use crate::xds::{ConfigMaps, OutputStore};

/// What a change came to.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Units that were translated.
    pub units: usize,
    /// Resources that are new, gone or different.
    pub resources: usize,
    /// Mistakes that were not there before; of an object with very many, the first ones.
    pub new_diagnostics: Vec<Diagnostic>,
    /// Diagnostics or places differ from before.
    pub reports_changed: bool,
}

/// State of the controller between changes. Has one owner.
#[derive(Debug)]
pub struct Pipeline {
    resolver: Resolver,
    sharing: Sharing,
    store: OutputStore,
    reports: Reports,
    served: OrdSet<ObjectRef>,
}

impl Pipeline {
    /// An empty one.
    pub fn new(scope: Arc<Scope>) -> Self {
        Self {
            resolver: Resolver::new(scope, needs),
            sharing: Sharing::default(),
            store: OutputStore::default(),
            reports: Reports::default(),
            served: OrdSet::new(),
        }
    }

    /// Takes in a change and rebuilds what it touches.
    pub fn apply(&mut self, change: Change) -> Outcome {
        let mut outcome = Outcome {
            reports_changed: !change.places.is_empty(),
            ..Outcome::default()
        };
        let mut dirty = Dirty::default();
        for (reference, object) in change.objects {
            if object.is_none() {
                self.reports.forget(&reference);
            }
            self.resolver.apply(reference, object, &mut dirty);
        }
        for (reference, place) in change.places {
            if reference.kind != ObjectKind::Service {
                self.reports.set_place(reference, place);
            }
        }
        for (file, diagnostics) in change.problems {
            self.report(ReportSource::File(file), diagnostics, &mut outcome);
        }
        for (ingress, mut diagnostics) in dirty.ingresses {
            if let Some(object) = self.resolver.ingress(&ingress.namespace, &ingress.name) {
                diagnostics.extend(annotations::check(object));
                self.served.insert(ingress.clone());
            } else {
                self.served.remove(&ingress);
            }
            self.report(ReportSource::Object(ingress), diagnostics, &mut outcome);
        }
        let mut shared = BTreeSet::new();
        for host in dirty.hosts {
            self.build(host, &mut shared, &mut outcome);
        }
        for shared in shared {
            self.build_shared(&shared, &mut outcome);
        }
        for upstream in dirty.upstreams {
            self.build_upstream(upstream, &mut outcome);
        }
        outcome.new_diagnostics = cap_per_object(outcome.new_diagnostics);
        outcome
    }

    /// Adds to `touched` what has its first user now, or none any more.
    fn build(&mut self, host: Arc<str>, touched: &mut BTreeSet<Shared>, outcome: &mut Outcome) {
        let (configs, uses, diagnostics) = match self.translate(&host) {
            Some(unit) => {
                let configs = [unit.gateway, unit.virtual_service, unit.envoy_filter];
                let configs: Vec<_> = configs.into_iter().flatten().collect();
                (configs, unit.shared, unit.diagnostics)
            }
            None => Default::default(),
        };
        touched.extend(self.sharing.replace(&host, uses));
        outcome.units += 1;
        outcome.resources += self.store.replace(&host, &configs);
        self.report(ReportSource::Host(host), diagnostics, outcome);
    }

    fn build_shared(&mut self, shared: &Shared, outcome: &mut Outcome) {
        let used = self.sharing.is_used(shared);
        let config = used.then(|| shared.config(self.resolver.scope()));
        // Neither hosts nor upstreams begin with a slash.
        let unit = Arc::from(format!("/{}", shared.name()));
        outcome.units += 1;
        outcome.resources += self.store.replace(&unit, config.as_slice());
    }

    fn build_upstream(&mut self, upstream: Upstream, outcome: &mut Outcome) {
        let UpstreamUnit {
            destination_rule,
            diagnostics,
            ..
        } = self.translate_upstream(&upstream);
        // No host has a slash in it.
        let unit = Arc::from(format!("{}/{}", upstream.namespace(), upstream.name()));
        outcome.units += 1;
        outcome.resources += self.store.replace(&unit, destination_rule.as_slice());
        self.report(ReportSource::Upstream(upstream), diagnostics, outcome);
    }

    fn report(&mut self, source: ReportSource, found: Vec<Diagnostic>, outcome: &mut Outcome) {
        if let Some(new) = self.reports.replace(source, found) {
            outcome.reports_changed = true;
            outcome.new_diagnostics.extend(new);
        }
    }

    /// Translates one host as it is now, with the origins of its routes.
    pub fn translate(&self, host: &str) -> Option<Unit> {
        translate_host(&HostInputs {
            scope: self.resolver.scope(),
            host,
            sources: self.resolver.sources_of(host),
            services: &self.resolver,
            secrets: &self.resolver,
        })
    }

    fn translate_upstream(&self, upstream: &Upstream) -> UpstreamUnit {
        translate_upstream(&UpstreamInputs {
            scope: self.resolver.scope(),
            upstream,
            contributions: self.resolver.contributions_to(upstream),
            services: &self.resolver,
        })
    }

    /// The sources of all objects of the output. Translates everything, so it is not for a running controller.
    pub fn provenance(&self) -> BTreeMap<ConfigKey, Vec<Source>> {
        let mut all = BTreeMap::new();
        let mut of_shared: BTreeMap<ConfigKey, BTreeSet<Source>> = BTreeMap::new();
        let mut add = |config: Option<Config>, sources| {
            if let Some(config) = config {
                all.insert(config.key(), sources);
            }
        };
        for unit in self
            .resolver
            .hosts()
            .filter_map(|host| self.translate(host))
        {
            add(unit.gateway, unit.gateway_sources);
            add(unit.virtual_service, unit.route_sources);
            for shared in &unit.shared {
                let key = shared.config(self.resolver.scope()).key();
                let sources = of_shared.entry(key).or_default();
                sources.extend(unit.filter_sources.iter().cloned());
            }
            add(unit.envoy_filter, unit.filter_sources);
        }
        for upstream in self.resolver.upstreams() {
            let unit = self.translate_upstream(upstream);
            add(unit.destination_rule, unit.sources);
        }
        let of_shared = of_shared.into_iter();
        all.extend(of_shared.map(|(key, sources)| (key, sources.into_iter().collect())));
        all
    }

    /// All hosts, in no order.
    pub(super) fn hosts(&self) -> impl Iterator<Item = &Arc<str>> {
        self.resolver.hosts()
    }

    /// An Ingress, if it is served.
    pub(super) fn ingress(&self, namespace: &Arc<str>, name: &Arc<str>) -> Option<&Arc<Ingress>> {
        self.resolver.ingress(namespace, name)
    }

    /// The options that decide what is served.
    pub(super) fn scope(&self) -> &Scope {
        self.resolver.scope()
    }

    /// The output.
    pub fn snapshot(&self) -> ConfigMaps {
        self.store.snapshot()
    }

    /// What is wrong with the input.
    pub fn reports(&self) -> &Reports {
        &self.reports
    }

    /// Number of units with output.
    pub fn unit_count(&self) -> usize {
        self.store.unit_count()
    }

    /// The Ingresses that are served.
    pub fn served(&self) -> &OrdSet<ObjectRef> {
        &self.served
    }

    /// Number of Ingresses that are served.
    pub fn ingress_count(&self) -> usize {
        self.resolver.ingress_count()
    }
}
