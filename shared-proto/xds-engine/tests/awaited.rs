//! What clients wait for after an update is sent again, though it did not change.
#![allow(missing_docs, clippy::unwrap_used)]

use std::sync::Arc;

use xds_engine::discovery::{Any, DeltaDiscoveryRequest, DiscoveryRequest};
use xds_engine::types::{CLUSTER, ENDPOINT, ENVOY};
use xds_engine::{Protocol, Resource, ResourceMap, Response, Session, Snapshot};

#[derive(Clone, Default)]
struct World {
    clusters: ResourceMap,
    endpoints: ResourceMap,
}

impl Snapshot for World {
    fn resources(&self, type_url: &str) -> Option<&ResourceMap> {
        match type_url {
            CLUSTER => Some(&self.clusters),
            ENDPOINT => Some(&self.endpoints),
            _ => None,
        }
    }
}

fn resource(value: u8) -> Arc<Resource> {
    let body = Any {
        type_url: "t".to_owned(),
        value: vec![value],
    };
    Resource::encode("t/body", &body)
}

fn world(cluster: u8) -> World {
    World {
        clusters: [("a", cluster), ("b", 0)]
            .map(|(name, value)| (Arc::from(name), resource(value)))
            .into_iter()
            .collect(),
        endpoints: ["a", "b"]
            .map(|name| (Arc::from(name), resource(9)))
            .into_iter()
            .collect(),
    }
}

/// Type and names of all responses up to rest.
fn drain(session: &mut Session, world: &World) -> Vec<(bool, Vec<String>)> {
    let mut sent = Vec::new();
    while let Some(response) = session.poll() {
        let names = response.upserts.iter().map(|(name, _)| name.to_string());
        sent.push((&*response.type_url == CLUSTER, names.collect()));
        acknowledge(session, &response, world);
    }
    sent
}

fn acknowledge(session: &mut Session, response: &Response, world: &World) {
    session.on_delta(
        &DeltaDiscoveryRequest {
            type_url: response.type_url.to_string(),
            response_nonce: response.nonce.clone(),
            ..Default::default()
        },
        world,
    );
}

fn first(type_url: &str, names: &[&str], held: &[(&str, u8)]) -> DeltaDiscoveryRequest {
    let held = held.iter().map(|(name, value)| {
        let version = resource(*value).version().to_string();
        ((*name).to_owned(), version)
    });
    DeltaDiscoveryRequest {
        type_url: type_url.to_owned(),
        resource_names_subscribe: names.iter().map(|&name| name.to_owned()).collect(),
        initial_resource_versions: held.collect(),
        ..Default::default()
    }
}

#[test]
fn endpoints_follow_their_updated_cluster() {
    let mut session = Session::new(Protocol::Delta, ENVOY);
    let before = world(1);
    session.advance(&before);
    session.on_delta(&first(CLUSTER, &[], &[]), &before);
    session.on_delta(&first(ENDPOINT, &["a", "b"], &[]), &before);
    drain(&mut session, &before);

    let after = world(2);
    session.advance(&after);
    let expected = vec![(true, vec!["a".to_owned()]), (false, vec!["a".to_owned()])];
    assert_eq!(drain(&mut session, &after), expected);
    session.advance(&after);
    assert_eq!(drain(&mut session, &after), []);
}

#[test]
fn a_client_that_reconnects_gets_them_too() {
    let mut session = Session::new(Protocol::Delta, ENVOY);
    let now = world(2);
    session.advance(&now);
    let clusters = first(CLUSTER, &[], &[("a", 1), ("b", 0)]);
    session.on_delta(&clusters, &now);
    let mut sent = drain(&mut session, &now);
    let endpoints = first(ENDPOINT, &["a", "b"], &[("a", 9), ("b", 9)]);
    session.on_delta(&endpoints, &now);
    sent.extend(drain(&mut session, &now));
    let expected = vec![(true, vec!["a".to_owned()]), (false, vec!["a".to_owned()])];
    assert_eq!(sent, expected);
}

#[test]
fn state_of_the_world_as_well() {
    let mut session = Session::new(Protocol::Sotw, ENVOY);
    let before = world(1);
    let ask =
        |session: &mut Session, world: &World, type_url: &str, names: &[&str], nonce: &str| {
            session.on_sotw(
                &DiscoveryRequest {
                    type_url: type_url.to_owned(),
                    resource_names: names.iter().map(|&name| name.to_owned()).collect(),
                    response_nonce: nonce.to_owned(),
                    ..Default::default()
                },
                world,
            );
        };
    session.advance(&before);
    ask(&mut session, &before, CLUSTER, &[], "");
    let response = session.poll().unwrap();
    ask(&mut session, &before, CLUSTER, &[], &response.nonce);
    ask(&mut session, &before, ENDPOINT, &["a", "b"], "");
    let response = session.poll().unwrap();
    ask(
        &mut session,
        &before,
        ENDPOINT,
        &["a", "b"],
        &response.nonce,
    );
    assert!(session.poll().is_none());

    session.advance(&world(2));
    let clusters = session.poll().unwrap();
    assert_eq!(clusters.upserts.len(), 2);
    let endpoints = session.poll().unwrap();
    let names: Vec<&str> = endpoints.upserts.iter().map(|(name, _)| &**name).collect();
    assert_eq!((&*endpoints.type_url, names), (ENDPOINT, vec!["a"]));
}
