//! Envoy's route messages with ordered maps: equal messages have equal bytes.
//!
//! The generated Envoy types keep per-filter configs in hash maps, whose order differs from run to
//! run. These have the same field numbers, with the fields that the pilot fills.

use std::collections::BTreeMap;

use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::config::route::v3 as route;
use envoy_types::pb::google::protobuf;

pub use route::route::Action;

/// `envoy.config.route.v3.RouteConfiguration`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RouteConfiguration {
    /// Resource name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Virtual hosts, no two with the same domain.
    #[prost(message, repeated, tag = "2")]
    pub virtual_hosts: Vec<VirtualHost>,
    /// Whether a missing cluster makes the resource invalid; must be false.
    #[prost(message, optional, tag = "7")]
    pub validate_clusters: Option<protobuf::BoolValue>,
    /// Request headers that never reach a backend.
    #[prost(string, repeated, tag = "8")]
    pub request_headers_to_remove: Vec<String>,
    /// Bound on direct response bodies.
    #[prost(message, optional, tag = "11")]
    pub max_direct_response_body_size_bytes: Option<protobuf::UInt32Value>,
    /// Domains match a host with any port.
    #[prost(bool, tag = "14")]
    pub ignore_port_in_host_matching: bool,
}

/// `envoy.config.route.v3.VirtualHost`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct VirtualHost {
    /// Unique name within the configuration.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Domains, lower case.
    #[prost(string, repeated, tag = "2")]
    pub domains: Vec<String>,
    /// Routes; the first one that matches serves.
    #[prost(message, repeated, tag = "3")]
    pub routes: Vec<Route>,
    /// Whether plain HTTP is redirected.
    #[prost(enumeration = "route::virtual_host::TlsRequirementType", tag = "4")]
    pub require_tls: i32,
    /// Tell backends which attempt a request is.
    #[prost(bool, tag = "14")]
    pub include_request_attempt_count: bool,
    /// Filter settings for all routes, by filter name.
    #[prost(btree_map = "string, message", tag = "15")]
    pub typed_per_filter_config: BTreeMap<String, protobuf::Any>,
    /// Retries of all routes without their own.
    #[prost(message, optional, tag = "16")]
    pub retry_policy: Option<route::RetryPolicy>,
}

/// `envoy.config.route.v3.Route`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Route {
    /// Never empty: a request without route name is one that matched nothing.
    #[prost(string, tag = "14")]
    pub name: String,
    /// Which requests it serves.
    #[prost(message, optional, tag = "1")]
    pub r#match: Option<route::RouteMatch>,
    /// The object it comes from.
    #[prost(message, optional, tag = "4")]
    pub metadata: Option<core::Metadata>,
    /// Filter settings, by filter name.
    #[prost(btree_map = "string, message", tag = "13")]
    pub typed_per_filter_config: BTreeMap<String, protobuf::Any>,
    /// Request headers to set and to add.
    #[prost(message, repeated, tag = "9")]
    pub request_headers_to_add: Vec<core::HeaderValueOption>,
    /// Request headers to remove.
    #[prost(string, repeated, tag = "12")]
    pub request_headers_to_remove: Vec<String>,
    /// Response headers to set and to add.
    #[prost(message, repeated, tag = "10")]
    pub response_headers_to_add: Vec<core::HeaderValueOption>,
    /// Response headers to remove.
    #[prost(string, repeated, tag = "11")]
    pub response_headers_to_remove: Vec<String>,
    /// Prefix of the route's own statistics.
    #[prost(string, tag = "19")]
    pub stat_prefix: String,
    /// What is done with a request.
    #[prost(oneof = "Action", tags = "2, 3, 7, 17, 18")]
    pub action: Option<Action>,
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    fn sample() -> RouteConfiguration {
        let settings: BTreeMap<String, protobuf::Any> = (0..8)
            .map(|n| (format!("filter-{n}"), protobuf::Any::default()))
            .collect();
        RouteConfiguration {
            name: "r".to_owned(),
            validate_clusters: Some(protobuf::BoolValue { value: false }),
            request_headers_to_remove: vec!["x".to_owned()],
            max_direct_response_body_size_bytes: Some(protobuf::UInt32Value { value: 1 }),
            ignore_port_in_host_matching: true,
            virtual_hosts: vec![VirtualHost {
                name: "v".to_owned(),
                domains: vec!["*".to_owned()],
                require_tls: route::virtual_host::TlsRequirementType::All.into(),
                include_request_attempt_count: true,
                typed_per_filter_config: settings.clone(),
                retry_policy: Some(route::RetryPolicy::default()),
                routes: vec![Route {
                    name: "n".to_owned(),
                    r#match: Some(route::RouteMatch::default()),
                    metadata: Some(core::Metadata::default()),
                    typed_per_filter_config: settings,
                    request_headers_to_add: vec![core::HeaderValueOption::default()],
                    request_headers_to_remove: vec!["a".to_owned()],
                    response_headers_to_add: vec![core::HeaderValueOption::default()],
                    response_headers_to_remove: vec!["b".to_owned()],
                    stat_prefix: "s".to_owned(),
                    action: Some(Action::DirectResponse(
                        route::DirectResponseAction::default(),
                    )),
                }],
            }],
        }
    }

    #[test]
    fn envoys_own_types_read_every_field() {
        let read = route::RouteConfiguration::decode(sample().encode_to_vec().as_slice()).unwrap();
        let host = &read.virtual_hosts[0];
        let row = &host.routes[0];
        assert_eq!(read.validate_clusters, sample().validate_clusters);
        assert_eq!(read.request_headers_to_remove, ["x"]);
        assert!(read.max_direct_response_body_size_bytes.is_some());
        assert!(read.ignore_port_in_host_matching);
        assert_eq!(
            host.require_tls(),
            route::virtual_host::TlsRequirementType::All
        );
        assert!(host.include_request_attempt_count && host.retry_policy.is_some());
        assert_eq!(host.typed_per_filter_config.len(), 8);
        assert_eq!((row.name.as_str(), row.stat_prefix.as_str()), ("n", "s"));
        assert!(row.r#match.is_some() && row.metadata.is_some() && row.action.is_some());
        assert_eq!(row.typed_per_filter_config.len(), 8);
        assert_eq!(row.request_headers_to_remove, ["a"]);
        assert_eq!(row.response_headers_to_remove, ["b"]);
        assert_eq!(row.request_headers_to_add.len(), 1);
        assert_eq!(row.response_headers_to_add.len(), 1);
    }
}
