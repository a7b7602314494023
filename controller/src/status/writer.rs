//! Writes what differs into the status of Ingresses.
//!
//! Each write names the version of the object that was decided on, so that nobody's newer status is overwritten; when the
//! object has changed meanwhile, its new version is waited for and decided on. A write that is refused is tried again
//! after longer and longer waits, and so is one that somebody else undoes: two controllers that disagree do not keep the
//! API server busy.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use imbl::OrdSet;
use imbl::ordset::DiffItem;
use k8s_openapi::api::networking::v1::Ingress;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Error};
use manifest_dir::{Change, ObjectKey};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, warn};

use super::address::Address;
use super::facts::{Fact, Facts, Key, Present, Uids};
use super::ingress::{Wanted, wanted};
use super::rests::{Breadth, Rests};
use super::{Inputs, Settings};
use crate::metrics::{Metrics, WriteResult};
use crate::model::{ObjectKind, ObjectRef, Scope};

/// Writes at the same time.
const PARALLEL: usize = 8;
/// How long the API server may take.
const ANSWER: Duration = Duration::from_secs(30);
/// Waits between writes of one object that do not last: first and longest.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(600));

/// The name under which fields are written; another class is another writer.
pub(super) fn manager(scope: &Scope) -> String {
    format!("isthmus-controller-{}", scope.ingress_class)
        .chars()
        .take(128)
        .collect()
}

/// One Ingress.
#[derive(Debug)]
struct State {
    present: Present,
    /// The version that a write is on the way for.
    writing: Option<String>,
    /// A version that is not the newest one.
    stale: Option<String>,
    /// Writes since something else was wanted.
    writes: u32,
    last: Instant,
}

impl State {
    /// Takes in what became of a write.
    fn finished(&mut self, result: &Result<Present, Failure>) {
        let version = self.writing.take().unwrap_or_default();
        match result {
            // The watch may be ahead of the answer: then what it told counts.
            Ok(present) if self.present.version == version => self.present = present.clone(),
            Ok(_) | Err(Failure::Gone | Failure::Invalid(_)) => {}
            // Neither was this object's fault; the new version may be decided on at once.
            Err(Failure::Conflict) => {
                self.stale = Some(version);
                self.writes = self.writes.saturating_sub(1);
            }
            Err(Failure::Refused(..)) => self.writes = self.writes.saturating_sub(1),
        }
    }
}

struct Writer {
    client: Client,
    metrics: Metrics,
    manager: String,
    enabled: bool,
    ingresses: HashMap<Key, State>,
    served: OrdSet<ObjectRef>,
    services: HashMap<ObjectKey, BTreeSet<Address>>,
    gateway: Arc<BTreeSet<Address>>,
    /// What to look at, and when.
    due: BTreeSet<(Instant, Key)>,
    queued: HashSet<Key>,
    running: JoinSet<(Key, Result<Present, Failure>)>,
    rests: Rests,
}

/// Why a write did not happen.
#[derive(Debug)]
enum Failure {
    /// The object has changed meanwhile; its new version is on its way.
    Conflict,
    /// It does not exist any more.
    Gone,
    /// This object cannot be written.
    Invalid(String),
    /// Others would not be written either.
    Refused(Breadth, String),
}

/// Follows facts and inputs for ever.
pub(super) async fn run(
    mut facts: Facts,
    uids: watch::Sender<Uids>,
    client: &Client,
    settings: &Settings,
    inputs: &Inputs,
    metrics: &Metrics,
) {
    let mut served = inputs.served.clone();
    // Before the first complete build nothing is known to be ours or not.
    let Ok(first) = served.wait_for(Option::is_some).await.map(|s| s.clone()) else {
        return;
    };
    let Some(services) = facts.services.next().await else {
        return;
    };
    let mut writer = Writer {
        client: client.clone(),
        metrics: metrics.clone(),
        manager: manager(&settings.scope),
        enabled: settings.status,
        ingresses: HashMap::new(),
        served: first.unwrap_or_default(),
        services: HashMap::new(),
        gateway: Arc::default(),
        due: BTreeSet::new(),
        queued: HashSet::new(),
        running: JoinSet::new(),
        rests: Rests::default(),
    };
    writer.take_services(services);
    loop {
        let next = writer.next_start();
        tokio::select! {
            change = facts.ingresses.next() => match change {
                Some(change) => uids.send_modify(|uids| writer.take_ingresses(change, uids)),
                None => return,
            },
            change = facts.services.next() => match change {
                Some(change) => writer.take_services(change),
                None => return,
            },
            changed = served.changed() => {
                if changed.is_err() {
                    return;
                }
                let now = served.borrow_and_update().clone();
                writer.take_served(now.unwrap_or_default());
            }
            Some(done) = writer.running.join_next() => {
                if let Ok((key, result)) = done {
                    writer.finish(key, result);
                }
            }
            () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
        }
        writer.start();
    }
}

