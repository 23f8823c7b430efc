//! What a wait has seen of a rollout: the specs of the versions, and the attempts that failed.

use std::collections::BTreeMap;
use std::sync::Arc;

use borough_client::SeenJob;
use borough_model::JobSpec;
use borough_model::rollout::{AttemptFits, RolloutProgress, TaskProgress};
use borough_proto::convert::job_spec_from_message;
use borough_proto::v1::{EndReason, Health, Job, JobVersion, Rollout, RolloutState, Task, TaskState};

use super::progress::{Goal, JobProgress, KnownJob};
use super::tail::failed_helper;
use crate::output::{ExitView, canaries_text, failed_index, ranges, skipped_text, surge_waits_text, tally};

/// Failed tasks that a wait remembers.
const FAILED_MAX: usize = 64;

/// What was seen of the version of a goal.
#[derive(Clone, Debug, Default)]
pub(super) struct RolloutSeen {
    /// The version; 0: the goal is no rollout.
    version: u32,
    specs: BTreeMap<u32, Arc<JobSpec>>,
    /// The version in force when the specs were read: nothing is asked twice.
    specs_at: u32,
    /// The tasks of that version that failed most often in a row, as they were then. Attempts of the version before
    /// take their place when the version is taken back.
    failed: Vec<Task>,
    /// A task of that version that ran and was not healthy, as it was last seen.
    unhealthy: Option<Task>,
    /// Whether the cell says that what surges has no node. Before that, no worker may have looked for one yet.
    surge_refused: bool,
}

impl RolloutSeen {
    /// Takes a newer row of a task into account.
    pub(super) fn visit(&mut self, task: &Task) {
        if self.version == 0 || task.spec_version != self.version {
            return;
        }
        let is_its = task.exit.as_ref().is_some_and(|exit| exit.incarnation == task.incarnation);
        let known = self.failed.iter().position(|failed| failed.index == task.index);
        let most = known.and_then(|at| self.failed.get(at)).map_or(0, |failed| failed.failures);
        if is_its && task.failures > most {
            known.map(|at| self.failed.remove(at));
            self.failed.push(task.clone());
            self.failed.sort_by_key(|failed| std::cmp::Reverse(failed.failures));
            self.failed.truncate(FAILED_MAX);
        }
        if task.state() == TaskState::Running && task.health() != Health::Healthy {
            self.unhealthy = Some(task.clone());
        }
    }
}

impl KnownJob {
    /// Says what the rows are read for.
    pub(super) fn goal_set(&mut self, goal: Goal) {
        let Goal::RolledOut { version } = goal else { return };
        if self.rollout.version != version {
            self.rollout = RolloutSeen { version, ..RolloutSeen::default() };
            self.seen.tasks.values().for_each(|task| self.rollout.visit(task));
        }
    }

    /// Takes what the cell says about tasks that surge and have no node.
    pub(super) fn surge_refused_set(&mut self, is_refused: bool) {
        self.rollout.surge_refused = is_refused;
    }

    /// Keeps what an earlier list of the rows has shown.
    pub(super) fn seen_keep(&mut self, before: Self) {
        if before.seen.job.id == self.seen.job.id {
            self.rollout = before.rollout;
            self.seen.tasks.values().for_each(|task| self.rollout.visit(task));
        }
    }

    /// Returns true if the spec in force was asked for.
    pub(super) fn has_spec(&self) -> bool {
        self.rollout.specs_at == self.seen.job.spec_version
    }

    /// Adds the specs of this job's versions.
    pub(super) fn specs_add(&mut self, versions: &[JobVersion]) {
        let of_job =
            |version: &&JobVersion| version.job.as_ref().is_some_and(|job| job.id == self.seen.job.id);
        let read = |version: &JobVersion| {
            let spec = job_spec_from_message(version.spec.as_ref()?).ok()?;
            Some((version.version, Arc::new(spec)))
        };
        self.rollout.specs_at = self.seen.job.spec_version;
        self.rollout.specs = versions.iter().filter(of_job).filter_map(read).collect();
    }

