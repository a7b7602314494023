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

#[cfg(test)]
mod tests {
    use shared_proto::networking::v1alpha3::EnvoyFilter;

    use super::*;
    use crate::model::change::NamespacedName;

    fn facts(namespace: &str, name: &str, created: i64, yaml: &str) -> EnvoyFilterFacts {
        let filter: EnvoyFilter = serde_yaml::from_str(yaml).unwrap();
        let precedence = (created, name.into(), namespace.into());
        EnvoyFilterFacts::of(&filter, NamespacedName::new(namespace, name), precedence)
    }

    fn remove(target: &str) -> String {
        format!(
            "{{applyTo: CLUSTER, match: {{cluster: {{name: {target}}}}}, patch: {{operation: REMOVE}}}}"
        )
    }

    #[test]
    fn root_first_then_priority_age_and_place() {
        let mut index = EnvoyFilters::default();
        let any = "{applyTo: CLUSTER, patch: {operation: REMOVE}}";
        let two = format!("{}, {any}", remove("c"));
        for (namespace, name, created, priority, patches) in [
            ("own", "young", 2, 0, two.as_str()),
            ("own", "old", 1, 0, any),
            ("own", "urgent", 3, -1, any),
            ("root", "late", 9, 9, any),
            ("other", "foreign", 0, 0, any),
        ] {
            let yaml = format!("{{priority: {priority}, configPatches: [{patches}]}}");
            index.insert(&facts(namespace, name, created, &yaml));
        }
        let class = ProxyClass {
            namespace: "own".into(),
            labels: BTreeMap::new(),
            secrets: false,
            metadata: BTreeMap::new(),
        };
        let found = index.lookup(PatchQuery {
            class: &class,
            root_namespace: "root",
            targets: &[Target::Clusters, Target::Cluster("c".into())],
        });
        let found: Vec<(&str, usize)> = found
            .iter()
            .map(|patch| (&*patch.owner.name.name, patch.at))
            .collect();
        let expected = [
            ("late", 0),
            ("urgent", 0),
            ("old", 0),
            ("young", 0),
            ("young", 1),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn only_what_differs_was_touched() {
        let version = |patches: &[&str]| {
            let patches: Vec<String> = patches.iter().map(|patch| remove(patch)).collect();
            facts(
                "n",
                "f",
                0,
                &format!("{{configPatches: [{}]}}", patches.join(", ")),
            )
        };
        let old = version(&["a", "b", "c"]);
        for (new, expected) in [
            (version(&["a", "b", "c"]), vec![]),
            (version(&["a", "x", "c"]), vec!["b", "x"]),
            (version(&["x", "a", "b", "c"]), vec!["x"]),
            (version(&["a", "c"]), vec!["b"]),
            // What was before another one is behind it.
            (version(&["b", "a", "c"]), vec!["a", "b", "b", "a"]),
        ] {
            let touched = touched(Some(&old), Some(&new));
            let names: Vec<&str> = touched
                .iter()
                .map(|patch| patch.cluster().unwrap().name.as_str())
                .collect();
            assert_eq!(names, expected);
        }
        let young = facts(
            "n",
            "f",
            1,
            &format!("{{configPatches: [{}]}}", remove("a")),
        );
        assert_eq!(
            touched(Some(&old), Some(&young)).len(),
            4,
            "another precedence"
        );
    }

    #[test]
    fn what_is_removed_leaves_nothing() {
        let mut index = EnvoyFilters::default();
        let of = |name: &str| {
            let text = "{configPatches: [{applyTo: CLUSTER, match: {proxy: {proxyVersion: '1', metadata: {A: b}}}, \
                        patch: {operation: ADD, value: {name: c}}}]}";
            facts("n", name, 0, text)
        };
        index.insert(&of("f"));
        index.insert(&of("g"));
        index.remove(&of("f"));
        let keys: Vec<&str> = index.metadata_keys().map(|key| &**key).collect();
        assert_eq!(keys, ["A", "ISTIO_VERSION"]);
        assert_eq!(index.added().count(), 1);
        index.remove(&of("g"));
        assert_eq!(index, EnvoyFilters::default());
    }
}
