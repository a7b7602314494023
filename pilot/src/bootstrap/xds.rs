//! How Envoy reaches the pilot: by a cluster in plain text, or by its gRPC library over TLS.
//!
//! Over TLS a gateway sends the token of its ServiceAccount, a file that the kubelet replaces while Envoy runs. Of what Envoy has
//! to send a token, only the credentials `file_based_metadata` of its gRPC library read the file again for every stream: the
//! upstream filter `credential_injector` keeps the first content, and the file formatter is not known where `initial_metadata`
//! is written (all tried with 1.40). The library costs about 1 MB.

use std::net::IpAddr;
use std::path::Path;

use serde_json::{Value, json};

use super::{BootstrapOptions, XdsTls, socket_address};

/// Name of the cluster that leads to the pilot, and of its statistics.
const XDS_CLUSTER: &str = "xds-grpc";
/// Header of the token.
const TOKEN_HEADER: &str = "authorization";
/// What the library may hold back for a stream: the first request of a gateway that comes back lists all that it has.
const STREAM_BUFFER_BYTES: u32 = 100 << 20;

/// The clusters that the way to the pilot needs.
pub(super) fn clusters(options: &BootstrapOptions) -> Vec<Value> {
    match options.xds_tls {
        None => vec![cluster(options)],
        Some(_) => Vec::new(),
    }
}

/// The way to the pilot.
pub(super) fn service(options: &BootstrapOptions) -> Value {
    match &options.xds_tls {
        None => json!({ "envoy_grpc": { "cluster_name": XDS_CLUSTER } }),
        Some(tls) => json!({ "google_grpc": google_grpc(options, tls) }),
    }
}

fn google_grpc(options: &BootstrapOptions, tls: &XdsTls) -> Value {
    let (host, port) = (&options.xds_host, options.xds_port);
    let target = match host.parse() {
        Ok(IpAddr::V4(_)) => format!("ipv4:{host}:{port}"),
        Ok(IpAddr::V6(_)) => format!("ipv6:[{host}]:{port}"),
        Err(_) => format!("dns:///{host}:{port}"),
    };
    let mut credentials = json!({ "root_certs": file(&tls.ca) });
    if let Some((certificate, key)) = &tls.certificate {
        credentials["cert_chain"] = file(certificate);
        credentials["private_key"] = file(key);
    }
    let mut service = json!({
        "target_uri": target,
        "stat_prefix": XDS_CLUSTER,
        "channel_credentials": { "ssl_credentials": credentials },
        "per_stream_buffer_limit_bytes": STREAM_BUFFER_BYTES,
        "channel_args": { "args": channel_args(tls) },
    });
    if let Some(token) = &tls.token {
        let plugin = "envoy.grpc_credentials.file_based_metadata";
        service["credentials_factory_name"] = json!(plugin);
        service["call_credentials"] = json!([{
            "from_plugin": {
                "name": plugin,
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.config.grpc_credential.v3.FileBasedMetadataConfig",
                    "secret_data": file(token),
                    "header_key": TOKEN_HEADER,
                    "header_prefix": "Bearer ",
                },
            },
        }]);
    }
    service
}

/// Pings notice a pilot that is gone without a word, also on a stream without traffic. The library by itself would wait up to two
/// minutes for a pilot that comes back, and take no message above 4 MB.
fn channel_args(tls: &XdsTls) -> Value {
    let mut args = serde_json::Map::new();
    let numbers = [
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.initial_reconnect_backoff_ms", 200),
        ("grpc.min_reconnect_backoff_ms", 1_000),
        ("grpc.max_reconnect_backoff_ms", 5_000),
        ("grpc.dns_min_time_between_resolutions_ms", 5_000),
        ("grpc.max_receive_message_length", -1),
    ];
    for (name, value) in numbers {
        args.insert(name.to_owned(), json!({ "int_value": value }));
    }
    if let Some(name) = &tls.server_name {
        for arg in ["grpc.ssl_target_name_override", "grpc.default_authority"] {
            args.insert(arg.to_owned(), json!({ "string_value": name }));
        }
    }
    Value::Object(args)
}

