//! Seeded generator of manifests: the same seed gives the same bytes.

use std::path::Path;

use anyhow::Result;
use rcgen::{CertifiedKey, generate_simple_self_signed};

/// Objects per multi-document file.
const PER_FILE: usize = 500;
/// Every how many hosts one has TLS.
const TLS_EVERY: usize = 10;

/// What to generate.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Number of hosts, with one Ingress each.
    pub routes: usize,
    /// Number of Services, shared evenly by the hosts.
    pub services: usize,
    /// Hosts whose Ingress gets a file of its own, so that it can be edited alone.
    pub edited: usize,
    /// Seed of names and addresses.
    pub seed: u64,
    /// Whether every tenth host has TLS.
    pub tls: bool,
}

/// What was generated.
#[derive(Debug, Clone)]
pub struct Generated {
    /// Numbers of the hosts whose Ingress has a file of its own.
    pub edited: Vec<usize>,
    /// Number of Secrets.
    pub secrets: usize,
}

impl Plan {
    /// Writes all manifests below `dir`.
    ///
    /// # Errors
    /// A file cannot be written or a certificate cannot be made.
    pub fn write(&self, dir: &Path) -> Result<Generated> {
        let edited = self.edited_hosts();
        let ingresses = (0..self.routes)
            .filter(|host| !edited.contains(host))
            .map(|host| self.ingress(host, "/"));
        write_files(dir, "ingress", ingresses)?;
        for host in &edited {
            std::fs::write(dir.join(Self::file(*host)), self.ingress(*host, "/"))?;
        }
        write_files(dir, "service", (0..self.services).map(service))?;
        write_files(
            dir,
            "endpoints",
            (0..self.services).map(|service| self.endpoints(service, 0)),
        )?;
        let secrets: Vec<String> = (0..self.routes)
            .filter(|host| self.has_tls(*host))
            .map(secret)
            .collect::<Result<_>>()?;
        let count = secrets.len();
        write_files(dir, "secret", secrets)?;
        Ok(Generated {
            edited,
            secrets: count,
        })
    }

    /// Name of the file of an edited host.
    pub fn file(host: usize) -> String {
        format!("edited-{host:06}.yaml")
    }

    /// Host name of an Ingress.
    pub fn host(&self, host: usize) -> String {
        format!(
            "h{host:06}-{:04x}.bench.example.com",
            mix(self.seed, host as u64) & 0xffff
        )
    }

    /// The Ingress of a host, with one path.
    pub fn ingress(&self, host: usize, path: &str) -> String {
        let (name, service) = (self.host(host), host % self.services);
        let tls = if self.has_tls(host) {
            format!("  tls:\n  - hosts: [{name}]\n    secretName: tls-{host:06}\n")
        } else {
            String::new()
        };
        format!(
            "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: route-{host:06}\n  namespace: bench\n\
             \x20 creationTimestamp: '2024-01-01T00:00:00Z'\nspec:\n  ingressClassName: higress\n{tls}  rules:\n\
             \x20 - host: {name}\n    http:\n      paths:\n      - path: {path}\n        pathType: Prefix\n\
             \x20       backend: {{service: {{name: service-{service:06}, port: {{number: 80}}}}}}\n"
        )
    }

    /// The EndpointSlice of a service; `turn` moves its last address.
    pub fn endpoints(&self, service: usize, turn: u8) -> String {
        let mixed = mix(self.seed ^ 0xe, service as u64);
        let (a, b, last) = (mixed & 0xff, (mixed >> 8) & 0xff, 1 + turn % 200);
        format!(
            "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: service-{service:06}-1\n\
             \x20 namespace: bench\n  labels: {{kubernetes.io/service-name: service-{service:06}}}\naddressType: IPv4\n\
             ports: [{{name: http, port: 8080}}]\nendpoints:\n- addresses: [10.{a}.{b}.{last}]\n\
             \x20 conditions: {{ready: true}}\n- addresses: [10.{a}.{b}.250]\n  conditions: {{ready: true}}\n"
        )
    }

    fn has_tls(&self, host: usize) -> bool {
        self.tls && host.is_multiple_of(TLS_EVERY)
    }

    /// Hosts spread over the whole range, with and without TLS.
    fn edited_hosts(&self) -> Vec<usize> {
        let count = self.edited.min(self.routes);
        let mut hosts: Vec<usize> = (0..count)
            .map(|turn| (turn * self.routes / count + turn) % self.routes)
            .collect();
        hosts.sort_unstable();
        hosts.dedup();
        hosts
    }
}

fn service(service: usize) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: service-{service:06}\n  namespace: bench\nspec:\n\
         \x20 ports: [{{name: http, port: 80, targetPort: 8080}}]\n"
    )
}

fn secret(host: usize) -> Result<String> {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed([format!("h{host:06}.bench.example.com")])?;
    let indent = |pem: String| {
        pem.lines()
            .map(|line| format!("    {line}\n"))
            .collect::<String>()
    };
    Ok(format!(
        "apiVersion: v1\nkind: Secret\ntype: kubernetes.io/tls\nmetadata:\n  name: tls-{host:06}\n  namespace: bench\n\
         stringData:\n  tls.crt: |\n{}  tls.key: |\n{}",
        indent(cert.pem()),
        indent(signing_key.serialize_pem())
    ))
}

fn write_files(dir: &Path, name: &str, objects: impl IntoIterator<Item = String>) -> Result<()> {
    let objects: Vec<String> = objects.into_iter().collect();
    for (index, chunk) in objects.chunks(PER_FILE).enumerate() {
        std::fs::write(
            dir.join(format!("{name}-{index:04}.yaml")),
            chunk.join("---\n"),
        )?;
    }
    Ok(())
}

/// A well mixed number of two others (the finaliser of splitmix64).
fn mix(seed: u64, value: u64) -> u64 {
    let mut mixed = seed.wrapping_add(value.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifests;

    const PLAN: Plan = Plan {
        routes: 30,
        services: 3,
        edited: 4,
        seed: 7,
        tls: true,
    };

    #[test]
    fn all_objects_are_written_and_parse() {
        let dir = tempfile::tempdir().unwrap();
        let generated = PLAN.write(dir.path()).unwrap();
        assert_eq!((generated.edited.len(), generated.secrets), (4, 3));
        let mut kinds = std::collections::BTreeMap::new();
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            for document in serde_yaml::Deserializer::from_str(&text) {
                let object =
                    <serde_yaml::Value as serde::Deserialize>::deserialize(document).unwrap();
                *kinds
                    .entry(object["kind"].as_str().unwrap().to_owned())
                    .or_insert(0) += 1;
            }
        }
        assert_eq!(kinds["Ingress"], 30);
        assert_eq!(
            (kinds["Service"], kinds["EndpointSlice"], kinds["Secret"]),
            (3, 3, 3)
        );
    }

    #[test]
    fn the_same_seed_gives_the_same_objects() {
        assert_eq!(PLAN.ingress(10, "/"), PLAN.ingress(10, "/"));
        assert_ne!(PLAN.host(10), Plan { seed: 8, ..PLAN }.host(10));
        assert_eq!(manifests::endpoints(&PLAN.endpoints(1, 0)).len(), 2);
        assert_ne!(PLAN.endpoints(1, 0), PLAN.endpoints(1, 1));
    }
}
