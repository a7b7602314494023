//! Reads files: bytes to documents, with the work spread over the processors and unchanged documents left alone.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use crate::document::{self, Fault, Parsed};
use crate::object::{ObjectKey, Origin, Problem, Reason};
use crate::split::{Chunk, Format, split_json, split_yaml};
use crate::table::KindTable;
use crate::walk::Stamp;

/// Larger files are refused: they are a mistake, or an attempt to exhaust memory.
const MAX_FILE_BYTES: u64 = 256 << 20;
/// Files are held in memory while their documents are decoded; this bounds how much at once.
const BATCH_BYTES: usize = 64 << 20;
/// Below this many documents threads cost more than they bring.
const PARALLEL_FROM: usize = 64;

/// One object as it stands in a file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: ObjectKey,
    /// First line of its document.
    pub(crate) line: u32,
    /// Hash of the object's own content.
    pub(crate) hash: u64,
    /// Hash of the document it stands in (a list holds many objects).
    pub(crate) document: u64,
}

/// A file after reading. An entry without value is the same as before.
pub(crate) struct FileRead<T> {
    pub(crate) path: Arc<Path>,
    pub(crate) stamp: Option<Stamp>,
    pub(crate) gone: bool,
    pub(crate) entries: Vec<(Entry, Option<T>)>,
    pub(crate) problems: Vec<Problem>,
}

/// What is to be done about one document.
enum Outcome<T> {
    Same(Vec<Entry>),
    Parsed(Parsed<T>),
}

struct Raw {
    path: Arc<Path>,
    stamp: Option<Stamp>,
    content: io::Result<Vec<u8>>,
}

/// Reads files. `known` gives the entries of a file as read before: documents that did not change are not decoded.
pub(crate) fn read_files<'k, T: Send>(
    table: &KindTable<T>,
    paths: impl IntoIterator<Item = Arc<Path>>,
    known: impl Fn(&Arc<Path>) -> Option<&'k [Entry]>,
) -> Vec<FileRead<T>> {
    let mut reads = Vec::new();
    let mut batch = Vec::new();
    let mut size = 0;
    for path in paths {
        let raw = read_bytes(path);
        size += raw.content.as_ref().map_or(0, Vec::len);
        batch.push(raw);
        if size >= BATCH_BYTES {
            reads.extend(read_batch(table, &batch, &known));
            batch.clear();
            size = 0;
        }
    }
    reads.extend(read_batch(table, &batch, &known));
    reads
}

/// Reads a text that is not a file.
pub(crate) fn read_text<T: Send>(
    table: &KindTable<T>,
    name: &Path,
    format: Format,
    content: &[u8],
) -> FileRead<T> {
    let (chunks, error) = split(format, content);
    let outcomes = decode(table, chunks.iter().map(|c| (format, *c, None)).collect());
    let raw = (Arc::from(name), None);
    assemble(raw, &chunks, outcomes, error, &[])
}

fn read_bytes(path: Arc<Path>) -> Raw {
    let read = || -> io::Result<(Stamp, Vec<u8>)> {
        let meta = fs::metadata(&path)?;
        if meta.is_file() && meta.len() > MAX_FILE_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        if !meta.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        Ok((Stamp::of(&meta), fs::read(&path)?))
    };
    let (stamp, content) = match read() {
        Ok((stamp, content)) => (Some(stamp), Ok(content)),
        Err(error) => (None, Err(error)),
    };
    Raw {
        path,
        stamp,
        content,
    }
}

