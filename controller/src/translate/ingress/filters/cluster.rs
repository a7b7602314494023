//! Clusters of servers that are asked whether a request is allowed.

use serde_json::{Value, json};

use super::{inline, message};
use crate::translate::names;

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Endpoint {
    /// A Service of the cluster, with its full host name.
    Service(String),
    /// A name of DNS, or an address.
    Name(String),
}

/// A server, and how it is spoken to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AuthCluster {
    /// The server.
    pub(crate) endpoint: Endpoint,
    /// Its port.
    pub(crate) port: u16,
    /// It speaks TLS.
    pub(crate) tls: bool,
    /// Method of the requests.
    pub(crate) method: &'static str,
    /// Their host.
    pub(crate) authority: String,
}

impl AuthCluster {
    /// Its name: all that tells it from others.
    pub(crate) fn name(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        let Self {
            method, authority, ..
        } = self;
        names::auth_cluster(&[
            scheme,
            method,
            authority,
            self.host(),
            &self.port.to_string(),
        ])
    }

    fn host(&self) -> &str {
        match &self.endpoint {
            Endpoint::Service(host) | Endpoint::Name(host) => host,
        }
    }

    /// `envoy.config.cluster.v3.Cluster`. Requests to it get the method and host that the server expects: the filter that
    /// asks sends those of the request in question.
    pub(super) fn value(&self) -> Value {
        let mut cluster = json!({
            "name": self.name(),
            "connect_timeout": "5s",
            "typed_extension_protocol_options": {
                "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": message(
                    "envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                    json!({
                        "explicit_http_config": {"http_protocol_options": {}},
                        "http_filters": [self.request_filter(), codec()],
                    }),
                ),
            },
        });
        if let Some(members) = cluster.as_object_mut() {
            members.extend(self.discovery());
            members.extend(self.transport());
        }
        cluster
    }

    fn discovery(&self) -> serde_json::Map<String, Value> {
        let name = self.name();
        let fields = match &self.endpoint {
            Endpoint::Service(host) => json!({
                "type": "EDS",
                "eds_cluster_config": {
                    "service_name": names::outbound_cluster(self.port, host),
                    "eds_config": {"ads": {}, "resource_api_version": "V3"},
                },
            }),
            Endpoint::Name(host) => json!({
                "type": "STRICT_DNS",
                "dns_lookup_family": "V4_PREFERRED",
                // A name that nobody answers for does not hold up the start of the gateway.
                "wait_for_warm_on_init": false,
                "load_assignment": {
                    "cluster_name": name,
                    "endpoints": [{"lb_endpoints": [{"endpoint": {"address": {"socket_address": {
                        "address": host, "port_value": self.port,
                    }}}}]}],
                },
            }),
        };
        match fields {
            Value::Object(fields) => fields,
            _ => serde_json::Map::new(),
        }
    }

    /// TLS names the server and, as in ingress-nginx, does not verify its certificate.
    fn transport(&self) -> Option<(String, Value)> {
        let context = "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext";
        self.tls.then(|| {
            let socket = json!({
                "name": "envoy.transport_sockets.tls",
                "typed_config": message(context, json!({"sni": self.server_name()})),
            });
            ("transport_socket".to_owned(), socket)
        })
    }

    fn server_name(&self) -> &str {
        let authority = &self.authority;
        authority
            .rsplit_once(':')
            .map_or(authority, |(host, _)| host)
    }

    fn request_filter(&self) -> Value {
        let lua = json!({
            "default_source_code": inline(include_str!("auth_request.lua")),
            "filter_context": {"method": self.method, "authority": self.authority},
        });
        json!({
            "name": "isthmus.auth-request",
            "typed_config": message("envoy.extensions.filters.http.lua.v3.Lua", lua),
        })
    }
}

fn codec() -> Value {
    let name = "envoy.extensions.filters.http.upstream_codec.v3.UpstreamCodec";
    json!({"name": "envoy.filters.http.upstream_codec", "typed_config": message(name, json!({}))})
}
