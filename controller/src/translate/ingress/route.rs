//! A route while it is being built: what comes out, and what later steps must know of it.

use shared_proto::networking::v1alpha3::HttpRoute;

use super::Source;
use super::annotations::Settings;
use super::path::PathMatch;
use crate::model::{Ingress, IngressPath};

/// The part of an Ingress that a route is made of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part<'a> {
    /// `spec.rules[rule].http.paths[path]`.
    Path {
        rule: usize,
        path: usize,
        /// The path itself.
        object: &'a IngressPath,
    },
    /// `spec.rules[..]`, as a whole.
    Rule(usize),
    /// `spec.defaultBackend`.
    DefaultBackend,
    /// An annotation with this full key.
    Annotation(&'static str),
}

impl Part<'_> {
    /// Path of the field.
    pub(super) fn field(&self) -> String {
        match self {
            Self::Path { rule, path, .. } => format!("spec.rules[{rule}].http.paths[{path}]"),
            Self::Rule(rule) => format!("spec.rules[{rule}]"),
            Self::DefaultBackend => "spec.defaultBackend".to_owned(),
            Self::Annotation(key) => format!("metadata.annotations[{key:?}]"),
        }
    }
}

/// One route. Annotation families change `http`; their values are in `settings`.
#[derive(Clone, Debug)]
pub(super) struct Route<'a> {
    /// The Ingress that it belongs to.
    pub(super) ingress: &'a Ingress,
    /// Its annotations.
    pub(super) settings: &'a Settings,
    /// The part of it.
    pub(super) part: Part<'a>,
    /// What its path matches, in the form that conflicts and order are decided on.
    pub(super) path: PathMatch,
    /// The route as it will be served.
    pub(super) http: HttpRoute,
    /// Routes for some of its requests; they are tried just before it.
    pub(super) before: Vec<Self>,
    /// Parts of other Ingresses that take a share of its requests.
    pub(super) shared_with: Vec<(&'a Ingress, Part<'a>)>,
}

impl Route<'_> {
    /// True for a route that takes every request of its host that no other route takes.
    pub(super) fn is_catch_all(&self) -> bool {
        let conditions = self.http.r#match.first().is_some_and(|first| {
            !first.headers.is_empty() || !first.query_params.is_empty() || first.method.is_some()
        });
        self.path.is_root() && !conditions
    }

    pub(super) fn is_default_backend(&self) -> bool {
        matches!(self.part, Part::DefaultBackend)
    }

    /// Where it comes from: its own Ingress, then those that it shares its requests with.
    pub(super) fn sources(&self) -> impl Iterator<Item = Source> {
        let own = std::iter::once((self.ingress, self.part));
        let all = own.chain(self.shared_with.iter().copied());
        all.map(|(ingress, part)| Source::of_route(&self.http.name, ingress, part))
    }
}
