//! What a server has to know of the types that it serves: their order and how they are subscribed to.

/// One resource type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeSpec {
    /// Type URL as clients ask for it.
    pub url: &'static str,
    /// Short name for metrics, logs and debug pages, such as `cds`.
    pub short: &'static str,
    /// A first request without names asks for everything (xDS protocol, "how the client specifies
    /// what resources to return"); otherwise it asks for nothing.
    pub wildcard: bool,
}

/// The types of a server in push order: what others refer to comes first.
///
/// Upserts go out in this order, removals in the reverse one after everything else (make before break).
/// Types that are not listed are wildcard types and come last, in the order in which they are asked for.
#[derive(Clone, Copy, Debug)]
pub struct TypeTable {
    types: &'static [TypeSpec],
    awaited: &'static [(&'static str, &'static str)],
}

impl TypeTable {
    /// A table of these types.
    pub const fn new(types: &'static [TypeSpec]) -> Self {
        let awaited = &[];
        Self { types, awaited }
    }

    /// Pairs of types: a client that was sent an update of the first one waits for the resource of the second one with
    /// the same name, whether that changed or not, if it subscribed to it.
    pub const fn awaiting(self, awaited: &'static [(&'static str, &'static str)]) -> Self {
        Self { awaited, ..self }
    }

    /// The row of a type and its place in the push order.
    pub fn get(&self, url: &str) -> Option<(usize, &'static TypeSpec)> {
        self.types
            .iter()
            .enumerate()
            .find(|(_, spec)| spec.url == url)
    }

    /// Short name of a type; the URL itself when the type is not listed.
    pub fn short<'a>(&self, url: &'a str) -> &'a str {
        self.get(url).map_or(url, |(_, spec)| spec.short)
    }

    /// All rows, in push order.
    pub fn iter(&self) -> impl Iterator<Item = &'static TypeSpec> + use<> {
        self.types.iter()
    }

    /// The type that clients wait for after an update of this one.
    pub(crate) fn awaited(&self, url: &str) -> Option<&'static str> {
        let mut pairs = self.awaited.iter();
        pairs.find(|(of, _)| *of == url).map(|(_, then)| *then)
    }

    pub(crate) fn order(&self, url: &str) -> usize {
        self.get(url).map_or(self.types.len(), |(order, _)| order)
    }

    pub(crate) fn wildcard(&self, url: &str) -> bool {
        self.get(url).is_none_or(|(_, spec)| spec.wildcard)
    }
}

/// Envoy's types as a control plane serves them, in push order.
pub const ENVOY: TypeTable = TypeTable::new(&[
    TypeSpec {
        url: CLUSTER,
        short: "cds",
        wildcard: true,
    },
    TypeSpec {
        url: ENDPOINT,
        short: "eds",
        wildcard: false,
    },
    TypeSpec {
        url: LISTENER,
        short: "lds",
        wildcard: true,
    },
    TypeSpec {
        url: SCOPED_ROUTE,
        short: "srds",
        wildcard: true,
    },
    TypeSpec {
        url: ROUTE,
        short: "rds",
        wildcard: false,
    },
    TypeSpec {
        url: SECRET,
        short: "sds",
        wildcard: false,
    },
    TypeSpec {
        url: EXTENSION,
        short: "ecds",
        wildcard: false,
    },
])
// A cluster that was updated is not used before its endpoints have come again ("resource warming").
.awaiting(&[(CLUSTER, ENDPOINT)]);

/// `envoy.config.cluster.v3.Cluster`.
pub const CLUSTER: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
/// `envoy.config.endpoint.v3.ClusterLoadAssignment`.
pub const ENDPOINT: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
/// `envoy.config.listener.v3.Listener`.
pub const LISTENER: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";
/// `envoy.config.route.v3.ScopedRouteConfiguration`.
pub const SCOPED_ROUTE: &str = "type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration";
/// `envoy.config.route.v3.RouteConfiguration`.
pub const ROUTE: &str = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";
/// `envoy.extensions.transport_sockets.tls.v3.Secret`.
pub const SECRET: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";
/// `envoy.config.core.v3.TypedExtensionConfig`.
pub const EXTENSION: &str = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig";
