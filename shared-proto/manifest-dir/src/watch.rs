//! Follows a directory: file system notices in, [`Change`]s out, on a thread of its own.
//!
//! A file is read when its writer closes it or renames it into place, so that a half-written file is rarely seen. A change
//! after quiet is reported at once; what follows closely is merged. When the directory itself goes away, what was known
//! stays: a source that went away has deleted nothing.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;
use tracing::{info, warn};

use crate::notice::{Notice, Target, classify};
use crate::object::{Change, ObjectKey};
use crate::read::cannot_read;
use crate::store::Store;
use crate::table::KindTable;
use crate::walk::{Walk, walk};

/// How long notices are gathered after a report.
const COALESCE: Duration = Duration::from_millis(20);
/// Within that time, this much quiet ends the gathering.
const QUIET: Duration = Duration::from_millis(2);
/// How often the directory is looked at while it is missing or cannot be watched.
const POLL: Duration = Duration::from_millis(100);
/// How often links are followed again; changes behind them give no notice.
const FOLLOW_LINKS: Duration = Duration::from_secs(5);
/// Longest sleep, after which the thread sees that nobody listens any more.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// Notices that wait to be looked at; when full, the operating system queues and at last asks for a rescan.
const NOTICE_QUEUE: usize = 4096;
/// Changes that wait for the consumer; when full, further notices are merged here.
const CHANGE_QUEUE: usize = 16;

/// The changes of a directory, or of another source of the same kind of objects. Dropping it ends the watch.
#[derive(Debug)]
pub struct Watch<T> {
    changes: mpsc::Receiver<Change<T>>,
}

impl<T> Watch<T> {
    /// Changes that somebody else sends: first the complete state, then what differs from it.
    pub fn of(changes: mpsc::Receiver<Change<T>>) -> Self {
        Self { changes }
    }

    /// The next change. The first one is the complete state and comes even when it is empty; it is waited for while the
    /// source cannot be read. `None` when the watch has ended.
    pub async fn next(&mut self) -> Option<Change<T>> {
        self.changes.recv().await
    }
}

/// Starts to follow a directory.
///
/// # Errors
/// The thread could not be started.
pub fn watch<T: Send + 'static>(root: &Path, table: KindTable<T>) -> io::Result<Watch<T>> {
    let (out, changes) = mpsc::channel(CHANGE_QUEUE);
    let (notices, events) = sync_channel(NOTICE_QUEUE);
    let worker = Worker {
        absolute: std::path::absolute(root)?,
        root: root.to_owned(),
        store: Store::new(Arc::new(table)),
        watcher: None,
        notices,
        out,
        identity: None,
        missing: false,
        links: false,
        pending: HashMap::new(),
        scanned: Instant::now(),
    };
    std::thread::Builder::new()
        .name("manifest-dir".to_owned())
        .spawn(move || worker.run(&events))?;
    Ok(Watch { changes })
}

type Event = notify::Result<notify::Event>;

struct Worker<T> {
    root: PathBuf,
    absolute: PathBuf,
    store: Store<T>,
    watcher: Option<RecommendedWatcher>,
    notices: SyncSender<Event>,
    out: mpsc::Sender<Change<T>>,
    /// Device and inode of the root when it was last read.
    identity: Option<(u64, u64)>,
    missing: bool,
    links: bool,
    /// What must be looked at: first noticed, due.
    pending: HashMap<Target, (Instant, Instant)>,
    scanned: Instant,
}

