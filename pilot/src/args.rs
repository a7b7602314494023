//! Flags and environment names of the pilot.

mod address;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgAction, Args, CommandFactory, Parser, Subcommand};
use daemon::admin::DebugAccess;
use daemon::listen::ListenAddress;
use daemon::logging::LogArgs;
use daemon::reference::{self, Theirs};

use crate::bootstrap::{BootstrapOptions, XdsProtocol, XdsTls};
use crate::push::debounce::Mode;

pub use address::{ConfigSource, ConfigSourceError, HostPort, HostPortError};

/// Spellings of Higress's and Istio's discovery, and ours.
pub const SPELLINGS: &[(&str, &str)] = &[
    ("clusterID", "cluster-id"),
    ("configDir", "config-dir"),
    ("grpcAddr", "grpc-address"),
    ("httpAddr", "http-address"),
    (
        "keepaliveMaxServerConnectionAge",
        "keepalive-max-server-connection-age",
    ),
    ("monitoringAddr", "monitoring-address"),
    ("secureGRPCAddr", "secure-grpc-address"),
    ("tlsCertFile", "tls-cert-file"),
    ("tlsKeyFile", "tls-key-file"),
];

/// Serves Envoy xDS from the controller's configs and a registry of services.
#[derive(Debug, Parser)]
#[command(name = "pilot", version, about)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve Envoy xDS.
    #[command(alias = "discovery")]
    Serve(Box<ServeArgs>),
    /// Print the Envoy bootstrap of a gateway.
    Bootstrap(Box<BootstrapArgs>),
    /// Drain the Envoy of this gateway: run it before Envoy is told to end.
    Drain(DrainArgs),
    /// Ask for a page until the answer is 200; exit code 1 when it is not in time.
    Probe(ProbeArgs),
    /// Print the reference of flags and environment names.
    Flags,
}

/// The reference of all flags, in Markdown.
pub fn reference() -> String {
    let theirs = Theirs {
        spellings: SPELLINGS,
        without_effect: &[],
    };
    reference::markdown(Cli::command(), &theirs)
}

/// Flags of `serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Controller to read configs from, as xds://host:port; may be given several times, the first one that has an
    /// object wins
    #[arg(long, required = true, value_name = "URL")]
    pub config_source: Vec<ConfigSource>,
    /// Directory of Services, EndpointSlices and Secrets in YAML; without it a Kubernetes cluster is used
    #[arg(long, value_name = "DIR", conflicts_with = "kubeconfig")]
    pub registry_dir: Option<PathBuf>,
    /// Kubeconfig file of the cluster to use; without it (or empty) the cluster that this Pod runs in
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Namespaces of the cluster to read, with commas between them; empty = all
    #[arg(long, default_value = "", value_name = "NAMES")]
    pub watch_namespace: String,
    /// Where to serve xDS in plain text
    #[arg(long, default_value = "0.0.0.0:15010", value_name = "ADDRESS")]
    pub grpc_address: ListenAddress,
    /// Where to serve /ready and /debug
    #[arg(long, default_value = "0.0.0.0:8080", value_name = "ADDRESS")]
    pub http_address: ListenAddress,
    /// Who may see /debug: it shows all that is served
    #[arg(long, value_enum, default_value_t)]
    pub debug_access: DebugAccess,
    /// Where to serve /metrics
    #[arg(long, default_value = "0.0.0.0:15014", value_name = "ADDRESS")]
    pub monitoring_address: ListenAddress,
    /// Send certificates over plain text also to peers that are not on loopback
    #[arg(long)]
    pub allow_plaintext_sds: bool,
    /// The secure port.
    #[command(flatten)]
    pub security: SecurityArgs,
    /// Namespace of this pilot
    #[arg(long, short, env = "POD_NAMESPACE", default_value = "higress-system")]
    pub namespace: String,
    /// Name of this pilot
    #[arg(long, env = "POD_NAME", default_value = "pilot", hide = true)]
    pub pod_name: String,
    /// DNS domain of the Kubernetes cluster
    #[arg(long, env = "DOMAIN_SUFFIX", default_value = "cluster.local")]
    pub domain: String,
    /// Name of the Kubernetes cluster
    #[arg(long, env = "CLUSTER_ID", default_value = "Kubernetes")]
    pub cluster_id: String,
    /// Routing options.
    #[command(flatten)]
    pub routing: RoutingArgs,
    /// Debounce options.
    #[command(flatten)]
    pub debounce: DebounceArgs,
    /// Logging options.
    #[command(flatten)]
    pub log: LogArgs,
}

