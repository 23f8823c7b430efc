//! A scheduler's snapshot of the cell, for two questions: what a job would do, and why a task waits. The scheduler's
//! own code answers them.
//!
//! A snapshot takes hundreds of bytes per task. The gateway therefore makes it when the first question comes, and drops
//! it after five minutes without one.
//!
//! An answer over a large cell takes seconds. The gateway therefore answers the questions of one cell one at a time, on
//! separate threads. Sessions, reports and leases never wait for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use borough_model::Delta;
use borough_model::queue::QueueSpec;
use borough_scheduler::SnapshotBuild;
use borough_scheduler_core::{CellSettings, Snapshot};
use borough_store::mirror::{MirrorEvent, MirrorHandle, MirrorState, MirrorSubscription, RowsPosition};
use futures::FutureExt as _;
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedMutexGuard, watch};
use tokio::task::JoinError;
use tonic::Status;

/// Time between two attempts to follow the mirror.
const FOLLOW_PAUSE: Duration = Duration::from_millis(20);
/// How long the snapshot is kept after the last question.
const KEPT: Duration = Duration::from_secs(300);
/// Time between two looks whether it is still needed.
const LOOK: Duration = Duration::from_secs(30);

/// A scheduler's snapshot of one cell; `None` as long as nobody asks.
pub struct SchedulerMirror {
    snapshot: Arc<tokio::sync::Mutex<Option<Snapshot>>>,
    queues: Mutex<Vec<QueueSpec>>,
    /// Counts questions.
    questions: AtomicU64,
    /// A question waits for a snapshot.
    wanted: Notify,
    /// Counts the snapshots that were made.
    made: watch::Sender<u64>,
}

impl Default for SchedulerMirror {
    fn default() -> Self {
        Self {
            snapshot: Arc::default(),
            queues: Mutex::default(),
            questions: AtomicU64::new(0),
            wanted: Notify::new(),
            made: watch::Sender::new(0),
        }
    }
}

/// When a snapshot was last seen in use.
#[derive(Clone, Copy, Debug)]
struct SnapshotUse {
    questions: u64,
    /// The monotonic time of the look that first saw this number of questions.
    since: Duration,
}

impl SnapshotUse {
    /// Looks at the number of questions. Returns true if it has not changed for [`KEPT`].
    fn is_over(&mut self, questions: u64, now: Duration) -> bool {
        if questions != self.questions {
            *self = Self { questions, since: now };
        }
        now.saturating_sub(self.since) >= KEPT
    }
}

/// What ended a period of following.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FollowEnd {
    /// Entries are missing, or the settings have changed.
    Stale,
    /// A question waits for a snapshot.
    Wanted,
}

