//! Annotations of an Ingress: text in, typed settings and mistakes out; and what the settings change.
//!
//! # How a family is written
//!
//! * Its keys are rows of [`table`]. A key is named nowhere else; the reference for users is made of the same rows.
//! * `annotations/<family>.rs` has a typed value and
//!   `fn parse(annotations: &Annotations<'_>, problems: &mut Problems) -> Option<Typed>` (`None` = nothing was asked for).
//!   It is called once per Ingress from [`Settings::parse`], where the family has a field and a line.
//! * [`Annotations::get`] looks a key up: `nginx.ingress.kubernetes.io/` first, and `higress.io/` when that is absent or does not
//!   parse. Values that do not parse are reported there. [`Annotations::has`] is mere presence, which some families start
//!   with. Grammars are functions in [`value`]; a family may pass one of its own.
//! * A mistake is a [`Problem`]: the full key, a reason, and words that say what is wrong and how to mend it. It never stops
//!   anything but its feature. What restricts access fails closed: it says so through [`Problems::deny`] or its own typed value.
//! * `fn apply(&self, ..)` changes a route; it is called from [`apply`] in the order of the steps there. Mistakes that
//!   only show there (a Service that does not exist) are added to the unit's diagnostics with [`Problem::diagnostic`].
//!
//! Mistakes of values are the same for all hosts of an Ingress, so they are reported once per Ingress, by [`check`], not by
//! its hosts. Both are pure functions of the Ingress.

pub mod table;
pub mod value;

use std::ops::Bound;

use super::object_ref;
use crate::model::{Diagnostic, Ingress, Reason};
use table::Key;
use value::{Value, ValueError};

/// The annotations of an Ingress by key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Annotations<'a> {
    ingress: &'a Ingress,
}

/// A value and the full key that it was found under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found<T> {
    /// The full key, for problems that show later.
    pub(crate) key: &'static str,
    /// The value.
    pub(crate) value: T,
}

impl<'a> Annotations<'a> {
    /// Those of `ingress`.
    pub(crate) fn new(ingress: &'a Ingress) -> Self {
        Self { ingress }
    }

    /// True when the key is present under one of its prefixes, whatever its value.
    pub(crate) fn has(&self, key: &Key) -> bool {
        key.full().any(|full| self.raw(full).is_some())
    }

    /// The first value that the grammar takes; those before it that it does not take are reported.
    pub(crate) fn find<T>(
        &self,
        key: &Key,
        grammar: impl Fn(&str) -> Value<T>,
        problems: &mut Problems,
    ) -> Option<Found<T>> {
        for full in key.full() {
            let Some(raw) = self.raw(full) else { continue };
            match grammar(raw) {
                Ok(value) => return Some(Found { key: full, value }),
                Err(error) => problems.invalid(full, &error),
            }
        }
        None
    }

    /// As [`find`](Self::find), the value alone.
    pub(crate) fn get<T>(
        &self,
        key: &Key,
        grammar: impl Fn(&str) -> Value<T>,
        problems: &mut Problems,
    ) -> Option<T> {
        self.find(key, grammar, problems).map(|found| found.value)
    }

    /// A switch: false when it is absent or no boolean.
    pub(crate) fn is_on(&self, key: &Key, problems: &mut Problems) -> bool {
        self.get(key, value::boolean, problems).unwrap_or(false)
    }

    /// All annotations of a [named](Key::named) key under Higress's prefix: full key, name, raw value; in order of names.
    pub(crate) fn named(&self, key: &Key) -> impl Iterator<Item = (&'a str, &'a str, &'a str)> {
        let prefix = key.higress;
        let after = (Bound::Excluded(prefix), Bound::Unbounded);
        let from = self.ingress.annotations.range::<str, _>(after);
        from.map_while(move |(full, raw)| {
            full.strip_prefix(prefix)
                .map(|name| (&**full, name, &**raw))
        })
    }

    /// All annotations: full key and raw value.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.ingress.annotations.iter().map(|(k, v)| (&**k, &**v))
    }

    fn raw(&self, full: &str) -> Option<&'a str> {
        self.ingress.annotations.get(full).map(|raw| &**raw)
    }
}

/// A mistake in an annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The full key.
    pub(crate) key: String,
    /// Sort of mistake.
    pub(crate) reason: Reason,
    /// What is wrong and how to mend it.
    pub(crate) message: String,
}

impl Problem {
    /// The same in the form that is shown.
    pub(crate) fn diagnostic(self, ingress: &Ingress) -> Diagnostic {
        Diagnostic {
            object: Some(object_ref(ingress)),
            place: None,
            field: format!("metadata.annotations[{:?}]", self.key),
            reason: self.reason,
            message: self.message,
        }
    }
}

/// Mistakes of one Ingress, in the order in which they were found.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    list: Vec<Problem>,
    denied: bool,
}

impl Problems {
    /// Adds a mistake.
    pub(crate) fn add(&mut self, key: &str, reason: Reason, message: impl Into<String>) {
        self.list.push(Problem {
            key: key.to_owned(),
            reason,
            message: message.into(),
        });
    }

    /// Adds a value that cannot be used; its feature is left out.
    pub(crate) fn invalid(&mut self, key: &str, error: &ValueError) {
        self.add(key, Reason::InvalidAnnotation, error.0.as_str());
    }

    /// Adds a restriction of access that cannot be put into effect: all routes of the Ingress answer 503.
    pub(crate) fn deny(&mut self, key: &str, message: &str) {
        self.denied = true;
        let message = format!("{message}; until then requests are answered with 503");
        self.add(key, Reason::AccessDenied, message);
    }
}

/// All settings of an Ingress.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Settings {
    /// A restriction of access cannot be put into effect: nothing may be served.
    pub(crate) denied: bool,
}

impl Settings {
    /// Reads the annotations of an Ingress.
    pub(crate) fn parse(ingress: &Ingress) -> (Self, Vec<Problem>) {
        if ingress.annotations.is_empty() {
            return (Self::default(), Vec::new());
        }
        let annotations = &Annotations::new(ingress);
        let problems = &mut Problems::default();
        let _ = annotations;
        let mut settings = Self::default();
        settings.denied = problems.denied;
        (settings, std::mem::take(&mut problems.list))
    }
}

/// What is wrong with the annotations of an Ingress, whatever its hosts.
pub fn check(ingress: &Ingress) -> Vec<Diagnostic> {
    let (_, problems) = Settings::parse(ingress);
    let diagnostics = problems.into_iter().map(|p| p.diagnostic(ingress));
    diagnostics.collect()
}
