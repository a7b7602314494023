//! The generated resources of one class of proxies, kept up to date by what changed.

mod generate;
mod servers;

use std::collections::BTreeSet;
use std::sync::Arc;

use xds_engine::types::{CLUSTER, ENDPOINT, EXTENSION, LISTENER, ROUTE, SCOPED_ROUTE, SECRET};
use xds_engine::{ResourceMap, Snapshot};

use crate::push::context::Impact;
pub use generate::PushOptions;

use crate::model::proxy::ProxyClass;
use crate::push::world::{Changed, World};
use crate::translate::{Issue, names};
use generate::Generator;
use servers::{Credential, Dirty, ListenKey, Servers};

/// Everything that the proxies of a class are sent at one moment.
#[derive(Clone, Debug)]
pub struct ClassSnapshot {
    class: ProxyClass,
    world: World,
    servers: Servers,
    resources: Resources,
}

/// Encoded resources by type and name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resources {
    /// CDS.
    pub clusters: ResourceMap,
    /// EDS.
    pub endpoints: ResourceMap,
    /// LDS.
    pub listeners: ResourceMap,
    /// SRDS.
    pub scopes: ResourceMap,
    /// RDS.
    pub routes: ResourceMap,
    /// SDS.
    pub secrets: ResourceMap,
    /// ECDS.
    pub extensions: ResourceMap,
}

/// How many resources were encoded, by type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// CDS.
    pub cds: u64,
    /// EDS.
    pub eds: u64,
    /// LDS.
    pub lds: u64,
    /// SRDS.
    pub srds: u64,
    /// RDS.
    pub rds: u64,
    /// SDS.
    pub sds: u64,
    /// ECDS.
    pub ecds: u64,
}

/// A snapshot and what it took to make it.
#[derive(Debug)]
pub struct Built {
    /// The snapshot.
    pub snapshot: ClassSnapshot,
    /// Resources that were encoded for it.
    pub generated: Counts,
    /// Mistakes found in what was generated.
    pub issues: Vec<Issue>,
}

impl Snapshot for ClassSnapshot {
    fn resources(&self, type_url: &str) -> Option<&ResourceMap> {
        let resources = &self.resources;
        match type_url {
            CLUSTER => Some(&resources.clusters),
            ENDPOINT => Some(&resources.endpoints),
            LISTENER => Some(&resources.listeners),
            SCOPED_ROUTE => Some(&resources.scopes),
            ROUTE => Some(&resources.routes),
            SECRET => Some(&resources.secrets),
            EXTENSION => Some(&resources.extensions),
            _ => None,
        }
    }
}

impl ClassSnapshot {
    /// Generates everything for a class.
    pub fn build(class: ProxyClass, world: &World, options: &PushOptions) -> Built {
        let empty = Self {
            class,
            world: World::default(),
            servers: Servers::default(),
            resources: Resources::default(),
        };
        empty.next(world, &Changed::everything(world), options)
    }

    /// The class.
    pub fn class(&self) -> &ProxyClass {
        &self.class
    }

    /// The facts that the resources were made from.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The resources.
    pub fn generated(&self) -> &Resources {
        &self.resources
    }

    /// Whether the other snapshot holds the same resources. Cost: constant.
    pub fn same_resources(&self, other: &Self) -> bool {
        let (a, b) = (&self.resources, &other.resources);
        a.clusters.ptr_eq(&b.clusters)
            && a.endpoints.ptr_eq(&b.endpoints)
            && a.listeners.ptr_eq(&b.listeners)
            && a.scopes.ptr_eq(&b.scopes)
            && a.routes.ptr_eq(&b.routes)
            && a.secrets.ptr_eq(&b.secrets)
            && a.extensions.ptr_eq(&b.extensions)
    }

    /// The snapshot for a newer world. Cost: proportional to what changed.
    pub fn next(&self, world: &World, changed: &Changed, options: &PushOptions) -> Built {
        let mut servers = self.servers.clone();
        let mut dirty = Dirty::default();
        if let Some(impact) = &changed.context {
            for (old, new) in &impact.gateways {
                servers.replace(&self.class, old.as_ref(), new.as_ref(), &mut dirty);
            }
        }
        let mut update = Update {
            before: self,
            generator: Generator::new(&self.class, world, &servers, options),
            resources: self.resources.clone(),
        };
        if let Some(impact) = &changed.context {
            update.services(impact);
            update.hosts(impact);
        }
        update.endpoints(changed);
        update.secrets(changed, &mut dirty);
        update.listeners(&dirty.listeners);
        let Update {
            generator,
            resources,
            ..
        } = update;
        let (generated, issues) = generator.finish();
        let snapshot = Self {
            class: self.class.clone(),
            world: world.clone(),
            servers,
            resources,
        };
        Built {
            snapshot,
            generated,
            issues,
        }
    }
}

