//! From flags to what serves the secure port.

use std::path::PathBuf;
use std::time::Duration;

use daemon::flags;
use daemon::listen::ListenAddress;
use kube::Client;

use super::authenticate::{Accounts, Authenticator};
use super::certificates::{Certificates, Provider};
use super::shared_ca::SharedCa;
use super::tokens::Tokens;
use crate::args::{OptionalAddress, SecurityArgs};
use crate::metrics::Metrics;
use crate::model::identity::{Account, AccountError};

/// The secure port when no flag says otherwise.
const DEFAULT_PORT: u16 = 15012;
/// Names by which gateways of the chart know the pilot.
const SERVICES: [&str; 2] = ["higress-controller", "higress-pilot"];

/// Flags that do not go together; one line, with what to do.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// No certificate without a cluster.
    #[error(
        "--secure-grpc-address needs --tls-cert-file, --tls-key-file and --tls-client-ca-file when no cluster is used; give \
         them, or leave it out"
    )]
    NoCertificate,
    /// Nobody can be verified without a cluster.
    #[error(
        "--tls-cert-file without a cluster needs --tls-client-ca-file: there is nobody to verify tokens; give it, or \
         --secure-grpc-address= to serve no TLS"
    )]
    NoVerifier,
    /// An account that is none.
    #[error("--gateway-accounts: {0}")]
    Account(#[from] AccountError),
}

/// What serves the secure port.
#[derive(Debug)]
pub struct Secure {
    /// Where to listen.
    pub address: ListenAddress,
    /// Keeps the certificate.
    pub certificates: Certificates,
    /// Verifies the peers.
    pub authenticator: Authenticator,
    /// How long a connection may last.
    pub max_age: Option<Duration>,
}

/// What the flags ask for.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Off,
    Files(PathBuf, PathBuf),
    Shared,
}

fn plan(args: &SecurityArgs, cluster: bool) -> Result<Plan, SetupError> {
    let wanted = args.secure_grpc_address.as_ref();
    if wanted == Some(&OptionalAddress::Off) {
        return Ok(Plan::Off);
    }
    match (&args.tls_cert_file, &args.tls_key_file) {
        (Some(_), Some(_)) if !cluster && args.tls_client_ca_file.is_none() => {
            Err(SetupError::NoVerifier)
        }
        (Some(certificate), Some(key)) => Ok(Plan::Files(certificate.clone(), key.clone())),
        _ if cluster => Ok(Plan::Shared),
        _ if wanted.is_some() => Err(SetupError::NoCertificate),
        _ => Ok(Plan::Off),
    }
}

impl Secure {
    /// What the flags ask for; `None` = no secure port. `namespace` and `domain` are the pilot's.
    ///
    /// # Errors
    /// The flags do not go together.
    pub fn new(
        args: &SecurityArgs,
        client: Option<&Client>,
        (namespace, domain): (&str, &str),
        metrics: &Metrics,
    ) -> Result<Option<Self>, SetupError> {
        let provider = match (plan(args, client.is_some())?, client) {
            (Plan::Files(certificate, key), _) => Provider::Files { certificate, key },
            (Plan::Shared, Some(client)) => Provider::Shared {
                ca: SharedCa::new(
                    client,
                    namespace,
                    &args.xds_ca_secret,
                    &args.xds_ca_configmap,
                ),
                names: names(&args.xds_server_names, namespace, domain),
            },
            (Plan::Shared | Plan::Off, _) => return Ok(None),
        };
        let address = match &args.secure_grpc_address {
            Some(OptionalAddress::At(address)) => address.clone(),
            Some(OptionalAddress::Off) | None => ListenAddress::any(DEFAULT_PORT),
        };
        let listed: Result<_, _> = flags::names(&args.gateway_accounts)
            .map(|text| text.parse::<Account>())
            .collect();
        let accounts = Accounts {
            listed: listed?,
            namespace: namespace.to_owned(),
        };
        let tokens = client.map(|client| Tokens::new(client.clone(), args.token_audience.clone()));
        let client_ca = args.tls_client_ca_file.clone();
        Ok(Some(Self {
            address,
            max_age: Some(args.keepalive_max_server_connection_age).filter(|age| !age.is_zero()),
            certificates: Certificates::new(provider, client_ca, metrics.clone()),
            authenticator: Authenticator::new(tokens, accounts, metrics.clone()),
        }))
    }
}

/// The names in the certificate: those given, else those of the chart's Services.
fn names(given: &str, namespace: &str, domain: &str) -> Vec<String> {
    let given: Vec<String> = flags::names(given).collect();
    if !given.is_empty() {
        return given;
    }
    let of = |service: &str| {
        let short = format!("{service}.{namespace}");
        [
            short.clone(),
            format!("{short}.svc"),
            format!("{short}.svc.{domain}"),
        ]
    };
    SERVICES.iter().flat_map(|service| of(service)).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use rstest::rstest;

    use super::*;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        security: SecurityArgs,
    }

    const FILES: &[&str] = &["--tls-cert-file=c", "--tls-key-file=k"];
    const FILES_AND_CLIENTS: &[&str] = &[
        "--tls-cert-file=c",
        "--tls-key-file=k",
        "--tls-client-ca-file=a",
    ];

    #[rstest]
    #[case(&[], true, "Shared")]
    #[case(&[], false, "Off")]
    #[case(&["--secure-grpc-address="], true, "Off")]
    #[case(&["--secure-grpc-address=:1"], true, "Shared")]
    #[case(&["--secure-grpc-address=:1"], false, "--tls-cert-file, --tls-key-file")]
    #[case(FILES, true, "Files")]
    #[case(FILES, false, "--tls-client-ca-file")]
    #[case(FILES_AND_CLIENTS, false, "Files")]
    fn what_the_flags_ask_for(
        #[case] given: &[&str],
        #[case] cluster: bool,
        #[case] expected: &str,
    ) {
        let flags = [&["pilot"], given].concat();
        let args = Flags::try_parse_from(flags).unwrap().security;
        let plan = match plan(&args, cluster) {
            Ok(plan) => format!("{plan:?}"),
            Err(error) => error.to_string(),
        };
        assert!(plan.contains(expected), "{plan}");
        assert!(!plan.contains('\n'), "{plan}");
    }

    #[test]
    fn a_certificate_without_its_key_is_refused() {
        for one in ["--tls-cert-file=c", "--tls-key-file=k"] {
            let error = Flags::try_parse_from(["pilot", one]).unwrap_err();
            assert!(error.to_string().contains("required"), "{error}");
        }
    }

    #[test]
    fn names_are_given_or_those_of_the_chart() {
        assert_eq!(names("a.b, 10.0.0.1", "sys", "x"), ["a.b", "10.0.0.1"]);
        let chart = names("", "sys", "cluster.local");
        let full = "higress-pilot.sys.svc.cluster.local".to_owned();
        assert!(chart.contains(&full), "{chart:?}");
    }
}
