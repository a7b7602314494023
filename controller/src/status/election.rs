//! One leader among replicas: whoever holds the Lease (coordination.k8s.io/v1) writes.
//!
//! The protocol is that of Kubernetes' own components. Clocks are not compared between machines: a holder is given up when
//! its record has not changed for the lease's duration by our clock. A leader that cannot renew in two thirds of that time
//! stops to lead before anybody else may begin.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client, Error};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use super::Settings;
use crate::metrics::Metrics;
use crate::translate::names;

/// A candidate.
#[derive(Debug)]
pub struct Election {
    leases: Api<Lease>,
    name: String,
    namespace: String,
    identity: String,
    /// `None` = no election, always the leader.
    duration: Option<Duration>,
    /// The holder's record and when it was first seen like this.
    observed: Option<(LeaseSpec, Instant)>,
    renewed: Option<Instant>,
    leading: watch::Sender<bool>,
    failing: bool,
    metrics: Metrics,
}

/// What a look at the Lease comes to.
#[derive(Debug, PartialEq, Eq)]
enum Turn {
    /// It is ours (again).
    Ours,
    /// Somebody else has it.
    Theirs,
    /// Somebody was faster; look again.
    Lost,
}

impl Election {
    /// Takes part under the names that the settings give.
    pub fn new(client: Client, settings: &Settings, metrics: Metrics) -> Self {
        let namespace = &settings.scope.system_namespace;
        Self {
            leases: Api::namespaced(client, namespace),
            name: names::lease(&settings.scope),
            namespace: namespace.to_string(),
            identity: settings.identity.clone(),
            duration: settings.lease,
            observed: None,
            renewed: None,
            leading: watch::Sender::new(false),
            failing: false,
            metrics,
        }
    }

    /// Whether this process leads.
    pub fn leading(&self) -> watch::Receiver<bool> {
        self.leading.subscribe()
    }

    /// Takes part for ever.
    pub async fn run(&mut self) {
        let Some(duration) = self.duration else {
            self.set(true);
            return std::future::pending().await;
        };
        let (deadline, retry) = (duration * 2 / 3, duration * 2 / 15);
        loop {
            // An answer that comes too late is not waited for: the lease may be another's by then.
            let left = self
                .renewed
                .map(|renewed| deadline.saturating_sub(renewed.elapsed()));
            let turn = timeout(left.unwrap_or(deadline), self.turn(duration)).await;
            match turn {
                Ok(Ok(Turn::Ours)) => {
                    self.failing = false;
                    self.renewed = Some(Instant::now());
                    self.set(true);
                }
                Ok(Ok(Turn::Theirs | Turn::Lost)) => {
                    self.failing = false;
                    self.renewed = None;
                    self.set(false);
                }
                Ok(Err(error)) => self.failed(&error.to_string()),
                Err(_) => self.failed("no answer in time"),
            }
            if self
                .renewed
                .is_some_and(|renewed| renewed.elapsed() + retry > deadline)
            {
                self.renewed = None;
                self.set(false);
            }
            sleep(retry).await;
        }
    }

    /// Gives the lease up, so that another replica need not wait for its end.
    pub async fn release(&mut self) {
        if self.duration.is_none() || !*self.leading.borrow() {
            return;
        }
        self.set(false);
        let released = timeout(Duration::from_secs(1), async {
            let mut lease = self.leases.get(&self.name).await?;
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_deref() == Some(self.identity.as_str()) {
                spec.holder_identity = Some(String::new());
                spec.lease_duration_seconds = Some(1);
                spec.renew_time = Some(MicroTime(Timestamp::now()));
                self.replace(&lease).await?;
            }
            Ok::<(), Error>(())
        });
        if !matches!(released.await, Ok(Ok(()))) {
            info!("the lease could not be given up, it ends by itself");
        }
    }

    fn failed(&mut self, reason: &str) {
        if !std::mem::replace(&mut self.failing, true) {
            warn!(
                lease = format!("{}/{}", self.namespace, self.name),
                reason, "the lease of the leader cannot be used"
            );
        }
    }

