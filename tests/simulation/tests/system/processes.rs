//! Which processes run where, over all machines: an attempt that runs twice, or beside another one of its task, is seen
//! when it begins.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use borough_agent::AttemptId;
use parking_lot::Mutex;

/// Every process of every machine, by attempt: so that one that runs twice is seen when it begins.
#[derive(Clone, Default)]
pub struct Processes(Arc<Mutex<Running>>);

#[derive(Default)]
struct Running {
    running: BTreeMap<AttemptId, BTreeSet<String>>,
    /// Attempts that began on a second machine while they ran on the first.
    twice: Vec<String>,
    beside: Vec<Beside>,
}

/// A process that began while another attempt of its task ran on another machine.
#[derive(Clone, Debug)]
pub struct Beside {
    /// What began.
    pub id: AttemptId,
    /// Where.
    pub machine: String,
    /// The other attempt.
    pub other: u64,
    /// Where that one runs.
    pub other_machine: String,
}

impl Processes {
    /// An attempt begins on a machine.
    pub fn begun(&self, id: &AttemptId, machine: &str) {
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
        let beside = elsewhere.filter(|(_, at)| at != machine).map(|(other, other_machine)| Beside {
            id: id.clone(),
            machine: machine.to_owned(),
            other,
            other_machine,
        });
        let beside: Vec<Beside> = beside.collect();
        state.beside.extend(beside);
    }

    /// An attempt has ended on a machine.
    pub fn ended(&self, id: &AttemptId, machine: &str) {
        let mut state = self.0.lock();
        if let Some(on) = state.running.get_mut(id) {
            on.remove(machine);
            if on.is_empty() {
                state.running.remove(id);
            }
        }
    }

    /// What ran twice since the last call.
    pub fn twice_take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().twice)
    }

    /// Whether something began beside another attempt since the last call of [`Processes::beside_take`].
    pub fn beside_any(&self) -> bool {
        !self.0.lock().beside.is_empty()
    }

    /// What began beside another attempt since the last call.
    pub fn beside_take(&self) -> Vec<Beside> {
        std::mem::take(&mut self.0.lock().beside)
    }
}
