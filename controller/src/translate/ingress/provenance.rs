//! Where output comes from: the users' objects and fields behind each generated object and route.

use super::annotations::table::{Applies, KEYS, Key};
use super::route::Part;
use super::{Context, Member, object_ref};
use crate::model::{CATCH_ALL, Ingress, ObjectRef};

/// One of the sources of a generated object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// Name of the route that was made of it; `None` when it is the object as a whole.
    pub route: Option<String>,
    /// The user's object.
    pub object: ObjectRef,
    /// The field of that object, such as `spec.rules[0].http.paths[2]`.
    pub field: String,
}

impl Source {
    /// A source of an object as a whole.
    pub(super) fn new(ingress: &Ingress, field: String) -> Self {
        Self {
            route: None,
            object: object_ref(ingress),
            field,
        }
    }

    /// A source of one route.
    pub(super) fn of_route(route: &str, ingress: &Ingress, part: Part<'_>) -> Self {
        Self {
            route: Some(route.to_owned()),
            ..Self::new(ingress, part.field())
        }
    }
}

/// What makes a host exist: its rules, and for the host that stands for all others the default backends; the annotation
/// that asks for it and the rules that it is for.
pub(super) fn of_host(context: Context<'_>, members: &[&Member<'_>]) -> Vec<Source> {
    let host = context.rules_of;
    let asked = context.alias.map(|offer| {
        let field = Part::Annotation(offer.alias.key).field();
        Source::new(&offer.ingress, field)
    });
    let mut sources: Vec<Source> = asked.into_iter().collect();
    for Member { ingress, .. } in members.iter().copied() {
        for (index, _) in ingress.rules_of(host) {
            sources.push(Source::new(ingress, format!("spec.rules[{index}]")));
        }
        if host == CATCH_ALL && ingress.default_backend.is_some() {
            sources.push(Source::new(ingress, Part::DefaultBackend.field()));
        }
    }
    sources
}

/// An annotation, under whatever prefixes it is there.
pub(super) fn of_key(ingress: &Ingress, key: &Key) -> impl Iterator<Item = Source> {
    let full = key.full();
    let there = full.filter(|full| ingress.annotations.contains_key(*full));
    there.map(|full| Source::new(ingress, Part::Annotation(full).field()))
}

/// The annotations that make the policy of an upstream.
pub(super) fn of_policy(ingress: &Ingress) -> impl Iterator<Item = Source> {
    let says =
        |key: &Key, full: &str| key.applies == Applies::Service && key.full().any(|k| k == full);
    ingress
        .annotations
        .keys()
        .filter(move |full| KEYS.iter().any(|key| says(key, full)))
        .map(|full| Source::new(ingress, format!("metadata.annotations[{full:?}]")))
}
