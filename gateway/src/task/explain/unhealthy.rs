//! Explains tasks that run and are not healthy. Their probe has not passed since their start, or another process has
//! one of their ports. Or they have failed before and must run for longer.

use std::collections::BTreeMap;

use borough_model::job::Probe;
use borough_model::task::{Health, TaskRow, TaskState};
use borough_proto::v1;

use super::{explanation_of, moment};
use crate::session::message::healthy_after_ms;

/// How long after the time that a task must have run its health is explained. Its agent looks once more by then.
const SLACK_MS: u64 = 1_000;

/// Tasks with the same probe that run and are not healthy.
#[derive(Clone, Debug)]
struct UnhealthyGroup {
    /// `None`: they have no check, so only another process on a port of theirs keeps them from being healthy.
    probe: Option<Probe>,
    indexes: Vec<u32>,
    /// The task that has run for longest.
    first: UnhealthyTask,
}

/// A task that runs and is not healthy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnhealthyTask {
    /// `USER/JOB/INDEX`.
    pub(super) name: String,
    /// Where it runs.
    pub(super) node: String,
    pub(super) since_ms: i64,
    /// Failures in a row before this attempt.
    pub(super) failures: u32,
    /// The numbers of the ports that its health depends on: the one that is probed, or without a check all.
    pub(super) ports: Vec<u16>,
}

/// Tasks of a job that run and are not healthy, by the version of their spec.
#[derive(Clone, Debug, Default)]
pub(super) struct UnhealthyTasks {
    /// The probes of the versions that were asked for: each spec is decoded once.
    probes: BTreeMap<u32, Option<Probe>>,
    groups: BTreeMap<u32, UnhealthyGroup>,
}

/// Since when a task runs without being healthy; `None` if it is healthy, does not run, or has not run for as long as
/// it must.
pub(super) fn unhealthy_since(row: &TaskRow, now_ms: i64) -> Option<i64> {
    let runs = row.state == TaskState::Running && row.health != Health::Healthy;
    let must_ms = healthy_after_ms(row.failures).saturating_add(SLACK_MS);
    let lasts =
        |since_ms: &i64| u64::try_from(now_ms.saturating_sub(*since_ms)).is_ok_and(|ms| ms >= must_ms);
    row.started_ms.filter(|since_ms| runs && lasts(since_ms))
}

/// The name of the port that a probe asks.
pub(super) fn port_name(probe: &Probe) -> Option<&str> {
    match probe {
        Probe::Http { port, .. } | Probe::Tcp { port } => Some(port.as_str()),
        Probe::Command { .. } => None,
    }
}

impl UnhealthyTasks {
    pub(super) fn indexes(&self) -> impl Iterator<Item = u32> {
        self.groups.values().flat_map(|group| &group.indexes).copied()
    }

    /// The probe of a version; `read` gives it the first time.
    pub(super) fn probe_of(&mut self, version: u32, read: impl FnOnce() -> Option<Probe>) -> Option<Probe> {
        self.probes.entry(version).or_insert_with(read).clone()
    }

    /// Adds a task of a version whose spec has this probe, or no check.
    pub(super) fn add(&mut self, index: u32, version: u32, probe: Option<&Probe>, task: UnhealthyTask) {
        let new = || UnhealthyGroup { probe: probe.cloned(), indexes: Vec::new(), first: task.clone() };
        let group = self.groups.entry(version).or_insert_with(new);
        group.indexes.push(index);
        if task.since_ms < group.first.since_ms {
            group.first = task;
        }
    }

    /// One explanation per version.
    pub(super) fn explained(self) -> Vec<v1::Explanation> {
        self.groups.into_values().map(UnhealthyGroup::explanation).collect()
    }
}

