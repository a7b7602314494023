//! What a leader watches: the present status of Ingresses, and the gateway's Services.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::OrdMap;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::Ingress;
use kube::Client;
use kube_watch::{Options, Selection, WatchMetrics};
use manifest_dir::{KindTable, Scope, Watch};

use super::address::{self, Address};
use super::{Settings, writer};

/// The addresses among the fields that a manager owns.
const ADDRESSES: &str = "/f:status/f:loadBalancer/f:ingress";

/// Namespace and name.
pub(super) type Key = (Arc<str>, Arc<str>);
/// What Events call their object by, beside its name.
pub(super) type Uids = OrdMap<Key, Arc<str>>;

/// An Ingress as far as its status is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Present {
    pub(super) uid: Arc<str>,
    /// `metadata.resourceVersion`: what is written is written over this version only.
    pub(super) version: String,
    pub(super) addresses: BTreeSet<Address>,
    /// The addresses were written under our name, by this or another replica, now or before.
    pub(super) ours: bool,
}

/// An object that a leader watches.
#[derive(Clone, Debug)]
pub(super) enum Fact {
    Ingress(Present),
    Service(BTreeSet<Address>),
}

/// Watches of the two kinds; they are in different namespaces.
pub(super) struct Facts {
    pub(super) ingresses: Watch<Fact>,
    pub(super) services: Watch<Fact>,
}

/// Starts them.
pub(super) fn watch(client: &Client, settings: &Settings, metrics: &WatchMetrics) -> Facts {
    let manager = writer::manager(&settings.scope);
    let kinds = KindTable::new().with(
        "networking.k8s.io/v1",
        "Ingress",
        Scope::Namespaced,
        move |object: Ingress| Fact::Ingress(present(&object, &manager)),
    );
    let mut options = Options::of_namespaces(settings.scope.source_namespaces());
    let with_managers = Selection {
        managed_fields: true,
        ..Selection::default()
    };
    options.selections.insert("Ingress", with_managers);
    let ingresses = kube_watch::watch(client, kinds, &options, metrics);

    let kinds = KindTable::new().with("v1", "Service", Scope::Namespaced, |object: Service| {
        Fact::Service(address::of_service(&object))
    });
    let labelled = Selection {
        labels: Some(settings.services.clone()),
        ..Selection::default()
    };
    let options = Options {
        namespaces: BTreeSet::from([settings.scope.system_namespace.to_string()]),
        selections: BTreeMap::from([("Service", labelled)]),
        ..Options::default()
    };
    let services = kube_watch::watch(client, kinds, &options, metrics);
    Facts {
        ingresses,
        services,
    }
}

/// The state of an Ingress as the API server tells it.
pub(super) fn present(object: &Ingress, manager: &str) -> Present {
    let meta = &object.metadata;
    let managers = meta.managed_fields.iter().flatten();
    // A controller of another class that has written since owns the addresses instead.
    let ours = managers
        .filter(|entry| entry.subresource.as_deref() == Some("status"))
        .filter(|entry| entry.manager.as_deref() == Some(manager))
        .filter_map(|entry| entry.fields_v1.as_ref())
        .any(|fields| fields.0.pointer(ADDRESSES).is_some());
    Present {
        uid: Arc::from(meta.uid.as_deref().unwrap_or_default()),
        version: meta.resource_version.clone().unwrap_or_default(),
        addresses: address::of_ingress(object),
        ours,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ours_are_addresses_that_we_wrote_last() {
        let owned = json!({"f:status": {"f:loadBalancer": {"f:ingress": {}}}});
        let entry = |manager: &str, subresource: Option<&str>, fields: &serde_json::Value| json!({"manager": manager, "subresource": subresource, "operation": "Update", "fieldsV1": fields});
        let is_ours = |entries: serde_json::Value| {
            let object =
                json!({"metadata": {"uid": "u", "resourceVersion": "1", "managedFields": entries}});
            present(&serde_json::from_value(object).unwrap(), "we").ours
        };
        assert!(is_ours(json!([entry("we", Some("status"), &owned)])));
        assert!(!is_ours(json!([entry("they", Some("status"), &owned)])));
        assert!(!is_ours(json!([entry("we", None, &json!({"f:spec": {}}))])));
        // They took the addresses over; something else of the status is still ours.
        let rest = json!({"f:status": {"f:loadBalancer": {}}});
        let both = [
            entry("we", Some("status"), &rest),
            entry("they", Some("status"), &owned),
        ];
        assert!(!is_ours(json!(both)));
    }
}
