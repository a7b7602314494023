//! A cluster that falls back to others while its first one has no usable endpoint.

use envoy_types::pb::envoy::config::cluster::v3 as cluster;
use envoy_types::pb::envoy::extensions::clusters::aggregate::v3 as aggregate;

use super::{ClusterOptions, circuit_breakers};
use crate::translate::{names, proto};

/// The cluster of these members in their order, under the name made from them. Members that do not exist are skipped
/// by Envoy until they do.
#[must_use]
pub fn fallback_cluster<S: AsRef<str>>(
    members: &[S],
    options: &ClusterOptions,
) -> cluster::Cluster {
    let config = aggregate::ClusterConfig {
        clusters: members
            .iter()
            .map(|member| member.as_ref().to_owned())
            .collect(),
    };
    let kind = cluster::cluster::CustomClusterType {
        name: "envoy.clusters.aggregate".to_owned(),
        typed_config: Some(proto::any(&config)),
    };
    cluster::Cluster {
        name: names::fallback_cluster_name(members),
        cluster_discovery_type: Some(cluster::cluster::ClusterDiscoveryType::ClusterType(kind)),
        lb_policy: cluster::cluster::LbPolicy::ClusterProvided.into(),
        connect_timeout: Some(proto::duration(options.connect_timeout)),
        circuit_breakers: Some(circuit_breakers(options.concurrency_threshold)),
        ..Default::default()
    }
}
