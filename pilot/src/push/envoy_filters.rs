//! Patches of EnvoyFilters by where they are looked for, and which of them are for a class of proxies.

use std::collections::BTreeMap;
use std::sync::Arc;

use imbl::OrdMap;

use crate::model::envoy_filter::{Added, EnvoyFilterFacts, FilterOrder, Patch, Target};
use crate::model::proxy::ProxyClass;

/// For whom patches are looked up, and where.
#[derive(Clone, Copy, Debug)]
pub struct PatchQuery<'a> {
    /// The proxies.
    pub class: &'a ProxyClass,
    /// Namespace whose EnvoyFilters are for all.
    pub root_namespace: &'a str,
    /// All places where patches for the thing at hand may be.
    pub targets: &'a [Target],
}

type Key = (Target, Arc<str>, FilterOrder, usize);

/// An index; cloning shares it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct EnvoyFilters {
    patches: OrdMap<Key, Arc<Patch>>,
    /// Keys of node metadata that conditions depend on, with the number of patches that do.
    metadata: OrdMap<Arc<str>, usize>,
}

impl EnvoyFilters {
    pub(super) fn insert(&mut self, facts: &EnvoyFilterFacts) {
        for patch in &facts.patches {
            self.patches.insert(key(patch), patch.clone());
            for name in patch.proxies.keys() {
                *self.metadata.entry(name.into()).or_default() += 1;
            }
        }
    }

    pub(super) fn remove(&mut self, facts: &EnvoyFilterFacts) {
        for patch in &facts.patches {
            self.patches.remove(&key(patch));
            for name in patch.proxies.keys() {
                match self.metadata.get_mut(name) {
                    Some(count) if *count > 1 => *count -= 1,
                    _ => drop(self.metadata.remove(name)),
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.patches.is_empty()
    }

    /// Node metadata that tells proxies apart.
    pub(super) fn metadata_keys(&self) -> impl Iterator<Item = &Arc<str>> {
        self.metadata.keys()
    }

    /// Patches for a class, in the order in which they are applied: those of the root namespace first.
    pub(super) fn lookup(&self, query: PatchQuery<'_>) -> Vec<&Arc<Patch>> {
        if self.patches.is_empty() {
            return Vec::new();
        }
        let own = &*query.class.namespace;
        let root = Some(query.root_namespace).filter(|root| *root != own);
        let mut found = Vec::new();
        for namespace in root.into_iter().chain([own]) {
            let mut ordered = BTreeMap::new();
            for target in query.targets {
                for ((_, _, order, at), patch) in self.at(target, namespace) {
                    if is_for(patch, query.class) {
                        ordered.insert((order, at), patch);
                    }
                }
            }
            found.extend(ordered.into_values());
        }
        found
    }

    fn at(&self, target: &Target, namespace: &str) -> impl Iterator<Item = (&Key, &Arc<Patch>)> {
        let none = || Arc::<str>::from("");
        let order = (i32::MIN, (i64::MIN, none(), none()));
        let first: Key = (target.clone(), namespace.into(), order, 0);
        let (target, namespace) = (first.0.clone(), first.1.clone());
        self.patches
            .range(first..)
            .take_while(move |((other, of, ..), _)| (other, of) == (&target, &namespace))
    }

    /// Patches that bring a resource of their own.
    pub(super) fn added(&self) -> impl Iterator<Item = &Arc<Patch>> {
        // The lowest of them; they are the last targets in the order.
        let first = Target::Added(Added::Listener, "".into());
        let order = (i32::MIN, (i64::MIN, Arc::from(""), Arc::from("")));
        let range = self.patches.range((first, Arc::from(""), order, 0)..);
        range.map(|(_, patch)| patch)
    }
}

fn key(patch: &Patch) -> Key {
    let Patch { owner, at, .. } = patch;
    (
        patch.target(),
        owner.name.namespace.clone(),
        owner.order.clone(),
        *at,
    )
}

fn is_for(patch: &Patch, class: &ProxyClass) -> bool {
    class.selected_by(&patch.owner.selector) && patch.proxies.holds(&class.metadata)
}

/// Whether a patch, wherever it is looked for, can concern a class.
pub fn concerns(patch: &Patch, class: &ProxyClass, root_namespace: &str) -> bool {
    let namespace = &*patch.owner.name.namespace;
    (namespace == root_namespace || namespace == &*class.namespace) && is_for(patch, class)
}

/// Patches that are others than before, old and new ones. What both versions begin and end with stays in its order, so
/// that only what is between was touched.
pub(super) fn touched(
    old: Option<&EnvoyFilterFacts>,
    new: Option<&EnvoyFilterFacts>,
) -> Vec<Arc<Patch>> {
    let patches = |facts: Option<&EnvoyFilterFacts>| {
        facts.map_or_else(Vec::new, |facts| facts.patches.clone())
    };
    let (mut old, mut new) = (patches(old), patches(new));
    let equal = |pair: &(&Arc<Patch>, &Arc<Patch>)| pair.0.same(pair.1);
    let same = old.iter().zip(&new).take_while(equal).count();
    old.drain(..same);
    new.drain(..same);
    let reversed = old.iter().rev().zip(new.iter().rev());
    let same = reversed.take_while(equal).count();
    old.truncate(old.len() - same);
    new.truncate(new.len() - same);
    old.append(&mut new);
    old
}
