//! What the controller knows of a Service: its port names.

use std::sync::Arc;

/// One port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// Name; empty when the port has none.
    pub name: Arc<str>,
    /// Port number of the Service (not of its endpoints).
    pub number: u16,
}

/// A Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its ports in the order of the object.
    pub ports: Box<[ServicePort]>,
}

impl Service {
    /// Number of the port with exactly this name.
    pub fn port(&self, name: &str) -> Option<u16> {
        self.ports
            .iter()
            .find(|port| &*port.name == name)
            .map(|port| port.number)
    }
}
