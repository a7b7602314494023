//! Command line of the controller. Higress's spellings of the flags are accepted too.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{ArgAction, CommandFactory, Parser, Subcommand, ValueEnum};
use daemon::admin::DebugAccess;
use daemon::flags;
use daemon::listen::ListenAddress;
use daemon::logging::LogArgs;
use daemon::reference::{self, Theirs};

use crate::model::{Scope, Semantics, UnknownSemantics};

/// Translates Ingresses to Istio objects and serves them to the pilot.
#[derive(Debug, Parser)]
#[command(name = "controller", version, about)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Log flags.
    #[command(flatten)]
    pub log: LogArgs,
    /// Flags that were given and have no effect here.
    #[arg(skip)]
    pub ignored: Vec<String>,
}

/// Subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve the translated objects over MCP (xDS) and follow changes
    Serve(Box<ServeArgs>),
    /// Print the objects that would be served; mistakes go to standard error
    Translate(Box<TranslateArgs>),
    /// Tell where Ingresses written for ingress-nginx get another result here, with a request that shows it
    Audit(Box<AuditArgs>),
    /// Print the reference of annotations: those that are read, and those that do nothing here
    Annotations(AnnotationsArgs),
    /// Print the reference of flags and environment names
    Flags,
}

/// Flags of `serve`.
#[derive(Debug, clap::Args)]
pub struct ServeArgs {
    /// Folder of manifests to follow, with its subfolders; without it a Kubernetes cluster is used
    #[arg(long, value_name = "DIR", conflicts_with = "kubeconfig")]
    pub config_dir: Option<PathBuf>,
    /// Kubeconfig file of the cluster to use; without it (or empty) the cluster that this Pod runs in
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Where MCP over xDS is served
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:15051")]
    pub mcp_address: ListenAddress,
    /// Where /ready, /metrics and /debug are served
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8888")]
    pub http_address: ListenAddress,
    /// Who may see /debug: it shows all that is served
    #[arg(long, value_enum, default_value_t)]
    pub debug_access: DebugAccess,
    /// What is served.
    #[command(flatten)]
    pub scope: ScopeArgs,
    /// What is told to users.
    #[command(flatten)]
    pub status: StatusArgs,
}

/// Flags of what is written into a cluster.
#[derive(Clone, Debug, clap::Args)]
pub struct StatusArgs {
    /// Write the gateway's addresses into the status of Ingresses (Kubernetes only)
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub enable_status: bool,
    /// Write mistakes as Events on the users' objects (Kubernetes only)
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub enable_events: bool,
    /// Labels of the gateway's Services in the system namespace, whose addresses are written
    #[arg(long, value_name = "SELECTOR", default_value = "app=higress-gateway", value_parser = not_empty)]
    pub status_service_selector: String,
    /// Of several replicas, only the holder of a Lease writes
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub leader_election: bool,
    /// Seconds after which a silent leader is replaced
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(3..=3600))]
    pub lease_seconds: u64,
    /// Name of this Pod, in the Lease and in Events
    #[arg(long, env = "POD_NAME", default_value = "controller", hide = true)]
    pub pod_name: String,
}

/// Flags of `translate`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 no errors, 1 errors in the input, 2 mistakes in flags or files that cannot be read."
)]
pub struct TranslateArgs {
    /// Manifest, folder of manifests, or `-` for standard input
    #[arg(short, long = "file", value_name = "PATH")]
    pub file: PathBuf,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t)]
    pub output: OutputFormat,
    /// Warnings count as errors: they end with exit code 1 too
    #[arg(long)]
    pub strict: bool,
    /// Say in the annotation isthmus.io/provenance what each object and route was made of
    #[arg(long)]
    pub with_provenance: bool,
    /// What is served.
    #[command(flatten)]
    pub scope: ScopeArgs,
}

