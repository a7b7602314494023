//! The generated resources of one class of proxies, kept up to date by what changed.

mod clusters;
mod generate;
mod listeners;
mod lookup;
mod passthrough;
mod patches;
mod references;
mod servers;
mod update;

use xds_engine::types::{CLUSTER, ENDPOINT, EXTENSION, LISTENER, ROUTE, SCOPED_ROUTE, SECRET};
use xds_engine::{ResourceMap, Snapshot};

use crate::model::proxy::ProxyClass;
use crate::push::world::{Changed, World};
use crate::translate::Issue;
use generate::Generator;
use lookup::Lookup;
use patches::Touched;
use servers::{Dirty, Servers};
use update::{Needs, Update};

pub use generate::PushOptions;
pub(super) use servers::asks_client_certificate;

/// Everything that the proxies of a class are sent at one moment.
#[derive(Clone, Debug)]
pub struct ClassSnapshot {
    class: ProxyClass,
    world: World,
    servers: Servers,
    needs: Needs,
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
            needs: Needs::default(),
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
        let lookup = Lookup {
            class: &self.class,
            world,
            options,
        };
        let touched = Touched::of(lookup, changed.context.as_ref());
        let mut servers = self.servers.clone();
        let mut dirty = Dirty::default();
        if let Some(impact) = &changed.context {
            for (old, new) in &impact.gateways {
                servers.replace(&self.class, old.as_ref(), new.as_ref(), &mut dirty);
            }
        }
        let gateways = changed.context.iter().flat_map(|i| &i.tls_gateways);
        for gateway in gateways.filter_map(|name| world.context.gateways.get(name)) {
            dirty.listeners.extend(servers::passing(gateway));
        }
        if touched.listeners {
            dirty.listeners.extend(servers.listeners().cloned());
        }
        let mut update = Update::new(self, Generator::new(&self.class, world, &servers, options));
        if let Some(impact) = &changed.context {
            let impact = touched.widen(impact, lookup);
            update.services(&impact);
            update.hosts(&impact);
        }
        update.endpoints(changed);
        update.secrets(changed, &mut dirty);
        update.fallbacks();
        update.added(&touched, &mut dirty);
        update.listeners(&dirty.listeners);
        let Update {
            generator,
            resources,
            needs,
            ..
        } = update;
        let (generated, issues) = generator.finish();
        let snapshot = Self {
            class: self.class.clone(),
            world: world.clone(),
            servers,
            needs,
            resources,
        };
        Built {
            snapshot,
            generated,
            issues,
        }
    }
}
