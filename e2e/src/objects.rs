//! Kubernetes objects, written to an API server by a client in this process.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, Error};
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::process::wait_until;

/// Requests at the same time.
const PARALLEL: usize = 16;
/// How long the API server may take to be rid of objects.
const LIMIT: Duration = Duration::from_secs(30);
/// Kinds that are in no namespace.
const CLUSTER_WIDE: [&str; 2] = ["IngressClass", "Namespace"];
/// The API server's own Service, which has a slice too.
const API_SERVICE: &str = "kubernetes";

/// An object and where it is in the API.
#[derive(Debug, Clone)]
pub struct Object {
    /// `metadata.creationTimestamp` as its author wishes it; empty, before all others, when there is none.
    age: String,
    kind: String,
    namespace: String,
    name: String,
    /// Path of its collection.
    collection: String,
    /// The object itself.
    pub body: Value,
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.kind, self.namespace, self.name)
    }
}

impl Object {
    /// Finds out what an object is; what it does not say is left to the API server to complain about.
    pub fn new(body: Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (kind, version) = (text(&body["kind"]), text(&body["apiVersion"]));
        let meta = &body["metadata"];
        let namespace = match meta["namespace"].as_str() {
            _ if CLUSTER_WIDE.contains(&kind.as_str()) => "",
            None | Some("") => "default",
            Some(namespace) => namespace,
        };
        let plural = plural(&kind);
        let root = if version.contains('/') { "apis" } else { "api" };
        let collection = match namespace {
            "" => format!("/{root}/{version}/{plural}"),
            namespace => format!("/{root}/{version}/namespaces/{namespace}/{plural}"),
        };
        Self {
            age: text(&meta["creationTimestamp"]),
            namespace: namespace.to_owned(),
            name: text(&meta["name"]),
            kind,
            collection,
            body,
        }
    }

    /// The objects of a multi-document text, those of Lists one by one; what follows a document that is no YAML is lost.
    pub fn read(text: &str) -> Vec<Self> {
        let mut found = Vec::new();
        for document in serde_yaml::Deserializer::from_str(text) {
            let Ok(body) = Value::deserialize(document) else {
                break;
            };
            match body["items"].as_array() {
                Some(items) if body["kind"] == "List" => {
                    found.extend(items.iter().cloned().map(Self::new));
                }
                _ if body.is_object() => found.push(Self::new(body)),
                _ => {}
            }
        }
        found
    }

    /// Whether it is an Ingress.
    pub fn is_ingress(&self) -> bool {
        self.kind == "Ingress"
    }

    /// Its path in the API.
    pub fn path(&self) -> String {
        format!("{}/{}", self.collection, self.name)
    }

    fn place(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }
}

/// Kubernetes makes the names of collections this way.
fn plural(kind: &str) -> String {
    let name = kind.to_ascii_lowercase();
    let suffix = if name.ends_with('s') { "es" } else { "s" };
    name + suffix
}

/// Why the API server does not take an object, in its own words.
pub type Refusals = BTreeMap<String, String>;

/// A client.
#[derive(Clone)]
pub struct Objects {
    client: Client,
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects").finish_non_exhaustive()
    }
}

impl Objects {
    /// Prepares a connection.
    ///
    /// # Errors
    /// The file is unusable.
    pub async fn connect(kubeconfig: &Path) -> Result<Self> {
        let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        Ok(Self {
            client: Client::try_from(config)?,
        })
    }

    async fn request(&self, method: &str, path: &str, body: &Value) -> Result<Value, Error> {
        let bytes = match body {
            Value::Null => Vec::new(),
            body => body.to_string().into_bytes(),
        };
        let content = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("Content-Type", content)
            .body(bytes)
            .map_err(Error::HttpError)?;
        self.client.request(request).await
    }

    /// Writes an object that is not there yet.
    ///
    /// # Errors
    /// The API server refuses it, or does not answer.
    pub async fn create(&self, object: &Object) -> Result<Value, Error> {
        self.request("POST", &object.collection, &object.body).await
    }

    /// Writes over an object.
    ///
    /// # Errors
    /// The API server refuses it, or does not answer.
    pub async fn replace(&self, object: &Object) -> Result<Value, Error> {
        self.request("PUT", &object.path(), &object.body).await
    }

