//! TLS servers of a listener: SNI, certificates, client certificates.

use std::collections::BTreeSet;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::config::listener::v3 as listener;
use envoy_types::pb::envoy::extensions::filters::listener::tls_inspector::v3 as tls_inspector;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3 as tls;

use super::{ListenerInput, TlsServer, hcm, passthrough};
use crate::translate::issue::{Issue, Origin, Reason};
use crate::translate::{host, names, proto};

/// Time a client has for the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(15);

/// One TLS server: some hosts with one certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsChain {
    /// The Gateway it comes from.
    pub origin: Origin,
    /// Server name; prefix of its statistics when not empty.
    pub server_name: String,
    /// Hosts as in the Gateway, without namespace; `*` or none means every host and no SNI too.
    pub hosts: Vec<String>,
    /// SDS name of the certificate.
    pub secret: String,
    /// Lowest version offered.
    pub min_version: TlsVersion,
    /// Highest version offered.
    pub max_version: TlsVersion,
    /// OpenSSL cipher names for TLS up to 1.2; empty means Envoy's own list.
    pub cipher_suites: Vec<String>,
    /// Whether clients show a certificate.
    pub client_certificate: ClientCertificate,
    /// False to offer HTTP/1.1 only.
    pub http2: bool,
    /// Route configuration to ask for when scoped routes are off.
    pub route_name: String,
}

/// Whether clients must show a certificate, checked against `<secret>-cacert`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificate {
    /// Not asked for.
    #[default]
    None,
    /// Checked when shown.
    Optional,
    /// No connection without.
    Required,
    /// It cannot be checked: no connection at all.
    Unverifiable,
}

/// TLS protocol versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// Envoy's default.
    #[default]
    Auto,
    /// TLS 1.0.
    V1_0,
    /// TLS 1.1.
    V1_1,
    /// TLS 1.2.
    V1_2,
    /// TLS 1.3.
    V1_3,
}

impl TlsVersion {
    fn to_envoy(self) -> i32 {
        use tls::tls_parameters::TlsProtocol;
        match self {
            Self::Auto => TlsProtocol::TlsAuto,
            Self::V1_0 => TlsProtocol::TlSv10,
            Self::V1_1 => TlsProtocol::TlSv11,
            Self::V1_2 => TlsProtocol::TlSv12,
            Self::V1_3 => TlsProtocol::TlSv13,
        }
        .into()
    }
}

/// Cipher names that Envoy (BoringSSL) knows; it refuses a listener that names another one.
const CIPHERS: [&str; 15] = [
    "AES128-GCM-SHA256",
    "AES128-SHA",
    "AES256-GCM-SHA384",
    "AES256-SHA",
    "DES-CBC3-SHA",
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES128-SHA",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-AES256-SHA",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-SHA",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-SHA",
    "ECDHE-RSA-CHACHA20-POLY1305",
];

/// The listener filter that reads the SNI.
pub(super) fn inspector() -> listener::ListenerFilter {
    listener::ListenerFilter {
        name: "envoy.filters.listener.tls_inspector".to_owned(),
        config_type: Some(listener::listener_filter::ConfigType::TypedConfig(
            proto::any(&tls_inspector::TlsInspector::default()),
        )),
        ..Default::default()
    }
}

/// One chain per server that has a host of its own left. Envoy refuses a listener in which two
/// chains match the same SNI, so that the first server keeps it.
pub(super) fn filter_chains(
    input: &ListenerInput,
    servers: &[TlsServer],
    issues: &mut Vec<Issue>,
) -> Vec<listener::FilterChain> {
    let mut taken = BTreeSet::new();
    let mut result: Vec<listener::FilterChain> = Vec::with_capacity(servers.len());
    for server in servers {
        let Some(server_names) = own_hosts(&Hosts::of(server), &mut taken, issues) else {
            continue;
        };
        let matching = (!server_names.is_empty()).then(|| listener::FilterChainMatch {
            server_names,
            ..Default::default()
        });
        result.push(match server {
            TlsServer::Https(chain) => filter_chain(input, chain, matching, issues),
            TlsServer::Passthrough(chain) => passthrough::filter_chain(input, chain, matching),
        });
    }
    result
}

/// The hosts of a server, and what is said when they cannot be its own.
struct Hosts<'a> {
    origin: &'a Origin,
    server: &'a str,
    hosts: &'a [String],
}

impl<'a> Hosts<'a> {
    fn of(server: &'a TlsServer) -> Self {
        let (origin, server, hosts) = match server {
            TlsServer::Https(chain) => (&chain.origin, chain.server_name.as_str(), &chain.hosts),
            TlsServer::Passthrough(chain) => (&chain.origin, "", &chain.hosts),
        };
        Self {
            origin,
            server,
            hosts,
        }
    }
}

