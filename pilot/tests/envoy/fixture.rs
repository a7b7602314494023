//! Worlds made with the generators: services, hosts from VirtualService YAML, listeners.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use pilot::model::endpoint::{Endpoint, Endpoints};
use pilot::model::service::{Protocol, Resolution, Service, ServicePort};
use pilot::translate::cds::{self, ClusterOptions};
use pilot::translate::lds::{self, HttpOptions, ListenerInput, Routing, Servers};
use pilot::translate::rds::{self, HostRoutes, ProxyView, RouteVs, ServiceLookup};
use pilot::translate::{Issue, ecds, eds, names, srds};
use shared_proto::networking::v1alpha3::VirtualService;
use xds_engine::types;

use crate::world::World;

/// No services by name: every destination gives its port.
pub struct NoServices;

impl ServiceLookup for NoServices {
    fn service(&self, _: &str, _: &str) -> Option<Arc<Service>> {
        None
    }
}

/// Host name of a test service.
pub fn hostname(name: &str) -> String {
    format!("{name}.test.svc.cluster.local")
}

/// A service with one HTTP port 80.
pub fn service(name: &str, resolution: Resolution) -> Service {
    Service {
        hostname: hostname(name).into(),
        namespace: "test".into(),
        name: name.into(),
        ports: vec![ServicePort {
            name: "http".into(),
            number: 80,
            protocol: Protocol::Http,
        }],
        resolution,
        created: 0,
    }
}

/// Adds the cluster of a service, and its endpoints when the pilot knows them.
pub fn put_service(world: &mut World, service: &Service, endpoint: Option<SocketAddr>) {
    let port = &service.ports[0];
    let cluster = cds::cluster(service, port, &ClusterOptions::default());
    world.put(types::CLUSTER, &cluster.name, &cluster);
    if service.resolution == Resolution::Eds {
        let endpoints = Endpoints::new(
            endpoint.map(|at| (port.name.clone(), Endpoint::new(at.ip(), at.port()))),
        );
        let assignment = eds::cluster_load_assignment(&cluster.name, port, &endpoints);
        world.put(types::ENDPOINT, &cluster.name, &assignment);
    }
}

/// Adds a service with one endpoint.
pub fn put_backend(world: &mut World, name: &str, endpoint: SocketAddr) {
    put_service(world, &service(name, Resolution::Eds), Some(endpoint));
}

/// Reads the `http` part of a VirtualService.
pub fn virtual_service(http: &str) -> VirtualService {
    serde_yaml::from_str(&format!("http:\n{http}")).unwrap()
}

/// A route of everything to one service.
pub fn to(name: &str) -> String {
    format!(
        "- route: [{{destination: {{host: {}, port: {{number: 80}}}}}}]",
        hostname(name)
    )
}

/// A route of everything below a prefix to one service.
pub fn prefix_to(prefix: &str, name: &str) -> String {
    format!(
        "- match: [{{uri: {{prefix: {prefix}}}}}]\n  route: [{{destination: {{host: {}, port: {{number: 80}}}}}}]",
        hostname(name)
    )
}

/// Runs a function with the input of one host.
pub fn with_host<T>(
    port: u16,
    host: &str,
    spec: &VirtualService,
    run: impl FnOnce(&HostRoutes<'_>) -> T,
) -> T {
    let labels = BTreeMap::new();
    let vs = RouteVs {
        namespace: "test",
        name: "vs",
        spec,
        gateways: &[],
        gateway_semantics: false,
    };
    run(&HostRoutes {
        port,
        host,
        https: false,
        https_redirect: false,
        client_certificate: false,
        virtual_services: &[vs],
        services: &NoServices,
        proxy: ProxyView {
            namespace: "test",
            labels: &labels,
        },
    })
}

/// Adds scope and routes of a host; gives what was found wrong.
pub fn put_host(world: &mut World, at: (u16, bool), host: &str, http: &str) -> Vec<Issue> {
    let (port, on_demand) = at;
    let scope = srds::scoped_route(port, host, on_demand);
    world.put(types::SCOPED_ROUTE, &scope.name, &scope);
    let spec = virtual_service(http);
    let routes = with_host(port, host, &spec, rds::host_route_configuration);
    world.put(types::ROUTE, &routes.resource.name, &routes.resource);
    routes.issues
}

/// Adds the scope filter of a port.
pub fn put_scope_filter(world: &mut World, port: u16, hosts: &[&str]) {
    let filter = ecds::scope_filter(port, hosts.iter().copied());
    world.put(types::EXTENSION, &filter.name, &filter);
}

/// Adds a plain HTTP listener.
pub fn put_http_listener(world: &mut World, port: u16, routing: Routing) {
    let servers = Servers::Http {
        route_name: names::http_route_name(port, None),
        grpc_web: false,
    };
    put_listener(world, port, routing, servers);
}

/// Adds any listener.
pub fn put_listener(world: &mut World, port: u16, routing: Routing, servers: Servers) {
    let input = ListenerInput {
        bind: "127.0.0.1".into(),
        port,
        servers,
        routing,
        options: HttpOptions::default(),
    };
    let listener = lds::listener(&input).resource.unwrap();
    world.put(types::LISTENER, &listener.name, &listener);
}
