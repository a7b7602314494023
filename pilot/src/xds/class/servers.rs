//! The servers that a class of proxies runs, by listener, and the credentials that they need.

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::OrdMap;
use shared_proto::networking::v1alpha3::server_tls_settings::TlSmode;

use crate::model::change::NamespacedName;
use crate::model::config::{GatewayFacts, Server, ServerProtocol, ServerTls};
use crate::model::proxy::ProxyClass;
use crate::translate::names;

/// Where a listener listens. One listener serves all servers of an address and port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ListenKey {
    pub(super) port: u16,
    pub(super) bind: Arc<str>,
}

/// Precedence of a server: creation time, name and namespace of its Gateway, place in the Gateway.
type ServerId = (i64, Arc<str>, Arc<str>, usize);

/// An SDS name that a server asks for, and the Secret behind it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Credential {
    pub(super) secret: NamespacedName,
    /// SDS resource name.
    pub(super) name: Arc<str>,
    /// True for trust anchors, false for a certificate with its key.
    pub(super) trust: bool,
}

/// Servers of all Gateways that select a class.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Servers {
    listeners: OrdMap<ListenKey, OrdMap<ServerId, Arc<GatewayFacts>>>,
    /// With the number of servers that need them.
    credentials: OrdMap<Credential, usize>,
}

/// What a change of Gateways may have changed.
#[derive(Debug, Default)]
pub(super) struct Dirty {
    pub(super) listeners: BTreeSet<ListenKey>,
    pub(super) credentials: BTreeSet<Credential>,
}

impl Servers {
    /// Ports that are listened on.
    pub(super) fn ports(&self) -> BTreeSet<u16> {
        self.listeners.keys().map(|key| key.port).collect()
    }

    /// Whether TLS ends on a port.
    pub(super) fn tls_on(&self, port: u16) -> bool {
        let first = ListenKey {
            port,
            bind: Arc::from(""),
        };
        let listeners = self.listeners.range(first..).map(|(key, _)| key);
        let mut listeners = listeners.take_while(|key| key.port == port);
        listeners.any(|key| self.shape(key).is_some_and(over_tls))
    }

    pub(super) fn listeners(&self) -> impl Iterator<Item = &ListenKey> {
        self.listeners.keys()
    }

    /// The servers of a listener that are served, in order of precedence. The first one decides between plain text
    /// and TLS; the others have to be of the same sort.
    pub(super) fn of(&self, key: &ListenKey) -> Vec<(&Arc<GatewayFacts>, &Server)> {
        let all = self.listeners.get(key).into_iter().flatten();
        let mut servers: Vec<_> = all
            .filter_map(|((.., at), gateway)| Some((gateway, gateway.servers.get(*at)?)))
            .collect();
        if let Some(first) = servers.first().map(|(_, server)| is_tls(server)) {
            servers.retain(|(_, server)| is_tls(server) == first);
        }
        servers
    }

    /// Credentials that the Secret belongs to.
    pub(super) fn credentials_of(
        &self,
        secret: &NamespacedName,
    ) -> impl Iterator<Item = &Credential> {
        let first = Credential {
            secret: secret.clone(),
            name: Arc::from(""),
            trust: false,
        };
        self.credentials
            .range(first..)
            .map(|(credential, _)| credential)
            .take_while(move |credential| credential.secret == *secret)
    }

    pub(super) fn needs(&self, credential: &Credential) -> bool {
        self.credentials.contains_key(credential)
    }

    /// Replaces one Gateway by its next version.
    pub(super) fn replace(
        &mut self,
        class: &ProxyClass,
        old: Option<&Arc<GatewayFacts>>,
        new: Option<&Arc<GatewayFacts>>,
        dirty: &mut Dirty,
    ) {
        let selected = |gateway: &&Arc<GatewayFacts>| class.selected_by(&gateway.selector);
        let (old, new) = (old.filter(selected), new.filter(selected));
        for (gateway, add) in old
            .map(|g| (g, false))
            .into_iter()
            .chain(new.map(|g| (g, true)))
        {
            for (at, server) in gateway.servers.iter().enumerate() {
                if server.protocol != ServerProtocol::Unsupported {
                    self.change(class, gateway, at, server, add, dirty);
                }
            }
        }
    }