    /// The progress of the rollout of a version. A version that is taken back is lost when every task is back.
    pub(super) fn rollout_progress(&self, version: u32, name: &str) -> JobProgress {
        let Some(rollout) = &self.seen.job.rollout else { return JobProgress::Reached };
        let over = !matches!(rollout.state(), RolloutState::Rolling | RolloutState::Paused);
        let why = &rollout.failure;
        if rollout.version == version {
            return match rollout.state() {
                RolloutState::Done => self.up_progress(name),
                RolloutState::Failed => JobProgress::Lost(format!(
                    "{name}: the rollout of version {version} failed: {why}{}",
                    self.last_end()
                )),
                // A person may take any time to look at them.
                _ if rollout.canaries_healthy_ms > 0 => JobProgress::Reached,
                _ => JobProgress::Underway,
            };
        }
        if takes_back(rollout, version) {
            let back = rollout.version;
            return match rollout.state() {
                _ if !over => JobProgress::Underway,
                RolloutState::Failed => JobProgress::Lost(format!(
                    "{name}: version {version} failed, and so did the way back as version {back}: {why}{}",
                    self.last_end()
                )),
                _ if why.is_empty() => {
                    JobProgress::Lost(format!("{name}: {} took version {version} back", rollout.by))
                }
                _ => JobProgress::Lost(format!(
                    "{name}: version {version} was taken back: {why}{}",
                    self.last_end()
                )),
            };
        }
        if rollout.version > version {
            let (next, by) = (rollout.version, &rollout.by);
            return JobProgress::Lost(format!("{name}: version {next} by {by} superseded version {version}"));
        }
        JobProgress::Underway
    }

    /// Returns true if the owner has paused the rollout: nothing goes on by itself.
    pub(super) fn is_paused(&self) -> bool {
        self.seen.job.rollout.as_ref().is_some_and(|rollout| rollout.state() == RolloutState::Paused)
    }

    /// Returns true if the rollout of the version is done, and tasks that it does not concern are not healthy.
    pub(super) fn is_rolled_out(&self, version: u32) -> bool {
        let rollout = self.seen.job.rollout.as_ref().filter(|rollout| rollout.version == version);
        let is_done = rollout.is_some_and(|rollout| rollout.state() == RolloutState::Done);
        is_done && self.up_progress("") == JobProgress::Underway
    }

    /// Returns true if each task of the rollout is healthy, and only its end is missing.
    pub(super) fn is_all_but_reached(&self, goal: Goal) -> bool {
        let Goal::RolledOut { version } = goal else { return false };
        let RolloutProgress { concerned, healthy, .. } = self.rollout_counts(version);
        let name = format!("{}/{}", self.seen.job.user, self.seen.job.name);
        let plain = format!("{name}: {healthy}/{concerned} healthy with version {version}");
        concerned > 0 && healthy == concerned && self.rollout_text(version) == plain
    }

    /// How far the rollout of a version is, in one line.
    pub(super) fn rollout_text(&self, version: u32) -> String {
        let name = format!("{}/{}", self.seen.job.user, self.seen.job.name);
        let rollout = self.seen.job.rollout.clone().unwrap_or_default();
        let of = rollout.version.max(version);
        let RolloutProgress { concerned, healthy, .. } = self.rollout_counts(of);
        let mut text = match concerned {
            0 => format!("{name}: {}", self.unconcerned_text(of)),
            _ => format!("{name}: {healthy}/{concerned} healthy with version {of}"),
        };
        if rollout.canaries_healthy_ms > 0 {
            let canaries = canaries_text(rollout.canaries);
            return format!(
                "{name}: {canaries} healthy with version {of}; to go on: borough rollout promote {name}; to take it \
                 back: borough rollout undo {name}"
            );
        }
        if rollout.canaries > 0 {
            text =
                format!("{name}: waits until {} healthy with version {of}", canaries_text(rollout.canaries));
        }
        if self.surging() > 0 && concerned > 0 {
            text.push_str(&format!(", {} surging", self.surging()));
        }
        if self.is_paused() {
            text.push_str(&format!(", paused; to go on: borough rollout resume {name}"));
        }
        if rollout.skipped > 0 {
            text.push_str(&format!("; {}", skipped_text(rollout.skipped, Some(self.seen.job.kind()))));
        }
        let unplaced = self.surge_unplaced();
        if unplaced > 0 && concerned > 0 && self.rollout.surge_refused {
            text.push_str(&format!("; {} (borough why {name})", surge_waits_text(unplaced)));
        }
        text.push_str(&self.refused_text(of, &name));
        if rollout.reverts > 0 && !rollout.failure.is_empty() {
            let Rollout { reverts, failure, .. } = rollout;
            text.push_str(&format!("; it takes back version {reverts}, because {failure}"));
        }
        text
    }

