//! The different tasks that a watcher has seen, and the wait for so many of them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use borough_model::TaskId;
use parking_lot::Mutex;

/// The tasks that a watcher of the public API has seen in one state.
#[derive(Default)]
pub(super) struct SeenTasks {
    seen: Mutex<BTreeSet<TaskId>>,
    count: AtomicUsize,
}

impl SeenTasks {
    /// Records a task.
    pub(super) fn task(&self, task: TaskId) {
        let mut seen = self.seen.lock();
        seen.insert(task);
        self.count.store(seen.len(), Ordering::Relaxed);
    }

    /// Waits until the count is `count`.
    pub(super) async fn reached(&self, count: usize, patience: Duration) -> anyhow::Result<()> {
        count_reached(|| self.count(), count, patience).await
    }

    /// Counts the different tasks.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

/// Waits until `counted` gives at least `count`.
///
/// # Errors
/// The count did not rise for `patience`.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures by the machine's clock")]
pub(super) async fn count_reached(
    counted: impl Fn() -> usize,
    count: usize,
    patience: Duration,
) -> anyhow::Result<()> {
    let mut known = (counted(), Instant::now());
    while counted() < count {
        if counted() > known.0 {
            known = (counted(), Instant::now());
        }
        anyhow::ensure!(
            known.1.elapsed() < patience,
            "nothing came for {patience:?}: {} of {count} tasks",
            known.0
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}
