//! Patches of the HTTP filters of a connection manager.

use std::ops::Range;

use bytes::Bytes;
use shared_proto::envoy;

use super::chain::merge_filter;
use super::fields::Fields;
use super::list::{self, Edit};
use super::switched;
use super::{Problems, is_merge, types};
use crate::model::envoy_filter::{Operation, Patch};
use crate::translate::lds::{ON_DEMAND, ROUTER};
use crate::translate::names;

/// Name of the connection manager.
pub(super) const MANAGER: &str = "envoy.filters.network.http_connection_manager";

const MANAGER_TYPE: &str =
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";

/// `typed_config` of a network filter.
const TYPED_CONFIG: u32 = 4;
const TYPE_URL: u32 = 1;
const VALUE: u32 = 2;
/// `http_filters` of the connection manager.
const HTTP_FILTERS: u32 = 5;
const NAME: u32 = 1;

/// Patches the filters in a network filter, if that is a connection manager.
pub(super) fn patch(
    filter: &mut Bytes,
    patches: &[&Patch],
    scoped: bool,
    problems: &mut Problems<'_>,
) {
    if let Some(patched) = patched(filter, patches, scoped, problems) {
        *filter = patched;
    }
}

fn patched(
    filter: &Bytes,
    patches: &[&Patch],
    scoped: bool,
    problems: &mut Problems<'_>,
) -> Option<Bytes> {
    let mut filter = Fields::parse(filter).ok()?;
    let mut any = Fields::parse(&filter.message(TYPED_CONFIG)?).ok()?;
    if envoy::type_name(any.text(TYPE_URL)) != MANAGER_TYPE {
        return None;
    }
    let mut manager = Fields::parse(&any.message(VALUE)?).ok()?;
    let before = manager.list(HTTP_FILTERS);
    let mut filters = filters(&before, patches, scoped, problems);
    if scoped {
        for filter in &mut filters {
            *filter = switched::filter(filter, &before);
        }
    }
    if filters == before {
        return None;
    }
    manager.set_list(HTTP_FILTERS, filters);
    any.set_list(VALUE, vec![manager.encode()]);
    filter.set_list(TYPED_CONFIG, vec![any.encode()]);
    Some(filter.encode())
}

fn filters(
    before: &[Bytes],
    patches: &[&Patch],
    scoped: bool,
    problems: &mut Problems<'_>,
) -> Vec<Bytes> {
    let mut filters = before.to_vec();
    let (merges, edits): (Vec<&Patch>, Vec<&Patch>) =
        patches.iter().partition(|patch| is_merge(patch));
    for patch in edits {
        if patch.operation == Operation::Remove && wanted(patch).is_some_and(is_router) {
            problems.add(
                patch,
                "Envoy takes no HTTP filters without the router; merge into it instead",
            );
            continue;
        }
        if scoped && switched::is_stuck(&patch.value) {
            problems.add(
                patch,
                "with config_discovery and disabled, requests to wildcard hosts would pass the filter by \
                 whatever their routes say; give its settings as typed_config",
            );
            continue;
        }
        let named = |filter: &Bytes| is_wanted(patch, filter);
        let wanted = list::place(patch, wanted(patch));
        let edit = Edit {
            operation: patch.operation,
            named: wanted.map(|_| &named as &dyn Fn(&Bytes) -> bool),
            value: &patch.value,
            room: room(&filters),
        };
        list::apply(&mut filters, &edit);
    }
    for filter in &mut filters {
        for patch in &merges {
            if is_wanted(patch, filter) {
                let named = wanted(patch).is_some();
                merge_filter((types::HTTP_FILTER, named), filter, patch, problems);
            }
        }
    }
    filters
}

/// Where filters may be put in: behind those that choose the routes, since a filter before them knew no route; before the
/// router, which has to be the last one.
fn room(filters: &[Bytes]) -> Range<usize> {
    let chooses = |name: &str| name == ON_DEMAND || names::parse_scope_filter_name(name).is_some();
    let start = filters
        .iter()
        .take_while(|f| list::has_name(f, NAME, chooses));
    let start = start.count();
    let routes = filters
        .last()
        .is_some_and(|f| list::has_name(f, NAME, is_router));
    start..start.max(filters.len() - usize::from(routes))
}

fn is_router(name: &str) -> bool {
    list::is_filter(name, ROUTER)
}

/// Name of the HTTP filter that a patch asks for.
fn wanted(patch: &Patch) -> Option<&str> {
    let filter = patch.listener()?.filter_chain.as_ref()?.filter.as_ref()?;
    let inner = filter.sub_filter.as_ref()?;
    Some(inner.name.as_str()).filter(|name| !name.is_empty())
}

fn is_wanted(patch: &Patch, filter: &Bytes) -> bool {
    wanted(patch)
        .is_none_or(|wanted| list::has_name(filter, NAME, |name| list::is_filter(wanted, name)))
}
