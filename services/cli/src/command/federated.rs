//! The verbs on federated jobs: `federation job run`, `federation job status` and so on.

mod cause;
mod wait;

use std::collections::BTreeSet;
use std::path::Path;

use borough_client::{Client, ClientError, FederatedFilter, JobRef};
use borough_model::Name;
use borough_model::federation::{FEDERATION_LABEL, FederatedJob, SplitPolicy};
use borough_model::job::file::nearest;
use borough_proto::v1;
use borough_proto::v1::order_federated_release_request::Order;

use self::cause::causes_add;
use self::wait::{JobLooks, SettledGoal, away_warn, settle};
use super::confirm::{Intent, confirm};
use super::job::{load_options, user_warn};
use super::list::list_page;
use super::member::{home, home_missing_explained};
use super::watch::{WatchedView, list_or_watch, status_watch};
use crate::args::{
    FederatedList, FederatedPlan, FederatedRebalance, FederatedRun, FederatedScale, FederatedStatusArguments,
    FederatedStop, FederatedTarget, FederatedUndo, FederatedVerb, FileArguments, Global,
};
use crate::exit::{Code, Failure};
use crate::jobfile::{LoadedFederated, federated_read, load_federated, path_shown};
use crate::output::federation_named;
use crate::output::{
    FederatedJobView, FederatedPlanView, FederatedVersionView, Printer, Style, TakenBack, federated_changes,
    tally,
};

/// Names that are looked at for a near one: one page.
const NAMES_MAX: u32 = 1_000;

pub(super) async fn run(global: &Global, verb: FederatedVerb, printer: &Printer) -> Result<Code, Failure> {
    match verb {
        FederatedVerb::Validate(file) => validate(global, &file, printer).await,
        FederatedVerb::Run(run) => submit(global, run, printer).await,
        FederatedVerb::Plan(plan) => self::plan(global, plan, printer).await,
        FederatedVerb::List(list) => self::list(global, list, printer).await,
        FederatedVerb::Status(status) => self::status(global, status, printer).await,
        FederatedVerb::Scale(scale) => self::scale(global, scale, printer).await,
        FederatedVerb::Rebalance(rebalance) => self::rebalance(global, rebalance, printer).await,
        FederatedVerb::Stop(stop) => self::stop(global, stop, printer).await,
        FederatedVerb::Pause(target) => order(global, &target, Order::Pause, printer).await,
        FederatedVerb::Resume(target) => order(global, &target, Order::Resume, printer).await,
        FederatedVerb::Approve(target) => order(global, &target, Order::Approve, printer).await,
        FederatedVerb::Undo(undo) => self::undo(global, &undo, printer).await,
        FederatedVerb::Forget(target) => forget(global, &target, printer).await,
        FederatedVerb::History(target) => history(global, &target, printer).await,
    }
}

/// The failure of a call, with what to do if there is no such job, or no federation.
fn explained(client: &Client, error: ClientError) -> Failure {
    let failure = Failure::from(error);
    if failure.code() == Code::NotFound && failure.message().contains("federated job") {
        return failure.with_hint("borough federation job list");
    }
    home_missing_explained(client, failure)
}

/// The same of a call on one job, with the near name of a job that the federation has.
async fn job_explained(client: &Client, job: &JobRef, error: ClientError) -> Failure {
    let failure = explained(client, error);
    if failure.code() != Code::NotFound || !failure.message().contains("federated job") {
        return failure;
    }
    let filter = FederatedFilter { user: job.user.clone(), ..FederatedFilter::default() };
    let page = v1::PageRequest { limit: NAMES_MAX, page: String::new() };
    let known = client.federated_list_page(&filter, page).await.unwrap_or_default().jobs;
    let names: Vec<&str> = known.iter().map(|known| known.name.as_str()).collect();
    failure.with_near(nearest(&job.name, &names))
}

