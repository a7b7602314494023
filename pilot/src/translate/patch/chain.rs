//! Patches of filter chains and of their network filters.

use std::collections::HashMap;

use bytes::Bytes;
use envoy_types::pb::envoy::config::listener::v3::FilterChainMatch;
use prost::Message;
use shared_proto::networking::v1alpha3::envoy_filter::listener_match as shape;

use super::fields::Fields;
use super::list::{self, Edit};
use super::{Problems, http_filters, is_merge, only, types};
use crate::model::envoy_filter::{ApplyTo, Operation, Patch};

const CHAIN_MATCH: u32 = 1;
const FILTERS: u32 = 3;
const CHAIN_NAME: u32 = 7;
const FILTER_NAME: u32 = 1;
const TYPED_CONFIG: u32 = 4;
/// `type_url` of an `Any`.
const TYPE_URL: u32 = 1;

/// Filters that have to be the last ones.
const TERMINAL: [&str; 2] = [http_filters::MANAGER, "envoy.filters.network.tcp_proxy"];

/// The filter chains with their patches.
pub(super) fn chains(
    before: &[Bytes],
    patches: &[&Patch],
    scoped: bool,
    problems: &mut Problems<'_>,
) -> Vec<Bytes> {
    let of_chains = only(patches, ApplyTo::FilterChain);
    let of_filters: Vec<&Patch> = patches.iter().copied().filter(is_for_filters).collect();
    let mut known = Known {
        scoped,
        filters: HashMap::new(),
    };
    let mut chains = Vec::with_capacity(before.len());
    for chain in before {
        let view = View::of(chain);
        let Some(chain) = chain_patched(chain, &view, &of_chains, problems) else {
            continue;
        };
        let fits = |patch: &&&Patch| meets(&view, patch);
        let of_filters: Vec<&Patch> = of_filters.iter().filter(fits).copied().collect();
        chains.push(known.filters_patched(chain, &of_filters, problems));
    }
    let adds = |patch: &&&Patch| patch.operation == Operation::Add;
    let added = of_chains.iter().filter(adds);
    chains.extend(added.map(|patch| patch.value.clone()));
    chains
}

fn is_for_filters(patch: &&Patch) -> bool {
    matches!(patch.apply_to, ApplyTo::NetworkFilter | ApplyTo::HttpFilter)
}

fn meets(view: &View, patch: &Patch) -> bool {
    let wanted = patch.listener().and_then(|l| l.filter_chain.as_ref());
    wanted.is_none_or(|wanted| view.meets(wanted))
}

/// A filter chain as conditions see it.
struct View {
    name: String,
    condition: FilterChainMatch,
}

impl View {
    fn of(chain: &Bytes) -> Self {
        let fields = Fields::parse(chain).unwrap_or_default();
        let condition = fields.message(CHAIN_MATCH).unwrap_or_default();
        Self {
            name: fields.text(CHAIN_NAME).to_owned(),
            condition: FilterChainMatch::decode(condition).unwrap_or_default(),
        }
    }

    fn meets(&self, wanted: &shape::FilterChainMatch) -> bool {
        let own = &self.condition;
        let port = own.destination_port.as_ref().map_or(0, |port| port.value);
        let mut protocols = wanted.application_protocols.split(',').map(str::trim);
        (wanted.name.is_empty() || wanted.name == self.name)
            && (wanted.sni.is_empty() || own.server_names.contains(&wanted.sni))
            && (wanted.transport_protocol.is_empty()
                || wanted.transport_protocol == own.transport_protocol)
            && (wanted.destination_port == 0 || wanted.destination_port == port)
            && (wanted.application_protocols.is_empty()
                || protocols.all(|one| own.application_protocols.iter().any(|own| own == one)))
    }
}

fn chain_patched(
    chain: &Bytes,
    view: &View,
    patches: &[&Patch],
    problems: &mut Problems<'_>,
) -> Option<Bytes> {
    let mut chain = chain.clone();
    for patch in patches.iter().filter(|patch| meets(view, patch)) {
        if patch.operation == Operation::Remove {
            return None;
        }
        if is_merge(patch) {
            chain = problems
                .merge(types::FILTER_CHAIN, &chain, patch)
                .unwrap_or(chain);
        }
    }
    Some(chain)
}

