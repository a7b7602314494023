//! Operations on a list of named things: filters and routes.

use std::ops::Range;

use bytes::Bytes;

use super::fields::Fields;
use crate::model::envoy_filter::{Operation, Patch};

/// What is done to a list.
pub(super) struct Edit<'a> {
    pub(super) operation: Operation,
    /// Whether an item is the one that the patch names; `None` when it names none.
    pub(super) named: Option<&'a dyn Fn(&Bytes) -> bool>,
    pub(super) value: &'a Bytes,
    /// Where things may be put in: its start is first, its end last. Not outside of the list.
    pub(super) room: Range<usize>,
}

/// Does it. An item that is named and not there is no mistake: then nothing is done. Of several, the first one counts,
/// but all are removed.
pub(super) fn apply(list: &mut Vec<Bytes>, edit: &Edit<'_>) {
    let Range { start, end } = edit.room.clone();
    let found = edit.named.map(|named| list.iter().position(named));
    let place = match (edit.operation, found) {
        (Operation::Add, _) | (Operation::InsertAfter, None) => Some(end),
        (Operation::InsertFirst | Operation::InsertBefore, None) => Some(start),
        (Operation::InsertFirst, Some(found)) => found.map(|_| start),
        (Operation::InsertBefore, Some(found)) => found,
        (Operation::InsertAfter, Some(found)) => found.map(|at| at + 1),
        (Operation::Replace, Some(Some(found))) => {
            if let Some(item) = list.get_mut(found) {
                item.clone_from(edit.value);
            }
            None
        }
        (Operation::Remove, Some(_)) => {
            list.retain(|item| edit.named.is_some_and(|named| !named(item)));
            None
        }
        _ => None,
    };
    if let Some(place) = place {
        list.insert(place.clamp(start, end), edit.value.clone());
    }
}

/// The filter that an operation takes its place from; what comes first does so whatever else is there.
pub(super) fn place<'a>(patch: &Patch, wanted: Option<&'a str>) -> Option<&'a str> {
    wanted.filter(|_| patch.operation != Operation::InsertFirst)
}

/// Whether an item has this name in a field; items that cannot be read have none.
pub(super) fn has_name(item: &Bytes, number: u32, matches: impl Fn(&str) -> bool) -> bool {
    Fields::parse(item).is_ok_and(|fields| matches(fields.text(number)))
}

/// Whether a filter has a name, or had it in Envoy's first version (`envoy.router`).
pub(super) fn is_filter(wanted: &str, name: &str) -> bool {
    let short = |name: &str| {
        let rest = name.strip_prefix("envoy.filters.")?;
        rest.split_once('.').map(|(_, last)| last.to_owned())
    };
    wanted == name
        || short(name).is_some_and(|last| {
            let rest = wanted.strip_prefix("envoy.").unwrap_or_default();
            rest == last || rest.strip_prefix("listener.") == Some(&last)
        })
}
