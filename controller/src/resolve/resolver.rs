//! The index from objects to units and back.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use super::{Needs, NeedsOf, Services, is_served};
use crate::ingest::Object;
use crate::model::{
    Backend, BackendPort, Diagnostic, Ingress, ObjectKind, ObjectRef, Reason, Scope, Service,
    Upstream,
};

type Key = (Arc<str>, Arc<str>);
/// How many uses of a host look a Service up.
type Users = HashMap<Arc<str>, usize>;

/// What a change touches.
#[derive(Debug, Default)]
pub struct Dirty {
    /// Hosts to be translated again.
    pub hosts: BTreeSet<Arc<str>>,
    /// Upstreams whose policy is to be translated again.
    pub upstreams: BTreeSet<Upstream>,
    /// Ingresses that were looked at, with what is wrong with them as a whole; an empty list clears.
    pub ingresses: Vec<(ObjectRef, Vec<Diagnostic>)>,
}

/// Users' objects and the hosts that depend on them. Has one owner; never asks anybody else.
#[derive(Debug)]
pub struct Resolver {
    scope: Arc<Scope>,
    needs_of: NeedsOf,
    /// Ingresses that are served.
    ingresses: HashMap<Key, Arc<Ingress>>,
    /// Namespace -> name -> Service.
    services: HashMap<Arc<str>, HashMap<Arc<str>, Service>>,
    /// Host -> the Ingresses that it is built from, oldest first.
    hosts: HashMap<Arc<str>, Vec<Arc<Ingress>>>,
    /// Upstream -> the Ingresses that its policy is built from, oldest first.
    upstreams: HashMap<Upstream, Vec<Arc<Ingress>>>,
    /// Service -> hosts that need its ports.
    port_users: HashMap<Key, Users>,
}

impl Resolver {
    /// An empty one. `needs_of` reads what annotations depend on.
    pub fn new(scope: Arc<Scope>, needs_of: NeedsOf) -> Self {
        Self {
            scope,
            needs_of,
            ingresses: HashMap::new(),
            services: HashMap::new(),
            hosts: HashMap::new(),
            upstreams: HashMap::new(),
            port_users: HashMap::new(),
        }
    }

    /// The options that decide what is served.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Number of Ingresses that are served.
    pub fn ingress_count(&self) -> usize {
        self.ingresses.len()
    }

    /// An Ingress, if it is served.
    pub fn ingress(&self, namespace: &Arc<str>, name: &Arc<str>) -> Option<&Arc<Ingress>> {
        self.ingresses.get(&(namespace.clone(), name.clone()))
    }

    /// The Ingresses that a host is built from, oldest first; empty when nothing is left of it.
    pub fn ingresses_of(&self, host: &str) -> &[Arc<Ingress>] {
        self.hosts.get(host).map_or(&[], Vec::as_slice)
    }

    /// The Ingresses that an upstream's policy is built from, oldest first; empty when it has none.
    pub fn ingresses_of_upstream(&self, upstream: &Upstream) -> &[Arc<Ingress>] {
        self.upstreams.get(upstream).map_or(&[], Vec::as_slice)
    }

    /// Takes in one version of an object (`None` = gone) and adds what that touches to `dirty`.
    pub fn apply(&mut self, reference: ObjectRef, object: Option<Object>, dirty: &mut Dirty) {
        match (reference.kind, object) {
            (ObjectKind::Ingress, Some(Object::Ingress(ingress))) => {
                let ingress = Arc::new(*ingress);
                self.apply_ingress(reference, Some(ingress), dirty);
            }
            (ObjectKind::Ingress, _) => self.apply_ingress(reference, None, dirty),
            (ObjectKind::Service, Some(Object::Service(service))) => {
                self.apply_service(&reference, Some(service), dirty);
            }
            (ObjectKind::Service, _) => self.apply_service(&reference, None, dirty),
        }
    }

    fn apply_ingress(
        &mut self,
        reference: ObjectRef,
        new: Option<Arc<Ingress>>,
        dirty: &mut Dirty,
    ) {
        let key = (reference.namespace.clone(), reference.name.clone());
        let new = new.filter(|ingress| is_served(ingress, &self.scope));
        let old = match &new {
            Some(ingress) => self.ingresses.insert(key, ingress.clone()),
            None => self.ingresses.remove(&key),
        };
        if old == new {
            return;
        }
        let mut touched = BTreeSet::new();
        for version in old.iter().chain(&new) {
            touched.extend(version.units().cloned());
        }
        let needs = |version: &Option<Arc<Ingress>>| {
            version
                .as_deref()
                .map_or_else(Needs::default, self.needs_of)
        };
        let (old_needs, new_needs) = (needs(&old), needs(&new));
        if let Some(old) = &old {
            self.leave(old, &old_needs);
        }
        if let Some(new) = &new {
            self.join(new, &new_needs);
        }
        touch_upstreams(
            (old.as_deref(), &old_needs),
            (new.as_deref(), &new_needs),
            dirty,
        );
        if let (Some(old), Some(new)) = (&old, &new) {
            touched.retain(|host| {
                !(old.has_unit(host) && new.has_unit(host)) || old.differs_at(new, host)
            });
        }
        dirty.hosts.extend(touched);
        let diagnostics = new.map(|new| whole(&reference, &new)).unwrap_or_default();
        dirty.ingresses.push((reference, diagnostics));
    }

