//! Copies of requests to another backend, whose answers nobody sees.

use std::sync::Arc;

use shared_proto::networking::v1alpha3::{Destination, HttpRoute, Percent, PortSelector};

use super::table::{
    MIRROR_PERCENTAGE, MIRROR_TARGET_FQDN, MIRROR_TARGET_FQDN_PORT, MIRROR_TARGET_SERVICE,
};
use super::value::{self, Value, ValueError};
use super::{Annotations, Found, Problem, Problems};
use crate::model::{CATCH_ALL, Ingress, Reason, parse_host};
use crate::resolve::Services;
use crate::translate::ingress::backend::is_service_name;
use crate::translate::ingress::{Context, Diagnostics};
use crate::translate::names;

const DEFAULT_PORT: u16 = 80;
const ALL: i64 = 100;

/// Where copies go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mirror {
    target: Target,
    /// Percentage, `None` = all requests.
    share: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Service {
        /// The full key that names it.
        key: &'static str,
        /// `None` = that of the Ingress.
        namespace: Option<Arc<str>>,
        name: Arc<str>,
        /// `None` = its first port.
        port: Option<u16>,
    },
    Host {
        host: String,
        port: u16,
    },
}

/// Reads where copies go; `None` when there is no target or a share of nothing.
pub(crate) fn parse(annotations: &Annotations<'_>, problems: &mut Problems) -> Option<Mirror> {
    let service = annotations.find(&MIRROR_TARGET_SERVICE, service, problems);
    let target = match annotations.find(&MIRROR_TARGET_FQDN, host, problems) {
        Some(Found { key, value: host }) => {
            if let Some(service) = service {
                let message = format!("has no effect beside {key}; remove one");
                problems.add(service.key, Reason::IneffectiveAnnotation, message);
            }
            let port = annotations.get(&MIRROR_TARGET_FQDN_PORT, port, problems);
            Target::Host {
                host,
                port: port.unwrap_or(DEFAULT_PORT),
            }
        }
        None => {
            let Found { key, value } = service?;
            let (namespace, name, port) = value;
            Target::Service {
                key,
                namespace,
                name,
                port,
            }
        }
    };
    let share = annotations.get(&MIRROR_PERCENTAGE, value::integer, problems);
    match share.filter(|share| *share < ALL) {
        Some(share) if share <= 0 => None,
        share => Some(Mirror {
            target,
            share: share.and_then(|share| u32::try_from(share).ok()),
        }),
    }
}

type ServicePort = (Option<Arc<str>>, Arc<str>, Option<u16>);

/// `[namespace/]name[:port]`; a port that is none means the first one.
fn service(text: &str) -> Value<ServicePort> {
    let line = value::line(text)?;
    let (name, port) = match line.split_once(':') {
        Some((name, port)) => (name, port.parse().ok().filter(|port| *port != 0)),
        None => (line.as_str(), None),
    };
    let found = value::namespaced_name(name)?;
    let namespace = found.namespace;
    if !is_service_name(&found.name) || !namespace.as_deref().is_none_or(is_service_name) {
        return Err(ValueError::new(&line, "does not name a Service"));
    }
    Ok((namespace.map(Arc::from), Arc::from(found.name), port))
}

fn host(text: &str) -> Value<String> {
    let line = value::line(text)?;
    match parse_host(&line) {
        Ok(host) if host != CATCH_ALL && !host.starts_with("*.") => Ok(host),
        Ok(_) => Err(ValueError::new(&line, "is a wildcard; name one host")),
        Err(error) => Err(ValueError::new(&line, &error.to_string())),
    }
}

fn port(text: &str) -> Value<u16> {
    let number = value::integer_within(text, 1, u16::MAX.into())?;
    // In range, as just checked.
    Ok(u16::try_from(number).unwrap_or(DEFAULT_PORT))
}

impl Mirror {
    /// The Service (namespace, name) that has to be looked up.
    pub(crate) fn service(&self, ingress: &Ingress) -> Option<(Arc<str>, Arc<str>)> {
        match &self.target {
            Target::Service {
                namespace, name, ..
            } => {
                let namespace = namespace.as_ref().unwrap_or(&ingress.namespace);
                Some((namespace.clone(), name.clone()))
            }
            Target::Host { .. } => None,
        }
    }

