//! The one task that owns the world and the snapshots of all classes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{debug, info, warn};

use super::class::{Built, ClassSnapshot, Counts, PushOptions};
use super::diagnostics::{Diagnostics, Found};
use crate::metrics::{KindLabel, Metrics, ReasonLabel, TypeLabel, XdsType};
use crate::model::change::Change;
use crate::model::diagnostic::{Severity, shorten};
use crate::model::proxy::{Proxy, ProxyClass};
use crate::push::context::PushContext;
use crate::push::debounce::{Debounce, Timer};
use crate::push::world::World;
use crate::translate::Issue;

/// A class without proxies is kept this long, so that a reconnect finds it.
const KEEP_CLASS: Duration = Duration::from_secs(60);

/// Batches that may wait; a source that is faster has to wait itself.
const BATCHES: usize = 64;

/// Characters of a message that are logged.
const LOGGED: usize = 500;

/// What the updater is told.
#[derive(Debug)]
pub enum Message {
    /// Objects changed; all of them belong together.
    Changes(Vec<Change>),
    /// Everything sent before this has to be in effect before the answer.
    Barrier(oneshot::Sender<()>),
    /// A proxy wants the snapshots of its class, with or without key material.
    Open(
        Box<Proxy>,
        bool,
        oneshot::Sender<watch::Receiver<Arc<ClassSnapshot>>>,
    ),
}

/// Sends to the updater. Clones share it.
#[derive(Clone, Debug)]
pub struct Handle {
    messages: mpsc::Sender<Message>,
    context: Arc<ArcSwap<PushContext>>,
    diagnostics: Arc<ArcSwap<Diagnostics>>,
}

impl Handle {
    /// Hands over changes; waits while too many are waiting. False when the updater is gone.
    pub async fn changes(&self, changes: Vec<Change>) -> bool {
        changes.is_empty() || self.messages.send(Message::Changes(changes)).await.is_ok()
    }

    /// Waits until everything that was handed over before is in effect.
    pub async fn barrier(&self) {
        let (done, wait) = oneshot::channel();
        if self.messages.send(Message::Barrier(done)).await.is_ok() {
            let _ = wait.await;
        }
    }

    /// The snapshots of the class of a proxy, with or without key material; `None` when the updater is gone.
    pub async fn open(
        &self,
        proxy: Proxy,
        secrets: bool,
    ) -> Option<watch::Receiver<Arc<ClassSnapshot>>> {
        let (reply, wait) = oneshot::channel();
        let message = Message::Open(Box::new(proxy), secrets, reply);
        self.messages.send(message).await.ok()?;
        wait.await.ok()
    }

    /// What is wrong with the objects that are read.
    pub fn diagnostics(&self) -> Arc<Diagnostics> {
        self.diagnostics.load_full()
    }

    /// The context in use.
    pub fn context(&self) -> Arc<PushContext> {
        self.context.load_full()
    }
}

struct Class {
    snapshots: watch::Sender<Arc<ClassSnapshot>>,
    unused_since: Option<Instant>,
}

/// Owner of all facts and generated resources.
pub struct Updater {
    options: PushOptions,
    metrics: Metrics,
    timer: Timer,
    world: World,
    context: Arc<ArcSwap<PushContext>>,
    diagnostics: Diagnostics,
    diagnostics_seen: Arc<ArcSwap<Diagnostics>>,
    classes: BTreeMap<ProxyClass, Class>,
    waiting: Vec<Change>,
    messages: mpsc::Receiver<Message>,
}

impl std::fmt::Debug for Updater {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Updater")
            .field("classes", &self.classes.len())
            .finish_non_exhaustive()
    }
}

impl Updater {
    /// An updater without facts, and the handle to it.
    pub fn new(options: PushOptions, debounce: Debounce, metrics: Metrics) -> (Self, Handle) {
        let (sender, messages) = mpsc::channel(BATCHES);
        let context = Arc::new(ArcSwap::from_pointee(PushContext::default()));
        let diagnostics = Arc::new(ArcSwap::from_pointee(Diagnostics::default()));
        let updater = Self {
            options,
            metrics,
            timer: Timer::new(debounce),
            world: World::default(),
            context: context.clone(),
            diagnostics: Diagnostics::default(),
            diagnostics_seen: diagnostics.clone(),
            classes: BTreeMap::new(),
            waiting: Vec::new(),
            messages,
        };
        (
            updater,
            Handle {
                messages: sender,
                context,
                diagnostics,
            },
        )
    }

    /// Runs until the last handle is gone.
    pub async fn run(mut self) {
        loop {
            let message = match self.timer.due() {
                None => self.messages.recv().await,
                Some(due) => {
                    tokio::select! {
                        biased;
                        message = self.messages.recv() => message,
                        () = tokio::time::sleep_until(due.into()) => {
                            self.push();
                            continue;
                        }
                    }
                }
            };
            match message {
                None => return,
                Some(Message::Changes(changes)) => {
                    if !self.waiting.is_empty() {
                        self.metrics.debounce_merged.inc_by(changes.len() as u64);
                    }
                    self.waiting.extend(changes);
                    self.timer.changed(Instant::now());
                    if self.timer.due().is_some_and(|due| due <= Instant::now())
                        && self.messages.is_empty()
                    {
                        self.push();
                    }
                }
                Some(Message::Barrier(done)) => {
                    self.push();
                    let mut found = Vec::new();
                    self.diagnostics.complete(&self.world, &mut found);
                    self.publish_diagnostics(found);
                    let _ = done.send(());
                }
                Some(Message::Open(proxy, secrets, reply)) => {
                    let class = proxy.class(secrets, self.world.context.metadata_keys());
                    let _ = reply.send(self.open(class));
                }
            }
        }
    }

