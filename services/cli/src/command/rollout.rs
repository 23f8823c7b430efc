//! Verbs on rollouts.

use std::time::Duration;

use borough_client::{Client, ClientError, JobRef, TaskFilter};
use borough_proto::v1::order_rollout_request::Order;
use borough_proto::v1::{
    EndReason, Explanation, Job, JobState, PageRequest, Rollout, RolloutState, TaskState,
};

use super::confirm::{Intent, confirm};
use super::job::{Goal, wait};
use super::rollout_bulk::{order_all, status_all};
use super::rollout_undo::KnownVersions;
use crate::args::{Global, RolloutChoice, RolloutVerb, UndoArguments, WaitArguments};
use crate::connect;
use crate::exit::{Code, Failure, RUN_AGAIN};
use crate::output::{
    ExitView, ExplanationView, Foreign, Printer, RolledVersionView, RolloutStatusView, failed_index,
    healthy_after_ms, leaving_text, table, tally, word,
};

/// Tasks that a rollout waits for and that are named.
const LEAVING_MAX: u32 = 5;

pub(super) async fn run(global: &Global, verb: RolloutVerb, printer: &Printer) -> Result<Code, Failure> {
    let client = connect::cell_client(global).await?;
    let one = |choice: &RolloutChoice| choice.target.as_ref().map(|target| target.resolve(client.user()));
    match &verb {
        RolloutVerb::History { target } => history(&client, &target.resolve(client.user()), printer).await,
        RolloutVerb::Status { choice, wait } => match one(choice) {
            Some(job) if *wait => status_at_end(&client, &job, printer).await,
            Some(job) => status(&client, &job, printer).await,
            None => status_all(&client, choice, printer).await,
        },
        RolloutVerb::Pause(choice) => match one(choice) {
            Some(job) => order(&client, &job, Order::Pause, printer).await,
            None => order_all(global, &client, choice, Order::Pause, None, printer).await,
        },
        RolloutVerb::Resume(choice) => match one(choice) {
            Some(job) => order(&client, &job, Order::Resume, printer).await,
            None => order_all(global, &client, choice, Order::Resume, None, printer).await,
        },
        RolloutVerb::Promote { choice, check_version, wait } => match one(choice) {
            Some(job) => promote(&client, &job, *check_version, wait, printer).await,
            None => order_all(global, &client, choice, Order::Promote, Some(wait), printer).await,
        },
        RolloutVerb::Undo(arguments) => match one(&arguments.choice) {
            Some(job) => undo(global, &client, &job, arguments, printer).await,
            None => {
                let (choice, wait) = (&arguments.choice, Some(&arguments.wait));
                order_all(global, &client, choice, Order::Undo, wait, printer).await
            }
        },
    }
}

/// The versions of the present job of a name, with which of them was rolled out.
async fn history(client: &Client, job: &JobRef, printer: &Printer) -> Result<Code, Failure> {
    let row = client.job_get(job).await?.job.unwrap_or_default();
    let versions = client.job_history(job).await?;
    let views = RolledVersionView::all(&row, versions);
    printer.one(&views, |views, style| {
        format!("{}{}", table(views, style), RolledVersionView::changes_text(views, style))
    })?;
    Ok(Code::Done)
}

async fn status(client: &Client, job: &JobRef, printer: &Printer) -> Result<Code, Failure> {
    let row = client.job_get(job).await?.job.unwrap_or_default();
    show(client, job, &row, printer).await
}

/// Waits for the end of the rollout first.
async fn status_at_end(client: &Client, job: &JobRef, printer: &Printer) -> Result<Code, Failure> {
    let row = client.job_get(job).await?.job.unwrap_or_default();
    let is_done = row.rollout.as_ref().is_some_and(|rollout| rollout.state() == RolloutState::Done);
    let is_live = matches!(row.state(), JobState::Waiting | JobState::Running);
    // Once the job is over, its tasks are none of a rollout that was done before.
    if let Some(goal) = goal_of(&row).filter(|_| is_live || !is_done) {
        rolled_wait(client, job, goal, None, printer).await?;
    }
    status(client, job, printer).await
}

async fn order(client: &Client, job: &JobRef, order: Order, printer: &Printer) -> Result<Code, Failure> {
    let ordered = client.rollout_order(job, order, 0, 0).await.map_err(|error| refused(job, error))?;
    show(client, job, &ordered.job.unwrap_or_default(), printer).await
}

