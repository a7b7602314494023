//! The registry: Services, EndpointSlices and Secrets as facts.
//!
//! In: Kubernetes objects, from a directory of manifests or a watch. Out: [`Change`]s of the model, only for what
//! differs from what was told before. Objects become facts where they are decoded; they are not kept. It knows no
//! sockets and no xDS.

mod endpoints;
mod secret;
mod service;
mod source;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::SystemTime;

use k8s_openapi::api::core::v1 as k8s;
use k8s_openapi::api::discovery::v1 as discovery;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use manifest_dir::{KindTable, ObjectKey, Scope};
use tracing::warn;

pub use endpoints::{Slice, slice};
pub use secret::{Checked, Fault, SecretError, tls_secret};
pub use service::{hostname, service};
pub use source::RegistrySource;

use crate::model::change::{Change, NamespacedName, SecretState};
use crate::model::diagnostic::{DiagnosticList, ObjectRef};
use crate::model::endpoint::Endpoints;
use crate::model::service::Service;

const SERVICE: &str = "Service";
const ENDPOINT_SLICE: &str = "EndpointSlice";
const SECRET: &str = "Secret";

/// What one object tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// A service.
    Service(Arc<Service>),
    /// A part of the endpoints of a service; `None` for a slice without service.
    Slice(Option<Slice>),
    /// A Secret, as far as TLS is concerned.
    Secret(SecretState),
}

impl Fact {
    /// What a Service tells. `domain` is that of the cluster, for example `cluster.local`.
    pub fn of_service(object: &k8s::Service, domain: &str) -> Self {
        Self::Service(Arc::new(service(object, domain)))
    }

    /// What an EndpointSlice tells.
    pub fn of_slice(object: &discovery::EndpointSlice) -> Self {
        Self::Slice(slice(object))
    }

    /// What a Secret tells. One that cannot be used, or whose certificate has ended, is logged.
    pub fn of_secret(object: &k8s::Secret) -> Self {
        Self::Secret(match tls_secret(object) {
            Ok(None) => SecretState::Absent,
            Ok(Some(checked)) => {
                if checked.not_after.is_some_and(|end| end < now()) {
                    warn!(secret = %name_of(&object.metadata), "certificate has expired");
                }
                SecretState::Valid(Arc::new(checked.secret))
            }
            Err(error) => {
                warn!(secret = %error.name, %error, "secret is not usable, its last good version stays");
                SecretState::Invalid(error.to_string().into())
            }
        })
    }
}

/// The kinds that are read from a directory of manifests.
pub fn kind_table(domain: &str) -> KindTable<Fact> {
    let domain = domain.to_owned();
    KindTable::new()
        .with(
            "v1",
            SERVICE,
            Scope::Namespaced,
            move |object: k8s::Service| Fact::of_service(&object, &domain),
        )
        .with(
            "discovery.k8s.io/v1",
            ENDPOINT_SLICE,
            Scope::Namespaced,
            |object| Fact::of_slice(&object),
        )
        .with("v1", SECRET, Scope::Namespaced, |object| {
            Fact::of_secret(&object)
        })
}

/// What was told so far; turns new facts into changes.
#[derive(Debug, Default)]
pub struct Registry {
    domain: String,
    services: HashMap<NamespacedName, Arc<Service>>,
    /// Service of each slice.
    slices: HashMap<NamespacedName, NamespacedName>,
    pools: HashMap<NamespacedName, Pool>,
    /// Slices that are not used as a whole, and why.
    mistakes: HashMap<NamespacedName, DiagnosticList>,
    secrets: HashMap<NamespacedName, SecretState>,
}

/// Endpoints of one service.
#[derive(Debug, Default)]
struct Pool {
    /// By the name of their slice.
    slices: BTreeMap<Arc<str>, Arc<Endpoints>>,
    /// What was told last.
    told: Arc<Endpoints>,
}

/// Changes of a batch while it is applied.
#[derive(Default)]
struct Batch {
    changes: Vec<Change>,
    /// Services whose slices changed.
    pools: BTreeSet<NamespacedName>,
}

impl Registry {
    /// An empty registry. `domain` is that of the cluster; the same as for [`kind_table`].
    pub fn new(domain: &str) -> Self {
        Self {
            domain: domain.to_owned(),
            ..Self::default()
        }
    }

    /// Takes over what a directory reported.
    pub fn apply(&mut self, change: manifest_dir::Change<Fact>) -> Vec<Change> {
        let upserts = change
            .upserts
            .into_iter()
            .map(|object| (object.key, Some(object.value)));
        let removed = change.removed.into_iter().map(|key| (key, None));
        self.update(removed.chain(upserts))
    }

