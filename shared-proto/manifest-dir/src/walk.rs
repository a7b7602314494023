//! Which files a directory offers, and whether a file may have changed.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Identity and age of a file's content. Equal stamps mean that the file was not touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    pub(crate) fn of(meta: &Metadata) -> Self {
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }
}

/// What a walk found.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    pub(crate) files: Vec<(PathBuf, Stamp)>,
    /// Folders and files that exist and cannot be looked at: what was known below them stays.
    pub(crate) unreadable: Vec<(PathBuf, io::Error)>,
    /// Symbolic links were followed: changes behind them may not be notified.
    pub(crate) links: bool,
}

/// True for files that hold manifests.
pub(crate) fn is_manifest(path: &Path) -> bool {
    let extension = path.extension().and_then(|e| e.to_str());
    matches!(extension, Some("yaml" | "yml" | "json")) && !is_hidden(path)
}

/// Hidden files are editors' and the kubelet's business (`..data` of a mounted ConfigMap).
pub(crate) fn is_hidden(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|n| n.as_encoded_bytes().starts_with(b"."))
}

/// Lists the manifests below `root`. The error is that of the root itself.
pub(crate) fn walk(root: &Path) -> io::Result<Walk> {
    let mut found = Walk::default();
    let meta = fs::metadata(root)?;
    if !meta.is_dir() {
        found.files.push((root.to_owned(), Stamp::of(&meta)));
        return Ok(found);
    }
    let mut above = vec![(meta.dev(), meta.ino())];
    enter(root, fs::read_dir(root)?, &mut above, &mut found);
    found.files.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(found)
}

/// `above` holds the folders on the way down, so that a loop of symbolic links ends.
fn enter(folder: &Path, entries: fs::ReadDir, above: &mut Vec<(u64, u64)>, found: &mut Walk) {
    for entry in entries {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                found.unreadable.push((folder.to_owned(), error));
                continue;
            }
        };
        let path = entry.path();
        if is_hidden(&path) {
            continue;
        }
        let Ok(file_type) = entry.file_type() else {
            continue;
        };
        let link = file_type.is_symlink();
        if file_type.is_dir() || link || is_manifest(&path) {
            visit(path, link, above, found);
        }
    }
}

fn visit(path: PathBuf, link: bool, above: &mut Vec<(u64, u64)>, found: &mut Walk) {
    let meta = match fs::metadata(&path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => {
            found.unreadable.push((path, error));
            return;
        }
    };
    if meta.is_dir() {
        let identity = (meta.dev(), meta.ino());
        if above.contains(&identity) {
            return;
        }
        found.links |= link;
        match fs::read_dir(&path) {
            Ok(entries) => {
                above.push(identity);
                enter(&path, entries, above, found);
                above.pop();
            }
            Err(error) => found.unreadable.push((path, error)),
        }
    } else if meta.is_file() && is_manifest(&path) {
        found.links |= link;
        found.files.push((path, Stamp::of(&meta)));
    }
}