/// Flags of `audit`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 nothing differs, 1 differences were found, 2 mistakes in flags or files that cannot be read."
)]
pub struct AuditArgs {
    /// Manifest, folder of manifests, or `-` for standard input; may be given several times
    #[arg(short, long = "file", value_name = "PATH", required = true)]
    pub file: Vec<PathBuf>,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t)]
    pub output: AuditFormat,
    /// What is served. Ingresses of class nginx and those without a class are looked at whatever --ingress-class is.
    #[command(flatten)]
    pub scope: ScopeArgs,
}

/// Forms of the report of `audit`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum AuditFormat {
    /// A table with notes and a summary.
    #[default]
    Text,
    /// One object, for programs.
    Json,
}

/// Flags of `annotations`.
#[derive(Debug, clap::Args)]
pub struct AnnotationsArgs {
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t)]
    pub output: ReferenceFormat,
}

/// Forms of the reference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ReferenceFormat {
    /// A page to read.
    #[default]
    Markdown,
    /// One object, for programs.
    Json,
}

/// Forms of printed objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// One document per object.
    #[default]
    Yaml,
    /// One List.
    Json,
}

/// Flags that decide what comes out.
#[derive(Clone, Debug, clap::Args)]
pub struct ScopeArgs {
    /// Class of the Ingresses to serve; empty = all
    #[arg(long, default_value = "higress")]
    pub ingress_class: String,
    /// Namespaces to serve, with commas between them; empty = all
    #[arg(long, default_value = "")]
    pub watch_namespace: String,
    /// Namespace of the generated objects
    #[arg(long, env = "POD_NAMESPACE", default_value = "higress-system", value_parser = not_empty)]
    pub system_namespace: String,
    /// Label key by which Gateways select proxies; empty = all proxies
    #[arg(long, default_value = "higress")]
    pub gateway_selector_key: String,
    /// Label value by which Gateways select proxies
    #[arg(long, default_value = "higress-system-higress-gateway")]
    pub gateway_selector_value: String,
    /// Port of HTTP servers
    #[arg(long, default_value_t = 80, value_parser = clap::value_parser!(u16).range(1..))]
    pub gateway_http_port: u16,
    /// Port of HTTPS servers
    #[arg(long, default_value_t = 443, value_parser = clap::value_parser!(u16).range(1..))]
    pub gateway_https_port: u16,
    /// Name of this cluster
    #[arg(long, env = "CLUSTER_ID", default_value = "Kubernetes", value_parser = not_empty)]
    pub cluster_id: String,
    /// Suffix of service host names
    #[arg(long, env = "DOMAIN_SUFFIX", default_value = "cluster.local", value_parser = not_empty)]
    pub domain: String,
    /// What annotations mean: `higress` or `ingress-nginx`. The annotation higress.io/annotation-semantics of an
    /// IngressClass, and that of an Ingress, take precedence
    #[arg(long, value_name = "NAME", default_value_t, value_parser = semantics)]
    pub annotation_semantics: Semantics,
}

fn semantics(text: &str) -> Result<Semantics, UnknownSemantics> {
    text.parse()
}

fn not_empty(text: &str) -> Result<String, &'static str> {
    if text.is_empty() {
        Err("may not be empty; leave the flag (or its environment variable) out for the default")
    } else {
        Ok(text.to_owned())
    }
}

impl From<ScopeArgs> for Scope {
    fn from(args: ScopeArgs) -> Self {
        let ScopeArgs {
            ingress_class,
            watch_namespace,
            system_namespace,
            gateway_selector_key,
            gateway_selector_value,
            gateway_http_port,
            gateway_https_port,
            cluster_id,
            domain,
            annotation_semantics,
        } = args;
        Self {
            ingress_class,
            watch_namespaces: flags::names(&watch_namespace).collect(),
            system_namespace: Arc::from(system_namespace),
            gateway_selector: Some((gateway_selector_key, gateway_selector_value))
                .filter(|(key, _)| !key.is_empty()),
            gateway_http_port,
            gateway_https_port,
            cluster_id,
            domain,
            semantics: annotation_semantics,
        }
    }
}

