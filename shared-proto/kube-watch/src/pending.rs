//! Changes that were not handed over yet; what is said of one object last counts.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use manifest_dir::{Change, FileProblems, Object, ObjectKey, Problem};

/// The newest about one object.
#[derive(Debug)]
struct Entry<T> {
    /// `None` when it is gone.
    object: Option<Object<T>>,
    /// Nobody has heard of the object yet.
    fresh: bool,
}

/// A change in the making.
#[derive(Debug)]
pub(crate) struct Pending<T> {
    objects: HashMap<ObjectKey, Entry<T>>,
    problems: BTreeMap<Arc<Path>, Vec<Problem>>,
}

impl<T> Default for Pending<T> {
    fn default() -> Self {
        Self {
            objects: HashMap::new(),
            problems: BTreeMap::new(),
        }
    }
}

impl<T> Pending<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.problems.is_empty()
    }

    /// A new version of an object; `fresh` when it is the first one.
    pub(crate) fn set(&mut self, object: Object<T>, fresh: bool) {
        let (key, object) = (object.key.clone(), Some(object));
        self.put(key, Entry { object, fresh });
    }

    /// An object is gone.
    pub(crate) fn remove(&mut self, key: ObjectKey) {
        let entry = Entry {
            object: None,
            fresh: false,
        };
        self.put(key, entry);
    }

    /// An object that came and went before anybody heard of it was never there.
    fn put(&mut self, key: ObjectKey, mut entry: Entry<T>) {
        if let Some(before) = self.objects.remove(&key) {
            entry.fresh = before.fresh;
        }
        if entry.object.is_some() || !entry.fresh {
            self.objects.insert(key, entry);
        }
    }

    /// All that is wrong with one object now.
    pub(crate) fn report(&mut self, path: Arc<Path>, problems: Vec<Problem>) {
        self.problems.insert(path, problems);
    }

    /// Adds what came later.
    pub(crate) fn merge(&mut self, later: Self) {
        for (key, entry) in later.objects {
            self.put(key, entry);
        }
        self.problems.extend(later.problems);
    }

    /// Everything, in the order of identities.
    pub(crate) fn take(&mut self) -> Change<T> {
        let mut change = Change::default();
        for (key, entry) in self.objects.drain() {
            match entry.object {
                Some(object) => change.upserts.push(object),
                None => change.removed.push(key),
            }
        }
        change.upserts.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        change.removed.sort_unstable();
        let problems = std::mem::take(&mut self.problems).into_iter();
        change.problems = problems
            .map(|(path, problems)| FileProblems { path, problems })
            .collect();
        change
    }
}
