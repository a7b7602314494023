//! Mistakes in users' objects as Events on those objects.
//!
//! The name of an Event is made of what it says, so that the API server itself refuses to have it twice: after a restart,
//! or by another replica, nothing is repeated while the first one is kept (an hour, in most clusters). A mistake is told
//! when it has lasted for a moment: objects that are applied together do not arrive together.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client, Error};
use kube_watch::Backoff;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::warn;
use xxhash_rust::xxh3::Xxh3;

use super::facts::Uids;
use super::{Inputs, REPORTER, Settings};
use crate::metrics::{Metrics, WriteResult};
use crate::model::{Diagnostic, ObjectKind, ObjectRef, Reports};

/// How long a mistake must last.
const SETTLE: Duration = Duration::from_secs(2);
/// Events of one object at a time; an Ingress with a thousand wrong paths needs no more to be looked at.
const PER_OBJECT: usize = 10;
/// Events that may come at once, and the time in which one more is allowed.
const BURST: u32 = 50;
const REFILL: Duration = Duration::from_millis(200);
/// How long the API server may take.
const ANSWER: Duration = Duration::from_secs(30);
/// Waits after the API server refused one: first and longest.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
/// Longest text that the API allows.
const LONGEST_NOTE: usize = 1024;

/// Events that may still be written.
struct Budget {
    left: u32,
    since: Instant,
}

impl Budget {
    fn take(&mut self, now: Instant) -> bool {
        let periods = now.duration_since(self.since).as_nanos() / REFILL.as_nanos();
        let periods = u32::try_from(periods).unwrap_or(u32::MAX);
        self.since += REFILL * periods.min(BURST);
        if periods >= BURST {
            self.since = now;
        }
        self.left = self.left.saturating_add(periods).min(BURST);
        let allowed = self.left > 0;
        self.left = self.left.saturating_sub(1);
        allowed
    }
}

struct Teller<'a> {
    client: &'a Client,
    settings: &'a Settings,
    metrics: &'a Metrics,
    reports: Arc<Reports>,
    /// Mistakes that are there now, and how many finders report them.
    open: BTreeMap<Diagnostic, usize>,
    per_object: HashMap<ObjectRef, usize>,
    /// Told when its time has come.
    waiting: BTreeSet<(Instant, Diagnostic)>,
    budget: Budget,
    pause: Backoff,
    refusing: bool,
}

/// What came of an attempt.
enum Told {
    Done(WriteResult),
    /// Not now; the API server takes none.
    Refused(String),
}

/// Follows the reports for ever.
pub(super) async fn run(
    mut uids: watch::Receiver<Uids>,
    client: &Client,
    settings: &Settings,
    inputs: &Inputs,
    metrics: &Metrics,
) {
    if !settings.events {
        return std::future::pending().await;
    }
    let mut reports = inputs.reports.clone();
    let mut teller = Teller {
        client,
        settings,
        metrics,
        reports: Arc::default(),
        open: BTreeMap::new(),
        per_object: HashMap::new(),
        waiting: BTreeSet::new(),
        budget: Budget {
            left: BURST,
            since: Instant::now(),
        },
        pause: Backoff::new(PAUSE.0, PAUSE.1),
        refusing: false,
    };
    teller.take(reports.borrow_and_update().clone());
    loop {
        let next = teller.waiting.first().map(|(at, _)| *at);
        tokio::select! {
            changed = reports.changed() => {
                if changed.is_err() {
                    return;
                }
                teller.take(reports.borrow_and_update().clone());
            }
            () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {
                let uids = uids.borrow_and_update().clone();
                teller.tell_next(&uids).await;
            }
        }
    }
}

