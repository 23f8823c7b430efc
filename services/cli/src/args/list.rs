//! Options of lists: which rows, and which part of them.

use borough_model::job::file::nearest;
use borough_model::node::selector_check;
use borough_proto::v1::{JobState, LabelMatch, NodeCondition, NodeState, TaskCondition, TaskState};
use clap::Args;

/// Which part of a list is shown.
#[derive(Clone, Debug, Default, Args)]
pub struct ListArguments {
    /// Show at most this many rows, from 1 [default: all]
    #[arg(long, value_name = "N", value_parser = super::number::whole(1..=u32::MAX))]
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

/// Jobs by their labels.
#[derive(Clone, Debug, Default, Args)]
pub struct JobLabels {
    /// Instead of a name: all of your jobs that have these labels, or their tasks; lists them and asks
    #[arg(short, long, value_parser = label_conditions, value_name = "KEY=VALUE,KEY!=VALUE")]
    pub label: Vec<LabelConditions>,
    /// With --label: of the jobs of every user
    #[arg(short, long, requires = "label")]
    pub all: bool,
}

/// Jobs by their labels, for verbs that change nothing.
#[derive(Clone, Debug, Default, Args)]
pub struct ShownJobLabels {
    /// Instead of names: every job of yours with labels like this
    #[arg(short, long, value_parser = label_conditions, value_name = "KEY=VALUE,KEY!=VALUE")]
    pub label: Vec<LabelConditions>,
    /// With --label: the jobs of every user
    #[arg(short, long, requires = "label")]
    pub all: bool,
}

impl From<ShownJobLabels> for JobLabels {
    fn from(ShownJobLabels { label, all }: ShownJobLabels) -> Self {
        Self { label, all }
    }
}

/// A value of `--label`: conditions with commas between. A comma of a value has a backslash before it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LabelConditions(Vec<LabelMatch>);

/// All conditions of a command line.
pub(crate) fn conditions_of(values: &[LabelConditions]) -> Vec<LabelMatch> {
    values.iter().flat_map(|LabelConditions(conditions)| conditions).cloned().collect()
}

/// Reads a value of `--label`.
pub(super) fn label_conditions(text: &str) -> Result<LabelConditions, String> {
    let conditions = conditions_apart(text).into_iter().map(|condition| label_match(&condition));
    let several = text.contains(',');
    conditions.collect::<Result<_, _>>().map(LabelConditions).map_err(|refusal| {
        if several && refusal.starts_with("accepted: KEY") {
            format!("{refusal}; a comma within a value: {COMMA}")
        } else {
            refusal
        }
    })
}

/// A comma that ends no condition.
pub(crate) const COMMA: &str = r"\,";

/// The conditions of a text, without the backslashes before their commas.
fn conditions_apart(text: &str) -> Vec<String> {
    let mut conditions = vec![String::new()];
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (taken, is_end) =
            if rest.starts_with(COMMA) { (COMMA.len(), false) } else { (first.len_utf8(), first == ',') };
        match conditions.last_mut() {
            _ if is_end => conditions.push(String::new()),
            Some(condition) => condition.push(if taken == first.len_utf8() { first } else { ',' }),
            None => {}
        }
        rest = rest.get(taken..).unwrap_or_default();
    }
    conditions
}

/// A value of a label as `--label` takes it.
pub(crate) fn condition_value(value: &str) -> String {
    value.replace(',', COMMA)
}

/// One condition of `--label`. `==` is `=`, as Kubernetes has it.
pub(super) fn label_match(text: &str) -> Result<LabelMatch, String> {
    let accepted = || "accepted: KEY=VALUE or KEY!=VALUE, with commas between".to_owned();
    let (key, value) = text.split_once('=').ok_or_else(accepted)?;
    let (key, not) = key.strip_suffix('!').map_or((key, false), |key| (key, true));
    let value = value.strip_prefix('=').filter(|_| !not).unwrap_or(value);
    if key.is_empty() {
        return Err(accepted());
    }
    condition_check(key, value)?;
    Ok(LabelMatch { key: key.to_owned(), value: value.to_owned(), not })
}

