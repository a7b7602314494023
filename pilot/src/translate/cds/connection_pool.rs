//! Bounds on connections and requests, and the HTTP version that is spoken to endpoints.

use envoy_types::pb::envoy::config::cluster::v3 as cluster;
use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::extensions::upstreams::http::v3 as upstream_http;
use envoy_types::pb::google::protobuf;
use shared_proto::networking::v1alpha3 as istio;

use istio::ConnectionPoolSettings;
use istio::connection_pool_settings::http_settings::H2UpgradePolicy;
use istio::connection_pool_settings::{HttpSettings as Http, TcpSettings as Tcp};

use crate::translate::issue::Reason;
use crate::translate::proto;
use crate::translate::report::{Problem, Report, duration, positive};

const HTTP_OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

/// What is spoken to endpoints. Without any setting Envoy speaks HTTP/1.1.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Upstream {
    /// HTTP/2.
    pub(super) http2: bool,
    /// The version that the client speaks.
    pub(super) as_client: bool,
    /// The name in the TLS handshake is the host of the request.
    pub(super) auto_sni: bool,
    common: core::HttpProtocolOptions,
    http2_options: core::Http2ProtocolOptions,
}

impl Upstream {
    /// HTTP/2 or HTTP/1.1, and nothing else.
    pub(super) fn new(http2: bool) -> Self {
        Self {
            http2,
            ..Self::default()
        }
    }

    /// Writes the options into the cluster, when there are any.
    pub(super) fn finish(self, result: &mut cluster::Cluster) {
        use upstream_http::http_protocol_options::{
            ExplicitHttpConfig, UpstreamProtocolOptions, UseDownstreamHttpConfig,
            explicit_http_config::ProtocolConfig,
        };
        if self == Self::default() {
            return;
        }
        let version = if self.as_client {
            UpstreamProtocolOptions::UseDownstreamProtocolConfig(UseDownstreamHttpConfig {
                http_protocol_options: Some(core::Http1ProtocolOptions::default()),
                http2_protocol_options: Some(self.http2_options),
                ..Default::default()
            })
        } else {
            UpstreamProtocolOptions::ExplicitHttpConfig(ExplicitHttpConfig {
                protocol_config: Some(if self.http2 {
                    ProtocolConfig::Http2ProtocolOptions(self.http2_options)
                } else {
                    ProtocolConfig::HttpProtocolOptions(core::Http1ProtocolOptions::default())
                }),
            })
        };
        let common = self.common;
        let options = upstream_http::HttpProtocolOptions {
            common_http_protocol_options: (common != core::HttpProtocolOptions::default())
                .then_some(common),
            upstream_http_protocol_options: self.auto_sni.then(|| {
                core::UpstreamHttpProtocolOptions {
                    auto_sni: true,
                    ..Default::default()
                }
            }),
            upstream_protocol_options: Some(version),
            ..Default::default()
        };
        result
            .typed_extension_protocol_options
            .insert(HTTP_OPTIONS.to_owned(), proto::any(&options));
    }
}

/// Sets the user's bounds.
pub(super) fn apply(
    pool: &ConnectionPoolSettings,
    result: &mut cluster::Cluster,
    upstream: &mut Upstream,
    report: &mut Report<'_>,
) {
    if let Some(settings) = &pool.tcp {
        tcp(settings, result, upstream, report);
    }
    if let Some(settings) = &pool.http {
        http(settings, result, upstream, report);
    }
}

