//! What one feed knows of its objects: the version of each, never its value. Of what it is told it keeps only what differs.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use manifest_dir::{KindTable, Object, ObjectKey, Origin, Problem};
use serde_json::Value;
use xxhash_rust::xxh3::Xxh3;

use crate::pending::Pending;

/// What is known of one object.
#[derive(Debug)]
struct Version {
    version: u64,
    /// A version of it was handed over.
    told: bool,
    /// Its newest version could not be used, which was reported.
    faulty: bool,
}

/// The objects of one kind in one namespace (or in all).
pub(crate) struct Known<T> {
    api_version: &'static str,
    kind: &'static str,
    managed_fields: bool,
    table: Arc<KindTable<T>>,
    objects: HashMap<ObjectKey, Version>,
    namespaces: HashSet<Arc<str>>,
    /// Read and not yet handed over.
    pub(crate) pending: Pending<T>,
}

impl<T> Known<T> {
    pub(crate) fn new(
        api_version: &'static str,
        kind: &'static str,
        managed_fields: bool,
        table: Arc<KindTable<T>>,
    ) -> Self {
        Self {
            api_version,
            kind,
            managed_fields,
            table,
            objects: HashMap::new(),
            namespaces: HashSet::new(),
            pending: Pending::default(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    fn key_of(&mut self, object: &Value) -> Option<ObjectKey> {
        let namespace = meta(object, "namespace").unwrap_or_default();
        let namespace = match self.namespaces.get(namespace) {
            Some(known) => known.clone(),
            None => {
                let namespace: Arc<str> = Arc::from(namespace);
                self.namespaces.insert(namespace.clone());
                namespace
            }
        };
        Some(ObjectKey {
            kind: self.kind,
            namespace,
            name: Arc::from(meta(object, "name")?),
        })
    }

    /// Takes in one version of an object, if it is a new one. Returns who it is.
    pub(crate) fn take(&mut self, mut object: Value) -> Option<ObjectKey> {
        let key = self.key_of(&object)?;
        let version = version_of(&object);
        let before = self.objects.get(&key);
        if before.is_some_and(|known| known.version == version) {
            return Some(key);
        }
        let (told, was_faulty) = before.map_or((false, false), |known| (known.told, known.faulty));
        trim(&mut object, self.managed_fields);
        let decoded = self.table.decode(self.api_version, self.kind, object);
        let faulty = decoded.is_err();
        match decoded {
            Ok((_, value)) => {
                let origin = Origin::no_file();
                let read = Object {
                    key: key.clone(),
                    origin,
                    value,
                };
                self.pending.set(read, !told);
                if was_faulty {
                    self.pending.report(place(&key), Vec::new());
                }
            }
            Err((reason, message)) => self.pending.report(
                place(&key),
                vec![Problem {
                    origin: Origin::no_file(),
                    reason,
                    message,
                    object: Some(key.clone()),
                    kept: told,
                }],
            ),
        }
        let known = Version {
            version,
            told: told || !faulty,
            faulty,
        };
        self.objects.insert(key.clone(), known);
        Some(key)
    }

    /// Takes in that an object is gone.
    pub(crate) fn remove(&mut self, object: &Value) {
        if let Some(key) = self.key_of(object) {
            self.forget(&key);
        }
    }

    fn forget(&mut self, key: &ObjectKey) {
        let Some(known) = self.objects.remove(key) else {
            return;
        };
        if known.told {
            self.pending.remove(key.clone());
        }
        if known.faulty {
            self.pending.report(place(key), Vec::new());
        }
    }

    /// A complete list has all there is.
    pub(crate) fn forget_others(&mut self, listed: &HashSet<ObjectKey>) {
        let gone = self.objects.keys().filter(|key| !listed.contains(key));
        let gone: Vec<ObjectKey> = gone.cloned().collect();
        for key in gone {
            self.forget(&key);
        }
    }
}

/// A text field of the object's metadata.
pub(crate) fn meta<'a>(object: &'a Value, field: &str) -> Option<&'a str> {
    object.get("metadata")?.get(field)?.as_str()
}

/// Two versions with the same number are the same only if the object is: a fresh API server counts from the start.
fn version_of(object: &Value) -> u64 {
    let mut hash = Xxh3::new();
    for field in ["uid", "resourceVersion"] {
        hash.update(meta(object, field).unwrap_or_default().as_bytes());
        hash.update(&[0]);
    }
    hash.digest()
}

/// Drops what nobody reads before anything else is made of it.
fn trim(object: &mut Value, managed_fields: bool) {
    let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    if !managed_fields {
        meta.remove("managedFields");
    }
    if let Some(annotations) = meta.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
}

/// Stands for the file of an object in lists of problems.
fn place(key: &ObjectKey) -> Arc<Path> {
    Arc::from(Path::new(&key.to_string()))
}
