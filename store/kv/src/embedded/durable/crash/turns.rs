//! Decides which thread may use the simulated disk: one at a time, in an order drawn from the seed.
//!
//! A thread of its own writes a checkpoint. Here that thread waits before each of its calls for a grant, and the
//! granting thread waits until the grants are used up. A checkpoint can therefore pause at any of its calls while
//! commits continue, and the same seed gives the same history.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

use super::super::worker::{Background, CheckpointDone, CheckpointWork};

const THREAD: &str = "simulated-checkpoint";

#[derive(Debug, Default)]
struct TurnState {
    /// Calls granted and not used; `None` for no limit.
    granted: Option<u64>,
    /// Whether the thread waits for a grant.
    waits: bool,
    /// Whether a checkpoint is being written.
    runs: bool,
}

/// The turns of one opening.
#[derive(Debug)]
pub(super) struct Turns {
    state: Mutex<TurnState>,
    changed: Condvar,
}

impl Turns {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(TurnState { granted: Some(0), ..TurnState::default() }),
            changed: Condvar::new(),
        })
    }

    /// Called before every call to the disk: the checkpoint's thread waits for its turn.
    pub(super) fn take(&self) {
        if std::thread::current().name() != Some(THREAD) {
            return;
        }
        let mut state = self.state.lock();
        while state.granted == Some(0) {
            state.waits = true;
            self.changed.notify_all();
            self.changed.wait(&mut state);
        }
        state.waits = false;
        state.granted = state.granted.map(|granted| granted - 1);
    }

    /// Lets the checkpoint make `calls` calls, or finish. Returns true if one is still being written.
    pub(super) fn grant(&self, calls: u64) -> bool {
        let mut state = self.state.lock();
        if let Some(granted) = &mut state.granted {
            *granted += calls;
        }
        self.changed.notify_all();
        while state.runs && !(state.waits && state.granted == Some(0)) {
            self.changed.wait(&mut state);
        }
        // Unused calls do not carry over.
        state.granted = state.granted.map(|_| 0);
        state.runs
    }

    /// Lets the checkpoint run freely from now on.
    pub(super) fn free(&self) {
        self.state.lock().granted = None;
        self.changed.notify_all();
    }

    fn ended(&self) {
        self.state.lock().runs = false;
        self.changed.notify_all();
    }
}

/// Ends a turn however the work ends.
struct TurnGuard(Arc<Turns>);

impl Drop for TurnGuard {
    fn drop(&mut self) {
        self.0.ended();
    }
}

pub(super) struct InTurns(pub(super) Arc<Turns>);

impl Background for InTurns {
    fn start(&self, work: CheckpointWork) -> io::Result<JoinHandle<CheckpointDone>> {
        self.0.state.lock().runs = true;
        let turns = Arc::clone(&self.0);
        std::thread::Builder::new().name(THREAD.to_owned()).spawn(move || {
            let _ending = TurnGuard(Arc::clone(&turns));
            turns.take();
            work()
        })
    }

    fn ended(&self, _work: &JoinHandle<CheckpointDone>) -> bool {
        !self.0.state.lock().runs
    }

    fn awaited(&self) {
        let mut state = self.0.state.lock();
        state.granted = None;
        self.0.changed.notify_all();
        while state.runs {
            self.0.changed.wait(&mut state);
        }
        state.granted = Some(0);
    }
}
