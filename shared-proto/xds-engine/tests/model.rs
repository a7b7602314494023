//! Random traffic on one stream against a small reference model: at rest the client's view equals the source's.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use proptest::prelude::*;
use prost::Message;
use xds_engine::client::ClientSession;
use xds_engine::discovery::ErrorDetail;
use xds_engine::discovery::{
    Any, DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, Node,
};
use xds_engine::{
    Protocol, Reaction, Resource, ResourceMap, Response, Session, Snapshot, TypeSpec, TypeTable,
};

const ALL: &str = "t/all";
const NAMED: &str = "t/named";
const TABLE: TypeTable = TypeTable::new(&[
    TypeSpec {
        url: ALL,
        short: "all",
        wildcard: true,
    },
    TypeSpec {
        url: NAMED,
        short: "named",
        wildcard: false,
    },
]);

#[derive(Clone, Default)]
struct World {
    all: ResourceMap,
    named: ResourceMap,
}

impl Snapshot for World {
    fn resources(&self, type_url: &str) -> Option<&ResourceMap> {
        match type_url {
            ALL => Some(&self.all),
            NAMED => Some(&self.named),
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Set {
        named: bool,
        name: u8,
        value: u8,
    },
    Remove {
        named: bool,
        name: u8,
    },
    Subscribe {
        name: u8,
    },
    Unsubscribe {
        name: u8,
    },
    /// The server sends what it can; the client sees the oldest response in transit.
    Deliver {
        accept: bool,
    },
    /// The server sees the oldest request in transit.
    Answer,
    Publish,
    Reconnect,
}

fn op() -> impl Strategy<Value = Op> {
    let name = 0..6u8;
    prop_oneof![
        4 => (any::<bool>(), name.clone(), 0..4u8).prop_map(|(named, name, value)| Op::Set { named, name, value }),
        2 => (any::<bool>(), name.clone()).prop_map(|(named, name)| Op::Remove { named, name }),
        2 => name.clone().prop_map(|name| Op::Subscribe { name }),
        1 => name.prop_map(|name| Op::Unsubscribe { name }),
        4 => prop::bool::weighted(0.85).prop_map(|accept| Op::Deliver { accept }),
        4 => Just(Op::Answer),
        3 => Just(Op::Publish),
        1 => Just(Op::Reconnect),
    ]
}

fn key(name: u8) -> Arc<str> {
    format!("r{name}").into()
}

fn resource(name: &str, value: u8) -> Arc<Resource> {
    // The name is part of the content, as it is in Envoy's resources.
    Resource::encode(
        "t/body",
        &Any {
            type_url: name.to_owned(),
            value: vec![value],
        },
    )
}

/// What the two protocols have in common for the driver below.
trait Peer {
    type Request;
    const PROTOCOL: Protocol;
    fn start(&mut self) -> Vec<Self::Request>;
    fn subscribe(&mut self, name: &str, on: bool) -> Option<Self::Request>;
    fn receive(&mut self, response: Response, accept: bool) -> Self::Request;
    fn serve(session: &mut Session, request: &Self::Request, world: &World) -> Reaction;
    /// Versions by name of one type.
    fn view(&self, type_url: &str) -> BTreeMap<String, String>;
}

struct DeltaPeer(ClientSession);

impl Peer for DeltaPeer {
    type Request = DeltaDiscoveryRequest;
    const PROTOCOL: Protocol = Protocol::Delta;

    fn start(&mut self) -> Vec<DeltaDiscoveryRequest> {
        self.0.start_delta()
    }

    fn subscribe(&mut self, name: &str, on: bool) -> Option<DeltaDiscoveryRequest> {
        let (add, remove) = if on {
            (vec![name.into()], vec![])
        } else {
            (vec![], vec![name.into()])
        };
        Some(self.0.subscribe(NAMED, add, remove))
    }

    fn receive(&mut self, response: Response, accept: bool) -> DeltaDiscoveryRequest {
        let resource = |(name, r): &(Arc<str>, Arc<Resource>)| {
            envoy_types::pb::envoy::service::discovery::v3::Resource {
                name: name.to_string(),
                version: r.version().to_string(),
                resource: Some(Any::decode(r.any().as_ref()).unwrap()),
                ..Default::default()
            }
        };
        let response = DeltaDiscoveryResponse {
            type_url: response.type_url.to_string(),
            nonce: response.nonce.clone(),
            resources: response.upserts.iter().map(resource).collect(),
            removed_resources: response.removed.iter().map(ToString::to_string).collect(),
            ..Default::default()
        };
        if accept {
            self.0.on_delta(response).1
        } else {
            self.0.refuse_delta(&response, "no")
        }
    }

    fn serve(session: &mut Session, request: &DeltaDiscoveryRequest, world: &World) -> Reaction {
        session.on_delta(request, world)
    }

    fn view(&self, type_url: &str) -> BTreeMap<String, String> {
        self.0
            .versions(type_url)
            .cloned()
            .unwrap_or_default()
            .into_iter()
            .collect()
    }
}

/// A state-of-the-world client as Envoy is one.
#[derive(Default)]
struct SotwPeer {
    names: BTreeSet<String>,
    accepted: BTreeMap<&'static str, (String, String)>,
    held: BTreeMap<&'static str, BTreeMap<String, String>>,
}

impl SotwPeer {
    fn request(&self, type_url: &'static str) -> DiscoveryRequest {
        let (version_info, response_nonce) =
            self.accepted.get(type_url).cloned().unwrap_or_default();
        let names = if type_url == NAMED {
            self.names.iter().cloned().collect()
        } else {
            vec![]
        };
        DiscoveryRequest {
            node: Some(Node {
                id: "n".into(),
                ..Node::default()
            }),
            type_url: type_url.into(),
            resource_names: names,
            version_info,
            response_nonce,
            ..Default::default()
        }
    }
}

impl Peer for SotwPeer {
    type Request = DiscoveryRequest;
    const PROTOCOL: Protocol = Protocol::Sotw;

    fn start(&mut self) -> Vec<DiscoveryRequest> {
        for (_, nonce) in self.accepted.values_mut() {
            nonce.clear();
        }
        let mut first = vec![self.request(ALL)];
        if !self.names.is_empty() {
            first.push(self.request(NAMED));
        }
        // As istiod's client does: the nonce of a first request is nonsense.
        first[0].response_nonce = "2026-11-30".into();
        first
    }

    fn subscribe(&mut self, name: &str, on: bool) -> Option<DiscoveryRequest> {
        let changed = if on {
            self.names.insert(name.into())
        } else {
            self.names.remove(name)
        };
        if !on && let Some(held) = self.held.get_mut(NAMED) {
            held.remove(name);
        }
        changed.then(|| self.request(NAMED))
    }

    fn receive(&mut self, response: Response, accept: bool) -> DiscoveryRequest {
        let type_url = if &*response.type_url == ALL {
            ALL
        } else {
            NAMED
        };
        let entry = self.accepted.entry(type_url).or_default();
        entry.1.clone_from(&response.nonce);
        if accept {
            entry.0.clone_from(&response.nonce);
            let names = &self.names;
            let upserts = response
                .upserts
                .iter()
                .map(|(n, r)| (n.to_string(), r.version().to_string()));
            let upserts = upserts.filter(|(name, _)| type_url == ALL || names.contains(name));
            let held = self.held.entry(type_url).or_default();
            if type_url == ALL {
                held.clear();
            }
            held.extend(upserts);
        }
        let mut request = self.request(type_url);
        if !accept {
            request.error_detail = Some(ErrorDetail {
                code: 3,
                message: "no".into(),
                details: vec![],
            });
        }
        request
    }

    fn serve(session: &mut Session, request: &DiscoveryRequest, world: &World) -> Reaction {
        session.on_sotw(request, world)
    }

    fn view(&self, type_url: &str) -> BTreeMap<String, String> {
        self.held.get(type_url).cloned().unwrap_or_default()
    }
}

struct Run<P: Peer> {
    peer: P,
    session: Session,
    world: World,
    published: World,
    to_server: VecDeque<P::Request>,
    to_client: VecDeque<Response>,
    subscribed: BTreeSet<String>,
    /// Refused and not changed since: the client may lack these.
    refused: BTreeSet<(bool, String)>,
}

impl<P: Peer> Run<P> {
    fn new(mut peer: P) -> Self {
        let to_server = peer.start().into();
        let session = Session::new(P::PROTOCOL, TABLE);
        Self {
            peer,
            session,
            world: World::default(),
            published: World::default(),
            to_server,
            to_client: VecDeque::new(),
            subscribed: BTreeSet::new(),
            refused: BTreeSet::new(),
        }
    }

    fn pump(&mut self) {
        while let Some(response) = self.session.poll() {
            assert!(
                !self
                    .to_client
                    .iter()
                    .any(|other| other.type_url == response.type_url),
                "two responses of one type in flight"
            );
            self.to_client.push_back(response);
        }
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Set { named, name, value } => {
                let map = if named {
                    &mut self.world.named
                } else {
                    &mut self.world.all
                };
                map.insert(key(name), resource(&key(name), value));
            }
            Op::Remove { named, name } => {
                let map = if named {
                    &mut self.world.named
                } else {
                    &mut self.world.all
                };
                map.remove(&key(name));
            }
            Op::Subscribe { name } => {
                self.subscribed.insert(key(name).to_string());
                self.to_server.extend(self.peer.subscribe(&key(name), true));
            }
            Op::Unsubscribe { name } => {
                self.subscribed.remove(&*key(name));
                self.to_server
                    .extend(self.peer.subscribe(&key(name), false));
            }
            Op::Deliver { accept } => self.deliver(accept),
            Op::Answer => {
                if let Some(request) = self.to_server.pop_front() {
                    P::serve(&mut self.session, &request, &self.published);
                }
            }
            Op::Publish => {
                self.published = self.world.clone();
                self.session.advance(&self.published);
            }
            Op::Reconnect => {
                self.session = Session::new(P::PROTOCOL, TABLE);
                self.to_client.clear();
                self.to_server = self.peer.start().into();
            }
        }
        self.pump();
    }

    fn deliver(&mut self, accept: bool) {
        let Some(response) = self.to_client.pop_front() else {
            return;
        };
        let named = &*response.type_url == NAMED;
        let names = response
            .upserts
            .iter()
            .map(|(name, _)| name)
            .chain(&response.removed);
        for name in names {
            if accept {
                self.refused.remove(&(named, name.to_string()));
            } else {
                self.refused.insert((named, name.to_string()));
            }
        }
        if !accept && P::PROTOCOL == Protocol::Sotw && !named {
            // Removals are implied by absence; refused with the rest.
            self.refused
                .extend((0..6).map(|name| (false, key(name).to_string())));
        }
        self.to_server
            .push_back(self.peer.receive(response, accept));
    }

    /// Delivers everything until nothing moves, then compares.
    fn settle(mut self) {
        self.step(Op::Publish);
        for _ in 0..1000 {
            if self.to_server.is_empty() && self.to_client.is_empty() {
                break;
            }
            self.step(Op::Answer);
            self.step(Op::Deliver { accept: true });
        }
        assert!(
            self.to_server.is_empty() && self.to_client.is_empty(),
            "never comes to rest"
        );
        assert_eq!(self.session.unsettled().count(), 0);
        for (named, type_url, map) in [
            (false, ALL, &self.world.all),
            (true, NAMED, &self.world.named),
        ] {
            let wanted = |name: &str| {
                (!named || self.subscribed.contains(name))
                    && !self.refused.contains(&(named, name.into()))
            };
            let expected: BTreeMap<String, String> = map
                .iter()
                .filter(|(name, _)| wanted(name))
                .map(|(name, r)| (name.to_string(), r.version().to_string()))
                .collect();
            let mut view = self.peer.view(type_url);
            view.retain(|name, _| wanted(name));
            if P::PROTOCOL == Protocol::Sotw && named {
                // The protocol has no removal here: the client keeps what no longer exists.
                view.retain(|name, _| map.contains_key(name.as_str()));
            }
            assert_eq!(view, expected, "{type_url}");
        }
    }
}

fn node() -> Node {
    Node {
        id: "n".into(),
        ..Node::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn delta_view_equals_source(ops in prop::collection::vec(op(), 1..60)) {
        let mut run = Run::new(DeltaPeer(ClientSession::wildcard(node(), [ALL])));
        for op in ops {
            run.step(op);
        }
        run.settle();
    }

    #[test]
    fn sotw_view_equals_source(ops in prop::collection::vec(op(), 1..60)) {
        let mut run = Run::new(SotwPeer::default());
        for op in ops {
            run.step(op);
        }
        run.settle();
    }
}

#[test]
fn an_up_to_date_client_is_sent_nothing_after_a_reconnect() {
    let mut run = Run::new(DeltaPeer(ClientSession::wildcard(node(), [ALL])));
    for name in 0..5 {
        run.step(Op::Set {
            named: false,
            name,
            value: 1,
        });
        run.step(Op::Set {
            named: true,
            name,
            value: 1,
        });
        run.step(Op::Subscribe { name });
    }
    run.step(Op::Publish);
    for _ in 0..40 {
        run.step(Op::Answer);
        run.step(Op::Deliver { accept: true });
    }
    run.step(Op::Reconnect);
    while !run.to_server.is_empty() {
        run.step(Op::Answer);
    }
    assert!(run.to_client.is_empty(), "{:?}", run.to_client);
}

#[test]
fn additions_come_in_push_order_and_removals_last_in_reverse() {
    let mut run = Run::new(DeltaPeer(ClientSession::wildcard(node(), [ALL])));
    run.step(Op::Set {
        named: false,
        name: 1,
        value: 1,
    });
    run.step(Op::Set {
        named: true,
        name: 1,
        value: 1,
    });
    run.step(Op::Subscribe { name: 1 });
    run.step(Op::Publish);
    let rest = |run: &mut Run<DeltaPeer>| {
        let mut seen = Vec::new();
        for _ in 0..20 {
            run.step(Op::Answer);
            if let Some(r) = run.to_client.front() {
                let kind = if r.upserts.is_empty() { "-" } else { "+" };
                seen.push(format!("{kind}{}", r.type_url));
            }
            run.step(Op::Deliver { accept: true });
        }
        seen
    };
    assert_eq!(rest(&mut run), ["+t/all", "+t/named"]);
    run.step(Op::Remove {
        named: false,
        name: 1,
    });
    run.step(Op::Set {
        named: false,
        name: 2,
        value: 1,
    });
    run.step(Op::Remove {
        named: true,
        name: 1,
    });
    run.step(Op::Publish);
    assert_eq!(rest(&mut run), ["+t/all", "-t/named", "-t/all"]);
}

#[test]
fn a_type_that_is_not_served_is_never_answered() {
    let mut session = Session::new(Protocol::Sotw, TABLE);
    let request = DiscoveryRequest {
        type_url: "core/v1alpha1/MeshConfig".into(),
        ..Default::default()
    };
    session.on_sotw(&request, &World::default());
    assert!(session.poll().is_none());
    let request = DeltaDiscoveryRequest {
        type_url: "core/v1alpha1/MeshConfig".into(),
        resource_names_subscribe: vec!["a".into()],
        ..Default::default()
    };
    let mut session = Session::new(Protocol::Delta, TABLE);
    session.on_delta(&request, &World::default());
    assert!(session.poll().is_none());
}

#[test]
fn a_name_that_does_not_exist_is_answered_at_once() {
    let mut session = Session::new(Protocol::Delta, TABLE);
    let request = DeltaDiscoveryRequest {
        type_url: NAMED.into(),
        resource_names_subscribe: vec!["missing".into()],
        ..Default::default()
    };
    session.on_delta(&request, &World::default());
    let response = session.poll().unwrap();
    assert_eq!(&*response.removed[0], "missing");
}

#[test]
fn sotw_keeps_what_is_removed_until_the_other_types_are_through() {
    let mut world = World::default();
    world.all.insert(key(1), resource("r1", 1));
    let mut session = Session::new(Protocol::Sotw, TABLE);
    let ask = |nonce: &str| DiscoveryRequest {
        type_url: ALL.into(),
        response_nonce: nonce.into(),
        ..Default::default()
    };
    session.on_sotw(&ask(""), &world);
    let first = session.poll().unwrap();
    session.on_sotw(&ask(&first.nonce), &world);
    world.all.remove(&key(1));
    world.all.insert(key(2), resource("r2", 1));
    session.advance(&world);
    let second = session.poll().unwrap();
    assert_eq!(second.upserts.len(), 2);
    session.on_sotw(&ask(&second.nonce), &world);
    let third = session.poll().unwrap();
    assert_eq!(third.upserts.len(), 1);
}
