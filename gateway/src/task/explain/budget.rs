//! Says how much of a job's disruption budget is used, and by which tasks: what a drain may wait for.

use std::collections::BTreeSet;
use std::sync::Arc;

use borough_model::disruption::{BudgetUse, DisruptionBudget, DisruptionCause, TaskPresence};
use borough_model::job::{JobRow, RolloutState};
use borough_model::{JobId, TaskRow, TaskState};
use borough_store::mirror::MirrorState;

/// Tasks that are named.
const NAMED_MAX: usize = 3;

/// The disruption budget of a job for moves, as a drain sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct BudgetReport {
    /// `1 of 4 tasks is away, and 1 may be: task 3 waits for a node`.
    pub(super) text: String,
    /// Whether a healthy task may leave its node now.
    pub(super) is_left: bool,
    /// Indexes of the tasks that use the budget of the job itself.
    pub(super) away: BTreeSet<u32>,
}

impl BudgetReport {
    /// What tasks that are to leave wait for. `None`: each of them is away itself, so they wait for none of it.
    pub(super) fn wait_of(&self, tasks: &[u32]) -> Option<&str> {
        let waits = tasks.iter().any(|index| !self.away.contains(index));
        waits.then_some(self.text.as_str())
    }
}

/// The budget of a job; `None` if the job or its spec is not known.
pub(super) fn budget_report(state: &MirrorState, job: JobId, now_ms: i64) -> Option<BudgetReport> {
    let row = state.jobs().get(&job)?;
    let spec = state.spec_of(row)?;
    let budget = DisruptionBudget::of(&spec, row, DisruptionCause::Move);
    let mut report = report_of(state, row, &budget, now_ms);
    for member in row.alloc_members().unwrap_or_default() {
        let Some(member) = state.jobs().get(member) else { continue };
        let budget = state.spec_of(member).and_then(|spec| DisruptionBudget::in_alloc(&spec, member));
        let Some(budget) = budget else { continue };
        let of_member = report_of(state, member, &budget, now_ms);
        if !of_member.is_left {
            // An alloc leaves with what is in it, so it waits for this job as well.
            let name = format!("{}/{}", member.user, member.name);
            report.text.push_str(&format!("; of job {name} in it, {}", of_member.text));
            report.is_left = false;
        }
    }
    Some(report)
}

/// The jobs in an alloc set for whose budgets its rollout waits, each with how its budget is used. An alloc leaves with
/// what is in it.
pub(super) fn rollout_waits(state: &MirrorState, set: JobId, now_ms: i64) -> Vec<String> {
    let Some(row) = state.jobs().get(&set) else { return Vec::new() };
    let is_rolling = row.rollout.as_deref().is_some_and(|rollout| rollout.state == RolloutState::Rolling);
    let mut tasks = state.job_tasks(set);
    let is_stale = |task: &&Arc<TaskRow>| task.is_healthy() && task.spec_version < row.spec_version;
    if !is_rolling || tasks.find(is_stale).is_none() {
        return Vec::new();
    }
    let members = row.alloc_members().unwrap_or_default().iter().filter_map(|job| state.jobs().get(job));
    let waits = members.filter_map(|member| {
        let budget = state.spec_of(member).and_then(|spec| DisruptionBudget::in_alloc(&spec, member))?;
        let report = report_of(state, member, &budget, now_ms);
        (!report.is_left).then(|| format!("{}/{}: {}", member.user, member.name, report.text))
    });
    waits.collect()
}

fn report_of(state: &MirrorState, row: &JobRow, budget: &DisruptionBudget, now_ms: i64) -> BudgetReport {
    let used = state.budget_use(row, budget, now_ms);
    // Its use ends where nothing is left: people want all of it.
    let away: Vec<&TaskRow> = if budget.needs_healthy() {
        let all = state.job_tasks(row.id).map(|row| &**row);
        all.filter(|task| is_away(state, budget, task, now_ms)).collect()
    } else {
        let all = state.away_tasks(row.id).chain(state.unseen_tasks(row.id));
        all.filter(|task| is_away(state, budget, task, now_ms)).collect()
    };
    let away: Vec<(u32, &str)> =
        away.into_iter().map(|task| (task.id.index, why(state, task, now_ms))).collect();
    BudgetReport {
        text: text(budget, &used, &away, now_ms),
        is_left: used.left(budget, now_ms) > 0,
        away: away.into_iter().map(|(index, _)| index).collect(),
    }
}

