//! The client side of one ADS server, without I/O: responses in, requests and events out.
//!
//! The state outlives a stream: after a reconnect a delta server is told what is held already
//! (`initial_resource_versions`) and sends only what differs.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::discovery::{
    Any, DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
    ErrorDetail, Node,
};
use crate::resource::Version;

/// gRPC code of a refused configuration (`INVALID_ARGUMENT`).
const INVALID_ARGUMENT: i32 = 3;

/// What a response changed in the client's view.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Update {
    /// Type of all resources in it.
    pub type_url: String,
    /// New and changed resources by name.
    pub upserts: Vec<(String, Any)>,
    /// Names that no longer exist.
    pub removed: Vec<String>,
}

#[derive(Debug, Default)]
struct Held {
    wildcard: bool,
    names: BTreeSet<String>,
    versions: HashMap<String, String>,
    synced: bool,
    /// Version of the last accepted state-of-the-world response.
    accepted: String,
}

/// The client's state: what it subscribes to and holds, by type.
#[derive(Debug)]
pub struct ClientSession {
    node: Node,
    types: BTreeMap<String, Held>,
    /// Types in the order in which they are asked for.
    order: Vec<String>,
}

impl ClientSession {
    /// A client that subscribes to everything of these types.
    pub fn wildcard<I: IntoIterator<Item = S>, S: Into<String>>(node: Node, types: I) -> Self {
        let order: Vec<String> = types.into_iter().map(Into::into).collect();
        let held = |url: &String| {
            (
                url.clone(),
                Held {
                    wildcard: true,
                    ..Held::default()
                },
            )
        };
        Self {
            node,
            types: order.iter().map(held).collect(),
            order,
        }
    }

    /// Whether every type was answered at least once.
    pub fn synced(&self) -> bool {
        self.types.values().all(|held| held.synced)
    }

    /// The types that were not answered yet.
    pub fn unanswered(&self) -> impl Iterator<Item = &str> {
        self.types
            .iter()
            .filter(|(_, held)| !held.synced)
            .map(|(url, _)| url.as_str())
    }

    /// Versions of what is held of a type, by name.
    pub fn versions(&self, type_url: &str) -> Option<&HashMap<String, String>> {
        self.types.get(type_url).map(|held| &held.versions)
    }

    /// The first delta requests of a new stream.
    pub fn start_delta(&self) -> Vec<DeltaDiscoveryRequest> {
        let request = |url: &String| {
            let held = self.types.get(url)?;
            if !held.wildcard && held.names.is_empty() {
                return None;
            }
            let mut subscribe: Vec<String> = held.names.iter().cloned().collect();
            if held.wildcard && !subscribe.is_empty() {
                subscribe.push("*".to_owned());
            }
            Some(DeltaDiscoveryRequest {
                node: Some(self.node.clone()),
                type_url: url.clone(),
                resource_names_subscribe: subscribe,
                initial_resource_versions: held.versions.clone(),
                ..DeltaDiscoveryRequest::default()
            })
        };
        self.order.iter().filter_map(request).collect()
    }

    /// The first state-of-the-world requests of a new stream.
    pub fn start_sotw(&self) -> Vec<DiscoveryRequest> {
        let request = |url: &String| {
            let held = self.types.get(url)?;
            Some(DiscoveryRequest {
                node: Some(self.node.clone()),
                type_url: url.clone(),
                version_info: held.accepted.clone(),
                resource_names: held.names.iter().cloned().collect(),
                ..DiscoveryRequest::default()
            })
        };
        self.order.iter().filter_map(request).collect()
    }

    /// Changes what is subscribed to by name; the delta request that says so.
    pub fn subscribe(
        &mut self,
        type_url: &str,
        add: impl IntoIterator<Item = String>,
        remove: impl IntoIterator<Item = String>,
    ) -> DeltaDiscoveryRequest {
        if !self.types.contains_key(type_url) {
            self.order.push(type_url.to_owned());
        }
        let held = self.types.entry(type_url.to_owned()).or_default();
        let resource_names_subscribe: Vec<String> = add.into_iter().collect();
        held.names.extend(resource_names_subscribe.iter().cloned());
        let resource_names_unsubscribe: Vec<String> = remove.into_iter().collect();
        for name in &resource_names_unsubscribe {
            held.names.remove(name);
            if !held.wildcard {
                held.versions.remove(name);
            }
        }
        DeltaDiscoveryRequest {
            node: Some(self.node.clone()),
            type_url: type_url.to_owned(),
            resource_names_subscribe,
            resource_names_unsubscribe,
            ..DeltaDiscoveryRequest::default()
        }
    }

    /// Takes a delta response: what changed, and the ACK.
    pub fn on_delta(
        &mut self,
        response: DeltaDiscoveryResponse,
    ) -> (Update, DeltaDiscoveryRequest) {
        let held = self.types.entry(response.type_url.clone()).or_default();
        held.synced = true;
        let mut update = Update {
            type_url: response.type_url.clone(),
            ..Update::default()
        };
        for resource in response.resources {
            let Some(any) = resource.resource else {
                continue;
            };
            held.versions
                .insert(resource.name.clone(), resource.version);
            update.upserts.push((resource.name, any));
        }
        for name in response.removed_resources {
            held.versions.remove(&name);
            update.removed.push(name);
        }
        let ack = DeltaDiscoveryRequest {
            node: Some(self.node.clone()),
            type_url: response.type_url,
            response_nonce: response.nonce,
            ..DeltaDiscoveryRequest::default()
        };
        (update, ack)
    }

    /// Refuses a delta response whole: nothing is taken over; the NACK to send.
    pub fn refuse_delta(
        &self,
        response: &DeltaDiscoveryResponse,
        message: &str,
    ) -> DeltaDiscoveryRequest {
        DeltaDiscoveryRequest {
            node: Some(self.node.clone()),
            type_url: response.type_url.clone(),
            response_nonce: response.nonce.clone(),
            error_detail: Some(ErrorDetail {
                code: INVALID_ARGUMENT,
                message: message.to_owned(),
                details: Vec::new(),
            }),
            ..DeltaDiscoveryRequest::default()
        }
    }

    /// Takes a state-of-the-world response of a wildcard type: what changed, and the ACK.
    ///
    /// `name` reads a resource's name out of it; resources without one are passed over.
    pub fn on_sotw(
        &mut self,
        response: DiscoveryResponse,
        name: impl Fn(&Any) -> Option<String>,
    ) -> (Update, DiscoveryRequest) {
        let held = self.types.entry(response.type_url.clone()).or_default();
        held.synced = true;
        held.accepted.clone_from(&response.version_info);
        let mut update = Update {
            type_url: response.type_url.clone(),
            ..Update::default()
        };
        let mut versions = HashMap::with_capacity(response.resources.len());
        for any in response.resources {
            let Some(name) = name(&any) else { continue };
            let version = Version::of(&any.value).to_string();
            if held.versions.get(&name) != Some(&version) {
                update.upserts.push((name.clone(), any));
            }
            versions.insert(name, version);
        }
        let gone = held
            .versions
            .keys()
            .filter(|name| !versions.contains_key(*name));
        update.removed = gone.cloned().collect();
        update.removed.sort_unstable();
        held.versions = versions;
        let ack = DiscoveryRequest {
            node: Some(self.node.clone()),
            version_info: response.version_info,
            type_url: response.type_url,
            response_nonce: response.nonce,
            resource_names: held.names.iter().cloned().collect(),
            ..DiscoveryRequest::default()
        };
        (update, ack)
    }
}
