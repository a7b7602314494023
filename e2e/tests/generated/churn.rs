//! Generated Ingresses that are created, edited and deleted in an API server in any order, while both tiers follow. What they
//! serve at the end must be what they serve from a folder that holds the same objects.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use e2e::api_server::ApiServer;
use e2e::bench::client::{Client, Expected, bootstrap, node};
use e2e::dump::{Dump, page};
use e2e::objects::{Object, Objects};
use e2e::process::wait_until;
use e2e::scenario;
use e2e::stack::{Options, Port, Stack};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::ingress::{self, NAMESPACES, SECRETS, SERVICES};

/// Writes of Ingresses.
const WRITES: usize = 1_000;
/// Names in each namespace: few enough that many writes meet an object.
const NAMES: u32 = 250;
/// Every how many writes a certificate, a Service or an endpoint changes too.
const OTHERS: usize = 20;
/// Every which one is written as it is, though it may be one that an API server refuses.
const AS_IT_IS: u8 = 10;
/// How long both may take to agree.
const LIMIT: Duration = Duration::from_secs(60);
/// What is listed at the end.
const KINDS: [(&str, &str, &str); 4] = [
    ("v1", "Service", "/api/v1/services"),
    ("v1", "Secret", "/api/v1/secrets"),
    (
        "discovery.k8s.io/v1",
        "EndpointSlice",
        "/apis/discovery.k8s.io/v1/endpointslices",
    ),
    (
        "networking.k8s.io/v1",
        "Ingress",
        "/apis/networking.k8s.io/v1/ingresses",
    ),
];

/// One write: an Ingress, its name, whether it goes if it is there, and a number for everything else.
type Write = (Value, u32, bool, u8);

fn writes() -> Result<Vec<Write>> {
    let seed = *b"a thousand writes, in this order";
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let write = (
        ingress::ingress(),
        0..NAMES,
        proptest::bool::weighted(0.4),
        1..250_u8,
    );
    let one = |_| {
        let tree = write.new_tree(&mut runner);
        tree.map(|tree| tree.current())
            .map_err(|reason| anyhow!("{reason}"))
    };
    (0..WRITES).map(one).collect()
}

pub(crate) async fn churn() -> Result<()> {
    let api = ApiServer::start().await?;
    let objects = Objects::connect(&api.kubeconfig()).await?;
    let others = (0..NAMESPACES.len() * 4).map(|index| other(index, 1));
    let mut first = others.collect::<Result<Vec<_>>>()?;
    first.extend(ingress::services().map(Object::new));
    objects.create_all(&first).await?;

    let options = Options {
        kubeconfig: Some(api.kubeconfig()),
        controller_args: ["--enable-status=false", "--enable-events=false"]
            .map(str::to_owned)
            .to_vec(),
        ..Options::default()
    };
    let (followed, _client) = follow(options).await?;
    write_all(&objects).await?;

    let options = Options {
        files: BTreeMap::from([("left.json".to_owned(), what_is_left(&objects).await?)]),
        ..Options::default()
    };
    let (read, _client) = follow(options).await?;
    let mut differing = Vec::new();
    let agreed = wait_until("both serve the same", LIMIT, async || {
        let (expected, got) = (Dump::of(&read).await.ok()?, Dump::of(&followed).await.ok()?);
        differing = expected.differences(&got);
        (differing.is_empty() && got.count("rds") > 1).then_some(())
    });
    let agreed = agreed.await;
    let (expected, got) = (diagnostics(&read).await?, diagnostics(&followed).await?);
    let mistakes: Vec<_> = expected.symmetric_difference(&got).collect();
    agreed.with_context(|| {
        let resources = differing.join("\n");
        format!("from a folder, and followed:\n{resources}\nreported by one: {mistakes:#?}")
    })?;
    ensure!(
        mistakes.is_empty() && !got.is_empty(),
        "other mistakes are reported: {mistakes:#?}"
    );
    Ok(())
}

/// Both tiers with a proxy.
async fn follow(options: Options) -> Result<(Stack, Client)> {
    let mut stack = Stack::new(options)?;
    stack.start_control_plane().await?;
    let node = node(&bootstrap().await?, 0)?;
    let (sender, mut events) = mpsc::channel(64);
    tokio::spawn(async move { while events.recv().await.is_some() {} });
    let address = stack.address(Port::Grpc);
    let client = Client::start(0, address, node, Expected::default(), sender);
    Ok((stack, client))
}

