//! Entries of the journal as sentences.

use borough_model::federation::{FederatedJobRow, FederatedState};
use borough_model::job::{JobOutcome, JobState, Rollout, RolloutState};
use borough_model::journal::{JobName, ValueChange};
use borough_model::member::MemberRow;
use borough_model::merged::MergedServiceRow;
use borough_model::node::NodeRow;
use borough_model::task::{EndReason, Exit, Health, StopReason};
use borough_model::{Delta, JobRow, NodeId, TaskRow, TaskState};
use borough_store::mirror::MirrorState;

use super::change::{JobNames, removed_name};
use crate::cell::DryRunOutcome;

/// The subject of an event, and a sentence about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sentence {
    /// Such as `job alice/web`, `task alice/web/2`, `node alpha-1`.
    pub subject: String,
    pub text: String,
}

/// The deltas of one transaction as subjects and texts.
pub(crate) struct Sentences {
    /// At most as many as were asked for.
    pub(crate) shown: Vec<(String, String)>,
    /// How many there are.
    pub(crate) all: usize,
}

/// What a dry run would change, of which at most `most` are shown.
pub(crate) fn sentences(state: &MirrorState, outcome: &DryRunOutcome, most: usize) -> Sentences {
    let DryRunOutcome { deltas, values, action, .. } = outcome;
    let mut names = JobNames::default();
    deltas.iter().for_each(|delta| names.learn(state, delta));
    let of = |delta| Some(with_values(sentence(state, &names, delta, action)?, delta, values));
    let all = deltas.iter().filter_map(of);
    let mut sentences = Sentences { shown: Vec::new(), all: 0 };
    for Sentence { subject, text } in all {
        sentences.all += 1;
        if sentences.shown.len() < most {
            sentences.shown.push((subject, text));
        }
    }
    sentences
}

/// A delta of an entry with this action as a sentence; `None` if it means nothing to people. Names come from the mirror
/// as it is now, or from `names`. Other things are named by their id.
pub(super) fn sentence(
    state: &MirrorState,
    names: &JobNames,
    delta: &Delta,
    action: &str,
) -> Option<Sentence> {
    let node_name = |id| state.nodes().get(&id).map_or_else(|| id.to_string(), |row| row.name.to_string());
    let (subject, text) = match delta {
        // What nobody uses has gone.
        Delta::Job { .. } if action == "job_versions_forget" => return None,
        Delta::Job { row, .. } => (format!("job {}/{}", row.user, row.name), job_text(row, action)),
        Delta::JobRemoved { job, name } => {
            let named = |name: &JobName| format!("{}/{}", name.user, name.job);
            let name = name.as_ref().map_or_else(|| job.to_string(), named);
            (format!("job {name}"), "forgotten".to_owned())
        }
        Delta::Task { row } => {
            let node = row.node.map(node_name).unwrap_or_default();
            let text = task_text(row, &node) + &evicted_text(state, names, row) + retry_text(action);
            (task_subject(state, names, row), text)
        }
        Delta::Node { row } => (format!("node {}", row.name), node_text(row)),
        Delta::NodeRemoved { node, name } => {
            (format!("node {}", removed_name(*node, name.as_ref())), "removed".to_owned())
        }
        Delta::Endpoint { endpoint, .. } => {
            let ports: Vec<String> =
                endpoint.ports.iter().map(|port| format!("{}={}", port.name, port.number)).collect();
            let place = format!("{} {}", endpoint.host, ports.join(" "));
            let (attempt, place) = (endpoint.incarnation, place.trim());
            // Only a healthy attempt is published. What is demoted stays with unknown health.
            let text = match endpoint.health {
                Health::Unknown => {
                    format!("attempt {attempt} lost with {}; kept at {place}, health unknown", endpoint.node)
                }
                Health::Healthy | Health::Unhealthy => format!("attempt {attempt} published at {place}"),
            };
            (format!("name {}.{}.{}", endpoint.task.index, endpoint.job, endpoint.user), text)
        }
        Delta::EndpointWithdrawn { user, job, task, .. } => {
            (format!("name {}.{job}.{user}", task.index), "withdrawn".to_owned())
        }
        Delta::MergedService { row } => (format!("service {}/{}", row.user, row.name), merged_text(row)),
        Delta::MergedServiceRemoved { user, name, .. } => {
            (format!("service {user}/{name}"), "removed".to_owned())
        }
        Delta::Member { row } => (format!("member {}", row.cell), member_text(row)),
        Delta::MemberRemoved { cell, .. } => (format!("member {cell}"), "left the federation".to_owned()),
        Delta::FederatedJob { row } => {
            (format!("federated job {}/{}", row.user(), row.name()), federated_text(row))
        }
        Delta::FederatedJobRemoved { user, name, .. } => {
            (format!("federated job {user}/{name}"), "forgotten by the federation".to_owned())
        }
        Delta::CellSettings { revision } => {
            ("cell settings".to_owned(), format!("changed to revision {revision}"))
        }
        Delta::NodeAlloc { .. } | Delta::NodeLoad { .. } | Delta::TaskRemoved { .. } | Delta::Gang { .. } => {
            return None;
        }
    };
    Some(Sentence { subject, text })
}

