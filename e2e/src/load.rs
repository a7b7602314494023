//! Steady traffic in the background of a test: any failed request fails it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::http::{Answer, Exchange, Target};
use crate::process::wait_until;
use crate::tls;

/// Requests over one connection before a new one is opened.
const PER_CONNECTION: usize = 20;
/// How long a number of requests may take.
const LIMIT: Duration = Duration::from_secs(60);
/// How long an answer may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// Failures that are kept for the report.
const KEPT: usize = 10;

/// Workers that send one request after the other until told to stop.
#[derive(Debug)]
pub struct Load {
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    sent: AtomicU64,
    failed: AtomicU64,
    failures: Mutex<Vec<String>>,
}

impl Load {
    /// Starts `workers` that send `GET /` for `host`, as fast as the answers come; every answer must be a 200.
    pub fn start(target: &Target, host: &str, workers: usize) -> Self {
        Self::spawn(target, host, workers, || None)
    }

    /// Like [`Self::start`], with `per_second` requests of each worker.
    pub fn paced(target: &Target, host: &str, workers: usize, per_second: u32) -> Self {
        Self::spawn(target, host, workers, || {
            let mut pace = interval(Duration::from_secs(1) / per_second.max(1));
            // What was missed while an answer was slow is not caught up with in a burst.
            pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
            Some(pace)
        })
    }

    fn spawn(
        target: &Target,
        host: &str,
        workers: usize,
        pace: impl Fn() -> Option<Interval>,
    ) -> Self {
        let shared = Arc::new(Shared::default());
        let mut tasks = JoinSet::new();
        for _ in 0..workers {
            let exchange = Exchange::get(host, "/");
            tasks.spawn(work(target.clone(), exchange, shared.clone(), pace()));
        }
        Self { shared, tasks }
    }

    /// Waits until `count` more requests have been answered.
    ///
    /// # Errors
    /// It takes too long.
    pub async fn more(&self, count: u64) -> Result<()> {
        let goal = self.shared.sent.load(Ordering::Relaxed) + count;
        let reached = async || (self.shared.sent.load(Ordering::Relaxed) >= goal).then_some(());
        wait_until(&format!("{count} more requests"), LIMIT, reached).await
    }

    /// Stops, and fails when a request failed.
    ///
    /// # Errors
    /// A request failed.
    pub async fn finish(self) -> Result<()> {
        self.finish_with(0).await
    }

    /// Stops, and fails when more than `allowed` requests failed: those that no gateway could have saved.
    ///
    /// # Errors
    /// More requests failed.
    pub async fn finish_with(mut self, allowed: u64) -> Result<()> {
        self.shared.stop.store(true, Ordering::Relaxed);
        while self.tasks.join_next().await.is_some() {}
        let (sent, failed) = (
            self.shared.sent.load(Ordering::Relaxed),
            self.shared.failed.load(Ordering::Relaxed),
        );
        if failed > allowed {
            let failures = self
                .shared
                .failures
                .lock()
                .map(|kept| kept.join("\n  "))
                .unwrap_or_default();
            bail!("{failed} of {sent} requests failed:\n  {failures}");
        }
        Ok(())
    }
}

async fn work(target: Target, exchange: Exchange, shared: Arc<Shared>, mut pace: Option<Interval>) {
    while !shared.stop.load(Ordering::Relaxed) {
        if let Err(error) = connection(&target, &exchange, &shared, &mut pace).await {
            shared.sent.fetch_add(1, Ordering::Relaxed);
            shared.failed.fetch_add(1, Ordering::Relaxed);
            if let Ok(mut failures) = shared.failures.lock()
                && failures.len() < KEPT
            {
                failures.push(format!("{error:#}"));
            }
        }
    }
}

/// Sends requests over one connection until it has been used enough or the server closes it in an orderly way.
async fn connection(
    target: &Target,
    exchange: &Exchange,
    shared: &Shared,
    pace: &mut Option<Interval>,
) -> Result<()> {
    let mut stream = target.connect().await?;
    match &target.tls {
        None => requests(&mut stream, exchange, shared, pace).await,
        Some(options) => {
            let mut stream = tls::handshake(stream, options).await?;
            requests(&mut stream, exchange, shared, pace).await
        }
    }
}

async fn requests<S>(
    stream: &mut S,
    exchange: &Exchange,
    shared: &Shared,
    pace: &mut Option<Interval>,
) -> Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    for _ in 0..PER_CONNECTION {
        if let Some(pace) = pace {
            pace.tick().await;
        }
        let answer = tokio::time::timeout(ANSWER_LIMIT, exchange.send_over(stream)).await;
        let answer = answer.with_context(|| format!("no answer within {ANSWER_LIMIT:?}"))??;
        if answer.status != 200 {
            bail!("status {}: {}", answer.status, answer.text());
        }
        shared.sent.fetch_add(1, Ordering::Relaxed);
        if shared.stop.load(Ordering::Relaxed) || closes(&answer) {
            break;
        }
    }
    Ok(())
}

fn closes(answer: &Answer) -> bool {
    answer
        .header("connection")
        .is_some_and(|value| value.eq_ignore_ascii_case("close"))
}
