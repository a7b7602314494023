//! What an Ingress depends on because of its annotations.

use super::annotations::Settings;
use super::backend::BRIDGE;
use crate::model::{Backend, BackendPort, Ingress, Upstream};
use crate::resolve::Needs;

/// Dependencies of an Ingress beyond its rules: Services whose ports annotations look up, and the upstreams whose policy
/// it has a say in.
pub fn needs(ingress: &Ingress) -> Needs {
    if ingress.annotations.is_empty() {
        return Needs::default();
    }
    let (settings, _) = Settings::parse(ingress);
    let mut needs = Needs::default();
    needs
        .services
        .extend(settings.mirror.as_ref().and_then(|m| m.service(ingress)));
    needs
        .services
        .extend(settings.fallback.as_ref().map(|f| f.service(ingress)));
    if settings.has_policy() {
        let paths = ingress.rules.iter().filter(|rule| rule.host.is_ok());
        let paths = paths.flat_map(|rule| rule.paths.iter().map(|path| &path.backend));
        for backend in paths.chain(&ingress.default_backend) {
            add(&mut needs.upstreams, ingress, &settings, backend);
        }
    }
    needs
}

fn add(
    upstreams: &mut Vec<(Upstream, BackendPort)>,
    ingress: &Ingress,
    settings: &Settings,
    backend: &Backend,
) {
    match backend {
        Backend::Service { name, port } => {
            let upstream = Upstream::service(ingress.namespace.clone(), name.clone());
            upstreams.push((upstream, port.clone()));
        }
        Backend::Resource { kind, .. } if **kind == *BRIDGE => {
            for backend in settings.destination.iter().flatten().flatten() {
                let port = backend
                    .port
                    .map_or(BackendPort::Absent, BackendPort::Number);
                let upstream = Upstream::registry(&backend.host);
                upstreams.extend(upstream.map(|upstream| (upstream, port)));
            }
        }
        Backend::Resource { .. } | Backend::Absent => {}
    }
}
