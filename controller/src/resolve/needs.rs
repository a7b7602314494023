//! What an Ingress depends on beyond its rules. Its annotations say so; who can read them says it to the resolver.

use std::collections::BTreeSet;
use std::sync::Arc;

use shared_proto::networking::v1alpha3::traffic_policy::PortTrafficPolicy;

use super::Alias;
use crate::model::{BackendPort, Ingress, Scope, Upstream};

/// Dependencies that follow from annotations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Needs {
    /// Services (namespace, name) whose ports its routes look up: each change of one concerns all hosts of the Ingress.
    pub services: BTreeSet<(Arc<str>, Arc<str>)>,
    /// Secrets (namespace, name) that its routes are made of: each change of one concerns all hosts of the Ingress.
    pub secrets: BTreeSet<(Arc<str>, Arc<str>)>,
    /// Upstreams whose policy it has a say in, with the port as written, in the order of the object. A port that is
    /// absent means the upstream as a whole.
    pub upstreams: Vec<(Upstream, BackendPort)>,
    /// Hosts beside those of its rules. Each is one of a kind; the host that it stands beside is one of its rules'.
    pub aliases: Vec<Alias>,
    /// Upstreams that connections are passed on to as they are.
    pub passed: BTreeSet<Upstream>,
    /// The policy, of no port yet.
    pub policy: Arc<PortTrafficPolicy>,
}

/// Says what an Ingress needs. Pure: equal Ingresses have equal needs.
pub type NeedsOf = fn(&Scope, &Ingress) -> Needs;
