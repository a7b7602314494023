//! Listeners of a class, and the Secrets that their servers and the clusters need.

use std::collections::BTreeSet;
use std::sync::Arc;

use shared_proto::networking::v1alpha3::server_tls_settings::TlSmode;
use xds_engine::types::SECRET;
use xds_engine::{Resource, ResourceMap};

use super::generate::Generator;
use super::servers::{self, Credential, ListenKey};
use crate::model::config::{GatewayFacts, Server, ServerProtocol, ServerTls};
use crate::model::envoy_filter::Added;
use crate::translate::lds::{
    self, ClientCertificate, ListenerInput, Routing, TlsChain, TlsServer, TlsVersion,
};
use crate::translate::{Origin, names, sds};

impl Generator<'_> {
    /// Whether a server needs the credential.
    pub(super) fn needs(&self, credential: &Credential) -> bool {
        self.servers.needs(credential)
    }

    /// The SDS resource of a credential; `None` while there is no usable Secret, or when the class may not have it.
    pub(super) fn secret(&mut self, credential: &Credential) -> Option<Arc<Resource>> {
        if !self.class.secrets {
            return None;
        }
        let secret = if credential.trust {
            let secret = self.lookup.anchors(&credential.name)?;
            sds::validation_context(&credential.name, secret)
        } else {
            sds::secret(
                &credential.name,
                self.world.secrets.get(&credential.secret)?,
            )
        };
        self.counts.sds += 1;
        Some(Resource::encode(SECRET, &secret?))
    }

    /// TLS listeners with a server that uses one of these SDS names.
    pub(super) fn listeners_with(&self, credentials: &BTreeSet<Arc<str>>) -> Vec<ListenKey> {
        let uses = |server: &Server| {
            server.tls.as_ref().is_some_and(|tls| {
                credentials.contains(&tls.credential)
                    || credentials.contains(names::ca_secret_name(&tls.credential).as_str())
            })
        };
        let listeners = self.servers.listeners();
        listeners
            .filter(|key| self.servers.of(key).iter().any(|(_, server)| uses(server)))
            .cloned()
            .collect()
    }

    /// The listener of servers that has this name.
    pub(super) fn listener_of(&self, name: &str) -> Option<ListenKey> {
        let mut keys = self.servers.listeners();
        keys.find(|key| listener_name(key) == name).cloned()
    }

    /// Name of a listener, and the listener when it has something to serve.
    pub(super) fn listener(
        &mut self,
        key: &ListenKey,
        secrets: &ResourceMap,
    ) -> (String, Option<Arc<Resource>>) {
        let bind = bind_of(key);
        let name = names::listener_name(&bind, key.port);
        let all = self.servers.of(key);
        let Some((gateway, first)) = all.first() else {
            let listener = self.added(Added::Listener, &name);
            return (name, listener);
        };
        let servers = if servers::is_tls(first) {
            // A server whose certificate is missing would hold up the whole listener: it joins when it comes.
            let mut servers = Vec::new();
            for (gateway, server) in all {
                if server.protocol == ServerProtocol::Passthrough {
                    let passed = self.passthrough(gateway, server);
                    servers.extend(passed.into_iter().map(TlsServer::Passthrough));
                } else {
                    servers.extend(chain(gateway, server, secrets).map(TlsServer::Https));
                }
            }
            lds::Servers::Tls(servers)
        } else {
            lds::Servers::Http {
                route_name: route_name(gateway, first),
                grpc_web: first.protocol == ServerProtocol::GrpcWeb,
            }
        };
        let routing = if self.scoped() {
            Routing::Scoped {
                on_demand: self.on_demand(),
            }
        } else {
            Routing::Plain
        };
        let generated = lds::listener(&ListenerInput {
            bind,
            port: key.port,
            servers,
            routing,
            options: self.options.http.clone(),
        });
        let listener = self.keep(generated);
        self.counts.lds += u64::from(listener.is_some());
        let listener = listener.and_then(|listener| self.patched_listener(key, &name, &listener));
        let listener = listener.or_else(|| self.added(Added::Listener, &name));
        (name, listener)
    }
}

/// The address that a listener listens on.
fn bind_of(key: &ListenKey) -> Arc<str> {
    if key.bind.is_empty() {
        Arc::from("0.0.0.0")
    } else {
        key.bind.clone()
    }
}

/// Name of the listener of an address and port.
fn listener_name(key: &ListenKey) -> String {
    names::listener_name(&bind_of(key), key.port)
}

/// Name of the route configuration of a server when scoped routes are off.
pub(super) fn route_name(gateway: &GatewayFacts, server: &Server) -> String {
    let bind = Some(server.bind.as_str()).filter(|bind| !bind.is_empty());
    match (&gateway.name, server.protocol) {
        (Some(name), ServerProtocol::Https) => names::https_route_name(&names::HttpsServer {
            port: server.port,
            port_name: &server.port_name,
            gateway: &name.name,
            namespace: &name.namespace,
            bind,
        }),
        _ => names::http_route_name(server.port, bind),
    }
}

fn chain(gateway: &GatewayFacts, server: &Server, secrets: &ResourceMap) -> Option<TlsChain> {
    let tls = server.tls.as_ref()?;
    let usable = |name: &str| secrets.contains_key(name);
    let mut client_certificate = client_certificate(tls);
    let certificate = usable(&tls.credential);
    if client_certificate == ClientCertificate::None {
        if !certificate {
            return None;
        }
    } else if !certificate || !usable(&names::ca_secret_name(&tls.credential)) {
        client_certificate = ClientCertificate::Unverifiable;
    }
    let (namespace, name) = gateway.name.as_ref().map_or_else(Default::default, |name| {
        (name.namespace.to_string(), name.name.to_string())
    });
    Some(TlsChain {
        origin: Origin { namespace, name },
        server_name: String::new(),
        hosts: server.hosts.iter().map(ToString::to_string).collect(),
        secret: tls.credential.to_string(),
        min_version: tls_version(tls.min_version),
        max_version: tls_version(tls.max_version),
        cipher_suites: tls.cipher_suites.clone(),
        client_certificate,
        http2: true,
        route_name: route_name(gateway, server),
    })
}

pub(super) fn client_certificate(tls: &ServerTls) -> ClientCertificate {
    match TlSmode::try_from(tls.mode) {
        Ok(TlSmode::Mutual) => ClientCertificate::Required,
        Ok(TlSmode::OptionalMutual) => ClientCertificate::Optional,
        _ => ClientCertificate::None,
    }
}

/// `ServerTLSSettings.TLSProtocol`.
fn tls_version(version: i32) -> TlsVersion {
    match version {
        1 => TlsVersion::V1_0,
        2 => TlsVersion::V1_1,
        3 => TlsVersion::V1_2,
        4 => TlsVersion::V1_3,
        _ => TlsVersion::Auto,
    }
}
