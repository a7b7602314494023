//! One kind in one namespace: listed in pages, then watched from the version of the list, for ever.
//!
//! It says what differs from what it knows, and nothing of an object that has the version it had.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::core::params::{ListParams, WatchParams};
use kube::core::request::Request;
use kube::core::{Status, WatchEvent};
use kube::{Client, Error};
use manifest_dir::KindTable;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use crate::discover;
use crate::health::{Health, RETRY};
use crate::known::{Known, meta};
use crate::metrics::FeedMetrics;
use crate::options::{Selection, is_built_in};
use crate::pending::Pending;
use crate::wire::{List, reason};

/// Objects per page of a list.
const PAGE: u32 = 500;
/// How long the API server may take to answer.
const ANSWER: Duration = Duration::from_secs(60);
/// A watch without any word, bookmarks included, is asked for again after this time; the connection may be dead.
const SILENCE: Duration = Duration::from_secs(100);
/// Seconds after which the API server ends a watch: so many, and up to so many more, lest all feeds begin anew together.
const WATCH_SECONDS: (u32, u32) = (240, 50);
/// How often a kind that is not installed is looked for.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// A kind that is missing for this long has been uninstalled, and its objects with it. Before that it may be an API server
/// that has just started.
const UNINSTALLED_AFTER: Duration = Duration::from_secs(60);

/// Which feed it is.
#[derive(Clone, Debug)]
pub(crate) struct FeedId {
    pub(crate) index: usize,
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) namespace: Option<Arc<str>>,
}

impl fmt::Display for FeedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        match &self.namespace {
            Some(namespace) => write!(f, " in {namespace}"),
            None => Ok(()),
        }
    }
}

/// What a feed says.
#[derive(Debug)]
pub(crate) enum Message<T> {
    /// Something differs. `complete` after a complete list.
    Change { pending: Pending<T>, complete: bool },
    /// The API server does not answer as it should.
    Failing(String),
    /// It does.
    Well,
}

/// A message and its sender.
pub(crate) type Envelope<T> = (FeedId, Message<T>);

/// Why following came to an end.
#[derive(Debug)]
enum Stop {
    /// The request failed.
    Failed(Error),
    /// No answer in time.
    Silent,
    /// The watch was answered and then told nothing for long.
    Quiet,
    /// What was asked for is too old; list again.
    Expired,
    /// The API server does not know the kind.
    NotInstalled,
    /// Nobody listens any more.
    Closed,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        match error {
            Error::Api(status) if status.code == 410 => Self::Expired,
            error => Self::Failed(error),
        }
    }
}

/// One kind in one namespace (or in all).
pub(crate) struct Feed<T> {
    id: FeedId,
    client: Client,
    selection: Selection,
    out: mpsc::Sender<Envelope<T>>,
    known: Known<T>,
    path: Option<String>,
    /// Where the next watch begins; `None` when a list is needed.
    version: Option<String>,
    /// Objects per page; `None` after a list that took longer than its version is kept: the next one is of one piece.
    page: Option<u32>,
    missing_since: Option<Instant>,
    /// Since when there is a watch; lists take their time without anything being well.
    watched_since: Option<Instant>,
    health: Health,
}

