//! The index from objects to units and back.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::aliases::Aliases;
use super::semantics::{self, Classes};
use super::upstreams::Upstreams;
use super::users::{Key, Users};
use super::{Contribution, HostSources, Needs, NeedsOf, Secrets, Services, is_served, shorten};
use crate::ingest::Object;
use crate::model::{
    Backend, Diagnostic, Ingress, IngressClass, ObjectKind, ObjectRef, Reason, Scope, Secret,
    Service, Upstream,
};

/// What a change touches.
#[derive(Debug, Default)]
pub struct Dirty {
    /// Hosts to be translated again.
    pub hosts: BTreeSet<Arc<str>>,
    /// Upstreams whose policy is to be translated again.
    pub upstreams: BTreeSet<Upstream>,
    /// Ingresses and IngressClasses that were looked at, with what is wrong with them as a whole; an empty list clears.
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
    /// Hosts beside those of rules.
    aliases: Aliases,
    /// Upstreams and the Ingresses that their policies are built from.
    upstreams: Upstreams,
    /// Hosts that need the ports of Services.
    port_users: Users,
    secrets: HashMap<Key, Secret>,
    /// Hosts that are made of Secrets.
    secret_users: Users,
    /// What annotations mean.
    classes: Classes,
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
            aliases: Aliases::default(),
            upstreams: Upstreams::default(),
            port_users: Users::default(),
            secrets: HashMap::new(),
            secret_users: Users::default(),
            classes: Classes::default(),
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

    /// All hosts, in no order.
    pub fn hosts(&self) -> impl Iterator<Item = &Arc<str>> {
        let beside = self.aliases.hosts();
        let beside = beside.filter(|host| !self.hosts.contains_key(*host));
        self.hosts.keys().chain(beside)
    }

    /// All upstreams with a policy, in no order.
    pub fn upstreams(&self) -> impl Iterator<Item = &Upstream> {
        self.upstreams.all()
    }

    /// What a host is built from.
    pub fn sources_of<'a>(&'a self, host: &'a str) -> HostSources<'a> {
        self.aliases.sources(host, &self.hosts)
    }

    /// What an upstream's policy is built from, oldest Ingress first; empty when it has none.
    pub fn contributions_to(&self, upstream: &Upstream) -> &[Contribution] {
        self.upstreams.of(upstream)
    }

    /// Takes in one version of an object (`None` = gone) and adds what that touches to `dirty`.
    pub fn apply(&mut self, reference: ObjectRef, object: Option<Object>, dirty: &mut Dirty) {
        match (reference.kind, object) {
            (ObjectKind::Ingress, Some(Object::Ingress(ingress))) => {
                let mut ingress = *ingress;
                ingress.semantics = self.classes.semantics(&self.scope, &ingress);
                self.apply_ingress(reference, Some(Arc::new(ingress)), dirty);
            }
            (ObjectKind::Ingress, _) => self.apply_ingress(reference, None, dirty),
            (ObjectKind::Service, Some(Object::Service(service))) => {
                self.apply_service(&reference, Some(service), dirty);
            }
            (ObjectKind::Service, _) => self.apply_service(&reference, None, dirty),
            (ObjectKind::IngressClass, Some(Object::IngressClass(class))) => {
                self.apply_class(reference, Some(class), dirty);
            }
            (ObjectKind::IngressClass, _) => self.apply_class(reference, None, dirty),
            (ObjectKind::Secret, Some(Object::Secret(secret))) => {
                self.apply_secret(reference, Some(secret), dirty);
            }
            (ObjectKind::Secret, _) => self.apply_secret(reference, None, dirty),
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
            let version = version.as_deref();
            version.map_or_else(Needs::default, |v| (self.needs_of)(&self.scope, v))
        };
        let (old_needs, new_needs) = (needs(&old), needs(&new));
        if let Some(old) = &old {
            self.leave(old, &old_needs);
        }
        if let Some(new) = &new {
            self.join(new, &new_needs);
        }
        self.upstreams.replace(
            old.as_ref().map(|old| (old, &old_needs)),
            new.as_ref().map(|new| (new, &new_needs)),
            &mut dirty.upstreams,
        );
        let beside = self.other_certificates(&touched, old.as_deref(), new.as_deref());
        if let (Some(old), Some(new)) = (&old, &new) {
            touched.retain(|host| {
                !(old.has_unit(host) && new.has_unit(host)) || old.differs_at(new, host)
            });
        }
        touched.extend(beside);
        self.aliases.replace(
            old.as_ref().map(|old| (old, &*old_needs.aliases)),
            new.as_ref().map(|new| (new, &*new_needs.aliases)),
            &mut touched,
        );
        touched.iter().for_each(|host| self.touch(host, dirty));
        let diagnostics = new.map(|new| whole(&reference, &new)).unwrap_or_default();
        dirty.ingresses.push((reference, diagnostics));
    }

