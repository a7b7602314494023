//! Patches of a listener and of its listener filters.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::chain;
use super::fields::Fields;
use super::list::{self, Edit};
use super::{Problems, is_merge, keep_name, only, types};
use crate::model::envoy_filter::{ApplyTo, ListenerMatch, Operation, Patch};
use crate::translate::issue::Generated;

const FILTER_CHAINS: u32 = 3;
const LISTENER_FILTERS: u32 = 9;
const FILTER_NAME: u32 = 1;

/// What a listener is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerSite {
    /// Its name.
    pub name: String,
    /// Port that it listens on.
    pub port: u16,
    /// Each host has routes of its own.
    pub scoped: bool,
    /// Names of the ports of its servers.
    pub port_names: BTreeSet<String>,
}

impl ListenerSite {
    fn meets(&self, wanted: &ListenerMatch) -> bool {
        (wanted.name.is_empty() || wanted.name == self.name)
            && (wanted.port_number == 0 || wanted.port_number == u32::from(self.port))
            && (wanted.port_name.is_empty() || self.port_names.contains(&wanted.port_name))
    }
}

/// The patched listener; `None` when a patch removes it, or its last filter chain.
#[must_use]
pub fn listener(
    site: &ListenerSite,
    listener: Bytes,
    patches: &[&Patch],
) -> Generated<Option<Bytes>> {
    let mut problems = Problems::of(&site.name);
    let fits = |patch: &&&Patch| patch.listener().is_none_or(|wanted| site.meets(wanted));
    let patches: Vec<&Patch> = patches.iter().filter(fits).copied().collect();
    let resource = apply(site, listener, &patches, &mut problems);
    Generated {
        resource,
        issues: problems.issues,
    }
}

fn apply(
    site: &ListenerSite,
    listener: Bytes,
    patches: &[&Patch],
    problems: &mut Problems<'_>,
) -> Option<Bytes> {
    let mut listener = listener;
    for patch in only(patches, ApplyTo::Listener) {
        if patch.operation == Operation::Remove {
            return None;
        }
        if is_merge(patch)
            && let Some(merged) = problems.merge(types::LISTENER, &listener, patch)
        {
            listener = keep_name(merged, problems.resource);
        }
    }
    let Ok(mut fields) = Fields::parse(&listener) else {
        return Some(listener);
    };
    let before = fields.list(LISTENER_FILTERS);
    let filters = listener_filters(&before, patches);
    if filters != before {
        fields.set_list(LISTENER_FILTERS, filters);
    }
    let before = fields.list(FILTER_CHAINS);
    let chains = chain::chains(&before, patches, site.scoped, problems);
    if chains.is_empty() {
        return None;
    }
    if chains != before {
        fields.set_list(FILTER_CHAINS, chains);
    }
    Some(fields.encode())
}

fn listener_filters(before: &[Bytes], patches: &[&Patch]) -> Vec<Bytes> {
    let mut filters = before.to_vec();
    for patch in only(patches, ApplyTo::ListenerFilter) {
        let wanted = patch.listener().map(|wanted| &wanted.listener_filter);
        let wanted = wanted.filter(|name| !name.is_empty());
        let wanted = list::place(patch, wanted.map(String::as_str));
        let named = |filter: &Bytes| {
            let wanted = wanted.unwrap_or_default();
            list::has_name(filter, FILTER_NAME, |name| list::is_filter(wanted, name))
        };
        let edit = Edit {
            operation: patch.operation,
            named: wanted.is_some().then_some(&named),
            value: &patch.value,
            room: 0..filters.len(),
        };
        list::apply(&mut filters, &edit);
    }
    filters
}
