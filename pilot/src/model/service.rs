//! Services as the pilot sees them, whatever registry they came from.
//!
//! A [`Service`] is a value: it is compared to suppress changes that change nothing, and shared
//! behind an `Arc`. It knows nothing of endpoints, which change far more often.

use std::sync::Arc;

/// A named backend with one or more ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Fully qualified host name, for example `web.shop.svc.cluster.local`; lower case.
    pub hostname: Arc<str>,
    /// Kubernetes namespace the service lives in.
    pub namespace: Arc<str>,
    /// Short name within the namespace.
    pub name: Arc<str>,
    /// Ports in the order of the source; numbers are unique.
    pub ports: Vec<ServicePort>,
    /// How Envoy finds the addresses.
    pub resolution: Resolution,
    /// Creation time, seconds since the Unix epoch; 0 when unknown. Older services come first.
    pub created: i64,
}

impl Service {
    /// The port with this number.
    #[must_use]
    pub fn port(&self, number: u16) -> Option<&ServicePort> {
        self.ports.iter().find(|port| port.number == number)
    }
}

/// One port of a [`Service`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// Port name; endpoints are found by it. Empty for the only, unnamed port of a service.
    pub name: Arc<str>,
    /// The service's port number, not the one the endpoints listen on.
    pub number: u16,
    /// What is spoken on it.
    pub protocol: Protocol,
}

/// Application protocol of a service port or of a gateway server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// HTTP/1.1, and HTTP/2 downstream.
    Http,
    /// HTTP/2 without TLS (h2c upstream).
    Http2,
    /// gRPC, that is HTTP/2.
    Grpc,
    /// gRPC-Web, translated to gRPC by the gateway.
    GrpcWeb,
    /// HTTP over TLS.
    Https,
    /// TLS with unknown content.
    Tls,
    /// Any byte stream.
    Tcp,
}

impl Protocol {
    /// Reads the names used by Istio ports (`HTTP`, `GRPC-WEB`, ...), in any letter case.
    /// `None` for names that are not known.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        const NAMES: [(&str, Protocol); 9] = [
            ("http", Protocol::Http),
            ("http2", Protocol::Http2),
            ("h2c", Protocol::Http2),
            ("grpc", Protocol::Grpc),
            ("grpc-web", Protocol::GrpcWeb),
            ("https", Protocol::Https),
            ("tls", Protocol::Tls),
            ("tcp", Protocol::Tcp),
            ("mongo", Protocol::Tcp),
        ];
        NAMES
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|&(_, protocol)| protocol)
    }

    /// True for plain HTTP in any version: requests can be routed by their content.
    #[must_use]
    pub fn is_http(self) -> bool {
        matches!(self, Self::Http | Self::Http2 | Self::Grpc | Self::GrpcWeb)
    }

    /// True when upstream connections must use HTTP/2.
    #[must_use]
    pub fn is_http2(self) -> bool {
        matches!(self, Self::Http2 | Self::Grpc | Self::GrpcWeb)
    }
}

/// How the addresses of a [`Service`] are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// The pilot sends them (EDS).
    Eds,
    /// Envoy resolves a DNS name itself.
    Dns {
        /// The name to resolve, for example the `externalName` of a service.
        address: Arc<str>,
    },
}

#[cfg(test)]
mod tests {
    use super::Protocol;

    #[test]
    fn protocol_names_ignore_case() {
        assert_eq!(Protocol::from_name("GRPC-Web"), Some(Protocol::GrpcWeb));
        assert_eq!(Protocol::from_name("HTTPS"), Some(Protocol::Https));
        assert_eq!(Protocol::from_name("carrier-pigeon"), None);
    }
}