fn file(path: &Path) -> Value {
    json!({ "filename": path })
}

/// HTTP/2 pings notice a pilot that is gone without a word.
fn cluster(options: &BootstrapOptions) -> Value {
    let address = socket_address(&options.xds_host, options.xds_port);
    let http2 = json!({
        "connection_keepalive": { "interval": "30s", "timeout": "10s" },
    });
    let mut cluster = json!({
        "name": XDS_CLUSTER,
        "connect_timeout": "1s",
        "load_assignment": {
            "cluster_name": XDS_CLUSTER,
            "endpoints": [{ "lb_endpoints": [{ "endpoint": { "address": address } }] }],
        },
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": { "http2_protocol_options": http2 },
            },
        },
        "upstream_connection_options": { "tcp_keepalive": { "keepalive_time": 300 } },
    });
    let (key, discovery) = discovery(&options.xds_host);
    cluster[key] = discovery;
    cluster
}

fn discovery(host: &str) -> (&'static str, Value) {
    if host.parse::<IpAddr>().is_ok() {
        return ("type", json!("STATIC"));
    }
    let dns = json!({
        "name": "envoy.clusters.dns",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.clusters.dns.v3.DnsCluster",
            "dns_refresh_rate": "5s",
            "respect_dns_ttl": true,
            "dns_lookup_family": "V4_PREFERRED",
        },
    });
    ("cluster_type", dns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::bootstrap;

    fn tls() -> XdsTls {
        XdsTls {
            ca: "/ca.pem".into(),
            token: Some("/token".into()),
            certificate: None,
            server_name: None,
        }
    }

    fn with(host: &str, tls: XdsTls) -> Value {
        let options = BootstrapOptions {
            xds_host: host.to_owned(),
            xds_tls: Some(tls),
            ..BootstrapOptions::default()
        };
        bootstrap(&options)
    }

    fn google(bootstrap: &Value) -> &Value {
        &bootstrap["dynamic_resources"]["ads_config"]["grpc_services"][0]["google_grpc"]
    }

    #[test]
    fn over_tls_the_token_is_a_file_and_there_is_no_way_in_plain_text() {
        let made = with("pilot.sys", tls());
        assert_eq!(made["static_resources"]["clusters"], json!([]));
        let service = google(&made);
        let plugin = &service["call_credentials"][0]["from_plugin"]["typed_config"];
        assert_eq!(plugin["secret_data"]["filename"], "/token");
        let root = &service["channel_credentials"]["ssl_credentials"]["root_certs"];
        assert_eq!(root["filename"], "/ca.pem");
        assert!(service["channel_args"]["args"]["grpc.ssl_target_name_override"].is_null());
    }

    #[test]
    fn targets_are_names_or_addresses() {
        let target = |host: &str| google(&with(host, tls()))["target_uri"].clone();
        assert_eq!(target("pilot.sys"), "dns:///pilot.sys:15010");
        assert_eq!(target("10.0.0.1"), "ipv4:10.0.0.1:15010");
        assert_eq!(target("::1"), "ipv6:[::1]:15010");
    }

    #[test]
    fn a_client_certificate_can_stand_in_for_the_token() {
        let made = with(
            "10.0.0.1",
            XdsTls {
                token: None,
                certificate: Some(("/tls.crt".into(), "/tls.key".into())),
                server_name: Some("pilot.test".to_owned()),
                ..tls()
            },
        );
        let service = google(&made);
        assert!(service["call_credentials"].is_null());
        let credentials = &service["channel_credentials"]["ssl_credentials"];
        assert_eq!(credentials["private_key"]["filename"], "/tls.key");
        let args = &service["channel_args"]["args"];
        assert_eq!(
            args["grpc.ssl_target_name_override"]["string_value"],
            "pilot.test"
        );
    }
}
