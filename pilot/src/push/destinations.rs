//! VirtualServices by where they lead to: which services need clusters, and whose routes a service concerns.

use std::sync::Arc;

use imbl::OrdSet;
use shared_proto::Kind;
use shared_proto::config::ConfigKey;

use crate::model::config::PortGiven;

/// An index; cloning shares it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Destinations(OrdSet<(Arc<str>, PortGiven, ConfigKey)>);

impl Destinations {
    /// Adds a user of a destination. True when it is the first one.
    pub(super) fn insert(&mut self, to: &(Arc<str>, PortGiven), user: &ConfigKey) -> bool {
        let first = self.users_of(to).next().is_none();
        self.0.insert((to.0.clone(), to.1, user.clone()));
        first
    }

    /// Removes a user of a destination. True when it was the last one.
    pub(super) fn remove(&mut self, to: &(Arc<str>, PortGiven), user: &ConfigKey) -> bool {
        self.0.remove(&(to.0.clone(), to.1, user.clone()));
        self.users_of(to).next().is_none()
    }

    /// Whether some route leads to the host name.
    pub(super) fn contains(&self, hostname: &str) -> bool {
        self.from(hostname, 0)
            .next()
            .is_some_and(|(name, ..)| **name == *hostname)
    }

    /// The ports that routes to the host name give, in order. Cost: proportional to their number.
    pub(super) fn ports(&self, hostname: &str) -> Vec<u16> {
        let mut ports = Vec::new();
        let mut next = Some(1);
        while let Some(from) = next {
            let found = self.from(hostname, from).next();
            let found = found.filter(|(name, ..)| **name == *hostname);
            ports.extend(found.map(|(_, port, _)| *port));
            next = found.and_then(|(_, port, _)| port.checked_add(1));
        }
        ports
    }

    /// All users of a host name. One that gives several ports comes several times.
    pub(super) fn users<'a>(&'a self, hostname: &'a str) -> impl Iterator<Item = &'a ConfigKey> {
        self.from(hostname, 0)
            .take_while(move |(name, ..)| **name == *hostname)
            .map(|(.., user)| user)
    }

    /// Users of a host name that give this port.
    pub(super) fn users_of<'a>(
        &'a self,
        to: &'a (Arc<str>, PortGiven),
    ) -> impl Iterator<Item = &'a ConfigKey> {
        self.from(&to.0, to.1)
            .take_while(move |(name, port, _)| (name, port) == (&to.0, &to.1))
            .map(|(.., user)| user)
    }

    fn from(
        &self,
        hostname: &str,
        port: PortGiven,
    ) -> impl Iterator<Item = &(Arc<str>, PortGiven, ConfigKey)> {
        self.0.range((Arc::from(hostname), port, first_key())..)
    }
}

/// The lowest key there is, to start a range from.
pub(super) fn first_key() -> ConfigKey {
    let kind = Kind::ALL
        .iter()
        .min()
        .copied()
        .unwrap_or(Kind::VirtualService);
    ConfigKey::new(kind, "", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_and_last_users_are_told() {
        let key = |name: &str| ConfigKey::new(Kind::VirtualService, "n", name);
        let to = |port| (Arc::from("web"), port);
        let mut index = Destinations::default();
        assert!(index.insert(&to(443), &key("a")));
        assert!(!index.insert(&to(443), &key("b")));
        assert!(index.insert(&to(0), &key("b")));
        assert!(index.insert(&to(65535), &key("b")));
        assert!(index.insert(&(Arc::from("web2"), 80), &key("a")));
        assert_eq!(index.ports("web"), [443, 65535]);
        assert_eq!(index.ports("we"), Vec::<u16>::new());
        assert!(!index.contains("we"));
        assert_eq!(index.users("web").count(), 4);
        assert!(!index.remove(&to(443), &key("a")));
        assert!(index.remove(&to(443), &key("b")));
        assert!(index.contains("web"));
        assert_eq!(index.ports("web"), [65535]);
    }
}