    /// Takes over new facts; `None` for objects that are gone. Endpoints of a service are told once per call, however
    /// many of its slices changed.
    pub fn update(
        &mut self,
        facts: impl IntoIterator<Item = (ObjectKey, Option<Fact>)>,
    ) -> Vec<Change> {
        let mut batch = Batch::default();
        for (key, fact) in facts {
            let name = NamespacedName::new(key.namespace, key.name);
            match (key.kind, fact) {
                (_, Some(Fact::Service(service))) => self.set_service(name, service, &mut batch),
                (SERVICE, None) => self.remove_service(&name, &mut batch),
                (_, Some(Fact::Slice(slice))) => self.set_slice(name, slice, &mut batch),
                (ENDPOINT_SLICE, None) => self.set_slice(name, None, &mut batch),
                (_, Some(Fact::Secret(state))) => self.set_secret(name, state, &mut batch),
                (SECRET, None) => self.set_secret(name, SecretState::Absent, &mut batch),
                (_, None) => {}
            }
        }
        for service in std::mem::take(&mut batch.pools) {
            self.tell_endpoints(&service, &mut batch);
        }
        batch.changes
    }

    fn set_service(&mut self, name: NamespacedName, service: Arc<Service>, batch: &mut Batch) {
        if self.services.get(&name) == Some(&service) {
            return;
        }
        let hostname = Arc::clone(&service.hostname);
        self.services.insert(name, Arc::clone(&service));
        batch.changes.push(Change::Service(hostname, Some(service)));
    }

    fn remove_service(&mut self, name: &NamespacedName, batch: &mut Batch) {
        if let Some(service) = self.services.remove(name) {
            let hostname = Arc::clone(&service.hostname);
            batch.changes.push(Change::Service(hostname, None));
        }
    }

    fn set_slice(&mut self, name: NamespacedName, slice: Option<Slice>, batch: &mut Batch) {
        let mistakes = slice.as_ref().map(|slice| slice.mistakes.clone());
        self.tell_mistakes(&name, mistakes.unwrap_or_default(), batch);
        let owner = slice.as_ref().map(|slice| slice.service.clone());
        let before = match owner {
            Some(owner) => self.slices.insert(name.clone(), owner),
            None => self.slices.remove(&name),
        };
        if let Some(before) = before
            && slice.as_ref().is_none_or(|slice| slice.service != before)
        {
            if let Some(pool) = self.pools.get_mut(&before) {
                pool.slices.remove(&name.name);
            }
            batch.pools.insert(before);
        }
        if let Some(Slice {
            service, endpoints, ..
        }) = slice
        {
            let pool = self.pools.entry(service.clone()).or_default();
            pool.slices.insert(name.name, endpoints);
            batch.pools.insert(service);
        }
    }

    fn tell_mistakes(&mut self, slice: &NamespacedName, list: DiagnosticList, batch: &mut Batch) {
        let before = match list.is_empty() {
            true => self.mistakes.remove(slice),
            false => self.mistakes.insert(slice.clone(), list.clone()),
        };
        if before.unwrap_or_default() != list {
            let object = ObjectRef {
                kind: ENDPOINT_SLICE,
                name: slice.clone(),
            };
            batch.changes.push(Change::Mistakes(object, list));
        }
    }

    fn tell_endpoints(&mut self, service: &NamespacedName, batch: &mut Batch) {
        let Some(pool) = self.pools.get_mut(service) else {
            return;
        };
        let endpoints = endpoints::merge(pool.slices.values());
        if pool.told != endpoints {
            pool.told = Arc::clone(&endpoints);
            batch.changes.push(Change::Endpoints(
                hostname(service, &self.domain),
                endpoints,
            ));
        }
        if pool.slices.is_empty() {
            self.pools.remove(service);
        }
    }

    fn set_secret(&mut self, name: NamespacedName, state: SecretState, batch: &mut Batch) {
        let before = match &state {
            SecretState::Absent => self.secrets.remove(&name),
            present => self.secrets.insert(name.clone(), present.clone()),
        };
        if before.unwrap_or(SecretState::Absent) != state {
            batch.changes.push(Change::Secret(name, state));
        }
    }
}

/// Identity of an object; without a namespace it is in `default`.
fn name_of(meta: &ObjectMeta) -> NamespacedName {
    let namespace = meta
        .namespace
        .as_deref()
        .filter(|namespace| !namespace.is_empty());
    NamespacedName::new(
        namespace.unwrap_or("default"),
        meta.name.as_deref().unwrap_or_default(),
    )
}

/// TCP is what is meant when no protocol is given.
fn is_tcp(protocol: Option<&str>) -> bool {
    protocol.is_none_or(|protocol| protocol.is_empty() || protocol.eq_ignore_ascii_case("TCP"))
}

/// Seconds since the Unix epoch.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}

#[cfg(test)]
mod tests;
