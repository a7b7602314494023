//! What a proxy says of itself in the node of its first request, and the class that it falls into.

use std::collections::BTreeMap;
use std::sync::Arc;

use envoy_types::pb::google::protobuf::{Struct, Value, value::Kind};
use xds_engine::discovery::Node;

use super::envoy_filter::VERSION_KEY;
use super::pairs::Pairs;

/// Labels that differ between the Pods of one Deployment, or between two versions of it: no Gateway selects by them,
/// and with them hardly two proxies would be of one class.
const POD_LABELS: [&str; 3] = [
    "pod-template-hash",
    "controller-revision-hash",
    "statefulset.kubernetes.io/pod-name",
];

/// Metadata by which a proxy chooses its way of routing for its whole life: one that changed under an Envoy with open
/// connections would leave the filter chains of these without routes.
pub const SCOPED_RDS_KEY: &str = "ISTHMUS_SCOPED_RDS";
/// Like [`SCOPED_RDS_KEY`]: whether it fetches routes at the first request.
pub const ON_DEMAND_RDS_KEY: &str = "ISTHMUS_ON_DEMAND_RDS";

/// Why a node is no proxy that can be served.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ProxyError {
    /// The id has not the four parts.
    #[error("node.id {0:?} is not type~ip~id~domain")]
    Id(String),
    /// The type is none that is served.
    #[error("node.id {0:?}: proxies of type {1:?} are not served, only router")]
    Type(String, String),
}

/// Proxies of one class are sent the same bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProxyClass {
    /// Namespace of the proxies.
    pub namespace: Arc<str>,
    /// Their labels, without those that only tell Pods apart.
    pub labels: BTreeMap<String, String>,
    /// Whether they may be sent key material.
    pub secrets: bool,
    /// Their node metadata, as far as routing or some EnvoyFilter asks for it.
    pub metadata: BTreeMap<String, String>,
}

/// A proxy as it introduced itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Third part of the node id: `<pod>.<namespace>`.
    pub name: String,
    /// Namespace: metadata `NAMESPACE`, else the first label of the DNS domain.
    pub namespace: Arc<str>,
    /// Metadata `LABELS`.
    pub labels: BTreeMap<String, String>,
    /// Metadata `ISTIO_VERSION`, as given.
    pub version: String,
    /// All metadata that is text.
    pub metadata: BTreeMap<String, String>,
}

impl Proxy {
    /// Reads a node. Node id: `type~ip~id~domain` (Istio).
    ///
    /// # Errors
    /// When the id cannot be read or the proxy is of a type that is not served.
    pub fn from_node(node: &Node) -> Result<Self, ProxyError> {
        let parts: Vec<&str> = node.id.split('~').collect();
        let &[kind, _, id, domain] = parts.as_slice() else {
            return Err(ProxyError::Id(node.id.clone()));
        };
        if kind != "router" {
            return Err(ProxyError::Type(node.id.clone(), kind.to_owned()));
        }
        let metadata = node.metadata.as_ref();
        let namespace = text(metadata, "NAMESPACE")
            .or_else(|| domain.split_once('.').map(|(first, _)| first.to_owned()))
            .unwrap_or_default();
        Ok(Self {
            name: id.to_owned(),
            namespace: namespace.into(),
            labels: labels(metadata),
            version: text(metadata, VERSION_KEY).unwrap_or_default(),
            metadata: metadata.map(texts).unwrap_or_default(),
        })
    }

    /// The class of this proxy, when these keys of node metadata make a difference.
    pub fn class<'a>(
        &self,
        secrets: bool,
        metadata_keys: impl Iterator<Item = &'a Arc<str>>,
    ) -> ProxyClass {
        let labels = self
            .labels
            .iter()
            .filter(|(key, _)| !POD_LABELS.contains(&key.as_str()));
        ProxyClass {
            namespace: self.namespace.clone(),
            labels: labels
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            secrets,
            metadata: metadata_keys
                .map(|key| &**key)
                .chain([SCOPED_RDS_KEY, ON_DEMAND_RDS_KEY])
                .filter_map(|key| self.metadata.get_key_value(key))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
        }
    }
}

