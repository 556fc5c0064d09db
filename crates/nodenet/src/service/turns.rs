//! Requests for one container are served one at a time: two at once would count from the same
//! number and lease twice as many.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::OwnedMutexGuard;
use uuid::Uuid;

/// One lock for each container that somebody asks about right now.
#[derive(Debug, Default)]
pub struct Turns {
    locks: Mutex<HashMap<Uuid, Arc<tokio::sync::Mutex<()>>>>,
}

/// Nobody else has the container for as long as this lives.
#[derive(Debug)]
pub struct Turn {
    turns: Arc<Turns>,
    container: Uuid,
    /// There until the turn ends.
    guard: Option<OwnedMutexGuard<()>>,
}

impl Turns {
    pub async fn wait(self: &Arc<Self>, container: Uuid) -> Turn {
        let lock = Arc::clone(self.locks().entry(container).or_default());
        // This is made before the wait, so that a caller that goes away while it waits is cleaned
        // up after, too.
        let mut turn = Turn {
            turns: Arc::clone(self),
            container,
            guard: None,
        };
        turn.guard = Some(lock.lock_owned().await);
        turn
    }

    fn locks(&self) -> MutexGuard<'_, HashMap<Uuid, Arc<tokio::sync::Mutex<()>>>> {
        self.locks.lock()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut locks = self.turns.locks();
        drop(self.guard.take());
        // Clones are made under the same mutex, so a count of one means that nobody holds it and
        // nobody waits for it.
        if locks
            .get(&self.container)
            .is_some_and(|lock| Arc::strong_count(lock) == 1)
        {
            locks.remove(&self.container);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn the_second_waits_for_the_first_and_others_do_not() {
        let turns = Arc::new(Turns::default());
        let (one, other) = (Uuid::new_v5(&Uuid::NAMESPACE_OID, b"1"), Uuid::nil());
        let first = turns.wait(one).await;
        assert!(turns.wait(one).now_or_never().is_none());
        assert!(turns.wait(other).now_or_never().is_some());
        drop(first);
        assert!(turns.wait(one).now_or_never().is_some());
    }

    #[tokio::test]
    async fn nothing_is_kept_of_a_container_that_nobody_asks_about() {
        let turns = Arc::new(Turns::default());
        let first = turns.wait(Uuid::nil()).await;
        // Gives up while it waits.
        assert!(turns.wait(Uuid::nil()).now_or_never().is_none());
        assert_eq!(turns.locks().len(), 1);
        drop(first);
        assert_eq!(turns.locks().len(), 0);
    }
}