fn read_batch<'k, T: Send>(
    table: &KindTable<T>,
    batch: &[Raw],
    known: &impl Fn(&Arc<Path>) -> Option<&'k [Entry]>,
) -> Vec<FileRead<T>> {
    let files: Vec<_> = batch
        .iter()
        .map(|raw| {
            let format = format_of(&raw.path);
            let content = raw.content.as_deref().unwrap_or_default();
            let (chunks, error) = split(format, content);
            (format, chunks, error, known(&raw.path).unwrap_or_default())
        })
        .collect();
    let mut jobs = Vec::new();
    for (format, chunks, _, entries) in &files {
        let index = by_document(entries);
        for chunk in chunks {
            let same = index.get(&xxh3_64(chunk.bytes)).cloned();
            jobs.push((*format, *chunk, same));
        }
    }
    let mut outcomes = decode(table, jobs).into_iter();
    batch
        .iter()
        .zip(files)
        .map(|(raw, (_, chunks, error, entries))| {
            let outcomes = outcomes.by_ref().take(chunks.len()).collect();
            match &raw.content {
                Ok(_) => {
                    let file = (raw.path.clone(), raw.stamp);
                    assemble(file, &chunks, outcomes, error, entries)
                }
                Err(error) => unreadable(raw, error, entries),
            }
        })
        .collect()
}

fn format_of(path: &Path) -> Format {
    if path.extension().is_some_and(|e| e == "json") {
        Format::Json
    } else {
        Format::Yaml
    }
}

fn split(format: Format, content: &[u8]) -> (Vec<Chunk<'_>>, Option<(u32, String)>) {
    match format {
        Format::Yaml => (split_yaml(content), None),
        Format::Json => split_json(content),
    }
}

fn by_document(entries: &[Entry]) -> HashMap<u64, Vec<Entry>> {
    let mut index: HashMap<u64, Vec<Entry>> = HashMap::with_capacity(entries.len());
    for entry in entries {
        index.entry(entry.document).or_default().push(entry.clone());
    }
    index
}

type Job<'a> = (Format, Chunk<'a>, Option<Vec<Entry>>);

