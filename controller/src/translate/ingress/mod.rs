//! Ingresses of one host to its Gateway and VirtualService.
//!
//! Rules: Kubernetes Ingress v1 (paths, default backend, TLS), and Higress's for what that leaves open (names, conflicts, order).

mod alias;
pub mod annotations;
mod app_root;
mod backend;
mod canary;
mod default_backend;
mod error_page;
mod filters;
mod gateway;
mod needs;
mod not_found;
mod order;
mod passthrough;
mod path;
mod provenance;
mod route;
mod rules;
mod upstream;
mod weights;

pub use filters::Shared;
pub use needs::needs;
pub use provenance::Source;
pub use upstream::{UpstreamInputs, UpstreamUnit, translate_upstream};

use std::collections::{BTreeSet, HashMap};

use shared_proto::networking::v1alpha3::VirtualService;
use shared_proto::{Config, Meta};

use crate::model::{Diagnostic, Ingress, ObjectKind, ObjectRef, Reason, Scope, Semantics};
use crate::resolve::{AliasKind, HostSources, Offer, Secrets, Services};
use crate::translate::names;
use annotations::{Https, Settings, traffic};
use filters::RouteFilters;
use passthrough::Passthrough;
use route::Route;
use rules::Rules;

/// Everything that a host is built from.
#[derive(Clone)]
pub struct HostInputs<'a> {
    /// Options.
    pub scope: &'a Scope,
    /// The host, in normal form.
    pub host: &'a str,
    /// The Ingresses that it is built from, and what asks for it.
    pub sources: HostSources<'a>,
    /// Services, for ports given by name.
    pub services: &'a dyn Services,
    /// Secrets that annotations name.
    pub secrets: &'a dyn Secrets,
}

impl std::fmt::Debug for HostInputs<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostInputs")
            .field("host", &self.host)
            .field("sources", &self.sources)
            .finish_non_exhaustive()
    }
}

/// One of the Ingresses of a host, with its annotations read.
#[derive(Debug)]
struct Member<'a> {
    ingress: &'a Ingress,
    settings: Settings,
    /// What its settings need beyond VirtualServices.
    filters: RouteFilters,
}

impl Member<'_> {
    /// Looks up what its settings refer to. It is closed when something that restricts access cannot be found.
    fn look_up(&mut self, context: Context<'_>, diagnostics: &mut Diagnostics) {
        if self.settings.denied {
            return;
        }
        match annotations::filters(context, self.ingress, &self.settings, diagnostics) {
            Some(filters) => self.filters = filters,
            None => self.settings.denied = true,
        }
    }

    /// True when it makes every path of the host a regular expression, as ingress-nginx has it.
    fn makes_regex_host(&self, host: &str) -> bool {
        let Some(rewrite) = &self.settings.rewrite else {
            return false;
        };
        let mut paths = self
            .ingress
            .rules_of(host)
            .flat_map(|(_, rule)| &rule.paths);
        self.settings.canary.is_none() && paths.any(|path| rewrite.makes_regex_host(path))
    }

    /// True when it has a certificate for the host.
    fn has_certificate(&self, host: &str) -> bool {
        let tls = self.ingress.tls_of(host);
        self.settings.canary.is_none() && tls.is_some_and(|(_, tls)| !tls.secret.is_empty())
    }
}

/// A host while it is translated: its inputs with annotations read.
#[derive(Clone, Copy)]
struct Context<'a> {
    scope: &'a Scope,
    host: &'a str,
    /// The host whose rules are served: `host`, or the one that it stands beside.
    rules_of: &'a str,
    /// Why a host without rules is served.
    alias: Option<&'a Offer>,
    /// Oldest first.
    members: &'a [Member<'a>],
    services: &'a dyn Services,
    secrets: &'a dyn Secrets,
    /// Every path of an Ingress with the semantics of ingress-nginx is a regular expression.
    regex_host: bool,
    /// One of its Ingresses has a certificate for it.
    certificate: bool,
}

impl Context<'_> {
    /// How the host is served by HTTPS.
    fn https(&self) -> Https {
        Https {
            certificate: self.certificate,
            port: self.scope.gateway_https_port,
        }
    }
}

/// What a host becomes.
#[derive(Clone, Debug)]
pub struct Unit {
    /// The servers of the host; absent when only canaries of other Ingresses are left.
    pub gateway: Option<Config>,
    /// Its routes; absent when it has none.
    pub virtual_service: Option<Config>,
    /// What its routes need beyond that; absent when it is nothing.
    pub envoy_filter: Option<Config>,
    /// What it uses together with other hosts.
    pub shared: BTreeSet<Shared>,
    /// What is wrong with the objects, as far as this host is concerned.
    pub diagnostics: Vec<Diagnostic>,
    /// Sources of the servers.
    pub gateway_sources: Vec<Source>,
    /// Sources of the routes, in their order.
    pub route_sources: Vec<Source>,
    /// Sources of the routes that need more.
    pub filter_sources: Vec<Source>,
}

