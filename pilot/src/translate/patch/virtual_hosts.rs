//! Patches of a virtual host and of its routes.

use std::collections::{BTreeSet, HashSet};

use bytes::Bytes;
use shared_proto::envoy;
use shared_proto::networking::v1alpha3::envoy_filter::route_configuration_match as shape;

use super::fields::Fields;
use super::list::{self, Edit};
use super::switched::{self, switched_on};
use super::{Problems, is_merge, only, types};
use crate::model::envoy_filter::{ApplyTo, Operation, Patch};

use shape::route_match::Action;

const NAME: u32 = 1;
const DOMAINS: u32 = 2;
const ROUTES: u32 = 3;

/// `name` of a route.
const ROUTE_NAME: u32 = 14;
/// `route` of a route: it goes to a cluster.
const TO_CLUSTER: u32 = 2;
const REDIRECT: u32 = 3;
const DIRECT_RESPONSE: u32 = 7;

/// A virtual host as conditions see it.
pub(super) struct VirtualHost(Fields);

impl VirtualHost {
    pub(super) fn of(host: &Bytes) -> Option<Self> {
        Fields::parse(host).ok().map(Self)
    }

    pub(super) fn meets(&self, wanted: &shape::VirtualHostMatch) -> bool {
        let domain = &wanted.domain_name;
        (wanted.name.is_empty() || wanted.name.eq_ignore_ascii_case(self.0.text(NAME)))
            && (domain.is_empty()
                || self
                    .0
                    .list(DOMAINS)
                    .iter()
                    .any(|own| own.eq_ignore_ascii_case(domain.as_bytes())))
    }
}

/// Domains in lower case.
pub(super) fn domains(host: &Bytes) -> impl Iterator<Item = String> + use<> {
    let domains = Fields::parse(host).map(|fields| fields.list(DOMAINS));
    let text = |domain: Bytes| String::from_utf8_lossy(&domain).to_ascii_lowercase();
    domains.unwrap_or_default().into_iter().map(text)
}

/// The virtual host with its patches; `None` when one of them removes it.
pub(super) fn patched(
    host: &Bytes,
    patches: &[&Patch],
    problems: &mut Problems<'_>,
) -> Option<Bytes> {
    let Some(known) = VirtualHost::of(host).filter(|_| !patches.is_empty()) else {
        return Some(host.clone());
    };
    let fits = |patch: &&&Patch| {
        let wanted = patch.routes().and_then(|routes| routes.vhost.as_ref());
        wanted.is_none_or(|wanted| known.meets(wanted))
    };
    let patches: Vec<&Patch> = patches.iter().filter(fits).copied().collect();
    let mut host = host.clone();
    for patch in only(&patches, ApplyTo::VirtualHost) {
        match patch.operation {
            Operation::Remove => return None,
            Operation::Replace => host = patch.value.clone(),
            _ if is_merge(patch) => {
                host = problems
                    .merge(types::VIRTUAL_HOST, &host, patch)
                    .unwrap_or(host);
            }
            _ => {}
        }
    }
    let of_routes = only(&patches, ApplyTo::HttpRoute);
    if of_routes.is_empty() {
        return Some(host);
    }
    let Ok(mut fields) = Fields::parse(&host) else {
        return Some(host);
    };
    let before = fields.list(ROUTES);
    let routes = routes(&before, &of_routes, problems);
    if routes != before {
        fields.set_list(ROUTES, routes);
        host = fields.encode();
    }
    Some(host)
}