impl UnhealthyGroup {
    fn explanation(self) -> v1::Explanation {
        let UnhealthyGroup { probe, indexes, first } = self;
        let is_one = indexes.len() == 1;
        let asked =
            probe.as_ref().map(|probe| probe_text(probe, first.ports.first().copied().filter(|_| is_one)));
        let (runs, its) = if is_one { ("runs and is", "its") } else { ("run and are", "their") };
        let headline = match &asked {
            Some(asked) => format!("{runs} not healthy: {its} probe has not passed since the start: {asked}"),
            None if !is_one => format!("{runs} not healthy: another process listens on a port of each"),
            None => {
                format!("{runs} not healthy: another process listens on {}", ports_text(&first.ports))
            }
        };
        let at = moment(first.since_ms);
        let UnhealthyTask { name, node, since_ms, failures, ports } = first;
        let mut details = vec![
            if is_one {
                format!("on {node} since {at}")
            } else {
                format!("the first runs on {node} since {at}")
            },
            match &probe {
                Some(_) => format!("what it writes: borough task logs {name}"),
                None => format!("who listens there, as root on {node}: ss -ltnp '{}'", ports_filter(&ports)),
            },
        ];
        match failures {
            0 => {}
            1 => details.push("its last attempt failed".to_owned()),
            failures => details.push(format!("its last {failures} attempts failed")),
        }
        if let Some(Probe::Command { command }) = &probe {
            let words = command.iter().map(|word| word_quoted(word)).collect::<Vec<_>>().join(" ");
            details.push(format!("what the probe writes: borough task exec {name} -- {words}"));
        }
        let mut explanation = explanation_of(indexes, headline, details);
        explanation.probe = asked.unwrap_or_default();
        explanation.unhealthy_since_ms = since_ms;
        explanation
    }
}

/// When a task is healthy that has failed before and runs. `asked`: what its probe asks; `None` without one.
pub(super) fn healthy_text(row: &TaskRow, asked: Option<&str>) -> String {
    let seconds = healthy_after_ms(row.failures) / 1_000;
    let probe = asked.map(|asked| format!(" and its probe passes ({asked})")).unwrap_or_default();
    format!("it is healthy once it has run for {seconds} s without an exit{probe}")
}

/// What a probe asks: `GET /ready on port http (20001)`.
pub(super) fn probe_text(probe: &Probe, number: Option<u16>) -> String {
    let number = number.map(|number| format!(" ({number})")).unwrap_or_default();
    match probe {
        Probe::Http { port, path } => format!("GET {path} on port {port}{number}"),
        Probe::Tcp { port } => format!("a TCP connection to port {port}{number}"),
        Probe::Command { command } => format!("the command {command:?}"),
    }
}

/// Ports of a task on which another process may listen.
fn ports_text(ports: &[u16]) -> String {
    if let [port] = ports {
        return format!("its port {port}");
    }
    let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
    format!("one of its ports: {}", ports.join(", "))
}

/// Which sockets `ss` shows: those on these ports.
fn ports_filter(ports: &[u16]) -> String {
    let ports: Vec<String> = ports.iter().map(|port| format!("sport = :{port}")).collect();
    ports.join(" or ")
}