/// Flags of xDS over TLS.
#[derive(Debug, Args)]
pub struct SecurityArgs {
    /// Where to serve xDS over TLS, to authenticated gateways; empty = nowhere. Default: 0.0.0.0:15012 where it can be served,
    /// that is in a cluster, or with the three files below
    #[arg(long, value_name = "ADDRESS")]
    pub secure_grpc_address: Option<OptionalAddress>,
    /// Certificate chain for TLS, in PEM; read again when it changes. Without it the pilot makes its own
    #[arg(long, value_name = "FILE", requires = "tls_key_file")]
    pub tls_cert_file: Option<PathBuf>,
    /// Key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub tls_key_file: Option<PathBuf>,
    /// Authority in PEM that vouches for client certificates; whoever has one is let in like a gateway with a token
    #[arg(long, value_name = "FILE")]
    pub tls_client_ca_file: Option<PathBuf>,
    /// Secret of the pilot's namespace that holds the authority of the certificates that pilots make
    #[arg(long, default_value = "higress-xds-ca", value_name = "NAME")]
    pub xds_ca_secret: String,
    /// ConfigMap of the pilot's namespace in which that authority is published (root-cert.pem), for gateways to mount
    #[arg(long, default_value = "higress-xds-root", value_name = "NAME")]
    pub xds_ca_configmap: String,
    /// Names in the certificate that the pilot makes, with commas between them; empty = those of the Services
    /// higress-controller and higress-pilot
    #[arg(long, default_value = "", value_name = "NAMES")]
    pub xds_server_names: String,
    /// Audience of the tokens that gateways send
    #[arg(long, default_value = "istio-ca", value_name = "NAME")]
    pub token_audience: String,
    /// ServiceAccounts that gateways may have, as namespace/name, with commas between them; empty = all of the pilot's namespace
    #[arg(long, default_value = "", value_name = "ACCOUNTS")]
    pub gateway_accounts: String,
    /// How long a connection to the secure port may last; then the gateway connects again, and has to prove again who it is.
    /// 0 = for ever
    #[arg(long, default_value = "30m", value_parser = duration)]
    pub keepalive_max_server_connection_age: Duration,
}

/// An address to listen on, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionalAddress {
    /// Nowhere.
    Off,
    /// Here.
    At(ListenAddress),
}

impl FromStr for OptionalAddress {
    type Err = daemon::listen::AddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Ok(Self::Off);
        }
        text.parse().map(Self::At)
    }
}

/// Flags that decide what is generated.
#[derive(Debug, Args)]
pub struct RoutingArgs {
    /// One route configuration per host, selected by scoped routes (SRDS), instead of one per server
    #[arg(long, env = "ENBALE_SCOPED_RDS", default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub enable_scoped_rds: bool,
    /// Envoy asks for the routes of a host at its first request
    #[arg(long, env = "ON_DEMAND_RDS", default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub on_demand_rds: bool,
    /// Routes of a host include those of the wildcard hosts above it
    #[arg(long, env = "HOST_RDS_MERGE_SUBSET", default_value_t = false, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub host_rds_merge_subset: bool,
    /// Clusters only for services that a route leads to
    #[arg(long, env = "PILOT_FILTER_GATEWAY_CLUSTER_CONFIG", default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub filter_gateway_clusters: bool,
    /// Allow websocket upgrades
    #[arg(long, env = "WEBSOCKET_ENABLED", default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true", hide = true)]
    pub websocket: bool,
    /// Connections, pending requests and requests at the same time per cluster
    #[arg(long, env = "DEFAULT_UPSTREAM_CONCURRENCY_THRESHOLD", default_value_t = u32::MAX, hide = true)]
    pub upstream_concurrency: u32,
}

/// Flags of the debounce.
#[derive(Debug, Args)]
pub struct DebounceArgs {
    /// How changes are merged: adaptive (a change after quiet at once) or fixed (as in Istio)
    #[arg(long, value_enum, default_value_t = Mode::Adaptive)]
    pub debounce: Mode,
    /// fixed: quiet time before a push; adaptive: longest rest after one
    #[arg(long, env = "PILOT_DEBOUNCE_AFTER", default_value = "100ms", value_parser = duration)]
    pub debounce_after: Duration,
    /// Longest time that a change waits while others keep coming
    #[arg(long, env = "PILOT_DEBOUNCE_MAX", default_value = "10s", value_parser = duration)]
    pub debounce_max: Duration,
}

