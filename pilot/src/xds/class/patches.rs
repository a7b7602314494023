//! What EnvoyFilters do to the resources of a class, and which of these a changed patch concerns.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use xds_engine::Resource;
use xds_engine::types::{CLUSTER, EXTENSION, LISTENER, ROUTE};

use super::generate::{Generator, Routes};
use super::listeners::route_name;
use super::lookup::{Lookup, Part};
use super::servers::ListenKey;
use crate::model::change::NamespacedName;
use crate::model::config::{GatewayFacts, Server};
use crate::model::envoy_filter::{Added, Patch, Target};
use crate::push::context::Impact;
use crate::push::envoy_filters::{PatchQuery, concerns};
use crate::translate::patch::{self, ClusterSite, ListenerSite, RouteSite};
use crate::translate::{names, rds};

/// What changed patches concern.
#[derive(Debug, Default)]
pub(super) struct Touched {
    /// All listeners.
    pub(super) listeners: bool,
    /// Resources that patches bring or brought.
    pub(super) added: BTreeSet<(Added, Arc<str>)>,
    targets: BTreeSet<Target>,
}

impl Touched {
    /// What the changed patches concern that are for a class.
    pub(super) fn of(lookup: Lookup<'_>, impact: Option<&Impact>) -> Self {
        let mut touched = Self::default();
        let changed = impact.into_iter().flat_map(|impact| &impact.patches);
        for patch in changed {
            if !concerns(patch, lookup.class, &lookup.options.root_namespace) {
                continue;
            }
            match patch.target() {
                Target::Listeners => touched.listeners = true,
                Target::Added(kind, name) => drop(touched.added.insert((kind, name))),
                target => drop(touched.targets.insert(target)),
            }
        }
        touched
    }

    /// The impact with the hosts and services of the patched resources.
    pub(super) fn widen<'a>(&self, impact: &'a Impact, lookup: Lookup<'_>) -> Cow<'a, Impact> {
        if self.targets.is_empty() {
            return Cow::Borrowed(impact);
        }
        let mut wider = impact.clone();
        let context = &lookup.world.context;
        let all_hosts = || context.hosts();
        for target in &self.targets {
            match target {
                Target::Routes => wider.hosts.extend(all_hosts()),
                Target::RouteConfiguration(name) => match names::parse_route_name(name) {
                    Some((_, host)) => drop(wider.hosts.insert(host.into())),
                    None => wider.hosts.extend(all_hosts()),
                },
                Target::VirtualHost(name) => {
                    let host = names::parse_virtual_host_name(name);
                    wider.hosts.extend(host.map(|(host, _)| host.into()));
                }
                Target::Domain(host) => drop(wider.hosts.insert(host.clone())),
                Target::Clusters => wider.services.extend(context.services.keys().cloned()),
                Target::Cluster(name) => {
                    let service = names::parse_cluster_name(name);
                    let service = service.map(|(_, _, host)| host.into());
                    wider.services.extend(service);
                }
                Target::Service(host) => drop(wider.services.insert(host.clone())),
                Target::Listeners | Target::Added(..) => {}
            }
        }
        Cow::Owned(wider)
    }
}

/// Where the routes of a configuration are served from.
pub(super) fn route_site<'a>(
    (port, scoped): (u16, bool),
    servers: impl Iterator<Item = (&'a NamespacedName, &'a GatewayFacts, &'a Server)>,
) -> RouteSite {
    let mut site = RouteSite {
        port,
        scoped,
        ..RouteSite::default()
    };
    for (name, gateway, server) in servers {
        site.port_names.insert(server.port_name.clone());
        site.gateways.insert(name.clone());
        site.names.insert(route_name(gateway, server));
    }
    site
}

