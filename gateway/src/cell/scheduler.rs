//! A scheduler's snapshot of the cell, for two questions: what a job would do, and why a task waits. The scheduler's
//! own code answers them.
//!
//! An answer over a large cell takes seconds. The gateway therefore answers the questions of one cell one at a time, on
//! separate threads. Sessions, reports and leases never wait for them.

use std::sync::Arc;
use std::time::Duration;

use borough_model::queue::QueueSpec;
use borough_model::{Delta, JournalEntry};
use borough_scheduler::snapshot_of_mirror;
use borough_scheduler_core::{CellSettings, Snapshot};
use borough_store::mirror::{MirrorEvent, MirrorHandle, MirrorSubscription};
use futures::FutureExt as _;
use parking_lot::Mutex;
use tonic::Status;

/// Time between two attempts to follow the mirror.
const FOLLOW_PAUSE: Duration = Duration::from_millis(20);

/// A scheduler's snapshot of one cell.
pub struct SchedulerMirror {
    snapshot: Arc<tokio::sync::Mutex<Snapshot>>,
    queues: Mutex<Vec<QueueSpec>>,
}

impl Default for SchedulerMirror {
    fn default() -> Self {
        let snapshot = Snapshot::new(CellSettings::default());
        Self { snapshot: Arc::new(tokio::sync::Mutex::new(snapshot)), queues: Mutex::default() }
    }
}

impl SchedulerMirror {
    /// Runs `question` over the cell as it is now, after the questions that were asked before.
    ///
    /// # Errors
    /// The code has panicked, which is a defect.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Snapshot) -> T + Send + 'static,
    ) -> Result<T, Status> {
        let snapshot = Arc::clone(&self.snapshot).lock_owned().await;
        let answered = tokio::task::spawn_blocking(move || question(&snapshot)).await;
        answered.map_err(|error| {
            tracing::error!(%error, "the scheduler's code has failed on a question");
            Status::internal("the scheduler's code has failed on this question: see the gateway's log")
        })
    }

    /// The queues of the cell. They may lag behind its settings by a moment.
    pub fn queues(&self) -> Vec<QueueSpec> {
        self.queues.lock().clone()
    }

    /// Keeps the snapshot in step with `mirror` until the future is dropped. `settings` reads the cell's settings.
    pub async fn follow<F>(&self, mirror: &MirrorHandle, settings: impl Fn() -> F)
    where
        F: Future<Output = CellSettings>,
    {
        mirror.ready().await;
        loop {
            // The same settings as a scheduler has, so that an answer says what the scheduler will do.
            let settings = settings().await;
            self.queues.lock().clone_from(&settings.queueing.queues);
            let (snapshot, mut subscription) =
                mirror.subscribe_with(|state| snapshot_of_mirror(state, settings));
            *self.snapshot.lock().await = snapshot;
            while let Some(event) = subscription.next().await {
                if !self.apply(event, &mut subscription).await {
                    break;
                }
            }
            // The mirror is gone for good only when the process ends. Otherwise follow it again.
            tokio::time::sleep(FOLLOW_PAUSE).await;
        }
    }

    /// Applies an event and all events that queued up during a question. A series of questions therefore leaves the
    /// snapshot at most one question behind. Returns `false` if a new snapshot must be made.
    async fn apply(&self, first: MirrorEvent, subscription: &mut MirrorSubscription) -> bool {
        let mut snapshot = self.snapshot.lock().await;
        let mut next = Some(first);
        while let Some(event) = next {
            let MirrorEvent::Entry { entry, .. } = event else { return false };
            for delta in &entry.deltas {
                snapshot.apply(delta);
            }
            if settings_changed(&entry) {
                return false;
            }
            next = subscription.next().now_or_never().flatten();
        }
        true
    }
}

/// A snapshot keeps the settings that it was made with, so a change of the settings needs a new one.
fn settings_changed(entry: &JournalEntry) -> bool {
    entry.deltas.iter().any(|delta| matches!(delta, Delta::CellSettings { .. }))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// One thread runs this whole test. A question answered on that thread would block everything else for ever.
    #[tokio::test]
    async fn what_else_a_gateway_does_waits_for_no_question() {
        let view = SchedulerMirror::default();
        let (go_on, receiver) = mpsc::channel();
        let long = view.ask(move |_| receiver.recv_timeout(Duration::from_secs(30)));
        let second = async {
            tokio::task::yield_now().await;
            view.ask(|_| ()).await
        };
        let other = async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            go_on.send(7).unwrap();
        };
        let (long, second, ()) = tokio::join!(long, second, other);
        assert_eq!(long.unwrap(), Ok(7));
        second.unwrap();
    }

    #[tokio::test]
    async fn a_question_that_panics_is_answered_and_the_next_one_too() {
        let view = SchedulerMirror::default();
        let broken: Result<(), Status> = view.ask(|_| panic!("on purpose")).await;
        assert_eq!(broken.unwrap_err().code(), tonic::Code::Internal);
        assert_eq!(view.ask(|_| 7).await.unwrap(), 7);
    }
}
