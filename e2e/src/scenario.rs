//! Manifests for tests that are written in Rust: hosts, services, certificates.

use std::net::SocketAddr;

use anyhow::Result;
use rcgen::{CertificateParams, DnType, KeyPair};

/// An Ingress that sends all of `host` to port 80 of `service`; with `secret` it has TLS too.
pub fn ingress(host: &str, service: &str, secret: Option<&str>) -> String {
    let name = host.replace(['*', '.'], "-");
    let tls = secret
        .map(|secret| format!("  tls: [{{hosts: ['{host}'], secretName: {secret}}}]\n"))
        .unwrap_or_default();
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{name: i{name}, namespace: default}}\nspec:\n\
         \x20 ingressClassName: higress\n{tls}  rules:\n  - host: '{host}'\n    http:\n      paths:\n      - path: /\n\
         \x20       pathType: Prefix\n        backend: {{service: {{name: {service}, port: {{number: 80}}}}}}\n---\n"
    )
}

/// A Service with one EndpointSlice that holds `backends`.
pub fn service(name: &str, backends: &[SocketAddr]) -> String {
    let endpoints: String = backends
        .iter()
        .map(|backend| {
            let (ip, port) = (backend.ip(), backend.port());
            format!(
                "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
                 metadata: {{name: {name}-{port}, namespace: default, labels: {{kubernetes.io/service-name: {name}}}}}\n\
                 addressType: IPv4\nports: [{{name: http, port: {port}}}]\n\
                 endpoints: [{{addresses: ['{ip}'], conditions: {{ready: true}}}}]\n"
            )
        })
        .collect();
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: default}}\n\
         spec: {{ports: [{{name: http, port: 80, targetPort: 8080}}]}}\n{endpoints}---\n"
    )
}

/// A TLS Secret with a fresh self-signed certificate for `host` whose common name is `common_name`.
///
/// # Errors
/// The certificate cannot be made.
pub fn tls_secret(name: &str, host: &str, common_name: &str) -> Result<String> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new([host.to_owned()])?;
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    let certificate = params.self_signed(&key)?;
    let indent = |pem: String| {
        pem.lines()
            .map(|line| format!("    {line}\n"))
            .collect::<String>()
    };
    Ok(format!(
        "apiVersion: v1\nkind: Secret\ntype: kubernetes.io/tls\nmetadata: {{name: {name}, namespace: default}}\n\
         stringData:\n  tls.crt: |\n{}  tls.key: |\n{}---\n",
        indent(certificate.pem()),
        indent(key.serialize_pem())
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifests;

    #[test]
    fn the_manifests_are_yaml() {
        let backend: SocketAddr = "127.0.0.1:9".parse().unwrap();
        let text = ingress("*.a.b", "s", Some("t"))
            + &service("s", &[backend])
            + &tls_secret("t", "a.b", "cn").unwrap();
        let documents = serde_yaml::Deserializer::from_str(&text).map(|document| {
            <serde_yaml::Value as serde::Deserialize>::deserialize(document).unwrap()
        });
        assert_eq!(documents.filter(|document| !document.is_null()).count(), 4);
        assert_eq!(manifests::endpoints(&text)[&backend], "s");
    }
}
