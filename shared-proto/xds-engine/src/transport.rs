//! Keeps a [`ClientSession`] connected to one ADS server.
//!
//! Delta first; state of the world when the server has no delta or does not answer it. A lost stream is opened
//! again with jittered backoff, and what is held stays held meanwhile.

use std::time::Duration;

use tokio::sync::mpsc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;

use crate::client::{ClientSession, Update};
use crate::discovery::{
    Any, DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};

const SOTW_PATH: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";
const DELTA_PATH: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";
const MAX_RESPONSE_BYTES: usize = i32::MAX as usize;

/// A server that hangs is left for another one after these two times together: about as long as its Lease lasts.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(8);

/// Waiting times of a client.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Wait before a stream is opened again, for the first tries: who waits for a server that is just starting
    /// should not sleep when it is there.
    pub min_backoff: Duration,
    /// After this many tries without a stream the wait doubles each time, up to `max_backoff`.
    pub quick_tries: u32,
    /// Longest wait before a stream is opened again.
    pub max_backoff: Duration,
    /// How long a delta stream may be silent while a type is unanswered, before state of the world is tried.
    pub delta_patience: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            min_backoff: Duration::from_millis(50),
            quick_tries: 60,
            max_backoff: Duration::from_secs(10),
            delta_patience: Duration::from_secs(15),
        }
    }
}

impl Timing {
    /// Wait after this many tries without a stream.
    fn backoff(&self, failures: u32) -> Duration {
        // 2^20 times the first wait is beyond any sensible maximum.
        let doublings = failures.saturating_sub(self.quick_tries).min(20);
        (self.min_backoff * (1 << doublings)).min(self.max_backoff)
    }
}

/// What a client reports.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientEvent {
    /// A stream is open.
    Connected,
    /// The stream was lost or could not be opened; the reason.
    Disconnected(String),
    /// A response changed the view. Sent for every response, also an empty one.
    Update {
        /// What changed.
        update: Update,
        /// Every type was answered at least once.
        synced: bool,
    },
}

/// Runs the client until `events` has no receiver any more.
///
/// `name` reads the name out of a resource in state of the world, where the protocol does not carry it.
pub async fn run(
    address: String,
    mut session: ClientSession,
    timing: Timing,
    name: fn(&Any) -> Option<String>,
    events: mpsc::Sender<ClientEvent>,
) {
    let mut delta = true;
    let mut failures = 0;
    while !events.is_closed() {
        let outcome = match connect(&address).await {
            Err(status) => Err(status),
            Ok(channel) => {
                failures = 0;
                if delta {
                    run_delta(channel, &mut session, timing, &events).await
                } else {
                    run_sotw(channel, &mut session, name, &events).await
                }
            }
        };
        let reason = match outcome {
            Ok(Ended::Fallback(reason)) => {
                delta = false;
                reason
            }
            Ok(Ended::Closed) => {
                // Another server may be there next time.
                delta = true;
                "the server closed the stream".to_owned()
            }
            Err(status) => {
                delta = true;
                format!("{}: {}", status.code(), root_cause(&status))
            }
        };
        if events
            .send(ClientEvent::Disconnected(reason))
            .await
            .is_err()
        {
            return;
        }
        tokio::time::sleep(jittered(timing.backoff(failures))).await;
        failures = failures.saturating_add(1);
    }
}

enum Ended {
    Closed,
    /// Delta does not work with this server; why.
    Fallback(String),
}

fn root_cause(status: &Status) -> String {
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(status);
    let mut text = status.message().to_owned();
    while let Some(error) = cause {
        text = error.to_string();
        cause = error.source();
    }
    text
}

/// Between half and the whole of `wait`, so that clients of a restarted server don't come all at once.
fn jittered(wait: Duration) -> Duration {
    let nanos = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.subsec_nanos());
    wait.mul_f64(0.5 + f64::from(nanos % 1_000_000) / 2_000_000.0)
}

async fn connect(address: &str) -> Result<Channel, Status> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))
        .map_err(|error| Status::invalid_argument(error.to_string()))?
        .connect_timeout(Duration::from_secs(5))
        .http2_keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(true)
        .tcp_nodelay(true)
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(1 << 20);
    endpoint
        .connect()
        .await
        .map_err(|error| Status::from_error(Box::new(error)))
}

