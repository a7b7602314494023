//! All mistakes that are in the input now, by who found them.

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;

use crate::model::{Diagnostic, ObjectRef, Place, Upstream, cap_per_object};

/// Who found a mistake; each finder replaces its own list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReportSource {
    /// Reading a file.
    File(String),
    /// Looking at an object as a whole.
    Object(ObjectRef),
    /// Translating a host.
    Host(Arc<str>),
    /// Translating the policy of an upstream.
    Upstream(Upstream),
}

/// Mistakes and the places of objects. Clones are cheap.
#[derive(Clone, Debug, Default)]
pub struct Reports {
    lists: OrdMap<ReportSource, Arc<[Diagnostic]>>,
    places: OrdMap<ObjectRef, Place>,
}

impl Reports {
    /// Replaces what one finder found. Returns what is new, with places, or `None` when nothing differs.
    pub fn replace(
        &mut self,
        source: ReportSource,
        found: Vec<Diagnostic>,
    ) -> Option<Vec<Diagnostic>> {
        let old = self.lists.get(&source);
        if old.map_or(&[][..], |old| old) == found {
            return None;
        }
        let known = |d: &&Diagnostic| old.is_some_and(|old| old.contains(d));
        let new = found.iter().filter(|d| !known(d)).map(|d| self.placed(d));
        let new = new.collect();
        if found.is_empty() {
            self.lists.remove(&source);
        } else {
            self.lists.insert(source, Arc::from(found));
        }
        Some(new)
    }

    /// Notes where an object stands.
    pub fn set_place(&mut self, object: ObjectRef, place: Place) {
        self.places.insert(object, place);
    }

    /// Forgets the place of an object that is gone.
    pub fn forget(&mut self, object: &ObjectRef) {
        self.places.remove(object);
    }

    /// Where an object stands.
    pub fn place(&self, object: &ObjectRef) -> Option<&Place> {
        self.places.get(object)
    }

    /// What differs from an earlier state: mistakes that a finder does not report any more, and those that it did not
    /// report. Takes time in proportion to the finders that differ. Without places.
    pub fn differences(
        &self,
        before: &Self,
        gone: &mut Vec<Diagnostic>,
        new: &mut Vec<Diagnostic>,
    ) {
        for item in before.lists.diff(&self.lists) {
            match item {
                DiffItem::Add(_, list) => new.extend(list.iter().cloned()),
                DiffItem::Remove(_, list) => gone.extend(list.iter().cloned()),
                DiffItem::Update {
                    old: (_, old),
                    new: (_, list),
                } => {
                    gone.extend(old.iter().cloned());
                    new.extend(list.iter().cloned());
                }
            }
        }
    }

    /// Each mistake once, ordered by object, place and field; of an object with very many, the first ones.
    pub fn all(&self) -> Vec<Diagnostic> {
        let all: BTreeSet<Diagnostic> = self
            .lists
            .values()
            .flat_map(|list| list.iter())
            .map(|d| self.placed(d))
            .collect();
        cap_per_object(all.into_iter().collect())
    }

    fn placed(&self, diagnostic: &Diagnostic) -> Diagnostic {
        let mut placed = diagnostic.clone();
        if placed.place.is_none() {
            let object = placed.object.as_ref();
            placed.place = object.and_then(|object| self.places.get(object)).cloned();
        }
        placed
    }
}
