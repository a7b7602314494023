//! Merges changes that come close together: the first one after quiet is passed on at once.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::ingest::{Change, ObjectSource};

/// This much quiet ends a burst.
const QUIET: Duration = Duration::from_millis(2);
/// A burst is cut here.
const LONGEST: Duration = Duration::from_millis(100);

/// Waits for the next change; `built` is when the last one was done. `None` when the source ended.
pub(super) async fn next(source: &mut impl ObjectSource, built: Instant) -> Option<Change> {
    let mut change = source.next().await?;
    let first = Instant::now();
    if first >= built + QUIET {
        return Some(change);
    }
    let end = first + LONGEST;
    loop {
        match timeout_at(end.min(Instant::now() + QUIET), source.next()).await {
            Ok(Some(later)) => change.merge(later),
            Ok(None) | Err(_) => return Some(change),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc;

    struct Queue(mpsc::Receiver<Change>);

    impl ObjectSource for Queue {
        async fn next(&mut self) -> Option<Change> {
            self.0.recv().await
        }
    }

    fn change(file: &str) -> Change {
        Change {
            problems: vec![(file.to_owned(), Vec::new())],
            ..Change::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_is_passed_on_and_the_rest_merged() {
        let (sender, receiver) = mpsc::channel(8);
        let mut source = Queue(receiver);
        let started = Instant::now();
        tokio::time::advance(QUIET).await;
        for file in ["a", "b", "c"] {
            sender.send(change(file)).await.unwrap();
        }
        let first = next(&mut source, started).await.unwrap();
        assert_eq!(first.problems.len(), 1);
        let rest = next(&mut source, Instant::now()).await.unwrap();
        assert_eq!(rest.problems.len(), 2);
        drop(sender);
        assert!(next(&mut source, started).await.is_none());
    }
}
