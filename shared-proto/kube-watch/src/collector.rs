//! Merges the feeds into one stream of changes, and says how they are.

use std::collections::BTreeMap;

use manifest_dir::Change;
use tokio::sync::mpsc;
use tracing::{debug, info, warn};

use crate::feed::{Envelope, Message};
use crate::pending::Pending;
use crate::waiting::Waiting;

/// Owner of what was not handed over yet.
pub(crate) struct Collector<T> {
    /// Feeds that had no complete list so far, by index.
    incomplete: Vec<bool>,
    missing: usize,
    pending: Pending<T>,
    out: mpsc::Sender<Change<T>>,
    failing: BTreeMap<usize, String>,
    waiting: Waiting,
}

impl<T: Send + 'static> Collector<T> {
    pub(crate) fn new(feeds: usize, out: mpsc::Sender<Change<T>>, waiting: Waiting) -> Self {
        Self {
            incomplete: vec![true; feeds],
            missing: feeds,
            pending: Pending::default(),
            out,
            failing: BTreeMap::new(),
            waiting,
        }
    }

    /// Runs until one of the ends is gone.
    pub(crate) async fn run(mut self, mut inbox: mpsc::Receiver<Envelope<T>>) {
        let mut first = true;
        loop {
            let ready = self.missing == 0 && (first || !self.pending.is_empty());
            let out = self.out.clone();
            tokio::select! {
                message = inbox.recv() => match message {
                    Some(envelope) => self.take(envelope),
                    None => return,
                },
                permit = out.reserve(), if ready => match permit {
                    Ok(permit) => {
                        permit.send(self.pending.take());
                        first = false;
                    }
                    Err(_) => return,
                },
                () = out.closed() => return,
            }
        }
    }

    fn take(&mut self, (feed, message): Envelope<T>) {
        match message {
            Message::Change { pending, complete } => {
                self.pending.merge(pending);
                if complete
                    && let Some(incomplete) = self.incomplete.get_mut(feed.index)
                    && std::mem::take(incomplete)
                {
                    self.missing -= 1;
                    self.waiting.end(&feed);
                    debug!(feed = %feed, left = self.missing, "complete");
                }
            }
            Message::Failing(reason) => {
                let known = self.failing.values().any(|other| *other == reason);
                if known {
                    debug!(feed = %feed, reason, "watch fails");
                } else {
                    warn!(feed = %feed, reason, "the Kubernetes API cannot be read, what is known stays in use");
                }
                self.waiting.set_reason(&feed, Some(&reason));
                self.failing.insert(feed.index, reason);
            }
            Message::Well => {
                self.waiting.set_reason(&feed, None);
                self.failing.remove(&feed.index);
                if self.failing.is_empty() {
                    info!("the Kubernetes API can be read again");
                }
            }
        }
    }
}
