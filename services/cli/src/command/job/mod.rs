//! Verbs on jobs.

mod bulk;
mod deadline;
mod detached;
mod edit;
mod file;
mod logs;
mod outage;
mod owned;
mod plan;
mod progress;
mod purge;
mod restart;
mod rollout;
mod run;
mod show;
mod tail;
mod wait;

use borough_client::{JobFilter, JobRef, TaskFilter};

pub(super) use self::bulk::{ChosenJobs, FitJobs, all_again, jobs_shown};
pub(super) use self::file::{load_options, refused as file_refused, user_warn};
pub(super) use self::progress::{Goal, NextAttempt, helper_instead};
use self::show::TaskSelection;
pub(super) use self::wait::wait;
use super::confirm::{Intent, confirm};
use super::selected::jobs_selected;
use crate::args::{
    Global, JobLabels, JobTarget, JobVerb, LabelArgument, NameOrChange, ScaleArguments, ScaleChoice,
    TaskOrJobState, conditions_of, label_change, task_states_apart, value_shown,
};
use crate::connect;
use crate::exit::{Code, Failure};
use crate::output::Printer;

pub(super) async fn run(global: &Global, verb: JobVerb, printer: &Printer) -> Result<Code, Failure> {
    match verb {
        JobVerb::Init { file, kind } => file::init(&file, kind, printer),
        JobVerb::Validate(arguments) => file::validate(global, &arguments, printer).await,
        JobVerb::Schema => file::schema(printer),
        JobVerb::Plan(arguments) => plan::plan(global, &arguments, printer).await,
        JobVerb::Run(arguments) => run::run(global, arguments, printer).await,
        JobVerb::Edit(arguments) => edit::edit(global, &arguments, printer).await,
        JobVerb::Scale(arguments) => scale(global, &arguments, printer).await,
        JobVerb::Stop(arguments) => {
            let client = connect::cell_client(global).await?;
            let jobs = jobs_once(&arguments.choice.targets, client.user());
            let [job] = jobs.as_slice() else {
                return bulk::stop_all(global, &client, &arguments, printer).await;
            };
            confirm(global, &client, Intent::stop(&format!("stop job {job}")), printer)?;
            run::stop(&client, job, arguments.wait.into(), printer).await
        }
        JobVerb::Restart(arguments) => {
            let client = connect::cell_client(global).await?;
            restart::restart(global, &client, &arguments, printer).await
        }
        JobVerb::Status { target: Some(target), state, list, .. } => {
            let states =
                states_of(&state, TaskOrJobState::of_task, "those of jobs: borough job list --state STATES")?;
            let client = connect::cell_client(global).await?;
            let job = target.resolve(client.user());
            let wanted = states.is_empty();
            let (states, conditions) = task_states_apart(&states);
            let filter = TaskFilter { states, conditions, wanted, ..TaskFilter::of_job(&job) };
            show::status(&client, &job, &TaskSelection { filter, list }, printer).await
        }
        JobVerb::Status { target: None, all, ended, label, state, list } => {
            let states = states_of(
                &state,
                TaskOrJobState::of_job,
                "those of tasks: borough task list --state STATES",
            )?;
            let client = connect::cell_client(global).await?;
            let user = if all { String::new() } else { client.user().to_owned() };
            let label = conditions_of(&label);
            jobs_selected(&client, &user, &label, printer).await?;
            let filter = JobFilter { user, ended, states, selector: label, ..JobFilter::default() };
            show::list(&client, &filter, &list, printer).await
        }
        JobVerb::Logs(arguments) => {
            let client = connect::cell_client(global).await?;
            logs::logs(&client, arguments, printer).await
        }
        JobVerb::Purge(arguments) => {
            let client = connect::cell_client(global).await?;
            match jobs_once(&arguments.targets, client.user()).as_slice() {
                [job] => purge::purge(global, &client, job, printer).await,
                _ if arguments.all_ended => purge::purge_all(global, &client, printer).await,
                _ => purge::purge_chosen(global, &client, &arguments, printer).await,
            }
        }
        JobVerb::Label { target, changes, labels } => {
            let usage = |text| Failure::new(Code::Usage, text).with_hint("borough job label --help");
            let apart = NameOrChange::apart(target, changes, &labels.label, "JOB");
            let (target, changes) = apart.map_err(usage)?;
            label(global, target, changes, &labels, printer).await
        }
        JobVerb::History { target, version } => {
            let client = connect::cell_client(global).await?;
            show::history(&client, &target.resolve(client.user()), version, printer).await
        }
    }
}

/// The jobs that a command line names, each once.
pub(super) fn jobs_once(targets: &[JobTarget], caller: &str) -> Vec<JobRef> {
    let mut jobs: Vec<JobRef> = Vec::with_capacity(targets.len());
    for job in targets.iter().map(|target| target.resolve(caller)) {
        if !jobs.contains(&job) {
            jobs.push(job);
        }
    }
    jobs
}

/// Sets and removes labels of the job that is named, or of those with labels.
async fn label(
    global: &Global,
    target: Option<JobTarget>,
    changes: Vec<LabelArgument>,
    labels: &JobLabels,
    printer: &Printer,
) -> Result<Code, Failure> {
    let change = label_change(changes).map_err(|text| Failure::new(Code::Usage, text))?;
    let client = connect::cell_client(global).await?;
    match target {
        Some(target) => purge::label(&client, &target.resolve(client.user()), change, printer).await,
        None => bulk::label_all(global, &client, labels, &change, printer).await,
    }
}

async fn scale(global: &Global, arguments: &ScaleArguments, printer: &Printer) -> Result<Code, Failure> {
    let choice = arguments
        .choice()
        .map_err(|message| Failure::new(Code::Usage, message).with_hint("borough job scale --help"))?;
    let client = connect::cell_client(global).await?;
    match choice {
        ScaleChoice::Job(target, count) => {
            let job = target.resolve(client.user());
            run::scale(&client, &job, count, arguments.wait.into(), printer).await
        }
        ScaleChoice::Labelled(count) => {
            bulk::scale_all(global, &client, &arguments.labels, count, arguments.wait, printer).await
        }
    }
}

/// The states of the kind that is listed. Some words are a state of a task only, or of a job only.
fn states_of<S>(
    words: &[TaskOrJobState],
    state: impl Fn(&TaskOrJobState) -> Result<S, String>,
    others: &str,
) -> Result<Vec<S>, Failure> {
    let one = |word: &TaskOrJobState| {
        state(word).map_err(|refused| {
            let before = if refused.starts_with(',') { "" } else { "; " };
            let message = format!("--state: {}{before}{refused}", value_shown(word.word()));
            let failure = Failure::new(Code::Usage, message);
            // The word may be right, and the verb wrong.
            let is_other = word.of_task().is_ok() || word.of_job().is_ok();
            if is_other { failure.with_hint(others) } else { failure }
        })
    };
    words.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_is_named_twice_counts_once() {
        let targets = ["web", "ann/web", "db", "bob/web", "web"].map(|text| text.parse().unwrap());
        let names: Vec<String> = jobs_once(&targets, "ann").iter().map(ToString::to_string).collect();
        assert_eq!(names, ["ann/web", "ann/db", "bob/web"]);
    }
}