    fn join(&mut self, ingress: &Arc<Ingress>, needs: &Needs) {
        for host in ingress.units() {
            insert_by_age(self.hosts.entry(host.clone()).or_default(), ingress);
        }
        for upstream in needs.distinct_upstreams() {
            insert_by_age(self.upstreams.entry(upstream.clone()).or_default(), ingress);
        }
        for (service, host) in service_uses(ingress, needs) {
            let users = self.port_users.entry(service).or_default();
            *users.entry(host.clone()).or_default() += 1;
        }
    }

    fn leave(&mut self, ingress: &Arc<Ingress>, needs: &Needs) {
        for host in ingress.units() {
            remove_member(&mut self.hosts, host, ingress);
        }
        for upstream in needs.distinct_upstreams() {
            remove_member(&mut self.upstreams, upstream, ingress);
        }
        for (service, host) in service_uses(ingress, needs) {
            let Some(users) = self.port_users.get_mut(&service) else {
                continue;
            };
            if let Some(count) = users.get_mut(host) {
                *count -= 1;
                if *count == 0 {
                    users.remove(host);
                }
            }
            if users.is_empty() {
                self.port_users.remove(&service);
            }
        }
    }

    fn apply_service(&mut self, reference: &ObjectRef, new: Option<Service>, dirty: &mut Dirty) {
        if self.service(&reference.namespace, &reference.name) == new.as_ref() {
            return;
        }
        let (namespace, name) = (reference.namespace.clone(), reference.name.clone());
        if let Some(users) = self.port_users.get(&(namespace.clone(), name.clone())) {
            dirty.hosts.extend(users.keys().cloned());
        }
        let upstream = Upstream::service(namespace.clone(), name.clone());
        if self.looks_ports_up(&upstream) {
            dirty.upstreams.insert(upstream);
        }
        let services = self.services.entry(namespace).or_default();
        match new {
            Some(service) => _ = services.insert(name, service),
            None => _ = services.remove(&name),
        }
    }

    /// True when the policy of an upstream depends on the ports of its Service.
    fn looks_ports_up(&self, upstream: &Upstream) -> bool {
        let named = |port: &BackendPort| matches!(port, BackendPort::Name(_));
        self.ingresses_of_upstream(upstream)
            .iter()
            .any(|ingress| (self.needs_of)(ingress).ports_of(upstream).any(named))
    }
}

fn insert_by_age(members: &mut Vec<Arc<Ingress>>, ingress: &Arc<Ingress>) {
    let at = members.partition_point(|member| member.age() < ingress.age());
    members.reserve_exact(1);
    members.insert(at, ingress.clone());
}

fn remove_member<K: Eq + Hash>(
    units: &mut HashMap<K, Vec<Arc<Ingress>>>,
    unit: &K,
    ingress: &Ingress,
) {
    let Some(members) = units.get_mut(unit) else {
        return;
    };
    members.retain(|member| member.age() != ingress.age());
    if members.is_empty() {
        units.remove(unit);
    }
}

/// Adds the upstreams whose policy may differ between two versions of an Ingress.
fn touch_upstreams(
    (old, old_needs): (Option<&Ingress>, &Needs),
    (new, new_needs): (Option<&Ingress>, &Needs),
    dirty: &mut Dirty,
) {
    let same = match (old, new) {
        (Some(old), Some(new)) => old.created == new.created && old.annotations == new.annotations,
        _ => false,
    };
    if same && old_needs == new_needs {
        return;
    }
    let before = old_needs.by_upstream();
    let after = new_needs.by_upstream();
    for upstream in before.keys().chain(after.keys()) {
        if !same || before.get(upstream) != after.get(upstream) {
            dirty.upstreams.insert((*upstream).clone());
        }
    }
}

impl Services for Resolver {
    fn service(&self, namespace: &str, name: &str) -> Option<&Service> {
        self.services.get(namespace)?.get(name)
    }
}

/// (Service, host) for every backend whose port has to be looked up, and for every Service that annotations look up.
fn service_uses<'a>(ingress: &'a Ingress, needs: &Needs) -> Vec<(Key, &'a Arc<str>)> {
    let key = |service: &Arc<str>| (ingress.namespace.clone(), service.clone());
    let mut uses = Vec::new();
    for service in &needs.services {
        uses.extend(ingress.units().map(|host| (service.clone(), host)));
    }
    if let Some((service, _)) = ingress
        .default_backend
        .as_ref()
        .and_then(Backend::named_port)
    {
        uses.extend(ingress.units().map(|host| (key(service), host)));
    }
    for rule in &ingress.rules {
        let Ok(host) = &rule.host else { continue };
        let services = rule
            .paths
            .iter()
            .filter_map(|path| path.backend.named_port());
        uses.extend(services.map(|(service, _)| (key(service), host)));
    }
    uses
}

/// Mistakes that concern an Ingress as a whole, not one of its hosts.
fn whole(reference: &ObjectRef, ingress: &Ingress) -> Vec<Diagnostic> {
    let diagnostic = |field: String, reason, message| Diagnostic {
        object: Some(reference.clone()),
        place: None,
        field,
        reason,
        message,
    };
    let mut found = Vec::new();
    if ingress.rules.is_empty() && ingress.default_backend.is_none() {
        let message = "has neither rules nor a default backend; add one of them".to_owned();
        found.push(diagnostic("spec".to_owned(), Reason::EmptyIngress, message));
    }
    for (index, rule) in ingress.rules.iter().enumerate() {
        if let Err((raw, error)) = &rule.host {
            let field = format!("spec.rules[{index}].host");
            let message = format!("{:?} {error}; the rule is not served", shorten(raw));
            found.push(diagnostic(field, Reason::InvalidHost, message));
        }
    }
    found
}

fn shorten(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
