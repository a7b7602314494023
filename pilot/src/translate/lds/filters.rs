//! HTTP filters of a gateway, in their fixed order.
//!
//! `scope (several times, with routes on demand an on_demand before and after each) cors custom_response rbac local_ratelimit [grpc_web] fault router`. Most of them
//! do nothing by themselves: they are there so that a route can configure them.

use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::extensions::filters::http as filter;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;

use super::Routing;
use crate::translate::{ecds, names, proto};

/// Name of the CORS filter.
pub(crate) const CORS: &str = "envoy.filters.http.cors";
/// Name of the filter that replaces error responses.
pub(crate) const CUSTOM_RESPONSE: &str = "envoy.filters.http.custom_response";
/// Name of the fault injection filter.
pub(crate) const FAULT: &str = "envoy.filters.http.fault";
/// Name of the access control filter.
pub(crate) const RBAC: &str = "envoy.filters.http.rbac";
/// Name of the rate limit filter.
pub(crate) const LOCAL_RATE_LIMIT: &str = "envoy.filters.http.local_ratelimit";

const GRPC_WEB: &str = "envoy.filters.http.grpc_web";
/// Name of the filter that fetches routes.
pub(crate) const ON_DEMAND: &str = "envoy.filters.http.on_demand";
/// Name of the filter that sends requests on.
pub(crate) const ROUTER: &str = "envoy.filters.http.router";

/// All filters of a connection manager.
pub(super) fn chain(port: u16, routing: Routing, grpc_web: bool) -> Vec<hcm::HttpFilter> {
    let mut filters = scope_filters(port, routing);
    filters.push(typed(CORS, &filter::cors::v3::Cors {}));
    filters.push(typed(
        CUSTOM_RESPONSE,
        &filter::custom_response::v3::CustomResponse::default(),
    ));
    filters.push(typed(RBAC, &filter::rbac::v3::Rbac::default()));
    filters.push(typed(LOCAL_RATE_LIMIT, &local_rate_limit()));
    if grpc_web {
        filters.push(typed(GRPC_WEB, &filter::grpc_web::v3::GrpcWeb {}));
    }
    filters.push(typed(FAULT, &filter::fault::v3::HttpFault::default()));
    filters.push(typed(ROUTER, &filter::router::v3::Router::default()));
    filters
}

/// With routes on demand, every scope that is tried is followed by a fetch of its routes.
fn scope_filters(port: u16, routing: Routing) -> Vec<hcm::HttpFilter> {
    let Routing::Scoped { on_demand } = routing else {
        return Vec::new();
    };
    let fetch = on_demand.then(|| typed(ON_DEMAND, &filter::on_demand::v3::OnDemand::default()));
    let mut filters: Vec<hcm::HttpFilter> = fetch.iter().cloned().collect();
    for _ in 0..ecds::runs(on_demand) {
        filters.push(scope(port));
        filters.extend(fetch.clone());
    }
    filters
}

fn scope(port: u16) -> hcm::HttpFilter {
    let source = core::ExtensionConfigSource {
        config_source: Some(proto::ads()),
        type_urls: vec![ecds::scope_filter_type_url()],
        ..Default::default()
    };
    hcm::HttpFilter {
        name: names::scope_filter_name(port),
        config_type: Some(hcm::http_filter::ConfigType::ConfigDiscovery(source)),
        ..Default::default()
    }
}

fn local_rate_limit() -> filter::local_ratelimit::v3::LocalRateLimit {
    filter::local_ratelimit::v3::LocalRateLimit {
        stat_prefix: "http_local_rate_limiter".to_owned(),
        ..Default::default()
    }
}

fn typed<M: prost::Message + prost::Name>(name: &str, config: &M) -> hcm::HttpFilter {
    hcm::HttpFilter {
        name: name.to_owned(),
        config_type: Some(hcm::http_filter::ConfigType::TypedConfig(proto::any(
            config,
        ))),
        ..Default::default()
    }
}
