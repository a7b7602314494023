//! Kubernetes API types to trimmed ones. Total: what cannot be right is kept in a form that resolution reports.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::networking::v1 as networking;

use crate::model::{
    Backend, BackendPort, CATCH_ALL, Ingress, IngressClass, IngressPath, IngressRule, IngressTls,
    PathType, SEMANTICS_ANNOTATION, Secret, Service, ServicePort, parse_host,
};

/// The old way to name a class; it beats `spec.ingressClassName`.
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
/// Prefixes of annotations that configure routing.
const ANNOTATION_PREFIXES: [&str; 2] = ["nginx.ingress.kubernetes.io/", "higress.io/"];

/// Types of Secrets that no annotation has a use for; certificates are the pilot's business.
const UNUSED_SECRETS: [&str; 5] = [
    "kubernetes.io/tls",
    "kubernetes.io/service-account-token",
    "kubernetes.io/dockercfg",
    "kubernetes.io/dockerconfigjson",
    "helm.sh/release.v1",
];
/// Largest field of a Secret that is kept, in bytes.
const MAX_FIELD: usize = 256 * 1024;

/// Trims an Ingress. Its name and namespace are set by the caller, who knows the default namespace.
pub(super) fn ingress(object: networking::Ingress) -> Ingress {
    let meta = object.metadata;
    let spec = object.spec.unwrap_or_default();
    let mut ingress = Ingress::new(Arc::from(""), Arc::from(""));
    if let Some(created) = meta.creation_timestamp {
        ingress.created = created.0.as_second();
    }
    let mut annotations = meta.annotations.unwrap_or_default();
    ingress.class_annotation = annotations.remove(CLASS_ANNOTATION).map(Arc::from);
    ingress.annotations = routing_annotations(annotations);
    ingress.class_name = spec.ingress_class_name.map(Arc::from);
    ingress.default_backend = spec.default_backend.map(backend);
    ingress.tls = spec.tls.unwrap_or_default().into_iter().map(tls).collect();
    ingress.rules = spec
        .rules
        .unwrap_or_default()
        .into_iter()
        .map(rule)
        .collect();
    ingress.indexed()
}

/// Trims an IngressClass.
pub(super) fn ingress_class(object: networking::IngressClass) -> IngressClass {
    let mut annotations = object.metadata.annotations.unwrap_or_default();
    IngressClass {
        semantics: annotations.remove(SEMANTICS_ANNOTATION).map(Arc::from),
    }
}

/// Trims a Service.
pub(super) fn service(object: core::Service) -> Service {
    let ports = object.spec.unwrap_or_default().ports.unwrap_or_default();
    let ports = ports.into_iter().filter_map(|port| {
        Some(ServicePort {
            name: Arc::from(port.name.unwrap_or_default()),
            number: u16::try_from(port.port).ok().filter(|n| *n > 0)?,
        })
    });
    Service {
        ports: ports.collect(),
    }
}

/// Trims a Secret. `stringData` wins over `data`, as in the API server.
pub(super) fn secret(object: core::Secret) -> Secret {
    let unused = |kind: &str| UNUSED_SECRETS.contains(&kind);
    if object.type_.as_deref().is_some_and(unused) {
        return Secret::default();
    }
    let data = object.data.unwrap_or_default().into_iter();
    let text = object.string_data.unwrap_or_default().into_iter();
    let all = data
        .map(|(key, value)| (key, value.0))
        .chain(text.map(|(key, value)| (key, value.into_bytes())));
    Secret::new(all.filter(|(_, value)| value.len() <= MAX_FIELD))
}

fn routing_annotations(all: BTreeMap<String, String>) -> BTreeMap<Arc<str>, Arc<str>> {
    all.into_iter()
        .filter(|(key, _)| ANNOTATION_PREFIXES.iter().any(|p| key.starts_with(p)))
        .map(|(key, value)| (Arc::from(key), Arc::from(value)))
        .collect()
}

fn tls(entry: networking::IngressTLS) -> IngressTls {
    let hosts = entry.hosts.unwrap_or_default();
    let hosts = if hosts.is_empty() {
        vec![CATCH_ALL.to_owned()]
    } else {
        hosts
    };
    IngressTls {
        hosts: hosts
            .iter()
            .map(|h| Arc::from(h.to_ascii_lowercase()))
            .collect(),
        secret: Arc::from(entry.secret_name.unwrap_or_default()),
    }
}

