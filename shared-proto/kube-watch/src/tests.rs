use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::networking::v1::IngressClass;
use manifest_dir::{Change, KindTable, Reason};
use proptest::prelude::*;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::*;
use fake::Fake;

mod fake;

const LIMIT: Duration = Duration::from_secs(20);
const MAPS: &str = "configmaps";
const MAP: &str = "ConfigMap";

/// ConfigMaps are read as their `v`, together with the number of annotations that were left.
fn table() -> KindTable<String> {
    let read = |object: ConfigMap| {
        let data = object.data.unwrap_or_default();
        assert_eq!(object.metadata.managed_fields, None);
        let annotations = object.metadata.annotations.unwrap_or_default();
        assert_eq!(annotations.len(), 1, "{annotations:?}");
        data.get("v").cloned().unwrap_or_default()
    };
    KindTable::new()
        .with("v1", "ConfigMap", Scope::Namespaced, read)
        .with("example.com/v1", "Widget", Scope::Namespaced, read)
        .with(
            "networking.k8s.io/v1",
            "IngressClass",
            Scope::Cluster,
            |_: IngressClass| "class".to_owned(),
        )
}

fn options(namespaces: &[&str]) -> Options {
    Options::of_namespaces(namespaces.iter().map(|&n| n.to_owned()))
}

/// What was told, and whether it could have been.
struct Reader {
    watch: Watch<String>,
    told: BTreeMap<String, String>,
    problems: BTreeMap<String, (Reason, bool)>,
    metrics: WatchMetrics,
}

impl Reader {
    fn start(client: &Client, namespaces: &[&str]) -> Self {
        let metrics = WatchMetrics::default();
        Self {
            watch: watch(client, table(), &options(namespaces), &metrics),
            told: BTreeMap::new(),
            problems: BTreeMap::new(),
            metrics,
        }
    }

    fn note(&mut self, change: &Change<String>) {
        for object in &change.upserts {
            self.told
                .insert(object.key.to_string(), object.value.clone());
        }
        for key in &change.removed {
            let gone = self.told.remove(&key.to_string());
            assert!(gone.is_some(), "{key} was not there");
        }
        for list in &change.problems {
            let name = list.path.display().to_string();
            match &list.problems[..] {
                [] => _ = self.problems.remove(&name),
                [problem] => {
                    assert!(!problem.to_string().starts_with(':'), "{problem}");
                    self.problems.insert(name, (problem.reason, problem.kept));
                }
                more => panic!("{more:?}"),
            }
        }
    }

    async fn next(&mut self) -> Change<String> {
        let change = timeout(LIMIT, self.watch.next()).await;
        let change = change.expect("a change in time").expect("an open watch");
        self.note(&change);
        change
    }

    /// Waits for a state.
    async fn until(&mut self, wanted: &[(&str, &str)]) {
        let wanted: BTreeMap<String, String> = wanted
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        while self.told != wanted {
            let change = timeout(LIMIT, self.watch.next()).await;
            let Ok(change) = change else {
                panic!("{:?} is not {wanted:?}", self.told);
            };
            self.note(&change.unwrap());
        }
    }

    fn failing(&self, kind: &'static str) -> i64 {
        self.metrics.of_feed(kind).failing.get()
    }

    /// Nothing is told for a while.
    async fn quiet(&mut self, time: Duration) {
        if let Ok(change) = timeout(time, self.watch.next()).await {
            panic!("{change:?}");
        }
    }
}

fn v(value: &str) -> serde_json::Value {
    json!({"v": value})
}