/// Loads the job of a file, and says what is remarkable about it.
async fn loaded(
    global: &Global,
    arguments: &FileArguments,
    printer: &Printer,
) -> Result<FederatedJob, Failure> {
    let options = load_options(global, arguments)?;
    let path: &Path = &arguments.file;
    let loaded = load_federated(path, &options).await;
    let LoadedFederated { job, notes } = loaded.map_err(|error| super::job::file_refused(path, &error))?;
    notes.iter().for_each(|note| printer.remark(&format!("note: {note}")));
    user_warn(global, job.job.user.as_str(), printer);
    Ok(job)
}

/// Checks a file without a gateway.
async fn validate(global: &Global, file: &FileArguments, printer: &Printer) -> Result<Code, Failure> {
    let job = loaded(global, file, printer).await?;
    let path = path_shown(&file.file);
    printer.one(&job.to_file(), |_, _| {
        let tasks = tally(usize::try_from(job.job.count).unwrap_or(usize::MAX), "task");
        let each = if job.federation.split == SplitPolicy::Duplicate { " in each cell" } else { "" };
        format!("{path}: fine: {} with {tasks}{each}", reference(&job))
    })?;
    Ok(Code::Done)
}

/// Says which of the cells that a job names are no members, or that there is none at all. They may join later.
async fn strangers_warn(client: &Client, job: &FederatedJob, printer: &Printer) {
    let spec = &job.federation;
    let of_places = spec.cells.iter().chain(spec.groups.iter().flat_map(|group| &group.cells));
    let of_stages = spec.rollout.stages.iter().flat_map(|stage| &stage.cells);
    let by_name = spec.weights.keys().chain(spec.limits.keys()).chain(spec.overrides.keys());
    let named = of_places.chain(of_stages).chain(by_name);
    let named: BTreeSet<&str> = named.map(Name::as_str).collect();
    // Who may not list the members learns it from the reasons of the job.
    let Ok(members) = client.member_list(Vec::new()).await else { return };
    if members.is_empty() {
        let home = client.cell();
        printer.remark(&format!(
            "note: no cell has joined a federation whose home is {home}: borough cell members"
        ));
    }
    for stranger in named.into_iter().filter(|name| !members.iter().any(|member| member.cell == *name)) {
        printer.remark(&format!("note: {stranger} is no member of the federation: borough cell members"));
    }
}

/// Says which cells would refuse their part, because they have a job of the name that is no part of a federated one. A
/// cell that this gateway does not serve is not asked.
async fn own_jobs_warn(client: &Client, job: &JobRef, plan: &FederatedPlanView, printer: &Printer) {
    for cell in plan.cells_wanted() {
        let Ok(answer) = client.with_cell(cell.as_str()).job_get(job).await else { continue };
        let own = answer.job.filter(|own| !own.labels.contains_key(FEDERATION_LABEL));
        if own.is_some_and(|own| matches!(own.state(), v1::JobState::Running | v1::JobState::Waiting)) {
            printer.remark(&format!(
                "note: cell {cell} has a job {job} of its own and would refuse its part; stop that job: borough --cell {cell} \
                 job stop {job}; or leave {cell} out of federation.cells"
            ));
        }
    }
}

async fn plan(global: &Global, plan: FederatedPlan, printer: &Printer) -> Result<Code, Failure> {
    let client = home(global, &plan.home)?;
    let job = loaded(global, &plan.file, printer).await?;
    strangers_warn(&client, &job, printer).await;
    let answer = client.federated_plan(&reference(&job), job.to_file().to_string()).await;
    let mut view = FederatedPlanView::from(answer.map_err(|error| explained(&client, error))?);
    if view.revision().is_some()
        && let Some(now) = job_standing(&client, &reference(&job), view.version_earlier()).await
    {
        view.file_diff = federated_changes(&now, &job);
    }
    printer.one(&view, FederatedPlanView::text)?;
    own_jobs_warn(&client, &reference(&job), &view, printer).await;
    if !view.changed {
        return Ok(Code::Done);
    }
    let check = view.revision().map_or_else(String::new, |revision| format!(" --check-revision {revision}"));
    let file = plan.file.words();
    printer.remark(&format!("to do exactly this: borough federation job run{check} {file}"));
    Ok(Code::Changed)
}