impl<'a> Generator<'a> {
    fn patches(&self, targets: &[Target]) -> Vec<&'a Patch> {
        let found = self.world.context.patches(PatchQuery {
            class: self.class,
            root_namespace: &self.options.root_namespace,
            targets,
        });
        found.into_iter().map(|patch| &**patch).collect()
    }

    /// The route configuration of a host, or of several, with its patches.
    pub(super) fn patched_routes(
        &mut self,
        site: impl FnOnce(&Self) -> RouteSite,
        configuration: &rds::wire::RouteConfiguration,
    ) -> Routes {
        let fallbacks = rds::fallback_clusters(configuration);
        let resource = if self.world.context.has_patches() {
            self.patch_routes(site, configuration)
        } else {
            Resource::encode(ROUTE, configuration)
        };
        Routes {
            resource,
            fallbacks,
        }
    }

    fn patch_routes(
        &mut self,
        site: impl FnOnce(&Self) -> RouteSite,
        configuration: &rds::wire::RouteConfiguration,
    ) -> Arc<Resource> {
        let site = site(self);
        let mut targets = vec![Target::Routes];
        let aliases = site.names.iter().chain([&configuration.name]);
        targets.extend(aliases.map(|name| Target::RouteConfiguration(name.as_str().into())));
        for host in &configuration.virtual_hosts {
            targets.push(Target::VirtualHost(host.name.as_str().into()));
            let domains = host.domains.iter();
            targets.extend(domains.map(|domain| Target::Domain(domain.as_str().into())));
        }
        let patches = self.patches(&targets);
        if patches.is_empty() {
            return Resource::encode(ROUTE, configuration);
        }
        let bytes = Bytes::from(configuration.encode_to_vec());
        let patched = self.keep(patch::routes(&site, bytes, &patches));
        Resource::from_encoded(ROUTE, &patched)
    }

    /// A listener with its patches; `None` when they remove it.
    pub(super) fn patched_listener(
        &mut self,
        key: &ListenKey,
        name: &str,
        listener: &impl Message,
    ) -> Option<Arc<Resource>> {
        let patches = self.patches(&[Target::Listeners]);
        if patches.is_empty() {
            return Some(Resource::encode(LISTENER, listener));
        }
        let servers = self.servers.of(key);
        let site = ListenerSite {
            name: name.to_owned(),
            port: key.port,
            scoped: self.scoped(),
            port_names: servers.iter().map(|(_, s)| s.port_name.clone()).collect(),
        };
        let bytes = Bytes::from(listener.encode_to_vec());
        let patched = self.keep(patch::listener(&site, bytes, &patches))?;
        Some(Resource::from_encoded(LISTENER, &patched))
    }

    /// A cluster with its patches; `None` when they remove it.
    pub(super) fn patched_cluster(
        &mut self,
        (name, hostname): (&str, &str),
        part: &Part,
        cluster: &impl Message,
    ) -> Option<Arc<Resource>> {
        let targets = [
            Target::Clusters,
            Target::Cluster(name.into()),
            Target::Service(hostname.into()),
        ];
        let patches = self.patches(&targets);
        if patches.is_empty() {
            return Some(Resource::encode(CLUSTER, cluster));
        }
        let site = ClusterSite {
            name,
            hostname,
            port: part.port.number,
            subset: &part.subset,
        };
        let bytes = Bytes::from(cluster.encode_to_vec());
        let patched = self.keep(patch::cluster(site, bytes, &patches))?;
        Some(Resource::from_encoded(CLUSTER, &patched))
    }

    /// A resource that a patch brings: of several of one name, that of the first one.
    pub(super) fn added(&mut self, kind: Added, name: &str) -> Option<Arc<Resource>> {
        let patches = self.patches(&[Target::Added(kind, name.into())]);
        let patch = patches.first()?;
        let (type_url, count) = match kind {
            Added::Listener => (LISTENER, &mut self.counts.lds),
            Added::Cluster => (CLUSTER, &mut self.counts.cds),
            Added::Extension => (EXTENSION, &mut self.counts.ecds),
        };
        *count += 1;
        Some(Resource::from_encoded(type_url, &patch.value))
    }
}