#[tokio::test]
async fn first_the_complete_state_over_all_pages_and_kinds() {
    let fake = Fake::start().await;
    for name in ["a", "b", "c", "d", "e", "f", "g"] {
        fake.put(MAPS, "x", name, v(name));
    }
    fake.put("ingressclasses", "", "main", json!({}));
    let mut reader = Reader::start(&fake.client(), &[]);
    let change = reader.next().await;
    assert_eq!(change.upserts.len(), 8);
    assert!(change.removed.is_empty() && change.problems.is_empty());
    assert_eq!(reader.told["IngressClass main"], "class");
    fake.put(MAPS, "y", "h", v("new"));
    assert_eq!(reader.next().await.upserts.len(), 1);
    fake.delete(MAPS, "x", "a");
    assert_eq!(reader.next().await.removed.len(), 1);
}

#[tokio::test]
async fn only_the_given_namespaces_are_watched() {
    let fake = Fake::start().await;
    for namespace in ["x", "y", "z"] {
        fake.put(MAPS, namespace, "a", v("1"));
    }
    fake.put("ingressclasses", "", "main", json!({}));
    let mut reader = Reader::start(&fake.client(), &["x", "y"]);
    assert_eq!(reader.next().await.upserts.len(), 3);
    fake.put(MAPS, "z", "b", v("1"));
    fake.put(MAPS, "y", "b", v("1"));
    let change = reader.next().await;
    assert_eq!(change.upserts[0].key.to_string(), "ConfigMap y/b");
}

#[tokio::test]
async fn a_bad_object_harms_only_itself_and_keeps_its_last_good_version() {
    let fake = Fake::start().await;
    let bad = json!({"v": ["not", "a", "text"]});
    fake.put(MAPS, "x", "good", v("1"));
    fake.put(MAPS, "x", "never", bad.clone());
    let mut reader = Reader::start(&fake.client(), &[]);
    reader.until(&[("ConfigMap x/good", "1")]).await;
    assert_eq!(
        reader.problems["ConfigMap x/never"],
        (Reason::InvalidObject, false)
    );
    fake.put(MAPS, "x", "good", bad);
    reader.next().await;
    assert_eq!(
        reader.problems["ConfigMap x/good"],
        (Reason::InvalidObject, true)
    );
    assert_eq!(reader.told["ConfigMap x/good"], "1");
    // A new list repeats nothing of that.
    fake.compact();
    fake.cut();
    fake.put(MAPS, "x", "other", v("2"));
    let change = reader.next().await;
    assert_eq!((change.upserts.len(), change.problems.len()), (1, 0));
    fake.put(MAPS, "x", "good", v("3"));
    fake.delete(MAPS, "x", "never");
    reader
        .until(&[("ConfigMap x/good", "3"), ("ConfigMap x/other", "2")])
        .await;
    while !reader.problems.is_empty() {
        reader.next().await;
    }
}

