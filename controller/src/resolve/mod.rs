//! Who is concerned: keeps users' objects and answers which hosts a change touches, and what a host is built from.
//!
//! A unit of translation is a host, or an upstream: a service with a policy. An object is joined to the units that depend on
//! it when it arrives, so that no change looks at anything else.

mod aliases;
mod class;
mod needs;
mod resolver;
mod semantics;
mod upstreams;
mod users;

pub use aliases::{Alias, AliasKind, HostSources, Offer};
pub use class::is_served;
pub use needs::{Needs, NeedsOf};
pub use resolver::{Dirty, Resolver};
pub use upstreams::Contribution;

use crate::model::{Secret, Service};

/// The start of a text, for messages.
fn shorten(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Looks Services up.
pub trait Services {
    /// The Service of this namespace and name, if it exists.
    fn service(&self, namespace: &str, name: &str) -> Option<&Service>;
}

/// Looks Secrets up.
pub trait Secrets {
    /// The Secret of this namespace and name, if it exists.
    fn secret(&self, namespace: &str, name: &str) -> Option<&Secret>;
}
