//! What is run beside a gateway's Envoy: its drain before the end, and a question whether something answers.
//!
//! Images without a shell have nothing else for this.

mod client;

use std::time::Duration;

use http::{Method, StatusCode, Uri};
use tokio::time::{Instant, sleep};

pub use client::ClientError;

use crate::bootstrap::STAT_PREFIX;

/// How often something is looked at again.
const POLL: Duration = Duration::from_millis(200);

/// How to drain a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainOptions {
    /// Port of Envoy's admin interface on loopback.
    pub admin_port: u16,
    /// How long new connections are still served after health started to fail.
    pub delay: Duration,
    /// How long open connections may last after that.
    pub limit: Duration,
}

/// Why a gateway could not be drained.
#[derive(Debug, thiserror::Error)]
pub enum DrainError {
    /// The admin interface cannot be reached.
    #[error("Envoy's admin interface: {0}")]
    Admin(#[from] ClientError),
    /// It answers something else than was expected.
    #[error("Envoy's admin interface answered {status} to {path}")]
    Refused {
        /// What was asked.
        path: String,
        /// What came back.
        status: StatusCode,
    },
}

/// Drains the gateway of this Pod: readiness fails, and every answer tells its client to open another connection. Returns when the
/// clients have gone, with the number of connections that are left when the limit comes first.
///
/// # Errors
/// The admin interface does not answer.
pub async fn drain(options: DrainOptions) -> Result<u64, DrainError> {
    ask(options, Method::POST, "/healthcheck/fail").await?;
    sleep(options.delay).await;
    let end = Instant::now() + options.limit;
    loop {
        let path = "/stats?filter=%5Elistener%5C..*downstream_cx_active$";
        let open = open_connections(&ask(options, Method::GET, path).await?);
        if open == 0 || Instant::now() >= end {
            return Ok(open);
        }
        sleep(POLL).await;
    }
}

async fn ask(options: DrainOptions, method: Method, path: &str) -> Result<String, DrainError> {
    let url = format!("http://127.0.0.1:{}{path}", options.admin_port);
    let (status, body) = client::send(method, &url.parse().map_err(ClientError::Url)?).await?;
    if status == StatusCode::OK {
        return Ok(body);
    }
    let path = path.to_owned();
    Err(DrainError::Refused { path, status })
}

/// Adds up the connections of clients: not those to the admin interface or our own listeners, and none twice because it is also
/// counted by worker.
fn open_connections(stats: &str) -> u64 {
    let of_clients = |name: &str| {
        let listener = name
            .strip_prefix("listener.")?
            .strip_suffix(".downstream_cx_active")?;
        let counted = !listener.starts_with("admin")
            && !listener.starts_with(STAT_PREFIX)
            && !listener.contains(".worker_");
        counted.then_some(())
    };
    let counts = stats.lines().filter_map(|line| {
        let (name, count) = line.split_once(": ")?;
        of_clients(name)?;
        count.trim().parse::<u64>().ok()
    });
    counts.sum()
}

/// Asks until the answer is 200, no longer than `limit`. Returns the last answer.
///
/// # Errors
/// The last try got no answer at all.
pub async fn probe(url: &Uri, limit: Duration) -> Result<(StatusCode, String), ClientError> {
    let end = Instant::now() + limit;
    loop {
        let answer = client::send(Method::GET, url).await;
        let well = matches!(&answer, Ok((StatusCode::OK, _)));
        if well || Instant::now() >= end {
            return answer;
        }
        sleep(POLL).await;
    }
}

#[cfg(test)]
mod tests;