/// Flags of `bootstrap`.
#[derive(Debug, Args)]
pub struct BootstrapArgs {
    /// Address of the pilot's xDS port
    #[arg(long, value_name = "HOST:PORT")]
    pub xds_address: HostPort,
    /// How to reach it over TLS.
    #[command(flatten)]
    pub tls: XdsTlsArgs,
    /// File to write to, instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Port of Envoy's admin interface, on loopback; 0 picks a free one
    #[arg(long, default_value_t = 15000)]
    pub admin_port: u16,
    /// Port that answers /healthz/ready on all interfaces, for probes
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub status_port: Option<u16>,
    /// Port that answers /stats/prometheus on all interfaces
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub metrics_port: Option<u16>,
    /// Node id; made from the flags below when left out
    #[arg(long)]
    pub node_id: Option<String>,
    /// Name of the gateway's Pod
    #[arg(long, env = "POD_NAME", default_value = "gateway")]
    pub name: String,
    /// Namespace of the gateway
    #[arg(long, short, env = "POD_NAMESPACE", default_value = "higress-system")]
    pub namespace: String,
    /// DNS domain of the Kubernetes cluster
    #[arg(long, default_value = "cluster.local")]
    pub domain: String,
    /// Address of the gateway's Pod
    #[arg(long, env = "INSTANCE_IP", default_value = "127.0.0.1")]
    pub ip: IpAddr,
    /// Label of the gateway as key=value, which Gateways select by; may be given several times
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label, default_value = "higress=higress-system-higress-gateway")]
    pub labels: Vec<(String, String)>,
    /// Name of the Kubernetes cluster
    #[arg(long, env = "CLUSTER_ID", default_value = "Kubernetes")]
    pub cluster_id: String,
    /// Variant of the xDS protocol
    #[arg(long, value_parser = ["delta", "sotw"], default_value = "delta")]
    pub protocol: String,
    /// Whether this gateway selects route configurations by scoped routes; left out, the pilot's --enable-scoped-rds counts.
    /// Given here, a gateway keeps its way when the pilot's changes, until it is started anew
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    pub enable_scoped_rds: Option<bool>,
    /// Whether this gateway fetches routes at the first request; left out, the pilot's --on-demand-rds counts
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    pub on_demand_rds: Option<bool>,
}

/// Flags of `bootstrap` for xDS over TLS.
#[derive(Debug, Args)]
pub struct XdsTlsArgs {
    /// Authority in PEM that vouches for the pilot; with it xDS goes over TLS. Absolute path, as Envoy reads it at its start
    #[arg(long, value_name = "FILE", value_parser = absolute)]
    pub xds_ca_file: Option<PathBuf>,
    /// Token of the gateway's ServiceAccount, read for every new stream. Absolute path
    #[arg(long, value_name = "FILE", value_parser = absolute, requires = "xds_ca_file")]
    pub xds_token_file: Option<PathBuf>,
    /// Client certificate in PEM, instead of a token or besides it. Absolute path
    #[arg(long, value_name = "FILE", value_parser = absolute, requires_all = ["xds_ca_file", "xds_client_key_file"])]
    pub xds_client_cert_file: Option<PathBuf>,
    /// Key of the client certificate. Absolute path
    #[arg(long, value_name = "FILE", value_parser = absolute, requires = "xds_client_cert_file")]
    pub xds_client_key_file: Option<PathBuf>,
    /// Name that the pilot's certificate must have, when it is not the host of --xds-address
    #[arg(long, value_name = "NAME", requires = "xds_ca_file")]
    pub xds_server_name: Option<String>,
}

/// Why the flags of the bootstrap do not go together.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BootstrapError {
    /// TLS, and nothing to be known by.
    #[error(
        "--xds-ca-file needs --xds-token-file, or --xds-client-cert-file with --xds-client-key-file: over TLS the pilot serves \
         only gateways that it knows"
    )]
    NoCredentials,
    /// The page of another port is on the admin port.
    #[error("--status-port and --metrics-port need an --admin-port that is not 0")]
    NoAdminPort,
}

impl XdsTlsArgs {
    fn options(self) -> Result<Option<XdsTls>, BootstrapError> {
        let Some(ca) = self.xds_ca_file else {
            return Ok(None);
        };
        let certificate = self.xds_client_cert_file.zip(self.xds_client_key_file);
        if certificate.is_none() && self.xds_token_file.is_none() {
            return Err(BootstrapError::NoCredentials);
        }
        Ok(Some(XdsTls {
            ca,
            token: self.xds_token_file,
            certificate,
            server_name: self.xds_server_name,
        }))
    }
}