/// Checks the parts of a condition, so that a refusal has what the user has typed.
fn condition_check(key: &str, value: &str) -> Result<(), String> {
    let errors = selector_check("", std::iter::once((key, value))).err().unwrap_or_default();
    errors.first().map_or(Ok(()), |error| {
        let part = if error.path.ends_with("key") { "key" } else { "value" };
        Err(format!("has the {part} {}; accepted: {}", error.value, error.accepted))
    })
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

/// The state of a task, or how it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskStateOrCondition {
    State(TaskState),
    Condition(TaskCondition),
}

/// The states of tasks, as the output shows them, and how tasks end, as jobs do.
const TASK_STATES: [(&str, TaskStateOrCondition); 12] = [
    ("pending", TaskStateOrCondition::State(TaskState::Pending)),
    ("held", TaskStateOrCondition::State(TaskState::Held)),
    ("assigned", TaskStateOrCondition::State(TaskState::Assigned)),
    ("starting", TaskStateOrCondition::State(TaskState::Starting)),
    ("running", TaskStateOrCondition::State(TaskState::Running)),
    ("stopping", TaskStateOrCondition::State(TaskState::Stopping)),
    ("releasing", TaskStateOrCondition::State(TaskState::Releasing)),
    ("lost", TaskStateOrCondition::State(TaskState::Lost)),
    ("dead", TaskStateOrCondition::State(TaskState::Dead)),
    ("failed", TaskStateOrCondition::Condition(TaskCondition::Failed)),
    ("succeeded", TaskStateOrCondition::Condition(TaskCondition::Succeeded)),
    ("stopped", TaskStateOrCondition::Condition(TaskCondition::Stopped)),
];

/// What the column STATE of nodes shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeStateOrCondition {
    State(NodeState),
    Condition(NodeCondition),
}

/// The words of the column STATE of nodes. It shows `_` as a space.
const NODE_STATES: [(&str, NodeStateOrCondition); 10] = [
    ("ready", NodeStateOrCondition::State(NodeState::Ready)),
    ("recovering", NodeStateOrCondition::State(NodeState::Recovering)),
    ("lost", NodeStateOrCondition::State(NodeState::Lost)),
    ("draining", NodeStateOrCondition::Condition(NodeCondition::Draining)),
    ("drained", NodeStateOrCondition::Condition(NodeCondition::Drained)),
    ("cordoned", NodeStateOrCondition::Condition(NodeCondition::Cordoned)),
    ("tainted", NodeStateOrCondition::Condition(NodeCondition::Tainted)),
    ("silent", NodeStateOrCondition::Condition(NodeCondition::Silent)),
    ("not_connected", NodeStateOrCondition::Condition(NodeCondition::NotConnected)),
    ("session_failing", NodeStateOrCondition::Condition(NodeCondition::SessionFailing)),
];