fn node_text(row: &NodeRow) -> String {
    let mut text = format!("{:?}", row.state).to_lowercase();
    if !row.schedulable {
        text.push_str(if row.draining { ", draining" } else { ", cordoned" });
    }
    for taint in &row.taints {
        text.push_str(&format!(", tainted {taint}"));
    }
    text
}

/// Who has made an entry, for people: an agent by the name of its node, `node/alpha-1`.
pub(super) fn actor_named(state: &MirrorState, actor: &str) -> String {
    let id = actor.strip_prefix("node/n").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    let node = id.and_then(|id| state.nodes().get(&NodeId(id)));
    node.map_or_else(|| actor.to_owned(), |row| format!("node/{}", row.name))
}

/// What a merged service chooses, and who has which share.
fn merged_text(row: &MergedServiceRow) -> String {
    let selector: Vec<String> = row.selector.iter().map(ToString::to_string).collect();
    let shares = row.shares.iter().map(|(job, share)| format!("; {job} gets {share} per cent"));
    format!("chooses jobs with {}{}", selector.join(","), shares.collect::<String>())
}

/// What the owner of a federated job wants.
fn federated_text(row: &FederatedJobRow) -> String {
    let count = row.spec.job.count;
    let tasks = if count == 1 { "1 task".to_owned() } else { format!("{count} tasks") };
    match row.state {
        FederatedState::Active if row.revision <= 1 => format!("submitted: {tasks}"),
        FederatedState::Active => format!("changed: {tasks}, version {}", row.version),
        FederatedState::Stopping => "each of its cells is told to stop it".to_owned(),
        FederatedState::Stopped => "stopped in each cell".to_owned(),
    }
}

/// Where a member cell is reached, and whether it gets new work.
fn member_text(row: &MemberRow) -> String {
    let labels = row.labels.iter().map(|(key, value)| format!(" {key}={value}")).collect::<String>();
    let cordoned = if row.draining {
        ", draining"
    } else if row.cordoned {
        ", cordoned"
    } else {
        ""
    };
    let verb = if row.revision <= 1 { "joined" } else { "changed" };
    format!(
        "{verb}: at {}{cordoned}{}{labels}",
        row.gateways.join(", "),
        if labels.is_empty() { "" } else { ";" }
    )
}

/// A sentence with the labels or settings that its entry has changed.
pub(super) fn with_values(sentence: Sentence, delta: &Delta, values: &[ValueChange]) -> Sentence {
    let Sentence { subject, text } = sentence;
    let changed = values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let text = match delta {
        _ if values.is_empty() => text,
        Delta::Job { .. } | Delta::Node { .. } => format!("labels: {changed}; {text}"),
        Delta::CellSettings { .. } => format!("{text}: {changed}"),
        _ => text,
    };
    Sentence { subject, text }
}

fn task_subject(state: &MirrorState, names: &JobNames, row: &TaskRow) -> String {
    match names.of(state, row.id.job) {
        Some(name) => format!("task {}/{}/{}", name.user, name.job, row.id.index),
        None => format!("task {}", row.id),
    }
}

