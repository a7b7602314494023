//! The server side of one ADS stream, without I/O: requests and snapshots in, responses out.
//!
//! Rules: xDS protocol ("ACK/NACK and resource type instance version", "incremental xDS", "eventual consistency
//! considerations"). One response per type is in flight; what changes meanwhile merges into the next one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::discovery::{DeltaDiscoveryRequest, DiscoveryRequest};
use crate::resource::{Name, Resource, ResourceMap};
use crate::types::TypeTable;
use crate::watch::{InFlight, Watch};

/// Variant of the protocol that a stream speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// State of the world (`StreamAggregatedResources`).
    Sotw,
    /// Incremental (`DeltaAggregatedResources`).
    Delta,
}

/// Everything that one client may see at one moment.
pub trait Snapshot: Send + Sync + 'static {
    /// The resources of a type; `None` when requests for it are never answered.
    fn resources(&self, type_url: &str) -> Option<&ResourceMap>;
}

/// One response, not encoded yet: resources keep their encoded bytes.
#[derive(Clone, Debug)]
pub struct Response {
    /// Type of all resources in it.
    pub type_url: Arc<str>,
    /// Identifies the response in the client's ACK or NACK; also sent as its version.
    pub nonce: String,
    /// New and changed resources; in state of the world, for wildcard types, all of them.
    pub upserts: Vec<(Name, Arc<Resource>)>,
    /// Resources that no longer exist (delta only).
    pub removed: Vec<Name>,
}

impl Response {
    pub(crate) fn new(type_url: Arc<str>) -> Self {
        Self {
            type_url,
            nonce: String::new(),
            upserts: Vec::new(),
            removed: Vec::new(),
        }
    }
}

/// What a request meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// The first request of its type on this stream.
    Initial,
    /// The client took the response with this nonce.
    Ack {
        /// Nonce of the response.
        nonce: String,
    },
    /// The client refused the response; it keeps what it had.
    Nack {
        /// Nonce of the response.
        nonce: String,
        /// The client's reason.
        message: String,
        /// The resources that the refused response had.
        names: Vec<Name>,
    },
    /// Only the subscription changed.
    Subscription,
    /// An answer to a response that is no longer the last one; ignored.
    Stale,
}

/// State of one ADS stream.
#[derive(Debug)]
pub struct Session {
    protocol: Protocol,
    table: TypeTable,
    /// In push order.
    watches: Vec<Watch>,
    /// Names that have to be sent again of types that the client did not ask for yet (`TypeTable::awaiting`).
    awaited: BTreeMap<&'static str, BTreeSet<Name>>,
    responses: u64,
}

impl Session {
    /// A stream on which nothing was said yet.
    pub fn new(protocol: Protocol, table: TypeTable) -> Self {
        Self {
            protocol,
            table,
            watches: Vec::new(),
            awaited: BTreeMap::new(),
            responses: 0,
        }
    }

    /// Number of types asked for, and of names asked for one by one.
    pub fn subscriptions(&self) -> (usize, usize) {
        (
            self.watches.len(),
            self.watches.iter().map(Watch::named).sum(),
        )
    }

    /// Takes a newer snapshot. Cost: proportional to its difference from the last one.
    pub fn advance(&mut self, snapshot: &impl Snapshot) {
        for watch in &mut self.watches {
            if let Some(resources) = snapshot.resources(&watch.type_url) {
                watch.advance(resources);
            }
        }
    }

    fn position(&self, type_url: &str) -> Option<usize> {
        self.watches
            .iter()
            .position(|watch| &*watch.type_url == type_url)
    }

    fn add_watch(&mut self, type_url: &str, snapshot: &impl Snapshot) -> &mut Watch {
        let order = self.table.order(type_url);
        let at = self.watches.partition_point(|watch| watch.order <= order);
        let mut watch = Watch::new(type_url, order, self.table.wildcard(type_url));
        if let Some(resources) = snapshot.resources(type_url) {
            watch.advance(resources);
        }
        self.watches.insert(at, watch);
        &mut self.watches[at]
    }

    /// Takes a delta request. `snapshot` is the one last given to [`Session::advance`].
    pub fn on_delta(
        &mut self,
        request: &DeltaDiscoveryRequest,
        snapshot: &impl Snapshot,
    ) -> Reaction {
        let served = snapshot.resources(&request.type_url).is_some();
        let implicit = self.table.wildcard(&request.type_url);
        let Some(at) = self.position(&request.type_url) else {
            // A nonce that comes first on a stream is left over from another one and says nothing.
            let watch = self.add_watch(&request.type_url, snapshot);
            let explicit = request
                .resource_names_subscribe
                .iter()
                .any(|name| name == "*");
            if explicit || (implicit && request.resource_names_subscribe.is_empty()) {
                watch.subscribe_all();
                if served && request.initial_resource_versions.is_empty() {
                    watch.require_response();
                }
            }
            subscribe_names(watch, request);
            for (name, version) in &request.initial_resource_versions {
                watch.client_holds(name, version);
            }
            self.send_awaited(&request.type_url);
            return Reaction::Initial;
        };
        let watch = &mut self.watches[at];
        if request
            .resource_names_subscribe
            .iter()
            .any(|name| name == "*")
        {
            watch.subscribe_all();
        }
        if request
            .resource_names_unsubscribe
            .iter()
            .any(|name| name == "*")
        {
            watch.unsubscribe_all();
        }
        subscribe_names(watch, request);
        let error = request
            .error_detail
            .as_ref()
            .map(|error| error.message.as_str());
        answer(watch, self.protocol, &request.response_nonce, error)
    }

