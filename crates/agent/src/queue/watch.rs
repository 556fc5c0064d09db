//! Being told that something came into the directory.
//!
//! The kernel gives a user 128 inotify instances, for all that runs on the machine, and one of them
//! can watch any number of directories. So a process has one, however many agents are in it, and a
//! thread that waits for what it says.

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

/// Of one directory, as long as that is there.
#[derive(Debug)]
pub struct Watch {
    hub: Arc<Hub>,
    descriptor: i32,
    bell: Arc<Bell>,
}

/// What a watch has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Something came, or more than could be told.
    Something,
    /// The directory is gone, or not at its place any more: what comes into the one that is there
    /// now is not seen.
    Gone,
}

impl Watch {
    /// Sees all that happens after it returned.
    pub fn new(directory: &Path) -> io::Result<Self> {
        let hub = Hub::shared()?;
        let (descriptor, bell) = hub.add(directory)?;
        Ok(Self { hub, descriptor, bell })
    }

    /// Waits. Many at once are told as one.
    pub async fn seen(&mut self) -> Seen {
        self.bell.rung.notified().await;
        if self.bell.is_gone.load(Ordering::Acquire) {
            Seen::Gone
        } else {
            Seen::Something
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.hub.remove(self.descriptor, &self.bell);
    }
}

#[derive(Debug, Default)]
struct Bell {
    rung: Notify,
    is_gone: AtomicBool,
}

/// The process's instance. Whoever watches the same directory has the same descriptor.
#[derive(Debug)]
struct Hub {
    inotify: OwnedFd,
    bells: Mutex<BTreeMap<i32, Vec<Arc<Bell>>>>,
}

impl Hub {
    /// Made when it is first needed, and again when that failed.
    fn shared() -> io::Result<Arc<Self>> {
        static SHARED: Mutex<Option<Arc<Hub>>> = Mutex::new(None);
        let mut shared = SHARED.lock();
        if let Some(hub) = &*shared {
            return Ok(Arc::clone(hub));
        }
        let hub = Arc::new(Self {
            inotify: inotify::init(CreateFlags::CLOEXEC)?,
            bells: Mutex::default(),
        });
        let listening = Arc::clone(&hub);
        thread::Builder::new()
            .name("release-queue".to_owned())
            .spawn(move || listening.listen())?;
        *shared = Some(Arc::clone(&hub));
        Ok(hub)
    }

    fn add(&self, directory: &Path) -> io::Result<(i32, Arc<Bell>)> {
        let arrivals = WatchFlags::MOVED_TO | WatchFlags::CLOSE_WRITE;
        let departures = WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
        let flags = arrivals | departures | WatchFlags::ONLYDIR | WatchFlags::DONT_FOLLOW;
        let bell = Arc::<Bell>::default();
        // Under the lock: what is told of it at once finds the bell.
        let mut bells = self.bells.lock();
        let descriptor = inotify::add_watch(&self.inotify, directory, flags)?;
        bells.entry(descriptor).or_default().push(Arc::clone(&bell));
        Ok((descriptor, bell))
    }

    fn remove(&self, descriptor: i32, bell: &Arc<Bell>) {
        let mut bells = self.bells.lock();
        let Some(others) = bells.get_mut(&descriptor) else {
            return;
        };
        others.retain(|other| !Arc::ptr_eq(other, bell));
        if others.is_empty() {
            bells.remove(&descriptor);
            // An error says that the directory went first.
            let _ = inotify::remove_watch(&self.inotify, descriptor);
        }
    }

    /// As long as the process lasts.
    fn listen(&self) {
        // Of any alignment, and with room for a hundred names.
        let mut buffer = [const { MaybeUninit::uninit() }; 32 << 10];
        let mut events = inotify::Reader::new(&self.inotify, &mut buffer);
        loop {
            match events.next() {
                Ok(event) => self.tell(event.wd(), event.events()),
                Err(Errno::INTR) => {}
                Err(error) => {
                    error!(%error, "release queues are not watched any more, and are looked at \
                                    now and then");
                    return;
                }
            }
        }
    }

    fn tell(&self, descriptor: i32, events: ReadFlags) {
        let gone =
            ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED | ReadFlags::UNMOUNT;
        let mut bells = self.bells.lock();
        if events.contains(ReadFlags::QUEUE_OVERFLOW) {
            // Nobody knows whose events were left out.
            bells.values().flatten().for_each(|bell| bell.rung.notify_one());
        }
        let of_directory = bells.get(&descriptor).into_iter().flatten();
        for bell in of_directory {
            if events.intersects(gone) {
                bell.is_gone.store(true, Ordering::Release);
            }
            bell.rung.notify_one();
        }
        if events.contains(ReadFlags::IGNORED) {
            bells.remove(&descriptor);
        }
    }
}