async fn submit(global: &Global, run: FederatedRun, printer: &Printer) -> Result<Code, Failure> {
    let client = home(global, &run.home)?;
    let job = loaded(global, &run.file, printer).await?;
    strangers_warn(&client, &job, printer).await;
    let (target, file) = (reference(&job), job.to_file().to_string());
    let revision = run.check_revision.map_or(0, u64::from);
    let before = client.federated_get(&target).await.ok().and_then(|answer| answer.job?.release);
    let answer = client.federated_run(&target, file, revision).await;
    let answer = answer.map_err(|error| explained(&client, error))?;
    let now = answer.job.unwrap_or_default();
    printer.remark(&if answer.changed {
        format!(
            "{target}: submitted to the federation, whose home is {} (revision {})",
            client.cell(),
            now.revision
        )
    } else {
        format!("{target}: no change (revision {})", now.revision)
    });
    let paused = before.filter(|release| release.paused && release.version < now.version);
    if let Some(paused) = paused {
        printer.remark(&format!(
            "note: the release of version {} was paused; that of version {} takes its place and is not",
            paused.version, now.version
        ));
    }
    settle(&client, &target, run.wait, SettledGoal::of_run(&job), printer).await
}

/// The job as it is kept, with an earlier version if one is given. Absent: that one is no longer kept, or this program
/// cannot read it.
async fn job_standing(client: &Client, job: &JobRef, earlier: Option<u64>) -> Option<FederatedJob> {
    let kept = job_kept(client, job).await?;
    let Some(version) = earlier else { return Some(kept) };
    let versions = client.federated_history(job).await.ok()?;
    let found = versions.into_iter().find(|kept| kept.version == version)?;
    // Counts are of no version.
    let mut standing = federated_read(&found.job_file, &job.user)?;
    standing.job.count = kept.job.count;
    Some(standing)
}

/// The job as it is kept; absent: this program cannot read it.
async fn job_kept(client: &Client, job: &JobRef) -> Option<FederatedJob> {
    federated_read(&client.federated_get(job).await.ok()?.job_file, &job.user)
}

fn reference(job: &FederatedJob) -> JobRef {
    JobRef::new(job.job.user.as_str(), job.job.name.as_str())
}

/// Takes the newest version back, and waits until every cell has the one before, unless detached.
async fn undo(global: &Global, undo: &FederatedUndo, printer: &Printer) -> Result<Code, Failure> {
    let client = home(global, &undo.target.home)?;
    let job = undo.target.job.resolve(client.user());
    let known = client.federated_get(&job).await.map_err(|error| explained(&client, error))?;
    let release = known.job.and_then(|job| job.release).unwrap_or_default();
    let (version, from) = (release.version, release.from);
    let what = format!("take version {version} of federated job {job} back to version {from} in its cells");
    confirm(global, &client, Intent::stop(&what), printer)?;
    let ordered = client.federated_order(&job, Order::Revert, release.stage).await;
    let view = FederatedJobView::from(ordered.map_err(|error| explained(&client, error))?);
    let begun = format!("release of version {version} is being taken back to version {from}");
    if undo.wait.detach {
        printer.one(&view, |_, _| format!("{job}: {begun}"))?;
        return Ok(Code::Done);
    }
    printer.remark(&format!("{job}: {begun}"));
    let mut looks = JobLooks::begin(&client, &job, undo.wait, printer);
    loop {
        let (view, away) = looks.look().await?;
        match view.taken_back(version, &away) {
            TakenBack::Done => {
                away_warn(&away, printer);
                printer.one(&view, FederatedJobView::text)?;
                return Ok(Code::Done);
            }
            TakenBack::Overtaken => {
                let message =
                    format!("{job}: another change came before version {version} was back at {from}");
                let hint = format!("borough federation job status {}", job.name);
                return Err(Failure::new(Code::Refused, message).with_hint(hint));
            }
            TakenBack::NotYet => looks.pause(&view).await?,
        }
    }
}

