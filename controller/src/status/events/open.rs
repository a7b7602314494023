//! The mistakes that are there now, and which of them are told: a few of each object.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::model::{Diagnostic, ObjectRef};

/// Mistakes of one object that are told; an Ingress with a thousand wrong paths needs no more to be looked at.
pub(super) const PER_OBJECT: usize = 10;

/// Those of one object.
#[derive(Debug, Default)]
struct OfObject {
    told: usize,
    /// Told when one of the others is mended.
    held: BTreeSet<Diagnostic>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Open {
    /// How many finders report each.
    finders: BTreeMap<Diagnostic, usize>,
    objects: HashMap<ObjectRef, OfObject>,
}

impl Open {
    /// It was found. Returns whether it is to be told.
    pub(super) fn add(&mut self, diagnostic: &Diagnostic) -> bool {
        let Some(object) = &diagnostic.object else {
            return false;
        };
        let finders = self.finders.entry(diagnostic.clone()).or_default();
        *finders += 1;
        if *finders > 1 {
            return false;
        }
        let of_object = self.objects.entry(object.clone()).or_default();
        if of_object.told < PER_OBJECT {
            of_object.told += 1;
            true
        } else {
            of_object.held.insert(diagnostic.clone());
            false
        }
    }

    /// One finder does not report it any more. Returns another one of the object that is to be told instead.
    pub(super) fn remove(&mut self, diagnostic: &Diagnostic) -> Option<Diagnostic> {
        let finders = self.finders.get_mut(diagnostic)?;
        *finders -= 1;
        if *finders > 0 {
            return None;
        }
        self.finders.remove(diagnostic);
        let object = diagnostic.object.as_ref()?;
        let of_object = self.objects.get_mut(object)?;
        if of_object.held.remove(diagnostic) {
            return None;
        }
        let next = of_object.held.pop_first();
        if next.is_none() {
            of_object.told -= 1;
        }
        if of_object.told == 0 {
            self.objects.remove(object);
        }
        next
    }

    /// Whether it is still there.
    pub(super) fn has(&self, diagnostic: &Diagnostic) -> bool {
        self.finders.contains_key(diagnostic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::model::{ObjectKind, Reason};

    fn mistake(object: &str, number: usize) -> Diagnostic {
        Diagnostic {
            object: Some(ObjectRef {
                kind: ObjectKind::Ingress,
                namespace: Arc::from("shop"),
                name: Arc::from(object),
            }),
            place: None,
            field: format!("{number:03}"),
            reason: Reason::InvalidHost,
            message: String::new(),
        }
    }

    #[test]
    fn a_mended_mistake_lets_one_that_was_held_back_be_told() {
        let mut open = Open::default();
        let told = (0..PER_OBJECT + 2).filter(|n| open.add(&mistake("a", *n)));
        assert_eq!(told.count(), PER_OBJECT);
        assert!(open.add(&mistake("b", 0)));
        assert_eq!(
            open.remove(&mistake("a", 0)),
            Some(mistake("a", PER_OBJECT))
        );
        // One that was held back goes without a word.
        assert_eq!(open.remove(&mistake("a", PER_OBJECT + 1)), None);
        assert_eq!(open.remove(&mistake("a", 1)), None);
        assert!(open.add(&mistake("a", 99)));
    }

    #[test]
    fn all_mistakes_of_an_object_may_change_at_once() {
        let mut open = Open::default();
        for n in 0..PER_OBJECT {
            assert!(open.add(&mistake("a", n)));
        }
        // New ones are found before the old ones are said to be gone.
        let mut told: Vec<Diagnostic> = Vec::new();
        let new: Vec<Diagnostic> = (100..100 + PER_OBJECT).map(|n| mistake("a", n)).collect();
        told.extend(new.iter().filter(|d| open.add(d)).cloned());
        told.extend((0..PER_OBJECT).filter_map(|n| open.remove(&mistake("a", n))));
        assert_eq!(told, new);
    }

    #[test]
    fn a_mistake_of_two_finders_is_there_until_both_are_content() {
        let mut open = Open::default();
        assert!(open.add(&mistake("a", 1)) && !open.add(&mistake("a", 1)));
        assert_eq!(open.remove(&mistake("a", 1)), None);
        assert!(open.has(&mistake("a", 1)));
        open.remove(&mistake("a", 1));
        assert!(!open.has(&mistake("a", 1)) && open.objects.is_empty());
    }
}