/// `seen` is the version that the user has looked at.
async fn promote(
    client: &Client,
    job: &JobRef,
    seen: Option<u32>,
    limits: &WaitArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    let ordered = client.rollout_order(job, Order::Promote, 0, seen.unwrap_or(0)).await;
    let ordered = ordered.map_err(|error| refused(job, error))?;
    ordered_wait(client, job, ordered.job.unwrap_or_default(), limits, printer).await
}

/// Waits for the end of a rollout that was ordered, unless detached, and shows it.
async fn ordered_wait(
    client: &Client,
    job: &JobRef,
    row: Job,
    limits: &WaitArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    if !limits.detach
        && let Some(goal) = goal_of(&row)
    {
        rolled_wait(client, job, goal, limits.timeout, printer).await?;
        return status(client, job, printer).await;
    }
    show(client, job, &row, printer).await
}

/// Waits for a rollout. The answer is its state, so the last line of its progress is a remark.
async fn rolled_wait(
    client: &Client,
    job: &JobRef,
    goal: Goal,
    limit: Option<Duration>,
    printer: &Printer,
) -> Result<(), Failure> {
    let waited = wait(client, job, goal, limit, printer).await?;
    if !printer.is_machine() {
        printer.remark(&waited.text);
    }
    Ok(())
}

/// A refusal by the state of the rollout names the command that shows it.
pub(super) fn refused(job: &JobRef, error: ClientError) -> Failure {
    let failure = Failure::from(error);
    // The status would say the same.
    if failure.message().contains("has had no rollout") {
        return none_begun(failure);
    }
    if failure.message().contains("its rollout is paused") {
        return failure.with_hint(format!("borough rollout resume {job}"));
    }
    if failure.code() == Code::Refused {
        return failure.with_hint(format!("borough rollout status {job}; borough job history {job}"));
    }
    failure
}

/// Of a job without a rollout, the hint has what begins one.
fn none_begun(failure: Failure) -> Failure {
    failure.with_hint("borough job run FILE, with a changed file")
}

async fn undo(
    global: &Global,
    client: &Client,
    job: &JobRef,
    arguments: &UndoArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    let before = client.job_get(job).await?.job.unwrap_or_default();
    if !matches!(before.state(), JobState::Running | JobState::Waiting) {
        let state = word(before.state().as_str_name(), "JOB_STATE_");
        let message = format!("job {job} is over ({state}): there is nothing to take back");
        return Err(Failure::new(Code::Refused, message).with_hint(RUN_AGAIN));
    }
    let versions = KnownVersions::read(client, job, &before).await;
    if let Some(message) = arguments.to.and_then(|version| versions.refusal(job, &before, version)) {
        let hint = format!("borough rollout history {job}");
        return Err(Failure::new(Code::Refused, message).with_hint(hint));
    }
    let version = arguments.to.or_else(|| versions.before(&before));
    // A gateway refuses to take back what is being taken back, unless it hears how far.
    let further = version.filter(|_| arguments.to.is_none() && goes_back(&before));
    if let Some(changes) = versions.undo_text(job, &before, version).filter(|_| further.is_none()) {
        printer.remark(&changes);
    }
    let back = versions.back_text(version);
    confirm(global, client, Intent::stop(&format!("bring job {job} back to {back}")), printer)?;
    // Another version may have come into force while the user read, or somebody else may have gone back already.
    let ordered =
        client.rollout_order(job, Order::Undo, arguments.to.unwrap_or(0), before.spec_version).await;
    let row = ordered.map_err(|error| match (refused(job, error), further) {
        (failure, Some(version)) if failure.code() == Code::Refused => failure.with_hint(format!(
            "borough rollout status {job}; or further: borough rollout undo {job} --to {version}"
        )),
        (failure, _) => failure,
    });
    ordered_wait(client, job, row?.job.unwrap_or_default(), &arguments.wait, printer).await
}

/// Whether its rollout takes a version back and is not over.
fn goes_back(job: &Job) -> bool {
    let rollout = job.rollout.as_ref().filter(|rollout| rollout.reverts > 0);
    rollout.is_some_and(|rollout| matches!(rollout.state(), RolloutState::Rolling | RolloutState::Paused))
}

/// The end of the rollout of a job, if it has one that is not over.
pub(super) fn goal_of(job: &Job) -> Option<Goal> {
    job.rollout.as_ref().map(|rollout| Goal::RolledOut { version: rollout.version })
}

