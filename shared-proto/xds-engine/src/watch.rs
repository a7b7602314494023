//! What one client subscribed to of one type, what it holds, and what it is still owed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use imbl::ordmap::DiffItem;

use crate::names::Names;
use crate::resource::{Name, Resource, ResourceMap, Version};
use crate::session::{Protocol, Response};

/// What the client has of a resource that is owed to it.
#[derive(Clone, Debug)]
enum Has {
    /// Nothing, and it does not wait for it by name.
    Nothing,
    /// It asked for it by name and has to be answered, even if with "does not exist".
    Asked,
    /// This version; the resource too where it is known (not after a reconnect).
    Version(Version, Option<Arc<Resource>>),
}

/// A response that was sent and is neither acknowledged nor refused yet.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) nonce: String,
    /// Number of resources in it; their names come first.
    pub(crate) upserts: usize,
    pub(crate) names: Vec<Name>,
}

/// State of one type on one stream.
///
/// The client's view is never stored: it is `held` restricted to the subscription, except for the names in
/// `owed`. So a thousand clients share the nodes of one map.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) type_url: Arc<str>,
    pub(crate) order: usize,
    pub(crate) wildcard: bool,
    /// The snapshot has this type; requests for any other are never answered.
    pub(crate) served: bool,
    /// In state of the world, responses of this type hold all that is subscribed to, not what changed.
    whole: bool,
    names: Names,
    held: ResourceMap,
    owed: BTreeMap<Name, Has>,
    /// Resources of a refused response, to be sent again in these groups: one of them is at fault.
    suspects: VecDeque<Vec<Name>>,
    /// Refused when they were sent alone. The client keeps what it had until they change.
    refused: BTreeSet<Name>,
    /// A response is due even when it has nothing in it.
    due: bool,
    /// What the response that was taken last updated, as far as the client had another version.
    updated: Vec<Name>,
    pub(crate) in_flight: Option<InFlight>,
    pub(crate) last_nonce: String,
}

impl Watch {
    pub(crate) fn new(type_url: &str, order: usize, whole: bool) -> Self {
        Self {
            type_url: type_url.into(),
            order,
            wildcard: false,
            served: false,
            whole,
            names: Names::default(),
            held: ResourceMap::new(),
            owed: BTreeMap::new(),
            suspects: VecDeque::new(),
            refused: BTreeSet::new(),
            due: false,
            updated: Vec::new(),
            in_flight: None,
            last_nonce: String::new(),
        }
    }

    fn subscribed(&self, name: &Name) -> bool {
        self.wildcard || self.names.contains(name, &self.held)
    }

    /// A name as the map has it, so that it is shared.
    fn key(&self, name: &str) -> Name {
        let known = self.held.get_key_value(name);
        known.map_or_else(|| name.into(), |(key, _)| key.clone())
    }

    /// Number of names asked for one by one.
    pub(crate) fn named(&self) -> usize {
        self.names.len(&self.held)
    }

    /// The names asked for one by one. Cost: all that exist.
    pub(crate) fn names(&self) -> BTreeSet<Name> {
        self.names.all(&self.held)
    }

    /// A response has to come, even an empty one.
    pub(crate) fn require_response(&mut self) {
        self.due = true;
    }

    /// Subscribes to everything.
    pub(crate) fn subscribe_all(&mut self) {
        if self.wildcard {
            return;
        }
        self.wildcard = true;
        for name in self.held.keys() {
            if !self.names.contains(name, &self.held) {
                self.owed.entry(name.clone()).or_insert(Has::Nothing);
            }
        }
    }

    /// Ends the subscription to everything; what was asked for by name stays.
    pub(crate) fn unsubscribe_all(&mut self) {
        self.wildcard = false;
        let (names, held) = (&self.names, &self.held);
        self.owed.retain(|name, _| names.contains(name, held));
    }

    /// Subscribes to one name. A client that asks again lost it, so it is sent again.
    pub(crate) fn subscribe(&mut self, name: &str) {
        let name = self.key(name);
        self.owed.insert(name.clone(), Has::Asked);
        self.names.insert(name, &self.held);
    }

    /// Sends a resource again that the client has.
    pub(crate) fn again(&mut self, name: &Name) {
        if self.held.contains_key(name) && self.subscribed(name) {
            self.owed.insert(name.clone(), Has::Asked);
        }
    }

    /// What the response that was taken last updated.
    pub(crate) fn take_updated(&mut self) -> Vec<Name> {
        std::mem::take(&mut self.updated)
    }

    /// Ends the subscription to one name. The client drops it by itself; under a wildcard it may still
    /// want it, so it is told again.
    pub(crate) fn unsubscribe(&mut self, name: &str) {
        if !self.names.remove(name, &self.held) {
            return;
        }
        let name = self.key(name);
        if self.wildcard {
            self.owed.insert(name, Has::Asked);
        } else {
            self.owed.remove(&name);
        }
    }

    /// The client says what it kept from an earlier stream (`initial_resource_versions`).
    pub(crate) fn client_holds(&mut self, name: &str, version: &str) {
        let held = self.held.get_key_value(name);
        let key = held.map_or_else(|| name.into(), |(key, _)| key.clone());
        if !self.subscribed(&key) {
            return;
        }
        match (held, Version::parse(version)) {
            (Some((_, resource)), Some(version)) if resource.version() == version => {
                self.owed.remove(&key);
            }
            (_, Some(version)) => {
                self.owed.insert(key, Has::Version(version, None));
            }
            (_, None) => {
                self.owed.insert(key, Has::Asked);
            }
        }
    }

