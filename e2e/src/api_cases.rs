//! Cases whose objects are in an API server instead of a folder: read by both programs when they start, then edited, restored,
//! deleted and made again while they run.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::api_server::ApiServer;
use crate::case::Case;
use crate::dump::Dump;
use crate::objects::{Object, Objects, Refusals};
use crate::process::wait_until;
use crate::runner;
use crate::stack::{Options, Stack};

/// API servers at the same time; each case has one to itself.
const SERVERS: usize = 3;
/// How long a change may take to reach Envoy; the machine is busy.
const LIMIT: Duration = Duration::from_secs(30);
/// Extensions of files that hold manifests.
const MANIFESTS: [&str; 3] = [".yaml", ".yml", ".json"];
/// Host of an Ingress that is written after others: when it has arrived, they have too.
const MARKER: &str = "marker.isthmus.test";
/// Address of the gateway.
const ADDRESS: &str = "192.0.2.1";

/// API servers that cases take turns with. They end when it is dropped.
#[derive(Debug, Default)]
pub struct Pool {
    state: Mutex<State>,
    given_back: Condvar,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<ApiServer>,
    busy: usize,
}

impl Pool {
    /// An API server without the objects of other cases; starts one if there are few.
    async fn take(&self) -> Result<ApiServer> {
        let idle = {
            let state = self.state.lock().ok().context("a case panicked")?;
            let full = |state: &mut State| state.idle.is_empty() && state.busy >= SERVERS;
            // The thread is this case's own, so it may sleep.
            let waited = self.given_back.wait_while(state, full);
            let mut state = waited.ok().context("a case panicked")?;
            state.busy += 1;
            state.idle.pop()
        };
        match idle {
            Some(api) => Ok(api),
            None => ApiServer::start()
                .await
                .inspect_err(|_| self.give_back(None)),
        }
    }

    /// `None` when it is unusable.
    fn give_back(&self, api: Option<ApiServer>) {
        if let Ok(mut state) = self.state.lock() {
            state.busy -= 1;
            state.idle.extend(api);
        }
        self.given_back.notify_one();
    }
}

/// Runs a case; with `status`, the addresses of a gateway are to be written into its Ingresses.
///
/// # Errors
/// As those of [`runner::run`], or the API server takes or refuses other objects than the case says.
pub async fn run(case: &Case, pool: &Pool, status: bool) -> Result<()> {
    let api = pool.take().await?;
    let result = on(case, &api, status).await;
    let mut objects = objects(case);
    objects.push(gateway());
    let cleared = match Objects::connect(&api.kubeconfig()).await {
        Ok(client) => client.clear(&objects).await,
        Err(error) => Err(error),
    };
    pool.give_back(cleared.is_ok().then_some(api));
    result.and(cleared)
}

/// All objects of a case, those of further files too.
fn objects(case: &Case) -> Vec<Object> {
    let is_manifest = |name: &str| MANIFESTS.iter().any(|end| name.ends_with(end));
    let files = case.files.iter().filter(|(name, _)| is_manifest(name));
    std::iter::once(&case.manifests)
        .chain(files.map(|(_, text)| text))
        .flat_map(|text| Object::read(text))
        .collect()
}

async fn on(case: &Case, api: &ApiServer, status: bool) -> Result<()> {
    let client = Objects::connect(&api.kubeconfig()).await?;
    let settings: &[&str] = if status {
        let gateway = gateway();
        client.create_all(std::slice::from_ref(&gateway)).await?;
        client.patch(&gateway, "/status", &with_address()).await?;
        &["--leader-election=false"]
    } else {
        &["--enable-status=false", "--enable-events=false"]
    };
    let mut objects = objects(case);
    let refused = client.create_all(&objects).await?;
    compare_refusals(&case.api_server.refuses, &refused)?;
    objects.retain(|object| !refused.contains_key(&object.to_string()));
    let mut options = Options {
        kubeconfig: Some(api.kubeconfig()),
        ..runner::options(case)
    };
    let settings = settings.iter().map(|arg| (*arg).to_owned());
    options.controller_args.extend(settings);
    runner::check(case, options, async |stack| {
        let mut result = rewritten(stack, &client, &objects).await;
        if status && result.is_ok() {
            result = addressed(&client, &objects).await;
        }
        result
            .err()
            .map(|error| format!("{error:#}"))
            .into_iter()
            .collect()
    })
    .await
}

