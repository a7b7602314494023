//! Addresses behind a service, grouped by service port name.
//!
//! [`Endpoints`] is canonical: built from the same addresses in any order it is equal, so that
//! equality suppresses updates that change nothing.

use std::net::IpAddr;
use std::sync::Arc;

/// One address that can take requests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// Where it listens.
    pub address: IpAddr,
    /// Port it listens on (the target port, not the service's).
    pub port: u16,
    /// False when it is known but must not be picked while healthy ones exist.
    pub healthy: bool,
    /// Region of the node, for example `eu-central-1`.
    pub region: Option<Arc<str>>,
    /// Zone of the node, for example `eu-central-1a`.
    pub zone: Option<Arc<str>>,
    /// Name of the node it runs on.
    pub node: Option<Arc<str>>,
}

impl Endpoint {
    /// A healthy endpoint of unknown location.
    #[must_use]
    pub fn new(address: IpAddr, port: u16) -> Self {
        Self {
            address,
            port,
            healthy: true,
            region: None,
            zone: None,
            node: None,
        }
    }
}

/// All endpoints of one service, per service port name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoints {
    /// Sorted by port name; never holds an empty list.
    ports: Vec<(Arc<str>, Vec<Endpoint>)>,
}

impl Endpoints {
    /// Groups `(service port name, endpoint)` pairs, sorts them and drops duplicates. Of two
    /// entries with the same address and port, a healthy one is kept.
    #[must_use]
    pub fn new(pairs: impl IntoIterator<Item = (Arc<str>, Endpoint)>) -> Self {
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        pairs.sort_by(|(left_port, left), (right_port, right)| {
            (left_port, left.address, left.port, !left.healthy, left).cmp(&(
                right_port,
                right.address,
                right.port,
                !right.healthy,
                right,
            ))
        });
        pairs.dedup_by(|(later_port, later), (port, kept)| {
            later_port == port && later.address == kept.address && later.port == kept.port
        });
        let mut ports: Vec<(Arc<str>, Vec<Endpoint>)> = Vec::new();
        for (port, endpoint) in pairs {
            match ports.last_mut() {
                Some((name, list)) if *name == port => list.push(endpoint),
                _ => ports.push((port, vec![endpoint])),
            }
        }
        Self { ports }
    }

    /// Endpoints of a service port, sorted by address and port; empty when there are none.
    #[must_use]
    pub fn port(&self, name: &str) -> &[Endpoint] {
        self.ports
            .binary_search_by(|(known, _)| (**known).cmp(name))
            .ok()
            .and_then(|at| self.ports.get(at))
            .map_or(&[], |(_, list)| list)
    }

    /// Port names with their endpoints, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &[Endpoint])> {
        self.ports
            .iter()
            .map(|(name, list)| (name, list.as_slice()))
    }

    /// True when no port has an endpoint.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::{Endpoint, Endpoints};

    fn endpoint(address: &str, port: u16) -> Endpoint {
        Endpoint::new(address.parse().unwrap(), port)
    }

    #[test]
    fn order_and_duplicates_do_not_matter() {
        let a = ("http".into(), endpoint("10.0.0.1", 80));
        let b = ("http".into(), endpoint("10.0.0.2", 80));
        let c = ("admin".into(), endpoint("10.0.0.1", 81));
        let one = Endpoints::new([a.clone(), b.clone(), c.clone(), a.clone()]);
        let two = Endpoints::new([c, b, a]);
        assert_eq!(one, two);
        assert_eq!(one.port("http").len(), 2);
        assert_eq!(one.port("admin").len(), 1);
        assert!(one.port("none").is_empty());
    }

    #[test]
    fn the_healthy_one_of_two_equal_addresses_is_kept() {
        let healthy = endpoint("10.0.0.1", 80);
        let sick = Endpoint {
            healthy: false,
            node: Some("n".into()),
            ..healthy.clone()
        };
        let endpoints = Endpoints::new([("p".into(), sick), ("p".into(), healthy.clone())]);
        assert_eq!(endpoints.port("p"), [healthy]);
    }
}
