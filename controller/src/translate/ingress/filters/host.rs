//! The EnvoyFilter of a host.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use shared_proto::Config;
use shared_proto::networking::v1alpha3::envoy_filter::EnvoyConfigObjectPatch;
use shared_proto::networking::v1alpha3::envoy_filter::route_configuration_match::route_match::Action;

use super::{ClientLimit, Filter, RouteFilters, Shared, message, patch};
use crate::translate::ingress::annotations::{self, Settings};
use crate::translate::ingress::route::{Part, Route};
use crate::translate::ingress::{Context, Source};
use crate::translate::names;

/// More clients than this at a time are forgotten, the longest unseen first.
const CLIENTS: u32 = 10_000;
/// Key of metadata and of descriptors.
const LIMITED: &str = "isthmus.client-limit";
/// Their value for a request that counts.
const COUNTED: &str = "counted";
/// Key of descriptors: the client is none of those that are not counted.
const ADDRESS: &str = "address";

/// What a host needs beyond its VirtualService.
#[derive(Debug, Default)]
pub(in crate::translate::ingress) struct HostFilters {
    /// Its EnvoyFilter; absent when nothing is needed.
    pub(in crate::translate::ingress) config: Option<Config>,
    /// What it uses together with other hosts.
    pub(in crate::translate::ingress) shared: BTreeSet<Shared>,
    /// Sources of the EnvoyFilter.
    pub(in crate::translate::ingress) sources: Vec<Source>,
}

/// What a route needs: all that its Ingress does, or the part of it that holds for a page in place of an answer.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    all: &'a RouteFilters,
    page: bool,
}

impl Wanted<'_> {
    fn is(&self, other: &Self) -> bool {
        let same = std::ptr::eq(self.all, other.all) || self.all == other.all;
        same && self.page == other.page
    }

    fn filters(&self) -> RouteFilters {
        if self.page {
            self.all.of_page()
        } else {
            self.all.clone()
        }
    }
}