/// Translates one host. `None` when no Ingress is left.
pub fn translate_host(inputs: &HostInputs<'_>) -> Option<Unit> {
    let sources = &inputs.sources;
    if sources.ingresses.is_empty() {
        return None;
    }
    let mut members: Vec<Member<'_>> = sources
        .ingresses
        .iter()
        .map(|ingress| Member {
            ingress,
            settings: Settings::parse(ingress).0,
            filters: RouteFilters::default(),
        })
        .collect();
    align_canaries(&mut members, sources.rules_of);
    let alone = Context {
        scope: inputs.scope,
        host: inputs.host,
        rules_of: sources.rules_of,
        alias: sources.alias,
        members: &[],
        services: inputs.services,
        secrets: inputs.secrets,
        regex_host: members.iter().any(|m| m.makes_regex_host(sources.rules_of)),
        certificate: members.iter().any(|m| m.has_certificate(inputs.host)),
    };
    let mut diagnostics = Diagnostics::default();
    for member in &mut members {
        member.look_up(alone, &mut diagnostics);
    }
    let context = Context {
        members: &members,
        ..alone
    };
    let mut of_routes = Diagnostics::default();
    let Rules { routes, mains } = rules::translate(context, &mut of_routes);
    let passthrough = passthrough::find(context, &mains, &mut diagnostics);
    let servers = gateway::translate(context, &mains, passthrough.as_ref(), &mut diagnostics);
    let mut routes = match context.alias {
        Some(offer) if offer.alias.kind == AliasKind::Redirect => {
            alias::redirect(context, offer, &mains)
                .into_iter()
                .collect()
        }
        _ => ordered(context, (routes, &mains), &mut of_routes),
    };
    let owner = routes.first().map(|route| route.ingress);
    error_page::add(context, &mut routes, &mut of_routes);
    // What is wrong with rules is said by their own host.
    if context.alias.is_none() {
        diagnostics.0.append(&mut of_routes.0);
    }
    alias::report(context.host, sources, &mut diagnostics);
    routes.iter_mut().for_each(annotations::complete);
    routes.iter_mut().for_each(annotations::close);
    let closed = servers.as_ref().map_or(&[][..], |servers| &servers.closed);
    close(&mut routes, closed);
    let filters = filters::translate(context, &mut routes);
    let route_sources = routes.iter().flat_map(Route::sources).collect();
    let (gateway, gateway_sources) = servers.map_or((None, Vec::new()), |servers| {
        (Some(servers.gateway), servers.sources)
    });
    Some(Unit {
        gateway,
        virtual_service: owner.map(|owner| virtual_service(context, owner, (routes, passthrough))),
        envoy_filter: filters.config,
        shared: filters.shared,
        diagnostics: diagnostics.0,
        gateway_sources,
        route_sources,
        filter_sources: filters.sources,
    })
}

/// All routes of a host's rules, in the order in which they are tried.
fn ordered<'a>(
    context: Context<'a>,
    (mut routes, mains): (Vec<Route<'a>>, &[&'a Member<'a>]),
    diagnostics: &mut Diagnostics,
) -> Vec<Route<'a>> {
    default_backend::add(context, &mut routes, diagnostics);
    app_root::add(context, &mut routes, diagnostics);
    not_found::add(context, mains, &mut routes);
    order::sort(&mut routes);
    order::flatten(routes)
}

/// Gives canaries the semantics of the Ingress whose paths they share.
fn align_canaries(members: &mut [Member<'_>], host: &str) {
    let first = members.first().map(|member| member.settings.semantics);
    if members
        .iter()
        .all(|member| Some(member.settings.semantics) == first)
    {
        return;
    }
    let mut of_paths: HashMap<&str, Semantics> = HashMap::new();
    for member in members.iter().filter(|m| m.settings.canary.is_none()) {
        for (_, rule) in member.ingress.rules_of(host) {
            for path in &rule.paths {
                let semantics = member.settings.semantics;
                of_paths.entry(&path.path).or_insert(semantics);
            }
        }
    }
    for member in members.iter_mut().filter(|m| m.settings.canary.is_some()) {
        let rules = member.ingress.rules_of(host);
        let mut paths = rules.flat_map(|(_, rule)| &rule.paths);
        let found = paths.find_map(|path| of_paths.get(&*path.path));
        if let Some(semantics) = found.filter(|s| **s != member.settings.semantics) {
            let mut ingress = member.ingress.clone();
            ingress.semantics = *semantics;
            member.settings = Settings::parse(&ingress).0;
        }
    }
}

/// Closes the routes of Ingresses whose demands on clients are not met by the servers.
fn close(routes: &mut [Route<'_>], closed: &[&Ingress]) {
    for route in routes {
        if closed.iter().any(|i| i.age() == route.ingress.age()) {
            traffic::forbid(&mut route.http);
        }
    }
}

fn virtual_service(
    context: Context<'_>,
    owner: &Ingress,
    (routes, passthrough): (Vec<Route<'_>>, Option<Passthrough<'_>>),
) -> Config {
    let Context { scope, host, .. } = context;
    let name = names::virtual_service(owner, host);
    let mut meta = Meta::new(scope.system_namespace.clone(), name);
    let cluster = scope.cluster_in_names().to_owned();
    meta.annotations
        .insert(names::CLUSTER_ID_ANNOTATION.to_owned(), cluster);
    let spec = VirtualService {
        hosts: vec![host.to_owned()],
        gateways: names::gateway_references(scope, host),
        http: routes.into_iter().map(|route| route.http).collect(),
        tls: passthrough.into_iter().map(|p| p.route).collect(),
        ..VirtualService::default()
    };
    Config::new(meta, spec)
}

/// What is wrong, in the order in which it was found.
#[derive(Debug, Default)]
struct Diagnostics(Vec<Diagnostic>);

impl Diagnostics {
    fn add(&mut self, ingress: &Ingress, field: String, reason: Reason, message: String) {
        self.0.push(Diagnostic {
            object: Some(object_ref(ingress)),
            place: None,
            field,
            reason,
            message,
        });
    }

    /// Adds what may have been found for another route already.
    fn once(&mut self, diagnostic: Diagnostic) {
        if !self.0.contains(&diagnostic) {
            self.0.push(diagnostic);
        }
    }
}

fn object_ref(ingress: &Ingress) -> ObjectRef {
    ObjectRef {
        kind: ObjectKind::Ingress,
        namespace: ingress.namespace.clone(),
        name: ingress.name.clone(),
    }
}
