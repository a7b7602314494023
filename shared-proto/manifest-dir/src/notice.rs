//! What a file system notice means: which path must be looked at, and how soon.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, CreateKind, EventKind, ModifyKind};

use crate::walk::is_manifest;

/// What must be looked at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    /// The directory itself was replaced: watch and read it anew.
    Root,
    /// Everything, by the stamps of the files.
    All,
    /// One manifest file.
    File(PathBuf),
    /// A path that may be, or may have been, a folder.
    Other(PathBuf),
}

/// A target and how long to wait for the rest of what is happening to it.
#[derive(Debug, PartialEq)]
pub(crate) struct Notice {
    pub(crate) target: Target,
    pub(crate) delay: Duration,
}

impl Notice {
    /// A file that is being written is read after this time even if its writer does not close it.
    pub(crate) const LONGEST: Duration = Duration::from_millis(150);
    /// Time for "removed and created again" to become one change.
    const SETTLE: Duration = Duration::from_millis(20);

    pub(crate) fn new(target: Target, delay: Duration) -> Self {
        Self { target, delay }
    }
}

/// `absolute` is the watched directory, `root` the same as its user wrote it.
pub(crate) fn classify(event: &notify::Event, absolute: &Path, root: &Path) -> Vec<Notice> {
    if event.need_rescan() {
        return vec![Notice::new(Target::Root, Duration::ZERO)];
    }
    let Some(delay) = delay(event.kind) else {
        return Vec::new();
    };
    let notices = event.paths.iter().filter_map(|path| {
        let below = path.strip_prefix(absolute).ok()?;
        if below.as_os_str().is_empty() {
            let replaced = matches!(
                event.kind,
                EventKind::Create(_)
                    | EventKind::Remove(_)
                    | EventKind::Modify(ModifyKind::Name(_))
            );
            return replaced.then_some(Notice::new(Target::Root, Notice::SETTLE));
        }
        if let Some(hidden) = first_hidden(below) {
            // The kubelet swaps `..data`; other hidden files are nobody's business.
            return hidden
                .starts_with(b"..")
                .then_some(Notice::new(Target::All, delay.min(Notice::SETTLE)));
        }
        let path = root.join(below);
        Some(if is_manifest(&path) {
            let linked = matches!(event.kind, EventKind::Create(_)) && is_link(&path);
            let target = Target::File(path);
            Notice::new(target, if linked { Duration::ZERO } else { delay })
        } else {
            Notice::new(Target::Other(path), delay.min(Notice::SETTLE))
        })
    });
    notices.collect()
}

/// A manifest that came into being complete, as a link.
fn is_link(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::symlink_metadata(path).is_ok_and(|m| m.is_symlink() || m.nlink() > 1)
}

fn delay(kind: EventKind) -> Option<Duration> {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write))
        | EventKind::Modify(ModifyKind::Name(_)) => Some(Duration::ZERO),
        EventKind::Access(_) => None,
        EventKind::Remove(_)
        | EventKind::Create(CreateKind::Folder)
        | EventKind::Modify(ModifyKind::Metadata(_))
        | EventKind::Other => Some(Notice::SETTLE),
        EventKind::Create(_) | EventKind::Modify(_) | EventKind::Any => Some(Notice::LONGEST),
    }
}

fn first_hidden(below: &Path) -> Option<&[u8]> {
    below.components().find_map(|component| match component {
        Component::Normal(name) => {
            let name = name.as_encoded_bytes();
            name.starts_with(b".").then_some(name)
        }
        _ => None,
    })
}
