//! The way back to the user: the addresses of the gateway in the status of Ingresses, and mistakes as Events.
//!
//! In: which Ingresses are served and what is wrong with them, from the pipeline; their present status and the gateway's
//! Services, from watches of its own. Out: writes to the API server, by one replica at a time ([`election`]). Nothing
//! here is waited for by what is served. What is right already is never written, so that a restart writes nothing.

mod address;
pub mod election;
mod events;
mod facts;
mod ingress;
mod rests;
mod writer;

pub use address::Address;
pub use election::Election;

use std::sync::Arc;
use std::time::Duration;

use imbl::OrdSet;
use kube::Client;
use tokio::sync::watch;

use crate::metrics::Metrics;
use crate::model::{ObjectRef, Reports, Scope};

/// Reporter of Events.
pub const REPORTER: &str = "isthmus.io/controller";

/// What is written, and where from.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Namespaces and class.
    pub scope: Arc<Scope>,
    /// Label selector of the gateway's Services in the system namespace.
    pub services: String,
    /// Write the status of Ingresses.
    pub status: bool,
    /// Write Events.
    pub events: bool,
    /// Name of this process in leases and Events.
    pub identity: String,
    /// How long a leader that is silent stays the leader; `None` = this is the only replica.
    pub lease: Option<Duration>,
}

/// What the pipeline knows; both change together with what is served.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// The Ingresses that are served; `None` before the first complete build.
    pub served: watch::Receiver<Option<OrdSet<ObjectRef>>>,
    /// What is wrong with users' objects.
    pub reports: watch::Receiver<Arc<Reports>>,
}

/// Writes as long as this process is the leader, until `stop` is closed.
pub async fn run(
    client: Client,
    settings: Settings,
    inputs: Inputs,
    metrics: Metrics,
    mut stop: watch::Receiver<()>,
) {
    let mut election = Election::new(client.clone(), &settings, metrics.clone());
    let leading = election.leading();
    let write = while_leading(leading, client, settings, inputs, metrics);
    tokio::select! {
        () = election.run() => {}
        () = write => {}
        () = closed(&mut stop) => {}
    }
    election.release().await;
}

async fn closed(stop: &mut watch::Receiver<()>) {
    while stop.changed().await.is_ok() {}
}

async fn while_leading(
    mut leading: watch::Receiver<bool>,
    client: Client,
    settings: Settings,
    inputs: Inputs,
    metrics: Metrics,
) {
    while leading.wait_for(|leading| *leading).await.is_ok() {
        let work = lead(&client, &settings, &inputs, &metrics);
        let mut leading = leading.clone();
        tokio::select! {
            () = work => return,
            // What is on its way is dropped: the next leader decides by what it finds.
            _ = leading.wait_for(|leading| !*leading) => {}
        }
    }
}

async fn lead(client: &Client, settings: &Settings, inputs: &Inputs, metrics: &Metrics) {
    // Its watches are those of a leader only, and not among those that readiness depends on.
    let watches = metrics.watches.with_purpose("status");
    let facts = facts::watch(client, settings, &watches);
    let (uids, uids_seen) = watch::channel(facts::Uids::default());
    let status = writer::run(facts, uids, client, settings, inputs, metrics);
    let events = events::run(uids_seen, client, settings, inputs, metrics);
    tokio::join!(status, events);
}