/// A path that means the same to whoever reads it later.
fn absolute(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let wrong = || "write an absolute path: Envoy reads the file from its own folder".to_owned();
    path.is_absolute().then_some(path).ok_or_else(wrong)
}

impl BootstrapArgs {
    /// The options of the bootstrap.
    ///
    /// # Errors
    /// The flags do not go together.
    pub fn options(self) -> Result<BootstrapOptions, BootstrapError> {
        let needs_admin = self.status_port.is_some() || self.metrics_port.is_some();
        if self.admin_port == 0 && needs_admin {
            return Err(BootstrapError::NoAdminPort);
        }
        Ok(BootstrapOptions {
            xds_host: self.xds_address.host,
            xds_port: self.xds_address.port,
            xds_tls: self.tls.options()?,
            protocol: if self.protocol == "sotw" {
                XdsProtocol::Sotw
            } else {
                XdsProtocol::Delta
            },
            node_id: self.node_id,
            name: self.name,
            namespace: self.namespace,
            domain: self.domain,
            ip: self.ip,
            labels: self.labels.into_iter().collect::<BTreeMap<_, _>>(),
            cluster_id: self.cluster_id,
            admin_port: self.admin_port,
            status_port: self.status_port,
            metrics_port: self.metrics_port,
            scoped_rds: self.enable_scoped_rds,
            on_demand_rds: self.on_demand_rds,
            ..BootstrapOptions::default()
        })
    }
}

/// Flags of `drain`.
#[derive(Debug, Args)]
pub struct DrainArgs {
    /// Port of Envoy's admin interface, on loopback
    #[arg(long, default_value_t = 15000)]
    pub admin_port: u16,
    /// How long new connections are still served after readiness started to fail
    #[arg(long, default_value = "5s", value_parser = duration)]
    pub delay: Duration,
    /// How long open connections may last after that
    #[arg(long, default_value = "30s", value_parser = duration)]
    pub limit: Duration,
}

/// Flags of `probe`.
#[derive(Debug, Args)]
pub struct ProbeArgs {
    /// Address of the page, as http://host:port/path
    #[arg(value_name = "URL")]
    pub url: http::Uri,
    /// How long to try
    #[arg(long, default_value = "0", value_parser = duration)]
    pub limit: Duration,
}

/// A duration as Go writes it: `100ms`, `10s`, `1m30s`.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "write it like 100ms, 2s or 1m30s".to_owned();
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let (mut rest, mut total) = (text, Duration::ZERO);
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(wrong)?;
        let number: f64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let unit_len = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        let unit = match &rest[..unit_len] {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            "us" | "µs" => 0.000_001,
            _ => return Err(wrong()),
        };
        rest = &rest[unit_len..];
        total += Duration::try_from_secs_f64(number * unit).map_err(|_| wrong())?;
    }
    if text.is_empty() {
        Err(wrong())
    } else {
        Ok(total)
    }
}

fn label(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let (key, value) = pair.ok_or("write it as key=value")?;
    Ok((key.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[test]
    fn flags_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_page_of_flags_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/flags.md");
        let page = std::fs::read_to_string(path).unwrap_or_default();
        let hint = "docs/flags.md is out of date: run scripts/gen-docs and commit the result";
        assert!(page.contains(&reference()), "{hint}");
    }

    #[rstest]
    #[case("100ms", Some(100))]
    #[case("1m30s", Some(90_000))]
    #[case("0.5s", Some(500))]
    #[case("0", Some(0))]
    #[case("5", None)]
    #[case("", None)]
    #[case("s", None)]
    fn durations(#[case] text: &str, #[case] millis: Option<u64>) {
        assert_eq!(duration(text).ok(), millis.map(Duration::from_millis));
    }

    #[rstest]
    #[case("xds://127.0.0.1:15051", Some("127.0.0.1:15051"))]
    #[case("xds://[::1]:1", Some("[::1]:1"))]
    #[case("xds://controller", None)]
    #[case("xds://:1", None)]
    #[case("xds://a:0", None)]
    #[case("http://a:1", None)]
    fn config_sources(#[case] text: &str, #[case] expected: Option<&str>) {
        let source = text
            .parse::<ConfigSource>()
            .ok()
            .map(|source| source.0.to_string());
        assert_eq!(source.as_deref(), expected);
    }
}
