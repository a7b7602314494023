//! Where the requests of a route go.

use shared_proto::networking::v1alpha3::{
    Destination, HttpDirectResponse, HttpRoute, HttpRouteDestination, PortSelector,
};

use super::{Context, Diagnostics, Member, weights};
use crate::model::{Backend, BackendPort, Ingress, Reason};
use crate::translate::names;

/// Share of a route's only destination.
const WHOLE: i32 = 100;
/// Answer of a route whose backend cannot be told: the path stays its owner's, nobody else's backend gets its requests.
const UNAVAILABLE: u32 = 503;
/// Kind of the object that stands for the backends of registries.
pub(super) const BRIDGE: &str = "McpBridge";

/// A backend that cannot be told: the field below it, the reason, and words for its author.
pub(super) type Fault = (&'static str, Reason, String);

/// Sets the destinations of `http`. A backend that cannot be told is reported, and the route answers 503.
pub(super) fn set(
    context: Context<'_>,
    member: &Member<'_>,
    (field, backend): (String, &Backend),
    http: &mut HttpRoute,
    diagnostics: &mut Diagnostics,
) {
    match destinations(context, member, backend) {
        Ok(destinations) => http.route = destinations,
        Err((below, reason, message)) => {
            let message = format!("{message}; requests are answered with {UNAVAILABLE}");
            diagnostics.add(member.ingress, format!("{field}{below}"), reason, message);
            http.direct_response = Some(HttpDirectResponse {
                status: UNAVAILABLE,
                body: None,
            });
        }
    }
}

/// The destinations of a backend, their weights adding up. There is at least one.
pub(super) fn destinations(
    context: Context<'_>,
    member: &Member<'_>,
    backend: &Backend,
) -> Result<Vec<HttpRouteDestination>, Fault> {
    let ingress = member.ingress;
    let (service, port) = match backend {
        Backend::Service { name, port } => (name, port),
        Backend::Resource { kind, name } if **kind == *BRIDGE => {
            return registry(member, name);
        }
        Backend::Resource { kind, name } => {
            let message = format!("{kind} {name} cannot be a backend; name a service");
            return Err((".resource", Reason::UnsupportedBackend, message));
        }
        Backend::Absent => {
            let message = "there is no backend; name a service and its port".to_owned();
            return Err(("", Reason::InvalidBackend, message));
        }
    };
    let destination = Destination {
        host: names::service_host(context.scope, &ingress.namespace, service),
        subset: String::new(),
        port: Some(PortSelector {
            number: number(context, ingress, service, port)?.into(),
        }),
    };
    Ok(vec![HttpRouteDestination {
        destination: Some(destination),
        weight: WHOLE,
        ..HttpRouteDestination::default()
    }])
}

/// The backends that the annotation `destination` names.
fn registry(member: &Member<'_>, name: &str) -> Result<Vec<HttpRouteDestination>, Fault> {
    let message = match &member.settings.destination {
        Some(Some(backends)) => {
            let mut all: Vec<_> = backends.iter().map(|b| b.destination()).collect();
            weights::normalise(&mut all);
            return Ok(all);
        }
        Some(None) => format!("the annotation destination names no backend of {BRIDGE} {name}"),
        None => format!(
            "{BRIDGE} {name} stands for no backend by itself; name one in the annotation higress.io/destination"
        ),
    };
    Err((".resource", Reason::InvalidBackend, message))
}

fn number(
    context: Context<'_>,
    ingress: &Ingress,
    service: &str,
    port: &BackendPort,
) -> Result<u16, Fault> {
    if !is_service_name(service) {
        let message = format!("{service:?} is not the name of a service");
        return Err((".service.name", Reason::InvalidBackend, message));
    }
    match port {
        BackendPort::Number(number) => Ok(*number),
        BackendPort::Name(name) => lookup(context, ingress, service, name),
        BackendPort::Absent => {
            let message = "there is no port; give its number or name".to_owned();
            Err((".service.port", Reason::InvalidBackend, message))
        }
        BackendPort::OutOfRange(number) => {
            let message = format!("{number} is not a port; use 1 to 65535");
            Err((".service.port.number", Reason::InvalidBackend, message))
        }
    }
}

fn lookup(
    context: Context<'_>,
    ingress: &Ingress,
    service: &str,
    port: &str,
) -> Result<u16, Fault> {
    let namespace = &ingress.namespace;
    let message = match context.services.service(namespace, service) {
        None => format!("port {port:?} cannot be looked up: no Service {namespace}/{service}"),
        Some(found) => match found.port(port) {
            Some(number) => return Ok(number),
            None => format!("Service {namespace}/{service} has no port named {port:?}"),
        },
    };
    Err((".service.port.name", Reason::UnresolvedPortName, message))
}

/// RFC 1123 label: a Service name ends up in a host name.
pub(super) fn is_service_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=63).contains(&name.len())
        && name.bytes().all(plain)
        && !name.starts_with('-')
        && !name.ends_with('-')
}
