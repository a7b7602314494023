//! Patches of a route configuration and all that is in it.

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;

use super::fields::Fields;
use super::virtual_hosts::{self, VirtualHost};
use super::{Problems, keep_name, only, types};
use crate::model::change::NamespacedName;
use crate::model::envoy_filter::{ApplyTo, Operation, Patch, RouteConfigurationMatch, Target};
use crate::translate::issue::Generated;

const NAME: u32 = 1;
const VIRTUAL_HOSTS: u32 = 2;

/// What the routes of a configuration are for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteSite {
    /// Port that is listened on.
    pub port: u16,
    /// Each host has routes of its own.
    pub scoped: bool,
    /// Names of the ports of the servers that lead to it.
    pub port_names: BTreeSet<String>,
    /// Gateways that lead to it.
    pub gateways: BTreeSet<NamespacedName>,
    /// Names that stand for it too: those of the configurations it would be part of without scoped routes.
    pub names: BTreeSet<String>,
}

impl RouteSite {
    fn meets(&self, name: &str, wanted: &RouteConfigurationMatch) -> bool {
        let gateway = |wanted: &str| {
            let found = self.gateways.iter();
            found.into_iter().any(|gateway| {
                let (namespace, name) = wanted.split_once('/').unwrap_or_default();
                (&*gateway.namespace, &*gateway.name) == (namespace, name)
            })
        };
        (wanted.port_number == 0 || wanted.port_number == u32::from(self.port))
            && (wanted.port_name.is_empty() || self.port_names.contains(&wanted.port_name))
            && (wanted.gateway.is_empty() || gateway(&wanted.gateway))
            && (wanted.name.is_empty() || wanted.name == name || self.names.contains(&wanted.name))
    }
}

/// The patched route configuration.
#[must_use]
pub fn routes(site: &RouteSite, configuration: Bytes, patches: &[&Patch]) -> Generated<Bytes> {
    let name = Fields::parse(&configuration).map(|fields| fields.text(NAME).to_owned());
    let name = name.unwrap_or_default();
    let mut problems = Problems::of(&name);
    let fit = |patch: &&&Patch| {
        let wanted = patch.routes();
        wanted.is_none_or(|wanted| site.meets(&name, wanted))
    };
    let patches: Vec<&Patch> = patches.iter().filter(fit).copied().collect();
    let mut resource = apply(site, &configuration, &patches, &mut problems);
    if changes_domains(&patches) && !domains_differ(&resource) {
        // Envoy would refuse all of it. Routes keep their patches: they may hold what protects them.
        for patch in patches.iter().filter(|patch| is_outside_routes(patch)) {
            problems.add(
                patch,
                "with this patch, or another one of this sort, two virtual hosts had the same domain",
            );
        }
        let routes = only(&patches, ApplyTo::HttpRoute);
        resource = apply(site, &configuration, &routes, &mut problems);
    }
    Generated {
        resource,
        issues: problems.issues,
    }
}

fn is_outside_routes(patch: &Patch) -> bool {
    patch.apply_to != ApplyTo::HttpRoute
}

fn changes_domains(patches: &[&Patch]) -> bool {
    patches.iter().any(|patch| is_outside_routes(patch))
}

fn domains_differ(configuration: &Bytes) -> bool {
    let Ok(fields) = Fields::parse(configuration) else {
        return false;
    };
    let mut seen = BTreeSet::new();
    let hosts = fields.list(VIRTUAL_HOSTS);
    let mut domains = hosts.iter().flat_map(virtual_hosts::domains);
    domains.all(|domain| seen.insert(domain))
}

fn apply(
    site: &RouteSite,
    configuration: &Bytes,
    patches: &[&Patch],
    problems: &mut Problems<'_>,
) -> Bytes {
    let mut configuration = configuration.clone();
    for patch in only(patches, ApplyTo::RouteConfiguration) {
        if holds_host(&configuration, patch)
            && let Some(merged) = problems.merge(types::ROUTES, &configuration, patch)
        {
            configuration = keep_name(merged, problems.resource);
        }
    }
    let Ok(mut fields) = Fields::parse(&configuration) else {
        return configuration;
    };
    let by_host = ByHost::of(patches);
    let before = fields.list(VIRTUAL_HOSTS);
    let mut hosts = Vec::with_capacity(before.len());
    for host in &before {
        let patches = by_host.patches(host);
        hosts.extend(virtual_hosts::patched(host, &patches, problems));
    }
    let added = only(patches, ApplyTo::VirtualHost);
    for patch in added.iter().filter(|p| p.operation == Operation::Add) {
        add_host(&mut hosts, patch, problems);
    }
    if site.scoped {
        hosts = virtual_hosts::marked(hosts, &before, &configuration);
    }
    if hosts == before {
        return configuration;
    }
    fields.set_list(VIRTUAL_HOSTS, hosts);
    fields.encode()
}

/// A condition on virtual hosts chooses configurations that have such a one.
fn holds_host(configuration: &Bytes, patch: &Patch) -> bool {
    let Some(wanted) = patch.routes().and_then(|routes| routes.vhost.as_ref()) else {
        return true;
    };
    let hosts = Fields::parse(configuration).map(|fields| fields.list(VIRTUAL_HOSTS));
    let hosts = hosts.unwrap_or_default();
    hosts
        .iter()
        .any(|host| VirtualHost::of(host).is_some_and(|host| host.meets(wanted)))
}

fn add_host(hosts: &mut Vec<Bytes>, patch: &Patch, problems: &mut Problems<'_>) {
    let taken: BTreeSet<String> = hosts.iter().flat_map(virtual_hosts::domains).collect();
    let mut domains = virtual_hosts::domains(&patch.value);
    match domains.find(|domain| taken.contains(domain)) {
        Some(domain) => problems.add(
            patch,
            format!("domain {domain:?} belongs to another virtual host"),
        ),
        None => hosts.push(patch.value.clone()),
    }
}

/// Patches that name a virtual host by its name or domain, so that with thousands of hosts each meets its own only.
struct ByHost<'a> {
    all: Vec<(usize, &'a Patch)>,
    named: HashMap<Target, Vec<(usize, &'a Patch)>>,
}

impl<'a> ByHost<'a> {
    fn of(patches: &[&'a Patch]) -> Self {
        let (mut all, mut named) = (Vec::new(), HashMap::<_, Vec<_>>::new());
        for (at, patch) in patches.iter().enumerate() {
            match patch.target() {
                target @ (Target::VirtualHost(_) | Target::Domain(_)) => {
                    named.entry(target).or_default().push((at, *patch));
                }
                _ => all.push((at, *patch)),
            }
        }
        Self { all, named }
    }

    /// Those that may concern a virtual host, in their order.
    fn patches(&self, host: &Bytes) -> Vec<&'a Patch> {
        let mut found = self.all.clone();
        if !self.named.is_empty()
            && let Ok(fields) = Fields::parse(host)
        {
            let name = Target::VirtualHost(fields.text(NAME).to_ascii_lowercase().into());
            let domains = virtual_hosts::domains(host);
            let domains = domains.map(|domain| Target::Domain(domain.into()));
            for target in [name].into_iter().chain(domains) {
                found.extend(self.named.get(&target).into_iter().flatten().copied());
            }
            found.sort_by_key(|(at, _)| *at);
        }
        found.into_iter().map(|(_, patch)| patch).collect()
    }
}