    fn open(&mut self, class: ProxyClass) -> watch::Receiver<Arc<ClassSnapshot>> {
        if let Some(class) = self.classes.get_mut(&class) {
            class.unused_since = None;
            return class.snapshots.subscribe();
        }
        let start = Instant::now();
        // Everything for thousands of hosts takes a while: the connections go on meanwhile.
        let built = tokio::task::block_in_place(|| {
            ClassSnapshot::build(class.clone(), &self.world, &self.options)
        });
        info!(
            namespace = %class.namespace,
            classes = self.classes.len() + 1,
            elapsed = ?start.elapsed(),
            "generated everything for a new class of proxies"
        );
        let snapshot = Arc::new(self.account(built));
        let (snapshots, receiver) = watch::channel(snapshot);
        self.classes.insert(
            class,
            Class {
                snapshots,
                unused_since: None,
            },
        );
        receiver
    }

    /// Uses the changes that wait.
    fn push(&mut self) {
        let start = Instant::now();
        let changes = std::mem::take(&mut self.waiting);
        if changes.is_empty() {
            return;
        }
        changes.iter().for_each(|change| self.count(change));
        let mut found = Vec::new();
        let secrets = self.diagnostics.note(&changes, &mut found);
        let count = changes.len();
        let (world, changed) = self.world.next(changes);
        if changed.context.is_some() {
            self.metrics.push_contexts.inc();
            self.metrics
                .services
                .set(gauge(world.context.services.len()));
            self.metrics
                .virtual_services
                .set(gauge(world.context.virtual_hosts()));
            self.context.store(world.context.clone());
        }
        // What tells classes apart is another than before: the proxies come back, into the classes that they are of now.
        if !world
            .context
            .metadata_keys()
            .eq(self.world.context.metadata_keys())
        {
            self.classes.clear();
        }
        self.world = world;
        let gateways = changed.context.as_ref().map(|impact| &*impact.gateways);
        let touched = (gateways.unwrap_or_default(), &secrets);
        self.diagnostics.look(&self.world, touched, &mut found);
        self.publish_diagnostics(found);
        if !changed.is_empty() {
            for key in self.classes.keys().cloned().collect::<Vec<_>>() {
                self.refresh(&key, &changed, start);
            }
        }
        let cost = start.elapsed();
        debug!(changes = count, elapsed = ?cost, "pushed");
        self.metrics.push_seconds.observe(cost.as_secs_f64());
        self.timer.pushed(Instant::now(), cost);
    }

    fn refresh(&mut self, key: &ProxyClass, changed: &crate::push::world::Changed, now: Instant) {
        let Some(class) = self.classes.get_mut(key) else {
            return;
        };
        if class.snapshots.receiver_count() == 0 {
            let since = *class.unused_since.get_or_insert(now);
            if now - since > KEEP_CLASS {
                self.classes.remove(key);
                return;
            }
        } else {
            class.unused_since = None;
        }
        let before = class.snapshots.borrow().clone();
        let built = before.next(&self.world, changed, &self.options);
        let snapshot = self.account(built);
        let quiet = snapshot.same_resources(&before);
        let Some(class) = self.classes.get(key) else {
            return;
        };
        class.snapshots.send_if_modified(|current| {
            *current = Arc::new(snapshot);
            // Without a difference no connection has to wake up.
            !quiet
        });
    }

    fn account(&self, built: Built) -> ClassSnapshot {
        let Counts {
            cds,
            eds,
            lds,
            srds,
            rds,
            sds,
            ecds,
        } = built.generated;
        let counts = [
            (XdsType::cds, cds),
            (XdsType::eds, eds),
            (XdsType::lds, lds),
            (XdsType::srds, srds),
            (XdsType::rds, rds),
            (XdsType::sds, sds),
            (XdsType::ecds, ecds),
        ];
        for (r#type, count) in counts {
            self.metrics
                .generated
                .get_or_create(&TypeLabel { r#type })
                .inc_by(count);
        }
        built.issues.iter().for_each(|issue| self.tell(issue));
        built.snapshot
    }

    fn tell(&self, issue: &Issue) {
        let reason = ReasonLabel {
            reason: issue.reason.as_str(),
        };
        self.metrics.issues.get_or_create(&reason).inc();
        let issue = shorten(&issue.to_string(), LOGGED);
        warn!(issue, "part of a config is not served as written");
    }

    /// Publishes all mistakes, and says those that are new.
    fn publish_diagnostics(&self, found: Vec<Found>) {
        self.diagnostics_seen
            .store(Arc::new(self.diagnostics.clone()));
        for (object, diagnostic) in found {
            let reason = diagnostic.reason.as_str();
            let label = ReasonLabel { reason };
            self.metrics.diagnostics.get_or_create(&label).inc();
            let detail = shorten(&diagnostic.message, LOGGED);
            let field = diagnostic.field;
            match diagnostic.reason.severity() {
                Severity::Error => warn!(%object, field, reason, detail, "object is wrong"),
                Severity::Warning => {
                    info!(%object, field, reason, detail, "object is partly ignored");
                }
            }
        }
    }

    fn count(&self, change: &Change) {
        let (family, kind) = match change {
            Change::Config(key, _) => (&self.metrics.config_changes, key.kind.name()),
            Change::Service(..) => (&self.metrics.registry_changes, "Service"),
            Change::Endpoints(..) => (&self.metrics.registry_changes, "EndpointSlice"),
            Change::Secret(..) => (&self.metrics.registry_changes, "Secret"),
            Change::Mistakes(..) => return,
        };
        family.get_or_create(&KindLabel { kind }).inc();
    }
}

fn gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
