//! One step from a snapshot to the next: what changed is generated again, everything else stays.

use std::collections::BTreeSet;
use std::sync::Arc;

use xds_engine::{Resource, ResourceMap};

use super::generate::{Generator, Routes};
use super::lookup::Lookup;
use super::patches::Touched;
use super::references::References;
use super::servers::{Credential, Dirty, ListenKey};
use super::{ClassSnapshot, Resources};
use crate::model::change::NamespacedName;
use crate::model::envoy_filter::Added;
use crate::push::context::Impact;
use crate::push::world::Changed;
use crate::translate::names;

/// What exists because something else needs it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Needs {
    /// Secrets, by the host names of services.
    pub(super) credentials: References<Credential>,
    /// Fallback clusters, by route configurations.
    pub(super) fallbacks: References<Arc<str>>,
}

impl Needs {
    /// Credentials that the Secret belongs to.
    fn credentials_of(&self, secret: &NamespacedName) -> BTreeSet<Credential> {
        let first = Credential {
            secret: secret.clone(),
            name: Arc::from(""),
            trust: false,
        };
        let items = self.credentials.items_from(&first);
        items
            .take_while(|credential| credential.secret == *secret)
            .cloned()
            .collect()
    }
}

/// One step from a snapshot to the next.
pub(super) struct Update<'a> {
    before: &'a ClassSnapshot,
    pub(super) generator: Generator<'a>,
    pub(super) resources: Resources,
    pub(super) needs: Needs,
    /// Credentials that clusters need since, or do not need any more.
    credentials: BTreeSet<Credential>,
    /// Services whose clusters were generated in this step.
    done: BTreeSet<Arc<str>>,
    /// Fallback clusters that somebody uses since, or does not use any more.
    fallbacks: BTreeSet<Arc<str>>,
}

impl<'a> Update<'a> {
    pub(super) fn new(before: &'a ClassSnapshot, generator: Generator<'a>) -> Self {
        Self {
            before,
            generator,
            resources: before.resources.clone(),
            needs: before.needs.clone(),
            credentials: BTreeSet::new(),
            done: BTreeSet::new(),
            fallbacks: BTreeSet::new(),
        }
    }

    /// Clusters, and their endpoints where the clusters are others than before.
    pub(super) fn services(&mut self, impact: &Impact) {
        for hostname in &impact.services {
            let now = self.generator.lookup;
            let before = Lookup {
                world: &self.before.world,
                ..now
            };
            let names = now.cluster_names(hostname);
            for gone in before.cluster_names(hostname).difference(&names) {
                set(&mut self.resources.clusters, gone, None);
                set(&mut self.resources.endpoints, gone, None);
            }
            self.clusters(hostname);
            if !now.same_parts(&before, hostname) {
                self.endpoints_of(hostname, &names);
            }
        }
    }

    /// All clusters of a service, and what they need.
    fn clusters(&mut self, hostname: &Arc<str>) {
        let (clusters, credentials) = self.generator.clusters(hostname);
        for (name, cluster) in clusters {
            set(&mut self.resources.clusters, &name, cluster);
        }
        let changed = self.needs.credentials.replace(hostname, credentials);
        self.credentials.extend(changed);
        self.done.insert(hostname.clone());
    }

    fn endpoints_of(&mut self, hostname: &str, names: &BTreeSet<String>) {
        let mut without = names.clone();
        for (name, endpoints) in self.generator.endpoints(hostname) {
            set(&mut self.resources.endpoints, &name, Some(endpoints));
            without.remove(&name);
        }
        for name in without {
            set(&mut self.resources.endpoints, &name, None);
        }
    }

    pub(super) fn endpoints(&mut self, changed: &Changed) {
        for hostname in &changed.endpoints {
            for (name, endpoints) in self.generator.endpoints(hostname) {
                set(&mut self.resources.endpoints, &name, Some(endpoints));
            }
        }
    }

    /// Clusters with fallbacks that routes lead to.
    pub(super) fn fallbacks(&mut self) {
        for name in &self.fallbacks {
            let used = self.needs.fallbacks.contains(name);
            let cluster = used.then(|| self.generator.fallback_cluster(name));
            set(&mut self.resources.clusters, name, cluster.flatten());
        }
    }

