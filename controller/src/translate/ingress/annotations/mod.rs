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

mod auth;
mod auth_filters;
mod auth_server;
mod auth_url;
mod basic_auth;
mod body_size;
pub(super) mod canary;
mod client_limit;
mod cors;
mod destination;
mod downstream_tls;
pub(super) mod fallback;
mod filters;
mod header_control;
mod hosts;
pub(super) mod ingress_nginx;
mod limits;
mod load_balance;
mod matching;
mod mirror;
mod rate_limit;
mod redirect;
mod rewrite;
mod secret_text;
mod semantics;
mod source_range;
pub mod table;
#[cfg(test)]
mod testing;
pub(super) mod text;
pub(super) mod traffic;
pub mod unsupported;
mod upstream_tls;
pub mod value;
mod variables;

use std::ops::Bound;

use shared_proto::networking::v1alpha3::{HttpDirectResponse, HttpRoute};

use super::route::Route;
use super::{Context, Diagnostics, object_ref};
use crate::model::{Diagnostic, Ingress, Reason, Semantics};
pub(crate) use downstream_tls::Authority;
pub(super) use filters::filters;
pub(crate) use matching::Identity;
pub(crate) use redirect::Https;
pub(super) use source_range::cidr_ranges;
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

    /// What they mean.
    pub(crate) fn semantics(&self) -> Semantics {
        self.ingress.semantics
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

    /// The namespace of the Ingress.
    pub(crate) fn namespace(&self) -> &'a str {
        &self.ingress.namespace
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

    /// Adds something without which nothing can be served: all routes of the Ingress answer 503.
    pub(crate) fn refuse(&mut self, key: &str, reason: Reason, message: &str) {
        self.denied = true;
        self.add(
            key,
            reason,
            format!("{message}; until then requests are answered with 503"),
        );
    }

    /// Adds a restriction of access that cannot be put into effect: all routes of the Ingress answer 503.
    pub(crate) fn deny(&mut self, key: &str, message: &str) {
        self.refuse(key, Reason::AccessDenied, message);
    }
}

/// All settings of an Ingress.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Settings {
    /// What paths and annotations mean.
    pub(crate) semantics: Semantics,
    /// New paths and hosts for backends, and which paths are regular expressions.
    pub(crate) rewrite: Option<rewrite::Rewrite>,
    /// Conditions on requests beside host and path.
    pub(crate) matching: Option<matching::Matching>,
    /// Exact and Prefix paths match in any letter case.
    pub(crate) ignore_path_case: bool,
    /// Hosts beside those of the rules.
    pub(crate) hosts: Option<hosts::Hosts>,
    /// Redirects.
    pub(crate) redirect: Option<redirect::Redirect>,
    /// Cross-origin requests.
    pub(crate) cors: Option<cors::Cors>,
    /// Bound on a whole request.
    pub(crate) timeout: Option<limits::Timeout>,
    /// Bound on connecting to an endpoint.
    pub(crate) connect_timeout: Option<limits::ConnectTimeout>,
    /// What is tried again.
    pub(crate) retry: Option<limits::Retry>,
    /// Headers that are added, set or removed.
    pub(crate) header_control: Option<header_control::HeaderControl>,
    /// Nothing may be served, because a restriction of access cannot be put into effect, or nobody speaks the protocol.
    pub(crate) denied: bool,
    /// The part of the traffic that it takes, if it is a canary.
    pub(crate) canary: Option<canary::Canary>,
    /// Client addresses that may use the routes.
    pub(crate) source_range: Option<source_range::SourceRange>,
    /// Limit on requests.
    pub(crate) rate_limit: Option<rate_limit::RateLimit>,
    /// Where copies of requests go.
    pub(crate) mirror: Option<mirror::Mirror>,
    /// What stands in for backends.
    pub(crate) fallback: Option<fallback::Fallback>,
    /// TLS with clients.
    pub(crate) downstream_tls: Option<downstream_tls::DownstreamTls>,
    /// TLS of clients is passed on to the backend: the key that says so.
    pub(crate) passthrough: Option<&'static str>,
    /// Backends see the certificates of clients.
    pub(crate) pass_certificate: bool,
    /// Protocol and TLS with backends.
    pub(crate) upstream_tls: Option<upstream_tls::UpstreamTls>,
    /// Choice among endpoints.
    pub(crate) load_balance: Option<load_balance::LoadBalance>,
    /// Who may come in.
    pub(crate) auth: Option<auth::Auth>,
    /// Limits on the requests of each client address.
    pub(crate) client_limit: Option<client_limit::ClientLimit>,
    /// Largest request body in bytes.
    pub(crate) body_size: Option<u64>,
    /// Seconds that may pass without a byte in either direction.
    pub(crate) idle_timeout: Option<i64>,
    /// Requests are not logged.
    pub(crate) no_access_log: bool,
    /// Redirects within the host have no scheme and host.
    pub(crate) relative_redirects: bool,
    /// Backends of registries.
    pub(crate) destination: Option<destination::Destinations>,
}