/// Shows the rollout of a job, with what its tasks have.
async fn show(client: &Client, job: &JobRef, row: &Job, printer: &Printer) -> Result<Code, Failure> {
    let Some(view) = view_of(client, job, row).await? else {
        let message = format!("job {job}: it has had no rollout: no changed file has begun one");
        return Err(none_begun(Failure::new(Code::Refused, message)));
    };
    printer.one(&view, |view, _| view.text())?;
    Ok(Code::Done)
}

/// The rollout of a job, with what its tasks have; `None` if it has had none.
pub(super) async fn view_of(
    client: &Client,
    job: &JobRef,
    row: &Job,
) -> Result<Option<RolloutStatusView>, Failure> {
    let Some(rollout) = row.rollout.clone() else { return Ok(None) };
    let unplaced = unplaced(client, job, row).await?;
    let is_way_back = rollout.reverts > 0;
    let mut view = RolloutStatusView::new(row, rollout, unplaced);
    view.leaving = leaving(client, job, row).await?;
    if view.rollout.state == "rolling" {
        view.healthy_after_ms = client.job_get(job).await?.spec.as_ref().and_then(healthy_after_ms);
    }
    view.unstarted = unstarted(client, job, view.rollout.failure.as_ref()).await?;
    if is_way_back {
        view.brings_back = KnownVersions::read(client, job, row).await.original(view.rollout.version);
    }
    Ok(Some(view))
}

/// How the last attempt ended of the task that a failure names, if it did not start.
async fn unstarted(
    client: &Client,
    job: &JobRef,
    failure: Option<&Foreign>,
) -> Result<Option<Foreign>, Failure> {
    let Some(index) = failure.and_then(|failure| failed_index(&failure.to_string())) else {
        return Ok(None);
    };
    let filter = TaskFilter { index: Some(index), ..TaskFilter::of_job(job) };
    let tasks = client.task_list_page(&filter, PageRequest::default()).await?.tasks;
    let exit = tasks.into_iter().next().and_then(|task| task.exit);
    let exit = exit.filter(|exit| exit.reason() == EndReason::StartFailed && exit.helper.is_empty());
    Ok(exit.map(|exit| ExitView::from(exit).text().into()))
}

/// The tasks that a rollout waits for although they want nothing: some, if there are many.
async fn leaving(client: &Client, job: &JobRef, row: &Job) -> Result<Vec<Foreign>, Failure> {
    let is_open = |rollout: &Rollout| rollout.state() != RolloutState::Done;
    let counts = row.tasks.unwrap_or_default();
    let leaves = counts.stopping.saturating_add(counts.releasing).saturating_add(counts.lost);
    if leaves == 0 || row.state() != JobState::Running || !row.rollout.as_ref().is_some_and(is_open) {
        return Ok(Vec::new());
    }
    let states = vec![TaskState::Stopping, TaskState::Releasing, TaskState::Lost];
    let filter = TaskFilter { states, wanted: true, ..TaskFilter::of_job(job) };
    let page = PageRequest { limit: LEAVING_MAX, ..PageRequest::default() };
    let tasks = client.task_list_page(&filter, page).await?.tasks;
    let mut texts: Vec<Foreign> = tasks.iter().map(leaving_text).collect();
    let named = u32::try_from(tasks.len()).unwrap_or(u32::MAX);
    let others = usize::try_from(leaves.saturating_sub(named)).unwrap_or(usize::MAX);
    if others > 0 {
        texts.push(format!("{} more", tally(others, "task")).into());
    }
    Ok(texts)
}

/// Why tasks of a job have no node, or were not resized, if its rollout is not done. Those that fail and those that run
/// say so elsewhere.
async fn unplaced(client: &Client, job: &JobRef, row: &Job) -> Result<Vec<ExplanationView>, Failure> {
    let is_done = row.rollout.as_ref().is_none_or(|rollout| rollout.state() == RolloutState::Done);
    let pending = row.tasks.as_ref().map_or(0, |tasks| tasks.pending);
    if is_done || row.state() != JobState::Running {
        return Ok(Vec::new());
    }
    let mut explanations = client.task_explain(job, None).await?.explanations;
    // What is said of no task is about the rollout itself.
    let is_of_rollout = |explanation: &Explanation| explanation.indexes.is_empty();
    explanations.retain(|one| pending > 0 || one.resize_refused || is_of_rollout(one));
    let mut views = ExplanationView::all_of(row, explanations);
    views.retain(|view| view.failures == 0 && !view.is_of_running() && view.silent_node.is_none());
    Ok(views)
}