/// Says what the routes need, and tells routes apart that have one name and different needs.
pub(in crate::translate::ingress) fn translate(
    context: Context<'_>,
    routes: &mut [Route<'_>],
) -> HostFilters {
    // Canaries have the settings of their main route, whoever they belong to.
    let address = |settings: *const Settings| settings.addr();
    let members = context.members.iter();
    let members = members.map(|member| (address(&raw const member.settings), &member.filters));
    let of_settings: BTreeMap<usize, &RouteFilters> = members.collect();
    if of_settings
        .values()
        .all(|all| **all == RouteFilters::default())
    {
        return HostFilters::default();
    }
    let mut by_name: BTreeMap<String, Wanted<'_>> = BTreeMap::new();
    let mut sources = Vec::new();
    let mut taken: BTreeSet<String> = routes.iter().map(|r| r.http.name.clone()).collect();
    for route in routes.iter_mut() {
        let is_redirect = route.http.redirect.is_some();
        let Some(all) = of_settings.get(&address(route.settings)) else {
            continue;
        };
        if route.http.route.is_empty() && !is_redirect {
            continue;
        }
        let page = matches!(route.part, Part::Annotation(_)) && !is_redirect;
        let wanted = Wanted { all, page };
        let known = by_name.get(&route.http.name);
        if known.is_some_and(|known| !known.is(&wanted)) {
            route.http.name = distinct(&route.http.name, wanted, &by_name, &mut taken);
        }
        if **all != RouteFilters::default() {
            sources.extend(route.sources());
        }
        by_name.insert(route.http.name.clone(), wanted);
    }
    let named = by_name
        .iter()
        .map(|(name, wanted)| (&**name, wanted.filters()));
    let mut by_name: BTreeMap<&str, RouteFilters> = named.collect();
    by_name.retain(|_, needs| *needs != RouteFilters::default());
    if by_name.is_empty() {
        return HostFilters::default();
    }
    HostFilters {
        config: Some(config(context, &by_name)),
        shared: shared(&by_name),
        sources,
    }
}

/// A name for a route whose own is that of a route with other needs: patches find routes by name.
fn distinct(
    name: &str,
    wanted: Wanted<'_>,
    by_name: &BTreeMap<String, Wanted<'_>>,
    taken: &mut BTreeSet<String>,
) -> String {
    let mut number = 2usize;
    loop {
        let candidate = names::distinct_route(name, number);
        let known = by_name.get(&candidate);
        if known.is_some_and(|known| known.is(&wanted)) || taken.insert(candidate.clone()) {
            return candidate;
        }
        number += 1;
    }
}

fn shared(by_name: &BTreeMap<&str, RouteFilters>) -> BTreeSet<Shared> {
    let mut shared = BTreeSet::new();
    for needs in by_name.values() {
        let filters = needs.settings.keys().chain(needs.redirects.keys());
        shared.extend(filters.copied().map(Shared::Filter));
        shared.extend(needs.clusters.iter().cloned().map(Shared::Cluster));
        shared.extend(
            needs
                .limit
                .as_ref()
                .map(|_| Shared::Filter(Filter::ClientLimit)),
        );
    }
    shared
}

fn config(context: Context<'_>, by_name: &BTreeMap<&str, RouteFilters>) -> Config {
    let scope = context.scope;
    let mut patches = Vec::new();
    for port in [scope.gateway_http_port, scope.gateway_https_port] {
        let host = names::virtual_host(context.host, port);
        patches.extend(limits(&host, by_name));
        for (name, needs) in by_name {
            let mut add = |action, value: Map<String, Value>| {
                if !value.is_empty() {
                    patches.push(patch::route(&host, name, action, value.into()));
                }
            };
            add(Action::Route, values(needs));
            add(Action::Redirect, per_filter(&needs.redirects));
        }
    }
    let mut config = patch::config(scope, names::route_filters(context.host), 0, patches);
    let host = context.host.to_owned();
    config.meta.annotations = [(names::HOST_ANNOTATION.to_owned(), host)].into();
    config
}

/// The part of an Envoy route that the needs make.
fn values(needs: &RouteFilters) -> Map<String, Value> {
    let mut value = per_filter(&needs.settings);
    if let Some(seconds) = needs.idle_timeout {
        let timeout = json!({"idle_timeout": format!("{seconds}s")});
        value.insert("route".to_owned(), timeout);
    }
    let mut metadata: Map<String, Value> = Map::new();
    for (namespace, value) in &needs.metadata {
        metadata.insert((*namespace).to_owned(), value.clone());
    }
    if let Some(limit) = &needs.limit {
        metadata.insert(LIMITED.to_owned(), json!({ &limit.ingress: COUNTED }));
    }
    if !metadata.is_empty() {
        value.insert("metadata".to_owned(), json!({"filter_metadata": metadata}));
    }
    value
}

fn per_filter(settings: &BTreeMap<Filter, Value>) -> Map<String, Value> {
    let mut value = Map::new();
    if !settings.is_empty() {
        let all = settings
            .iter()
            .map(|(filter, value)| (filter.name().to_owned(), value.clone()));
        value.insert(
            "typed_per_filter_config".to_owned(),
            all.collect::<Map<_, _>>().into(),
        );
    }
    value
}

/// The counts of all Ingresses of the host. Which of them count a request is said by metadata of its route.
fn limits(host: &str, by_name: &BTreeMap<&str, RouteFilters>) -> Option<EnvoyConfigObjectPatch> {
    let limits: BTreeMap<&str, &ClientLimit> = by_name
        .values()
        .filter_map(|needs| needs.limit.as_ref())
        .map(|limit| (&*limit.ingress, limit))
        .collect();
    if limits.is_empty() {
        return None;
    }
    let (mut descriptors, mut actions) = (Vec::new(), Vec::new());
    for limit in limits.values() {
        for (interval, requests, burst) in &limit.buckets {
            let key = format!("{} {interval}s", limit.ingress);
            let mut entries = vec![json!({"key": key, "value": COUNTED})];
            entries.extend(
                (!limit.except.is_empty()).then(|| json!({"key": ADDRESS, "value": COUNTED})),
            );
            entries.push(json!({"key": "remote_address"}));
            descriptors.push(json!({
                "entries": entries,
                "token_bucket": {"max_tokens": burst, "tokens_per_fill": requests, "fill_interval": format!("{interval}s")},
            }));
            actions.push(json!({"actions": counted(limit, &key)}));
        }
    }
    let always = json!({"default_value": {"numerator": 100, "denominator": "HUNDRED"}});
    let unbounded = u32::MAX;
    let settings = message(
        "envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit",
        json!({
            "stat_prefix": "client_limit",
            "status": {"code": 503},
            "filter_enabled": always,
            "filter_enforced": always,
            "token_bucket": {"max_tokens": unbounded, "tokens_per_fill": unbounded, "fill_interval": "1s"},
            "always_consume_default_token_bucket": false,
            "max_dynamic_descriptors": CLIENTS,
            "descriptors": descriptors,
            "rate_limits": actions,
        }),
    );
    let value = json!({"typed_per_filter_config": {Filter::ClientLimit.name(): settings}});
    Some(patch::virtual_host(host, value))
}

/// What a request is counted under; nothing of it counts a request that one of them does not hold for.
fn counted(limit: &ClientLimit, key: &str) -> Vec<Value> {
    let route = json!({"metadata": {
        "descriptor_key": key,
        "metadata_key": {"key": LIMITED, "path": [{"key": limit.ingress}]},
        "source": "ROUTE_ENTRY",
    }});
    let mut actions = vec![route];
    if !limit.except.is_empty() {
        actions.push(json!({"remote_address_match": {
            "descriptor_key": ADDRESS,
            "descriptor_value": COUNTED,
            "address_matcher": {"ranges": annotations::cidr_ranges(&limit.except), "invert_match": true},
        }}));
    }
    actions.push(json!({"remote_address": {}}));
    actions
}