impl ProxyClass {
    /// What the metadata says of a switch; `None` = nothing that can be read.
    pub fn switch(&self, key: &str) -> Option<bool> {
        self.metadata.get(key)?.parse().ok()
    }

    /// Whether a workload selector selects these proxies: all its labels are theirs.
    pub fn selected_by(&self, selector: &Pairs) -> bool {
        selector
            .iter()
            .all(|(key, value)| self.labels.get(key).is_some_and(|own| own == value))
    }
}

fn field<'a>(metadata: Option<&'a Struct>, key: &str) -> Option<&'a Kind> {
    metadata?.fields.get(key)?.kind.as_ref()
}

fn text(metadata: Option<&Struct>, key: &str) -> Option<String> {
    match field(metadata, key)? {
        Kind::StringValue(text) if !text.is_empty() => Some(text.clone()),
        _ => None,
    }
}

fn labels(metadata: Option<&Struct>) -> BTreeMap<String, String> {
    match field(metadata, "LABELS") {
        Some(Kind::StructValue(labels)) => texts(labels),
        _ => BTreeMap::new(),
    }
}

/// Members that are text.
fn texts(members: &Struct) -> BTreeMap<String, String> {
    let text = |(key, value): (&String, &Value)| match &value.kind {
        Some(Kind::StringValue(text)) => Some((key.clone(), text.clone())),
        _ => None,
    };
    members.fields.iter().filter_map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(text: &str) -> Value {
        Value {
            kind: Some(Kind::StringValue(text.into())),
        }
    }

    fn node(id: &str) -> Node {
        let labels = [("higress", "gw"), ("pod-template-hash", "x")];
        let labels = labels.map(|(key, value)| (key.to_owned(), string(value)));
        let labels = Kind::StructValue(Struct {
            fields: labels.into(),
        });
        let fields = [("LABELS".to_owned(), Value { kind: Some(labels) })];
        Node {
            id: id.into(),
            metadata: Some(Struct {
                fields: fields.into(),
            }),
            ..Node::default()
        }
    }

    #[test]
    fn namespace_falls_back_to_the_domain() {
        let proxy = Proxy::from_node(&node("router~1.1.1.1~gw.sys~sys.svc.cluster.local")).unwrap();
        assert_eq!((&*proxy.namespace, proxy.name.as_str()), ("sys", "gw.sys"));
        let class = proxy.class(true, std::iter::empty());
        assert!(
            class.selected_by(
                &[("higress".to_owned(), "gw".to_owned())]
                    .into_iter()
                    .collect()
            )
        );
        assert!(class.selected_by(&Pairs::default()));
        assert!(!class.labels.contains_key("pod-template-hash"));
    }

    #[test]
    fn the_way_of_routing_is_part_of_the_class() {
        let mut proxy =
            Proxy::from_node(&node("router~1.1.1.1~gw.sys~sys.svc.cluster.local")).unwrap();
        let plain = proxy.class(true, std::iter::empty());
        assert_eq!(plain.switch(ON_DEMAND_RDS_KEY), None);
        for (key, value) in [(ON_DEMAND_RDS_KEY, "true"), ("OTHER", "true")] {
            proxy.metadata.insert(key.to_owned(), value.to_owned());
        }
        let class = proxy.class(true, std::iter::empty());
        assert_eq!(class.switch(ON_DEMAND_RDS_KEY), Some(true));
        assert_eq!(class.metadata.len(), 1);
    }

    #[test]
    fn other_nodes_are_refused() {
        assert!(matches!(
            Proxy::from_node(&node("gw")),
            Err(ProxyError::Id(_))
        ));
        assert!(matches!(
            Proxy::from_node(&node("sidecar~1~a~b")),
            Err(ProxyError::Type(..))
        ));
    }
}
