//! Listeners of the bootstrap that let others see how a gateway is, without opening its admin interface.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::{BootstrapOptions, socket_address};

/// Name of the cluster that leads to the gateway's own admin interface.
const ADMIN_CLUSTER: &str = "isthmus_admin";
/// What the statistics of these listeners are called; [`crate::gateway`] does not count their connections.
pub(crate) const STAT_PREFIX: &str = "isthmus_";

/// The clusters that the listeners need.
pub(super) fn clusters(options: &BootstrapOptions) -> Vec<Value> {
    if options.status_port.is_none() && options.metrics_port.is_none() {
        return Vec::new();
    }
    let address = socket_address(&options.admin_address.to_string(), options.admin_port);
    vec![json!({
        "name": ADMIN_CLUSTER,
        "type": "STATIC",
        "connect_timeout": "1s",
        "load_assignment": {
            "cluster_name": ADMIN_CLUSTER,
            "endpoints": [{ "lb_endpoints": [{ "endpoint": { "address": address } }] }],
        },
    })]
}

/// A listener for readiness and one for metrics, where they are asked for. Each knows a single path and no other method than
/// GET, so that nobody can change anything through it.
pub(super) fn listeners(options: &BootstrapOptions) -> Vec<Value> {
    let status = options
        .status_port
        .map(|port| listener(options.ip, "status", port, "/healthz/ready", "/ready"));
    let metrics = options.metrics_port.map(|port| {
        let path = "/stats/prometheus";
        listener(options.ip, "metrics", port, path, path)
    });
    status.into_iter().chain(metrics).collect()
}

fn listener(ip: IpAddr, name: &str, port: u16, path: &str, admin_path: &str) -> Value {
    let any = match ip {
        IpAddr::V4(_) => "0.0.0.0",
        IpAddr::V6(_) => "::",
    };
    let name = format!("{STAT_PREFIX}{name}");
    let route = json!({
        "match": {
            "path": path,
            "headers": [{ "name": ":method", "string_match": { "exact": "GET" } }],
        },
        "route": { "cluster": ADMIN_CLUSTER, "prefix_rewrite": admin_path },
    });
    let manager = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": name,
        "route_config": {
            "virtual_hosts": [{ "name": name, "domains": ["*"], "routes": [route] }],
        },
        "http_filters": [{
            "name": "envoy.filters.http.router",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router",
            },
        }],
    });
    json!({
        "name": name,
        "stat_prefix": name,
        "address": socket_address(any, port),
        // A gateway at its limits is busy, not broken.
        "ignore_global_conn_limit": true,
        "bypass_overload_manager": true,
        "filter_chains": [{
            "filters": [{
                "name": "envoy.filters.network.http_connection_manager",
                "typed_config": manager,
            }],
        }],
    })
}