fn is_away(state: &MirrorState, budget: &DisruptionBudget, task: &TaskRow, now_ms: i64) -> bool {
    let uses = state.is_unseen(task) || budget.presence(task, now_ms) == TaskPresence::Away;
    task.id.index < budget.count && uses
}

/// The use of a budget in words. `away` has each task that uses some, with why.
fn text(budget: &DisruptionBudget, used: &BudgetUse, away: &[(u32, &str)], now_ms: i64) -> String {
    let are = if away.len() == 1 { "is" } else { "are" };
    let tasks = if budget.count == 1 { "task" } else { "tasks" };
    // What surges and serves stands in for as many of the owner.
    let stands_in = if budget.surge_wanted > 0 { 0 } else { used.surging };
    let most = match used.away_max(budget, now_ms).saturating_add(stands_in) {
        0 => "none may be".to_owned(),
        most => format!("{most} may be"),
    };
    let mut text = format!("{} of {} {tasks} {are} away, and {most}", away.len(), budget.count);
    if budget.surge_wanted > 0 {
        text.push_str(" before a further task surges and is healthy");
    } else if budget.surge > 0 {
        text.push_str(&surge_text(used.surging, budget.surge));
    }
    let named: Vec<String> =
        away.iter().take(NAMED_MAX).map(|(index, why)| format!("task {index} {why}")).collect();
    if !named.is_empty() {
        text.push_str(&format!(": {}", named.join(", ")));
    }
    if away.len() > NAMED_MAX {
        text.push_str(&format!(", and {} more", away.len() - NAMED_MAX));
    }
    text
}

/// What the surging tasks of a job allow: `, as 1 surging task stands in`.
fn surge_text(serving: u32, surge: u32) -> String {
    match serving {
        0 => " until a surging task serves".to_owned(),
        1 => format!(", as 1 surging task of {surge} stands in"),
        serving => format!(", as {serving} surging tasks of {surge} stand in"),
    }
}

/// Why a task is away.
fn why(state: &MirrorState, task: &TaskRow, now_ms: i64) -> &'static str {
    match task.state {
        _ if state.is_unseen(task) => "is on a node whose agent does not answer",
        TaskState::Pending if task.not_before_ms > now_ms => "has failed and pauses",
        TaskState::Pending => "waits for a node",
        TaskState::Held => "waits for room on its node",
        TaskState::Assigned | TaskState::Starting => "starts",
        TaskState::Running if task.is_healthy() => "is not healthy for long enough yet",
        TaskState::Running => "is not healthy yet",
        TaskState::Stopping | TaskState::Releasing => "ends",
        TaskState::Lost => "is lost with its node",
        TaskState::Dead => "begins again",
    }
}

#[cfg(test)]
mod tests {
    use borough_model::job::{JobAlloc, JobKind, JobState, Rollout, UpdateSpec, job_new};
    use borough_model::task::Health;
    use borough_model::{Delta, Incarnation, JobSpec, RequestId, TaskId};
    use borough_store::journal::Listed;
    use borough_testkit::job_spec;

    use super::*;

    /// Adds a running job whose tasks are in these states, and those that run of this health.
    fn add(state: &mut MirrorState, row: &JobRow, spec: &JobSpec, states: &[TaskState], running: Health) {
        state.list(Listed::Row(Box::new(Delta::Job { row: row.clone().into(), spec: None })));
        let (job, version) = (row.id, row.spec_version);
        state.list(Listed::Spec { job, version, spec: Box::new(spec.clone()) });
        for (index, is) in (0..).zip(states) {
            let id = TaskId { job, index };
            let incarnation = Incarnation(1);
            let health = if *is == TaskState::Running { running } else { Health::Unknown };
            let task = TaskRow { state: *is, revision: 1, incarnation, health, ..TaskRow::never_placed(id) };
            state.list(Listed::Row(Box::new(Delta::Task { row: task })));
        }
    }

    #[test]
    fn allocs_wait_for_the_jobs_in_them_and_the_report_names_these() {
        let (set, member) = (JobId(1), JobId(2));
        let row = |job, spec: &JobSpec, alloc| JobRow {
            count: 2,
            state: JobState::Running,
            alloc: Some(Box::new(alloc)),
            ..job_new(job, spec, RequestId(1), 0)
        };
        let spec = job_spec("ada", "places", JobKind::AllocSet);
        let set_row = row(set, &spec, JobAlloc::Set { members: vec![member] });
        let member_spec = job_spec("ada", "web", JobKind::Service);
        let member_row = row(member, &member_spec, JobAlloc::Member { set });
        let said = |inside: &[TaskState]| {
            let mut state = MirrorState::default();
            add(&mut state, &set_row, &spec, &[TaskState::Running; 2], Health::Healthy);
            add(&mut state, &member_row, &member_spec, inside, Health::Healthy);
            budget_report(&state, set, 0).unwrap()
        };
        let whole = said(&[TaskState::Running; 2]);
        assert_eq!((whole.text.as_str(), whole.is_left), ("0 of 2 tasks are away, and 1 may be", true));
        let waits = said(&[TaskState::Starting, TaskState::Running]);
        let expected = "0 of 2 tasks are away, and 1 may be; of job ada/web in it, 1 of 2 tasks is away, and 1 may be: \
                        task 0 starts";
        assert_eq!((waits.text.as_str(), waits.is_left), (expected, false));
    }

