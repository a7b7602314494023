//! The index from upstreams to the Ingresses that have a say in their policy.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use shared_proto::networking::v1alpha3::traffic_policy::PortTrafficPolicy;

use super::Needs;
use crate::model::{BackendPort, Ingress, Upstream};

/// What one Ingress says about an upstream.
#[derive(Clone, Debug)]
pub struct Contribution {
    /// The Ingress.
    pub ingress: Arc<Ingress>,
    /// The ports as written, in the order of the object. An absent one means the upstream as a whole.
    pub ports: Box<[BackendPort]>,
    /// The policy for these ports.
    pub policy: Arc<PortTrafficPolicy>,
    /// It passes connections on as they are.
    pub passes: bool,
}

/// Upstreams with a policy.
#[derive(Debug, Default)]
pub(super) struct Upstreams {
    /// Upstream -> what Ingresses say about it, oldest first.
    contributions: HashMap<Upstream, Vec<Contribution>>,
}

/// A version of an Ingress and what it needs.
pub(super) type Version<'a> = Option<(&'a Arc<Ingress>, &'a Needs)>;

impl Upstreams {
    /// What Ingresses say about an upstream, oldest first.
    pub(super) fn of(&self, upstream: &Upstream) -> &[Contribution] {
        self.contributions.get(upstream).map_or(&[], Vec::as_slice)
    }

    /// All of them, in no order.
    pub(super) fn all(&self) -> impl Iterator<Item = &Upstream> {
        self.contributions.keys()
    }

    /// True when the policy of an upstream depends on the ports of its Service.
    pub(super) fn looks_ports_up(&self, upstream: &Upstream) -> bool {
        let named = |port: &BackendPort| matches!(port, BackendPort::Name(_));
        self.of(upstream)
            .iter()
            .any(|contribution| contribution.ports.iter().any(named))
    }

    /// Replaces one version of an Ingress by the next and adds the upstreams whose policy may differ to `dirty`.
    pub(super) fn replace(
        &mut self,
        old: Version<'_>,
        new: Version<'_>,
        dirty: &mut BTreeSet<Upstream>,
    ) {
        let (before, after) = (by_upstream(old), by_upstream(new));
        let same = match (old, new) {
            (Some((old, old_needs)), Some((new, new_needs))) => {
                old.created == new.created
                    && old_needs.policy == new_needs.policy
                    && old_needs.passed == new_needs.passed
            }
            _ => false,
        };
        for upstream in before.keys().chain(after.keys()) {
            if !same || before.get(upstream) != after.get(upstream) {
                dirty.insert((*upstream).clone());
            }
        }
        if let Some((ingress, _)) = old {
            before
                .keys()
                .for_each(|upstream| self.leave(upstream, ingress));
        }
        if let Some((ingress, needs)) = new {
            for (upstream, ports) in after {
                let contributions = self.contributions.entry(upstream.clone()).or_default();
                let at = contributions.partition_point(|c| c.ingress.age() < ingress.age());
                let contribution = Contribution {
                    ingress: ingress.clone(),
                    ports: ports.into_iter().cloned().collect(),
                    policy: needs.policy.clone(),
                    passes: needs.passed.contains(upstream),
                };
                contributions.insert(at, contribution);
            }
        }
    }

    fn leave(&mut self, upstream: &Upstream, ingress: &Ingress) {
        let Some(contributions) = self.contributions.get_mut(upstream) else {
            return;
        };
        contributions.retain(|c| c.ingress.age() != ingress.age());
        if contributions.is_empty() {
            self.contributions.remove(upstream);
        }
    }
}

/// The ports of every upstream, in the order of the object.
fn by_upstream(version: Version<'_>) -> BTreeMap<&Upstream, Vec<&BackendPort>> {
    let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for upstream in version.into_iter().flat_map(|(_, needs)| &needs.passed) {
        all.entry(upstream).or_default();
    }
    for (upstream, port) in version.into_iter().flat_map(|(_, needs)| &needs.upstreams) {
        all.entry(upstream).or_default().push(port);
    }
    all
}
