//! Explains tasks that stay on a drained node, as the drain itself does.

use std::collections::BTreeMap;

use borough_model::{JobId, NodeId, TaskState};
use borough_proto::v1;
use borough_scheduler_core::{Explanation, explain_elsewhere};
use tonic::Status;

use super::{BudgetReport, budget_of, explanation_of};
use crate::cell::CellContext;
use crate::job::explanation_message;

/// Nodes for which one answer asks the scheduler's code: each question copies the cell.
const ASKED_MAX: usize = 4;

/// Tasks of a job on one drained node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DrainedTasks {
    pub(super) node: String,
    /// All of them.
    pub(super) indexes: Vec<u32>,
    /// Those that are not being stopped.
    pub(super) staying: Vec<u32>,
}

impl DrainedTasks {
    /// Adds a task by its index and its state.
    pub(super) fn add(&mut self, index: u32, state: TaskState) {
        self.indexes.push(index);
        if !matches!(state, TaskState::Stopping | TaskState::Releasing) {
            self.staying.push(index);
        }
    }
}

/// One explanation per drained node with tasks of the job that nothing stops yet.
pub(super) async fn explained(
    cell: &CellContext,
    job: JobId,
    drained: BTreeMap<NodeId, DrainedTasks>,
) -> Result<Vec<v1::Explanation>, Status> {
    let now_ms = cell.clock.wall_ms();
    let budget = if drained.is_empty() { None } else { budget_of(cell, job) };
    let mut explanations = Vec::new();
    for tasks in drained.into_values() {
        let Some(&first) = tasks.staying.first() else { continue };
        let asked = if explanations.len() < ASKED_MAX {
            let ask = move |snapshot: &_| explain_elsewhere(snapshot, job, first, now_ms);
            Some(cell.scheduler.ask(ask).await?)
        } else {
            None
        };
        explanations.push(explanation(tasks, asked.as_ref(), budget.as_ref()));
    }
    Ok(explanations)
}

/// `elsewhere` is about the first of the tasks; `None`: nobody has asked.
fn explanation(
    tasks: DrainedTasks,
    elsewhere: Option<&Explanation>,
    budget: Option<&BudgetReport>,
) -> v1::Explanation {
    let DrainedTasks { node, staying, .. } = tasks;
    let (its, it_fits, stays) = match staying.as_slice() {
        [_] => ("its", "it fits on another node, and leaves when its job can spare it", "it stays"),
        _ => ("their", "they fit on other nodes, and leave when their job can spare them", "they stay"),
    };
    let end = format!("to stop what stays: borough node drain {node} --force");
    let details = vec![end, format!("to end the drain: borough node uncordon {node}")];
    match elsewhere {
        None => explanation_of(staying, format!("{its} node {node} is drained"), details),
        Some(found) if found.fits() => {
            let mut headline = format!("{its} node {node} is drained; {it_fits}");
            let wait = budget.and_then(|budget| budget.wait_of(&staying));
            headline.extend(wait.map(|text| format!(": {text}")));
            let waits = wait.is_some() && budget.is_some_and(|budget| !budget.is_left);
            explanation_of(staying, headline, if waits { details } else { Vec::new() })
        }
        Some(found) => {
            let why = explanation_message(Vec::new(), found);
            let begin = format!("{its} node {node} is drained, and {stays}: ");
            let plain = explanation_of(staying, String::new(), details);
            v1::Explanation {
                indexes: plain.indexes,
                summary: format!("{begin}{}; {}", why.summary, plain.details.join("; ")),
                headline: format!("{begin}{}", why.headline),
                details: plain.details,
                ..why
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use borough_scheduler_core::{Ahead, WaitReason};

    use super::*;

    #[test]
    fn a_task_on_a_drained_node_stays_or_leaves() {
        let mut tasks = DrainedTasks { node: "n1".to_owned(), ..DrainedTasks::default() };
        tasks.add(0, TaskState::Running);
        tasks.add(1, TaskState::Stopping);
        let full = Explanation { elsewhere: true, nodes: 2, ..Explanation::default() };
        let stays = explanation(tasks.clone(), Some(&full), None);
        let expected = "its node n1 is drained, and it stays: fits on none of 2 other nodes; can never fit any other node";
        assert!(stays.headline.starts_with(expected), "{}", stays.headline);
        assert!(stays.details.iter().any(|line| line.ends_with("borough node uncordon n1")));
        assert_eq!((stays.indexes, stays.nodes), (vec![0], 2));
        let turn = vec![WaitReason::Turn { ahead: Ahead::default() }];
        let fits = Explanation { waits: turn, nodes_fit: 1, ..full };
        for is_left in [true, false] {
            let text = "1 of 2 tasks is away, and 1 may be".to_owned();
            let budget = BudgetReport { text, is_left, ..BudgetReport::default() };
            let leaves = explanation(tasks.clone(), Some(&fits), Some(&budget));
            let expected = "it fits on another node, and leaves when its job can spare it: 1 of 2 tasks is away, \
                            and 1 may be";
            assert!(leaves.headline.ends_with(expected), "{}", leaves.headline);
            assert_eq!(leaves.details.is_empty(), is_left, "{:?}", leaves.details);
        }
        tasks.add(2, TaskState::Running);
        let unasked = explanation(tasks, None, None);
        assert_eq!(unasked.headline, "their node n1 is drained");
    }
}
