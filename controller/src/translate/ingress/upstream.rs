//! Policies of an upstream: the DestinationRule that the annotations of all Ingresses that refer to it add up to.
//!
//! Each port has the policy of the oldest Ingress that refers to it and has one. Policies are not mixed.

use std::collections::{BTreeMap, BTreeSet};

use shared_proto::networking::v1alpha3::client_tls_settings::TlSmode;
use shared_proto::networking::v1alpha3::traffic_policy::PortTrafficPolicy;
use shared_proto::networking::v1alpha3::{
    ClientTlsSettings, DestinationRule, PortSelector, Subset, TrafficPolicy,
};
use shared_proto::{Config, Meta};

use super::annotations::table::SSL_PASSTHROUGH;
use super::backend::is_service_name;
use super::object_ref;
use super::provenance::{self, Source};
use crate::model::{BackendPort, Diagnostic, Ingress, Reason, Scope, Upstream};
use crate::resolve::{Contribution, Services};
use crate::translate::names;

/// Everything that an upstream's policy is built from.
#[derive(Clone, Copy)]
pub struct UpstreamInputs<'a> {
    /// Options.
    pub scope: &'a Scope,
    /// The upstream.
    pub upstream: &'a Upstream,
    /// What Ingresses say about it, oldest first.
    pub contributions: &'a [Contribution],
    /// Services, for ports given by name.
    pub services: &'a dyn Services,
}

impl std::fmt::Debug for UpstreamInputs<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UpstreamInputs")
            .field("upstream", &self.upstream)
            .field("contributions", &self.contributions)
            .finish_non_exhaustive()
    }
}

/// What an upstream becomes.
#[derive(Clone, Debug, Default)]
pub struct UpstreamUnit {
    /// Its policy, if it has one.
    pub destination_rule: Option<Config>,
    /// What is wrong with the Ingresses, as far as this policy is concerned.
    pub diagnostics: Vec<Diagnostic>,
    /// Sources of the policy.
    pub sources: Vec<Source>,
}

/// Port -> who decides about it, and how. No port stands for the upstream as a whole.
type Policies<'a> = BTreeMap<Option<u16>, (&'a Ingress, &'a PortTrafficPolicy)>;

/// Translates the policy of one upstream.
pub fn translate_upstream(inputs: &UpstreamInputs<'_>) -> UpstreamUnit {
    let mut policies = Policies::new();
    let mut unit = UpstreamUnit::default();
    let registry = inputs.upstream.registry_host().is_some();
    if !registry && !is_service_name(inputs.upstream.name()) {
        // Reported by the hosts that refer to it.
        return unit;
    }
    for contribution in inputs.contributions {
        let (ingress, policy) = (&*contribution.ingress, &*contribution.policy);
        let mut conflicts: BTreeMap<Option<u16>, Diagnostic> = BTreeMap::new();
        for port in &contribution.ports {
            let Some(port) = number(inputs, port) else {
                continue;
            };
            match policies.get(&port) {
                Some((_, used)) if *used == policy => {}
                Some((owner, _)) => {
                    let found = conflict(inputs.upstream, port, owner, ingress);
                    conflicts.entry(port).or_insert(found);
                }
                None => _ = policies.insert(port, (ingress, policy)),
            }
        }
        unit.diagnostics.extend(conflicts.into_values());
    }
    let passing: Vec<&Contribution> = inputs.contributions.iter().filter(|c| c.passes).collect();
    if !policies.is_empty() || !passing.is_empty() {
        let ingresses = passing.iter().map(|c| &*c.ingress);
        unit.sources = sources(&policies, ingresses);
        unit.destination_rule = Some(config(inputs, policies, !passing.is_empty()));
    }
    unit
}

/// The number of a port, `Some(None)` for the upstream as a whole; `None` when it cannot be told, which hosts report.
fn number(inputs: &UpstreamInputs<'_>, port: &BackendPort) -> Option<Option<u16>> {
    let upstream = inputs.upstream;
    match port {
        BackendPort::Number(number) => Some(Some(*number)),
        BackendPort::Name(name) => {
            let service = inputs
                .services
                .service(upstream.namespace(), upstream.name())?;
            service.port(name).map(Some)
        }
        BackendPort::Absent if upstream.registry_host().is_some() => Some(None),
        BackendPort::Absent | BackendPort::OutOfRange(_) => None,
    }
}

fn conflict(
    upstream: &Upstream,
    port: Option<u16>,
    owner: &Ingress,
    loser: &Ingress,
) -> Diagnostic {
    let port = port.map_or(String::new(), |port| format!(":{port}"));
    let message = format!(
        "load balancing, protocol and connect timeout of {}/{}{port} are those of Ingress {}/{}, which is older (or first by name at equal age); give both the same annotations",
        upstream.namespace(),
        upstream.name(),
        owner.namespace,
        owner.name
    );
    Diagnostic {
        object: Some(object_ref(loser)),
        place: None,
        field: "metadata.annotations".to_owned(),
        reason: Reason::DuplicatePolicy,
        message,
    }
}

/// The annotations of the Ingresses that decide about a port or pass connections on, each once.
fn sources<'a>(policies: &Policies<'_>, passing: impl Iterator<Item = &'a Ingress>) -> Vec<Source> {
    let all = policies.values();
    let mut all: BTreeSet<Source> = all.flat_map(|(i, _)| provenance::of_policy(i)).collect();
    all.extend(passing.flat_map(|i| provenance::of_key(i, &SSL_PASSTHROUGH)));
    all.into_iter().collect()
}

/// All endpoints, spoken to by nobody but the client.
fn passthrough_subset() -> Subset {
    let tls = ClientTlsSettings {
        mode: TlSmode::Disable.into(),
        ..ClientTlsSettings::default()
    };
    Subset {
        name: names::PASSTHROUGH_SUBSET.to_owned(),
        traffic_policy: Some(TrafficPolicy {
            tls: Some(tls),
            ..TrafficPolicy::default()
        }),
        ..Subset::default()
    }
}

fn config(inputs: &UpstreamInputs<'_>, policies: Policies<'_>, passes: bool) -> Config {
    let is_ruled = !policies.is_empty();
    let mut policy = TrafficPolicy::default();
    for (port, (_, settings)) in policies {
        match port {
            None => {
                policy.load_balancer.clone_from(&settings.load_balancer);
                policy.connection_pool.clone_from(&settings.connection_pool);
                policy.tls.clone_from(&settings.tls);
            }
            Some(number) => policy.port_level_settings.push(PortTrafficPolicy {
                port: Some(PortSelector {
                    number: number.into(),
                }),
                ..settings.clone()
            }),
        }
    }
    let scope = inputs.scope;
    let name = names::destination_rule(scope, inputs.upstream);
    let spec = DestinationRule {
        host: names::upstream_host(scope, inputs.upstream),
        traffic_policy: is_ruled.then_some(policy),
        subsets: passes.then(passthrough_subset).into_iter().collect(),
        ..DestinationRule::default()
    };
    Config::new(Meta::new(scope.system_namespace.clone(), name), spec)
}
