//! Servers whose TLS ends at the backend: connections are passed on by the name in their handshake.

use envoy_types::pb::envoy::config::listener::v3 as listener;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3 as tcp_proxy;
use tcp_proxy::tcp_proxy::{ClusterSpecifier, WeightedCluster, weighted_cluster::ClusterWeight};

use super::ListenerInput;
use crate::translate::issue::Origin;
use crate::translate::{names, proto};

/// Some hosts whose connections go to backends as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passthrough {
    /// The object it comes from.
    pub origin: Origin,
    /// Hosts, without namespace; `*` means every name, and connections without one.
    pub hosts: Vec<String>,
    /// Clusters with their shares; none when there is nowhere to go, so that connections are closed.
    pub clusters: Vec<(String, u32)>,
}

pub(super) fn filter_chain(
    input: &ListenerInput,
    chain: &Passthrough,
    matching: Option<listener::FilterChainMatch>,
) -> listener::FilterChain {
    let specifier = match chain.clusters.as_slice() {
        [] => return closed(matching),
        [(only, _)] => ClusterSpecifier::Cluster(only.clone()),
        several => {
            let weight = |(name, weight): &(String, u32)| ClusterWeight {
                name: name.clone(),
                weight: *weight,
                ..Default::default()
            };
            ClusterSpecifier::WeightedClusters(WeightedCluster {
                clusters: several.iter().map(weight).collect(),
            })
        }
    };
    listener::FilterChain {
        filter_chain_match: matching,
        filters: vec![proxy(super::default_stat_prefix(input), specifier)],
        ..Default::default()
    }
}

/// Closes every connection: there is nowhere to go. Without the chain its hosts would fall to one for more hosts, which
/// may not ask for a certificate.
pub(super) fn closed(matching: Option<listener::FilterChainMatch>) -> listener::FilterChain {
    let nowhere = ClusterSpecifier::Cluster(names::BLACK_HOLE_CLUSTER.to_owned());
    listener::FilterChain {
        filter_chain_match: matching,
        filters: vec![proxy("refused".to_owned(), nowhere)],
        ..Default::default()
    }
}

fn proxy(stat_prefix: String, specifier: ClusterSpecifier) -> listener::Filter {
    let config = tcp_proxy::TcpProxy {
        stat_prefix,
        cluster_specifier: Some(specifier),
        ..Default::default()
    };
    listener::Filter {
        name: "envoy.filters.network.tcp_proxy".to_owned(),
        config_type: Some(listener::filter::ConfigType::TypedConfig(proto::any(
            &config,
        ))),
    }
}
