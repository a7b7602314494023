//! What is watched.

use std::collections::{BTreeMap, BTreeSet};

use crate::waiting::Waiting;

/// Restricts one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Label selector as in the API.
    pub labels: Option<String>,
    /// Field selector as in the API.
    pub fields: Option<String>,
    /// Keep `metadata.managedFields`, which is dropped otherwise: it is often larger than the object.
    pub managed_fields: bool,
}

/// Restricts all kinds.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Namespaces to watch; empty = all. Kinds without namespace are always watched.
    pub namespaces: BTreeSet<String>,
    /// By kind.
    pub selections: BTreeMap<&'static str, Selection>,
    /// Where it is noted what the first complete state waits for.
    pub waiting: Waiting,
}

/// Secrets that other programs keep their state in: many, large, and of no use for a gateway.
const FOREIGN_SECRETS: &str = "type!=helm.sh/release.v1,type!=kubernetes.io/service-account-token";

impl Options {
    /// All kinds in these namespaces (all of them when there are none), less what no gateway needs.
    pub fn of_namespaces(namespaces: impl IntoIterator<Item = String>) -> Self {
        let secrets = Selection {
            fields: Some(FOREIGN_SECRETS.to_owned()),
            ..Selection::default()
        };
        Self {
            namespaces: namespaces.into_iter().collect(),
            selections: BTreeMap::from([("Secret", secrets)]),
            waiting: Waiting::default(),
        }
    }
}

/// Whether every API server has the kinds of this `apiVersion`. Others come with CRDs: `gateway.networking.k8s.io` and all
/// groups of other domains.
pub(crate) fn is_built_in(api_version: &str) -> bool {
    let Some((group, _)) = api_version.split_once('/') else {
        return true;
    };
    let group = group.strip_suffix(".k8s.io").unwrap_or(group);
    !group.contains('.') || group == "rbac.authorization"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_groups() {
        for built_in in [
            "v1",
            "apps/v1",
            "networking.k8s.io/v1",
            "discovery.k8s.io/v1",
        ] {
            assert!(is_built_in(built_in), "{built_in}");
        }
        for custom in ["gateway.networking.k8s.io/v1", "networking.higress.io/v1"] {
            assert!(!is_built_in(custom), "{custom}");
        }
    }
}
