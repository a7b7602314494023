//! One resource that a client refuses does not keep the others from it.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::BTreeSet;

use xds_engine::discovery::{Any, DeltaDiscoveryRequest, ErrorDetail};
use xds_engine::types::{ENVOY, ROUTE};
use xds_engine::{Name, Protocol, Resource, ResourceMap, Session, Snapshot};

struct Routes(ResourceMap);

impl Snapshot for Routes {
    fn resources(&self, type_url: &str) -> Option<&ResourceMap> {
        (type_url == ROUTE).then_some(&self.0)
    }
}

fn name(n: usize) -> Name {
    format!("route-{n:03}").into()
}

fn routes(count: usize) -> Routes {
    let body = Any::default();
    Routes(
        (0..count)
            .map(|n| (name(n), Resource::encode(ROUTE, &body)))
            .collect(),
    )
}

fn changed(routes: &mut Routes, n: usize, text: &str) {
    let body = Any {
        type_url: text.to_owned(),
        value: Vec::new(),
    };
    routes.0.insert(name(n), Resource::encode(ROUTE, &body));
}

/// Answers as Envoy does: a response with a bad resource is refused whole. Returns what was taken, and the responses.
fn talk(session: &mut Session, world: &Routes, bad: &[usize]) -> (BTreeSet<Name>, usize) {
    let bad: BTreeSet<Name> = bad.iter().map(|n| name(*n)).collect();
    let (mut taken, mut responses) = (BTreeSet::new(), 0);
    while let Some(response) = session.poll() {
        responses += 1;
        assert!(responses < 200, "never comes to rest");
        let names: Vec<Name> = response
            .upserts
            .iter()
            .map(|(name, _)| name.clone())
            .collect();
        let refused = names.iter().any(|name| bad.contains(name));
        if !refused {
            taken.extend(names);
        }
        let error = ErrorDetail {
            code: 3,
            message: "no".to_owned(),
            details: Vec::new(),
        };
        let answer = DeltaDiscoveryRequest {
            type_url: ROUTE.to_owned(),
            response_nonce: response.nonce,
            error_detail: refused.then_some(error),
            ..Default::default()
        };
        session.on_delta(&answer, world);
    }
    (taken, responses)
}

#[test]
fn the_others_arrive_and_the_culprit_is_left_out_until_it_changes() {
    let mut world = routes(100);
    let mut session = Session::new(Protocol::Delta, ENVOY);
    let ask = DeltaDiscoveryRequest {
        type_url: ROUTE.to_owned(),
        resource_names_subscribe: (0..100).map(|n| name(n).to_string()).collect(),
        ..Default::default()
    };
    session.on_delta(&ask, &world);
    let (taken, responses) = talk(&mut session, &world, &[17, 80]);
    assert_eq!(taken.len(), 98);
    assert!(!taken.contains(&name(17)) && !taken.contains(&name(80)));
    assert!(responses < 40, "{responses}");
    assert_eq!(session.refused(ROUTE), 2);

    // Another edit is not held up, and the culprits are not sent again with it.
    changed(&mut world, 3, "new");
    session.advance(&world);
    assert_eq!(talk(&mut session, &world, &[17, 80]), ([name(3)].into(), 1));
    assert_eq!(session.refused(ROUTE), 2);

    // Mended, it is sent.
    changed(&mut world, 17, "mended");
    session.advance(&world);
    assert_eq!(talk(&mut session, &world, &[80]), ([name(17)].into(), 1));
    assert_eq!(session.refused(ROUTE), 1);
}