/// Filters that were patched before: thousands of chains differ by their certificates only.
struct Known {
    scoped: bool,
    filters: HashMap<(Vec<Bytes>, Vec<usize>), Vec<Bytes>>,
}

impl Known {
    fn filters_patched(
        &mut self,
        chain: Bytes,
        patches: &[&Patch],
        problems: &mut Problems<'_>,
    ) -> Bytes {
        let Ok(mut fields) = Fields::parse(&chain) else {
            return chain;
        };
        if patches.is_empty() {
            return chain;
        }
        let before = fields.list(FILTERS);
        // A patch is one place in memory.
        let ids = patches
            .iter()
            .map(|patch| std::ptr::from_ref(*patch).addr());
        let key = (before, ids.collect());
        let after = match self.filters.get(&key) {
            Some(after) => after.clone(),
            None => {
                let after = filters_patched(&key.0, patches, self.scoped, problems);
                self.filters.entry(key.clone()).or_insert(after).clone()
            }
        };
        if after == key.0 {
            return chain;
        }
        fields.set_list(FILTERS, after);
        fields.encode()
    }
}

fn filters_patched(
    before: &[Bytes],
    patches: &[&Patch],
    scoped: bool,
    problems: &mut Problems<'_>,
) -> Vec<Bytes> {
    let mut filters = before.to_vec();
    let (merges, edits): (Vec<&Patch>, Vec<&Patch>) = only(patches, ApplyTo::NetworkFilter)
        .into_iter()
        .partition(|patch| is_merge(patch));
    for patch in edits {
        let named = |filter: &Bytes| is_wanted(patch, filter);
        let edit = Edit {
            operation: patch.operation,
            named: list::place(patch, wanted(patch)).map(|_| &named as &dyn Fn(&Bytes) -> bool),
            value: &patch.value,
            room: 0..before_terminal(&filters),
        };
        list::apply(&mut filters, &edit);
    }
    for filter in &mut filters {
        for patch in &merges {
            if is_wanted(patch, filter) {
                let named = wanted(patch).is_some();
                merge_filter((types::FILTER, named), filter, patch, problems);
            }
        }
    }
    let of_http = only(patches, ApplyTo::HttpFilter);
    for filter in &mut filters {
        let fits: Vec<&Patch> = of_http
            .iter()
            .filter(|patch| is_wanted(patch, filter))
            .copied()
            .collect();
        if !fits.is_empty() {
            http_filters::patch(filter, &fits, scoped, problems);
        }
    }
    filters
}

/// Merges into a filter. One whose settings come from elsewhere has none to merge with; one that the patch does not name
/// has other ones as a rule.
pub(super) fn merge_filter(
    (message, named): (&str, bool),
    filter: &mut Bytes,
    patch: &Patch,
    problems: &mut Problems<'_>,
) {
    let settings = |filter: &Bytes| {
        let settings = Fields::parse(filter).ok()?.message(TYPED_CONFIG)?;
        Some(Fields::parse(&settings).ok()?.text(TYPE_URL).to_owned())
    };
    if let Some(brought) = settings(&patch.value) {
        match settings(filter) {
            None => return,
            Some(own) if own != brought && !named => return,
            Some(_) => {}
        }
    }
    if let Some(merged) = problems.merge(message, filter, patch) {
        *filter = merged;
    }
}

/// Name of the network filter that a patch asks for.
fn wanted(patch: &Patch) -> Option<&str> {
    let filter = patch.listener()?.filter_chain.as_ref()?.filter.as_ref()?;
    Some(filter.name.as_str()).filter(|name| !name.is_empty())
}

fn is_wanted(patch: &Patch, filter: &Bytes) -> bool {
    wanted(patch).is_none_or(|wanted| {
        list::has_name(filter, FILTER_NAME, |name| list::is_filter(wanted, name))
    })
}

fn before_terminal(filters: &[Bytes]) -> usize {
    let is_terminal = |name: &str| TERMINAL.contains(&name);
    let terminal = filters.last();
    let terminal = terminal.is_some_and(|last| list::has_name(last, FILTER_NAME, is_terminal));
    filters.len() - usize::from(terminal)
}