    /// Sets the mirror. A Service that does not exist, or has no port, is reported and gets no copies.
    pub(in crate::translate::ingress) fn apply(
        &self,
        context: Context<'_>,
        ingress: &Ingress,
        http: &mut HttpRoute,
        diagnostics: &mut Diagnostics,
    ) {
        let (host, port) = match self.destination(context, ingress) {
            Ok(destination) => destination,
            Err(problem) => {
                diagnostics.once(problem.diagnostic(ingress));
                return;
            }
        };
        http.mirror = Some(Destination {
            host,
            subset: String::new(),
            port: Some(PortSelector {
                number: port.into(),
            }),
        });
        http.mirror_percentage = self.share.map(|share| Percent {
            value: share.into(),
        });
    }

    fn destination(
        &self,
        context: Context<'_>,
        ingress: &Ingress,
    ) -> Result<(String, u16), Problem> {
        match &self.target {
            Target::Host { host, port } => Ok((host.clone(), *port)),
            Target::Service {
                key,
                namespace,
                name,
                port,
            } => {
                let namespace = namespace.as_ref().unwrap_or(&ingress.namespace);
                let first = first_port(context.services, namespace, name);
                let first = first.map_err(|message| Problem {
                    key: (*key).to_owned(),
                    reason: Reason::UnresolvedService,
                    message: format!("{message}; requests are not copied"),
                })?;
                let host = names::service_host(context.scope, namespace, name);
                Ok((host, port.unwrap_or(first)))
            }
        }
    }
}

/// First port of a Service; the error says why there is none.
pub(super) fn first_port(
    services: &dyn Services,
    namespace: &str,
    name: &str,
) -> Result<u16, String> {
    let service = services
        .service(namespace, name)
        .ok_or_else(|| format!("there is no Service {namespace}/{name}"))?;
    let first = service.ports.first();
    first
        .map(|port| port.number)
        .ok_or_else(|| format!("Service {namespace}/{name} has no port"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::parsed;
    use super::*;
    use rstest::rstest;

    const SERVICE: &str = "higress.io/mirror-target-service";
    const FQDN: &str = "nginx.ingress.kubernetes.io/mirror-target-fqdn";
    const PORT: &str = "nginx.ingress.kubernetes.io/mirror-target-fqdn-port";
    const SHARE: &str = "nginx.ingress.kubernetes.io/mirror-percentage";

    fn shown(mirror: Option<Mirror>) -> String {
        let Some(Mirror { target, share }) = mirror else {
            return String::new();
        };
        let share = share.map_or(String::new(), |share| format!(" {share}%"));
        match target {
            Target::Host { host, port } => format!("{host}:{port}{share}"),
            Target::Service {
                namespace,
                name,
                port,
                ..
            } => format!("{namespace:?}/{name}:{port:?}{share}"),
        }
    }

    #[rstest]
    #[case(&[], "", 0)]
    #[case(&[(SERVICE, "shadow")], "None/shadow:None", 0)]
    #[case(&[(SERVICE, "m/shadow:8080"), (SHARE, "25")], "Some(\"m\")/shadow:Some(8080) 25%", 0)]
    #[case::bad_port(&[(SERVICE, "shadow:http")], "None/shadow:None", 0)]
    #[case::all(&[(SERVICE, "shadow"), (SHARE, "100")], "None/shadow:None", 0)]
    #[case::bad_share(&[(SERVICE, "shadow"), (SHARE, "1%")], "None/shadow:None", 1)]
    #[case::none(&[(SERVICE, "shadow"), (SHARE, "0")], "", 0)]
    #[case::bad_name(&[(SERVICE, "Sha dow")], "", 1)]
    #[case::host(&[(FQDN, "m.example.com")], "m.example.com:80", 0)]
    #[case::host_wins(&[(FQDN, "m.example.com"), (PORT, "81"), (SERVICE, "s")], "m.example.com:81", 1)]
    #[case::bad_host(&[(FQDN, "m/x"), (SERVICE, "s")], "None/s:None", 1)]
    #[case::wildcard(&[(FQDN, "*.x.test")], "", 1)]
    #[case::bad_fqdn_port(&[(FQDN, "m.test"), (PORT, "0")], "m.test:80", 1)]
    fn mirrors(
        #[case] annotations: &[(&str, &str)],
        #[case] expected: &str,
        #[case] problems: usize,
    ) {
        let (mirror, found) = parsed(annotations, parse);
        assert_eq!(shown(mirror), expected);
        assert_eq!(found.len(), problems, "{found:?}");
    }
}