async fn list(global: &Global, list: FederatedList, printer: &Printer) -> Result<Code, Failure> {
    let FederatedList { all_users, stopped, home: of, list } = list;
    let client = home(global, &of)?;
    let user = if all_users { String::new() } else { client.user().to_owned() };
    let filter = FederatedFilter { user: user.clone(), stopped, ..FederatedFilter::default() };
    let fetch = async |page| {
        let answer = client.federated_list_page(&filter, page).await;
        let answer = answer.map_err(|error| explained(&client, error))?;
        Ok(list_page::<_, FederatedJobView>(answer.jobs, answer.next_page))
    };
    let whose = if all_users { String::new() } else { format!(" of user {user}") };
    let (what, more) =
        if stopped { ("", "") } else { ("active ", "borough federation job list --stopped; ") };
    let none = format!(
        "no {what}federated jobs{whose} in {}\nhint: {more}borough federation job run --help",
        federation_named(client.cell())
    );
    list_or_watch(WatchedView::Unwatched, &list, none, printer, fetch).await
}

async fn status(
    global: &Global,
    status: FederatedStatusArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    let client = home(global, &status.target.home)?;
    let job = status.target.job.resolve(client.user());
    let fetch = async |_| {
        let answer = match client.federated_get(&job).await {
            Ok(answer) => answer,
            Err(error) => return Err(job_explained(&client, &job, error).await),
        };
        let mut view = FederatedJobView::from(answer.job.unwrap_or_default());
        causes_add(&client, &job, &mut view).await;
        Ok(view)
    };
    if status.watching.watch {
        return status_watch(WatchedView::Unwatched, printer, fetch, FederatedJobView::text).await;
    }
    printer.one(&fetch(None).await?, FederatedJobView::text)?;
    Ok(Code::Done)
}

async fn scale(global: &Global, scale: FederatedScale, printer: &Printer) -> Result<Code, Failure> {
    let client = home(global, &scale.home)?;
    let job = scale.job.resolve(client.user());
    let scaled = match client.federated_scale(&job, scale.count).await {
        Ok(scaled) => scaled,
        Err(error) => return Err(job_explained(&client, &job, error).await),
    };
    let goal = SettledGoal::after(&scaled, job_kept(&client, &job).await.as_ref());
    settle(&client, &job, scale.wait, goal, printer).await
}

/// Shows what a rebalance would move, asks, and has it done.
async fn rebalance(
    global: &Global,
    rebalance: FederatedRebalance,
    printer: &Printer,
) -> Result<Code, Failure> {
    let client = home(global, &rebalance.target.home)?;
    let job = rebalance.target.job.resolve(client.user());
    let which = if rebalance.stuck { v1::RebalancedTasks::Stuck } else { v1::RebalancedTasks::All };
    let plan = client.federated_rebalance_plan(&job, which).await;
    let plan = FederatedPlanView::from(plan.map_err(|error| explained(&client, error))?);
    if global.dry_run || !plan.changed {
        printer.one(&plan, FederatedPlanView::rebalance_text)?;
        return Ok(if plan.changed { Code::Changed } else { Code::Done });
    }
    printer.remark(&plan.rebalance_text(&Style::default()));
    let what = format!("rebalance federated job {job}");
    confirm(global, &client, Intent::stop(&what), printer)?;
    let ordered = client.federated_rebalance(&job, which, plan.revision().unwrap_or(0)).await;
    let ordered = ordered.map_err(|error| explained(&client, error))?;
    let goal = SettledGoal::after(&ordered, job_kept(&client, &job).await.as_ref());
    settle(&client, &job, rebalance.wait, goal, printer).await
}

/// The cells in which a job has tasks that have not ended by themselves, each with what it has: `a (3 tasks), b (1
/// task)`.
fn cells_text(job: &v1::FederatedJob) -> Vec<String> {
    let parts = job.parts.iter().filter(|part| part.count > 0 && !part.finished);
    let text = |part: &v1::FederatedPart| {
        let tasks = if part.count == 1 { "task" } else { "tasks" };
        format!("{} ({} {tasks})", part.cell, part.count)
    };
    parts.map(text).collect()
}