    fn set(&mut self, leading: bool) {
        if self.leading.send_replace(leading) != leading {
            self.metrics.leader.set(i64::from(leading));
            info!(identity = self.identity, leading, "leader election");
        }
    }

    async fn turn(&mut self, duration: Duration) -> Result<Turn, Error> {
        let Some(mut lease) = self.leases.get_opt(&self.name).await? else {
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(self.name.clone()),
                    namespace: Some(self.namespace.clone()),
                    ..ObjectMeta::default()
                },
                spec: Some(self.record(None, duration)),
            };
            let created = self.leases.create(&PostParams::default(), &lease).await;
            return turn_of(created.map(drop));
        };
        let spec = lease.spec.take().unwrap_or_default();
        let now = Instant::now();
        if !may_take(&spec, &self.identity, &mut self.observed, now) {
            return Ok(Turn::Theirs);
        }
        lease.spec = Some(self.record(Some(&spec), duration));
        turn_of(self.replace(&lease).await)
    }

    async fn replace(&self, lease: &Lease) -> Result<(), Error> {
        let parameters = PostParams::default();
        let replaced = self.leases.replace(&self.name, &parameters, lease).await;
        replaced.map(drop)
    }

    /// The record of us as the holder, after `before`.
    fn record(&self, before: Option<&LeaseSpec>, duration: Duration) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let mine = |spec: &&LeaseSpec| spec.holder_identity.as_deref() == Some(&self.identity);
        let held = before.filter(mine);
        let transitions = before.and_then(|spec| spec.lease_transitions);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(duration.as_secs().max(1)).ok(),
            acquire_time: held
                .and_then(|spec| spec.acquire_time.clone())
                .or(Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(match (before, held) {
                (Some(_), None) => transitions.unwrap_or(0).saturating_add(1),
                _ => transitions.unwrap_or(0),
            }),
            ..LeaseSpec::default()
        }
    }
}

/// Somebody else's write in between is no failure.
fn turn_of(result: Result<(), Error>) -> Result<Turn, Error> {
    match result {
        Ok(()) => Ok(Turn::Ours),
        Err(Error::Api(status)) if status.code == 409 => Ok(Turn::Lost),
        Err(error) => Err(error),
    }
}

/// Whether `identity` may take or renew the lease at `now`; notes when the record was first seen.
fn may_take(
    spec: &LeaseSpec,
    identity: &str,
    observed: &mut Option<(LeaseSpec, Instant)>,
    now: Instant,
) -> bool {
    let since = match observed {
        Some((known, since)) if known == spec => *since,
        _ => {
            *observed = Some((spec.clone(), now));
            now
        }
    };
    let holder = spec.holder_identity.as_deref().unwrap_or_default();
    let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or(0)).unwrap_or(0);
    holder.is_empty()
        || holder == identity
        || now.duration_since(since) > Duration::from_secs(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(by: &str, renewed: i64) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(by.to_owned()),
            lease_duration_seconds: Some(15),
            renew_time: Some(MicroTime(Timestamp::from_second(renewed).unwrap())),
            ..LeaseSpec::default()
        }
    }

    #[test]
    fn a_silent_holder_is_given_up_after_its_time_and_no_sooner() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut observed = None;
        assert!(!may_take(&held("a", 1), "b", &mut observed, at(0)));
        assert!(!may_take(&held("a", 1), "b", &mut observed, at(15)));
        // It was renewed, whatever its clock says: the time starts anew.
        assert!(!may_take(&held("a", 0), "b", &mut observed, at(16)));
        assert!(!may_take(&held("a", 0), "b", &mut observed, at(31)));
        assert!(may_take(&held("a", 0), "b", &mut observed, at(32)));
        assert!(may_take(&held("a", 5), "a", &mut observed, at(32)));
        assert!(may_take(&held("", 6), "b", &mut observed, at(32)));
    }
}
