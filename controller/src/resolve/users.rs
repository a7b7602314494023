//! Which hosts look an object up.

use std::collections::HashMap;
use std::sync::Arc;

/// Namespace and name of an object.
pub(super) type Key = (Arc<str>, Arc<str>);

/// Object -> host -> how many of its uses look the object up.
#[derive(Debug, Default)]
pub(super) struct Users(HashMap<Key, HashMap<Arc<str>, usize>>);

impl Users {
    /// The hosts that look an object up.
    pub(super) fn of(&self, object: &Key) -> impl Iterator<Item = &Arc<str>> {
        self.0.get(object).into_iter().flat_map(HashMap::keys)
    }

    /// Adds one use.
    pub(super) fn join(&mut self, object: Key, host: &Arc<str>) {
        let hosts = self.0.entry(object).or_default();
        *hosts.entry(host.clone()).or_default() += 1;
    }

    /// Takes one use away.
    pub(super) fn leave(&mut self, object: &Key, host: &str) {
        let Some(hosts) = self.0.get_mut(object) else {
            return;
        };
        if let Some(count) = hosts.get_mut(host) {
            *count -= 1;
            if *count == 0 {
                hosts.remove(host);
            }
        }
        if hosts.is_empty() {
            self.0.remove(object);
        }
    }
}
