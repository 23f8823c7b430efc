//! `node drain`: waits until all tasks of the node run elsewhere, and shows what prevents that.

use std::collections::BTreeMap;
use std::time::Duration;

use borough_client::{Client, ClientError, DrainMode, JobRef, TaskRef};
use borough_kv::env::SystemClock;
use borough_proto::v1::{ExplainTaskResponse, Node, Task, TaskState};

use crate::args::DrainArguments;
use crate::exit::{Code, Failure};
use crate::output::{ExplanationView, Printer, Progress, tally, time};

/// Interval of reading the state of a drained node.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// After so long without a change, the remaining tasks are explained.
const EXPLAIN_AFTER: Duration = Duration::from_millis(1_500);
/// The most tasks that are explained at once.
const EXPLAINED_MAX: usize = 5;

/// Drains a node and, unless detached, waits.
pub(super) async fn drain(
    client: &Client,
    node: &str,
    arguments: &DrainArguments,
    printer: &Printer,
) -> Result<Node, Failure> {
    // Listed before anything is stopped, so that no leaving task is missed.
    let before = match client.task_list_of_node(node).await {
        // The refusal of the drain itself follows, which names what was asked for.
        Err(ClientError::Refused(refusal)) if refusal.code == tonic::Code::PermissionDenied => Vec::new(),
        listed => listed?.0,
    };
    let mode = drain_mode(arguments);
    let drained = client.node_drain(node, mode).await?;
    if arguments.detach {
        return Ok(drained);
    }
    let force_after = arguments.force.filter(|after| !after.is_zero());
    let limits = DrainLimits { mode, force_after, timeout: arguments.timeout };
    drain_wait(client, &before, drained, limits, printer).await
}

/// How a drain began, and how long it may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct DrainLimits {
    pub(super) mode: DrainMode,
    /// Stop the tasks that are left after so long.
    pub(super) force_after: Option<Duration>,
    pub(super) timeout: Option<Duration>,
}

/// With which mode a drain begins.
pub(super) fn drain_mode(arguments: &DrainArguments) -> DrainMode {
    if arguments.force.is_some_and(|after| after.is_zero()) { DrainMode::Force } else { DrainMode::Wait }
}

/// Waits until the tasks that were on a drained node run elsewhere. Of a drain by force it waits no longer for tasks
/// that no other node takes: the node is empty.
pub(super) async fn drain_wait(
    client: &Client,
    before: &[Task],
    drained: Node,
    limits: DrainLimits,
    printer: &Printer,
) -> Result<Node, Failure> {
    let node = drained.name.as_str();
    let mut drain = Drain {
        client,
        node,
        mode: limits.mode,
        force_after: limits.force_after,
        seen: BTreeMap::new(),
        explained: Vec::new(),
        is_quiet: printer.is_quiet(),
        progress: Progress::new(printer),
    };
    drain.see(before);
    let emptied = async {
        tokio::select! {
            ended = drain.run() => ended,
            _ = tokio::signal::ctrl_c() => {
                let hint = format!("to end the drain: borough node uncordon {node}");
                Err(Failure::new(Code::Interrupted, "interrupted; the drain goes on").with_hint(hint))
            }
        }
    };
    let ended = match limits.timeout {
        None => Ok(emptied.await),
        Some(timeout) => tokio::time::timeout(timeout, emptied).await.map_err(|_| timeout),
    };
    match ended {
        Ok(Err(failure)) => Err(goes_on(node, failure)),
        Err(timeout) => Err(drain.out_of_time(timeout).await),
        Ok(Ok(())) => {
            drop(drain);
            // Its tasks have gone since it was drained.
            Ok(client.node_get(node).await.unwrap_or(drained))
        }
    }
}

/// A wait that ends because no gateway answers does not end the drain.
fn goes_on(node: &str, failure: Failure) -> Failure {
    if failure.code() != Code::Unreachable {
        return failure;
    }
    Failure::new(Code::Unreachable, format!("{}; the drain goes on", failure.message()))
        .with_hint(format!("to wait for it again: borough node drain {node}"))
}

struct Drain<'d> {
    client: &'d Client,
    node: &'d str,
    mode: DrainMode,
    force_after: Option<Duration>,
    /// Tasks that were on the node, with their attempts there.
    seen: BTreeMap<TaskRef, u64>,
    /// The explanation that was last shown.
    explained: Vec<String>,
    /// Nothing is shown but the end.
    is_quiet: bool,
    progress: Progress<'d>,
}

fn name_of(task: &Task) -> TaskRef {
    TaskRef { job: JobRef::new(task.user.as_str(), task.job.as_str()), index: task.index }
}

