//! Ends the program at a signal while its reader takes nothing: a write to a full pipe cannot be cancelled.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use crate::exit::Code;

/// How long a write may take after a signal.
const PATIENCE: Duration = Duration::from_millis(500);

/// The number of a program that SIGTERM ended, as shells have it.
const TERMINATED: u8 = 128 + 15;

/// Counts the begins and the ends of writes: odd while one is under way.
static WRITES: AtomicU64 = AtomicU64::new(0);

/// A write under way.
pub(super) struct OutputWrite;

impl OutputWrite {
    pub(super) fn begin() -> Self {
        WRITES.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for OutputWrite {
    fn drop(&mut self) {
        WRITES.fetch_add(1, Ordering::Relaxed);
    }
}

/// For a verb that takes signals itself: from now on, one that comes during a write that does not end ends the program.
/// SIGTERM does in any case, unless the verb ends by itself in this time.
pub(crate) fn end_when_stuck() {
    std::thread::spawn(|| {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            let listen = |kind| signal(kind).ok();
            let (Some(mut interrupt), Some(mut terminate)) =
                (listen(SignalKind::interrupt()), listen(SignalKind::terminate()))
            else {
                return;
            };
            loop {
                let code = tokio::select! {
                    _ = interrupt.recv() => Code::Interrupted,
                    _ = terminate.recv() => Code::Command(TERMINATED),
                };
                let before = WRITES.load(Ordering::Relaxed);
                tokio::time::sleep(PATIENCE).await;
                let is_stuck = before % 2 == 1 && WRITES.load(Ordering::Relaxed) == before;
                if is_stuck || code != Code::Interrupted {
                    end(code);
                }
            }
        });
    });
}

#[expect(clippy::exit, reason = "the thread that would return waits for the reader")]
fn end(code: Code) -> ! {
    std::process::exit(i32::from(code.number()))
}
