//! What is known of a directory, and the difference that a new look at some files makes.
//!
//! Keeps identity, place and content hash of every object, never its text or value. When two documents have the same
//! identity the first in path order is used; should it go, the next one is read again.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use crate::object::{Change, FileProblems, Loaded, Object, ObjectKey, Origin, Problem, Reason};
use crate::read::{self, Entry, FileRead};
use crate::split::Format;
use crate::table::KindTable;
use crate::walk::{Stamp, walk};

/// Where the published version of an object stands.
#[derive(Debug, PartialEq)]
struct Published {
    path: Arc<Path>,
    hash: u64,
    line: u32,
}

#[derive(Debug, Default)]
struct Slot {
    /// Files with a document of this identity, in path order. Nearly always one.
    holders: Vec<Arc<Path>>,
    published: Option<Published>,
    /// More than one file had it when last looked at.
    contested: bool,
}

#[derive(Debug, Default)]
struct FileState {
    stamp: Option<Stamp>,
    entries: Vec<Entry>,
    problems: Vec<Problem>,
}

/// The state of one directory.
#[derive(Debug)]
pub(crate) struct Store<T> {
    table: Arc<KindTable<T>>,
    files: BTreeMap<Arc<Path>, FileState>,
    slots: HashMap<ObjectKey, Slot>,
    /// Identities that a file has too late in path order, with the place of the first.
    losers: BTreeMap<Arc<Path>, BTreeMap<ObjectKey, Origin>>,
    /// Files and folders for which problems were reported.
    reported: HashSet<Arc<Path>>,
    namespaces: HashSet<Arc<str>>,
}

impl<T: Send> Store<T> {
    pub(crate) fn new(table: Arc<KindTable<T>>) -> Self {
        Self {
            table,
            files: BTreeMap::new(),
            slots: HashMap::new(),
            losers: BTreeMap::new(),
            reported: HashSet::new(),
            namespaces: HashSet::new(),
        }
    }

    /// Known files at or below a path.
    pub(crate) fn below(&self, path: &Path) -> Vec<Arc<Path>> {
        let from = (Bound::Included(path), Bound::Unbounded);
        self.files
            .range::<Path, _>(from)
            .map(|(file, _)| file)
            .take_while(|file| file.starts_with(path))
            .cloned()
            .collect()
    }