    /// Aliases of these hosts that have another entry in `spec.tls` than before.
    fn other_certificates(
        &self,
        hosts: &BTreeSet<Arc<str>>,
        old: Option<&Ingress>,
        new: Option<&Ingress>,
    ) -> Vec<Arc<str>> {
        let (Some(old), Some(new)) = (old, new) else {
            return Vec::new();
        };
        if old.tls == new.tls {
            return Vec::new();
        }
        let all = hosts.iter().flat_map(|host| self.aliases.beside(host));
        all.filter(|host| !old.same_certificate(new, host))
            .cloned()
            .collect()
    }

    /// A host is to be translated again, and with it those that are served as it is.
    fn touch(&self, host: &Arc<str>, dirty: &mut Dirty) {
        dirty.hosts.extend(self.aliases.beside(host).cloned());
        dirty.hosts.insert(host.clone());
    }

    fn join(&mut self, ingress: &Arc<Ingress>, needs: &Needs) {
        for host in ingress.units() {
            let members = self.hosts.entry(host.clone()).or_default();
            let at = members.partition_point(|member| member.age() < ingress.age());
            members.reserve_exact(1);
            members.insert(at, ingress.clone());
        }
        for (service, host) in service_uses(ingress, needs) {
            self.port_users.join(service, host);
        }
        for (secret, host) in secret_uses(ingress, needs) {
            self.secret_users.join(secret.clone(), host);
        }
    }

    fn leave(&mut self, ingress: &Arc<Ingress>, needs: &Needs) {
        for host in ingress.units() {
            let Some(members) = self.hosts.get_mut(host) else {
                continue;
            };
            members.retain(|member| member.age() != ingress.age());
            if members.is_empty() {
                self.hosts.remove(host);
            }
        }
        for (service, host) in service_uses(ingress, needs) {
            self.port_users.leave(&service, host);
        }
        for (secret, host) in secret_uses(ingress, needs) {
            self.secret_users.leave(secret, host);
        }
    }

    /// Ingresses of the class are found by looking at all: classes change rarely, and an index of them would cost memory always.
    fn apply_class(&mut self, reference: ObjectRef, new: Option<IngressClass>, dirty: &mut Dirty) {
        let diagnostics = new
            .as_ref()
            .map(|class| semantics::check(&reference, class));
        if !self.classes.replace(&reference.name, new) {
            return;
        }
        let diagnostics = diagnostics.unwrap_or_default();
        let mut changed = Vec::new();
        for ingress in self.ingresses.values() {
            let semantics = self.classes.semantics(&self.scope, ingress);
            if ingress.class() == &*reference.name && semantics != ingress.semantics {
                let mut ingress = Ingress::clone(ingress);
                ingress.semantics = semantics;
                changed.push(Arc::new(ingress));
            }
        }
        dirty.ingresses.push((reference, diagnostics));
        for ingress in changed {
            let reference = ObjectRef {
                kind: ObjectKind::Ingress,
                namespace: ingress.namespace.clone(),
                name: ingress.name.clone(),
            };
            self.apply_ingress(reference, Some(ingress), dirty);
        }
    }

    fn apply_service(&mut self, reference: &ObjectRef, new: Option<Service>, dirty: &mut Dirty) {
        if self.service(&reference.namespace, &reference.name) == new.as_ref() {
            return;
        }
        let (namespace, name) = (reference.namespace.clone(), reference.name.clone());
        let key = (namespace.clone(), name.clone());
        self.port_users
            .of(&key)
            .for_each(|host| self.touch(host, dirty));
        let upstream = Upstream::service(namespace.clone(), name.clone());
        if self.upstreams.looks_ports_up(&upstream) {
            dirty.upstreams.insert(upstream);
        }
        let services = self.services.entry(namespace).or_default();
        match new {
            Some(service) => _ = services.insert(name, service),
            None => _ = services.remove(&name),
        }
    }

    fn apply_secret(&mut self, reference: ObjectRef, new: Option<Secret>, dirty: &mut Dirty) {
        let key = (reference.namespace, reference.name);
        if self.secrets.get(&key) == new.as_ref() {
            return;
        }
        let users = self.secret_users.of(&key);
        users.for_each(|host| self.touch(host, dirty));
        match new {
            Some(secret) => _ = self.secrets.insert(key, secret),
            None => _ = self.secrets.remove(&key),
        }
    }
}

impl Secrets for Resolver {
    fn secret(&self, namespace: &str, name: &str) -> Option<&Secret> {
        self.secrets.get(&(Arc::from(namespace), Arc::from(name)))
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

/// (Secret, host) for every Secret that the routes are made of.
fn secret_uses<'a>(
    ingress: &'a Ingress,
    needs: &'a Needs,
) -> impl Iterator<Item = (&'a Key, &'a Arc<str>)> {
    let secrets = needs.secrets.iter();
    secrets.flat_map(|secret| ingress.units().map(move |host| (secret, host)))
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