/// What an entry with this action says of the rollout of a job; empty if it is about something else.
fn rollout_text(row: &JobRow, action: &str) -> String {
    let Some(rollout) = row.rollout.as_deref() else { return String::new() };
    let Rollout { version, state, steps, .. } = rollout;
    // An entry has begun the rollout if both have one time. It may change several things of the job: the first of these
    // rows has the new version, and a later one what surges beside it.
    let is_new = rollout.begun_ms == row.changed_ms && *steps == 0 && *version == row.spec_version;
    let origins = row.changes.iter().flat_map(|changes| &changes.versions);
    let origin = origins.into_iter().find(|origin| origin.version == *version);
    let is_begun = is_new && origin.is_none_or(|origin| origin.revision == row.revision);
    let is_again = *state == RolloutState::Rolling && rollout.again_ms == row.changed_ms;
    if is_again && action == "job_submit" {
        return format!("rollout of version {version}, which had failed, begins again; ");
    }
    if is_new && !is_begun && *state == RolloutState::Rolling {
        return String::new();
    }
    let why = rollout.failure.map(|failure| format!(": {failure}")).unwrap_or_default();
    match (action, rollout.reverts) {
        ("rollout_replace", _) => {
            format!("rollout of version {version}: step {steps} ends attempts of earlier versions; ")
        }
        ("rollout_canaries", _) if rollout.canaries_healthy_ms > 0 => {
            format!("rollout of version {version}: its canaries are healthy and wait for `rollout promote`; ")
        }
        ("rollout_canaries", _) => {
            format!("rollout of version {version}: its canaries are not healthy any more; ")
        }
        ("rollout_surge", _) => {
            format!("rollout of version {version}: tasks surge, since not all are resized in place; ")
        }
        ("rollout_promote", _) => format!("version {version} promoted: its rollout reaches every task; "),
        ("rollout_done", _) if rollout.skipped > 0 => {
            let tasks = if rollout.skipped == 1 { "task" } else { "tasks" };
            format!("rollout of version {version} done without {} skipped {tasks}; ", rollout.skipped)
        }
        ("rollout_done", _) => format!("rollout of version {version} done; "),
        ("rollout_fail", Some(reverts)) if is_begun => {
            format!("rollout of version {reverts} failed{why}; version {version} takes it back; ")
        }
        ("rollout_fail", _) => format!("rollout of version {version} failed{why}; "),
        ("rollout_order", Some(reverts)) if is_begun => {
            format!("rollout of version {version} takes back version {reverts}; ")
        }
        ("rollout_order", _) if *state == RolloutState::Paused => {
            format!("rollout of version {version} paused; ")
        }
        ("rollout_order", _) => format!("rollout of version {version} resumed; "),
        ("rollout_retry", _) => {
            format!("rollout of version {version}: tasks begin with it at once, in place of their pause; ")
        }
        ("job_submit", None) if is_begun => format!("rollout of version {version} begun; "),
        _ => String::new(),
    }
}

fn job_text(row: &JobRow, action: &str) -> String {
    let state = match row.state {
        JobState::Waiting => "waits for the jobs it comes after",
        JobState::Running => "running",
        JobState::Stopping => "stopping",
        JobState::Ended { outcome: JobOutcome::Succeeded } => "succeeded",
        JobState::Ended { outcome: JobOutcome::Failed } => "failed",
        JobState::Ended { outcome: JobOutcome::Stopped } => "stopped",
        JobState::Ended { outcome: JobOutcome::DependencyFailed } => {
            "ended, since a job it comes after failed"
        }
    };
    let surge = match row.surge() {
        0 => String::new(),
        surge => format!(" and {surge} surging"),
    };
    let (count, priority, version) = (row.wanted_count(), row.priority, row.spec_version);
    let counts = format!("count {count}{surge}, priority {priority}, version {version}");
    let rollout = match (action, row.moves_surge()) {
        ("task_surge_begin", 0) => {
            "the quota has no room for a further task while others are moved; ".to_owned()
        }
        ("task_surge_begin", 1) => "a further task surges while others are moved; ".to_owned(),
        ("task_surge_begin", surge) => format!("{surge} further tasks surge while others are moved; "),
        ("task_surge_end", _) => "what surged while others were moved ends; ".to_owned(),
        _ => rollout_text(row, action),
    };
    format!("{rollout}{state}; {counts}; {} succeeded, {} failed", row.succeeded, row.failed)
}

