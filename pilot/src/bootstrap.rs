//! The Envoy bootstrap of a gateway: who it is and where its configuration comes from.
//!
//! Pure: options in, JSON out. Everything else comes over ADS.

mod listeners;
mod xds;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::model::proxy::{ON_DEMAND_RDS_KEY, SCOPED_RDS_KEY};

pub(crate) use listeners::STAT_PREFIX;

/// Largest compiled regular expression that Envoy takes. Its own default of 100 would refuse a whole route configuration for
/// one long path; the routes' expressions are bounded below this one.
const MAX_REGEX: u32 = 32_768;

/// What a gateway's bootstrap is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootstrapOptions {
    /// Host name or address of the pilot.
    pub xds_host: String,
    /// Port of the pilot's xDS server.
    pub xds_port: u16,
    /// How to reach it over TLS; `None` = in plain text.
    pub xds_tls: Option<XdsTls>,
    /// Variant of the xDS protocol.
    pub protocol: XdsProtocol,
    /// Node id; `None` makes one of the fields below.
    pub node_id: Option<String>,
    /// Pod name, or any name that is unique within the namespace.
    pub name: String,
    /// Namespace of the gateway.
    pub namespace: String,
    /// DNS domain of the Kubernetes cluster.
    pub domain: String,
    /// Address of the gateway itself.
    pub ip: IpAddr,
    /// Labels that Gateways select proxies by.
    pub labels: BTreeMap<String, String>,
    /// Name of the Kubernetes cluster.
    pub cluster_id: String,
    /// Istio version that the proxy says it has.
    pub istio_version: String,
    /// Address of Envoy's admin interface. It is not protected: keep it on loopback.
    pub admin_address: IpAddr,
    /// Port of the admin interface; 0 picks a free one.
    pub admin_port: u16,
    /// Port that answers `/healthz/ready`, on all interfaces; needs a fixed admin port.
    pub status_port: Option<u16>,
    /// Port that answers `/stats/prometheus`, on all interfaces; needs a fixed admin port.
    pub metrics_port: Option<u16>,
    /// Client connections that are served at the same time, over all listeners.
    pub max_connections: u64,
    /// Whether this gateway selects route configurations by scoped routes; `None` = as the pilot says.
    pub scoped_rds: Option<bool>,
    /// Whether this gateway fetches routes at the first request; `None` = as the pilot says.
    pub on_demand_rds: Option<bool>,
}

/// xDS over TLS. Envoy reads all files; authority and certificate at its start, the token for every stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdsTls {
    /// Authority that vouches for the pilot.
    pub ca: PathBuf,
    /// Token of the gateway's ServiceAccount.
    pub token: Option<PathBuf>,
    /// Client certificate and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Name in the pilot's certificate, when it is not the host.
    pub server_name: Option<String>,
}

/// Variants of the xDS protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdsProtocol {
    /// Only what changed.
    #[default]
    Delta,
    /// State of the world.
    Sotw,
}

impl Default for BootstrapOptions {
    fn default() -> Self {
        let loopback = IpAddr::from([127, 0, 0, 1]);
        let selector = ("higress", "higress-system-higress-gateway");
        Self {
            xds_host: "127.0.0.1".to_owned(),
            xds_port: 15010,
            xds_tls: None,
            protocol: XdsProtocol::Delta,
            node_id: None,
            name: "gateway".to_owned(),
            namespace: "higress-system".to_owned(),
            domain: "cluster.local".to_owned(),
            ip: loopback,
            labels: [(selector.0.to_owned(), selector.1.to_owned())].into(),
            cluster_id: "Kubernetes".to_owned(),
            istio_version: "1.27.0".to_owned(),
            admin_address: loopback,
            admin_port: 15000,
            status_port: None,
            metrics_port: None,
            max_connections: 100_000,
            scoped_rds: None,
            on_demand_rds: None,
        }
    }
}

impl BootstrapOptions {
    /// `router~<ip>~<pod>.<ns>~<ns>.svc.<domain>`, unless an id was given.
    #[must_use]
    pub fn node_id(&self) -> String {
        let Self {
            ip,
            name,
            namespace,
            domain,
            ..
        } = self;
        self.node_id
            .clone()
            .unwrap_or_else(|| format!("router~{ip}~{name}.{namespace}~{namespace}.svc.{domain}"))
    }
}