impl<T: Send + Sync + 'static> Feed<T> {
    pub(crate) fn new(
        (id, selection): (FeedId, Selection),
        client: Client,
        table: Arc<KindTable<T>>,
        metrics: FeedMetrics,
        out: mpsc::Sender<Envelope<T>>,
    ) -> Self {
        Self {
            known: Known::new(id.api_version, id.kind, selection.managed_fields, table),
            client,
            selection,
            out,
            id,
            path: None,
            version: None,
            page: Some(PAGE),
            missing_since: None,
            watched_since: None,
            health: Health::new(metrics),
        }
    }

    /// Follows until nobody listens.
    pub(crate) async fn run(mut self) {
        let out = self.out.clone();
        loop {
            self.watched_since = None;
            let stop = tokio::select! {
                ended = self.follow() => ended.err(),
                () = out.closed() => return,
            };
            let lived = self.watched_since.map(|since| since.elapsed());
            let lived = lived.unwrap_or_default();
            let wait = match stop {
                Some(Stop::Closed) => return,
                // The server ends watches now and then; one that ends at once is a failure.
                None | Some(Stop::Quiet) if lived > RETRY.1 => continue,
                Some(Stop::NotInstalled) => self.not_installed(lived).await,
                stop => self.failed(stop, lived).await,
            };
            let Ok(wait) = wait else {
                return;
            };
            tokio::select! {
                () = sleep(wait) => {}
                () = out.closed() => return,
            }
        }
    }

    async fn say(&mut self, message: Message<T>) -> Result<(), Stop> {
        let sent = self.out.send((self.id.clone(), message)).await;
        sent.map_err(|_| Stop::Closed)
    }

    /// Notes why following ended after a watch had `lived`; returns how long to wait.
    async fn failed(&mut self, stop: Option<Stop>, lived: Duration) -> Result<Duration, Stop> {
        // An API server that fails does not say that a kind is missing.
        self.missing_since = None;
        let mut asked = None;
        let reason = match stop {
            Some(Stop::Failed(error)) => {
                if let Error::Api(status) = &error {
                    // The path may have changed, or the version is from the future: the store was restored.
                    if status.code == 404 || status.reason == "Timeout" {
                        self.path = None;
                        self.version = None;
                    }
                    asked = retry_after(status);
                }
                reason(&error)
            }
            Some(Stop::Expired) => {
                self.version = None;
                "versions expire before they are read".to_owned()
            }
            None => "watches end at once".to_owned(),
            Some(_) => "no answer in time".to_owned(),
        };
        self.tell(reason).await?;
        Ok(self.health.wait(lived, asked))
    }

    async fn tell(&mut self, reason: String) -> Result<(), Stop> {
        if self.health.failed(&reason) {
            self.say(Message::Failing(reason)).await?;
        }
        Ok(())
    }

    async fn well(&mut self) -> Result<(), Stop> {
        if self.health.well() {
            self.say(Message::Well).await?;
        }
        Ok(())
    }

    /// How long to wait for a kind to be installed.
    async fn not_installed(&mut self, lived: Duration) -> Result<Duration, Stop> {
        self.path = None;
        self.version = None;
        let FeedId {
            api_version, kind, ..
        } = self.id;
        if is_built_in(api_version) {
            let reason = format!("the API server does not know {kind} of {api_version}");
            self.tell(reason).await?;
            return Ok(self.health.wait(lived, None));
        }
        let since = *self.missing_since.get_or_insert_with(Instant::now);
        if self.known.is_empty() {
            self.hand_over(true).await?;
        } else if since.elapsed() >= UNINSTALLED_AFTER {
            self.known.forget_others(&HashSet::new());
            self.hand_over(true).await?;
        }
        Ok(LOOK_AGAIN)
    }

    /// One pass: finds the kind, lists it when needed, watches it until the stream ends.
    async fn follow(&mut self) -> Result<(), Stop> {
        if self.path.is_none() {
            let FeedId {
                api_version, kind, ..
            } = self.id;
            let namespace = self.id.namespace.as_deref();
            let found = discover::path(&self.client, api_version, kind, namespace);
            let found = answer(found).await?;
            self.path = Some(found.ok_or(Stop::NotInstalled)?);
        }
        if self.version.is_none() {
            self.list().await?;
            self.health.metrics.lists.inc();
        }
        self.watch().await
    }

    fn request(&self) -> Request {
        Request::new(self.path.clone().unwrap_or_default())
    }

    async fn list(&mut self) -> Result<(), Stop> {
        let mut parameters = ListParams {
            label_selector: self.selection.labels.clone(),
            field_selector: self.selection.fields.clone(),
            limit: self.page,
            ..ListParams::default()
        };
        let mut listed = HashSet::new();
        loop {
            let request = self.request().list(&parameters).map_err(build)?;
            let page: List = match answer(self.client.request(request)).await {
                Err(Stop::Expired) => {
                    self.page = None;
                    return Err(Stop::Expired);
                }
                page => page?,
            };
            for item in page.items.into_iter().flatten() {
                listed.extend(self.known.take(item));
            }
            parameters.continue_token = page.metadata.next.filter(|token| !token.is_empty());
            if parameters.continue_token.is_none() {
                self.version = Some(page.metadata.resource_version);
                break;
            }
        }
        self.page = Some(PAGE);
        self.missing_since = None;
        self.known.forget_others(&listed);
        self.hand_over(true).await
    }

    async fn watch(&mut self) -> Result<(), Stop> {
        let parameters = WatchParams {
            label_selector: self.selection.labels.clone(),
            field_selector: self.selection.fields.clone(),
            timeout: Some(watch_seconds(self.id.index)),
            ..WatchParams::default()
        };
        let version = self.version.clone().unwrap_or_default();
        let request = self.request().watch(&parameters, &version).map_err(build)?;
        let client = self.client.clone();
        let stream = answer(client.request_events::<Value>(request)).await?;
        let mut stream = std::pin::pin!(stream);
        self.watched_since = Some(Instant::now());
        // A refusal may come as the first event too; all else shows that the server answers.
        let mut heard = self.health.is_well();
        loop {
            let silence = if heard { SILENCE } else { RETRY.0 };
            let event = match timeout(silence, stream.next()).await {
                Err(_) if !heard => {
                    heard = true;
                    self.well().await?;
                    continue;
                }
                Err(_) => return Err(Stop::Quiet),
                Ok(None) => return Ok(()),
                Ok(Some(event)) => event?,
            };
            let is_mark = matches!(event, WatchEvent::Bookmark(_));
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    self.advance(&object);
                    self.known.take(object);
                }
                WatchEvent::Deleted(object) => {
                    self.advance(&object);
                    self.known.remove(&object);
                }
                WatchEvent::Bookmark(bookmark) => {
                    self.version = Some(bookmark.metadata.resource_version);
                }
                WatchEvent::Error(status) => return Err(Error::Api(status).into()),
            }
            self.health.metrics.events.inc_by(u64::from(!is_mark));
            if !heard {
                heard = true;
                self.well().await?;
            }
            if !self.known.pending.is_empty() {
                self.hand_over(false).await?;
            }
        }
    }

    async fn hand_over(&mut self, complete: bool) -> Result<(), Stop> {
        self.health.metrics.set_objects(self.known.len());
        let pending = std::mem::take(&mut self.known.pending);
        self.say(Message::Change { pending, complete }).await
    }

    fn advance(&mut self, object: &Value) {
        if let Some(version) = meta(object, "resourceVersion") {
            self.version = Some(version.to_owned());
        }
    }
}

async fn answer<A>(request: impl Future<Output = Result<A, Error>>) -> Result<A, Stop> {
    match timeout(ANSWER, request).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Stop::Silent),
    }
}

fn build(error: kube::core::request::Error) -> Stop {
    Stop::Failed(Error::BuildRequest(error))
}

/// How long the API server asks to be left alone.
fn retry_after(status: &Status) -> Option<Duration> {
    let seconds = status.details.as_ref()?.retry_after_seconds;
    Some(Duration::from_secs(seconds.into()))
}

fn watch_seconds(feed: usize) -> u32 {
    let spread = u32::try_from(feed % 1000).unwrap_or(0) * 7 % WATCH_SECONDS.1;
    WATCH_SECONDS.0 + spread
}