    /// Nothing else says why such a rollout goes no further.
    #[test]
    fn a_rollout_of_allocs_names_the_jobs_in_them_that_it_waits_for() {
        let (set, member) = (JobId(1), JobId(2));
        let spec = job_spec("ada", "places", JobKind::AllocSet);
        let set_row = JobRow { count: 2, state: JobState::Running, ..job_new(set, &spec, RequestId(1), 0) };
        let rolling = JobRow {
            spec_version: 2,
            rollout: Some(Box::new(Rollout::begin(&set_row, 2, "ada", 0))),
            alloc: Some(Box::new(JobAlloc::Set { members: vec![member] })),
            ..set_row
        };
        let member_spec = job_spec("ada", "web", JobKind::Service);
        let member_row = JobRow {
            count: 2,
            state: JobState::Running,
            alloc: Some(Box::new(JobAlloc::Member { set })),
            ..job_new(member, &member_spec, RequestId(1), 0)
        };
        let said = |row: &JobRow, inside: &[TaskState]| {
            let mut state = MirrorState::default();
            add(
                &mut state,
                &JobRow { spec_version: 1, ..row.clone() },
                &spec,
                &[TaskState::Running; 2],
                Health::Healthy,
            );
            state.list(Listed::Row(Box::new(Delta::Job { row: row.clone().into(), spec: None })));
            add(&mut state, &member_row, &member_spec, inside, Health::Healthy);
            rollout_waits(&state, set, 0)
        };
        let waits = ["ada/web: 1 of 2 tasks is away, and 1 may be: task 0 starts"];
        assert_eq!(said(&rolling, &[TaskState::Starting, TaskState::Running]), waits);
        assert_eq!(said(&rolling, &[TaskState::Running; 2]), [""; 0]);
        let done = JobRow { rollout: None, ..rolling };
        assert_eq!(said(&done, &[TaskState::Starting, TaskState::Running]), [""; 0]);
    }

    #[test]
    fn surging_tasks_stand_in_once_they_serve() {
        assert_eq!(surge_text(0, 1), " until a surging task serves");
        assert_eq!(surge_text(1, 1), ", as 1 surging task of 1 stands in");
        assert_eq!(surge_text(2, 3), ", as 2 surging tasks of 3 stand in");
    }

    #[test]
    fn a_budget_is_said_with_the_tasks_that_use_it() {
        let job = JobId(1);
        let mut spec = job_spec("ada", "web", JobKind::Service);
        spec.update = Some(UpdateSpec { unavailable_max: Some(2), ..UpdateSpec::default() });
        let row = job_new(job, &spec, RequestId(1), 0);
        let row = JobRow { count: 8, state: JobState::Running, ..row };
        let said = |states: &[TaskState]| {
            let mut state = MirrorState::default();
            add(&mut state, &row, &spec, states, Health::Unknown);
            budget_report(&state, job, 0).unwrap()
        };
        let report = |text: &str, is_left, away| BudgetReport {
            text: text.to_owned(),
            is_left,
            away: (0..away).collect(),
        };
        assert_eq!(said(&[]), report("0 of 8 tasks are away, and 2 may be", true, 0));
        assert_eq!(
            said(&[TaskState::Lost]),
            report("1 of 8 tasks is away, and 2 may be: task 0 is lost with its node", true, 1)
        );
        let away = [TaskState::Pending, TaskState::Stopping, TaskState::Starting, TaskState::Running];
        let expected = "4 of 8 tasks are away, and 2 may be: task 0 waits for a node, task 1 ends, task 2 starts, and 1 more";
        assert_eq!(said(&away), report(expected, false, 4));
        // No task waits for itself.
        let waits = |tasks: &[u32]| said(&away).wait_of(tasks).map(str::to_owned);
        assert_eq!(waits(&[2]), None);
        assert_eq!(waits(&[2, 5]), Some(expected.to_owned()));
    }
}