impl Writer {
    fn take_ingresses(&mut self, change: Change<Fact>, uids: &mut Uids) {
        for key in change.removed {
            let key = (key.namespace, key.name);
            self.ingresses.remove(&key);
            uids.remove(&key);
        }
        for object in change.upserts {
            let Fact::Ingress(present) = object.value else {
                continue;
            };
            let key = (object.key.namespace, object.key.name);
            uids.insert(key.clone(), present.uid.clone());
            match self.ingresses.get_mut(&key) {
                Some(state) => state.present = present,
                None => {
                    let state = State {
                        present,
                        writing: None,
                        stale: None,
                        writes: 0,
                        last: Instant::now(),
                    };
                    self.ingresses.insert(key.clone(), state);
                }
            }
            self.queue(key);
        }
    }

    fn take_services(&mut self, change: Change<Fact>) {
        for key in change.removed {
            self.services.remove(&key);
        }
        for object in change.upserts {
            if let Fact::Service(addresses) = object.value {
                self.services.insert(object.key, addresses);
            }
        }
        let gateway: BTreeSet<Address> = self.services.values().flatten().cloned().collect();
        if gateway == *self.gateway {
            return;
        }
        self.gateway = Arc::new(gateway);
        for key in self.ingresses.keys().cloned().collect::<Vec<_>>() {
            self.want_anew(key);
        }
    }

    fn take_served(&mut self, served: OrdSet<ObjectRef>) {
        let before = std::mem::replace(&mut self.served, served);
        let changed: Vec<Key> = before
            .diff(&self.served)
            .map(|item| match item {
                DiffItem::Add(object) | DiffItem::Remove(object) => {
                    (object.namespace.clone(), object.name.clone())
                }
            })
            .collect();
        for key in changed {
            self.want_anew(key);
        }
    }

    fn want_anew(&mut self, key: Key) {
        if let Some(state) = self.ingresses.get_mut(&key) {
            state.writes = 0;
        }
        self.queue(key);
    }

    fn wanted(&self, key: &Key, state: &State) -> Wanted {
        let object = ObjectRef {
            kind: ObjectKind::Ingress,
            namespace: key.0.clone(),
            name: key.1.clone(),
        };
        wanted(&state.present, self.served.contains(&object), &self.gateway)
    }

    /// Plans a write when one is wanted.
    fn queue(&mut self, key: Key) {
        let Some(state) = self.ingresses.get(&key) else {
            return;
        };
        if !self.enabled
            || state.writing.is_some()
            || state.stale.as_ref() == Some(&state.present.version)
            || self.wanted(&key, state) == Wanted::Nothing
            || !self.queued.insert(key.clone())
        {
            return;
        }
        let at = state.last + wait_after(state.writes);
        let rest = self.rests.until(&key.0).unwrap_or(at);
        self.due.insert((at.max(rest), key));
    }

    /// When the next write can begin.
    fn next_start(&self) -> Option<Instant> {
        let (at, _) = self.due.first()?;
        (self.running.len() < PARALLEL).then_some(*at)
    }

    /// Begins the writes that are due.
    fn start(&mut self) {
        let now = Instant::now();
        while self.next_start().is_some_and(|at| at <= now) {
            let Some((_, key)) = self.due.pop_first() else {
                return;
            };
            if let Some(rest) = self.rests.until(&key.0).filter(|until| *until > now) {
                self.due.insert((rest, key));
                continue;
            }
            self.queued.remove(&key);
            let Some(state) = self.ingresses.get(&key) else {
                continue;
            };
            let status = match self.wanted(&key, state) {
                Wanted::Nothing => continue,
                Wanted::Write => json!({"loadBalancer": {"ingress": *self.gateway}}),
                Wanted::Clear => json!({"loadBalancer": {"ingress": null}}),
            };
            let patch =
                json!({"metadata": {"resourceVersion": state.present.version}, "status": status});
            if let Some(state) = self.ingresses.get_mut(&key) {
                state.writing = Some(state.present.version.clone());
                state.writes = state.writes.saturating_add(1);
                state.last = now;
            }
            let api = Api::namespaced(self.client.clone(), &key.0);
            let manager = self.manager.clone();
            self.running.spawn(async move {
                let written = write(&api, &key.1, &manager, &patch).await;
                (key, written)
            });
        }
    }