    /// Which tasks were not resized to what a version asks for, and why the first was not. Empty: none.
    fn refused_text(&self, version: u32, name: &str) -> String {
        let is_refused = |task: &&Task| {
            task.resize
                .as_ref()
                .is_some_and(|resize| !resize.refused.is_empty() && resize.spec_version >= version)
        };
        let refused: Vec<&Task> = self.seen.wanted().filter(is_refused).collect();
        let Some((first, resize)) =
            refused.first().and_then(|task| Some((task.index, task.resize.as_ref()?)))
        else {
            return String::new();
        };
        let more = match refused.len().saturating_sub(1) {
            0 => String::new(),
            more => format!("; nor {}", tally(more, "other task")),
        };
        format!("; task {first} was not resized: {}{more} (borough why {name})", resize.refused)
    }

    /// What is waited for when a version concerns no task: what surges ends, and other tasks may not be healthy.
    fn unconcerned_text(&self, version: u32) -> String {
        let is_pending =
            |index: &u32| self.seen.tasks.get(index).is_none_or(|task| task.state() == TaskState::Pending);
        let pending: Vec<u32> = (0..self.seen.job.count).filter(is_pending).collect();
        let unhealthy =
            self.seen.job.count.saturating_sub(u32::try_from(self.seen.healthy()).unwrap_or(u32::MAX));
        let needs = format!("version {version} needs no new attempt");
        match (pending.as_slice(), unhealthy) {
            ([], 0) if self.surging() > 0 => format!("{needs}; what surges ends"),
            // The count may be another one by the same file.
            ([], 0) => format!("{needs}; {0}/{0} healthy", self.seen.job.count),
            _ if pending.iter().all(|index| self.backs_off(*index)) && !pending.is_empty() => {
                let one = pending.len() == 1;
                let tasks = format!("{} {}", if one { "task" } else { "tasks" }, ranges(&pending));
                format!("waits for {tasks}, which {} after failures", if one { "pauses" } else { "pause" })
            }
            ([], tasks) => {
                let tasks = tally(usize::try_from(tasks).unwrap_or(usize::MAX), "task");
                format!("{needs}; {tasks} not healthy")
            }
            ([index], _) => format!("waits for task {index}, which has no node"),
            (indexes, _) => {
                format!(
                    "waits for {} ({}), which have no node",
                    tally(indexes.len(), "task"),
                    ranges(indexes)
                )
            }
        }
    }

    /// Returns true if a task has failed and waits for the end of its pause.
    fn backs_off(&self, index: u32) -> bool {
        self.seen.tasks.get(&index).is_some_and(|task| task.failures > 0 && task.not_before_ms > 0)
    }

    /// The counts of the rollout of `version`, over the tasks that it concerns.
    pub(super) fn rollout_counts(&self, version: u32) -> RolloutProgress {
        let specs = &self.rollout.specs;
        let Some(spec) = specs.get(&self.seen.job.spec_version) else {
            return self.counts_of_all(version);
        };
        let (kind, mut fits) = (spec.kind, AttemptFits::new(self.seen.job.spec_version, Arc::clone(spec)));
        let mut progress = RolloutProgress::default();
        for task in self.seen.wanted() {
            let fit = fits.fit_of(task.index, task.spec_version, |version| specs.get(&version).cloned());
            let state = task_state(task.state());
            let is_healthy = SeenJob::is_healthy(task);
            let task =
                TaskProgress { version: task.spec_version, fit, state, is_healthy, failures: task.failures };
            progress.visit(task, version, kind);
        }
        let known = u32::try_from(self.seen.wanted().count()).unwrap_or(u32::MAX);
        progress.concerned = progress.concerned.saturating_add(self.seen.job.count.saturating_sub(known));
        progress
    }

    /// As if the rollout concerned every task.
    fn counts_of_all(&self, version: u32) -> RolloutProgress {
        let has = |task: &&Task| task.spec_version >= version && SeenJob::is_healthy(task);
        let healthy = u32::try_from(self.seen.wanted().filter(has).count()).unwrap_or(u32::MAX);
        RolloutProgress { concerned: self.seen.job.count, updated: healthy, healthy }
    }

    /// Returns true if the rollout of the goal has failed, whether the version is taken back or not.
    pub(super) fn is_rollout_failed(&self) -> bool {
        let Job { rollout: Some(rollout), .. } = &self.seen.job else { return false };
        let version = self.rollout.version;
        let failed = rollout.version == version && rollout.state() == RolloutState::Failed;
        version > 0 && (failed || (takes_back(rollout, version) && !rollout.failure.is_empty()))
    }

