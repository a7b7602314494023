//! Mistakes in users' objects as Events on those objects.
//!
//! The name of an Event is made of what it says, so that the API server itself refuses to have it twice: after a restart,
//! or by another replica, nothing is repeated while the first one is kept (an hour, in most clusters). After that a
//! mistake that is still there is told again. It is told when it has lasted for a moment: objects that are applied
//! together do not arrive together.

mod budget;
mod open;
mod wording;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::events::v1::Event;
use kube::api::PostParams;
use kube::{Api, Client, Error};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::warn;

use super::facts::Uids;
use super::rests::{Breadth, Rests};
use super::{Inputs, Settings};
use crate::metrics::{Metrics, WriteResult};
use crate::model::{Diagnostic, ObjectKind, Reports};
use budget::{Budget, REFILL};
use open::Open;

/// How long a mistake must last.
const SETTLE: Duration = Duration::from_secs(2);
/// When a mistake that lasts is told again: a little after API servers forget Events.
const REPEAT: Duration = Duration::from_secs(61 * 60);
/// How long the API server may take.
const ANSWER: Duration = Duration::from_secs(30);

struct Teller<'a> {
    client: &'a Client,
    settings: &'a Settings,
    metrics: &'a Metrics,
    reports: Arc<Reports>,
    open: Open,
    /// What is told, and when.
    waiting: BTreeSet<(Instant, Diagnostic)>,
    /// The same by mistake.
    planned: BTreeMap<Diagnostic, Instant>,
    budget: Budget,
    rests: Rests,
}

/// What came of an attempt.
enum Told {
    Done(WriteResult),
    /// Not now; others are not taken either.
    Refused(Breadth, String),
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
        open: Open::default(),
        waiting: BTreeSet::new(),
        planned: BTreeMap::new(),
        budget: Budget::full(Instant::now()),
        rests: Rests::default(),
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
        let at = Instant::now() + SETTLE;
        for diagnostic in new.iter().filter(|d| is_tellable(d)) {
            if self.open.add(diagnostic) {
                self.plan(at, diagnostic.clone());
            }
        }
        for diagnostic in gone.iter().filter(|d| is_tellable(d)) {
            if let Some(held_back) = self.open.remove(diagnostic) {
                self.plan(at, held_back);
            }
        }
    }

    fn plan(&mut self, at: Instant, diagnostic: Diagnostic) {
        if let Some(before) = self.planned.insert(diagnostic.clone(), at) {
            self.waiting.remove(&(before, diagnostic.clone()));
        }
        self.waiting.insert((at, diagnostic));
    }

    /// Tells the one that waits for longest, if it is still there.
    async fn tell_next(&mut self, uids: &Uids) {
        let now = Instant::now();
        let Some((_, diagnostic)) = self.waiting.pop_first() else {
            return;
        };
        self.planned.remove(&diagnostic);
        let (true, Some(object)) = (self.open.has(&diagnostic), diagnostic.object.clone()) else {
            return;
        };
        if let Some(until) = self.rests.until(&object.namespace).filter(|at| *at > now) {
            return self.plan(until, diagnostic);
        }
        let key = (object.namespace.clone(), object.name.clone());
        let Some(uid) = uids.get(&key) else {
            // The object is on its way, or gone, which closes the mistake.
            return self.plan(now + SETTLE, diagnostic);
        };
        if !self.budget.take(now) {
            return self.plan(now + REFILL, diagnostic);
        }
        let event = wording::event(&diagnostic, &object, uid, &self.settings.identity);
        let api = Api::namespaced(self.client.clone(), &object.namespace);
        match tell(&api, &event).await {
            Told::Done(result) => {
                self.metrics.events(result).inc();
                self.rests.accepted(&object.namespace);
                self.plan(now + REPEAT, diagnostic);
            }
            Told::Refused(breadth, reason) => {
                self.metrics.events(WriteResult::Refused).inc();
                if self.rests.refused(&object.namespace, breadth, now) {
                    let namespace = &*object.namespace;
                    warn!(namespace, reason, "Events cannot be written");
                }
                // Others come first after the rest: it may be this one that is not liked.
                let until = self.rests.until(&object.namespace).unwrap_or(now);
                self.plan(until + REFILL, diagnostic);
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
            code => Told::Refused(
                Breadth::of(code, &status.message),
                format!("{} ({code})", status.message),
            ),
        },
        Ok(Err(error)) => Told::Refused(Breadth::All, error.to_string()),
        Err(_) => Told::Refused(Breadth::All, "no answer in time".to_owned()),
    }
}

#[cfg(test)]
mod tests;
