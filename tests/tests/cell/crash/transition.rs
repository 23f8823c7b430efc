//! The transitions of a rollout, as a watch of the cell shows them.

use borough_model::job::CanaryHealth;
use borough_model::rollout::RolloutStep;
use borough_proto::v1::watch_response::Change;
use borough_proto::v1::{Health, Job, RolloutState, Task, TaskState, WatchResponse};

/// What a commit has done to a rollout, or to one of its tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Transition {
    /// A step of the controller.
    Adopt,
    Resize,
    Surge,
    Replace,
    CanariesHealthy,
    CanariesAwaited,
    Promote,
    Done,
    Fail,
    /// An order of the owner.
    Begin,
    Pause,
    Resume,
    PromoteByHand,
    Undo,
    /// A state of a task.
    Task(TaskState),
    /// It is healthy, some time after it has begun to run.
    TaskHealthy,
}

/// States that a task of a rollout passes through. Not `releasing`: an agent reports the exit of an attempt and that
/// nothing is left of it together, unless it dies in between.
const STATES: [TaskState; 6] = [
    TaskState::Pending,
    TaskState::Assigned,
    TaskState::Starting,
    TaskState::Running,
    TaskState::Stopping,
    TaskState::Dead,
];

/// The transition that a step of a rollout is. Exhaustive: a further step has to be among those of [`steps`].
const fn of_step(step: &RolloutStep) -> Option<Transition> {
    Some(match step {
        // Neither ends nor begins an attempt.
        RolloutStep::Wait { .. } | RolloutStep::Progress(_) | RolloutStep::Retry(_) => return None,
        RolloutStep::Adopt(_) => Transition::Adopt,
        RolloutStep::Resize(_) => Transition::Resize,
        RolloutStep::Surge => Transition::Surge,
        RolloutStep::Replace(_) => Transition::Replace,
        RolloutStep::Canaries(CanaryHealth::Healthy) => Transition::CanariesHealthy,
        RolloutStep::Canaries(CanaryHealth::Awaited) => Transition::CanariesAwaited,
        RolloutStep::Promote => Transition::Promote,
        RolloutStep::Done { .. } => Transition::Done,
        RolloutStep::Fail(_) => Transition::Fail,
    })
}

/// Every decision about a rollout: those of the controller, and those of the owner.
pub(crate) fn decisions() -> Vec<Transition> {
    let failure = borough_model::job::RolloutFailure::TaskFails { index: 0, failures: 1 };
    let steps = [
        RolloutStep::Wait { due_ms: None },
        RolloutStep::Progress(0),
        RolloutStep::Retry(Vec::new()),
        RolloutStep::Adopt(Vec::new()),
        RolloutStep::Resize(Vec::new()),
        RolloutStep::Surge,
        RolloutStep::Replace(Vec::new()),
        RolloutStep::Canaries(CanaryHealth::Healthy),
        RolloutStep::Canaries(CanaryHealth::Awaited),
        RolloutStep::Promote,
        RolloutStep::Done { skipped: 0 },
        RolloutStep::Fail(failure),
    ];
    let orders = [
        Transition::Begin,
        Transition::Pause,
        Transition::Resume,
        Transition::PromoteByHand,
        Transition::Undo,
    ];
    steps.iter().filter_map(of_step).chain(orders).collect()
}

/// The decisions, and every state of the tasks.
pub(crate) fn transitions() -> Vec<Transition> {
    let states = STATES.into_iter().map(Transition::Task).chain([Transition::TaskHealthy]);
    decisions().into_iter().chain(states).collect()
}

impl Transition {
    /// The transition that a change shows. `before` is the task as it was known; `None`: unknown.
    pub(crate) fn of(change: &WatchResponse, before: Option<&Task>) -> Option<Self> {
        match change.change.as_ref()? {
            Change::Job(job) => Self::of_job(job, &change.action, &change.actor),
            Change::Task(task) => Self::of_task(task, before),
            _ => None,
        }
    }

    fn of_job(job: &Job, action: &str, actor: &str) -> Option<Self> {
        let rollout = job.rollout.as_ref()?;
        Some(match action {
            "rollout_adopt" => Self::Adopt,
            "rollout_resize" => Self::Resize,
            "rollout_surge" => Self::Surge,
            "rollout_replace" => Self::Replace,
            "rollout_canaries" if rollout.canaries_healthy_ms > 0 => Self::CanariesHealthy,
            "rollout_canaries" => Self::CanariesAwaited,
            "rollout_promote" if actor.starts_with("controller") => Self::Promote,
            "rollout_promote" => Self::PromoteByHand,
            "rollout_done" => Self::Done,
            "rollout_fail" => Self::Fail,
            "rollout_order" if rollout.state() == RolloutState::Paused => Self::Pause,
            "rollout_order" if rollout.reverts > 0 => Self::Undo,
            "rollout_order" => Self::Resume,
            "job_submit" if rollout.state() == RolloutState::Rolling => Self::Begin,
            _ => return None,
        })
    }

    fn of_task(task: &Task, before: Option<&Task>) -> Option<Self> {
        let is_healthy = |task: &Task| task.health() == Health::Healthy;
        if before.is_none_or(|before| before.state() != task.state()) {
            return STATES.contains(&task.state()).then_some(Self::Task(task.state()));
        }
        let becomes_healthy = is_healthy(task) && before.is_some_and(|before| !is_healthy(before));
        becomes_healthy.then_some(Self::TaskHealthy)
    }
}
