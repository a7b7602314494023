//! Patches of a cluster.

use bytes::Bytes;

use super::{Problems, is_merge, keep_name, types};
use crate::model::envoy_filter::{ClusterMatch, Operation, Patch};
use crate::translate::issue::Generated;

/// What a cluster is for.
#[derive(Clone, Copy, Debug)]
pub struct ClusterSite<'a> {
    /// Its name.
    pub name: &'a str,
    /// Host name of the service.
    pub hostname: &'a str,
    /// Port of the service.
    pub port: u16,
    /// Subset of its endpoints; empty for all.
    pub subset: &'a str,
}

impl ClusterSite<'_> {
    fn meets(&self, wanted: &ClusterMatch) -> bool {
        if !wanted.name.is_empty() {
            return wanted.name == self.name;
        }
        (wanted.service.is_empty() || wanted.service.eq_ignore_ascii_case(self.hostname))
            && (wanted.subset.is_empty() || wanted.subset == self.subset)
            && (wanted.port_number == 0 || wanted.port_number == u32::from(self.port))
    }
}

/// The patched cluster; `None` when a patch removes it.
#[must_use]
pub fn cluster(
    site: ClusterSite<'_>,
    cluster: Bytes,
    patches: &[&Patch],
) -> Generated<Option<Bytes>> {
    let mut problems = Problems::of(site.name);
    let patches: Vec<&Patch> = patches
        .iter()
        .filter(|patch| patch.cluster().is_none_or(|wanted| site.meets(wanted)))
        .copied()
        .collect();
    let removed = |patch: &&Patch| patch.operation == Operation::Remove;
    if patches.iter().any(removed) {
        return Generated {
            resource: None,
            issues: problems.issues,
        };
    }
    let mut patched = cluster;
    for patch in patches.iter().filter(|patch| is_merge(patch)) {
        if let Some(merged) = problems.merge(types::CLUSTER, &patched, patch) {
            patched = keep_name(merged, site.name);
        }
    }
    Generated {
        resource: Some(patched),
        issues: problems.issues,
    }
}