/// Higress's spelling -> ours.
const SPELLINGS: &[(&str, &str)] = &[
    ("clusterID", "cluster-id"),
    ("enableStatus", "enable-status"),
    ("gatewayHttpPort", "gateway-http-port"),
    ("gatewayHttpsPort", "gateway-https-port"),
    ("gatewaySelectorKey", "gateway-selector-key"),
    ("gatewaySelectorValue", "gateway-selector-value"),
    ("grpcAddress", "mcp-address"),
    ("httpAddress", "http-address"),
    ("ingressClass", "ingress-class"),
    ("watchNamespace", "watch-namespace"),
];

/// Higress's flags that have no effect here, and whether they can stand apart from their value.
const WITHOUT_EFFECT: &[(&str, bool)] = &[
    ("automaticHttpsEmail", true),
    ("certHttpAddress", true),
    ("clusterAliases", true),
    ("clusterRegistriesNamespace", true),
    ("debug", false),
    ("enableAutomaticHttps", false),
    ("keepStaleWhenEmpty", false),
    ("keepaliveInterval", true),
    ("keepaliveMaxServerConnectionAge", true),
    ("keepaliveTimeout", true),
    ("kubernetesApiBurst", true),
    ("kubernetesApiQPS", true),
    ("log_as_json", false),
    ("log_output_level", true),
];

/// The reference of all flags, in Markdown.
pub fn reference() -> String {
    let without_effect: Vec<&str> = WITHOUT_EFFECT.iter().map(|(name, _)| *name).collect();
    let theirs = Theirs {
        spellings: SPELLINGS,
        without_effect: &without_effect,
    };
    reference::markdown(Args::command(), &theirs)
}

/// Reads the command line; mistakes end the process.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Args {
    let args = flags::rewrite_camel_case(args, SPELLINGS);
    let (args, ignored) = without_ignored(args);
    let mut args: Args = flags::parse_or_exit(args);
    args.ignored = ignored;
    args
}

fn without_ignored(args: Vec<OsString>) -> (Vec<OsString>, Vec<String>) {
    let (mut kept, mut ignored) = (Vec::new(), Vec::new());
    let mut args = args.into_iter().peekable();
    while let Some(arg) = args.next() {
        let flag = arg.to_str().and_then(|text| text.strip_prefix("--"));
        let name = flag.map(|flag| flag.split('=').next().unwrap_or(flag));
        let known = name.and_then(|name| WITHOUT_EFFECT.iter().find(|(known, _)| *known == name));
        let Some((name, takes_value)) = known else {
            kept.push(arg);
            continue;
        };
        ignored.push(format!("--{name}"));
        let apart = *takes_value && flag.is_some_and(|flag| !flag.contains('='));
        if apart {
            args.next_if(|value| !value.as_encoded_bytes().starts_with(b"--"));
        }
    }
    (kept, ignored)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Args {
        parse(line.split(' ').map(OsString::from))
    }

    #[test]
    fn upstream_command_lines_are_accepted() {
        let args = read(
            "controller serve --gatewaySelectorKey=k --gatewaySelectorValue=v --gatewayHttpPort=8080 --gatewayHttpsPort 8443 \
             --ingressClass= --enableStatus=true --enableAutomaticHttps --automaticHttpsEmail a@b.c --config-dir /x",
        );
        assert_eq!(
            args.ignored,
            ["--enableAutomaticHttps", "--automaticHttpsEmail"]
        );
        let Command::Serve(serve) = args.command else {
            panic!("serve was asked for");
        };
        assert!(serve.status.enable_status && serve.status.leader_election);
        let scope = Scope::from(serve.scope);
        assert_eq!(
            scope.gateway_selector,
            Some(("k".to_owned(), "v".to_owned()))
        );
        assert_eq!(
            (scope.gateway_http_port, scope.gateway_https_port),
            (8080, 8443)
        );
        assert_eq!(scope.ingress_class, "");
    }

    #[test]
    fn defaults_are_those_of_the_model() {
        let Command::Translate(args) = read("controller translate -f x").command else {
            panic!("translate was asked for");
        };
        assert_eq!(Scope::from(args.scope), Scope::default());
    }
}