#[tokio::test]
async fn a_lost_connection_loses_and_repeats_nothing() {
    let fake = Fake::start().await;
    fake.put(MAPS, "x", "a", v("1"));
    fake.put(MAPS, "x", "b", v("1"));
    let mut reader = Reader::start(&fake.client(), &[]);
    reader.next().await;
    // A broken stream is taken up where it was: no list, nothing told.
    let lists = fake.with(|store| store.lists);
    fake.cut();
    reader.quiet(Duration::from_millis(700)).await;
    assert_eq!(fake.with(|store| store.lists), lists);
    // Away for a while, and what was missed is too old to be told: a list, of which differences only come.
    fake.refuse(Some(503));
    fake.cut();
    fake.delete(MAPS, "x", "a");
    fake.put(MAPS, "x", "c", v("1"));
    fake.compact();
    while reader.failing(MAP) == 0 {
        reader.quiet(Duration::from_millis(20)).await;
    }
    fake.refuse(None);
    let change = reader.next().await;
    assert_eq!((change.upserts.len(), change.removed.len()), (1, 1));
    assert!(fake.with(|store| store.lists) > lists);
    while reader.failing(MAP) > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_kind_that_is_forbidden_stops_no_other_and_is_taken_up_when_allowed() {
    let fake = Fake::start().await;
    fake.put("ingressclasses", "", "one", json!({}));
    let mut reader = Reader::start(&fake.client(), &[]);
    reader.until(&[("IngressClass one", "class")]).await;
    fake.forbid(Some(MAPS));
    fake.cut();
    while reader.failing(MAP) == 0 {
        reader.quiet(Duration::from_millis(20)).await;
    }
    assert_eq!(reader.failing("IngressClass"), 0);
    fake.put(MAPS, "x", "a", v("1"));
    fake.put("ingressclasses", "", "two", json!({}));
    let all = [("IngressClass one", "class"), ("IngressClass two", "class")];
    reader.until(&all).await;
    fake.forbid(None);
    let more = [&all[..], &[("ConfigMap x/a", "1")]].concat();
    reader.until(&more).await;
    while reader.failing(MAP) > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(reader.metrics.of_feed("IngressClass").objects.get(), 2);
}

#[tokio::test]
async fn a_list_that_outlives_its_version_is_asked_for_in_one_piece() {
    let fake = Fake::start().await;
    for name in ["a", "b", "c", "d", "e", "f", "g"] {
        fake.put(MAPS, "x", name, v(name));
    }
    // Each page is older than the API server's memory when the next one is asked for.
    fake.expire_pages();
    let mut reader = Reader::start(&fake.client(), &[]);
    assert_eq!(reader.next().await.upserts.len(), 7);
}

#[tokio::test]
async fn lists_whose_watches_are_refused_are_not_repeated_without_a_rest() {
    let fake = Fake::start().await;
    let mut reader = Reader::start(&fake.client(), &[]);
    reader.next().await;
    // Every watch is told that its version is too old, though the list is new.
    fake.with(|store| store.refuse_watches = Some(410));
    fake.cut();
    while reader.failing(MAP) == 0 {
        reader.quiet(Duration::from_millis(20)).await;
    }
    let lists = fake.with(|store| store.lists);
    reader.quiet(Duration::from_secs(3)).await;
    let more = fake.with(|store| store.lists) - lists;
    assert!(more <= 12, "{more} lists in three seconds of two kinds");
}

#[tokio::test]
async fn bookmarks_move_the_place_to_go_on_from() {
    let fake = Fake::start().await;
    fake.put(MAPS, "x", "a", v("1"));
    let mut reader = Reader::start(&fake.client(), &[]);
    reader.next().await;
    while fake.with(|store| store.watches) < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let lists = fake.with(|store| store.lists);
    fake.compact();
    fake.bookmark();
    // The mark has to arrive before the stream breaks; the next event shows that it did.
    fake.put(MAPS, "x", "b", v("1"));
    reader.next().await;
    fake.put("ingressclasses", "", "c", json!({}));
    reader.next().await;
    fake.cut();
    fake.put(MAPS, "x", "d", v("1"));
    reader.next().await;
    assert_eq!(fake.with(|store| store.lists), lists);
}

#[tokio::test]
async fn a_kind_that_is_installed_later_is_picked_up() {
    let fake = Fake::start().await;
    let mut reader = Reader::start(&fake.client(), &[]);
    assert!(reader.next().await.is_empty());
    fake.install("example.com/v1");
    fake.put("widgets", "x", "w", v("1"));
    reader.until(&[("Widget x/w", "1")]).await;
    assert_eq!(reader.metrics.of_feed("Widget").errors.get(), 0);
}

#[tokio::test]
async fn a_kind_that_must_be_there_holds_the_first_state_up() {
    let fake = Fake::start().await;
    let table = KindTable::new().with("apps/v1", "Widget", Scope::Namespaced, |_: ConfigMap| ());
    let metrics = WatchMetrics::default();
    let mut watch = watch(&fake.client(), table, &Options::default(), &metrics);
    let early = timeout(Duration::from_millis(900), watch.next()).await;
    assert!(early.is_err());
    assert_eq!(metrics.of_feed("Widget").failing.get(), 1);
    fake.install("apps/v1");
    let first = timeout(LIMIT, watch.next()).await.unwrap().unwrap();
    assert!(first.is_empty());
}

#[tokio::test]
async fn a_server_that_starts_later_is_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let mut reader = Reader::start(&fake::client(port), &[]);
    reader.quiet(Duration::from_millis(600)).await;
    let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    let fake = Fake::on(listener);
    fake.put(MAPS, "x", "a", v("1"));
    reader.until(&[("ConfigMap x/a", "1")]).await;
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u8),
    Bad(u8),
    Delete(u8),
    Cut,
    Compact,
    Bookmark,
    Refuse,
    Recover,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..6_u8, 0..4_u8).prop_map(|(name, value)| Step::Put(name, value)),
        2 => (0..6_u8).prop_map(Step::Bad),
        3 => (0..6_u8).prop_map(Step::Delete),
        2 => Just(Step::Cut),
        2 => Just(Step::Compact),
        1 => Just(Step::Bookmark),
        1 => Just(Step::Refuse),
        2 => Just(Step::Recover),
    ]
}

