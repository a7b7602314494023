//! The pilot's own stages, fed with facts by hand: from Istio objects to what Envoy does.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pilot::metrics::Metrics;
use pilot::model::change::{Change, NamespacedName, SecretState};
use pilot::model::config::StoredConfig;
use pilot::model::endpoint::{Endpoint, Endpoints};
use pilot::model::secret::TlsSecret;
use pilot::model::service::{Protocol, Resolution, Service, ServicePort};
use pilot::push::debounce::{Debounce, Mode};
use pilot::xds::class::PushOptions;
use pilot::xds::connections::Connections;
use pilot::xds::source::PilotSource;
use pilot::xds::updater::{Handle, Updater};
use shared_proto::config::{Config, ConfigKey, Meta};
use shared_proto::networking::v1alpha3 as istio;
use shared_proto::{Kind, Spec, mcp};
use tonic::transport::server::TcpIncoming;
use xds_engine::{ServerOptions, ads_service};

use crate::fixture::hostname;
use crate::proxy::Envoy;

/// A running pilot.
pub struct Pilot {
    runtime: tokio::runtime::Runtime,
    handle: Handle,
    connections: Arc<Connections>,
    pub address: SocketAddr,
}

impl Pilot {
    /// Starts one that knows some facts.
    pub fn start(facts: Vec<Change>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let options = PushOptions {
            scoped_rds: true,
            domain: "cluster.local".into(),
            root_namespace: "higress-system".into(),
            ..PushOptions::default()
        };
        let debounce = Debounce {
            mode: Mode::Adaptive,
            after: Duration::from_millis(1),
            max: Duration::from_millis(1),
        };
        let (metrics, _) = Metrics::new();
        let (updater, handle) = Updater::new(options, debounce, metrics.clone());
        let connections = Arc::new(Connections::default());
        let source = PilotSource::new(handle.clone(), connections.clone(), metrics, false);
        let address = runtime.block_on(async {
            tokio::spawn(updater.run());
            handle.changes(facts).await;
            handle.barrier().await;
            let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
            let address = incoming.local_addr().unwrap();
            let service = ads_service(Arc::new(source), ServerOptions::default());
            let server = tonic::transport::Server::builder().add_service(service);
            tokio::spawn(server.serve_with_incoming(incoming));
            address
        });
        Self {
            runtime,
            handle,
            connections,
            address,
        }
    }

    /// Changes facts.
    pub fn change(&self, changes: Vec<Change>) {
        self.runtime.block_on(async {
            self.handle.changes(changes).await;
            self.handle.barrier().await;
        });
    }

    /// What Envoy holds against what it was sent last, by type.
    pub fn refused(&self) -> Vec<String> {
        let connections = self.connections.status().into_iter();
        let types = connections.flat_map(|status| status.types);
        types
            .filter_map(|(kind, of_type)| Some(format!("{kind}: {}", of_type.error?)))
            .collect()
    }

    /// Nothing was refused.
    pub fn assert_accepted(&self, envoy: &Envoy) {
        assert_eq!(self.refused(), Vec::<String>::new(), "{}", envoy.log());
    }
}

/// An object in the namespace of the gateways.
pub fn object<T>(name: &str, yaml: &str) -> Change
where
    T: serde::de::DeserializeOwned + Into<Spec>,
{
    let spec: T = serde_yaml::from_str(yaml).unwrap_or_else(|error| panic!("{error}: {yaml}"));
    let config = Config::new(Meta::new("higress-system", name), spec);
    let (_, bytes) = mcp::encode(&config);
    let stored = StoredConfig::from_mcp(mcp::decode(bytes).unwrap(), "cluster.local").unwrap();
    Change::Config(stored.key.clone(), Some(Arc::new(stored)))
}

/// An object is gone.
pub fn gone(kind: Kind, name: &str) -> Change {
    Change::Config(ConfigKey::new(kind, "higress-system", name), None)
}

/// A rule for a test service.
pub fn rule(name: &str, rest: &str) -> Change {
    let host = hostname(name);
    object::<istio::DestinationRule>(name, &format!("{{host: {host}, {rest}}}"))
}

/// A Gateway that serves all hosts as plain HTTP.
pub fn gateway(port: u16) -> Change {
    object::<istio::Gateway>(
        "plain",
        &format!(
            "servers: [{{port: {{number: {port}, name: http, protocol: HTTP}}, hosts: ['*']}}]"
        ),
    )
}

/// A host with `http` routes.
pub fn host(host: &str, gateway: &str, http: &str) -> Change {
    let name = host.replace('*', "any").replace('.', "-");
    object::<istio::VirtualService>(
        &name,
        &format!("hosts: ['{host}']\ngateways: [higress-system/{gateway}]\nhttp:\n{http}"),
    )
}

/// A service with one port 80.
pub fn service(name: &str) -> Change {
    service_as(name, Resolution::Eds, &[80])
}

/// A service with any ports.
pub fn service_as(name: &str, resolution: Resolution, ports: &[u16]) -> Change {
    let port = |&number: &u16| ServicePort {
        name: "http".into(),
        number,
        protocol: Protocol::Tcp,
    };
    let service = Service {
        hostname: hostname(name).into(),
        namespace: "test".into(),
        name: name.into(),
        ports: ports.iter().map(port).collect(),
        resolution,
        created: 0,
    };
    Change::Service(service.hostname.clone(), Some(Arc::new(service)))
}

/// The endpoints of a service.
pub fn endpoints(name: &str, addresses: &[SocketAddr]) -> Change {
    let endpoint = |at: &SocketAddr| ("http".into(), Endpoint::new(at.ip(), at.port()));
    let endpoints = Endpoints::new(addresses.iter().map(endpoint));
    Change::Endpoints(hostname(name).into(), Arc::new(endpoints))
}

/// A service with an endpoint.
pub fn backend(name: &'static str) -> Vec<Change> {
    vec![
        service(name),
        endpoints(name, &[crate::http::backend(name)]),
    ]
}

/// A Secret in the namespace of the test services.
pub fn secret(name: &str, secret: TlsSecret) -> Change {
    let name = NamespacedName::new("test", name);
    Change::Secret(name, SecretState::Valid(Arc::new(secret)))
}

/// A Secret is gone.
pub fn no_secret(name: &str) -> Change {
    Change::Secret(NamespacedName::new("test", name), SecretState::Absent)
}