/// The bootstrap as JSON.
#[must_use]
pub fn bootstrap(options: &BootstrapOptions) -> Value {
    let clusters = [xds::clusters(options), listeners::clusters(options)].concat();
    json!({
        "node": node(options),
        "admin": {
            "address": socket_address(&options.admin_address.to_string(), options.admin_port),
        },
        "dynamic_resources": dynamic_resources(options),
        "static_resources": { "clusters": clusters, "listeners": listeners::listeners(options) },
        "overload_manager": overload_manager(options.max_connections),
        "layered_runtime": {
            "layers": [
                { "name": "static", "static_layer": { "re2.max_program_size.error_level": MAX_REGEX } },
                { "name": "admin", "admin_layer": {} },
            ],
        },
    })
}

fn node(options: &BootstrapOptions) -> Value {
    let mut node = json!({
        "id": options.node_id(),
        "cluster": format!("{}.{}", options.name, options.namespace),
        "metadata": {
            "NAME": options.name,
            "NAMESPACE": options.namespace,
            "LABELS": options.labels,
            "CLUSTER_ID": options.cluster_id,
            "ISTIO_VERSION": options.istio_version,
            "INSTANCE_IPS": options.ip.to_string(),
        },
    });
    for (key, switch) in [
        (SCOPED_RDS_KEY, options.scoped_rds),
        (ON_DEMAND_RDS_KEY, options.on_demand_rds),
    ] {
        if let Some(on) = switch {
            node["metadata"][key] = json!(on.to_string());
        }
    }
    node
}

fn dynamic_resources(options: &BootstrapOptions) -> Value {
    let api_type = match options.protocol {
        XdsProtocol::Delta => "DELTA_GRPC",
        XdsProtocol::Sotw => "GRPC",
    };
    let ads = json!({
        "ads": {},
        "initial_fetch_timeout": "0s",
        "resource_api_version": "V3",
    });
    json!({
        "lds_config": ads,
        "cds_config": ads,
        "ads_config": {
            "api_type": api_type,
            "transport_api_version": "V3",
            "set_node_on_first_message_only": false,
            "grpc_services": [xds::service(options)],
        },
    })
}

fn overload_manager(max_connections: u64) -> Value {
    json!({
        "resource_monitors": [{
            "name": "envoy.resource_monitors.global_downstream_max_connections",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
                "max_active_downstream_connections": max_connections,
            },
        }],
    })
}

fn socket_address(host: &str, port: u16) -> Value {
    json!({ "socket_address": { "address": host, "port_value": port } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_id_is_istios_unless_given() {
        let mut options = BootstrapOptions::default();
        assert_eq!(
            options.node_id(),
            "router~127.0.0.1~gateway.higress-system~higress-system.svc.cluster.local"
        );
        options.node_id = Some("mine".to_owned());
        assert_eq!(bootstrap(&options)["node"]["id"], "mine");
    }

    #[test]
    fn only_what_is_asked_for_listens() {
        let mut options = BootstrapOptions::default();
        let plain = bootstrap(&options);
        assert_eq!(plain["static_resources"]["listeners"], json!([]));
        options.status_port = Some(15021);
        options.ip = "::1".parse().unwrap();
        let resources = bootstrap(&options)["static_resources"].clone();
        assert_eq!(resources["listeners"].as_array().map(Vec::len), Some(1));
        assert_eq!(
            resources["listeners"][0]["address"],
            socket_address("::", 15021)
        );
        assert_eq!(resources["clusters"][1]["name"], "isthmus_admin");
    }

    #[test]
    fn names_are_resolved_and_addresses_are_not() {
        let cluster = |host: &str| {
            let options = BootstrapOptions {
                xds_host: host.to_owned(),
                ..BootstrapOptions::default()
            };
            bootstrap(&options)["static_resources"]["clusters"][0].clone()
        };
        assert_eq!(cluster("10.0.0.1")["type"], "STATIC");
        assert_eq!(cluster("::1")["type"], "STATIC");
        let name = "pilot.higress-system";
        assert_eq!(cluster(name)["cluster_type"]["name"], "envoy.clusters.dns");
    }
}
