//! A small API server: lists in pages, watches from a version, forgets old versions, breaks.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use futures::stream;
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Kind, plural, namespaced, by apiVersion.
type Kinds = BTreeMap<&'static str, Vec<(&'static str, &'static str, bool)>>;
/// Plural, namespace, name.
pub(super) type Id = (String, String, String);

#[derive(Debug)]
pub(super) struct Store {
    kinds: Kinds,
    objects: BTreeMap<Id, Value>,
    version: u64,
    events: Vec<(u64, &'static str, String, Value)>,
    /// Versions before this one are forgotten.
    oldest: u64,
    /// What every request is answered with while it is set.
    refuse: Option<u16>,
    /// What watches are answered with while it is set.
    pub(super) refuse_watches: Option<u16>,
    /// A plural that nobody may read.
    forbidden: Option<&'static str>,
    /// The version of a page is forgotten at once.
    expire_pages: bool,
    pub(super) lists: usize,
    pub(super) watches: usize,
}

/// A running server and its content.
#[derive(Clone, Debug)]
pub(super) struct Fake {
    store: Arc<Mutex<Store>>,
    /// Changes wake watches.
    changed: watch::Sender<u64>,
    /// Cuts end them.
    cut: watch::Sender<u64>,
    pub(super) port: u16,
}

impl Fake {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::on(listener)
    }

    pub(super) fn on(listener: TcpListener) -> Self {
        let kinds = Kinds::from([
            ("v1", vec![("ConfigMap", "configmaps", true)]),
            (
                "networking.k8s.io/v1",
                vec![("IngressClass", "ingressclasses", false)],
            ),
        ]);
        let store = Store {
            kinds,
            objects: BTreeMap::new(),
            version: 10,
            events: Vec::new(),
            oldest: 0,
            refuse: None,
            refuse_watches: None,
            forbidden: None,
            expire_pages: false,
            lists: 0,
            watches: 0,
        };
        let fake = Self {
            store: Arc::new(Mutex::new(store)),
            changed: watch::Sender::new(0),
            cut: watch::Sender::new(0),
            port: listener.local_addr().unwrap().port(),
        };
        let router = Router::new().fallback(answer).with_state(fake.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        fake
    }

    pub(super) fn client(&self) -> Client {
        client(self.port)
    }

    pub(super) fn with<R>(&self, act: impl FnOnce(&mut Store) -> R) -> R {
        let result = act(&mut self.store.lock().unwrap());
        self.changed.send_modify(|count| *count += 1);
        result
    }

    /// Creates or changes an object; `data` is what the tests read of it.
    pub(super) fn put(&self, plural: &str, namespace: &str, name: &str, data: Value) {
        self.with(|store| {
            let id = (plural.to_owned(), namespace.to_owned(), name.to_owned());
            store.version += 1;
            let version = store.version;
            let before = store.objects.get(&id);
            let uid = before.map_or(json!(format!("u{version}")), |o| o["metadata"]["uid"].clone());
            let mut object = json!({
                "metadata": {
                    "name": name, "uid": uid, "resourceVersion": version.to_string(),
                    "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:data": {}}}],
                    "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "long", "a": "b"},
                },
                "data": data,
            });
            if !namespace.is_empty() {
                object["metadata"]["namespace"] = json!(namespace);
            }
            let kind = if before.is_some() { "MODIFIED" } else { "ADDED" };
            store.events.push((version, kind, plural.to_owned(), object.clone()));
            store.objects.insert(id, object);
        });
    }

    pub(super) fn delete(&self, plural: &str, namespace: &str, name: &str) {
        self.with(|store| {
            let id = (plural.to_owned(), namespace.to_owned(), name.to_owned());
            if let Some(mut object) = store.objects.remove(&id) {
                store.version += 1;
                object["metadata"]["resourceVersion"] = json!(store.version.to_string());
                store
                    .events
                    .push((store.version, "DELETED", plural.to_owned(), object));
            }
        });
    }

    /// Breaks all streams.
    pub(super) fn cut(&self) {
        self.cut.send_modify(|count| *count += 1);
    }

    /// Forgets all versions so far, so that watches from them are refused.
    pub(super) fn compact(&self) {
        self.with(|store| {
            store.version += 1;
            store.oldest = store.version;
        });
    }

    pub(super) fn refuse(&self, status: Option<u16>) {
        self.with(|store| store.refuse = status);
    }

    pub(super) fn forbid(&self, plural: Option<&'static str>) {
        self.with(|store| store.forbidden = plural);
    }

    pub(super) fn expire_pages(&self) {
        self.with(|store| store.expire_pages = true);
    }

    pub(super) fn install(&self, api_version: &'static str) {
        let kinds = vec![("Widget", "widgets", true)];
        self.with(|store| store.kinds.insert(api_version, kinds));
    }

    pub(super) fn bookmark(&self) {
        self.with(|store| {
            store.version += 1;
            let object = json!({"kind": "X", "apiVersion": "v1",
                "metadata": {"resourceVersion": store.version.to_string()}});
            for plural in ["configmaps", "ingressclasses"] {
                let event = (store.version, "BOOKMARK", plural.to_owned(), object.clone());
                store.events.push(event);
            }
        });
    }
}

pub(super) fn client(port: u16) -> Client {
    let uri = format!("http://127.0.0.1:{port}").parse().unwrap();
    let mut config = Config::new(uri);
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

fn failure(code: u16, reason: &str) -> Response {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code, "reason": reason, "message": reason});
    (StatusCode::from_u16(code).unwrap(), axum::Json(status)).into_response()
}

