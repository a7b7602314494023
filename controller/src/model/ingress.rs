//! An Ingress as the controller keeps it: only what decides the output, hosts in normal form.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use crate::model::{CATCH_ALL, HostError, Semantics};

/// How a path matches, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathType {
    /// `Exact`.
    Exact,
    /// `Prefix`.
    Prefix,
    /// `ImplementationSpecific`, read as Prefix.
    ImplementationSpecific,
    /// Absent, read as Prefix.
    Absent,
    /// Anything else, which is a mistake.
    Unknown(Arc<str>),
}

/// Port of a backend Service, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackendPort {
    /// By number.
    Number(u16),
    /// By name, looked up in the Service.
    Name(Arc<str>),
    /// Neither.
    Absent,
    /// A number that is no port.
    OutOfRange(i32),
}

/// Where requests go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    /// A Service of the Ingress's namespace.
    Service {
        /// Name of the Service.
        name: Arc<str>,
        /// Its port.
        port: BackendPort,
    },
    /// Another object.
    Resource {
        /// Its kind.
        kind: Arc<str>,
        /// Its name.
        name: Arc<str>,
    },
    /// Nothing was given.
    Absent,
}

impl Backend {
    /// The Service and the port name, when the port has to be looked up.
    pub fn named_port(&self) -> Option<(&Arc<str>, &Arc<str>)> {
        match self {
            Self::Service {
                name,
                port: BackendPort::Name(port),
            } => Some((name, port)),
            _ => None,
        }
    }
}

/// One path of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngressPath {
    /// The path as written; empty when absent.
    pub path: Arc<str>,
    /// How it matches.
    pub path_type: PathType,
    /// Where its requests go.
    pub backend: Backend,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngressRule {
    /// Normal form of the host, or what was written and why it cannot be used.
    pub host: Result<Arc<str>, (Arc<str>, HostError)>,
    /// Its paths; empty for a rule that only names a host.
    pub paths: Box<[IngressPath]>,
}

/// One TLS entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngressTls {
    /// Lower-cased hosts; an entry without hosts means `*`.
    pub hosts: Box<[Arc<str>]>,
    /// Name of the Secret, empty when absent.
    pub secret: Arc<str>,
}

/// An Ingress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ingress {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Creation time in seconds since 1970; `i64::MIN`, older than all, when it has none.
    pub created: i64,
    /// `spec.ingressClassName`.
    pub class_name: Option<Arc<str>>,
    /// Annotation `kubernetes.io/ingress.class`.
    pub class_annotation: Option<Arc<str>>,
    /// What its paths and annotations mean, as resolved from the Ingress, its class and the flag.
    pub semantics: Semantics,
    /// Annotations that configure routing, by full key.
    pub annotations: BTreeMap<Arc<str>, Arc<str>>,
    /// `spec.defaultBackend`.
    pub default_backend: Option<Backend>,
    /// TLS entries.
    pub tls: Box<[IngressTls]>,
    /// Rules.
    pub rules: Box<[IngressRule]>,
    /// (host, index of rule), sorted: the rules of one host without looking at all.
    by_host: Box<[(Arc<str>, u32)]>,
    /// Lower-cased TLS host -> first entry that has it.
    tls_by_host: BTreeMap<Arc<str>, u32>,
}

impl Ingress {
    /// An Ingress with nothing in it but a name.
    pub fn new(namespace: Arc<str>, name: Arc<str>) -> Self {
        Self {
            namespace,
            name,
            created: i64::MIN,
            class_name: None,
            class_annotation: None,
            semantics: Semantics::default(),
            annotations: BTreeMap::new(),
            default_backend: None,
            tls: Box::default(),
            rules: Box::default(),
            by_host: Box::default(),
            tls_by_host: BTreeMap::new(),
        }
    }

    /// Builds the indexes; call it after the last change to `rules` and `tls`.
    #[must_use]
    pub fn indexed(mut self) -> Self {
        let hosts = (0u32..).zip(self.rules.iter());
        let mut by_host: Vec<_> = hosts
            .filter_map(|(index, rule)| Some((rule.host.as_ref().ok()?.clone(), index)))
            .collect();
        by_host.sort();
        self.by_host = by_host.into_boxed_slice();
        self.tls_by_host = BTreeMap::new();
        for (index, tls) in (0u32..).zip(self.tls.iter()) {
            for host in &tls.hosts {
                self.tls_by_host.entry(host.clone()).or_insert(index);
            }
        }
        self
    }

    /// Hosts of its rules, each once, in order.
    pub fn hosts(&self) -> impl Iterator<Item = &Arc<str>> {
        let mut last: Option<&Arc<str>> = None;
        self.by_host.iter().filter_map(move |(host, _)| {
            let new = last != Some(host);
            last = Some(host);
            new.then_some(host)
        })
    }

    /// Hosts whose output depends on it: those of its rules, and [`CATCH_ALL`] when it has a default backend.
    pub fn units(&self) -> impl Iterator<Item = &Arc<str>> {
        static CATCH_ALL_HOST: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from(CATCH_ALL));
        let by_default =
            self.default_backend.is_some() && self.rules_of(CATCH_ALL).next().is_none();
        let extra = by_default.then_some(&*CATCH_ALL_HOST);
        extra.into_iter().chain(self.hosts())
    }

    /// True when `host` is one of its [`units`](Self::units).
    pub fn has_unit(&self, host: &str) -> bool {
        self.rules_of(host).next().is_some()
            || (host == CATCH_ALL && self.default_backend.is_some())
    }

    /// Rules of one host with their index, in the order of the object.
    pub fn rules_of(&self, host: &str) -> impl Iterator<Item = (usize, &IngressRule)> {
        let start = self.by_host.partition_point(|(h, _)| &**h < host);
        let entries = self.by_host.get(start..).unwrap_or_default();
        entries
            .iter()
            .take_while(move |(h, _)| &**h == host)
            .filter_map(|(_, index)| {
                let index = *index as usize;
                Some((index, self.rules.get(index)?))
            })
    }

    /// The TLS entry of a host (exact text; a wildcard entry does not cover other hosts), with its index.
    pub fn tls_of(&self, host: &str) -> Option<(usize, &IngressTls)> {
        let index = *self.tls_by_host.get(host)? as usize;
        Some((index, self.tls.get(index)?))
    }

    /// Sort key of "the oldest wins": creation time, then namespace and name.
    pub fn age(&self) -> (i64, &str, &str) {
        (self.created, &self.namespace, &self.name)
    }

    /// The name of its class; empty when it has none. The annotation beats the field.
    pub fn class(&self) -> &str {
        let annotation = self.class_annotation.as_deref();
        annotation
            .or(self.class_name.as_deref())
            .unwrap_or_default()
    }

    /// True when the output of `host` could differ between two versions of this Ingress.
    pub fn differs_at(&self, other: &Self, host: &str) -> bool {
        let rules = self.rules_of(host).map(|(_, rule)| &rule.paths);
        let other_rules = other.rules_of(host).map(|(_, rule)| &rule.paths);
        self.created != other.created
            || self.semantics != other.semantics
            || self.default_backend != other.default_backend
            || self.annotations != other.annotations
            || !self.same_certificate(other, host)
            || !rules.eq(other_rules)
    }

    /// True when two versions name the same Secret for a host, or none.
    pub fn same_certificate(&self, other: &Self, host: &str) -> bool {
        let secret = |ingress: &Self| {
            let entry = ingress.tls_of(host);
            entry.map(|(_, tls)| tls.secret.clone())
        };
        secret(self) == secret(other)
    }
}
