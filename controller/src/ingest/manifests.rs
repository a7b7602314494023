//! Manifests as a source: a watched directory, a file or text read once, or what an API server tells of the same kinds.

use std::io;
use std::path::Path;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Secret, Service};
use k8s_openapi::api::networking::v1::{Ingress, IngressClass};
use manifest_dir::{KindTable, Loaded, ObjectKey, Origin, Problem, Watch};

use super::{Change, Object, ObjectSource, convert};
use crate::model::{Diagnostic, ObjectKind, ObjectRef, Place, Reason};

/// Kinds that are read; one row per kind.
pub(super) fn table() -> KindTable<Object> {
    use manifest_dir::Scope::{Cluster, Namespaced};
    KindTable::new()
        .with(
            "networking.k8s.io/v1",
            "Ingress",
            Namespaced,
            |o: Ingress| Object::Ingress(Box::new(convert::ingress(o))),
        )
        .with("v1", "Service", Namespaced, |o: Service| {
            Object::Service(convert::service(o))
        })
        .with(
            "networking.k8s.io/v1",
            "IngressClass",
            Cluster,
            |o: IngressClass| Object::IngressClass(convert::ingress_class(o)),
        )
        .with("v1", "Secret", Namespaced, |o: Secret| {
            Object::Secret(convert::secret(o))
        })
}

/// A watched directory or cluster.
#[derive(Debug)]
pub struct Manifests {
    watch: Watch<Object>,
    files: FileNames,
}

impl Manifests {
    /// Starts to follow `directory`.
    ///
    /// # Errors
    /// It does not exist, or the system refuses to start a thread.
    pub fn watch(directory: &Path) -> io::Result<Self> {
        std::fs::read_dir(directory)?;
        Ok(Self::of(manifest_dir::watch(directory, table())?))
    }

    pub(super) fn of(watch: Watch<Object>) -> Self {
        Self {
            watch,
            files: FileNames::default(),
        }
    }
}

impl ObjectSource for Manifests {
    async fn next(&mut self) -> Option<Change> {
        let change = self.watch.next().await?;
        let mut result = Change::default();
        let removed = change.removed.into_iter().filter_map(object_ref);
        result.objects.extend(removed.map(|object| (object, None)));
        for object in change.upserts {
            add(&mut result, object, &mut self.files);
        }
        for (key, origin) in change.moved {
            let place = object_ref(key).zip(self.files.place(&origin));
            result.places.extend(place);
        }
        for file in change.problems {
            let name = file.path.display().to_string();
            let diagnostics = file
                .problems
                .into_iter()
                .map(|p| diagnostic(p, &mut self.files))
                .collect();
            result.problems.push((name, diagnostics));
        }
        Some(result)
    }
}

/// Reads a file or directory once.
///
/// # Errors
/// The path cannot be read.
pub fn load(path: &Path) -> io::Result<Change> {
    Ok(complete(manifest_dir::load(path, table())?))
}

/// Reads a text once; `name` stands for its path.
pub fn parse(name: &str, content: &[u8]) -> Change {
    complete(manifest_dir::parse(name, content, table()))
}

fn complete(loaded: Loaded<Object>) -> Change {
    let mut change = Change::default();
    let mut files = FileNames::default();
    for object in loaded.objects {
        add(&mut change, object, &mut files);
    }
    let diagnostics = loaded
        .problems
        .into_iter()
        .map(|p| diagnostic(p, &mut files))
        .collect();
    change.problems.push((String::new(), diagnostics));
    change
}

fn add(change: &mut Change, object: manifest_dir::Object<Object>, files: &mut FileNames) {
    let place = files.place(&object.origin);
    let Some(reference) = object_ref(object.key) else {
        return;
    };
    let mut value = object.value;
    if let Object::Ingress(ingress) = &mut value {
        ingress.namespace = reference.namespace.clone();
        ingress.name = reference.name.clone();
    }
    change
        .places
        .extend(place.map(|place| (reference.clone(), place)));
    change.objects.push((reference, Some(value)));
}

fn object_ref(key: ObjectKey) -> Option<ObjectRef> {
    let kind = match key.kind {
        "Ingress" => ObjectKind::Ingress,
        "Service" => ObjectKind::Service,
        "IngressClass" => ObjectKind::IngressClass,
        "Secret" => ObjectKind::Secret,
        _ => return None,
    };
    Some(ObjectRef {
        kind,
        namespace: key.namespace,
        name: key.name,
    })
}

/// The name of the last file, so that all places in one file share it.
#[derive(Debug, Default)]
struct FileNames {
    last: Option<(Arc<Path>, Arc<str>)>,
}

impl FileNames {
    /// `None` for an object of an API server: its name says where it is.
    fn place(&mut self, origin: &Origin) -> Option<Place> {
        if !origin.is_file() {
            return None;
        }
        let file = match &self.last {
            Some((path, name)) if *path == origin.path => name.clone(),
            _ => {
                let name: Arc<str> = Arc::from(origin.path.to_string_lossy());
                self.last = Some((origin.path.clone(), name.clone()));
                name
            }
        };
        Some(Place {
            file,
            line: origin.line,
        })
    }
}

fn diagnostic(problem: Problem, files: &mut FileNames) -> Diagnostic {
    let mut message = problem.message;
    if problem.kept {
        message.push_str("; the last good version stays in use");
    }
    Diagnostic {
        place: files.place(&problem.origin),
        object: problem.object.and_then(object_ref),
        field: String::new(),
        reason: reason(problem.reason),
        message,
    }
}

fn reason(reason: manifest_dir::Reason) -> Reason {
    use manifest_dir::Reason as From;
    match reason {
        From::InvalidSyntax => Reason::InvalidSyntax,
        From::InvalidEncoding => Reason::InvalidEncoding,
        From::MissingKind => Reason::MissingKind,
        From::UnsupportedVersion => Reason::UnsupportedVersion,
        From::InvalidObject => Reason::InvalidObject,
        From::InvalidName => Reason::InvalidName,
        From::DuplicateObject => Reason::DuplicateObject,
        From::Unreadable => Reason::Unreadable,
        From::TooLarge => Reason::TooLarge,
    }
}
