//! A control plane whose world is a plain map: what a test puts in is what Envoy gets.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use prost::Message;
use tokio::sync::watch;
use tonic::transport::server::TcpIncoming;
use xds_engine::{
    ClientInfo, Resource, ResourceMap, ServerEvent, ServerOptions, Snapshot, Source, TypeTable,
    ads_service, types,
};

/// All resources by type URL; types without any are answered with nothing.
#[derive(Clone, Default)]
pub struct World(BTreeMap<&'static str, ResourceMap>);

impl World {
    /// Puts a resource in, or replaces it.
    pub fn put(&mut self, type_url: &'static str, name: &str, body: &impl Message) {
        let resource = Resource::encode(type_url, body);
        self.0
            .entry(type_url)
            .or_default()
            .insert(name.into(), resource);
    }
}

impl Snapshot for World {
    fn resources(&self, type_url: &str) -> Option<&ResourceMap> {
        static EMPTY: std::sync::LazyLock<ResourceMap> =
            std::sync::LazyLock::new(ResourceMap::default);
        Some(self.0.get(type_url).unwrap_or(&EMPTY))
    }
}

/// A running server.
pub struct ControlPlane {
    runtime: tokio::runtime::Runtime,
    state: Arc<State>,
    pub address: SocketAddr,
}

struct State {
    world: watch::Sender<Arc<World>>,
    refused: Mutex<Vec<String>>,
    sent: Mutex<Vec<String>>,
}

impl ControlPlane {
    /// Serves a world on a free port.
    pub fn start(world: World) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let state = Arc::new(State {
            world: watch::channel(Arc::new(world)).0,
            refused: Mutex::default(),
            sent: Mutex::default(),
        });
        let service = ads_service(Arc::new(Handle(state.clone())), ServerOptions::default());
        let address = runtime.block_on(async move {
            let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
            let address = incoming.local_addr().unwrap();
            let server = tonic::transport::Server::builder().add_service(service);
            tokio::spawn(server.serve_with_incoming(incoming));
            address
        });
        Self {
            runtime,
            state,
            address,
        }
    }

    /// Changes the world.
    pub fn update(&self, change: impl FnOnce(&mut World)) {
        let _context = self.runtime.enter();
        let mut world = World::clone(&self.state.world.borrow());
        change(&mut world);
        self.state.world.send_replace(Arc::new(world));
    }

    /// What Envoy refused so far.
    pub fn refused(&self) -> Vec<String> {
        self.state.refused.lock().unwrap().clone()
    }

    /// Types that were sent since the last call, as `<type>+<upserts>-<removals>`.
    pub fn take_sent(&self) -> Vec<String> {
        std::mem::take(&mut *self.state.sent.lock().unwrap())
    }
}

struct Handle(Arc<State>);

impl Source for Handle {
    type Snapshot = World;

    async fn open(&self, _: &ClientInfo) -> Result<watch::Receiver<Arc<World>>, tonic::Status> {
        Ok(self.0.world.subscribe())
    }

    fn types(&self) -> TypeTable {
        types::ENVOY
    }

    fn observe(&self, _: &ClientInfo, event: &ServerEvent) {
        match event {
            ServerEvent::Nacked {
                type_url, message, ..
            } => {
                let text = format!("{}: {message}", types::ENVOY.short(type_url));
                self.0.refused.lock().unwrap().push(text);
            }
            ServerEvent::Sent {
                type_url,
                upserts,
                removed,
                ..
            } => {
                let short = types::ENVOY.short(type_url);
                let text = format!("{short}+{upserts}-{removed}");
                self.0.sent.lock().unwrap().push(text);
            }
            _ => {}
        }
    }
}