/// The gateway's Service.
pub(crate) fn gateway() -> Object {
    Object::new(json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "higress-gateway", "namespace": "higress-system", "labels": {"app": "higress-gateway"}},
        "spec": {"type": "LoadBalancer", "ports": [{"name": "http", "port": 80}]},
    }))
}

/// Patch for the status of that Service.
pub(crate) fn with_address() -> Value {
    json!({"status": {"loadBalancer": {"ingress": [{"ip": ADDRESS}]}}})
}

/// Waits until all Ingresses have the gateway's address.
async fn addressed(client: &Objects, objects: &[Object]) -> Result<()> {
    for ingress in objects.iter().filter(|object| object.is_ingress()) {
        let what = format!("{ingress} has the gateway's address");
        wait_until(&what, LIMIT, async || {
            let object = client.get(&ingress.path()).await.ok()?;
            let address = &object["status"]["loadBalancer"]["ingress"][0]["ip"];
            (address == ADDRESS).then_some(())
        })
        .await?;
    }
    Ok(())
}

fn compare_refusals(expected: &BTreeMap<String, String>, refused: &Refusals) -> Result<()> {
    let fits = |object: &String, reason: &String| {
        expected
            .get(object)
            .is_some_and(|part| reason.contains(part))
    };
    let unexpected = refused
        .iter()
        .filter(|(object, reason)| !fits(object, reason))
        .map(|(object, reason)| format!("the API server refuses {object}: {reason}"));
    let taken = expected
        .keys()
        .filter(|object| !refused.contains_key(*object))
        .map(|object| format!("the API server takes {object}, which it should refuse"));
    let wrong: Vec<String> = unexpected.chain(taken).collect();
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// What Envoy gets must be the same whether objects were there from the start, came back from an edit, or were deleted and
/// made again.
async fn rewritten(stack: &Stack, client: &Objects, objects: &[Object]) -> Result<()> {
    let ingresses: Vec<Object> = objects.iter().filter(|o| o.is_ingress()).cloned().collect();
    let first = Dump::of(stack).await?;
    for ingress in &ingresses {
        client.replace(&plainer(ingress)).await?;
    }
    for ingress in &ingresses {
        client.replace(ingress).await?;
    }
    marked(stack, client).await?;
    same("edited and restored", &first, &Dump::of(stack).await?)?;

    for ingress in &ingresses {
        client.delete(ingress).await?;
    }
    marked(stack, client).await?;
    let (before, left) = (first.count("rds"), Dump::of(stack).await?.count("rds"));
    ensure!(
        left < before || before == 0,
        "all Ingresses are deleted, and {left} of {before} route configurations are still there"
    );
    client.create_all(&ingresses).await?;
    marked(stack, client).await?;
    same("deleted and made again", &first, &Dump::of(stack).await?)
}

/// The Ingress without annotations and with its first rule only.
fn plainer(ingress: &Object) -> Object {
    let mut object = ingress.clone();
    if let Some(meta) = object.body["metadata"].as_object_mut() {
        meta.remove("annotations");
    }
    if let Some(rules) = object.body["spec"]["rules"].as_array_mut() {
        rules.truncate(1);
    }
    object
}

/// Waits until all that was written before has arrived: a further Ingress comes after it, and goes again.
async fn marked(stack: &Stack, client: &Objects) -> Result<()> {
    let marker = Object::new(json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": "marker", "namespace": "default"},
        "spec": {"ingressClassName": "higress", "rules": [{"host": MARKER, "http": {"paths": [
            {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "marker", "port": {"number": 80}}}}]}}]},
    }));
    client.create(&marker).await?;
    arrives(stack, true).await?;
    client.delete(&marker).await?;
    arrives(stack, false).await
}

async fn arrives(stack: &Stack, wanted: bool) -> Result<()> {
    let what = format!("the marker is in what Envoy is sent: {wanted}");
    wait_until(&what, LIMIT, async || {
        let dump = Dump::of(stack).await.ok()?;
        (dump.contains(MARKER) == wanted).then_some(())
    })
    .await
}

fn same(after: &str, expected: &Dump, got: &Dump) -> Result<()> {
    let differing = expected.differences(got);
    ensure!(
        differing.is_empty(),
        "{after}, the Ingresses give other resources:\n{}",
        differing.join("\n")
    );
    Ok(())
}
