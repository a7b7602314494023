//! One kind in one namespace: listed in pages, then watched from the version of the list, for ever.
//!
//! It says what differs from what it knows, and nothing of an object that has the version it had.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::core::WatchEvent;
use kube::core::params::{ListParams, WatchParams};
use kube::core::request::Request;
use kube::{Client, Error};
use manifest_dir::KindTable;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use crate::backoff::Backoff;
use crate::discover;
use crate::known::{Known, meta};
use crate::metrics::WatchMetrics;
use crate::options::{Selection, is_built_in};
use crate::pending::Pending;
use crate::wire::{List, reason};

/// Objects per page of a list.
const PAGE: u32 = 500;
/// How long the API server may take to answer.
const ANSWER: Duration = Duration::from_secs(60);
/// A watch without any word, bookmarks included, is asked for again after this time; the connection may be dead.
const SILENCE: Duration = Duration::from_secs(100);
/// Seconds after which the API server ends a watch.
const WATCH_SECONDS: u32 = 290;
/// Waits after failures: first and longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
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
    missing_since: Option<Instant>,
    failures: u32,
    backoff: Backoff,
}

impl<T: Send + Sync + 'static> Feed<T> {
    pub(crate) fn new(
        id: FeedId,
        client: Client,
        table: Arc<KindTable<T>>,
        selection: Selection,
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
            missing_since: None,
            failures: 0,
            backoff: Backoff::new(RETRY.0, RETRY.1),
        }
    }

    /// Follows until nobody listens.
    pub(crate) async fn run(mut self, metrics: WatchMetrics) {
        let out = self.out.clone();
        loop {
            let began = Instant::now();
            let stop = tokio::select! {
                ended = self.follow(&metrics) => ended.err(),
                () = out.closed() => return,
            };
            let wait = match stop {
                Some(Stop::Closed) => return,
                // The server ends watches now and then; one that ends at once is a failure.
                None | Some(Stop::Quiet) if began.elapsed() > RETRY.1 => continue,
                Some(Stop::NotInstalled) => {
                    let Ok(wait) = self.not_installed().await else {
                        return;
                    };
                    wait
                }
                stop => {
                    metrics.errors.inc();
                    if self.failed(stop).await.is_err() {
                        return;
                    }
                    self.backoff.wait()
                }
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

    /// The first failure is often just a broken stream and passes; the second is told.
    async fn failed(&mut self, stop: Option<Stop>) -> Result<(), Stop> {
        self.failures += 1;
        let reason = match stop {
            Some(Stop::Failed(error)) => {
                if let Error::Api(status) = &error
                    && (status.code == 404 || status.reason == "Timeout")
                {
                    // The path may have changed, or the version is from the future: the store was restored.
                    self.path = None;
                    self.version = None;
                }
                reason(&error)
            }
            Some(Stop::Expired) => {
                self.version = None;
                if self.failures == 1 {
                    return Ok(());
                }
                "versions expire before they are read".to_owned()
            }
            None => "watches end at once".to_owned(),
            Some(_) => "no answer in time".to_owned(),
        };
        if self.failures == 2 {
            self.say(Message::Failing(reason)).await?;
        }
        Ok(())
    }

    async fn well(&mut self) -> Result<(), Stop> {
        self.missing_since = None;
        self.backoff.reset();
        if std::mem::take(&mut self.failures) >= 2 {
            self.say(Message::Well).await?;
        }
        Ok(())
    }

    /// How long to wait for a kind to be installed.
    async fn not_installed(&mut self) -> Result<Duration, Stop> {
        self.path = None;
        self.version = None;
        if is_built_in(self.id.api_version) {
            self.failures += 1;
            if self.failures == 2 {
                let FeedId {
                    api_version, kind, ..
                } = self.id;
                let reason = format!("the API server does not know {kind} of {api_version}");
                self.say(Message::Failing(reason)).await?;
            }
            return Ok(self.backoff.wait());
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
    async fn follow(&mut self, metrics: &WatchMetrics) -> Result<(), Stop> {
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
            metrics.lists.inc();
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
            limit: Some(PAGE),
            ..ListParams::default()
        };
        let mut listed = HashSet::new();
        loop {
            let request = self.request().list(&parameters).map_err(build)?;
            let page: List = answer(self.client.request(request)).await?;
            for item in page.items.into_iter().flatten() {
                listed.extend(self.known.take(item));
            }
            parameters.continue_token = page.metadata.next.filter(|token| !token.is_empty());
            if parameters.continue_token.is_none() {
                self.version = Some(page.metadata.resource_version);
                break;
            }
        }
        self.known.forget_others(&listed);
        self.well().await?;
        self.hand_over(true).await
    }

    async fn watch(&mut self) -> Result<(), Stop> {
        let parameters = WatchParams {
            label_selector: self.selection.labels.clone(),
            field_selector: self.selection.fields.clone(),
            timeout: Some(WATCH_SECONDS),
            ..WatchParams::default()
        };
        let version = self.version.clone().unwrap_or_default();
        let request = self.request().watch(&parameters, &version).map_err(build)?;
        let client = self.client.clone();
        let stream = answer(client.request_events::<Value>(request)).await?;
        let mut stream = std::pin::pin!(stream);
        // A refusal may come as the first event too; all else shows that the server answers.
        let mut heard = self.failures == 0;
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