    /// Returns true if the last rollout has failed and nothing takes its version back: the owner may.
    pub(super) fn is_rollout_stopped(&self) -> bool {
        self.seen.job.rollout.as_ref().is_some_and(|rollout| rollout.state() == RolloutState::Failed)
    }

    /// The task whose attempt made the rollout fail, as it was then.
    pub(super) fn failed_attempt(&self) -> Option<&Task> {
        self.failed_most().or(self.rollout.unhealthy.as_ref())
    }

    /// The task that the cell names, or else the one that failed most often.
    fn failed_most(&self) -> Option<&Task> {
        let failure = self.seen.job.rollout.as_ref().map_or("", |rollout| rollout.failure.as_str());
        let failed = &self.rollout.failed;
        let named = failed_index(failure);
        failed.iter().find(|task| Some(task.index) == named).or_else(|| failed.first())
    }

    /// The task whose attempt made the rollout fail, with the option of `task logs` that shows that attempt.
    pub(super) fn failed_logs(&self) -> Option<String> {
        let task = self.failed_attempt()?;
        let goes_on = task.failures == 0 && self.seen.job.rollout.as_ref()?.version == self.rollout.version;
        let helper = failed_helper(task);
        let is_unstarted = task.exit.as_ref().is_some_and(|exit| exit.reason() == EndReason::StartFailed);
        // An attempt that never started has written nothing.
        if is_unstarted && helper.is_empty() {
            return None;
        }
        let helper = if helper.is_empty() { String::new() } else { format!(" --helper {helper}") };
        let previous = if goes_on { "" } else { " --previous" };
        Some(format!("{}{previous}{helper}", task.index))
    }

    /// How the last attempt of the version ended that failed: `; its attempt ended with exit code 7`. Empty without
    /// one.
    pub(super) fn last_end(&self) -> String {
        let failed = self.failed_most().and_then(|task| task.exit.clone());
        let how = failed.map(|exit| ExitView::from(exit).text());
        how.map(end_text).unwrap_or_default()
    }
}

fn end_text(how: String) -> String {
    for (begin, own) in
        [("stopped: ", "its attempt was ended"), ("start failed: ", "its attempt did not start")]
    {
        if let Some(why) = how.strip_prefix(begin) {
            return format!("; {own}: {why}");
        }
    }
    format!("; its attempt ended with {how}")
}

/// Returns true if a rollout takes a version back. The versions after the one that it names differ from that one in
/// metadata only: its rollout brought them too.
fn takes_back(rollout: &Rollout, version: u32) -> bool {
    rollout.reverts > 0 && (rollout.reverts..rollout.version).contains(&version)
}

/// The state of a task as the model has it. One of a newer gateway counts as pending.
fn task_state(state: TaskState) -> borough_model::TaskState {
    use borough_model::TaskState as Model;
    match state {
        TaskState::Unspecified | TaskState::Pending => Model::Pending,
        TaskState::Held => Model::Held,
        TaskState::Assigned => Model::Assigned,
        TaskState::Starting => Model::Starting,
        TaskState::Running => Model::Running,
        TaskState::Stopping => Model::Stopping,
        TaskState::Releasing => Model::Releasing,
        TaskState::Lost => Model::Lost,
        TaskState::Dead => Model::Dead,
    }
}

#[cfg(test)]
mod tests {
    use borough_model::Name;
    use borough_model::job::JobKind;
    use borough_proto::v1::{Exit, TaskResize};

    use super::super::progress::tests::{service, task};
    use super::*;

    /// What the version is taken back for is not how far the way back is, and what surges may have no node.
    #[test]
    fn a_task_that_is_not_resized_is_named_with_the_figures() {
        let mut known = service(2);
        known.goal_set(Goal::RolledOut { version: 2 });
        known.seen.job.rollout =
            Some(Rollout { state: RolloutState::Rolling.into(), version: 2, ..Rollout::default() });
        for index in [0, 1] {
            let refused = "it uses 2MiB".to_owned();
            let resize = Some(TaskResize { spec_version: 2, refused, ..TaskResize::default() });
            known.task_changed(Task { resize, ..task(index, TaskState::Running, Health::Healthy) });
        }
        let text = known.rollout_text(2);
        assert!(
            text.ends_with(
                "; task 0 was not resized: it uses 2MiB; nor 1 other task (borough why alice/web)"
            ),
            "{text}"
        );
    }