/// A word for a shell.
fn word_quoted(word: &str) -> String {
    let is_plain = |each: char| each.is_ascii_alphanumeric() || "-_./=:,@%+".contains(each);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use borough_model::{JobId, Name, TaskId};

    use super::*;

    fn task(index: u32, since_ms: i64) -> UnhealthyTask {
        UnhealthyTask {
            name: format!("ann/web/{index}"),
            node: "n1".to_owned(),
            since_ms,
            failures: index,
            ports: vec![20_001],
        }
    }

    #[test]
    fn a_task_that_runs_for_a_while_is_told_from_one_that_comes_up() {
        let id = TaskId { job: JobId(1), index: 0 };
        let row = TaskRow { state: TaskState::Running, started_ms: Some(1_000), ..TaskRow::never_placed(id) };
        assert_eq!(unhealthy_since(&row, 2_000), None);
        assert_eq!(unhealthy_since(&row, 3_000), Some(1_000));
        let healthy = TaskRow { health: Health::Healthy, ..row.clone() };
        assert_eq!(unhealthy_since(&healthy, 9_000), None);
        assert_eq!(unhealthy_since(&TaskRow { state: TaskState::Stopping, ..row }, 9_000), None);
    }

    /// A probe may pass while the task has not run for long enough.
    #[test]
    fn a_task_that_has_failed_must_run_for_longer() {
        let id = TaskId { job: JobId(1), index: 0 };
        let (state, started_ms) = (TaskState::Running, Some(1_000));
        let row = TaskRow { state, started_ms, failures: 3, ..TaskRow::never_placed(id) };
        let early =
            "it is healthy once it has run for 8 s without an exit and its probe passes (GET / on port http)";
        assert_eq!(healthy_text(&row, Some("GET / on port http")), early);
        assert_eq!(healthy_text(&row, None), "it is healthy once it has run for 8 s without an exit");
        assert_eq!(unhealthy_since(&row, 9_900), None);
        assert_eq!(unhealthy_since(&row, 10_000), Some(1_000));
    }

    #[test]
    fn a_probe_that_has_not_passed_is_named_with_its_port_and_its_path() {
        let http = Probe::Http { port: Name::new("http").unwrap(), path: "/ready".to_owned() };
        let mut tasks = UnhealthyTasks::default();
        tasks.add(0, 1, Some(&http), task(0, 5_000));
        let [one] = tasks.clone().explained().try_into().unwrap();
        let expected = "runs and is not healthy: its probe has not passed since the start: GET /ready on port http (20001)";
        assert_eq!((one.headline.as_str(), one.unhealthy_since_ms), (expected, 5_000));
        let lines = ["on n1 since 1970-01-01T00:00:05Z", "what it writes: borough task logs ann/web/0"];
        assert_eq!(one.details, lines);
        assert!(!one.details.iter().any(|line| line.contains("failed")));
        tasks.add(2, 1, Some(&http), task(2, 4_000));
        let command = Probe::Command { command: vec!["check".to_owned(), "it's up".to_owned()] };
        tasks.add(3, 2, Some(&command), task(3, 6_000));
        let [two, other] = tasks.explained().try_into().unwrap();
        assert_eq!((two.indexes, two.unhealthy_since_ms), (vec![0, 2], 4_000));
        assert!(
            two.headline.ends_with("GET /ready on port http"),
            "each has its own number: {}",
            two.headline
        );
        assert_eq!(two.details.last().map(String::as_str), Some("its last 2 attempts failed"));
        let by_hand = "what the probe writes: borough task exec ann/web/3 -- check 'it'\\''s up'";
        assert!(other.details.iter().any(|line| line == by_hand), "{:?}", other.details);
    }

    #[test]
    fn without_a_check_another_process_has_a_port() {
        let mut tasks = UnhealthyTasks::default();
        tasks.add(0, 1, None, task(0, 5_000));
        let [one] = tasks.clone().explained().try_into().unwrap();
        assert_eq!(one.headline, "runs and is not healthy: another process listens on its port 20001");
        let lines = [
            "on n1 since 1970-01-01T00:00:05Z",
            "who listens there, as root on n1: ss -ltnp 'sport = :20001'",
        ];
        assert_eq!((one.details, one.probe.as_str()), (lines.map(str::to_owned).to_vec(), ""));
        let two_ports = UnhealthyTask { ports: vec![20_001, 20_002], ..task(4, 5_000) };
        tasks.add(4, 2, None, two_ports);
        tasks.add(1, 1, None, task(1, 6_000));
        let [several, two] = tasks.explained().try_into().unwrap();
        assert_eq!(several.headline, "run and are not healthy: another process listens on a port of each");
        assert!(two.headline.ends_with("listens on one of its ports: 20001, 20002"), "{}", two.headline);
        assert!(two.details[1].ends_with("'sport = :20001 or sport = :20002'"), "{:?}", two.details);
    }
}
