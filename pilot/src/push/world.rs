//! All facts at one moment: the context, and beside it what changes without touching any config.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use imbl::OrdMap;

use super::context::{Impact, PushContext};
use crate::model::change::{Change, NamespacedName, SecretState};
use crate::model::diagnostic::ObjectRef;
use crate::model::endpoint::Endpoints;
use crate::model::secret::TlsSecret;

/// Context, endpoints and secrets. Cloning shares everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct World {
    /// Indexes over configs and services.
    pub context: Arc<PushContext>,
    /// Endpoints by the host name of their service.
    pub endpoints: OrdMap<Arc<str>, Arc<Endpoints>>,
    /// The last usable version of each Secret.
    pub secrets: OrdMap<NamespacedName, Arc<TlsSecret>>,
}

/// What a batch of changes may have changed in what proxies are sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changed {
    /// Changes of the context; `None` when it stays the same.
    pub context: Option<Impact>,
    /// Host names of services whose endpoints differ.
    pub endpoints: BTreeSet<Arc<str>>,
    /// Secrets that differ.
    pub secrets: BTreeSet<NamespacedName>,
}

impl Changed {
    /// As if every fact of this world were new.
    pub fn everything(world: &World) -> Self {
        let context = &world.context;
        Self {
            context: Some(Impact {
                hosts: context.hosts(),
                gateways: context
                    .gateways
                    .values()
                    .map(|new| (None, Some(new.clone())))
                    .collect(),
                services: context.services.keys().cloned().collect(),
                tls_gateways: BTreeSet::new(),
                // All others patch something that is new already.
                patches: context.added_patches().cloned().collect(),
            }),
            endpoints: world.endpoints.keys().cloned().collect(),
            secrets: world.secrets.keys().cloned().collect(),
        }
    }

    /// Nothing changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl World {
    /// The world after these changes, and what they changed. Cost: proportional to the changes.
    pub fn next(&self, changes: Vec<Change>) -> (Self, Changed) {
        let mut world = self.clone();
        let mut changed = Changed::default();
        let mut context: Option<(PushContext, Impact)> = None;
        // Of several changes of one object only the last counts: an object that is removed and added again
        // within one batch never went away.
        for change in last_of_each(changes) {
            match change {
                Change::Config(key, config) => {
                    if self.context.configs.get(&key) != config.as_ref() {
                        let (context, impact) = context
                            .get_or_insert_with(|| ((*self.context).clone(), Impact::default()));
                        context.apply_config(key, config, impact);
                    }
                }
                Change::Service(hostname, service) => {
                    if self.context.services.get(&hostname) != service.as_ref() {
                        let (context, impact) = context
                            .get_or_insert_with(|| ((*self.context).clone(), Impact::default()));
                        context.apply_service(hostname, service, impact);
                    }
                }
                Change::Endpoints(hostname, endpoints) => {
                    world.apply_endpoints(hostname, endpoints, &mut changed);
                }
                Change::Secret(name, state) => world.apply_secret(name, state, &mut changed),
                Change::Mistakes(..) => {}
            }
        }
        if let Some((context, impact)) = context {
            world.context = Arc::new(context);
            changed.context = Some(impact);
        }
        (world, changed)
    }

    fn apply_endpoints(
        &mut self,
        hostname: Arc<str>,
        endpoints: Arc<Endpoints>,
        changed: &mut Changed,
    ) {
        let old = if endpoints.is_empty() {
            self.endpoints.remove(&hostname)
        } else {
            self.endpoints.insert(hostname.clone(), endpoints.clone())
        };
        let was_empty = old.as_ref().is_none_or(|old| old.is_empty());
        if old.as_ref() != Some(&endpoints) && !(was_empty && endpoints.is_empty()) {
            changed.endpoints.insert(hostname);
        }
    }

    fn apply_secret(&mut self, name: NamespacedName, state: SecretState, changed: &mut Changed) {
        let old = match state {
            // Half of a rotation must not take a host down: what was usable stays.
            SecretState::Invalid(_) => return,
            SecretState::Absent => self.secrets.remove(&name),
            SecretState::Valid(secret) => {
                let old = self.secrets.insert(name.clone(), secret.clone());
                if old.as_ref() == Some(&secret) {
                    return;
                }
                changed.secrets.insert(name);
                return;
            }
        };
        if old.is_some() {
            changed.secrets.insert(name);
        }
    }
}

#[derive(PartialEq, Eq, Hash)]
enum Object {
    Config(shared_proto::config::ConfigKey),
    Service(Arc<str>),
    Endpoints(Arc<str>),
    Secret(NamespacedName),
    Mistakes(ObjectRef),
}

fn last_of_each(changes: Vec<Change>) -> Vec<Change> {
    if changes.len() < 2 {
        return changes;
    }
    let mut seen = HashSet::with_capacity(changes.len());
    let mut last: Vec<Change> = changes
        .into_iter()
        .rev()
        .filter(|change| {
            seen.insert(match change {
                Change::Config(key, _) => Object::Config(key.clone()),
                Change::Service(hostname, _) => Object::Service(hostname.clone()),
                Change::Endpoints(hostname, _) => Object::Endpoints(hostname.clone()),
                Change::Secret(name, _) => Object::Secret(name.clone()),
                Change::Mistakes(object, _) => Object::Mistakes(object.clone()),
            })
        })
        .collect();
    last.reverse();
    last
}