async fn act(fake: &Fake, step: &Step) {
    match step {
        Step::Put(name, value) => fake.put(MAPS, "x", &format!("n{name}"), v(&format!("v{value}"))),
        Step::Bad(name) => fake.put(MAPS, "x", &format!("n{name}"), json!({"v": []})),
        Step::Delete(name) => fake.delete(MAPS, "x", &format!("n{name}")),
        Step::Cut => fake.cut(),
        Step::Compact => fake.compact(),
        Step::Bookmark => fake.bookmark(),
        Step::Refuse => fake.refuse(Some(500)),
        Step::Recover => fake.refuse(None),
    }
    tokio::task::yield_now().await;
}

/// What may be told of each object in the end. Of one whose newest version is bad that is any good one that it ever had,
/// or nothing: it depends on what was seen in time.
fn model(steps: &[Step]) -> BTreeMap<String, BTreeSet<Option<String>>> {
    let mut had: BTreeMap<u8, BTreeSet<Option<String>>> = BTreeMap::new();
    let mut now = BTreeMap::new();
    for step in steps {
        match step {
            Step::Put(name, value) => {
                let value = Some(format!("v{value}"));
                had.entry(*name).or_default().insert(value.clone());
                now.insert(format!("ConfigMap x/n{name}"), BTreeSet::from([value]));
            }
            Step::Bad(name) => {
                let values = had.entry(*name).or_default();
                values.insert(None);
                now.insert(format!("ConfigMap x/n{name}"), values.clone());
            }
            Step::Delete(name) => _ = now.remove(&format!("ConfigMap x/n{name}")),
            _ => {}
        }
    }
    now
}

fn fits(
    told: &BTreeMap<String, String>,
    allowed: &BTreeMap<String, BTreeSet<Option<String>>>,
) -> bool {
    told.keys().all(|key| allowed.contains_key(key))
        && allowed
            .iter()
            .all(|(key, values)| values.contains(&told.get(key).cloned()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever happens on the way, what was told in the end is the server's state; and nothing is told to be gone that
    /// was not there (the reader checks it).
    #[test]
    fn what_was_told_is_the_servers_state(
        steps in prop::collection::vec(step(), 0..30),
        start in 0..8_usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let fake = Fake::start().await;
            let (before, after) = steps.split_at(start.min(steps.len()));
            for step in before {
                act(&fake, step).await;
            }
            fake.refuse(None);
            let mut reader = Reader::start(&fake.client(), &[]);
            reader.next().await;
            for step in after {
                act(&fake, step).await;
            }
            fake.refuse(None);
            let allowed = model(&steps);
            while !fits(&reader.told, &allowed) {
                let change = timeout(LIMIT, reader.watch.next()).await;
                let Ok(Some(change)) = change else {
                    panic!("{:?} is not {allowed:?} after {steps:?}", reader.told);
                };
                reader.note(&change);
            }
        });
    }
}