    fn finish(&mut self, key: Key, result: Result<Present, Failure>) {
        if let Some(state) = self.ingresses.get_mut(&key) {
            state.finished(&result);
        }
        let label = match &result {
            Ok(_) => WriteResult::Written,
            Err(Failure::Conflict) => WriteResult::Conflict,
            Err(Failure::Gone) => WriteResult::Gone,
            Err(Failure::Invalid(_) | Failure::Refused(..)) => WriteResult::Refused,
        };
        self.metrics.status_writes(label).inc();
        let name = format!("{}/{}", key.0, key.1);
        match result {
            Ok(_) => {
                self.rests.accepted(&key.0);
                debug!(ingress = name, "status written");
            }
            Err(Failure::Conflict | Failure::Gone) => {}
            Err(Failure::Invalid(reason)) => {
                warn!(ingress = name, reason, "status of the Ingress is refused");
            }
            Err(Failure::Refused(breadth, reason)) => {
                if self.rests.refused(&key.0, breadth, Instant::now()) {
                    let namespace = &*key.0;
                    warn!(
                        namespace,
                        reason, "the status of Ingresses cannot be written"
                    );
                }
            }
        }
        self.queue(key);
    }
}

/// The first write is done at once, the next one a second after it, and so on.
fn wait_after(writes: u32) -> Duration {
    match writes.checked_sub(1) {
        None => Duration::ZERO,
        Some(doublings) => (AGAIN.0 * 2_u32.pow(doublings.min(16))).min(AGAIN.1),
    }
}

async fn write(
    api: &Api<Ingress>,
    name: &str,
    manager: &str,
    patch: &Value,
) -> Result<Present, Failure> {
    let parameters = PatchParams {
        field_manager: Some(manager.to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(patch);
    let answer = timeout(ANSWER, api.patch_status(name, &parameters, &patch)).await;
    match answer {
        Ok(Ok(object)) => Ok(super::facts::present(&object, manager)),
        Ok(Err(Error::Api(status))) => Err(match status.code {
            404 => Failure::Gone,
            409 => Failure::Conflict,
            400 | 422 => Failure::Invalid(status.message.clone()),
            403 if status.message.contains("denied") => Failure::Invalid(status.message.clone()),
            code => Failure::Refused(
                Breadth::of(code, &status.message),
                format!("{} ({code})", status.message),
            ),
        }),
        Ok(Err(error)) => Err(Failure::Refused(Breadth::All, error.to_string())),
        Err(_) => Err(Failure::Refused(
            Breadth::All,
            "no answer in time".to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_that_does_not_last_is_written_less_and_less_often() {
        let waits: Vec<u64> = [0, 1, 2, 3, 10, 99]
            .map(|writes| wait_after(writes).as_secs())
            .to_vec();
        assert_eq!(waits, [0, 1, 2, 4, 512, 600]);
    }

    fn present(version: &str) -> Present {
        Present {
            uid: Arc::from("u"),
            version: version.to_owned(),
            addresses: BTreeSet::new(),
            ours: true,
        }
    }

    fn writing(version: &str) -> State {
        State {
            present: present(version),
            writing: Some(version.to_owned()),
            stale: None,
            writes: 1,
            last: Instant::now(),
        }
    }

    #[test]
    fn an_answer_that_the_watch_has_overtaken_is_not_taken_for_the_present() {
        let mut state = writing("1");
        state.finished(&Ok(present("2")));
        assert_eq!(state.present.version, "2");
        let mut state = writing("1");
        state.present = present("3");
        state.finished(&Ok(present("2")));
        assert_eq!(state.present.version, "3");
    }

    #[test]
    fn after_a_conflict_the_next_version_is_written_at_once() {
        let mut state = writing("1");
        state.finished(&Err(Failure::Conflict));
        assert_eq!((state.stale.as_deref(), state.writes), (Some("1"), 0));
        assert!(state.writing.is_none());
    }

    #[test]
    fn each_class_writes_under_a_name_of_its_own() {
        let scope = |class: &str| Scope {
            ingress_class: class.to_owned(),
            ..Scope::default()
        };
        assert_ne!(manager(&scope("a")), manager(&scope("b")));
        assert_eq!(manager(&scope(&"x".repeat(300))).len(), 128);
    }
}