fn state<S: Copy>(known: &[(&'static str, S)], word: &str) -> Result<S, String> {
    let found = known.iter().find(|(name, _)| *name == word);
    found.map(|&(_, state)| state).ok_or_else(|| word_refusal(word, &words(known)))
}

/// What is accepted instead of a word that is none of these, after the near one.
pub(super) fn word_refusal(word: &str, known: &[&str]) -> String {
    let accepted = format!("accepted: {}", known.join(", "));
    match nearest(word, known) {
        Some(near) => format!(", did you mean {near:?}?; {accepted}"),
        None => accepted,
    }
}

fn words<S>(known: &[(&'static str, S)]) -> Vec<&'static str> {
    known.iter().map(|(word, _)| *word).collect()
}

pub(super) fn task_state(word: &str) -> Result<TaskStateOrCondition, String> {
    state(&TASK_STATES, word)
}

/// The states among the words, and the conditions.
pub(crate) fn task_states_apart(words: &[TaskStateOrCondition]) -> (Vec<TaskState>, Vec<TaskCondition>) {
    let (mut states, mut conditions) = (Vec::new(), Vec::new());
    for word in words {
        match word {
            TaskStateOrCondition::State(state) => states.push(*state),
            TaskStateOrCondition::Condition(condition) => conditions.push(*condition),
        }
    }
    (states, conditions)
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

/// A state of a task or of a job: some words are both. Which of them is meant is known with the whole command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskOrJobState(String);

impl TaskOrJobState {
    /// The state of a task, or how it has ended.
    ///
    /// # Errors
    /// What follows the word in a refusal.
    pub(crate) fn of_task(&self) -> Result<TaskStateOrCondition, String> {
        task_state(&self.0)
    }

    /// The state of a job.
    ///
    /// # Errors
    /// As for a task.
    pub(crate) fn of_job(&self) -> Result<JobState, String> {
        state(&JOB_STATES, &self.0)
    }

    pub(crate) fn word(&self) -> &str {
        &self.0
    }
}

pub(super) fn task_or_job_state(word: &str) -> Result<TaskOrJobState, String> {
    Ok(TaskOrJobState(word.to_owned()))
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
        assert_eq!(of("app==web"), is("app", "web", false));
        assert_eq!(of("app!==web"), is("app", "=web", true));
        for bad in ["", "app", "=web", "!=web"] {
            assert!(of(bad).unwrap_err().starts_with("accepted: KEY=VALUE"), "{bad}");
        }
        assert!(of("x y=1").unwrap_err().starts_with("has the key \"x y\"; accepted: 1 to 128 of "));
        assert!(of("a=b\nc").unwrap_err().starts_with("has the value \"b\\nc\"; accepted: at most "));
    }

    #[test]
    fn a_comma_of_a_value_has_a_backslash_before_it() {
        let of = |text: &str| {
            let conditions = conditions_of(&[label_conditions(text).unwrap()]);
            conditions.into_iter().map(|is| (is.key, is.value)).collect::<Vec<_>>()
        };
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(of("a=x,b=y"), [pair("a", "x"), pair("b", "y")]);
        assert_eq!(of(r"a=x\,y,b=z"), [pair("a", "x,y"), pair("b", "z")]);
        assert_eq!(of(&format!("a={}", condition_value("x,y"))), [pair("a", "x,y")]);
        assert_eq!(of(r"a=x\y"), [pair("a", r"x\y")]);
        let refused = label_conditions("a=x,y").unwrap_err();
        assert!(refused.ends_with(r"; a comma within a value: \,"), "{refused}");
        assert!(!label_conditions("a").unwrap_err().contains("comma within"));
    }

    #[test]
    fn an_end_is_asked_for_as_a_state() {
        let words = ["failed", "dead", "succeeded"].map(|word| task_state(word).unwrap());
        let conditions = vec![TaskCondition::Failed, TaskCondition::Succeeded];
        assert_eq!(task_states_apart(&words), (vec![TaskState::Dead], conditions));
        assert!(task_state("sleeping").unwrap_err().starts_with("accepted: pending, held, "));
    }

    #[test]
    fn states_have_the_words_of_the_output() {
        let running = task_or_job_state("running").unwrap();
        assert_eq!(
            (running.of_task(), running.of_job()),
            (Ok(TaskStateOrCondition::State(TaskState::Running)), Ok(JobState::Running))
        );
        assert!(task_or_job_state("dead").unwrap().of_job().is_err());
        assert!(task_or_job_state("dependency_failed").unwrap().of_task().is_err());
        let misspelt = task_or_job_state("runing").unwrap().of_job().unwrap_err();
        assert!(misspelt.starts_with(", did you mean \"running\"?; accepted: waiting, "), "{misspelt}");
        assert_eq!(node_state("lost"), Ok(NodeStateOrCondition::State(NodeState::Lost)));
        let unconnected = NodeStateOrCondition::Condition(NodeCondition::NotConnected);
        assert_eq!([" not connected", "not_connected"].map(node_state), [Ok(unconnected), Ok(unconnected)]);
        for (word, state) in TASK_STATES {
            let name = match state {
                TaskStateOrCondition::State(state) => state.as_str_name().replace("TASK_STATE_", ""),
                TaskStateOrCondition::Condition(condition) => {
                    condition.as_str_name().replace("TASK_CONDITION_", "")
                }
            };
            assert_eq!(name, word.to_uppercase());
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