fn tcp(
    settings: &Tcp,
    result: &mut cluster::Cluster,
    upstream: &mut Upstream,
    report: &mut Report<'_>,
) {
    let timeout = settings.connect_timeout.as_ref();
    let timeout = timeout.and_then(|value| report.optional(positive("tcp.connectTimeout", value)));
    if timeout.is_some() {
        result.connect_timeout = timeout;
    }
    if let Some(bounds) = thresholds(result) {
        let bound = count("tcp.maxConnections", settings.max_connections, report);
        bounds.max_connections = bound.or(bounds.max_connections);
    }
    upstream.common.max_connection_duration = settings
        .max_connection_duration
        .as_ref()
        .and_then(|value| report.optional(positive("tcp.maxConnectionDuration", value)));
    if let Some(keepalive) = &settings.tcp_keepalive {
        result.upstream_connection_options = Some(cluster::UpstreamConnectionOptions {
            tcp_keepalive: Some(core::TcpKeepalive {
                keepalive_probes: (keepalive.probes > 0).then(|| proto::uint(keepalive.probes)),
                keepalive_time: seconds(keepalive.time.as_ref()),
                keepalive_interval: seconds(keepalive.interval.as_ref()),
            }),
            ..Default::default()
        });
    }
}

fn http(
    settings: &Http,
    result: &mut cluster::Cluster,
    upstream: &mut Upstream,
    report: &mut Report<'_>,
) {
    if let Some(bounds) = thresholds(result) {
        let pending = settings.http1_max_pending_requests;
        let pending = count("http.http1MaxPendingRequests", pending, report);
        bounds.max_pending_requests = pending.or(bounds.max_pending_requests);
        let requests = count("http.http2MaxRequests", settings.http2_max_requests, report);
        bounds.max_requests = requests.or(bounds.max_requests);
        let retries = count("http.maxRetries", settings.max_retries, report);
        bounds.max_retries = retries.or(bounds.max_retries);
    }
    let per_connection = settings.max_requests_per_connection;
    upstream.common.max_requests_per_connection =
        count("http.maxRequestsPerConnection", per_connection, report);
    upstream.common.idle_timeout = settings
        .idle_timeout
        .as_ref()
        .and_then(|value| report.optional(duration("http.idleTimeout", value)));
    upstream.http2 |= settings.h2_upgrade_policy == i32::from(H2UpgradePolicy::Upgrade);
    upstream.as_client |= settings.use_client_protocol;
    let streams = settings.max_concurrent_streams;
    upstream.http2_options.max_concurrent_streams =
        count("http.maxConcurrentStreams", streams, report);
    upstream.http2_options.connection_keepalive = settings
        .http2_keep_alive
        .as_ref()
        .and_then(|keepalive| report.optional(ping(keepalive)));
}

fn ping(
    settings: &istio::connection_pool_settings::http_settings::ConnectionKeepalive,
) -> Result<core::KeepaliveSettings, Problem> {
    let value = |what: &str, value: Option<&shared_proto::well_known::Duration>| {
        let missing = || Problem::new(Reason::InvalidValue, format!("{what} is missing"));
        let value = positive(what, value.ok_or_else(missing)?)?;
        // Envoy's smallest.
        let short = value.seconds == 0 && value.nanos < 1_000_000;
        if short {
            let message = format!("{what} is below 1ms");
            return Err(Problem::new(Reason::InvalidValue, message));
        }
        Ok(value)
    };
    Ok(core::KeepaliveSettings {
        interval: Some(value(
            "http.http2KeepAlive.interval",
            settings.interval.as_ref(),
        )?),
        timeout: Some(value(
            "http.http2KeepAlive.timeout",
            settings.timeout.as_ref(),
        )?),
        ..Default::default()
    })
}

fn thresholds(result: &mut cluster::Cluster) -> Option<&mut cluster::circuit_breakers::Thresholds> {
    result.circuit_breakers.as_mut()?.thresholds.first_mut()
}

/// A number above 0; 0 means that it is not set.
fn count(what: &str, value: i32, report: &mut Report<'_>) -> Option<protobuf::UInt32Value> {
    match u32::try_from(value) {
        Ok(0) => None,
        Ok(value) => Some(proto::uint(value)),
        Err(_) => {
            report.add(Problem::new(
                Reason::InvalidValue,
                format!("{what} is negative; it is left out"),
            ));
            None
        }
    }
}

fn seconds(value: Option<&shared_proto::well_known::Duration>) -> Option<protobuf::UInt32Value> {
    let value = u32::try_from(value?.seconds).ok()?;
    (value > 0).then(|| proto::uint(value))
}
