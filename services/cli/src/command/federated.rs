//! The verbs on federated jobs: `federation job run`, `federation job status` and so on.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use borough_client::{Client, ClientError, FederatedFilter, JobRef};
use borough_kv::env::{Clock, SystemClock};
use borough_model::Name;
use borough_model::federation::{FederatedJob, SplitPolicy};
use borough_proto::v1;
use borough_proto::v1::order_federated_release_request::Order;

use super::confirm::{Intent, confirm};
use super::job::{load_options, user_warn};
use super::list::list_page;
use super::member::{home, home_missing_explained};
use super::watch::{WatchedView, list_or_watch, status_watch};
use crate::args::{
    FederatedList, FederatedPlan, FederatedRebalance, FederatedRun, FederatedScale, FederatedStatusArguments,
    FederatedStop, FederatedTarget, FederatedUndo, FederatedVerb, FederatedWait, FileArguments, Global,
};
use crate::exit::{Code, Failure};
use crate::jobfile::{LoadedFederated, load_federated, path_shown};
use crate::output::{
    FederatedJobView, FederatedPlanView, FederatedVersionView, Printer, Style, TakenBack, tally,
};

/// Pause between two looks at a job that a verb waits for.
const LOOK_PAUSE: Duration = Duration::from_millis(300);

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
        return failure.with_hint("borough federation job list lists yours");
    }
    home_missing_explained(client, failure)
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

/// Says which of the cells that a job names are no members. They may join later.
async fn strangers_warn(client: &Client, job: &FederatedJob, printer: &Printer) {
    let spec = &job.federation;
    let named = spec.cells.iter().chain(spec.groups.iter().flat_map(|group| &group.cells));
    let named: BTreeSet<&str> = named.map(Name::as_str).collect();
    if named.is_empty() {
        return;
    }
    // Who may not list the members learns it from the reasons of the job.
    let Ok(members) = client.member_list(Vec::new()).await else { return };
    for stranger in named.into_iter().filter(|name| !members.iter().any(|member| member.cell == *name)) {
        printer.remark(&format!("note: {stranger} is no member of the federation: borough cell members"));
    }
}

async fn plan(global: &Global, plan: FederatedPlan, printer: &Printer) -> Result<Code, Failure> {
    let client = home(global, &plan.home)?;
    let job = loaded(global, &plan.file, printer).await?;
    strangers_warn(&client, &job, printer).await;
    let answer = client.federated_plan(&reference(&job), job.to_file().to_string()).await;
    let view = FederatedPlanView::from(answer.map_err(|error| explained(&client, error))?);
    printer.one(&view, FederatedPlanView::text)?;
    if !view.changed {
        return Ok(Code::Done);
    }
    let check = view.revision().map_or_else(String::new, |revision| format!(" --check-revision {revision}"));
    let file = path_shown(&plan.file.file);
    printer.remark(&format!("to do exactly this: borough federation job run{check} {file}"));
    Ok(Code::Changed)
}

async fn submit(global: &Global, run: FederatedRun, printer: &Printer) -> Result<Code, Failure> {
    let client = home(global, &run.home)?;
    let job = loaded(global, &run.file, printer).await?;
    strangers_warn(&client, &job, printer).await;
    let (target, file) = (reference(&job), job.to_file().to_string());
    let revision = run.check_revision.map_or(0, u64::from);
    let answer = client.federated_run(&target, file, revision).await;
    let answer = answer.map_err(|error| explained(&client, error))?;
    let now = answer.job.unwrap_or_default();
    printer.remark(&if answer.changed {
        format!("{target}: submitted to the federation {} (revision {})", client.cell(), now.revision)
    } else {
        format!("{target}: no change (revision {})", now.revision)
    });
    settle(&client, &target, run.wait, printer).await
}

fn reference(job: &FederatedJob) -> JobRef {
    JobRef::new(job.job.user.as_str(), job.job.name.as_str())
}

/// Cells that are to end their tasks of a job and do not answer: nobody knows when they do.
async fn cells_away(client: &Client, view: &FederatedJobView) -> Vec<String> {
    let mut ending = view.cells_ending();
    if ending.is_empty() {
        return ending;
    }
    let Ok(members) = client.member_list(Vec::new()).await else { return Vec::new() };
    let answers = |member: &v1::Member| {
        matches!(member.health(), v1::MemberHealth::Current | v1::MemberHealth::NotLooked)
    };
    ending.retain(|cell| !members.iter().any(|member| member.cell == *cell && answers(member)));
    ending
}

/// Says of cells that do not answer that their tasks have not ended.
fn away_warn(away: &[String], printer: &Printer) {
    if !away.is_empty() {
        printer.remark(&format!("no answer of {}: its tasks end there when it is back", away.join(", ")));
    }
}

