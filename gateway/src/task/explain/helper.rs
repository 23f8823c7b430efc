//! Explains tasks that run a helper before or after their command: meanwhile the command does not run.

use std::collections::BTreeMap;

use borough_model::Name;
use borough_model::job::HelperPhase;
use borough_model::task::{HelperState, HelperStatus, TaskRow, TaskState};
use borough_proto::v1;

use super::{explanation_of, moment};

/// Tasks in which the same helper runs.
#[derive(Clone, Debug)]
struct HelperGroup {
    is_before: bool,
    indexes: Vec<u32>,
    /// `USER/JOB/INDEX` of the task that has run for longest, and since when.
    first: (String, i64),
}

/// Tasks of a job that run a helper instead of their command, by the name of the helper.
#[derive(Clone, Debug, Default)]
pub(super) struct HelperTasks(BTreeMap<Name, HelperGroup>);

/// The helper that runs instead of the command of a task; `None` if none does.
fn helper_instead(row: &TaskRow) -> Option<&HelperStatus> {
    // A task whose command has ended is being released, and its helpers after the command run then.
    let runs = matches!(row.state, TaskState::Starting | TaskState::Running | TaskState::Releasing);
    let is_instead = |helper: &&HelperStatus| {
        helper.state == HelperState::Running
            && matches!(helper.when, HelperPhase::Before | HelperPhase::After)
    };
    row.helpers.as_deref().filter(|_| runs)?.iter().find(is_instead)
}

impl HelperTasks {
    pub(super) fn indexes(&self) -> impl Iterator<Item = u32> {
        self.0.values().flat_map(|group| &group.indexes).copied()
    }

    /// Takes a task of the job `USER/JOB` into account. Returns true if a helper runs instead of its command.
    pub(super) fn visit(&mut self, job: &str, row: &TaskRow) -> bool {
        let Some(helper) = helper_instead(row) else { return false };
        let index = row.id.index;
        let since_ms = row.started_ms.unwrap_or(row.changed_ms);
        let first = (format!("{job}/{index}"), since_ms);
        let is_before = helper.when == HelperPhase::Before;
        let new = || HelperGroup { is_before, indexes: Vec::new(), first: first.clone() };
        let group = self.0.entry(helper.name.clone()).or_insert_with(new);
        group.indexes.push(index);
        if since_ms < group.first.1 {
            group.first = first;
        }
        true
    }

    /// One explanation per helper.
    pub(super) fn explained(self) -> impl Iterator<Item = v1::Explanation> {
        self.0.into_iter().map(|(name, group)| group.explanation(&name))
    }
}

impl HelperGroup {
    fn explanation(self, helper: &Name) -> v1::Explanation {
        let Self { is_before, indexes, first: (task, since_ms) } = self;
        let is_one = indexes.len() == 1;
        let its = if is_one { "its" } else { "their" };
        let headline = if is_before {
            format!("{its} helper {helper} runs, and {its} command starts after that")
        } else {
            format!("{its} command has ended, and {its} helper {helper} runs")
        };
        let (whose, at) = (if is_one { "the attempt" } else { "the first attempt" }, moment(since_ms));
        let details = vec![
            format!("{whose} runs since {at}"),
            format!("what the helper writes: borough task logs {task} --helper {helper}"),
        ];
        let explanation = explanation_of(indexes, headline, details);
        v1::Explanation { helper: helper.to_string(), unhealthy_since_ms: since_ms, ..explanation }
    }
}

#[cfg(test)]
mod tests {
    use borough_model::{JobId, TaskId};

    use super::*;

    fn row(index: u32, started_ms: i64, helpers: &[(&str, HelperPhase, HelperState)]) -> TaskRow {
        let helper = |&(name, when, state): &(&str, HelperPhase, HelperState)| HelperStatus {
            name: Name::new(name).unwrap(),
            when,
            state,
            restarts: 0,
            exit: None,
        };
        TaskRow {
            state: TaskState::Running,
            started_ms: Some(started_ms),
            helpers: Some(Box::new(helpers.iter().map(helper).collect())),
            ..TaskRow::never_placed(TaskId { job: JobId(1), index })
        }
    }

    #[test]
    fn a_helper_that_runs_instead_of_the_command_is_named() {
        use HelperPhase::{After, Before, Beside};
        use HelperState::{Ended, Running, Waiting};
        let mut tasks = HelperTasks::default();
        let command =
            row(0, 1_000, &[("load", Before, Ended), ("logs", Beside, Running), ("send", After, Waiting)]);
        assert!(!tasks.visit("ann/web", &command));
        for (index, started_ms) in [(1, 9_000), (4, 2_000)] {
            assert!(tasks.visit("ann/web", &row(index, started_ms, &[("load", Before, Running)])));
        }
        let over = TaskRow {
            state: TaskState::Releasing,
            ..row(2, 1_000, &[("load", Before, Ended), ("send", After, Running)])
        };
        assert!(tasks.visit("ann/web", &over));
        assert!(!tasks.visit("ann/web", &TaskRow { state: TaskState::Stopping, ..over }));
        let explained: Vec<v1::Explanation> = tasks.explained().collect();
        let [load, send] = explained.as_slice() else { panic!("{explained:?}") };
        assert_eq!((load.indexes.as_slice(), load.unhealthy_since_ms), (&[1, 4][..], 2_000));
        assert_eq!(load.headline, "their helper load runs, and their command starts after that");
        assert_eq!(load.details[1], "what the helper writes: borough task logs ann/web/4 --helper load");
        assert_eq!(send.headline, "its command has ended, and its helper send runs");
        assert_eq!(send.helper, "send");
    }
}