async fn stop(global: &Global, stop: FederatedStop, printer: &Printer) -> Result<Code, Failure> {
    let client = home(global, &stop.target.home)?;
    let job = stop.target.job.resolve(client.user());
    let answer = client.federated_get(&job).await.map_err(|error| explained(&client, error))?;
    let cells = cells_text(&answer.job.unwrap_or_default());
    if cells.len() > 1 && !stop.all_cells {
        let message = format!("{job} has tasks in {} cells: {}", cells.len(), cells.join(", "));
        let name = &job.name;
        let hint = format!(
            "to stop it in all of them: borough federation job stop {name} --all-cells; to leave its tasks there: borough \
             federation job forget {name}"
        );
        return Err(Failure::new(Code::Refused, message).with_hint(hint));
    }
    let of =
        if cells.is_empty() { "which has no tasks".to_owned() } else { format!("in {}", cells.join(", ")) };
    confirm(global, &client, Intent::stop(&format!("stop federated job {job} {of}")), printer)?;
    let stopped = client.federated_stop(&job).await.map_err(|error| explained(&client, error))?;
    settle(&client, &job, stop.wait, SettledGoal::after(&stopped, None), printer).await
}

/// Orders something of the release, for the stage that the caller could see.
async fn order(
    global: &Global,
    target: &FederatedTarget,
    order: Order,
    printer: &Printer,
) -> Result<Code, Failure> {
    let client = home(global, &target.home)?;
    let job = target.job.resolve(client.user());
    let known = client.federated_get(&job).await.map_err(|error| explained(&client, error))?;
    let release = known.job.and_then(|job| job.release).unwrap_or_default();
    let ordered = client.federated_order(&job, order, release.stage).await;
    let view = FederatedJobView::from(ordered.map_err(|error| explained(&client, error))?);
    // The federation carries it out next: the view is of before.
    let done = match order {
        Order::Pause => format!(
            "no further cell gets version {} until: borough federation job resume {job}",
            release.version
        ),
        Order::Resume => format!("the release of version {} goes on", release.version),
        _ => format!(
            "stage {} of the release of version {} is approved; the next one begins once it has proved the version",
            release.stage, release.version
        ),
    };
    printer.one(&view, |_, _| format!("{job}: {done}"))?;
    Ok(Code::Done)
}

async fn forget(global: &Global, target: &FederatedTarget, printer: &Printer) -> Result<Code, Failure> {
    let client = home(global, &target.home)?;
    let job = target.job.resolve(client.user());
    let answer = client.federated_get(&job).await.map_err(|error| explained(&client, error))?;
    let cells = cells_text(&answer.job.unwrap_or_default());
    let left = if cells.is_empty() {
        "it has no tasks".to_owned()
    } else {
        format!("its tasks go on in {}", cells.join(", "))
    };
    confirm(global, &client, Intent::forget(&format!("forget federated job {job}; {left}")), printer)?;
    let forgotten = client.federated_forget(&job).await.map_err(|error| explained(&client, error))?;
    let view = FederatedJobView::from(forgotten.unwrap_or_default());
    printer.one(&view, |_, _| format!("forgot federated job {job}; {left}"))?;
    Ok(Code::Done)
}

async fn history(global: &Global, target: &FederatedTarget, printer: &Printer) -> Result<Code, Failure> {
    let client = home(global, &target.home)?;
    let job = target.job.resolve(client.user());
    let known = match client.federated_get(&job).await {
        Ok(answer) => FederatedJobView::from(answer.job.unwrap_or_default()),
        Err(error) => return Err(job_explained(&client, &job, error).await),
    };
    let versions = client.federated_history(&job).await.map_err(|error| explained(&client, error))?;
    let views = FederatedVersionView::all(versions, &job.user, known.release_standing());
    printer.one(&views, |views, style| FederatedVersionView::text(views, style))?;
    Ok(Code::Done)
}
