//! Options of lists: which rows, and which part of them.

use borough_proto::v1::{JobState, LabelMatch, NodeCondition, NodeState, TaskState};
use clap::Args;

/// Which part of a list is shown.
#[derive(Clone, Debug, Default, Args)]
pub struct ListArguments {
    /// Show at most this many rows [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: Option<u32>,
    /// Go on behind the rows of an earlier list, by the page that it named
    #[arg(long, value_name = "PAGE")]
    pub page: Option<String>,
    #[command(flatten)]
    pub watching: WatchArguments,
}

/// Whether something is shown once or again and again.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct WatchArguments {
    /// Show again after each change: redraw a terminal, otherwise write what has changed
    #[arg(short, long)]
    pub watch: bool,
}

/// One condition of `--label`.
pub(super) fn label_match(text: &str) -> Result<LabelMatch, String> {
    let accepted = || "accepted: KEY=VALUE or KEY!=VALUE, with commas between".to_owned();
    let (key, value) = text.split_once('=').ok_or_else(accepted)?;
    let (key, not) = key.strip_suffix('!').map_or((key, false), |key| (key, true));
    if key.is_empty() {
        return Err(accepted());
    }
    Ok(LabelMatch { key: key.to_owned(), value: value.to_owned(), not })
}

/// The states of jobs, as the output shows them.
const JOB_STATES: [(&str, JobState); 7] = [
    ("waiting", JobState::Waiting),
    ("running", JobState::Running),
    ("stopping", JobState::Stopping),
    ("succeeded", JobState::Succeeded),
    ("failed", JobState::Failed),
    ("stopped", JobState::Stopped),
    ("dependency_failed", JobState::DependencyFailed),
];

/// The states of tasks, as the output shows them.
const TASK_STATES: [(&str, TaskState); 9] = [
    ("pending", TaskState::Pending),
    ("held", TaskState::Held),
    ("assigned", TaskState::Assigned),
    ("starting", TaskState::Starting),
    ("running", TaskState::Running),
    ("stopping", TaskState::Stopping),
    ("releasing", TaskState::Releasing),
    ("lost", TaskState::Lost),
    ("dead", TaskState::Dead),
];

/// What the column STATE of nodes shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeStateOrCondition {
    State(NodeState),
    Condition(NodeCondition),
}

/// The words of the column STATE of nodes. It shows `_` as a space.
const NODE_STATES: [(&str, NodeStateOrCondition); 9] = [
    ("ready", NodeStateOrCondition::State(NodeState::Ready)),
    ("recovering", NodeStateOrCondition::State(NodeState::Recovering)),
    ("lost", NodeStateOrCondition::State(NodeState::Lost)),
    ("draining", NodeStateOrCondition::Condition(NodeCondition::Draining)),
    ("cordoned", NodeStateOrCondition::Condition(NodeCondition::Cordoned)),
    ("tainted", NodeStateOrCondition::Condition(NodeCondition::Tainted)),
    ("silent", NodeStateOrCondition::Condition(NodeCondition::Silent)),
    ("not_connected", NodeStateOrCondition::Condition(NodeCondition::NotConnected)),
    ("session_failing", NodeStateOrCondition::Condition(NodeCondition::SessionFailing)),
];

fn state<S: Copy>(known: &[(&'static str, S)], word: &str) -> Result<S, String> {
    let found = known.iter().find(|(name, _)| *name == word);
    found.map(|&(_, state)| state).ok_or_else(|| format!("accepted: {}", words(known)))
}

fn words<S>(known: &[(&'static str, S)]) -> String {
    known.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ")
}

pub(super) fn task_state(word: &str) -> Result<TaskState, String> {
    state(&TASK_STATES, word)
}

pub(super) fn node_state(word: &str) -> Result<NodeStateOrCondition, String> {
    state(&NODE_STATES, &word.trim().replace(' ', "_"))
}

/// The words that `--state` of `node list` takes.
pub(crate) fn node_state_names() -> impl Iterator<Item = &'static str> {
    NODE_STATES.iter().map(|(word, _)| *word)
}

/// The words that `--state` takes for tasks.
pub(crate) fn task_state_names() -> impl Iterator<Item = &'static str> {
    TASK_STATES.iter().map(|(word, _)| *word)
}

/// The words that `--state` takes for jobs.
pub(crate) fn job_state_names() -> impl Iterator<Item = &'static str> {
    JOB_STATES.iter().map(|(word, _)| *word)
}

/// The words of the states of tasks.
pub(crate) fn task_state_words() -> String {
    words(&TASK_STATES)
}

/// The words of the states of jobs.
pub(crate) fn job_state_words() -> String {
    words(&JOB_STATES)
}

/// A state of a task or of a job: some words are both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskOrJobState {
    pub word: String,
    pub task: Option<TaskState>,
    pub job: Option<JobState>,
}

pub(super) fn task_or_job_state(word: &str) -> Result<TaskOrJobState, String> {
    match (state(&TASK_STATES, word), state(&JOB_STATES, word)) {
        (Err(tasks), Err(jobs)) => Err(format!("for the tasks of a job, {tasks}; for jobs, {jobs}")),
        (task, job) => Ok(TaskOrJobState { word: word.to_owned(), task: task.ok(), job: job.ok() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_as_they_are_written() {
        let of = |text: &str| label_match(text).map(|is| (is.key, is.value, is.not));
        let is = |key: &str, value: &str, not| Ok((key.to_owned(), value.to_owned(), not));
        assert_eq!(of("app=web"), is("app", "web", false));
        assert_eq!(of("app!=web"), is("app", "web", true));
        assert_eq!(of("app="), is("app", "", false));
        assert_eq!(of("a=b!=c"), is("a", "b!=c", false));
        for bad in ["", "app", "=web", "!=web"] {
            assert!(of(bad).unwrap_err().starts_with("accepted: KEY=VALUE"), "{bad}");
        }
    }

    #[test]
    fn states_have_the_words_of_the_output() {
        let running = task_or_job_state("running").unwrap();
        assert_eq!((running.task, running.job), (Some(TaskState::Running), Some(JobState::Running)));
        assert_eq!(task_or_job_state("dead").unwrap().job, None);
        assert_eq!(task_or_job_state("failed").unwrap().task, None);
        assert!(task_or_job_state("runing").unwrap_err().contains("dependency_failed"));
        assert_eq!(node_state("lost"), Ok(NodeStateOrCondition::State(NodeState::Lost)));
        let unconnected = NodeStateOrCondition::Condition(NodeCondition::NotConnected);
        assert_eq!([" not connected", "not_connected"].map(node_state), [Ok(unconnected), Ok(unconnected)]);
        for (word, state) in TASK_STATES {
            assert_eq!(state.as_str_name(), format!("TASK_STATE_{}", word.to_uppercase()));
        }
        for (word, state) in JOB_STATES {
            assert_eq!(state.as_str_name(), format!("JOB_STATE_{}", word.to_uppercase()));
        }
        for (word, state) in NODE_STATES {
            let name = match state {
                NodeStateOrCondition::State(state) => state.as_str_name().replace("NODE_STATE_", ""),
                NodeStateOrCondition::Condition(condition) => {
                    condition.as_str_name().replace("NODE_CONDITION_", "")
                }
            };
            assert_eq!(name, word.to_uppercase());
        }
    }
}