async fn answer(
    State(fake): State<Fake>,
    uri: Uri,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    if let Some(code) = fake.store.lock().unwrap().refuse {
        return failure(code, "Refused");
    }
    let path = uri
        .path()
        .trim_start_matches("/apis/")
        .trim_start_matches("/api/");
    let parts: Vec<&str> = path.split('/').collect();
    let known = fake.store.lock().unwrap().kinds.clone();
    let Some((version, kinds)) = known
        .iter()
        .find(|(version, _)| path == **version || path.starts_with(&format!("{version}/")))
    else {
        return failure(404, "NotFound");
    };
    let rest = &parts[version.split('/').count()..];
    let (namespace, plural) = match rest {
        [] => {
            let list = kinds.iter().map(|(kind, plural, namespaced)| {
                json!({"kind": kind, "name": plural, "singularName": "", "namespaced": namespaced, "verbs": ["list"]})
            });
            let resources: Vec<Value> = list.collect();
            let list =
                json!({"kind": "APIResourceList", "groupVersion": version, "resources": resources});
            return axum::Json(list).into_response();
        }
        ["namespaces", namespace, plural] => ((*namespace).to_owned(), (*plural).to_owned()),
        [plural] => (String::new(), (*plural).to_owned()),
        _ => return failure(404, "NotFound"),
    };
    if fake.store.lock().unwrap().forbidden == Some(plural.as_str()) {
        return failure(403, "Forbidden");
    }
    if query.contains_key("watch") {
        follow(&fake, &namespace, plural, &query)
    } else {
        page(&fake, &namespace, &plural, &query)
    }
}

/// The token of the next page: the version of the first page and the last identity that it had.
fn page(fake: &Fake, namespace: &str, plural: &str, query: &HashMap<String, String>) -> Response {
    let mut store = fake.store.lock().unwrap();
    store.lists += 1;
    let limit = query.get("limit").map(|limit| limit.parse().unwrap());
    let limit = limit.map_or(usize::MAX, |limit: usize| limit.min(3));
    let token = query.get("continue").map(|token| {
        let parts: Vec<&str> = token.split('|').collect();
        (
            parts[0].parse::<u64>().unwrap(),
            parts[1].to_owned(),
            parts[2].to_owned(),
        )
    });
    let at = token.as_ref().map_or(store.version, |token| token.0);
    if at < store.oldest {
        return failure(410, "Expired");
    }
    let after = token.map(|(_, namespace, name)| (plural.to_owned(), namespace, name));
    let mut rest = store.objects.iter().filter(|(id, _)| {
        id.0 == plural
            && (namespace.is_empty() || id.1 == namespace)
            && after.as_ref().is_none_or(|after| *id > after)
    });
    let items: Vec<_> = rest.by_ref().take(limit).collect();
    let mut meta = json!({"resourceVersion": at.to_string()});
    if rest.next().is_some()
        && let Some((id, _)) = items.last()
    {
        meta["continue"] = json!(format!("{at}|{}|{}", id.1, id.2));
    }
    let items: Vec<&Value> = items.iter().map(|(_, object)| *object).collect();
    let answer = axum::Json(json!({"kind": "List", "metadata": meta, "items": items}));
    if store.expire_pages && meta.get("continue").is_some() {
        store.version += 1;
        store.oldest = store.version;
    }
    answer.into_response()
}

fn follow(
    fake: &Fake,
    namespace: &str,
    plural: String,
    query: &HashMap<String, String>,
) -> Response {
    let from: u64 = query["resourceVersion"].parse().unwrap();
    {
        let mut store = fake.store.lock().unwrap();
        store.watches += 1;
        if let Some(code) = store.refuse_watches {
            return failure(code, "Refused");
        }
        if from < store.oldest {
            return failure(410, "Expired");
        }
    }
    let namespace = namespace.to_owned();
    let (fake, changed, cut) = (fake.clone(), fake.changed.subscribe(), fake.cut.subscribe());
    let events = stream::unfold((from, changed, cut), move |(from, mut changed, mut cut)| {
        let (fake, plural, namespace) = (fake.clone(), plural.clone(), namespace.clone());
        async move {
            loop {
                if cut.has_changed().unwrap_or(true) {
                    cut.mark_unchanged();
                    return Some((Err(std::io::Error::other("cut")), (from, changed, cut)));
                }
                changed.mark_unchanged();
                let next = next_event(&fake, &plural, &namespace, from);
                if let Some((version, line)) = next {
                    return Some((Ok(line), (version, changed, cut)));
                }
                tokio::select! {
                    _ = changed.changed() => {}
                    _ = cut.changed() => cut.mark_changed(),
                }
            }
        }
    });
    Body::from_stream(events).into_response()
}

fn next_event(fake: &Fake, plural: &str, namespace: &str, from: u64) -> Option<(u64, String)> {
    let store = fake.store.lock().unwrap();
    let wanted = |event: &&(u64, &str, String, Value)| {
        let of = event.3["metadata"]["namespace"].as_str();
        event.0 > from
            && event.2 == plural
            && (namespace.is_empty() || event.1 == "BOOKMARK" || of == Some(namespace))
    };
    let (version, kind, _, object) = store.events.iter().find(wanted)?;
    Some((
        *version,
        format!("{}\n", json!({"type": kind, "object": object})),
    ))
}