    /// True when this very content was read already.
    pub(crate) fn is_current(&self, path: &Path, stamp: Stamp) -> bool {
        self.files.get(path).is_some_and(|f| f.stamp == Some(stamp))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Reads the given files (again); those that are gone lose their objects.
    pub(crate) fn refresh(&mut self, paths: impl IntoIterator<Item = Arc<Path>>) -> Change<T> {
        let known = |path: &Arc<Path>| self.files.get(path).map(|f| f.entries.as_slice());
        let reads = read::read_files(&self.table, paths, known);
        self.apply(reads)
    }

    fn apply(&mut self, reads: Vec<FileRead<T>>) -> Change<T> {
        let mut touched = BTreeSet::new();
        let mut values = HashMap::new();
        let mut dirty = BTreeSet::new();
        for read in reads {
            dirty.insert(read.path.clone());
            self.apply_file(read, &mut touched, &mut values);
        }
        let mut change = Change::default();
        let mut again: BTreeSet<Arc<Path>> = BTreeSet::new();
        let mut missing = Vec::new();
        for key in touched {
            self.note_losers(&key, &mut dirty);
            if let Some(path) = self.settle(&key, &mut values, &mut change) {
                again.insert(path);
                missing.push(key);
            }
        }
        if !again.is_empty() {
            for file in read::read_files(&self.table, again, |_| None) {
                let path = file.path.clone();
                for (entry, value) in file.entries {
                    values.extend(value.map(|v| ((path.clone(), entry.key), (entry.hash, v))));
                }
            }
            for key in missing {
                self.settle(&key, &mut values, &mut change);
            }
        }
        self.report(dirty, &mut change);
        change
    }

    fn apply_file(
        &mut self,
        read: FileRead<T>,
        touched: &mut BTreeSet<ObjectKey>,
        values: &mut HashMap<(Arc<Path>, ObjectKey), (u64, T)>,
    ) {
        let path = read.path;
        let old = self.files.remove(&path).unwrap_or_default();
        let mut entries = Vec::with_capacity(read.entries.len());
        for (mut entry, value) in read.entries {
            self.intern(&mut entry.key);
            values.extend(value.map(|v| ((path.clone(), entry.key.clone()), (entry.hash, v))));
            entries.push(entry);
        }
        let new: HashMap<&ObjectKey, (u64, u32)> =
            entries.iter().map(|e| (&e.key, (e.hash, e.line))).collect();
        for entry in &old.entries {
            match new.get(&entry.key) {
                Some(now) if *now == (entry.hash, entry.line) => {}
                Some(_) => _ = touched.insert(entry.key.clone()),
                None => {
                    touched.insert(entry.key.clone());
                    if let Some(slot) = self.slots.get_mut(&entry.key) {
                        slot.holders.retain(|p| *p != path);
                    }
                }
            }
        }
        for entry in &entries {
            let slot = self.slots.entry(entry.key.clone()).or_default();
            if let Err(at) = slot.holders.binary_search(&path) {
                slot.holders.reserve_exact(1);
                slot.holders.insert(at, path.clone());
                touched.insert(entry.key.clone());
            }
        }
        if read.gone {
            return;
        }
        let state = FileState {
            stamp: read.stamp,
            entries,
            problems: read.problems,
        };
        self.files.insert(path, state);
    }

    fn intern(&mut self, key: &mut ObjectKey) {
        match self.namespaces.get(&key.namespace) {
            Some(known) => key.namespace = known.clone(),
            None => _ = self.namespaces.insert(key.namespace.clone()),
        }
    }

    fn entry(&self, path: &Arc<Path>, key: &ObjectKey) -> Option<&Entry> {
        let entries = &self.files.get(path)?.entries;
        entries.iter().find(|e| e.key == *key)
    }

    /// Compares what is published of an identity with what should be. Returns the file that must be read again when the
    /// value is not at hand.
    fn settle(
        &mut self,
        key: &ObjectKey,
        values: &mut HashMap<(Arc<Path>, ObjectKey), (u64, T)>,
        change: &mut Change<T>,
    ) -> Option<Arc<Path>> {
        let slot = self.slots.get(key)?;
        let Some(winner) = slot.holders.first().cloned() else {
            if slot.published.is_some() {
                change.removed.push(key.clone());
            }
            self.slots.remove(key);
            return None;
        };
        let entry = self.entry(&winner, key)?;
        let now = Published {
            path: winner.clone(),
            hash: entry.hash,
            line: entry.line,
        };
        let origin = Origin {
            path: winner.clone(),
            line: entry.line,
        };
        if slot.published.as_ref() == Some(&now) {
            return None;
        }
        if slot.published.as_ref().is_some_and(|p| p.hash == now.hash) {
            change.moved.push((key.clone(), origin));
        } else {
            match values.remove(&(winner.clone(), key.clone())) {
                Some((hash, value)) if hash == now.hash => change.upserts.push(Object {
                    key: key.clone(),
                    origin,
                    value,
                }),
                _ => return Some(winner),
            }
        }
        self.slots.get_mut(key)?.published = Some(now);
        None
    }

    fn note_losers(&mut self, key: &ObjectKey, dirty: &mut BTreeSet<Arc<Path>>) {
        let holders: Vec<Arc<Path>> = match self.slots.get(key) {
            Some(slot) => slot.holders.to_vec(),
            None => Vec::new(),
        };
        let contested = holders.len() > 1;
        let before = match self.slots.get_mut(key) {
            Some(slot) => std::mem::replace(&mut slot.contested, contested),
            None => false,
        };
        if !contested && !before {
            return;
        }
        let cleared = self
            .losers
            .iter_mut()
            .filter_map(|(path, keys)| keys.remove(key).map(|_| path.clone()));
        dirty.extend(cleared);
        self.losers.retain(|_, keys| !keys.is_empty());
        let Some((winner, rest)) = holders.split_first() else {
            return;
        };
        let line = self.entry(winner, key).map_or(0, |e| e.line);
        for path in rest {
            let origin = Origin {
                path: winner.clone(),
                line,
            };
            self.losers
                .entry(path.clone())
                .or_default()
                .insert(key.clone(), origin);
            dirty.insert(path.clone());
        }
    }

    fn report(&mut self, dirty: BTreeSet<Arc<Path>>, change: &mut Change<T>) {
        for path in dirty {
            let mut problems = match self.files.get(&path) {
                Some(file) => file.problems.clone(),
                None => Vec::new(),
            };
            for (key, first) in self.losers.get(&path).into_iter().flatten() {
                let line = self.entry(&path, key).map_or(0, |e| e.line);
                problems.push(read::duplicate(&path, line, key, first));
            }
            problems.sort_by_key(|p| p.origin.line);
            self.report_file(path, problems, change);
        }
    }

    fn report_file(&mut self, path: Arc<Path>, problems: Vec<Problem>, change: &mut Change<T>) {
        let before = if problems.is_empty() {
            self.reported.remove(&path)
        } else {
            !self.reported.insert(path.clone())
        };
        if before || !problems.is_empty() {
            change.problems.push(FileProblems { path, problems });
        }
    }

    /// Reports (or clears) that a folder or the root itself cannot be read.
    pub(crate) fn report_unreadable(
        &mut self,
        path: &Path,
        message: Option<String>,
        change: &mut Change<T>,
    ) {
        let path: Arc<Path> = Arc::from(path);
        let problem = message.map(|message| Problem {
            origin: Origin {
                path: path.clone(),
                line: 0,
            },
            reason: Reason::Unreadable,
            message,
            object: None,
            kept: !self.files.is_empty(),
        });
        self.report_file(path, problem.into_iter().collect(), change);
    }
}

/// Reads a file or a directory once.
///
/// # Errors
/// The path itself cannot be read. What is wrong below it is part of the result.
pub fn load<T: Send>(path: &Path, table: KindTable<T>) -> std::io::Result<Loaded<T>> {
    let found = walk(path)?;
    let mut store = Store::new(Arc::new(table));
    let mut change = store.refresh(found.files.into_iter().map(|(path, _)| Arc::from(path)));
    for (path, error) in found.unreadable {
        store.report_unreadable(&path, Some(read::cannot_read(&error)), &mut change);
    }
    Ok(loaded(change))
}

/// Reads a text; `name` stands for its path (`-` for standard input).
pub fn parse<T: Send>(name: &str, content: &[u8], table: KindTable<T>) -> Loaded<T> {
    let format = match Path::new(name).extension() {
        Some(extension) if extension == "json" => Format::Json,
        _ => Format::Yaml,
    };
    let mut store = Store::new(Arc::new(table));
    let read = read::read_text(&store.table, Path::new(name), format, content);
    loaded(store.apply(vec![read]))
}

fn loaded<T>(change: Change<T>) -> Loaded<T> {
    let mut objects = change.upserts;
    objects.sort_by(|a, b| a.origin.cmp(&b.origin).then_with(|| a.key.cmp(&b.key)));
    let problems = change.problems.into_iter().flat_map(|f| f.problems);
    Loaded {
        objects,
        problems: problems.collect(),
    }
}