/// What is added for a task whose pause after a failure is over.
fn retry_text(action: &str) -> &'static str {
    if action == "rollout_retry" { "; it begins at once with the next version" } else { "" }
}

fn task_text(row: &TaskRow, node: &str) -> String {
    let attempt = row.incarnation;
    match row.state {
        TaskState::Pending => match &row.exit {
            Some(exit) => {
                format!("pending again after attempt {}: {}", exit.incarnation, exit_text(exit))
            }
            None => "pending".to_owned(),
        },
        TaskState::Held => format!("attempt {attempt} holds room on {node}"),
        TaskState::Assigned => format!("attempt {attempt} assigned to {node}{}", place_text(row)),
        TaskState::Starting => format!("attempt {attempt} starting on {node}"),
        TaskState::Running => {
            let health = format!("{:?}", row.health).to_lowercase();
            format!("attempt {attempt} running on {node}{}, health {health}", place_text(row))
        }
        TaskState::Stopping => format!("attempt {attempt} stopping on {node}: {}", stop_text(row.stop)),
        TaskState::Releasing => format!("attempt {attempt} has exited on {node} and is being cleared"),
        TaskState::Lost => format!("attempt {attempt} lost with {node}"),
        TaskState::Dead => match &row.exit {
            Some(exit) => format!("over: {}", exit_text(exit)),
            None => "over".to_owned(),
        },
    }
}

/// For which task an attempt is evicted: `, for task ada/web/0`. Empty if it is not.
fn evicted_text(state: &MirrorState, names: &JobNames, row: &TaskRow) -> String {
    let evicted = row.evicted.as_ref().filter(|_| row.state == TaskState::Stopping);
    let by = evicted.map(|evicted| match names.of(state, evicted.by.job) {
        Some(name) => format!(", for task {}/{}/{}", name.user, name.job, evicted.by.index),
        None => format!(", for task {}", evicted.by),
    });
    by.unwrap_or_default()
}

/// The cores of an attempt: `, cores 2 and 3 of NUMA node 1`. Empty if it is not pinned.
fn place_text(row: &TaskRow) -> String {
    let of = |kind: &str| {
        let mut dimensions = row.charge.resources.device_millis.keys();
        dimensions.find_map(|dimension| dimension.strip_prefix(kind)).map(str::to_owned)
    };
    let numa = of("numa/").map(|place| format!("NUMA node {place}"));
    let place = numa.or_else(|| of("socket/").map(|place| format!("socket {place}")));
    let cores: Vec<String> = row.cores.iter().map(ToString::to_string).collect();
    match (place, cores.join(",")) {
        (None, _) => String::new(),
        (Some(place), cores) if cores.is_empty() => format!(", within {place}"),
        (Some(place), cores) => format!(", alone on cores {cores} of {place}"),
    }
}

fn stop_text(reason: Option<StopReason>) -> &'static str {
    match reason {
        Some(StopReason::JobStopped) => "its job was stopped",
        Some(StopReason::JobShrunk) => "its job no longer has this task",
        Some(StopReason::Restart) => "it is restarted",
        Some(StopReason::Unhealthy) => "its health check failed",
        Some(StopReason::Drained) => "its node is drained",
        Some(StopReason::Preempted) => "a task of higher priority takes its place",
        Some(StopReason::Updated) => "its spec changed",
        Some(StopReason::Tainted) => "its node has a taint that it does not tolerate",
        Some(StopReason::Shutdown) => "its cell is shut down",
        Some(StopReason::NodeLeft) => "its daemon job no longer serves its node",
        Some(StopReason::AllocLeft) => "its alloc leaves the node",
        Some(StopReason::SurgeOver) => "its job no longer needs it beside the others",
        None => "no reason given",
    }
}

