//! A directory of Kubernetes manifests as a source of typed objects.
//!
//! In: a file, a directory (recursive `*.yaml`, `*.yml`, `*.json`, many documents per file) or a text. Out:
//! typed objects with the place they came from, and the problems found on the way. Documents are split and
//! decoded one by one, so that a broken one loses only itself.
//!
//! * [`load`] and [`parse`] read once.
//! * [`watch`] follows a directory: only changed files are read again, only changed documents are reported.
//!
//! It knows nothing of what the objects mean: the caller's [`KindTable`] says which kinds are decoded and into what.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod document;
mod notice;
mod object;
mod read;
mod split;
mod store;
mod table;
mod walk;
mod watch;

pub use object::{Change, FileProblems, Loaded, Object, ObjectKey, Origin, Problem, Reason};
pub use store::{load, parse};
pub use table::{KindTable, Scope};
pub use watch::{Watch, watch};