/// The work that remains.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Left {
    /// Tasks on the node.
    There(Vec<TaskThere>),
    /// The node is empty, and these tasks do not run anywhere yet.
    Nowhere(Vec<TaskRef>),
}

/// A task on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TaskThere {
    name: TaskRef,
    stopping: bool,
}

impl Drain<'_> {
    fn see(&mut self, tasks: &[Task]) {
        self.seen.extend(alive(tasks).map(|task| (name_of(task), task.incarnation)));
    }

    /// Waits until everything runs elsewhere.
    async fn run(&mut self) -> Result<(), Failure> {
        let clock = SystemClock::shared();
        let begun = clock.monotonic();
        let (mut last, mut since) = (None, begun);
        loop {
            if self.force_after.is_some_and(|after| clock.monotonic().saturating_sub(begun) >= after) {
                (self.force_after, self.mode) = (None, DrainMode::Force);
                self.progress.remark("out of time: stopping the tasks that are left");
                self.client.node_drain(self.node, DrainMode::Force).await?;
            }
            let Some(left) = self.left().await? else {
                self.progress.reached();
                return Ok(());
            };
            self.progress.show(&left_text(self.node, &left));
            let now = clock.monotonic();
            if last.as_ref() != Some(&left) {
                (last, since) = (Some(left), now);
            } else if now.saturating_sub(since) >= EXPLAIN_AFTER {
                since = now;
                let lines = self.explain(&left).await?;
                if lines != self.explained {
                    lines.iter().for_each(|line| self.progress.remark(line));
                    self.explained = lines;
                }
                if self.mode == DrainMode::Force && matches!(last, Some(Left::Nowhere(_))) {
                    let end = format!("{} is empty, and what waits begins once a node takes it", self.node);
                    self.progress.remark(&end);
                    return Ok(());
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// The work that remains; `None` if none does.
    async fn left(&mut self) -> Result<Option<Left>, Failure> {
        let (tasks, _) = self.client.task_list_of_node(self.node).await?;
        self.see(&tasks);
        let there: Vec<TaskThere> = alive(&tasks)
            .map(|task| TaskThere { name: name_of(task), stopping: is_ending(task.state()) })
            .collect();
        if !there.is_empty() {
            return Ok(Some(Left::There(there)));
        }
        let mut nowhere = Vec::new();
        for (name, attempt) in &self.seen {
            if !self.settled(name, *attempt).await? {
                nowhere.push(name.clone());
            }
        }
        Ok((!nowhere.is_empty()).then_some(Left::Nowhere(nowhere)))
    }

    /// Returns true if a task that was on the node runs elsewhere, or is over.
    async fn settled(&self, name: &TaskRef, attempt: u64) -> Result<bool, Failure> {
        let tasks = match self.client.task_list_of_job(&name.job).await {
            Err(ClientError::Refused(refusal)) if refusal.code == tonic::Code::NotFound => return Ok(true),
            found => found?.0,
        };
        let Some(task) = tasks.into_iter().find(|task| task.index == name.index) else { return Ok(true) };
        Ok(match task.state() {
            TaskState::Running | TaskState::Stopping | TaskState::Releasing => task.incarnation > attempt,
            TaskState::Dead => true,
            _ => false,
        })
    }

    /// Why there is no progress: a few lines per reason, with the tasks that it concerns.
    async fn explain(&self, left: &Left) -> Result<Vec<String>, Failure> {
        let mut lines = Vec::new();
        let (names, stopping): (Vec<&TaskRef>, usize) = match left {
            Left::There(tasks) => {
                let waiting = tasks.iter().filter(|task| !task.stopping).map(|task| &task.name);
                (waiting.collect(), tasks.iter().filter(|task| task.stopping).count())
            }
            Left::Nowhere(names) => (names.iter().collect(), 0),
        };
        if stopping > 0 {
            lines.push(stopping_text(stopping, self.silent_since_ms().await));
        }
        lines.extend(left_explained(self.client, &names, left).await?);
        Ok(lines)
    }

    /// Since when the agent of the node does not answer; `None`: it does, or that is not known.
    async fn silent_since_ms(&self) -> Option<i64> {
        let node = self.client.node_get(self.node).await.ok()?;
        Some(node.silent_since_ms).filter(|since| *since > 0)
    }

    async fn out_of_time(&mut self, timeout: Duration) -> Failure {
        let waited = humantime::format_duration(timeout);
        let (node, mut details) = (self.node, Vec::new());
        let left = match self.left().await {
            Err(failure) if failure.code() == Code::Unreachable => return goes_on(node, failure),
            left => left.ok().flatten(),
        };
        if let Some(left) = &left {
            details = self.explain(left).await.unwrap_or_default();
            // What stands above is not said again.
            if details == self.explained && !self.is_quiet {
                details.clear();
            }
        }
        let hint = out_of_time_hint(node, left.as_ref());
        let status = left.map_or_else(|| format!("{node}: drained just now"), |left| left_text(node, &left));
        let details = details.iter().flat_map(|text| text.lines()).map(str::to_owned).collect();
        Failure::new(Code::NotDone, format!("{status} after {waited}; the drain goes on"))
            .with_details(details)
            .with_hint(hint)
    }
}

/// Why tasks stay on their drained node: a few lines per reason.
pub(super) async fn staying_explained(client: &Client, tasks: &[Task]) -> Result<Vec<String>, Failure> {
    let staying = alive(tasks).filter(|task| !is_ending(task.state())).map(name_of).collect::<Vec<_>>();
    left_explained(client, &staying.iter().collect::<Vec<_>>(), &Left::There(Vec::new())).await
}

/// Why some of the tasks are left, by the cell.
async fn left_explained(client: &Client, names: &[&TaskRef], left: &Left) -> Result<Vec<String>, Failure> {
    let mut reasons = LeftReasons::default();
    for task in names.iter().take(EXPLAINED_MAX) {
        let answer = match left {
            Left::There(_) => client.task_explain_elsewhere(task).await,
            Left::Nowhere(_) => client.task_explain(&task.job, Some(task.index)).await,
        };
        match answer {
            Ok(answer) => reasons.add(task, answer, left),
            // It has just ended.
            Err(ClientError::Refused(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut lines: Vec<String> = reasons.texts().collect();
    if names.len() > EXPLAINED_MAX {
        lines.push(format!("and {} more", tally(names.len() - EXPLAINED_MAX, "task")));
    }
    Ok(lines)
}

/// What the tasks that stop wait for. Nobody ends them while their agent does not answer.
fn stopping_text(tasks: usize, silent_since_ms: Option<i64>) -> String {
    let stopping = format!("{} stopping", tally(tasks, "task"));
    match silent_since_ms {
        None => format!("{stopping}: drain delay, SIGTERM, grace"),
        Some(since_ms) => format!(
            "{stopping}, which the agent of the node has to end: it does not answer since {}",
            time(since_ms)
        ),
    }
}

/// What to run after a wait that has ended. Only tasks on the node that do not end yet can be stopped.
fn out_of_time_hint(node: &str, left: Option<&Left>) -> String {
    let next = match left {
        Some(Left::Nowhere(names)) if !names.is_empty() => {
            let names: Vec<String> = names.iter().map(|name| format!("borough why {name}")).take(3).collect();
            format!("why they wait: {}", names.join("; "))
        }
        Some(Left::There(tasks)) if tasks.iter().any(|task| !task.stopping) => {
            format!("to stop the tasks that are left: borough node drain {node} --force")
        }
        _ => format!("to wait for it again: borough node drain {node}"),
    };
    format!("{next}; to end the drain: borough node uncordon {node}")
}

fn alive(tasks: &[Task]) -> impl Iterator<Item = &Task> {
    tasks.iter().filter(|task| task.state() != TaskState::Dead)
}

fn is_ending(state: TaskState) -> bool {
    matches!(state, TaskState::Stopping | TaskState::Releasing)
}

fn left_text(node: &str, left: &Left) -> String {
    match left {
        Left::There(tasks) => format!("{node}: {} left", tally(tasks.len(), "task")),
        Left::Nowhere(names) => {
            format!("{node} is empty: {} not running elsewhere yet", tally(names.len(), "task"))
        }
    }
}

/// Why a task is left.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LeftReason {
    /// It fits on another node; the text is the disruption budget of its job.
    Fits(String),
    /// It stays; the text says why no other node takes it.
    Stays(String),
    /// It has left and waits for a node; the text says why.
    Waits(String),
}

/// The reasons, each with the tasks that it concerns.
#[derive(Debug, Default)]
struct LeftReasons(BTreeMap<LeftReason, Vec<String>>);

impl LeftReasons {
    fn add(&mut self, task: &TaskRef, answer: ExplainTaskResponse, left: &Left) {
        let views: Vec<ExplanationView> =
            answer.explanations.into_iter().map(ExplanationView::from).collect();
        let text: String = views.iter().map(ExplanationView::text).collect();
        let reason = match left {
            Left::There(_) if views.iter().all(|view| view.fits) => {
                let budget = views.iter().find(|view| !view.budget.is_empty());
                LeftReason::Fits(budget.map(|view| format!(": {}", view.budget)).unwrap_or_default())
            }
            Left::There(_) => LeftReason::Stays(text),
            Left::Nowhere(_) => LeftReason::Waits(text),
        };
        self.0.entry(reason).or_default().push(task.to_string());
    }

    /// A few lines per reason.
    fn texts(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(reason, tasks)| {
            let is_one = tasks.len() == 1;
            let text = match reason {
                LeftReason::Fits(budget) if is_one => {
                    format!("fits on another node, and leaves when its job can spare it{budget}")
                }
                LeftReason::Fits(budget) => {
                    format!("fit on other nodes, and leave when their job can spare them{budget}")
                }
                LeftReason::Stays(why) => format!("{}: {why}", if is_one { "stays" } else { "stay" }),
                LeftReason::Waits(why) => format!("{}: {why}", if is_one { "waits" } else { "wait" }),
            };
            format!("{} {}", tasks.join(", "), text.trim_end())
        })
    }
}

#[cfg(test)]
mod tests {
    use borough_proto::v1::{Explanation, FilterLoss};

    use super::*;

    #[test]
    fn tasks_of_a_silent_node_wait_for_its_agent() {
        assert_eq!(stopping_text(2, None), "2 tasks stopping: drain delay, SIGTERM, grace");
        let silent = "1 task stopping, which the agent of the node has to end: it does not answer since \
                      1970-01-01T00:00:01Z";
        assert_eq!(stopping_text(1, Some(1_000)), silent);
    }

    fn refused(filter: &str) -> ExplainTaskResponse {
        let losses = vec![FilterLoss { filter: filter.to_owned(), nodes: 2 }];
        let headline = "fits on none of 2 other nodes".to_owned();
        let explanation = Explanation { headline, nodes: 2, losses, ..Explanation::default() };
        ExplainTaskResponse { explanations: vec![explanation], cursor: None }
    }

    /// A gang is explained as a whole, without a count of nodes.
    #[test]
    fn a_task_of_a_gang_that_only_waits_for_its_turn_leaves() {
        let (mut reasons, there) = (LeftReasons::default(), Left::There(Vec::new()));
        let headline = "waits for its turn".to_owned();
        let budget = "1 of 3 tasks is away, and 1 may be: task 2 ends".to_owned();
        let turn = Explanation { headline, fits: true, budget, ..Explanation::default() };
        let answer = ExplainTaskResponse { explanations: vec![turn], cursor: None };
        reasons.add(&TaskRef { job: JobRef::new("ann", "gang"), index: 0 }, answer, &there);
        let texts: Vec<String> = reasons.texts().collect();
        let expected = "ann/gang/0 fits on another node, and leaves when its job can spare it: 1 of 3 tasks is away, \
                        and 1 may be: task 2 ends";
        assert_eq!(texts, [expected]);
    }

    /// A task that has left is not stopped by force, and one that ends already is not either.
    #[test]
    fn the_hint_after_a_wait_has_what_helps() {
        let hint = |left: Option<&Left>| {
            let hint = out_of_time_hint("n1", left);
            hint.strip_suffix("; to end the drain: borough node uncordon n1").unwrap().to_owned()
        };
        let name = TaskRef { job: JobRef::new("op", "pin"), index: 0 };
        assert_eq!(hint(Some(&Left::Nowhere(vec![name.clone()]))), "why they wait: borough why op/pin/0");
        let there = |stopping| Left::There(vec![TaskThere { name: name.clone(), stopping }]);
        let forced = "to stop the tasks that are left: borough node drain n1 --force";
        assert_eq!(hint(Some(&there(false))), forced);
        assert_eq!(hint(Some(&there(true))), "to wait for it again: borough node drain n1");
    }

    #[test]
    fn a_reason_of_several_tasks_is_said_once() {
        let (mut reasons, there) = (LeftReasons::default(), Left::There(Vec::new()));
        for (index, filter) in [(0, "no port free"), (1, "no port free"), (2, "cordoned")] {
            reasons.add(&TaskRef { job: JobRef::new("ann", "web"), index }, refused(filter), &there);
        }
        let texts: Vec<String> = reasons.texts().collect();
        assert_eq!(
            texts,
            [
                "ann/web/2 stays: fits on none of 2 other nodes\n  2 of 2 nodes refused by: cordoned",
                "ann/web/0, ann/web/1 stay: fits on none of 2 other nodes\n  2 of 2 nodes refused by: no port free",
            ]
        );
    }
}