    #[test]
    fn the_progress_of_a_way_back_and_its_reason_are_two_things() {
        let mut known = service(2);
        known.goal_set(Goal::RolledOut { version: 2 });
        let mut rollout =
            Rollout { state: RolloutState::Rolling.into(), version: 2, surge: 2, ..Rollout::default() };
        known.seen.job.rollout = Some(rollout.clone());
        // In the first moment nobody has looked for a node yet.
        assert_eq!(known.rollout_text(2), "alice/web: 0/2 healthy with version 2");
        known.surge_refused_set(true);
        let text =
            "alice/web: 0/2 healthy with version 2; 2 surging tasks wait for a node (borough why alice/web)";
        assert_eq!(known.rollout_text(2), text);
        known.task_changed(task(2, TaskState::Starting, Health::Unknown));
        let text = "alice/web: 0/2 healthy with version 2, 1 surging; 1 surging task waits for a node \
                    (borough why alice/web)";
        assert_eq!(known.rollout_text(2), text);
        known.task_changed(Task { failures: 1, ..task(3, TaskState::Pending, Health::Unknown) });
        (rollout.version, rollout.reverts) = (3, 2);
        rollout.failure = "task 3 failed".to_owned();
        known.seen.job.rollout = Some(rollout);
        let text = "alice/web: 0/2 healthy with version 3, 1 surging; it takes back version 2, because task 3 failed";
        assert_eq!(known.rollout_text(2), text);
    }

    /// The answer says it a moment later, and nobody reads it twice.
    #[test]
    fn a_rollout_of_which_only_the_end_is_missing_has_no_progress_to_show() {
        let mut known = service(2);
        let goal = Goal::RolledOut { version: 2 };
        known.goal_set(goal);
        known.seen.job.rollout =
            Some(Rollout { state: RolloutState::Rolling.into(), version: 2, ..Rollout::default() });
        let of = |index, health| Task { spec_version: 2, ..task(index, TaskState::Running, health) };
        known.task_changed(of(0, Health::Healthy));
        known.task_changed(of(1, Health::Unknown));
        assert!(!known.is_all_but_reached(goal));
        known.task_changed(Task { revision: 2, ..of(1, Health::Healthy) });
        assert!(known.is_all_but_reached(goal) && !known.is_all_but_reached(Goal::Up));
        assert_eq!(known.rollout_text(2), "alice/web: 2/2 healthy with version 2");
    }

    /// A version that no task needs still waits for those of the job, and what surged for the one before ends.
    #[test]
    fn a_version_that_no_task_needs_waits_for_the_tasks_of_the_job() {
        let mut known = service(2);
        known.goal_set(Goal::RolledOut { version: 3 });
        let (state, version) = (RolloutState::Rolling.into(), 3);
        known.seen.job.rollout = Some(Rollout { state, version, surge: 1, ..Rollout::default() });
        let (user, name) = (Name::new("alice").unwrap(), Name::new("web").unwrap());
        let spec = JobSpec::defaults(user, name, JobKind::Service, vec!["serve".to_owned()]);
        known.seen.job.spec_version = 3;
        known.rollout.specs = BTreeMap::from([(1, Arc::new(spec.clone())), (3, Arc::new(spec))]);
        let of =
            |index, state, health, failures| Task { spec_version: 1, failures, ..task(index, state, health) };
        known.task_changed(of(0, TaskState::Running, Health::Healthy, 0));
        known.task_changed(of(1, TaskState::Pending, Health::Unknown, 1));
        let text = |known: &KnownJob| known.rollout_text(3);
        assert_eq!(text(&known), "alice/web: waits for task 1, which has no node");
        known.task_changed(Task {
            revision: 2,
            not_before_ms: 9,
            ..of(1, TaskState::Pending, Health::Unknown, 1)
        });
        assert_eq!(text(&known), "alice/web: waits for task 1, which pauses after failures");
        known.task_changed(Task { revision: 3, ..of(1, TaskState::Running, Health::Unknown, 1) });
        assert_eq!(text(&known), "alice/web: version 3 needs no new attempt; 1 task not healthy");
        known.task_changed(Task { revision: 4, ..of(1, TaskState::Running, Health::Healthy, 0) });
        assert_eq!(text(&known), "alice/web: version 3 needs no new attempt; 2/2 healthy");
        known.task_changed(of(2, TaskState::Running, Health::Healthy, 0));
        assert_eq!(text(&known), "alice/web: version 3 needs no new attempt; what surges ends");
    }

