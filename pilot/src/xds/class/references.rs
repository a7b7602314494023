//! Who needs what: Secrets of clusters and fallback clusters of routes exist as long as somebody uses them.

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};

/// Things of one sort and their users by name. Cloning shares everything.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct References<T: Ord + Clone> {
    users: OrdSet<(T, Arc<str>)>,
    used: OrdMap<Arc<str>, Arc<BTreeSet<T>>>,
}

impl<T: Ord + Clone> Default for References<T> {
    fn default() -> Self {
        Self {
            users: OrdSet::new(),
            used: OrdMap::new(),
        }
    }
}

impl<T: Ord + Clone> References<T> {
    /// Says all that a user needs now; gives what it needs since, and what it does not need any more.
    pub(super) fn replace(&mut self, user: &str, needs: BTreeSet<T>) -> BTreeSet<T> {
        let user: Arc<str> = user.into();
        let old = self.used.get(&user).cloned().unwrap_or_default();
        if *old == needs {
            return BTreeSet::new();
        }
        for gone in old.difference(&needs) {
            self.users.remove(&(gone.clone(), user.clone()));
        }
        for new in needs.difference(&old) {
            self.users.insert((new.clone(), user.clone()));
        }
        let changed = old.symmetric_difference(&needs).cloned().collect();
        if needs.is_empty() {
            self.used.remove(&user);
        } else {
            self.used.insert(user, Arc::new(needs));
        }
        changed
    }

    /// Whether somebody needs it.
    pub(super) fn contains(&self, item: &T) -> bool {
        self.users(item).next().is_some()
    }

    /// Who needs it.
    pub(super) fn users<'a>(&'a self, item: &'a T) -> impl Iterator<Item = &'a Arc<str>> {
        self.from(item)
            .take_while(move |(other, _)| other == item)
            .map(|(_, user)| user)
    }

    /// All that is needed, from an item on, in order; several times when several need it.
    pub(super) fn items_from<'a>(&'a self, item: &T) -> impl Iterator<Item = &'a T> {
        self.from(item).map(|(item, _)| item)
    }

    fn from<'a>(&'a self, item: &T) -> impl Iterator<Item = &'a (T, Arc<str>)> {
        self.users.range((item.clone(), Arc::from(""))..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_are_needed_until_the_last_user_is_gone() {
        let mut references = References::<u8>::default();
        assert_eq!(references.replace("a", [1, 2].into()), [1, 2].into());
        assert_eq!(references.replace("b", [2, 3].into()), [2, 3].into());
        assert_eq!(references.replace("b", [2, 3].into()), [].into());
        assert_eq!(references.replace("a", [3].into()), [1, 2, 3].into());
        assert!(!references.contains(&1) && references.contains(&2));
        assert_eq!(references.users(&3).count(), 2);
        references.replace("a", [].into());
        references.replace("b", [].into());
        assert_eq!(references, References::default());
    }
}
