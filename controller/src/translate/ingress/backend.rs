//! Where the requests of a route go.

use shared_proto::networking::v1alpha3::{
    Destination, HttpDirectResponse, HttpRoute, HttpRouteDestination, PortSelector,
};

use super::{Context, Diagnostics};
use crate::model::{Backend, BackendPort, Ingress, Reason};
use crate::translate::names;

/// Share of a route's only destination.
const WHOLE: i32 = 100;
/// Answer of a route whose backend cannot be told: the path stays its owner's, nobody else's backend gets its requests.
const UNAVAILABLE: u32 = 503;

/// A backend that cannot be told: the field below it, the reason, and words for its author.
type Fault = (&'static str, Reason, String);

/// Sets the destination of `http`. A backend that cannot be told is reported, and the route answers 503.
pub(super) fn set(
    context: Context<'_>,
    ingress: &Ingress,
    (field, backend): (String, &Backend),
    http: &mut HttpRoute,
    diagnostics: &mut Diagnostics,
) {
    match destination(context, ingress, backend) {
        Ok(destination) => http.route.push(HttpRouteDestination {
            destination: Some(destination),
            weight: WHOLE,
            ..HttpRouteDestination::default()
        }),
        Err((below, reason, message)) => {
            let message = format!("{message}; requests are answered with {UNAVAILABLE}");
            diagnostics.add(ingress, format!("{field}{below}"), reason, message);
            http.direct_response = Some(HttpDirectResponse {
                status: UNAVAILABLE,
                body: None,
            });
        }
    }
}

fn destination(
    context: Context<'_>,
    ingress: &Ingress,
    backend: &Backend,
) -> Result<Destination, Fault> {
    let (service, port) = match backend {
        Backend::Service { name, port } => (name, port),
        Backend::Resource { kind, name } => {
            let message = format!("{kind} {name} cannot be a backend; name a service");
            return Err((".resource", Reason::UnsupportedBackend, message));
        }
        Backend::Absent => {
            let message = "there is no backend; name a service and its port".to_owned();
            return Err(("", Reason::InvalidBackend, message));
        }
    };
    if !is_service_name(service) {
        let message = format!("{service:?} is not the name of a service");
        return Err((".service.name", Reason::InvalidBackend, message));
    }
    let number = match port {
        BackendPort::Number(number) => *number,
        BackendPort::Name(name) => lookup(context, ingress, service, name)?,
        BackendPort::Absent => {
            let message = "there is no port; give its number or name".to_owned();
            return Err((".service.port", Reason::InvalidBackend, message));
        }
        BackendPort::OutOfRange(number) => {
            let message = format!("{number} is not a port; use 1 to 65535");
            return Err((".service.port.number", Reason::InvalidBackend, message));
        }
    };
    Ok(Destination {
        host: names::service_host(context.scope, &ingress.namespace, service),
        subset: String::new(),
        port: Some(PortSelector {
            number: number.into(),
        }),
    })
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