impl<T: Send + 'static> Worker<T> {
    fn run(mut self, events: &Receiver<Event>) {
        let mut change = Change::default();
        while !self.rescan(&mut change) {
            std::thread::sleep(POLL);
            if self.out.is_closed() {
                return;
            }
        }
        let mut open = self.out.blocking_send(change).is_ok();
        let mut reported = Instant::now();
        let mut noticed = reported;
        while open {
            let due = self.due(reported, noticed);
            let wait = due
                .saturating_duration_since(Instant::now())
                .min(LONGEST_SLEEP);
            match events.recv_timeout(wait) {
                Ok(event) => {
                    noticed = Instant::now();
                    self.note(event, noticed);
                    while let Ok(event) = events.try_recv() {
                        self.note(event, noticed);
                    }
                    continue;
                }
                Err(RecvTimeoutError::Timeout) if self.out.is_closed() => return,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if Instant::now() < due {
                continue;
            }
            let mut change = Change::default();
            self.look(&mut change);
            if !change.is_empty() {
                reported = Instant::now();
                open = self.out.blocking_send(change).is_ok();
            }
        }
    }

    /// When to look next.
    fn due(&self, reported: Instant, noticed: Instant) -> Instant {
        let poll = if self.missing || self.watcher.is_none() {
            POLL
        } else if self.links {
            FOLLOW_LINKS
        } else {
            Duration::from_secs(3600)
        };
        let poll = self.scanned + poll;
        let Some(first) = self.pending.values().map(|(_, due)| *due).min() else {
            return poll;
        };
        let first = if first.saturating_duration_since(reported) >= COALESCE {
            first
        } else {
            first.max(noticed + QUIET).min(first + COALESCE)
        };
        first.min(poll)
    }

    fn note(&mut self, event: Event, now: Instant) {
        let notices = match event {
            Ok(event) => classify(&event, &self.absolute, &self.root),
            Err(error) => {
                warn!(%error, "directory watch failed, reading it again");
                vec![Notice::new(Target::Root, Duration::ZERO)]
            }
        };
        for Notice { target, delay } in notices {
            if let Target::Other(path) = &target
                && !path.is_dir()
                && self.store.below(path).is_empty()
            {
                continue;
            }
            let (first, due) = self.pending.entry(target).or_insert((now, now));
            *due = (now + delay).min(*first + Notice::LONGEST).max(now);
        }
    }

    /// Looks at all that is due.
    fn look(&mut self, change: &mut Change<T>) {
        let now = Instant::now();
        let mut targets = Vec::new();
        self.pending.retain(|target, (_, due)| {
            let later = *due > now;
            if !later {
                targets.push(target.clone());
            }
            later
        });
        if targets.contains(&Target::Root) {
            self.watcher = None;
        }
        let everything = targets.is_empty()
            || targets
                .iter()
                .any(|t| matches!(t, Target::Root | Target::All));
        if everything || self.root_changed() {
            self.rescan(change);
            // Files noticed by name are read even if their stamp looks the same.
        }
        if self.missing {
            return;
        }
        let mut files: Vec<Arc<Path>> = Vec::new();
        for target in targets {
            match target {
                Target::File(path) => files.push(Arc::from(path)),
                Target::Other(path) => files.extend(self.subtree(&path)),
                Target::Root | Target::All => {}
            }
        }
        files.sort();
        files.dedup();
        if !files.is_empty() {
            merge(change, self.store.refresh(files));
        }
    }

    fn subtree(&self, path: &Path) -> Vec<Arc<Path>> {
        let mut files = self.store.below(path);
        if let Ok(found) = walk(path) {
            files.extend(found.files.into_iter().map(|(file, _)| Arc::from(file)));
        }
        files
    }

    fn root_changed(&self) -> bool {
        match fs::metadata(&self.root) {
            Ok(meta) => self.identity != Some((meta.dev(), meta.ino())),
            Err(_) => true,
        }
    }

    /// Compares the whole directory with what is known. False when it cannot be read; all stays as it was then.
    fn rescan(&mut self, change: &mut Change<T>) -> bool {
        self.scanned = Instant::now();
        let changed = self.root_changed();
        if changed || self.watcher.is_none() {
            self.arm();
        }
        let identity = fs::metadata(&self.root).map(|m| (m.dev(), m.ino())).ok();
        let failure = match walk(&self.root) {
            Ok(found) if changed && found.files.is_empty() && !self.store.is_empty() => {
                "the folder was replaced by an empty one".to_owned()
            }
            Ok(found) => {
                if std::mem::take(&mut self.missing) {
                    info!(path = %self.root.display(), "directory can be read again");
                }
                self.identity = identity;
                self.store.report_unreadable(&self.root, None, change);
                self.compare(found, change);
                return true;
            }
            Err(error) => cannot_read(&error),
        };
        if !std::mem::replace(&mut self.missing, true) {
            warn!(path = %self.root.display(), reason = failure, "directory cannot be used, keeping what is known");
            self.store
                .report_unreadable(&self.root, Some(failure), change);
        }
        false
    }

    fn compare(&mut self, found: Walk, change: &mut Change<T>) {
        self.links = found.links;
        let mut known = self.store.below(&self.root);
        known.retain(|path| {
            let listed = found
                .files
                .binary_search_by(|(p, _)| p.as_path().cmp(path))
                .is_ok();
            let hidden = found
                .unreadable
                .iter()
                .any(|(folder, _)| path.starts_with(folder));
            !listed && !hidden
        });
        let read = found
            .files
            .iter()
            .filter(|(path, stamp)| !self.store.is_current(path, *stamp));
        known.extend(read.map(|(path, _)| Arc::from(path.as_path())));
        merge(change, self.store.refresh(known));
        for (path, error) in &found.unreadable {
            self.store
                .report_unreadable(path, Some(cannot_read(error)), change);
        }
    }

    /// Watches the directory, and its parent for the case that it is replaced.
    fn arm(&mut self) {
        let notices = self.notices.clone();
        // The thread of the watcher waits when the queue is full; it ends with the receiver.
        let handler = move |event| _ = notices.send(event);
        let armed = notify::recommended_watcher(handler).and_then(|mut watcher| {
            watcher.watch(&self.absolute, RecursiveMode::Recursive)?;
            Ok(watcher)
        });
        self.watcher = match armed {
            Ok(mut watcher) => {
                if let Some(parent) = self.absolute.parent()
                    && let Err(error) = watcher.watch(parent, RecursiveMode::NonRecursive)
                {
                    info!(%error, "parent of the directory is not watched");
                }
                Some(watcher)
            }
            Err(error) => {
                if !self.missing && self.absolute.exists() {
                    warn!(%error, "directory cannot be watched, reading it at intervals");
                }
                None
            }
        };
    }
}

/// Adds a later change; what is said of one object last counts.
fn merge<T>(into: &mut Change<T>, from: Change<T>) {
    if !into.is_empty() {
        let newer: HashSet<&ObjectKey> = from
            .upserts
            .iter()
            .map(|o| &o.key)
            .chain(&from.removed)
            .collect();
        into.upserts.retain(|o| !newer.contains(&o.key));
        into.removed.retain(|key| !newer.contains(key));
        into.moved.retain(|(key, _)| !newer.contains(key));
    }
    into.upserts.extend(from.upserts);
    into.moved.extend(from.moved);
    into.removed.extend(from.removed);
    into.problems.extend(from.problems);
}

#[cfg(test)]
mod tests;