    /// When the version is taken back, an attempt of the one before takes the place of the one that failed.
    #[test]
    fn the_end_of_a_failed_version_is_remembered_when_it_is_taken_back() {
        let goal = Goal::RolledOut { version: 2 };
        let mut known = service(1);
        known.goal_set(goal);
        let exit = Exit { reason: EndReason::Exited.into(), code: Some(7), ..Exit::default() };
        let failed = Task {
            spec_version: 2,
            failures: 3,
            exit: Some(exit),
            ..task(0, TaskState::Pending, Health::Unknown)
        };
        known.task_changed(failed);
        assert!(!known.is_rollout_failed());
        let rollout = |state: RolloutState| Rollout {
            state: state.into(),
            version: 3,
            reverts: 2,
            failure: "task 0 failed 3 times in a row".to_owned(),
            ..Rollout::default()
        };
        known.seen.job.rollout = Some(rollout(RolloutState::Rolling));
        assert!(known.is_rollout_failed() && known.progress(goal) == JobProgress::Underway);
        let back = Task { spec_version: 3, revision: 9, ..task(0, TaskState::Running, Health::Healthy) };
        known.task_changed(back);
        known.seen.job.rollout = Some(rollout(RolloutState::Done));
        let why = "alice/web: version 2 was taken back: task 0 failed 3 times in a row; its attempt ended with exit code 7";
        assert_eq!(known.progress(goal), JobProgress::Lost(why.to_owned()));
        assert_eq!(known.failed_attempt().map(|task| task.spec_version), Some(2));
        assert_eq!(known.failed_logs().as_deref(), Some("0 --previous"));
    }

    #[test]
    fn a_version_that_did_not_start_has_no_output_to_show() {
        let mut known = service(1);
        known.goal_set(Goal::RolledOut { version: 2 });
        let message = "cannot execute \"pyhton3\": no directory of its PATH has it".to_owned();
        let exit = Exit { reason: EndReason::StartFailed.into(), message, ..Exit::default() };
        let failed = Task {
            spec_version: 2,
            failures: 3,
            exit: Some(exit),
            ..task(0, TaskState::Pending, Health::Unknown)
        };
        known.task_changed(failed);
        assert_eq!(known.failed_logs(), None);
        let end = "; its attempt did not start: cannot execute \"pyhton3\": no directory of its PATH has it";
        assert_eq!(known.last_end(), end);
    }

    /// A task that the change does not concern may fail as before.
    #[test]
    fn a_wait_goes_on_with_the_service_once_its_rollout_is_done() {
        let (mut known, goal) = (service(1), Goal::RolledOut { version: 2 });
        known.goal_set(goal);
        known.seen.job.rollout =
            Some(Rollout { state: RolloutState::Done.into(), version: 2, ..Rollout::default() });
        let exit = Exit { reason: EndReason::Exited.into(), code: Some(3), ..Exit::default() };
        let failed = Task { failures: 4, exit: Some(exit), ..task(0, TaskState::Pending, Health::Unknown) };
        known.task_changed(failed);
        assert_eq!(known.progress(goal), JobProgress::Underway);
        assert_eq!(known.text(goal), known.text(Goal::Up));
        assert!(known.text(goal).contains("task 0 ended with exit code 3"), "{}", known.text(goal));
    }

    /// A label in between makes a version too. Whoever waits for one of both hears why it was taken back.
    #[test]
    fn a_version_that_is_taken_back_with_later_metadata_is_not_superseded() {
        let mut known = service(1);
        known.seen.job.rollout = Some(Rollout {
            state: RolloutState::Done.into(),
            version: 4,
            reverts: 2,
            failure: "task 0 failed 3 times in a row".to_owned(),
            by: "controller".to_owned(),
            ..Rollout::default()
        });
        for version in [2, 3] {
            let goal = Goal::RolledOut { version };
            known.goal_set(goal);
            let why = format!("alice/web: version {version} was taken back: task 0 failed 3 times in a row");
            assert!(known.is_rollout_failed());
            assert_eq!(known.progress(goal), JobProgress::Lost(why));
        }
        let superseded = "alice/web: version 4 by controller superseded version 1".to_owned();
        assert_eq!(known.progress(Goal::RolledOut { version: 1 }), JobProgress::Lost(superseded));
    }
}