impl Teller<'_> {
    /// Takes in a new state of all reports; only what differs is looked at.
    fn take(&mut self, reports: Arc<Reports>) {
        let before = std::mem::replace(&mut self.reports, reports);
        let (mut gone, mut new) = (Vec::new(), Vec::new());
        self.reports.differences(&before, &mut gone, &mut new);
        for diagnostic in new.iter().filter(|d| is_tellable(d)) {
            self.open(diagnostic);
        }
        for diagnostic in gone.iter().filter(|d| is_tellable(d)) {
            self.close(diagnostic);
        }
    }

    fn open(&mut self, diagnostic: &Diagnostic) {
        let finders = self.open.entry(diagnostic.clone()).or_default();
        *finders += 1;
        if *finders > 1 {
            return;
        }
        let Some(object) = &diagnostic.object else {
            return;
        };
        let others = self.per_object.entry(object.clone()).or_default();
        *others += 1;
        if *others <= PER_OBJECT {
            let at = Instant::now() + SETTLE;
            self.waiting.insert((at, diagnostic.clone()));
        }
    }

    fn close(&mut self, diagnostic: &Diagnostic) {
        let Some(finders) = self.open.get_mut(diagnostic) else {
            return;
        };
        *finders -= 1;
        if *finders > 0 {
            return;
        }
        self.open.remove(diagnostic);
        if let Some(object) = &diagnostic.object
            && let Some(others) = self.per_object.get_mut(object)
        {
            *others -= 1;
            if *others == 0 {
                self.per_object.remove(object);
            }
        }
    }

    /// Tells the one that waits for longest, if it is still there.
    async fn tell_next(&mut self, uids: &Uids) {
        let now = Instant::now();
        let Some((_, diagnostic)) = self.waiting.pop_first() else {
            return;
        };
        let (true, Some(object)) = (self.open.contains_key(&diagnostic), &diagnostic.object) else {
            return;
        };
        let key = (object.namespace.clone(), object.name.clone());
        let Some(uid) = uids.get(&key).cloned() else {
            // The object is on its way, or gone, which closes the mistake.
            self.waiting.insert((now + SETTLE, diagnostic));
            return;
        };
        if !self.budget.take(now) {
            self.waiting.insert((now + REFILL, diagnostic));
            return;
        }
        let event = event(&diagnostic, object, &uid, &self.settings.identity);
        let api = Api::namespaced(self.client.clone(), &object.namespace);
        match tell(&api, &event).await {
            Told::Done(result) => {
                self.metrics.events(result).inc();
                self.pause.reset();
                self.refusing = false;
            }
            Told::Refused(reason) => {
                self.metrics.events(WriteResult::Refused).inc();
                if !std::mem::replace(&mut self.refusing, true) {
                    warn!(reason, "Events cannot be written");
                }
                // All wait: the next one would be refused too.
                let until = now + self.pause.wait();
                let waiting = std::mem::take(&mut self.waiting).into_iter();
                self.waiting = waiting.map(|(at, d)| (at.max(until), d)).collect();
                self.waiting.insert((until, diagnostic));
            }
        }
    }
}

/// Events belong to an object that is in the API server.
fn is_tellable(diagnostic: &Diagnostic) -> bool {
    let object = diagnostic.object.as_ref();
    object.is_some_and(|object| object.kind == ObjectKind::Ingress)
}

async fn tell(api: &Api<Event>, event: &Event) -> Told {
    let parameters = PostParams::default();
    match timeout(ANSWER, api.create(&parameters, event)).await {
        Ok(Ok(_)) => Told::Done(WriteResult::Written),
        Ok(Err(Error::Api(status))) => match status.code {
            // It was told already.
            409 => Told::Done(WriteResult::Conflict),
            404 => Told::Done(WriteResult::Gone),
            // Its namespace is being deleted.
            403 if status.message.contains("terminat") => Told::Done(WriteResult::Gone),
            400 | 422 => Told::Done(WriteResult::Refused),
            _ => Told::Refused(format!("{} ({})", status.message, status.code)),
        },
        Ok(Err(error)) => Told::Refused(error.to_string()),
        Err(_) => Told::Refused("no answer in time".to_owned()),
    }
}