impl SchedulerMirror {
    /// Runs `question` over the cell as it is now, after the questions that were asked before. The first question for a
    /// while waits until a snapshot is made.
    ///
    /// # Errors
    /// The code has panicked, which is a defect.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Snapshot) -> T + Send + 'static,
    ) -> Result<T, Status> {
        self.questions.fetch_add(1, Ordering::Relaxed);
        let snapshot = self.snapshot_made().await;
        let answered = tokio::task::spawn_blocking(move || snapshot.as_ref().map(question)).await;
        let answered = answered.map_err(|error| {
            tracing::error!(%error, "the scheduler's code has failed on a question");
            Status::internal("the scheduler's code has failed on this question: see the gateway's log")
        })?;
        answered.ok_or_else(|| Status::unavailable("the gateway lists the cell again: try again"))
    }

    /// The snapshot, once there is one.
    async fn snapshot_made(&self) -> OwnedMutexGuard<Option<Snapshot>> {
        let mut made = self.made.subscribe();
        loop {
            let snapshot = Arc::clone(&self.snapshot).lock_owned().await;
            if snapshot.is_some() {
                return snapshot;
            }
            drop(snapshot);
            self.wanted.notify_one();
            // The sender lives as long as this borrow of it.
            made.changed().await.ok();
        }
    }

    /// The queues of the cell. They may lag behind its settings by a moment.
    pub fn queues(&self) -> Vec<QueueSpec> {
        self.queues.lock().clone()
    }

    /// Keeps the queues, and the snapshot while it is used, in step with `mirror` until the future is dropped.
    /// `settings` reads the cell's settings.
    pub async fn follow<F>(&self, mirror: &MirrorHandle, settings: impl Fn() -> F)
    where
        F: Future<Output = CellSettings>,
    {
        mirror.ready().await;
        loop {
            // Before the settings are read, so that no change of them is missed.
            let mut subscription = mirror.subscribe();
            // The same settings as a scheduler has, so that an answer says what the scheduler will do.
            let settings = settings().await;
            self.queues.lock().clone_from(&settings.queueing.queues);
            loop {
                if self.followed(mirror, &mut subscription).await == FollowEnd::Stale {
                    break;
                }
                match self.make(mirror, settings.clone(), &mut subscription).await {
                    Ok(true) => continue,
                    Ok(false) => {}
                    Err(error) => {
                        tracing::error!(%error, "the scheduler's code has failed on the cell's rows");
                        tokio::time::sleep(LOOK).await;
                    }
                }
                // The question still waits.
                self.wanted.notify_one();
                break;
            }
            if self.snapshot.lock().await.take().is_some() {
                // It was in use: the next question shall not wait for it.
                self.wanted.notify_one();
            }
            // The mirror is gone for good only when the process ends. Otherwise follow it again.
            tokio::time::sleep(FOLLOW_PAUSE).await;
        }
    }

    /// Makes a snapshot on separate threads, part by part, and continues from it. `before` has every entry since the
    /// settings were read. Returns `false` if the snapshot is no longer of use.
    async fn make(
        &self,
        mirror: &MirrorHandle,
        settings: CellSettings,
        before: &mut MirrorSubscription,
    ) -> Result<bool, JoinError> {
        let (from, mut subscription) = mirror.subscribe_with(MirrorState::cursor);
        while let Some(event) = before.next().now_or_never().flatten() {
            if !settings_kept(&event) {
                return Ok(false);
            }
        }
        let source = mirror.clone();
        let mut building = tokio::task::spawn_blocking(move || {
            let mut build = SnapshotBuild::begin(settings, from);
            while build.position() != RowsPosition::Over {
                let position = build.position();
                build.add(source.read(|state| state.rows_part(position, RowsPosition::PART_ROWS)));
            }
            build
        });
        // A subscription that nobody reads for seconds is over.
        let mut missed: Vec<MirrorEvent> = Vec::new();
        let mut build = loop {
            tokio::select! {
                built = &mut building => break built?,
                event = subscription.next() => match event.filter(settings_kept) {
                    Some(event) => missed.push(event),
                    None => return building.await.map(|_| false),
                },
            }
        };
        missed.iter().for_each(|event| build_apply(&mut build, event));
        // What some part has shown is in the subscription already.
        while !build.is_whole() {
            match subscription.next().await.filter(settings_kept) {
                Some(event) => build_apply(&mut build, &event),
                None => return Ok(false),
            }
        }
        let snapshot = build.snapshot();
        *self.snapshot.lock().await = Some(snapshot);
        self.made.send_modify(|made| *made = made.wrapping_add(1));
        // Questions that came meanwhile are answered by this snapshot.
        self.wanted.notified().now_or_never();
        *before = subscription;
        Ok(true)
    }

    /// Applies entries until they need something else. Drops the snapshot once nobody has asked for a while.
    async fn followed(&self, mirror: &MirrorHandle, subscription: &mut MirrorSubscription) -> FollowEnd {
        let clock = mirror.clock();
        let mut snapshot_use = SnapshotUse { questions: 0, since: clock.monotonic() };
        loop {
            let kept = self.snapshot.lock().await.is_some();
            tokio::select! {
                event = subscription.next() => {
                    let Some(event) = event else { return FollowEnd::Stale };
                    if !self.apply(event, subscription).await {
                        return FollowEnd::Stale;
                    }
                }
                () = self.wanted.notified(), if !kept => return FollowEnd::Wanted,
                () = tokio::time::sleep(LOOK), if kept => {}
            }
            let questions = self.questions.load(Ordering::Relaxed);
            if kept && snapshot_use.is_over(questions, clock.monotonic()) {
                *self.snapshot.lock().await = None;
            }
        }
    }

    /// Applies an event and all events that queued up during a question. A series of questions therefore leaves the
    /// snapshot at most one question behind. Returns `false` if a new snapshot must be made.
    async fn apply(&self, first: MirrorEvent, subscription: &mut MirrorSubscription) -> bool {
        let mut snapshot = self.snapshot.lock().await;
        let mut next = Some(first);
        while let Some(event) = next {
            if !settings_kept(&event) {
                return false;
            }
            if let Some(snapshot) = snapshot.as_mut() {
                event_apply(snapshot, &event);
            }
            next = subscription.next().now_or_never().flatten();
        }
        true
    }
}

fn build_apply(build: &mut SnapshotBuild, event: &MirrorEvent) {
    if let MirrorEvent::Entry { cursor, entry } = event {
        build.apply(*cursor, entry);
    }
}

fn event_apply(snapshot: &mut Snapshot, event: &MirrorEvent) {
    let MirrorEvent::Entry { entry, .. } = event else { return };
    for delta in &entry.deltas {
        snapshot.apply(delta);
    }
}

/// A snapshot keeps the settings that it was made with, so a change of the settings needs a new one, as missing entries
/// do.
fn settings_kept(event: &MirrorEvent) -> bool {
    let MirrorEvent::Entry { entry, .. } = event else { return false };
    !entry.deltas.iter().any(|delta| matches!(delta, Delta::CellSettings { .. }))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// With an empty snapshot, as if one had been made.
    fn view() -> SchedulerMirror {
        let snapshot = Some(Snapshot::new(CellSettings::default()));
        SchedulerMirror {
            snapshot: Arc::new(tokio::sync::Mutex::new(snapshot)),
            ..SchedulerMirror::default()
        }
    }

    /// One thread runs this whole test. A question answered on that thread would block everything else for ever.
    #[tokio::test]
    async fn what_else_a_gateway_does_waits_for_no_question() {
        let view = view();
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
        let view = view();
        let broken: Result<(), Status> = view.ask(|_| panic!("on purpose")).await;
        assert_eq!(broken.unwrap_err().code(), tonic::Code::Internal);
        assert_eq!(view.ask(|_| 7).await.unwrap(), 7);
    }

    #[test]
    fn a_snapshot_goes_five_minutes_after_the_last_question() {
        let mut snapshot_use = SnapshotUse { questions: 0, since: Duration::ZERO };
        let mut over = |questions, s| snapshot_use.is_over(questions, Duration::from_secs(s));
        assert!(!over(1, 10));
        assert!(!over(1, 309));
        assert!(over(1, 310));
        assert!(!over(2, 320), "asked again meanwhile");
        assert!(!over(2, 600));
        assert!(over(2, 620));
    }
}