/// Makes all writes, one after the other.
async fn write_all(objects: &Objects) -> Result<()> {
    let mut known: BTreeMap<String, Object> = BTreeMap::new();
    let mut done = [0; 4];
    for (turn, (mut body, name, goes, number)) in writes()?.into_iter().enumerate() {
        body["metadata"]["name"] = json!(format!("i{name}"));
        if !number.is_multiple_of(AS_IT_IS) {
            mend(&mut body["spec"]);
        }
        let object = Object::new(body);
        let (key, there) = (object.to_string(), known.contains_key(&object.to_string()));
        let (what, answer) = match (there, goes) {
            (true, true) => (0, objects.delete(&object).await),
            (true, false) => (1, objects.replace(&object).await),
            (false, _) => (2, objects.create(&object).await),
        };
        match answer {
            Ok(_) if what == 0 => drop(known.remove(&key)),
            Ok(_) => drop(known.insert(key, object)),
            Err(kube::Error::Api(status)) if status.code == 422 => done[3] += 1,
            Err(error) => return Err(error).with_context(|| key),
        }
        done[what] += 1;
        if turn.is_multiple_of(OTHERS) {
            objects.replace(&other(turn / OTHERS, number)?).await?;
        }
    }
    let [deleted, replaced, created, refused] = done;
    eprintln!(
        "{created} created, {replaced} edited, {deleted} deleted; {refused} of these refused by the API server; {} left",
        known.len()
    );
    ensure!(
        deleted > 100 && replaced > 100 && known.len() > 100,
        "too little comes and goes"
    );
    Ok(())
}

/// Takes out of an Ingress for what an API server would refuse all of it.
fn mend(spec: &mut Value) {
    let retain = |list: &mut Value, good: &dyn Fn(&mut Value) -> bool| {
        if let Some(list) = list.as_array_mut() {
            list.retain_mut(good);
        }
    };
    retain(&mut spec["rules"], &|rule| {
        retain(&mut rule["http"]["paths"], &|path| {
            let text = path["path"].as_str().unwrap_or_default();
            let known = path["pathType"] != "Odd" && text.starts_with('/');
            known && !text.contains("//") && good_backend(&path["backend"])
        });
        good_host(&rule["host"]) && rule["http"]["paths"] != json!([])
    });
    retain(&mut spec["tls"], &|tls| {
        retain(&mut tls["hosts"], &|host| good_host(host));
        true
    });
    let nothing = spec["rules"] == json!([]) && spec["defaultBackend"].is_null();
    if nothing || !spec["defaultBackend"].is_null() && !good_backend(&spec["defaultBackend"]) {
        spec["defaultBackend"] = json!({"service": {"name": "s", "port": {"number": 80}}});
    }
}

fn good_host(host: &Value) -> bool {
    let host = host.as_str().unwrap_or_default();
    let name = host.strip_prefix("*.").unwrap_or(host);
    let known = |c: char| c.is_ascii_lowercase() || c == '.' || c == '-';
    !name.is_empty() && name.chars().all(known)
}

fn good_backend(backend: &Value) -> bool {
    let (name, port) = (&backend["service"]["name"], &backend["service"]["port"]);
    let number = port["number"].as_u64();
    let good_port =
        number.is_some_and(|number| number > 0 && number < 65_536) || port["name"].is_string();
    !backend["resource"].is_null() || SERVICES.contains(&name.as_str().unwrap_or("")) && good_port
}

/// One of the endpoints and certificates; `number` tells its versions apart.
fn other(index: usize, number: u8) -> Result<Object> {
    let (namespace, index) = (NAMESPACES[index % 2], index / 2);
    let object = match index % 4 {
        service @ (0 | 1) => {
            let (name, other) = (SERVICES[service], u16::from(number) + 1);
            json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
                "metadata": {"namespace": namespace, "name": format!("{name}-1"), "labels": {"kubernetes.io/service-name": name}},
                "ports": [{"name": "web", "port": 8080}],
                "endpoints": [{"addresses": [format!("10.1.0.{number}")]}, {"addresses": [format!("10.2.{other}.1")]}],
            })
        }
        secret => {
            let name = format!("{number}.test");
            let text = scenario::tls_secret(SECRETS[secret - 2], "a.test", &name)?;
            let text = text.replace("namespace: default", &format!("namespace: {namespace}"));
            let object = Object::read(&text).pop().context("one Secret")?;
            object.body
        }
    };
    Ok(Object::new(object))
}

/// The objects that the API server has, as a JSON manifest: YAML has no place for all characters of the annotations.
async fn what_is_left(objects: &Objects) -> Result<String> {
    let mut left = Vec::new();
    for (version, kind, path) in KINDS {
        let list = objects.get(path).await?;
        let items = list["items"].as_array().context("a list")?;
        left.extend(items.iter().cloned().map(|mut object| {
            object["apiVersion"] = json!(version);
            object["kind"] = json!(kind);
            object
        }));
    }
    Ok(json!({"apiVersion": "v1", "kind": "List", "items": left}).to_string())
}

/// Mistakes that the controller reports, without the places of files.
async fn diagnostics(stack: &Stack) -> Result<BTreeSet<String>> {
    let page = page(stack, Port::ControllerHttp, "/debug/diagnostics").await?;
    let all = page.as_array().context("a list")?.iter();
    let neutral = |diagnostic: &Value| {
        let mut diagnostic = diagnostic.clone();
        (diagnostic["file"], diagnostic["line"]) = (Value::Null, Value::Null);
        diagnostic.to_string()
    };
    Ok(all.map(neutral).collect())
}