    /// Takes a state-of-the-world request. `snapshot` is the one last given to [`Session::advance`].
    pub fn on_sotw(&mut self, request: &DiscoveryRequest, snapshot: &impl Snapshot) -> Reaction {
        let at = self.position(&request.type_url);
        let implicit = self.table.wildcard(&request.type_url);
        let nothing = request.resource_names.is_empty() && !implicit;
        let Some(at) = at else {
            // A nonce that comes first on a stream is left over from another one and says nothing.
            if nothing {
                return Reaction::Subscription;
            }
            let served = snapshot.resources(&request.type_url).is_some();
            let watch = self.add_watch(&request.type_url, snapshot);
            set_names(watch, &request.resource_names, implicit);
            if served {
                watch.require_response();
            }
            self.send_awaited(&request.type_url);
            return Reaction::Initial;
        };
        let watch = &mut self.watches[at];
        // The names count whatever the nonce says: requests come in order, and a name that was dropped and asked
        // for again between two responses would otherwise never be sent again.
        let error = request
            .error_detail
            .as_ref()
            .map(|error| error.message.as_str());
        let reaction = answer(watch, self.protocol, &request.response_nonce, error);
        if set_names(watch, &request.resource_names, implicit) {
            watch.require_response();
        }
        reaction
    }

    /// The next response to send, or `None` until a request or a snapshot brings something new.
    pub fn poll(&mut self) -> Option<Response> {
        let protocol = self.protocol;
        let mut idle = true;
        for at in 0..self.watches.len() {
            let watch = &mut self.watches[at];
            if !watch.served {
                continue;
            }
            if watch.in_flight.is_some() {
                idle = false;
            } else if let Some(response) = watch.take_upserts(protocol) {
                self.note_updates(at);
                return Some(self.sent(at, response));
            }
        }
        if !idle {
            return None;
        }
        // Everything new is in use: now what nobody refers to may go, the referring types first.
        (0..self.watches.len()).rev().find_map(|at| {
            let watch = &mut self.watches[at];
            let response = if watch.served {
                watch.take_removals(protocol)?
            } else {
                return None;
            };
            Some(self.sent(at, response))
        })
    }

    /// What a client waits for after an update is sent again.
    fn note_updates(&mut self, at: usize) {
        let watch = &mut self.watches[at];
        let Some(then) = self.table.awaited(&watch.type_url) else {
            return;
        };
        let updated = watch.take_updated();
        if updated.is_empty() {
            return;
        }
        self.awaited.entry(then).or_default().extend(updated);
        if self.position(then).is_some() {
            self.send_awaited(then);
        }
    }

    fn send_awaited(&mut self, type_url: &str) {
        let names = self.awaited.remove(type_url);
        if let Some(at) = self.position(type_url) {
            let watch = &mut self.watches[at];
            names.iter().flatten().for_each(|name| watch.again(name));
        }
    }

    fn sent(&mut self, at: usize, mut response: Response) -> Response {
        self.responses += 1;
        response.nonce = format!("{:x}", self.responses);
        let watch = &mut self.watches[at];
        let names = response.upserts.iter().map(|(name, _)| name);
        watch.in_flight = Some(InFlight {
            nonce: response.nonce.clone(),
            upserts: response.upserts.len(),
            names: names.chain(&response.removed).cloned().collect(),
        });
        watch.last_nonce.clone_from(&response.nonce);
        response
    }

    /// Number of resources of a type that the client refused and that did not change since.
    pub fn refused(&self, type_url: &str) -> usize {
        let at = self.position(type_url);
        at.map_or(0, |at| self.watches[at].refused_count())
    }

    /// The types with a response in flight or changes that wait behind one.
    pub fn unsettled(&self) -> impl Iterator<Item = &str> {
        let busy = self
            .watches
            .iter()
            .filter(|watch| watch.in_flight.is_some() || watch.owes());
        busy.map(|watch| &*watch.type_url)
    }
}

fn subscribe_names(watch: &mut Watch, request: &DeltaDiscoveryRequest) {
    for name in request
        .resource_names_subscribe
        .iter()
        .filter(|name| *name != "*")
    {
        watch.subscribe(name);
    }
    for name in request
        .resource_names_unsubscribe
        .iter()
        .filter(|name| *name != "*")
    {
        watch.unsubscribe(name);
    }
}

/// Replaces the subscription of a state-of-the-world stream; says whether something was added.
fn set_names(watch: &mut Watch, names: &[String], wildcard_type: bool) -> bool {
    let before = watch.wildcard;
    let all = (wildcard_type && names.is_empty()) || names.iter().any(|name| name == "*");
    if all {
        watch.subscribe_all();
    } else {
        watch.unsubscribe_all();
    }
    let wanted: BTreeSet<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|name| *name != "*")
        .collect();
    let gone: Vec<Name> = watch
        .names()
        .iter()
        .filter(|name| !wanted.contains(&***name))
        .cloned()
        .collect();
    for name in gone {
        watch.unsubscribe(&name);
    }
    let new: Vec<&str> = wanted
        .into_iter()
        .filter(|name| !watch.names().contains(*name))
        .collect();
    for name in &new {
        watch.subscribe(name);
    }
    !new.is_empty() || (all && !before)
}

fn answer(watch: &mut Watch, protocol: Protocol, nonce: &str, error: Option<&str>) -> Reaction {
    let Some(sent) = watch.in_flight.take_if(|sent| sent.nonce == nonce) else {
        // An empty nonce, or that of a response already answered, only changes the subscription.
        let current = nonce.is_empty() || nonce == watch.last_nonce;
        return if current {
            Reaction::Subscription
        } else {
            Reaction::Stale
        };
    };
    match error {
        None => Reaction::Ack { nonce: sent.nonce },
        Some(message) => {
            watch.refused(&sent, protocol);
            Reaction::Nack {
                nonce: sent.nonce,
                message: message.to_owned(),
                names: sent.names,
            }
        }
    }
}
