//! Keeps the scheduler of `berth up` from nodes without an IP for a pod: it uses the accounting of
//! `berth scheduler`.

use berth_cluster::{Candidate, PodLimit};
use berth_scheduler::Books;
use futures::future::BoxFuture;

#[derive(Debug)]
pub struct PodIps {
    books: Books,
}

impl PodIps {
    pub fn new(books: Books) -> Self {
        Self { books }
    }
}

impl PodLimit for PodIps {
    fn refuse(&self, pod: &Candidate<'_>, node: &str) -> Option<String> {
        if pod.host_network {
            return None;
        }
        let mut accounting = self.books.lock();
        let refusal = accounting.free(node, pod.uid).err()?;
        accounting.refused(node);
        Some(refusal.to_string())
    }

    fn reserve(&self, pod: &Candidate<'_>, node: &str) -> Result<(), String> {
        let reserve = |accounting: &mut berth_scheduler::Accounting| {
            accounting.reserve(pod.uid, !pod.host_network, node)
        };
        self.books
            .change(reserve)
            .map(drop)
            .map_err(|refusal| refusal.to_string())
    }

    fn release(&self, uid: &str) {
        self.books.change(|accounting| accounting.release(uid));
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.books.woken().await;
            self.books.lock().take_woken();
        })
    }
}
