//! Services that requests go to, as far as a policy can be attached to them.

use std::sync::Arc;

/// Namespace that stands for "found in a registry" in names.
const REGISTRY_NAMESPACE: &str = "mcp";

/// A service that requests go to. Policies are per upstream, so it is a unit of translation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Upstream {
    namespace: Arc<str>,
    name: Arc<str>,
}

impl Upstream {
    /// A Service of Kubernetes.
    pub fn service(namespace: Arc<str>, name: Arc<str>) -> Self {
        Self { namespace, name }
    }

    /// A service of a registry, by its host name. `None` for a name without dot, which could be that of a Service.
    pub fn registry(host: &str) -> Option<Self> {
        host.contains('.').then(|| Self {
            namespace: Arc::from(REGISTRY_NAMESPACE),
            name: Arc::from(host),
        })
    }

    /// Its namespace, or what stands for the registries.
    pub fn namespace(&self) -> &Arc<str> {
        &self.namespace
    }

    /// Its name, or its host name in a registry.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The host name, if it is a service of a registry.
    pub fn registry_host(&self) -> Option<&str> {
        let registry = &*self.namespace == REGISTRY_NAMESPACE && self.name.contains('.');
        registry.then_some(&*self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registries_and_services_never_share_an_identity() {
        let registry = Upstream::registry("a.nacos").unwrap();
        assert_eq!(registry.registry_host(), Some("a.nacos"));
        assert_eq!(Upstream::registry("a"), None);
        let service = Upstream::service(Arc::from("mcp"), Arc::from("a"));
        assert_eq!(service.registry_host(), None);
    }
}
