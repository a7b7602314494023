//! The fake Envoy of the bench against the real protocol engine, in one process.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use e2e::bench::client::{Client, Event, Expected, Type};
use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::config::route::v3::{
    Route, RouteConfiguration, RouteMatch, ScopedRouteConfiguration, VirtualHost,
    route_match::PathSpecifier,
};
use prost::Message;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use xds_engine::types::ENVOY;
use xds_engine::{
    ClientInfo, Resource, ResourceMap, ServerEvent, ServerOptions, Snapshot, Source, TypeTable,
    ads_service,
};

#[derive(Debug, Clone, Default)]
struct World(BTreeMap<&'static str, ResourceMap>);

impl World {
    fn put(&mut self, kind: Type, name: &str, body: &impl Message) {
        let resource = Resource::encode(kind.url(), body);
        self.0
            .entry(kind.url())
            .or_default()
            .insert(name.into(), resource);
    }
}

impl Snapshot for World {
    fn resources(&self, type_url: &str) -> Option<&ResourceMap> {
        self.0.get(type_url)
    }
}

struct Fixed(watch::Receiver<Arc<World>>);

impl Source for Fixed {
    type Snapshot = World;

    async fn open(&self, _: &ClientInfo) -> Result<watch::Receiver<Arc<World>>, tonic::Status> {
        Ok(self.0.clone())
    }

    fn types(&self) -> TypeTable {
        ENVOY
    }

    fn observe(&self, _: &ClientInfo, _: &ServerEvent) {}
}

fn routes(path: &str) -> RouteConfiguration {
    let path_specifier = Some(PathSpecifier::Prefix(path.to_owned()));
    let r#match = Some(RouteMatch {
        path_specifier,
        ..RouteMatch::default()
    });
    let route = Route {
        r#match,
        ..Route::default()
    };
    let host = VirtualHost {
        name: "h".to_owned(),
        routes: vec![route],
        ..VirtualHost::default()
    };
    RouteConfiguration {
        name: "r".to_owned(),
        virtual_hosts: vec![host],
        ..RouteConfiguration::default()
    }
}

async fn wait_for(events: &mut mpsc::Receiver<Event>, fits: impl Fn(&Event) -> bool) -> Event {
    let limit = Duration::from_secs(10);
    loop {
        let event = tokio::time::timeout(limit, events.recv())
            .await
            .unwrap()
            .unwrap();
        if fits(&event) {
            return event;
        }
    }
}

#[tokio::test]
async fn it_completes_and_sees_one_edit_as_one_resource() {
    let mut world = World::default();
    let cluster = "outbound|80||s";
    world.put(
        Type::Cds,
        cluster,
        &Cluster {
            name: cluster.to_owned(),
            ..Cluster::default()
        },
    );
    world.put(Type::Eds, cluster, &());
    let scope = ScopedRouteConfiguration {
        route_configuration_name: "r".to_owned(),
        ..Default::default()
    };
    world.put(Type::Srds, "s", &scope);
    world.put(Type::Rds, "r", &routes("/"));
    world.0.insert(Type::Lds.url(), ResourceMap::new());
    let (publish, receiver) = watch::channel(Arc::new(world.clone()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = ads_service(Arc::new(Fixed(receiver)), ServerOptions::default());
    let serving = Server::builder()
        .add_service(service)
        .serve_with_incoming(TcpListenerStream::new(listener));
    let server = tokio::spawn(serving);

    let (sender, mut events) = mpsc::channel(64);
    let expected = Expected {
        routes: 1,
        endpoints: 1,
        secrets: 0,
    };
    let node = Node {
        id: "router~127.0.0.1~a.b~b.svc".to_owned(),
        ..Node::default()
    };
    let _client = Client::start(0, address, node, expected, sender);
    wait_for(&mut events, |event| event.complete).await;

    world.put(Type::Rds, "r", &routes("/edit-7"));
    publish.send_replace(Arc::new(world));
    let edit = wait_for(&mut events, |event| event.marker.is_some()).await;
    assert_eq!((edit.marker, edit.resources, edit.removed), (Some(7), 1, 0));
    server.abort();
}