    /// Compares with a newer snapshot and notes what the client is owed. Cost: the difference.
    pub(crate) fn advance(&mut self, next: &ResourceMap) {
        self.served = true;
        if self.held.ptr_eq(next) {
            return;
        }
        for item in self.held.diff(next) {
            let (name, has) = match item {
                DiffItem::Add(name, _) => (name, Has::Nothing),
                DiffItem::Update {
                    old: (name, old), ..
                }
                | DiffItem::Remove(name, old) => {
                    (name, Has::Version(old.version(), Some(old.clone())))
                }
            };
            if self.wildcard || self.names.contains(name, &self.held) {
                self.owed.entry(name.clone()).or_insert(has);
            }
            match item {
                DiffItem::Add(name, _) => self.names.appeared(name),
                DiffItem::Remove(name, _) => self.names.vanished(name),
                DiffItem::Update { .. } => {}
            }
        }
        self.held = next.clone();
    }

    /// What may be sent at once: new and changed resources, and "does not exist" for what was asked by name.
    pub(crate) fn take_upserts(&mut self, protocol: Protocol) -> Option<Response> {
        if let Some(response) = self.take_suspects() {
            return Some(response);
        }
        let mut response = Response::new(self.type_url.clone());
        let (held, updated, refused) = (&self.held, &mut self.updated, &mut self.refused);
        updated.clear();
        self.owed.retain(|name, has| match (held.get(name), &*has) {
            (Some(now), Has::Version(version, _)) if now.version() == *version => false,
            (Some(now), _) => {
                if matches!(has, Has::Version(..)) {
                    updated.push(name.clone());
                }
                refused.remove(name);
                response.upserts.push((name.clone(), now.clone()));
                false
            }
            (None, Has::Nothing) => false,
            (None, Has::Asked) => {
                response.removed.push(name.clone());
                false
            }
            (None, Has::Version(..)) => true,
        });
        let empty = response.upserts.is_empty()
            && (response.removed.is_empty() || protocol == Protocol::Sotw);
        if empty && !std::mem::take(&mut self.due) {
            return None;
        }
        self.due = false;
        Some(match protocol {
            Protocol::Delta => response,
            Protocol::Sotw => self.state_of_the_world(response),
        })
    }

    /// A client may refuse a response whole because of one resource. The others must not suffer: they are sent
    /// again in two halves, until the culprit stands alone. A list in state of the world can't be divided.
    pub(crate) fn refused(&mut self, sent: &InFlight, protocol: Protocol) {
        let upserts = sent.names.get(..sent.upserts).unwrap_or_default();
        if protocol == Protocol::Sotw && self.whole {
            return;
        }
        match upserts {
            [] => {}
            [culprit] => {
                self.refused.insert(culprit.clone());
            }
            many => {
                let (left, right) = many.split_at(many.len() / 2);
                self.suspects.push_front(right.to_vec());
                self.suspects.push_front(left.to_vec());
            }
        }
    }

    /// Number of resources that the client refused and that did not change since.
    pub(crate) fn refused_count(&self) -> usize {
        self.refused.len()
    }

    fn take_suspects(&mut self) -> Option<Response> {
        while let Some(group) = self.suspects.pop_front() {
            let mut response = Response::new(self.type_url.clone());
            for name in group {
                if let Some(now) = self.held.get(&name).filter(|_| self.subscribed(&name)) {
                    response.upserts.push((name.clone(), now.clone()));
                    self.owed.remove(&name);
                    self.refused.remove(&name);
                }
            }
            if !response.upserts.is_empty() {
                return Some(response);
            }
        }
        None
    }

    /// In state of the world such a type is always sent whole; what is about to be removed stays in it
    /// until the other types no longer refer to it.
    fn state_of_the_world(&self, mut response: Response) -> Response {
        response.removed.clear();
        if self.whole {
            let leaving = self.owed.iter().filter_map(|(name, has)| match has {
                Has::Version(_, Some(old)) => Some((name.clone(), old.clone())),
                _ => None,
            });
            let present = self.held.iter().filter(|(name, _)| self.subscribed(name));
            response.upserts = present
                .map(|(name, r)| (name.clone(), r.clone()))
                .chain(leaving)
                .collect();
        }
        response
    }

    /// What is to be removed, once nothing refers to it any more.
    pub(crate) fn take_removals(&mut self, protocol: Protocol) -> Option<Response> {
        if self.owed.is_empty() {
            return None;
        }
        let mut response = Response::new(self.type_url.clone());
        response.removed = std::mem::take(&mut self.owed).into_keys().collect();
        for name in &response.removed {
            self.refused.remove(name);
        }
        match protocol {
            Protocol::Delta => Some(response),
            Protocol::Sotw if self.whole => Some(self.state_of_the_world(response)),
            Protocol::Sotw => None,
        }
    }

    /// Whether resources wait to be sent while a response is in flight.
    pub(crate) fn owes(&self) -> bool {
        self.due || !self.owed.is_empty() || !self.suspects.is_empty()
    }
}