fn rule(rule: networking::IngressRule) -> IngressRule {
    let raw = rule.host.unwrap_or_default();
    let paths = rule.http.map(|http| http.paths).unwrap_or_default();
    IngressRule {
        host: match parse_host(&raw) {
            Ok(host) => Ok(Arc::from(host)),
            Err(error) => Err((Arc::from(raw), error)),
        },
        paths: paths.into_iter().map(path).collect(),
    }
}

fn path(path: networking::HTTPIngressPath) -> IngressPath {
    IngressPath {
        path: Arc::from(path.path.unwrap_or_default()),
        path_type: match path.path_type.as_str() {
            "Exact" => PathType::Exact,
            "Prefix" => PathType::Prefix,
            "ImplementationSpecific" => PathType::ImplementationSpecific,
            "" => PathType::Absent,
            _ => PathType::Unknown(Arc::from(path.path_type)),
        },
        backend: backend(path.backend),
    }
}

fn backend(backend: networking::IngressBackend) -> Backend {
    if let Some(service) = backend.service {
        let port = service.port.unwrap_or_default();
        return Backend::Service {
            name: Arc::from(service.name),
            port: match (port.number, port.name) {
                // A number of 0 is Go's "absent"; number beats name, as in the API's own rules only one is set.
                (Some(number), _) if number != 0 => match u16::try_from(number) {
                    Ok(number) => BackendPort::Number(number),
                    Err(_) => BackendPort::OutOfRange(number),
                },
                (_, Some(name)) if !name.is_empty() => BackendPort::Name(Arc::from(name)),
                _ => BackendPort::Absent,
            },
        };
    }
    match backend.resource {
        Some(resource) => Backend::Resource {
            kind: Arc::from(resource.kind),
            name: Arc::from(resource.name),
        },
        None => Backend::Absent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Ingress {
        ingress(serde_yaml::from_str(text).unwrap())
    }

    #[test]
    fn an_ingress_is_trimmed() {
        let ingress = parse(
            "metadata: {creationTimestamp: 2024-01-02T03:04:05Z, annotations: {kubernetes.io/ingress.class: x, \
               higress.io/timeout: '5', other: y}}\n\
             spec:\n  tls: [{hosts: [A.test], secretName: s}, {secretName: t}]\n  rules:\n  - host: A.test\n    http: {paths: [\n\
               {path: /n, pathType: Exact, backend: {service: {name: a, port: {number: 80}}}},\n\
               {backend: {service: {name: a, port: {name: web}}}},\n\
               {pathType: Odd, backend: {service: {name: a, port: {number: 70000}}}},\n\
               {pathType: Prefix, backend: {resource: {kind: K, name: r}}}, {pathType: Prefix}]}\n  - host: a.test\n  - host: '1.2.3.4'\n  - {}\n",
        );
        assert_eq!(ingress.created, 1_704_164_645);
        assert_eq!(ingress.class_annotation.as_deref(), Some("x"));
        assert_eq!(ingress.annotations.len(), 1);
        assert_eq!(
            ingress.hosts().map(|h| &**h).collect::<Vec<_>>(),
            ["*", "a.test"]
        );
        assert_eq!(
            ingress
                .rules_of("a.test")
                .map(|(i, _)| i)
                .collect::<Vec<_>>(),
            [0, 1]
        );
        assert_eq!(ingress.tls_of("a.test").unwrap().1.secret.as_ref(), "s");
        assert_eq!(ingress.tls_of("*").unwrap().0, 1);
        assert!(ingress.rules[2].host.is_err());
        let ports = ingress.rules[0].paths.iter().map(|p| match &p.backend {
            Backend::Service { port, .. } => format!("{port:?}"),
            other => format!("{other:?}"),
        });
        let ports: Vec<_> = ports.collect();
        assert_eq!(ports[0], "Number(80)");
        assert_eq!(ports[1], "Name(\"web\")");
        assert_eq!(ports[2], "OutOfRange(70000)");
        assert_eq!(ports[4], "Absent");
    }
}
