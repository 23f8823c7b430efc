//! Verbs on the rollouts of every job with some labels.

use borough_client::{Client, JobRef};
use borough_proto::v1::order_rollout_request::Order;
use borough_proto::v1::{Job, JobState, RolloutState};
use futures::{StreamExt as _, stream};

use super::bulk::{
    BulkChange, BulkHarm, BulkOutcome, BulkWait, NAMES_MAX, SharedTimeout, WAITS_AT_ONCE, confirm_all,
};
use super::confirm::Unattended;
use super::job::{ChosenJobs, FitJobs, wait};
use super::rollout::{goal_of, refused, view_of};
use super::rollout_undo::KnownVersions;
use crate::args::{Global, RolloutChoice, WaitArguments};
use crate::exit::{Code, Failure};
use crate::output::{Printer, RolloutStatusView, tally};

const NOUN: &str = "rollout";

fn name_of(job: &Job) -> JobRef {
    JobRef::new(job.user.as_str(), job.name.as_str())
}

/// The jobs with labels whose rollouts `fits` takes. `which` says which rollouts these are.
async fn chosen(
    client: &Client,
    choice: &RolloutChoice,
    which: &str,
    fits: fn(&Job) -> bool,
) -> Result<ChosenJobs, Failure> {
    let fit = FitJobs { states: &[], rows: "jobs", unattended: Unattended::Refuse, check: |_, _| Ok(()) };
    let mut chosen = ChosenJobs::of(client, &[], &choice.labels, fit).await?;
    chosen.jobs.retain(fits);
    chosen.names = chosen.jobs.iter().map(|job| name_of(job).to_string()).collect();
    if chosen.jobs.is_empty() {
        let message = format!("no job with these labels has a rollout{which}");
        return Err(
            Failure::new(Code::NotFound, message).with_hint("borough job list shows the rollouts of jobs")
        );
    }
    Ok(chosen)
}

/// Shows the last rollout of each job.
pub(super) async fn status_all(
    client: &Client,
    choice: &RolloutChoice,
    printer: &Printer,
) -> Result<Code, Failure> {
    let jobs = chosen(client, choice, "", |job| job.rollout.is_some()).await?.jobs;
    shown(client, &jobs, printer).await?;
    Ok(Code::Done)
}

/// What an order does, and which rollouts it is for.
struct OrderWords {
    verb: &'static str,
    done: &'static str,
    which: &'static str,
    fits: fn(&Job) -> bool,
}

fn words_of(order: Order) -> OrderWords {
    fn is(job: &Job, state: RolloutState) -> bool {
        job.state() == JobState::Running
            && job.rollout.as_ref().is_some_and(|rollout| rollout.state() == state)
    }
    match order {
        Order::Pause => OrderWords {
            verb: "pause",
            done: "paused",
            which: " that goes on",
            fits: |job| is(job, RolloutState::Rolling),
        },
        Order::Resume => OrderWords {
            verb: "resume",
            done: "resumed",
            which: " that is paused",
            fits: |job| is(job, RolloutState::Paused),
        },
        Order::Promote => OrderWords {
            verb: "promote",
            done: "promoted and done",
            which: " with canaries",
            fits: |job| job.rollout.as_ref().is_some_and(|rollout| rollout.canaries > 0),
        },
        Order::Undo | Order::Unspecified => OrderWords {
            verb: "undo",
            done: "taken back",
            which: " to take back",
            fits: |job| job.rollout.is_some(),
        },
    }
}

/// Says behind each name that is listed which version comes back, and what that changes.
async fn undo_told(client: &Client, jobs: &[Job], names: &mut [String]) {
    for (row, name) in jobs.iter().zip(names).take(NAMES_MAX) {
        let job = name_of(row);
        let versions = KnownVersions::read(client, &job, row).await;
        *name = versions.undo_text(&job, row, versions.before(row)).unwrap_or_else(|| name.clone());
    }
}

/// Gives an order to the rollout of each job that it fits, and waits for all of them if `limits` say so.
pub(super) async fn order_all(
    global: &Global,
    client: &Client,
    choice: &RolloutChoice,
    order: Order,
    limits: Option<&WaitArguments>,
    printer: &Printer,
) -> Result<Code, Failure> {
    let OrderWords { verb, done, which, fits } = words_of(order);
    let ChosenJobs { jobs, mut names, by } = chosen(client, choice, which, fits).await?;
    if order == Order::Undo {
        undo_told(client, &jobs, &mut names).await;
    }
    let what = format!("{verb} {}", tally(jobs.len(), NOUN));
    let change = BulkChange { what: &what, noun: NOUN, done, by, harm: BulkHarm::Mild };
    confirm_all(global, client, change, &names, printer)?;
    let mut outcome = BulkOutcome::new(change, jobs.len());
    let ordered = async |job: &Job| {
        // What was shown before the change was confirmed.
        let (job, expected) = (name_of(job), job.spec_version);
        let answer =
            client.rollout_order(&job, order, 0, expected).await.map_err(|error| refused(&job, error))?;
        Ok(answer.job.unwrap_or_default())
    };
    let mut changed = outcome.each(&jobs, |job| name_of(job).to_string(), ordered, printer).await;
    if let Some(limits) = limits.filter(|limits| !limits.detach) {
        let (timeout, still) = (SharedTimeout::begin(limits.timeout), printer.without_motion());
        let (timeout, still) = (&timeout, &still);
        let wait_for = async |row: Job| {
            let job = name_of(&row);
            let ended = match goal_of(&row) {
                Some(goal) => wait(client, &job, goal, timeout.left(), still).await.map(|_| row),
                None => Ok(row),
            };
            BulkWait { name: job.to_string(), objects: 1, ended }
        };
        let waits = stream::iter(changed).map(wait_for).buffer_unordered(WAITS_AT_ONCE);
        changed = outcome.waited(waits).await;
    }
    changed.sort_by(|one, other| (&one.user, &one.name).cmp(&(&other.user, &other.name)));
    shown(client, &changed, printer).await?;
    outcome.done()
}

/// Shows the rollouts of jobs as they are now.
async fn shown(client: &Client, jobs: &[Job], printer: &Printer) -> Result<(), Failure> {
    let mut views: Vec<RolloutStatusView> = Vec::with_capacity(jobs.len());
    for job in jobs {
        let name = name_of(job);
        let row = client.job_get(&name).await?.job.unwrap_or_default();
        views.extend(view_of(client, &name, &row).await?);
    }
    printer.one(&views, |views, _| views.iter().map(RolloutStatusView::text).collect::<Vec<_>>().join("\n"))
}
