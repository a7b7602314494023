//! Which objects the controller serves, and the constants that its output depends on.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::model::Semantics;

/// Options that decide what comes out; fixed for the life of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Class of the Ingresses that are served; empty = all of them.
    pub ingress_class: String,
    /// Only the Ingresses of these namespaces are served; empty = all.
    pub watch_namespaces: BTreeSet<String>,
    /// Namespace of generated objects.
    pub system_namespace: Arc<str>,
    /// Label of the gateways that generated Gateways select; `None` = all gateways.
    pub gateway_selector: Option<(String, String)>,
    /// Port of plain HTTP servers.
    pub gateway_http_port: u16,
    /// Port of HTTPS servers.
    pub gateway_https_port: u16,
    /// Name of this cluster.
    pub cluster_id: String,
    /// Suffix of service host names.
    pub domain: String,
    /// What annotations mean where neither the Ingress nor its class says so.
    pub semantics: Semantics,
}

/// The cluster id that stands for "the only one" and is left out of names.
const DEFAULT_CLUSTER: &str = "Kubernetes";

impl Scope {
    /// Whether the Ingresses of a namespace are served.
    pub fn watches(&self, namespace: &str) -> bool {
        self.watch_namespaces.is_empty() || self.watch_namespaces.contains(namespace)
    }

    /// Namespaces that objects are read from, where the source can be asked for some: those that are served, and our own.
    /// Empty = all.
    pub fn source_namespaces(&self) -> BTreeSet<String> {
        let mut namespaces = self.watch_namespaces.clone();
        if !namespaces.is_empty() {
            namespaces.insert(self.system_namespace.to_string());
        }
        namespaces
    }

    /// The cluster id as it appears in names and annotations: empty for the default one.
    pub fn cluster_in_names(&self) -> &str {
        if self.cluster_id == DEFAULT_CLUSTER {
            ""
        } else {
            &self.cluster_id
        }
    }
}

impl Default for Scope {
    fn default() -> Self {
        Self {
            ingress_class: "higress".to_owned(),
            watch_namespaces: BTreeSet::new(),
            system_namespace: Arc::from("higress-system"),
            gateway_selector: Some((
                "higress".to_owned(),
                "higress-system-higress-gateway".to_owned(),
            )),
            gateway_http_port: 80,
            gateway_https_port: 443,
            cluster_id: DEFAULT_CLUSTER.to_owned(),
            domain: "cluster.local".to_owned(),
            semantics: Semantics::default(),
        }
    }
}
