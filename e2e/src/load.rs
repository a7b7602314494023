//! Steady traffic in the background of a test: any failed request fails it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

use crate::http::{Answer, Exchange, Target};
use crate::process::wait_until;
use crate::tls;

/// Requests over one connection before a new one is opened.
const PER_CONNECTION: usize = 20;
/// How long a number of requests may take.
const LIMIT: Duration = Duration::from_secs(60);
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
    /// Starts `workers` that send `GET /` for `host`; every answer must be a 200.
    pub fn start(target: &Target, host: &str, workers: usize) -> Self {
        let shared = Arc::new(Shared::default());
        let mut tasks = JoinSet::new();
        for _ in 0..workers {
            tasks.spawn(work(
                target.clone(),
                Exchange::get(host, "/"),
                shared.clone(),
            ));
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
    pub async fn finish(mut self) -> Result<()> {
        self.shared.stop.store(true, Ordering::Relaxed);
        while self.tasks.join_next().await.is_some() {}
        let (sent, failed) = (
            self.shared.sent.load(Ordering::Relaxed),
            self.shared.failed.load(Ordering::Relaxed),
        );
        if failed > 0 {
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

async fn work(target: Target, exchange: Exchange, shared: Arc<Shared>) {
    while !shared.stop.load(Ordering::Relaxed) {
        if let Err(error) = connection(&target, &exchange, &shared).await {
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
async fn connection(target: &Target, exchange: &Exchange, shared: &Shared) -> Result<()> {
    let mut stream = target.connect().await?;
    match &target.tls {
        None => requests(&mut stream, exchange, shared).await,
        Some(options) => {
            requests(
                &mut tls::handshake(stream, options).await?,
                exchange,
                shared,
            )
            .await
        }
    }
}

async fn requests<S>(stream: &mut S, exchange: &Exchange, shared: &Shared) -> Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    for _ in 0..PER_CONNECTION {
        let answer = exchange.send_over(stream).await?;
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