    /// Merges a patch into an object, or into its `part` (for example `/status`).
    ///
    /// # Errors
    /// The API server refuses it, or does not answer.
    pub async fn patch(&self, object: &Object, part: &str, patch: &Value) -> Result<Value, Error> {
        self.request("PATCH", &(object.path() + part), patch).await
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// The API server refuses it, or does not answer.
    pub async fn delete(&self, object: &Object) -> Result<Value, Error> {
        self.request("DELETE", &object.path(), &Value::Null).await
    }

    /// Reads a path.
    ///
    /// # Errors
    /// There is none.
    pub async fn get(&self, path: &str) -> Result<Value> {
        Ok(self.request("GET", path, &Value::Null).await?)
    }

    /// Creates objects and their namespaces: Ingresses last, one after the other, in the order of the ages that their author
    /// gave them. Returns those that are refused.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn create_all(&self, objects: &[Object]) -> Result<Refusals> {
        let namespaces: BTreeSet<&str> = objects.iter().map(|o| o.namespace.as_str()).collect();
        for name in namespaces.into_iter().filter(|name| !name.is_empty()) {
            let namespace =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            match self.create(&Object::new(namespace)).await {
                Err(Error::Api(status)) if status.code == 409 || status.code == 422 => {}
                other => {
                    other?;
                }
            }
        }
        let (mut ingresses, others): (Vec<&Object>, Vec<&Object>) =
            objects.iter().partition(|object| object.is_ingress());
        let mut refused = self.create_at_once(others).await?;
        ingresses.sort_by_key(|object| (&object.age, object.place()));
        refused.extend(self.create_in_order(&ingresses).await?);
        Ok(refused)
    }

    /// Creates objects side by side; returns those that are refused.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn create_at_once<'a>(
        &self,
        objects: impl IntoIterator<Item = &'a Object>,
    ) -> Result<Refusals> {
        let requests = objects.into_iter().map(|object| async move {
            let refusal = refusal(self.create(object).await)?;
            Ok::<_, Error>(refusal.map(|reason| (object.to_string(), reason)))
        });
        let answers = futures::stream::iter(requests).buffer_unordered(PARALLEL);
        let refused: Vec<_> = answers.try_collect().await?;
        Ok(refused.into_iter().flatten().collect())
    }

    /// The API server notes the second of a creation. Among objects of one second the names decide, so a name that comes
    /// later and sorts earlier has to wait for the next second.
    async fn create_in_order(&self, objects: &[&Object]) -> Result<Refusals> {
        let mut refused = Refusals::new();
        let mut before: Option<(&Object, u64)> = None;
        for object in objects {
            if let Some((older, second)) = before
                && older.place() > object.place()
            {
                wait_for_second_after(second).await?;
            }
            match refusal(self.create(object).await)? {
                Some(reason) => {
                    refused.insert(object.to_string(), reason);
                }
                None => before = Some((object, now()?.as_secs())),
            }
        }
        Ok(refused)
    }

    /// Removes all objects of the kinds and namespaces of `objects`, and sees that they are gone.
    ///
    /// # Errors
    /// Some stay.
    pub async fn clear(&self, objects: &[Object]) -> Result<()> {
        let kinds: BTreeSet<(&str, &str)> = objects
            .iter()
            .filter(|object| object.kind != "Namespace")
            .map(|object| (object.collection.as_str(), object.kind.as_str()))
            .collect();
        let selector = format!("?fieldSelector=metadata.name!={API_SERVICE}");
        for (collection, _) in kinds {
            let all = format!("{collection}{selector}");
            match self.request("DELETE", &all, &Value::Null).await {
                Ok(_) => {}
                // Objects of an unknown kind have not been taken either.
                Err(Error::Api(status)) if status.code == 404 || status.code == 405 => continue,
                Err(error) => return Err(error).context("cannot remove objects"),
            }
            let what = format!("{collection} is empty");
            wait_until(&what, LIMIT, async || {
                let left = self.get(&all).await.ok()?;
                left["items"].as_array()?.is_empty().then_some(())
            })
            .await?;
        }
        Ok(())
    }
}

fn now() -> Result<Duration> {
    Ok(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?)
}

async fn wait_for_second_after(second: u64) -> Result<()> {
    let next = Duration::from_secs(second + 1);
    tokio::time::sleep(next.saturating_sub(now()?)).await;
    ensure!(now()?.as_secs() > second, "the clock went back");
    Ok(())
}

/// The reason of a refusal; an error when there is no answer.
fn refusal(answer: Result<Value, Error>) -> Result<Option<String>, Error> {
    match answer {
        Ok(_) => Ok(None),
        Err(Error::Api(status)) if (400..500).contains(&status.code) => {
            Ok(Some(status.message.clone()))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_know_their_place() {
        let text = "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: a, namespace: n}\n---\n\
                    apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Service, metadata: {name: s}}]\n---\n\
                    apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: c}\n---\nnothing\n";
        let objects = Object::read(text);
        let paths: Vec<String> = objects.iter().map(Object::path).collect();
        assert_eq!(
            paths,
            [
                "/apis/networking.k8s.io/v1/namespaces/n/ingresses/a",
                "/api/v1/namespaces/default/services/s",
                "/apis/networking.k8s.io/v1/ingressclasses/c",
            ]
        );
        assert_eq!(objects[0].to_string(), "Ingress/n/a");
    }
}