impl Settings {
    /// Reads the annotations of an Ingress.
    pub(crate) fn parse(ingress: &Ingress) -> (Self, Vec<Problem>) {
        if ingress.annotations.is_empty() && ingress.semantics == Semantics::Higress {
            return (Self::default(), Vec::new());
        }
        let annotations = &Annotations::new(ingress);
        let mut problems = Problems::default();
        let found = &mut problems;
        let mut settings = Self {
            semantics: semantics::parse(annotations, found),
            rewrite: rewrite::parse(annotations, found),
            matching: matching::parse(annotations, found),
            ignore_path_case: annotations.is_on(&table::IGNORE_PATH_CASE, found),
            hosts: hosts::parse(annotations, found),
            redirect: redirect::parse(annotations, found),
            cors: cors::parse(annotations, found),
            timeout: limits::parse_timeout(annotations, found),
            connect_timeout: limits::parse_connect(annotations, found),
            retry: limits::parse_retry(annotations, found),
            header_control: header_control::parse(annotations, found),
            canary: canary::parse(annotations, found),
            destination: destination::parse(annotations, found),
            downstream_tls: downstream_tls::parse(annotations, found),
            passthrough: downstream_tls::parse_passthrough(annotations, found),
            pass_certificate: downstream_tls::parse_pass(annotations, found),
            fallback: fallback::parse(annotations, found),
            load_balance: load_balance::parse(annotations, found),
            mirror: mirror::parse(annotations, found),
            rate_limit: rate_limit::parse(annotations, found),
            source_range: source_range::parse(annotations, found),
            upstream_tls: upstream_tls::parse(annotations, found),
            auth: auth::parse(annotations, found),
            client_limit: client_limit::parse(annotations, found),
            body_size: body_size::parse(annotations, found),
            idle_timeout: limits::parse_idle(annotations, found),
            no_access_log: annotations.get(&table::ENABLE_ACCESS_LOG, value::boolean, found)
                == Some(false),
            relative_redirects: annotations.is_on(&table::RELATIVE_REDIRECTS, found),
            denied: false,
        };
        unsupported::report(annotations, found);
        settings.denied = problems.denied;
        (settings, problems.list)
    }

    /// The conditions that tell routes with the same path apart.
    pub(crate) fn identity(&self) -> Identity {
        let matching = self.matching.as_ref();
        matching.map_or_else(Identity::default, |m| m.identity.clone())
    }

    /// True when it says how backends are connected and spoken to, or which endpoint is chosen.
    pub(crate) fn has_policy(&self) -> bool {
        self.upstream_tls.is_some() || self.load_balance.is_some() || self.connect_timeout.is_some()
    }

    /// True when not every client may come in.
    pub(crate) fn restricts_access(&self) -> bool {
        let tls = self.downstream_tls.as_ref();
        let certificate = tls.is_some_and(|tls| tls.authority.is_some());
        self.denied || self.source_range.is_some() || self.auth.is_some() || certificate
    }

    /// False when a condition cannot be read, so that routes would take requests that are not meant for them.
    pub(crate) fn is_served(&self) -> bool {
        self.matching.as_ref().is_none_or(|m| !m.unusable)
    }
}

/// What is wrong with the annotations of an Ingress, whatever its hosts.
pub fn check(ingress: &Ingress) -> Vec<Diagnostic> {
    let (_, problems) = Settings::parse(ingress);
    let diagnostics = problems.into_iter().map(|p| p.diagnostic(ingress));
    diagnostics.collect()
}

/// Puts the settings of a route's Ingress into effect, in Higress's order.
pub(super) fn apply(context: Context<'_>, route: &mut Route<'_>, diagnostics: &mut Diagnostics) {
    let settings = route.settings;
    if let Some(cors) = &settings.cors {
        cors.apply(&mut route.http);
    }
    if let Some(redirect) = &settings.redirect {
        redirect.apply(&route.path.path, context.https(), &mut route.http);
    }
    if let Some(rewrite) = &settings.rewrite {
        let (rewrite, problem) = rewrite.of(&route.path, settings.ignore_path_case);
        route.http.rewrite = rewrite;
        let problem = problem.map(|problem| problem.diagnostic(route.ingress));
        diagnostics.0.extend(problem);
    }
    if let Some(timeout) = &settings.timeout {
        timeout.apply(&mut route.http);
    }
    if let Some(retry) = &settings.retry {
        retry.apply(&mut route.http);
    }
    if settings.ignore_path_case {
        for condition in &mut route.http.r#match {
            condition.ignore_uri_case = true;
        }
    }
    if let Some(matching) = &settings.matching {
        matching.apply(&mut route.http.r#match);
    }
    if let Some(control) = &settings.header_control {
        route.http.headers = Some(control.headers(context, route.ingress, diagnostics));
    }
    let cors = settings.cors.as_ref();
    if let Some(http) = cors.and_then(|cors| cors.preflight(&route.http)) {
        let preflight = Route {
            http,
            ..route.clone()
        };
        route.before.push(preflight);
    }
    if let Some(redirect) = &settings.redirect {
        redirect.answer(&mut route.http);
    }
}

/// What is added to a route when its canaries are known, because it holds for them too.
pub(super) fn complete(route: &mut Route<'_>) {
    if let Some(rewrite) = &route.settings.rewrite {
        rewrite.announce(&mut route.http);
    }
    if route.settings.pass_certificate {
        downstream_tls::pass(&mut route.http);
    }
}

/// Answer of routes that may not be served.
const UNAVAILABLE: u32 = 503;

/// Closes a route whose Ingress restricts access in a way that cannot be put into effect. The last step of all.
pub(super) fn close(route: &mut Route<'_>) {
    if route.settings.denied {
        make_unavailable(&mut route.http);
    }
}

/// Answers all requests of a route with 503.
pub(super) fn make_unavailable(http: &mut HttpRoute) {
    *http = HttpRoute {
        name: std::mem::take(&mut http.name),
        r#match: std::mem::take(&mut http.r#match),
        direct_response: Some(HttpDirectResponse {
            status: UNAVAILABLE,
            body: None,
        }),
        ..HttpRoute::default()
    };
}