fn event(diagnostic: &Diagnostic, object: &ObjectRef, uid: &str, identity: &str) -> Event {
    let reason = diagnostic.reason.as_str();
    let note = match diagnostic.field.as_str() {
        "" => diagnostic.message.clone(),
        field => format!("{field}: {}", diagnostic.message),
    };
    Event {
        metadata: ObjectMeta {
            name: Some(name_of(object, &[uid, reason, &note])),
            namespace: Some(object.namespace.to_string()),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(Timestamp::now())),
        action: Some("Translate".to_owned()),
        reason: Some(reason.to_owned()),
        note: Some(shortened(note)),
        regarding: Some(ObjectReference {
            api_version: Some("networking.k8s.io/v1".to_owned()),
            kind: Some(object.kind.as_str().to_owned()),
            name: Some(object.name.to_string()),
            namespace: Some(object.namespace.to_string()),
            uid: Some(uid.to_owned()),
            ..ObjectReference::default()
        }),
        reporting_controller: Some(REPORTER.to_owned()),
        reporting_instance: Some(identity.chars().take(128).collect()),
        type_: Some("Warning".to_owned()),
        ..Event::default()
    }
}

/// The object's name and a hash of what is said, within the limit of names.
fn name_of(object: &ObjectRef, parts: &[&str]) -> String {
    let mut hash = Xxh3::new();
    for part in parts {
        hash.update(part.as_bytes());
        hash.update(&[0]);
    }
    let name: String = object.name.chars().take(230).collect();
    let name = name.trim_end_matches(['.', '-']);
    format!("{name}.{:016x}", hash.digest())
}

fn shortened(mut note: String) -> String {
    if note.len() > LONGEST_NOTE {
        let end = (0..=LONGEST_NOTE - 3)
            .rev()
            .find(|at| note.is_char_boundary(*at));
        note.truncate(end.unwrap_or(0));
        note.push_str("...");
    }
    note
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Reason;

    fn diagnostic(message: &str) -> Diagnostic {
        Diagnostic {
            object: Some(ObjectRef {
                kind: ObjectKind::Ingress,
                namespace: Arc::from("shop"),
                name: Arc::from("web"),
            }),
            place: None,
            field: "spec.rules[0].host".to_owned(),
            reason: Reason::InvalidHost,
            message: message.to_owned(),
        }
    }

    fn made(message: &str, uid: &str) -> Event {
        let diagnostic = diagnostic(message);
        let object = diagnostic.object.clone().unwrap();
        event(&diagnostic, &object, uid, "me")
    }

    #[test]
    fn the_name_says_what_the_event_says() {
        let name = |message, uid| made(message, uid).metadata.name;
        assert_eq!(name("a", "1"), name("a", "1"));
        assert_ne!(name("a", "1"), name("b", "1"));
        assert_ne!(name("a", "1"), name("a", "2"));
        assert_eq!(made("a", "1").note.unwrap(), "spec.rules[0].host: a");
    }

    #[test]
    fn a_long_note_is_cut_at_a_letter() {
        let note = made(&"é".repeat(2000), "1").note.unwrap();
        assert!(note.len() <= LONGEST_NOTE && note.ends_with("..."));
    }

    #[tokio::test(start_paused = true)]
    async fn the_budget_allows_a_burst_and_then_so_many_in_a_time() {
        let mut budget = Budget {
            left: BURST,
            since: Instant::now(),
        };
        let burst = (0..1000).filter(|_| budget.take(Instant::now())).count();
        assert_eq!(burst, BURST as usize);
        tokio::time::advance(REFILL * 3).await;
        let more = (0..1000).filter(|_| budget.take(Instant::now())).count();
        assert_eq!(more, 3);
        tokio::time::advance(REFILL * 1000).await;
        let full = (0..1000).filter(|_| budget.take(Instant::now())).count();
        assert_eq!(full, BURST as usize);
    }
}
