//! What an Ingress depends on beyond its rules. Its annotations say so; who can read them says it to the resolver.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::{BackendPort, Ingress, Upstream};

/// Dependencies that follow from annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Services (namespace, name) whose ports its routes look up: each change of one concerns all hosts of the Ingress.
    pub services: BTreeSet<(Arc<str>, Arc<str>)>,
    /// Upstreams whose policy it has a say in, with the port as written, in the order of the object. A port that is
    /// absent means the upstream as a whole.
    pub upstreams: Vec<(Upstream, BackendPort)>,
}

impl Needs {
    /// The upstreams, each once.
    pub(super) fn distinct_upstreams(&self) -> BTreeSet<&Upstream> {
        self.upstreams
            .iter()
            .map(|(upstream, _)| upstream)
            .collect()
    }

    /// The ports of every upstream, in the order of the object.
    pub(super) fn by_upstream(&self) -> BTreeMap<&Upstream, Vec<&BackendPort>> {
        let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (upstream, port) in &self.upstreams {
            all.entry(upstream).or_default().push(port);
        }
        all
    }

    /// The ports of one upstream, in the order of the object.
    pub fn ports_of(&self, upstream: &Upstream) -> impl Iterator<Item = &BackendPort> {
        let all = self.upstreams.iter();
        all.filter(move |(u, _)| u == upstream)
            .map(|(_, port)| port)
    }
}

/// Says what an Ingress needs. Pure: equal Ingresses have equal needs.
pub type NeedsOf = fn(&Ingress) -> Needs;