async fn open<Q, A>(
    channel: Channel,
    path: &'static str,
    requests: mpsc::Receiver<Q>,
) -> Result<tonic::Streaming<A>, Status>
where
    Q: prost::Message + Default + 'static,
    A: prost::Message + Default + 'static,
{
    let mut grpc = tonic::client::Grpc::new(channel).max_decoding_message_size(MAX_RESPONSE_BYTES);
    grpc.ready()
        .await
        .map_err(|error| Status::unavailable(error.to_string()))?;
    let stream = tokio_stream::wrappers::ReceiverStream::new(requests);
    let codec = ProstCodec::<Q, A>::default();
    let path = PathAndQuery::from_static(path);
    let response = grpc
        .streaming(tonic::Request::new(stream), path, codec)
        .await?;
    Ok(response.into_inner())
}

async fn run_delta(
    channel: Channel,
    session: &mut ClientSession,
    timing: Timing,
    events: &mpsc::Sender<ClientEvent>,
) -> Result<Ended, Status> {
    let initial = session.start_delta();
    let (requests, receiver) = mpsc::channel::<DeltaDiscoveryRequest>(initial.len() + 16);
    for request in initial {
        let _ = requests.try_send(request);
    }
    let opened = open::<_, DeltaDiscoveryResponse>(channel, DELTA_PATH, receiver);
    // A server that never answers anything does not even send response headers.
    let opened = tokio::time::timeout(timing.delta_patience, opened).await;
    let mut responses = match opened {
        Ok(Ok(responses)) => responses,
        Ok(Err(status)) if status.code() == Code::Unimplemented => {
            return Ok(Ended::Fallback("the server has no delta method".to_owned()));
        }
        Ok(Err(status)) => return Err(status),
        Err(_) => {
            return Ok(Ended::Fallback(
                "the server does not answer delta requests".to_owned(),
            ));
        }
    };
    if events.send(ClientEvent::Connected).await.is_err() {
        return Ok(Ended::Closed);
    }
    let patience = tokio::time::sleep(timing.delta_patience);
    tokio::pin!(patience);
    loop {
        let response = tokio::select! {
            // What has come counts, however long it took to be looked at.
            biased;
            response = responses.message() => response,
            () = &mut patience, if !session.synced() => {
                let silent = session.unanswered().collect::<Vec<_>>().join(", ");
                return Ok(Ended::Fallback(format!("no delta answer for {silent}")));
            }
        };
        let response = match response {
            Ok(Some(response)) => response,
            Ok(None) => return Ok(Ended::Closed),
            Err(status) if status.code() == Code::Unimplemented => {
                return Ok(Ended::Fallback("the server has no delta method".to_owned()));
            }
            Err(status) => return Err(status),
        };
        let (update, ack) = session.on_delta(response);
        let event = ClientEvent::Update {
            update,
            synced: session.synced(),
        };
        // The event first: an ACK says that the change is in safe hands.
        if events.send(event).await.is_err() || requests.send(ack).await.is_err() {
            return Ok(Ended::Closed);
        }
        patience
            .as_mut()
            .reset(tokio::time::Instant::now() + timing.delta_patience);
    }
}

async fn run_sotw(
    channel: Channel,
    session: &mut ClientSession,
    name: fn(&Any) -> Option<String>,
    events: &mpsc::Sender<ClientEvent>,
) -> Result<Ended, Status> {
    let initial = session.start_sotw();
    let (requests, receiver) = mpsc::channel::<DiscoveryRequest>(initial.len() + 16);
    for request in initial {
        let _ = requests.try_send(request);
    }
    let mut responses = open::<_, DiscoveryResponse>(channel, SOTW_PATH, receiver).await?;
    if events.send(ClientEvent::Connected).await.is_err() {
        return Ok(Ended::Closed);
    }
    while let Some(response) = responses.message().await? {
        let (update, ack) = session.on_sotw(response, name);
        let event = ClientEvent::Update {
            update,
            synced: session.synced(),
        };
        if events.send(event).await.is_err() || requests.send(ack).await.is_err() {
            return Ok(Ended::Closed);
        }
    }
    Ok(Ended::Closed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_short_at_first_and_grow_later() {
        let timing = Timing::default();
        assert_eq!(timing.backoff(0), timing.min_backoff);
        assert_eq!(timing.backoff(timing.quick_tries), timing.min_backoff);
        assert_eq!(
            timing.backoff(timing.quick_tries + 1),
            timing.min_backoff * 2
        );
        assert_eq!(timing.backoff(u32::MAX), timing.max_backoff);
        let wait = jittered(timing.max_backoff);
        assert!(wait >= timing.max_backoff / 2 && wait <= timing.max_backoff);
    }
}
