//! How many units use what several of them share.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::translate::ingress::Shared;

/// Users of shared things, by unit.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    units: HashMap<Arc<str>, BTreeSet<Shared>>,
    counts: BTreeMap<Shared, usize>,
}

impl Sharing {
    /// Notes what a unit uses now. Returns what has its first user by that, or none any more.
    pub(super) fn replace(&mut self, unit: &Arc<str>, uses: BTreeSet<Shared>) -> Vec<Shared> {
        let mut touched = Vec::new();
        let before = self.units.remove(unit).unwrap_or_default();
        for shared in uses.difference(&before) {
            let count = self.counts.entry(shared.clone()).or_default();
            *count += 1;
            if *count == 1 {
                touched.push(shared.clone());
            }
        }
        for shared in before.difference(&uses) {
            let count = self.counts.get_mut(shared);
            if let Some(count) = count.filter(|count| **count > 1) {
                *count -= 1;
            } else {
                self.counts.remove(shared);
                touched.push(shared.clone());
            }
        }
        if !uses.is_empty() {
            self.units.insert(unit.clone(), uses);
        }
        touched
    }

    /// True when a unit uses it.
    pub(super) fn is_used(&self, shared: &Shared) -> bool {
        self.counts.contains_key(shared)
    }
}
