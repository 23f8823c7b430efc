//! The running processes of all machines. It detects at its begin an attempt that runs twice, or together with another
//! one of its task.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use borough_agent::AttemptId;
use parking_lot::Mutex;

/// Every process of every machine, by attempt.
#[derive(Clone, Default)]
pub(crate) struct Processes(Arc<Mutex<Running>>);

#[derive(Default)]
struct Running {
    running: BTreeMap<AttemptId, BTreeSet<String>>,
    /// Attempts that began on a second machine while they ran on the first.
    twice: Vec<String>,
    concurrent: Vec<ConcurrentAttempt>,
}

/// A process that began while another attempt of its task ran on another machine.
#[derive(Clone, Debug)]
pub(crate) struct ConcurrentAttempt {
    pub id: AttemptId,
    pub machine: String,
    pub other: u64,
    pub other_machine: String,
}

impl Processes {
    /// Records that an attempt begins on a machine.
    pub(crate) fn begun(&self, id: &AttemptId, machine: &str) {
        let mut state = self.0.lock();
        let on = state.running.entry(id.clone()).or_default();
        let others: Vec<String> = on.iter().filter(|other| *other != machine).cloned().collect();
        on.insert(machine.to_owned());
        if !others.is_empty() {
            state.twice.push(format!("{id} begins on {machine} and runs on {}", others.join(", ")));
        }
        let of_task = state.running.iter();
        let of_task = of_task.filter(|(other, _)| other.job_id == id.job_id && other.index == id.index);
        let elsewhere = of_task.flat_map(|(other, on)| on.iter().map(|at| (other.incarnation, at.clone())));
        let concurrent = elsewhere.filter(|(_, at)| at != machine).map(|(other, other_machine)| {
            ConcurrentAttempt { id: id.clone(), machine: machine.to_owned(), other, other_machine }
        });
        let concurrent: Vec<ConcurrentAttempt> = concurrent.collect();
        state.concurrent.extend(concurrent);
    }

    /// Records that an attempt has ended on a machine.
    pub(crate) fn ended(&self, id: &AttemptId, machine: &str) {
        let mut state = self.0.lock();
        if let Some(on) = state.running.get_mut(id) {
            on.remove(machine);
            if on.is_empty() {
                state.running.remove(id);
            }
        }
    }

    /// The attempts that ran twice since the last call.
    pub(crate) fn twice_take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().twice)
    }

    /// Returns true if [`Processes::concurrent_take`] would return something.
    pub(crate) fn concurrent_any(&self) -> bool {
        !self.0.lock().concurrent.is_empty()
    }

    /// The processes that began together with another attempt of their task since the last call.
    pub(crate) fn concurrent_take(&self) -> Vec<ConcurrentAttempt> {
        std::mem::take(&mut self.0.lock().concurrent)
    }
}
