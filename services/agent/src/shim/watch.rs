//! Notices changes by shims: one inotify watch per attempt's directory. If the kernel has none left, the periodic look
//! finds changes.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use tokio::sync::mpsc;

use crate::attempt::AttemptId;
use crate::event::Event;
use crate::ready::{Ready, ready};

/// Watches over the directories of attempts.
#[derive(Clone, Debug)]
pub(crate) struct DirectoryWatch(Option<Arc<WatchShared>>);

#[derive(Debug)]
struct WatchShared {
    inotify: Ready,
    attempts: Mutex<BTreeMap<i32, AttemptId>>,
}

impl DirectoryWatch {
    /// Starts watching; changes become [`Event::Changed`].
    pub(crate) fn open(events: mpsc::UnboundedSender<Event>) -> Self {
        let opened = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)
            .map_err(std::io::Error::from)
            .and_then(ready);
        match opened {
            Ok(inotify) => {
                let shared = Arc::new(WatchShared { inotify, attempts: Mutex::default() });
                tokio::spawn(changes_forward(shared.clone(), events));
                Self(Some(shared))
            }
            Err(error) => {
                tracing::warn!(%error, "no inotify: the agent notices changes of tasks later");
                Self(None)
            }
        }
    }

    /// Watches nothing: for a simulated machine.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Watches an attempt's directory.
    pub(crate) fn add(&self, id: &AttemptId, directory: &Path) {
        let Some(shared) = &self.0 else { return };
        let mut attempts = shared.attempts.lock();
        // A record is renamed into its place; only on a full disk is it overwritten.
        let what = WatchFlags::MOVED_TO | WatchFlags::CLOSE_WRITE;
        match inotify::add_watch(shared.inotify.get_ref(), directory, what) {
            Ok(number) => drop(attempts.insert(number, id.clone())),
            Err(error) => {
                tracing::warn!(attempt = %id, %error, "an attempt is not watched: the agent notices its changes later")
            }
        }
    }

    /// Stops watching it.
    pub(crate) fn remove(&self, id: &AttemptId) {
        let Some(shared) = &self.0 else { return };
        let mut attempts = shared.attempts.lock();
        let numbers: Vec<i32> =
            attempts.iter().filter(|(_, of)| *of == id).map(|(number, _)| *number).collect();
        for number in numbers {
            attempts.remove(&number);
            // The kernel removes it with the directory.
            let _ = inotify::remove_watch(shared.inotify.get_ref(), number);
        }
    }
}

async fn changes_forward(shared: Arc<WatchShared>, events: mpsc::UnboundedSender<Event>) {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    loop {
        tokio::select! {
            () = events.closed() => return,
            ready = shared.inotify.readable() => {
                let Ok(mut ready) = ready else { return };
                if !changes_read(&shared, &mut buffer, &events) {
                    ready.clear_ready();
                }
            }
        }
    }
}

/// Forwards pending changes; `false` at the end.
fn changes_read(
    shared: &WatchShared,
    buffer: &mut [MaybeUninit<u8>],
    events: &mpsc::UnboundedSender<Event>,
) -> bool {
    let mut reader = inotify::Reader::new(shared.inotify.get_ref(), buffer);
    loop {
        let (number, flags) = match reader.next() {
            Ok(event) => (event.wd(), event.events()),
            Err(Errno::INTR) => continue,
            Err(_) => return false,
        };
        let attempts = shared.attempts.lock();
        // After an overflow every attempt may have changed.
        let changed: Vec<AttemptId> = if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            attempts.values().cloned().collect()
        } else {
            attempts.get(&number).cloned().into_iter().collect()
        };
        drop(attempts);
        for id in changed {
            // The agent ends: nobody needs the event.
            let _ = events.send(Event::Changed(id));
        }
    }
}
