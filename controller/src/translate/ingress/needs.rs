//! What an Ingress depends on because of its annotations.

use std::sync::Arc;

use shared_proto::networking::v1alpha3::traffic_policy::PortTrafficPolicy;

use super::annotations::Settings;
use super::backend::BRIDGE;
use crate::model::{Backend, BackendPort, Ingress, Scope, Upstream};
use crate::resolve::Needs;

/// Dependencies of an Ingress beyond its rules: Services whose ports annotations look up, further hosts, and the upstreams
/// whose policy it has a say in.
pub fn needs(scope: &Scope, ingress: &Ingress) -> Needs {
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
    needs.aliases = settings.hosts.iter().flat_map(|h| h.all(ingress)).collect();
    let control = settings.header_control.iter();
    needs
        .secrets
        .extend(control.flat_map(|control| control.secrets(ingress)));
    if let Some(auth) = &settings.auth {
        let url = auth.url.as_ref();
        needs
            .services
            .extend(url.and_then(|url| url.service_name(scope)));
        let basic = auth.basic.as_ref();
        needs
            .secrets
            .extend(basic.map(|basic| basic.secret(ingress)));
    }
    if settings.passthrough.is_some() {
        let backends = root_backends(ingress);
        let services = backends.filter_map(|backend| match backend {
            Backend::Service { name, .. } => Some(name),
            Backend::Resource { .. } | Backend::Absent => None,
        });
        let upstream = |name: &Arc<str>| Upstream::service(ingress.namespace.clone(), name.clone());
        needs.passed = services.map(upstream).collect();
    }
    if settings.has_policy() {
        needs.policy = Arc::new(policy(scope, &settings));
        let paths = ingress.rules.iter().filter(|rule| rule.host.is_ok());
        let paths = paths.flat_map(|rule| rule.paths.iter().map(|path| &path.backend));
        for backend in paths.chain(&ingress.default_backend) {
            add(&mut needs.upstreams, ingress, &settings, backend);
        }
    }
    needs
}

/// Backends that TLS connections may be passed on to.
fn root_backends(ingress: &Ingress) -> impl Iterator<Item = &Backend> {
    let paths = ingress.rules.iter().flat_map(|rule| &rule.paths);
    let root = paths.filter(|path| matches!(&*path.path, "" | "/"));
    root.map(|path| &path.backend)
        .chain(&ingress.default_backend)
}

/// What an Ingress asks for, of no port yet.
fn policy(scope: &Scope, settings: &Settings) -> PortTrafficPolicy {
    let mut policy = PortTrafficPolicy::default();
    if let Some(tls) = &settings.upstream_tls {
        tls.apply(scope, &mut policy);
    }
    if let Some(timeout) = &settings.connect_timeout {
        timeout.apply(&mut policy);
    }
    policy.load_balancer = settings.load_balance.as_ref().map(|lb| lb.settings());
    policy
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
