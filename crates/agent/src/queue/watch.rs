//! Watches the directory for new entries.
//!
//! The kernel gives a user 128 inotify instances, for all that runs on the machine, and one of them
//! can watch any number of directories. So a process has one instance, however many agents are in
//! it, and one thread that reads it.

use std::collections::BTreeMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use parking_lot::Mutex;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use tokio::sync::Notify;
use tracing::error;

/// A watch of one directory, for as long as that exists.
#[derive(Debug)]
pub struct Watch {
    hub: Arc<Hub>,
    descriptor: i32,
    signal: Arc<Signal>,
}

/// What a watch has observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A file arrived, or events were lost.
    Something,
    /// The directory was removed or renamed: arrivals in a new directory of that name are not
    /// observed.
    Gone,
}

impl Watch {
    /// Observes all events after it has returned.
    pub fn new(directory: &Path) -> io::Result<Self> {
        let hub = Hub::shared()?;
        let (descriptor, signal) = hub.add(directory)?;
        Ok(Self {
            hub,
            descriptor,
            signal,
        })
    }

    /// Waits for the next event. Several at once count as one.
    pub async fn seen(&mut self) -> Seen {
        self.signal.raised.notified().await;
        if self.signal.is_gone.load(Ordering::Acquire) {
            Seen::Gone
        } else {
            Seen::Something
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.hub.remove(self.descriptor, &self.signal);
    }
}

#[derive(Debug, Default)]
struct Signal {
    raised: Notify,
    is_gone: AtomicBool,
}

/// The process's inotify instance. Watches of the same directory share a descriptor.
#[derive(Debug)]
struct Hub {
    inotify: OwnedFd,
    signals: Mutex<BTreeMap<i32, Vec<Arc<Signal>>>>,
}

impl Hub {
    /// Created at first use; if that fails, the next use tries again.
    fn shared() -> io::Result<Arc<Self>> {
        static SHARED: Mutex<Option<Arc<Hub>>> = Mutex::new(None);
        let mut shared = SHARED.lock();
        if let Some(hub) = &*shared {
            return Ok(Arc::clone(hub));
        }
        let hub = Arc::new(Self {
            inotify: inotify::init(CreateFlags::CLOEXEC)?,
            signals: Mutex::default(),
        });
        let listening = Arc::clone(&hub);
        thread::Builder::new()
            .name("release-queue".to_owned())
            .spawn(move || listening.listen())?;
        *shared = Some(Arc::clone(&hub));
        Ok(hub)
    }

    fn add(&self, directory: &Path) -> io::Result<(i32, Arc<Signal>)> {
        let arrivals = WatchFlags::MOVED_TO | WatchFlags::CLOSE_WRITE;
        let departures = WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
        let flags = arrivals | departures | WatchFlags::ONLYDIR | WatchFlags::DONT_FOLLOW;
        let signal = Arc::<Signal>::default();
        // Under the lock, so that the first event already finds the signal.
        let mut signals = self.signals.lock();
        let descriptor = inotify::add_watch(&self.inotify, directory, flags)?;
        signals.entry(descriptor).or_default().push(Arc::clone(&signal));
        Ok((descriptor, signal))
    }

    fn remove(&self, descriptor: i32, signal: &Arc<Signal>) {
        let mut signals = self.signals.lock();
        let Some(others) = signals.get_mut(&descriptor) else {
            return;
        };
        others.retain(|other| !Arc::ptr_eq(other, signal));
        if others.is_empty() {
            signals.remove(&descriptor);
            // An error means that the directory was removed before.
            let _ = inotify::remove_watch(&self.inotify, descriptor);
        }
    }

    /// Runs for as long as the process does.
    fn listen(&self) {
        // It needs no alignment, and has room for a hundred names.
        let mut buffer = [const { MaybeUninit::uninit() }; 32 << 10];
        let mut events = inotify::Reader::new(&self.inotify, &mut buffer);
        loop {
            match events.next() {
                Ok(event) => self.notify(event.wd(), event.events()),
                Err(Errno::INTR) => {}
                Err(error) => {
                    error!(%error, "cannot read inotify events; polling the release queues from \
                                    now on");
                    return;
                }
            }
        }
    }

    fn notify(&self, descriptor: i32, events: ReadFlags) {
        let gone =
            ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED | ReadFlags::UNMOUNT;
        let mut signals = self.signals.lock();
        if events.contains(ReadFlags::QUEUE_OVERFLOW) {
            // The lost events may be of any directory.
            signals.values().flatten().for_each(|signal| signal.raised.notify_one());
        }
        let of_directory = signals.get(&descriptor).into_iter().flatten();
        for signal in of_directory {
            if events.intersects(gone) {
                signal.is_gone.store(true, Ordering::Release);
            }
            signal.raised.notify_one();
        }
        if events.contains(ReadFlags::IGNORED) {
            signals.remove(&descriptor);
        }
    }
}