/// What a wait for a federated job sees, and until when it looks.
struct JobLooks<'w> {
    client: &'w Client,
    job: &'w JobRef,
    wait: FederatedWait,
    printer: &'w Printer,
    shown: String,
    clock: Arc<dyn Clock>,
    begun: Duration,
}

impl<'w> JobLooks<'w> {
    fn begin(client: &'w Client, job: &'w JobRef, wait: FederatedWait, printer: &'w Printer) -> Self {
        let clock = SystemClock::shared();
        let begun = clock.monotonic();
        Self { client, job, wait, printer, shown: String::new(), clock, begun }
    }

    /// The job, with the cells that are to end their tasks and do not answer.
    async fn look(&self) -> Result<(FederatedJobView, Vec<String>), Failure> {
        let answer = self.client.federated_get(self.job).await;
        let answer = answer.map_err(|error| explained(self.client, error))?;
        let view = FederatedJobView::from(answer.job.unwrap_or_default());
        let away = if self.wait.detach { Vec::new() } else { cells_away(self.client, &view).await };
        Ok((view, away))
    }

    /// Says how far it is, and pauses.
    ///
    /// # Errors
    /// The time is over.
    async fn pause(&mut self, now: String) -> Result<(), Failure> {
        let job = self.job;
        if now != self.shown {
            self.printer.remark(&format!("{job}: {now}"));
            self.shown = now;
        }
        if self.clock.monotonic().saturating_sub(self.begun) >= self.wait.timeout {
            let what = format!("{job} is not there yet: {}; the federation goes on", self.shown);
            let hint = format!("borough federation job status {}", job.name);
            return Err(Failure::new(Code::Failed, what).with_hint(hint));
        }
        tokio::time::sleep(LOOK_PAUSE).await;
        Ok(())
    }
}

/// Waits until the federation has done what the owner wants, unless detached, and shows the job.
async fn settle(
    client: &Client,
    job: &JobRef,
    wait: FederatedWait,
    printer: &Printer,
) -> Result<Code, Failure> {
    let mut looks = JobLooks::begin(client, job, wait, printer);
    loop {
        let (view, away) = looks.look().await?;
        if wait.detach || view.is_settled(&away) {
            away_warn(&away, printer);
            printer.one(&view, FederatedJobView::text)?;
            return Ok(Code::Done);
        }
        if let Some(failure) = view.failure_text() {
            printer.one(&view, FederatedJobView::text)?;
            let cause = view.cause_hint().map_or_else(String::new, |cause| format!("{cause}; to go back: "));
            let hint =
                format!("{cause}borough federation job undo {0}, or run another version of {0}", job.name);
            return Err(Failure::new(Code::Failed, format!("{job}: {failure}")).with_hint(hint));
        }
        looks.pause(view.progress_text()).await?;
    }
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
            TakenBack::NotYet => looks.pause(view.progress_text()).await?,
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
        "no {what}federated jobs{whose} in the federation {}\nhint: {more}borough federation job run --help",
        client.cell()
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
        let answer = client.federated_get(&job).await.map_err(|error| explained(&client, error))?;
        Ok(FederatedJobView::from(answer.job.unwrap_or_default()))
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
    let scaled = client.federated_scale(&job, scale.count).await;
    scaled.map_err(|error| explained(&client, error))?;
    settle(&client, &job, scale.wait, printer).await
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
    if rebalance.dry_run || !plan.changed {
        printer.one(&plan, FederatedPlanView::rebalance_text)?;
        return Ok(if plan.changed { Code::Changed } else { Code::Done });
    }
    printer.remark(&plan.rebalance_text(&Style { wide: false, color: false }));
    let what = format!("rebalance federated job {job}");
    confirm(global, &client, Intent::stop(&what), printer)?;
    let ordered = client.federated_rebalance(&job, which, plan.revision().unwrap_or(0)).await;
    ordered.map_err(|error| explained(&client, error))?;
    settle(&client, &job, rebalance.wait, printer).await
}

/// The cells of a job, each with what it has: `a (3 tasks), b (1 task)`.
fn cells_text(job: &v1::FederatedJob) -> Vec<String> {
    let parts = job.parts.iter().filter(|part| part.count > 0);
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
    client.federated_stop(&job).await.map_err(|error| explained(&client, error))?;
    settle(&client, &job, stop.wait, printer).await
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
    printer.one(&view, FederatedJobView::text)?;
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
    let versions = client.federated_history(&job).await.map_err(|error| explained(&client, error))?;
    let rows: Vec<FederatedVersionView> = versions.into_iter().map(FederatedVersionView::from).collect();
    printer.list(&rows, "no versions")?;
    Ok(Code::Done)
}
