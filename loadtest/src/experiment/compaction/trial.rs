//! One seed: the fewest machines that a policy needs.

use borough_kv::env::SeededRng;
use borough_scheduler_core::CellSettings;

use super::machines::{could_take, fewest_by_amount, machines_shuffled, shuffle};
use crate::experiment::cell::ExperimentCell;
use crate::experiment::openb::{OpenbNode, OpenbTask};
use crate::experiment::trace::TraceCell;

/// What all seeds have in common.
pub(super) struct CompactionSetup<'a> {
    pub cell: &'a TraceCell,
    pub settings: CellSettings,
    /// Picky tasks that may stay pending, in thousandths of all tasks.
    pub pending_per_mille: u64,
    /// A picky task has at most so many machines, in thousandths of all.
    pub picky_per_mille: u64,
    /// The search ends when it knows the number of machines to so many.
    pub within: usize,
}

/// Tasks decided in one plan.
const BATCH: usize = 64;

/// The work of a seed.
struct Trial<'a> {
    setup: &'a CompactionSetup<'a>,
    seed: u64,
    machines: Vec<OpenbNode>,
    /// The tasks in the order of their arrival, each with whether it is picky.
    tasks: Vec<(&'a OpenbTask, bool)>,
}

impl<'a> Trial<'a> {
    fn new(setup: &'a CompactionSetup<'a>, seed: u64) -> Self {
        let rng = SeededRng::shared(seed);
        let TraceCell { nodes, tasks, .. } = setup.cell;
        let machines = machines_shuffled(nodes, rng.as_ref());
        let picky_most = nodes.len() as u64 * setup.picky_per_mille / 1000;
        let picky = |task: &OpenbTask| {
            nodes.iter().filter(|node| could_take(node, task)).count() as u64 <= picky_most
        };
        let mut known: std::collections::BTreeMap<&OpenbTask, bool> = std::collections::BTreeMap::new();
        let mut tasks: Vec<(&OpenbTask, bool)> =
            tasks.iter().map(|task| (task, *known.entry(task).or_insert_with(|| picky(task)))).collect();
        shuffle(&mut tasks, rng.as_ref());
        Self { setup, seed, machines, tasks }
    }

    /// Returns true if the tasks fit the first machines, packed from scratch.
    fn fits(&self, machines: usize) -> anyhow::Result<bool> {
        let machines = self.machines.get(..machines).unwrap_or(&self.machines);
        let mut cell = ExperimentCell::new(self.setup.settings.clone(), machines, self.seed)?;
        let mut may_pend = self.tasks.len() as u64 * self.setup.pending_per_mille / 1000;
        for together in self.tasks.chunks(BATCH) {
            let tasks: Vec<&OpenbTask> = together.iter().map(|&(task, _)| task).collect();
            for (node, &(_, picky)) in cell.arrive(&tasks)?.iter().zip(together) {
                if node.is_some() {
                    continue;
                }
                if !picky || may_pend == 0 {
                    return Ok(false);
                }
                may_pend -= 1;
            }
        }
        Ok(true)
    }
}

/// The fewest machines of a seed, to within [`CompactionSetup::within`]. `None` if the tasks do not fit all of them:
/// a policy for even load may leave no machine empty, however many there are.
///
/// The search halves the range between a number that does not fit and one that does. More machines may by chance pack
/// worse, so a smaller cell may fit too: the result is a number that fits, next to one that does not.
pub(super) fn compacted(setup: &CompactionSetup<'_>, seed: u64) -> anyhow::Result<Option<usize>> {
    let trial = Trial::new(setup, seed);
    // Picky tasks may stay pending, so the bound leaves them out.
    let needed: Vec<&OpenbTask> =
        trial.tasks.iter().filter(|&&(_, picky)| !picky).map(|&(task, _)| task).collect();
    let fewest = fewest_by_amount(&trial.machines, &needed);
    // Steps that double from the bound on: most policies end within a tenth of it.
    let (mut too_few, mut enough) = (fewest.saturating_sub(1), fewest);
    let mut step = (fewest / 64).max(1);
    while !trial.fits(enough)? {
        if enough >= trial.machines.len() {
            return Ok(None);
        }
        too_few = enough;
        enough = (enough + step).min(trial.machines.len());
        step *= 2;
    }
    while enough - too_few > setup.within.max(1) {
        let middle = too_few.midpoint(enough);
        if trial.fits(middle)? {
            enough = middle;
        } else {
            too_few = middle;
        }
    }
    Ok(Some(enough))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::policy::{policies, settings};

    fn node(number: u32, cards: u32) -> OpenbNode {
        OpenbNode {
            name: format!("n{number}"),
            cpu_millis: 8000,
            memory_mib: 8192,
            cards,
            model: String::new(),
        }
    }

    fn task(cpu_millis: u64, gpu_millis: u64) -> OpenbTask {
        OpenbTask { cpu_millis, memory_mib: 1024, gpu_millis, models: Vec::new(), service: false }
    }

    fn fewest(cell: &TraceCell, policy: &str, picky_per_mille: u64) -> usize {
        let settings = settings(policy).unwrap();
        let setup = CompactionSetup { cell, settings, pending_per_mille: 500, picky_per_mille, within: 1 };
        compacted(&setup, 7).unwrap().unwrap()
    }

    #[test]
    fn tasks_that_fill_their_machines_need_exactly_those() {
        let nodes = (0..6).map(|number| node(number, 0)).collect();
        let cell = TraceCell { about: "", nodes, tasks: vec![task(4000, 0); 10] };
        for policy in policies() {
            assert_eq!(fewest(&cell, policy, 0), 5, "{policy}");
        }
    }

    #[test]
    fn a_cell_grows_by_copies_if_the_work_needs_more_machines_than_it_has() {
        let cell = TraceCell { about: "", nodes: vec![node(0, 0)], tasks: vec![task(5000, 0); 3] };
        assert_eq!(fewest(&cell, "best-fit", 0), 3);
    }

    #[test]
    fn a_sliver_of_tasks_with_few_machines_may_stay_pending() {
        let nodes = (0..20).map(|number| node(number, u32::from(number == 0))).collect();
        let cell = TraceCell { about: "", nodes, tasks: vec![task(8000, 0), task(1000, 1000)] };
        // The task for a card has one machine of twenty. It must fit, unless so few machines make it picky.
        assert_eq!(fewest(&cell, "best-fit", 50), 1);
        assert!(fewest(&cell, "best-fit", 49) >= 2);
    }

    #[test]
    fn work_that_never_fits_has_no_number_of_machines() {
        let cell = TraceCell { about: "", nodes: vec![node(0, 0)], tasks: vec![task(9000, 0)] };
        let settings = settings("best-fit").unwrap();
        let setup =
            CompactionSetup { cell: &cell, settings, pending_per_mille: 0, picky_per_mille: 0, within: 1 };
        assert_eq!(compacted(&setup, 7).unwrap(), None);
    }
}
