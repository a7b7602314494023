//! Turns at a scarce thing: so many at the same time, and so many of them for one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};

/// Hands out turns. Who asks for more than its own share is refused at once, so the others wait for few.
#[derive(Debug)]
pub struct Turns {
    all: Semaphore,
    of_one: usize,
    /// Turns that are taken or waited for, by address; none is 0.
    taken: Mutex<HashMap<IpAddr, usize>>,
}

/// A turn; over when dropped.
#[derive(Debug)]
pub struct Turn<'a> {
    _place: Place<'a>,
    /// The semaphore is never closed; without a permit the turn would only be one too many.
    _permit: Option<SemaphorePermit<'a>>,
}

impl Turns {
    /// `all` turns at the same time; one address has up to `of_one`, those included that it waits for.
    pub fn new(all: usize, of_one: usize) -> Self {
        Self {
            all: Semaphore::new(all),
            of_one,
            taken: Mutex::default(),
        }
    }

    /// Waits for a turn; `None` when the address has its share already.
    pub async fn take(&self, address: IpAddr) -> Option<Turn<'_>> {
        let place = self.place(address)?;
        let permit = self.all.acquire().await.ok();
        Some(Turn {
            _place: place,
            _permit: permit,
        })
    }

    fn place(&self, address: IpAddr) -> Option<Place<'_>> {
        let mut taken = self.taken();
        let count = taken.entry(address).or_default();
        if *count >= self.of_one {
            return None;
        }
        *count += 1;
        Some(Place {
            turns: self,
            address,
        })
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        // Every change is complete in itself, so a panic elsewhere leaves the map usable.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of the turns that an address may have.
#[derive(Debug)]
struct Place<'a> {
    turns: &'a Turns,
    address: IpAddr,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut taken = self.turns.taken();
        if let Some(count) = taken.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Waker};

    use super::*;

    fn waits(future: &mut Pin<Box<impl Future>>) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        future.as_mut().poll(&mut context).is_pending()
    }

    #[tokio::test]
    async fn a_greedy_address_takes_no_turn_of_others() {
        let turns = Turns::new(3, 2);
        let (greedy, modest) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let first = turns.take(greedy).await.unwrap();
        let _second = turns.take(greedy).await.unwrap();
        assert!(turns.take(greedy).await.is_none());
        let _third = turns.take(modest).await.unwrap();

        // All are taken: the next one waits, and that counts for its address too.
        let mut waiting = Box::pin(turns.take(modest));
        assert!(waits(&mut waiting));
        assert!(turns.take(modest).await.is_none());
        drop(first);
        assert!(waiting.await.is_some());
        assert_eq!(turns.taken().values().sum::<usize>(), 2);
    }

    #[tokio::test]
    async fn who_gives_up_waiting_leaves_nothing_behind() {
        let turns = Turns::new(1, 1);
        let held = turns.take([10, 0, 0, 1].into()).await;
        let mut waiting = Box::pin(turns.take([10, 0, 0, 2].into()));
        assert!(waits(&mut waiting));
        drop((waiting, held));
        assert!(turns.taken().is_empty());
    }
}