    fn change(
        &mut self,
        class: &ProxyClass,
        gateway: &Arc<GatewayFacts>,
        at: usize,
        server: &Server,
        add: bool,
        dirty: &mut Dirty,
    ) {
        let key = listen_key(server);
        let before = self.shape(&key);
        let id = id(gateway, at);
        let servers = self.listeners.entry(key.clone()).or_default();
        if add {
            servers.insert(id, gateway.clone());
        } else {
            servers.remove(&id);
        }
        if servers.is_empty() {
            self.listeners.remove(&key);
        }
        if before != self.shape(&key) || is_tls(server) {
            dirty.listeners.insert(key);
        }
        for credential in credentials(class, gateway, server) {
            let count = self.credentials.get(&credential).copied().unwrap_or(0);
            if add {
                self.credentials.insert(credential.clone(), count + 1);
            } else if count > 1 {
                self.credentials.insert(credential.clone(), count - 1);
            } else {
                self.credentials.remove(&credential);
            }
            dirty.credentials.insert(credential);
        }
    }

    /// What a plain-text listener depends on: that it exists, and of what sort its first server is.
    fn shape(&self, key: &ListenKey) -> Option<ServerProtocol> {
        let ((.., at), gateway) = self.listeners.get(key)?.get_min()?;
        gateway.servers.get(*at).map(|server| server.protocol)
    }
}

fn id(gateway: &GatewayFacts, at: usize) -> ServerId {
    let (name, namespace) = gateway.name.as_ref().map_or_else(
        || (Arc::from(""), Arc::from("")),
        |name| (name.name.clone(), name.namespace.clone()),
    );
    (gateway.created.unwrap_or(i64::MIN), name, namespace, at)
}

/// Whether a server is of a TLS listener.
pub(super) fn is_tls(server: &Server) -> bool {
    over_tls(server.protocol)
}

fn over_tls(protocol: ServerProtocol) -> bool {
    matches!(
        protocol,
        ServerProtocol::Https | ServerProtocol::Passthrough
    )
}

/// Where the servers of a Gateway that pass TLS on listen.
pub(super) fn passing(gateway: &GatewayFacts) -> impl Iterator<Item = ListenKey> {
    let passing = |server: &&Server| server.protocol == ServerProtocol::Passthrough;
    gateway.servers.iter().filter(passing).map(listen_key)
}

fn listen_key(server: &Server) -> ListenKey {
    ListenKey {
        port: server.port,
        bind: server.bind.as_str().into(),
    }
}

/// Whether clients of the server show a certificate.
pub(in crate::xds) fn asks_client_certificate(tls: &ServerTls) -> bool {
    [TlSmode::Mutual, TlSmode::OptionalMutual]
        .iter()
        .any(|mode| *mode as i32 == tls.mode)
}

/// What a TLS server needs. A name that cannot be read, or a Secret that the Gateway may not use, gives nothing, so
/// that the server gets no filter chain.
pub(super) fn credentials(
    class: &ProxyClass,
    gateway: &GatewayFacts,
    server: &Server,
) -> Vec<Credential> {
    let ends_here = server.protocol == ServerProtocol::Https;
    let Some(tls) = server.tls.as_ref().filter(|_| ends_here) else {
        return Vec::new();
    };
    let mut needed = Vec::new();
    let owner = gateway.name.as_ref().map(|gateway| &*gateway.namespace);
    let Some(secret) = secret_of(class, owner, &tls.credential) else {
        return needed;
    };
    needed.push(Credential {
        secret,
        name: tls.credential.clone(),
        trust: false,
    });
    if asks_client_certificate(tls) {
        let name: Arc<str> = names::ca_secret_name(&tls.credential).into();
        // The trust anchors are in a Secret of their own, or beside the certificate: both are watched.
        for credential in [&name, &tls.credential] {
            if let Some(secret) = secret_of(class, owner, credential) {
                needed.push(Credential {
                    secret,
                    name: name.clone(),
                    trust: true,
                });
            }
        }
    }
    needed
}

/// The Secret that an SDS name stands for, when an object of the namespace `owner` may use it: `kubernetes://` names are
/// those of the proxy's namespace, `kubernetes-gateway://` names those of the object's own namespace.
pub(super) fn secret_of(
    class: &ProxyClass,
    owner: Option<&str>,
    name: &str,
) -> Option<NamespacedName> {
    let parsed = names::parse_secret_name(name)?;
    let namespace = parsed.namespace.as_deref().unwrap_or(&class.namespace);
    let allowed = if name.starts_with("kubernetes://") {
        *namespace == *class.namespace
    } else if name.starts_with("kubernetes-gateway://") {
        owner == Some(namespace)
    } else {
        true
    };
    allowed.then(|| NamespacedName::new(namespace, parsed.name))
}