/// The virtual hosts of a configuration with the filters that patches switch on in the metadata of their routes. Routes as
/// they were `before` patches switch none on.
pub(super) fn marked(hosts: Vec<Bytes>, before: &[Bytes], configuration: &Bytes) -> Vec<Bytes> {
    let everywhere = switched_on(configuration, switched::OF_ROUTES, &BTreeSet::new());
    let routes = |host: &Bytes| Fields::parse(host).map(|fields| fields.list(ROUTES));
    let known: HashSet<Bytes> = before.iter().flat_map(routes).flatten().collect();
    let mark = |host: Bytes| {
        let on = switched_on(&host, switched::OF_VIRTUAL_HOST, &everywhere);
        let Ok(mut fields) = Fields::parse(&host) else {
            return host;
        };
        let before = fields.list(ROUTES);
        let mark = |route: &Bytes| {
            if on.is_empty() && known.contains(route) {
                return route.clone();
            }
            let on = switched_on(route, switched::OF_ROUTE, &on);
            switched::with_metadata(route.clone(), &on)
        };
        let routes: Vec<Bytes> = before.iter().map(mark).collect();
        if routes == before {
            return host;
        }
        fields.set_list(ROUTES, routes);
        fields.encode()
    };
    hosts.into_iter().map(mark).collect()
}

/// Merges and removals first, so that what is put in is not patched again.
fn routes(before: &[Bytes], patches: &[&Patch], problems: &mut Problems<'_>) -> Vec<Bytes> {
    let mut routes = Vec::with_capacity(before.len());
    for route in before {
        routes.extend(route_patched(route, patches, problems));
    }
    for patch in patches {
        if is_merge(patch) || patch.operation == Operation::Remove {
            continue;
        }
        let wanted = wanted(patch);
        let named = |route: &Bytes| wanted.is_some_and(|wanted| meets(route, wanted));
        let room = 0..routes.len();
        let edit = Edit {
            operation: patch.operation,
            named: wanted.is_some().then_some(&named),
            value: &patch.value,
            room,
        };
        list::apply(&mut routes, &edit);
    }
    routes
}

fn route_patched(route: &Bytes, patches: &[&Patch], problems: &mut Problems<'_>) -> Option<Bytes> {
    let mut patched = route.clone();
    for patch in patches {
        if wanted(patch).is_some_and(|wanted| !meets(route, wanted)) {
            continue;
        }
        if patch.operation == Operation::Remove {
            return None;
        }
        if is_merge(patch)
            && let Some(merged) = problems.merge(types::ROUTE, &patched, patch)
            && is_complete(&merged)
        {
            patched = merged;
        }
    }
    Some(patched)
}

/// Conditions of a patch on routes, if it has any.
fn wanted(patch: &Patch) -> Option<&shape::RouteMatch> {
    let wanted = patch.routes()?.vhost.as_ref()?.route.as_ref()?;
    (!wanted.name.is_empty() || wanted.action() != Action::Any).then_some(wanted)
}

fn meets(route: &Bytes, wanted: &shape::RouteMatch) -> bool {
    let Ok(route) = Fields::parse(route) else {
        return false;
    };
    let action = match wanted.action() {
        Action::Any => true,
        Action::Route => route.contains(TO_CLUSTER),
        Action::Redirect => route.contains(REDIRECT),
        Action::DirectResponse => route.contains(DIRECT_RESPONSE),
    };
    action && (wanted.name.is_empty() || wanted.name == route.text(ROUTE_NAME))
}

/// A route that goes to no cluster is refused by Envoy with all others. It comes from settings of routes to clusters, such
/// as a timeout, that are merged into all routes: those that redirect or answer by themselves have no use for them.
fn is_complete(route: &Bytes) -> bool {
    let Ok(route) = Fields::parse(route) else {
        return false;
    };
    let Some(action) = route.message(TO_CLUSTER) else {
        return true;
    };
    let message = envoy::descriptor("envoy.config.route.v3.RouteAction");
    let oneofs = message.iter().flat_map(|message| message.oneofs());
    let specifier = oneofs.filter(|one| one.name() == "cluster_specifier");
    let fields: Vec<u32> = specifier
        .flat_map(|one| one.fields().map(|f| f.number()).collect::<Vec<_>>())
        .collect();
    Fields::parse(&action).is_ok_and(|action| fields.iter().any(|field| action.contains(*field)))
}