/// How an attempt ended, in words.
pub(super) fn exit_text(exit: &Exit) -> String {
    let mut text = match (exit.reason, exit.code, exit.signal) {
        (EndReason::Exited, Some(code), _) => format!("exited with code {code}"),
        (EndReason::Exited, None, _) => "exited".to_owned(),
        (EndReason::Signaled, _, Some(signal)) => format!("ended by signal {signal}"),
        (EndReason::Signaled, _, None) => "ended by a signal".to_owned(),
        (EndReason::OutOfMemory, ..) => "ended by the kernel over its memory limit".to_owned(),
        (EndReason::StartFailed, ..) => "could not be started".to_owned(),
        (EndReason::Stopped, ..) => "stopped".to_owned(),
        (EndReason::NodeLost, ..) => "lost with its node".to_owned(),
        (EndReason::NodeRebooted, ..) => "gone after a reboot of its node".to_owned(),
    };
    if !exit.message.is_empty() {
        text.push_str(": ");
        text.push_str(&exit.message);
    }
    text
}

#[cfg(test)]
mod tests {
    use borough_model::job::{JobKind, RolloutFailure, job_new};
    use borough_model::{JobId, RequestId};
    use borough_testkit::job_spec;

    use super::*;

    #[test]
    fn each_change_of_a_rollout_has_a_name() {
        let spec = job_spec("ada", "web", JobKind::Service);
        let first = job_new(JobId(1), &spec, RequestId(1), 0);
        let at = |rollout: &Rollout, changed_ms| JobRow {
            spec_version: rollout.version,
            changed_ms,
            rollout: Some(Box::new(rollout.clone())),
            ..first.clone()
        };
        let says = |row: &JobRow, action| {
            let text = rollout_text(row, action);
            assert!(job_text(row, action).starts_with(&text));
            text.trim_end_matches("; ").to_owned()
        };
        let begun = Rollout::begin(&first, 0, "user/ada", 5);
        assert_eq!(says(&at(&begun, 5), "job_submit"), "rollout of version 2 begun");
        assert_eq!(says(&at(&begun, 9), "job_submit"), "", "another change while it goes on");
        // The row with what surges follows the one with the version, in the same entry.
        let mut row = at(&begun, 5);
        row.change_record(Some(&first), "user/ada");
        assert_eq!(says(&row, "job_submit"), "rollout of version 2 begun");
        let surging = JobRow { revision: row.revision + 1, ..row };
        assert_eq!(
            (says(&surging, "job_submit"), says(&surging, "rollout_order")),
            (String::new(), String::new())
        );
        assert_eq!(says(&at(&begun, 9), "task_report"), "");
        let step = "rollout of version 2: step 1 ends attempts of earlier versions";
        assert_eq!(says(&at(&begun.stepped(1), 6), "rollout_replace"), step);
        let paused = begun.with_state(RolloutState::Paused, 7).unwrap();
        assert_eq!(says(&at(&paused, 7), "rollout_order"), "rollout of version 2 paused");
        let resumed = paused.with_state(RolloutState::Rolling, 8).unwrap();
        assert_eq!(says(&at(&resumed, 8), "rollout_order"), "rollout of version 2 resumed");
        assert_eq!(says(&at(&resumed.done(0), 9), "rollout_done"), "rollout of version 2 done");
        let skipped = says(&at(&resumed.done(2), 9), "rollout_done");
        assert_eq!(skipped, "rollout of version 2 done without 2 skipped tasks");
        let failure = RolloutFailure::TaskFails { index: 0, failures: 3 };
        let failed = says(&at(&begun.failed(failure), 9), "rollout_fail");
        assert_eq!(failed, "rollout of version 2 failed: task 0 failed 3 times in a row");
        let back = |failure, action| {
            let back = Rollout::revert(&at(&begun, 5), failure, "controller", 9);
            says(&at(&back, 9), action)
        };
        assert_eq!(back(None, "rollout_order"), "rollout of version 3 takes back version 2");
        let reason = "rollout of version 2 failed: task 0 failed 3 times in a row; version 3 takes it back";
        assert_eq!(back(Some(failure), "rollout_fail"), reason);
    }
}