    /// Scopes and routes of hosts; where a wildcard host came or went, the scope filter too.
    pub(super) fn hosts(&mut self, impact: &Impact) {
        let ports = self.generator.ports_listened();
        let ports_before = self.before.servers.ports();
        let gone: Vec<u16> = ports_before.difference(&ports).copied().collect();
        if !self.generator.scoped() {
            self.plain_routes(impact);
            return;
        }
        let hosts = self.generator.affected_hosts(&impact.hosts);
        let mut filters: BTreeSet<u16> = BTreeSet::new();
        for &port in ports.iter().chain(&gone) {
            let new_port = !ports_before.contains(&port);
            if new_port || gone.contains(&port) {
                filters.insert(port);
            }
            for host in &hosts {
                let scope = names::scope_name(port, host);
                let routes = self.generator.host_routes(port, host);
                let served = routes.is_some();
                let name = names::route_name(port, host);
                let routes = self.uses(&name, routes);
                let had = self.resources.scopes.contains_key(scope.as_str());
                set(&mut self.resources.routes, &name, routes);
                if served != had {
                    let resource = served.then(|| self.generator.scope(port, host));
                    set(&mut self.resources.scopes, &scope, resource);
                    if host.starts_with('*') {
                        filters.insert(port);
                    }
                }
            }
        }
        for port in filters {
            let name = names::scope_filter_name(port);
            let listened = ports.contains(&port);
            let filter =
                listened.then(|| self.generator.scope_filter(port, &self.resources.scopes));
            set(&mut self.resources.extensions, &name, filter);
        }
    }

    /// Notes which fallback clusters a route configuration leads to.
    fn uses(&mut self, name: &str, routes: Option<Routes>) -> Option<Arc<Resource>> {
        let (resource, used) = match routes {
            Some(routes) => (Some(routes.resource), routes.fallbacks),
            None => (None, BTreeSet::new()),
        };
        self.fallbacks
            .extend(self.needs.fallbacks.replace(name, used));
        resource
    }

    /// Without scoped routes a route configuration holds all hosts of its server, so any of them changes it whole.
    fn plain_routes(&mut self, impact: &Impact) {
        if impact.hosts.is_empty() && impact.gateways.is_empty() && impact.patches.is_empty() {
            return;
        }
        let mut routes = ResourceMap::new();
        let generated = self.generator.plain_routes();
        for name in self.before.resources.routes.keys() {
            if !generated.contains_key(&**name) {
                self.uses(name, None);
            }
        }
        for (name, resource) in generated {
            let Some(resource) = self.uses(&name, Some(resource)) else {
                continue;
            };
            let old = self.resources.routes.get(name.as_str());
            let resource = old
                .filter(|old| **old == resource)
                .cloned()
                .unwrap_or(resource);
            routes.insert(name.into(), resource);
        }
        if routes != self.resources.routes {
            self.resources.routes = routes;
        }
    }

    /// Secrets; the listeners whose servers can be served since, or can't any more; clusters likewise.
    pub(super) fn secrets(&mut self, changed: &Changed, dirty: &mut Dirty) {
        for secret in &changed.secrets {
            let servers = self.generator.credentials_of(secret);
            dirty.credentials.extend(servers);
            let clusters = self.needs.credentials_of(secret);
            dirty.credentials.extend(clusters);
        }
        dirty.credentials.append(&mut self.credentials);
        let mut flipped: BTreeSet<Arc<str>> = BTreeSet::new();
        for credential in &dirty.credentials {
            let needed =
                self.generator.needs(credential) || self.needs.credentials.contains(credential);
            let resource = needed.then(|| self.generator.secret(credential)).flatten();
            let had = self.resources.secrets.contains_key(&*credential.name);
            if had != resource.is_some() {
                flipped.insert(credential.name.clone());
            }
            set(&mut self.resources.secrets, &credential.name, resource);
        }
        if flipped.is_empty() {
            return;
        }
        dirty
            .listeners
            .extend(self.generator.listeners_with(&flipped));
        let flipped = |credential: &&Credential| flipped.contains(&credential.name);
        let users = dirty.credentials.iter().filter(flipped);
        let users = users.flat_map(|credential| self.needs.credentials.users(credential));
        let users: BTreeSet<Arc<str>> = users.cloned().collect();
        for hostname in users.difference(&self.done.clone()) {
            self.clusters(hostname);
        }
    }

    /// Resources that patches bring. A listener of a server comes before one of its name, so it is left to it.
    pub(super) fn added(&mut self, touched: &Touched, dirty: &mut Dirty) {
        for (kind, name) in &touched.added {
            if *kind == Added::Listener
                && let Some(key) = self.generator.listener_of(name)
            {
                dirty.listeners.insert(key);
                continue;
            }
            let map = match kind {
                Added::Listener => &mut self.resources.listeners,
                Added::Cluster => &mut self.resources.clusters,
                Added::Extension => &mut self.resources.extensions,
            };
            set(map, name, self.generator.added(*kind, name));
        }
    }

    pub(super) fn listeners(&mut self, dirty: &BTreeSet<ListenKey>) {
        for key in dirty {
            let (name, listener) = self.generator.listener(key, &self.resources.secrets);
            set(&mut self.resources.listeners, &name, listener);
        }
    }
}

/// Sets or removes one resource. An equal one stays, so that the map is the same one when nothing changed.
fn set(map: &mut ResourceMap, name: &str, resource: Option<Arc<Resource>>) {
    match resource {
        Some(resource) if map.get(name) != Some(&resource) => {
            map.insert(name.into(), resource);
        }
        Some(_) => {}
        None => {
            if map.contains_key(name) {
                map.remove(name);
            }
        }
    }
}
