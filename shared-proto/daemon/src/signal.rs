//! When to stop.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// SIGTERM and SIGINT, caught from the moment this exists.
#[derive(Debug)]
pub struct Shutdown {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Shutdown {
    /// Starts to catch the signals. Call it first: a signal that comes earlier ends the process as the system does.
    ///
    /// # Errors
    /// The system refuses the handlers. Must be called inside a tokio runtime.
    pub fn install() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for one of them and returns its name.
    pub async fn wait(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