/// Sorted SNI hosts that no earlier chain has; empty for "everything else". `None` when all are
/// taken or invalid.
fn own_hosts(
    chain: &Hosts<'_>,
    taken: &mut BTreeSet<String>,
    issues: &mut Vec<Issue>,
) -> Option<Vec<String>> {
    if chain.hosts.is_empty() || chain.hosts.iter().any(|host| host == "*") {
        if taken.insert("*".to_owned()) {
            return Some(Vec::new());
        }
        issues.push(duplicate(chain, "*"));
        return None;
    }
    let mut own = BTreeSet::new();
    for host in chain.hosts {
        let host = host.to_ascii_lowercase();
        if !host::is_valid(&host) {
            issues.push(chain_issue(
                chain,
                &host,
                Reason::InvalidHost,
                "is no host name; it is left out",
            ));
        } else if taken.insert(host.clone()) {
            own.insert(host);
        } else if !own.contains(&host) {
            issues.push(duplicate(chain, &host));
        }
    }
    (!own.is_empty()).then(|| own.into_iter().collect())
}

fn duplicate(chain: &Hosts<'_>, host: &str) -> Issue {
    chain_issue(
        chain,
        host,
        Reason::Duplicate,
        "is served by an earlier server on this port; that one keeps it",
    )
}

fn chain_issue(chain: &Hosts<'_>, host: &str, reason: Reason, what: &str) -> Issue {
    Issue {
        origin: Some(chain.origin.clone()),
        at: chain.server.to_owned(),
        reason,
        message: format!("host {host:?} {what}"),
    }
}

fn filter_chain(
    input: &ListenerInput,
    chain: &TlsChain,
    matching: Option<listener::FilterChainMatch>,
    issues: &mut Vec<Issue>,
) -> listener::FilterChain {
    if chain.client_certificate == ClientCertificate::Unverifiable {
        return passthrough::closed(matching);
    }
    let stat_prefix = if chain.server_name.is_empty() {
        super::default_stat_prefix(input)
    } else {
        chain.server_name.clone()
    };
    let manager = hcm::filter(input, &stat_prefix, &chain.route_name, false);
    listener::FilterChain {
        filter_chain_match: matching,
        filters: vec![manager],
        transport_socket: Some(transport_socket(chain, issues)),
        transport_socket_connect_timeout: Some(proto::duration(HANDSHAKE_TIMEOUT)),
        ..Default::default()
    }
}

fn transport_socket(chain: &TlsChain, issues: &mut Vec<Issue>) -> core::TransportSocket {
    let context = downstream_context(chain, issues);
    core::TransportSocket {
        name: "envoy.transport_sockets.tls".to_owned(),
        config_type: Some(core::transport_socket::ConfigType::TypedConfig(proto::any(
            &context,
        ))),
    }
}

fn downstream_context(chain: &TlsChain, issues: &mut Vec<Issue>) -> tls::DownstreamTlsContext {
    let protocols: &[&str] = if chain.http2 {
        &["h2", "http/1.1"]
    } else {
        &["http/1.1"]
    };
    let validation = (chain.client_certificate != ClientCertificate::None).then(|| {
        tls::common_tls_context::ValidationContextType::ValidationContextSdsSecretConfig(sds(
            &names::ca_secret_name(&chain.secret),
        ))
    });
    let common = tls::CommonTlsContext {
        tls_params: parameters(chain, issues),
        tls_certificate_sds_secret_configs: vec![sds(&chain.secret)],
        alpn_protocols: protocols.iter().map(|&name| name.to_owned()).collect(),
        validation_context_type: validation,
        ..Default::default()
    };
    tls::DownstreamTlsContext {
        common_tls_context: Some(common),
        require_client_certificate: (chain.client_certificate == ClientCertificate::Required)
            .then(|| proto::boolean(true)),
        ..Default::default()
    }
}

/// Certificates come over the same stream. The listener goes on without after a time, so that one
/// missing Secret costs its own hosts only.
fn sds(name: &str) -> tls::SdsSecretConfig {
    tls::SdsSecretConfig {
        name: name.to_owned(),
        sds_config: Some(proto::ads_with_timeout()),
    }
}

fn parameters(chain: &TlsChain, issues: &mut Vec<Issue>) -> Option<tls::TlsParameters> {
    let mut suites = Vec::new();
    for suite in &chain.cipher_suites {
        if CIPHERS.contains(&suite.as_str()) {
            suites.push(suite.clone());
        } else {
            issues.push(Issue {
                origin: Some(chain.origin.clone()),
                at: chain.server_name.clone(),
                reason: Reason::InvalidValue,
                message: format!("cipher suite {suite:?} is not known; it is left out"),
            });
        }
    }
    let (min, max) = versions(chain, issues);
    if suites.is_empty() && min == TlsVersion::Auto && max == TlsVersion::Auto {
        return None;
    }
    Some(tls::TlsParameters {
        tls_minimum_protocol_version: min.to_envoy(),
        tls_maximum_protocol_version: max.to_envoy(),
        cipher_suites: suites,
        ..Default::default()
    })
}

/// A range turned round would be refused: the higher version is kept for both ends.
fn versions(chain: &TlsChain, issues: &mut Vec<Issue>) -> (TlsVersion, TlsVersion) {
    let (min, max) = (chain.min_version, chain.max_version);
    if min == TlsVersion::Auto || max == TlsVersion::Auto || min <= max {
        return (min, max);
    }
    issues.push(Issue {
        origin: Some(chain.origin.clone()),
        at: chain.server_name.clone(),
        reason: Reason::InvalidValue,
        message: "lowest TLS version is above the highest; only the lowest is offered".to_owned(),
    });
    (min, min)
}