/// One step from a snapshot to the next.
struct Update<'a> {
    before: &'a ClassSnapshot,
    generator: Generator<'a>,
    resources: Resources,
}

impl Update<'_> {
    /// Clusters, and the endpoints of new ones.
    fn services(&mut self, impact: &Impact) {
        for hostname in &impact.services {
            let old = self.before.world.context.services.get(hostname);
            for port in old.map(|old| old.ports.as_slice()).unwrap_or_default() {
                let name = names::cluster_name(port.number, "", hostname);
                if self.generator.port(hostname, port.number).is_none() {
                    self.resources.clusters.remove(name.as_str());
                    self.resources.endpoints.remove(name.as_str());
                }
            }
            for port in self.generator.ports(hostname) {
                let name = names::cluster_name(port, "", hostname);
                let cluster = self.generator.cluster(hostname, port);
                set(&mut self.resources.clusters, &name, cluster);
                let endpoints = self.generator.endpoints(hostname, port);
                set(&mut self.resources.endpoints, &name, endpoints);
            }
        }
    }

    fn endpoints(&mut self, changed: &Changed) {
        for hostname in &changed.endpoints {
            for port in self.generator.ports(hostname) {
                let name = names::cluster_name(port, "", hostname);
                let endpoints = self.generator.endpoints(hostname, port);
                set(&mut self.resources.endpoints, &name, endpoints);
            }
        }
    }

    /// Scopes and routes of hosts; where a wildcard host came or went, the scope filter too.
    fn hosts(&mut self, impact: &Impact) {
        let ports = self.generator.ports_listened();
        let gone = self.before.servers.ports();
        let gone: Vec<u16> = gone.difference(&ports).copied().collect();
        if !self.generator.scoped() {
            self.plain_routes(impact, &ports);
            return;
        }
        let hosts = self.generator.affected_hosts(&impact.hosts);
        let mut filters: BTreeSet<u16> = BTreeSet::new();
        for &port in ports.iter().chain(&gone) {
            let new_port = !self.before.servers.ports().contains(&port);
            if new_port || gone.contains(&port) {
                filters.insert(port);
            }
            for host in &hosts {
                let scope = names::scope_name(port, host);
                let routes = self.generator.host_routes(port, host);
                let served = routes.is_some();
                let had = self.resources.scopes.contains_key(scope.as_str());
                set(
                    &mut self.resources.routes,
                    &names::route_name(port, host),
                    routes,
                );
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

    /// Without scoped routes a route configuration holds all hosts of its server, so any of them changes it whole.
    fn plain_routes(&mut self, impact: &Impact, _ports: &BTreeSet<u16>) {
        if impact.hosts.is_empty() && impact.gateways.is_empty() {
            return;
        }
        let mut routes = ResourceMap::new();
        for (name, resource) in self.generator.plain_routes() {
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

    /// Secrets, and the listeners whose servers can be served since, or can't any more.
    fn secrets(&mut self, changed: &Changed, dirty: &mut Dirty) {
        let changed = changed.secrets.iter();
        let credentials: Vec<Credential> = changed
            .flat_map(|secret| self.generator.credentials_of(secret))
            .collect();
        dirty.credentials.extend(credentials);
        let mut flipped: BTreeSet<Arc<str>> = BTreeSet::new();
        for credential in &dirty.credentials {
            let resource = self.generator.secret(credential);
            let had = self.resources.secrets.contains_key(&*credential.name);
            if had != resource.is_some() {
                flipped.insert(credential.name.clone());
            }
            set(&mut self.resources.secrets, &credential.name, resource);
        }
        if !flipped.is_empty() {
            dirty
                .listeners
                .extend(self.generator.listeners_with(&flipped));
        }
    }

    fn listeners(&mut self, dirty: &BTreeSet<ListenKey>) {
        for key in dirty {
            let (name, listener) = self.generator.listener(key, &self.resources.secrets);
            set(&mut self.resources.listeners, &name, listener);
        }
    }
}

/// Sets or removes one resource. An equal one stays, so that the map is the same one when nothing changed.
fn set(map: &mut ResourceMap, name: &str, resource: Option<Arc<xds_engine::Resource>>) {
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