/// Decodes documents in order, on all processors when there are many.
fn decode<T: Send>(table: &KindTable<T>, jobs: Vec<Job<'_>>) -> Vec<Outcome<T>> {
    let one = |(format, chunk, same): Job<'_>| match same {
        Some(entries) => Outcome::Same(entries),
        None => {
            let hash = xxh3_64(chunk.bytes);
            Outcome::Parsed(document::parse(table, format, chunk.bytes, hash))
        }
    };
    let fresh = jobs.iter().filter(|(_, _, same)| same.is_none()).count();
    if fresh < PARALLEL_FROM {
        return jobs.into_iter().map(one).collect();
    }
    // Not asked for a single document: the answer is read from a dozen files of the system.
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let size = jobs.len().div_ceil(threads);
    let mut jobs = jobs.into_iter();
    let parts: Vec<Vec<Job<'_>>> = (0..threads)
        .map(|_| jobs.by_ref().take(size).collect())
        .collect();
    std::thread::scope(|scope| {
        let workers: Vec<_> = parts
            .into_iter()
            .map(|part| scope.spawn(|| part.into_iter().map(one).collect::<Vec<_>>()))
            .collect();
        workers
            .into_iter()
            .flat_map(|worker| match worker.join() {
                Ok(outcomes) => outcomes,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    })
}

/// Puts a file together: first of equal identities wins, and what a broken document was before stays.
fn assemble<T>(
    (path, stamp): (Arc<Path>, Option<Stamp>),
    chunks: &[Chunk<'_>],
    outcomes: Vec<Outcome<T>>,
    error: Option<(u32, String)>,
    before: &[Entry],
) -> FileRead<T> {
    let mut file = FileRead {
        path,
        stamp,
        gone: false,
        entries: Vec::new(),
        problems: Vec::new(),
    };
    let mut seen = HashMap::new();
    let mut faults = Vec::new();
    for (chunk, outcome) in chunks.iter().zip(outcomes) {
        let items: Vec<(Entry, Option<T>)> = match outcome {
            Outcome::Same(entries) => entries.into_iter().map(|e| (e, None)).collect(),
            Outcome::Parsed(parsed) => {
                faults.extend(parsed.faults.into_iter().map(|f| (chunk.line, f)));
                let document = xxh3_64(chunk.bytes);
                let entry = |item: document::Item<T>| {
                    let (key, hash) = (item.key, item.hash);
                    (
                        Entry {
                            key,
                            line: 0,
                            hash,
                            document,
                        },
                        Some(item.value),
                    )
                };
                parsed.items.into_iter().map(entry).collect()
            }
        };
        for (mut entry, value) in items {
            entry.line = chunk.line;
            match seen.get(&entry.key) {
                Some(line) => {
                    let first = Origin {
                        path: file.path.clone(),
                        line: *line,
                    };
                    file.problems
                        .push(duplicate(&file.path, chunk.line, &entry.key, &first));
                }
                None => {
                    seen.insert(entry.key.clone(), chunk.line);
                    file.entries.push((entry, value));
                }
            }
        }
    }
    faults.extend(error.map(|(line, message)| {
        (
            line,
            Fault {
                line: 1,
                reason: Reason::InvalidSyntax,
                message,
                object: None,
            },
        )
    }));
    keep_last_good(&mut file, &faults, before);
    file
}

/// A broken document keeps the version it had. When it cannot be told which object it was, everything that the file no
/// longer has stays: a half-written file must not delete.
fn keep_last_good<T>(file: &mut FileRead<T>, faults: &[(u32, Fault)], before: &[Entry]) {
    let present: HashSet<ObjectKey> = file.entries.iter().map(|(e, _)| e.key.clone()).collect();
    let missing: Vec<&Entry> = before
        .iter()
        .filter(|e| !present.contains(&e.key))
        .collect();
    let mut keep_all = false;
    let mut kept = HashSet::new();
    for (line, fault) in faults {
        let known = |key: &&ObjectKey| missing.iter().any(|e| e.key == **key);
        let is_kept = match &fault.object {
            Some(key) if present.contains(key) => false,
            Some(key) => Some(key)
                .filter(known)
                .map(|k| kept.insert(k.clone()))
                .is_some(),
            None => {
                keep_all = true;
                !missing.is_empty()
            }
        };
        file.problems.push(Problem {
            origin: Origin {
                path: file.path.clone(),
                line: line.saturating_add(fault.line.saturating_sub(1)),
            },
            reason: fault.reason,
            message: fault.message.clone(),
            object: fault.object.clone(),
            kept: is_kept,
        });
    }
    for entry in missing {
        if keep_all || kept.contains(&entry.key) {
            file.entries.push((entry.clone(), None));
        }
    }
}

fn unreadable<T>(raw: &Raw, error: &io::Error, before: &[Entry]) -> FileRead<T> {
    let mut read = FileRead {
        path: raw.path.clone(),
        stamp: None,
        gone: error.kind() == io::ErrorKind::NotFound,
        entries: Vec::new(),
        problems: Vec::new(),
    };
    if !read.gone {
        read.entries = before.iter().map(|e| (e.clone(), None)).collect();
        let large = error.kind() == io::ErrorKind::FileTooLarge;
        read.problems.push(Problem {
            origin: Origin {
                path: raw.path.clone(),
                line: 0,
            },
            reason: if large {
                Reason::TooLarge
            } else {
                Reason::Unreadable
            },
            message: if large {
                format!(
                    "the file is larger than {} MiB; split it",
                    MAX_FILE_BYTES >> 20
                )
            } else {
                cannot_read(error)
            },
            object: None,
            kept: !before.is_empty(),
        });
    }
    read
}

pub(crate) fn cannot_read(error: &io::Error) -> String {
    format!("cannot be read: {error}")
}

pub(crate) fn duplicate(path: &Arc<Path>, line: u32, key: &ObjectKey, first: &Origin) -> Problem {
    Problem {
        origin: Origin {
            path: path.clone(),
            line,
        },
        reason: Reason::DuplicateObject,
        message: format!("is already defined at {first}, which is used; remove one of them"),
        object: Some(key.clone()),
        kept: false,
    }
}
