//! Verbs on jobs.

mod file;
mod logs;
mod plan;
mod progress;
mod run;
mod show;
mod wait;

use borough_client::{JobFilter, TaskFilter};

use self::run::WaitMode;
use self::show::TaskSelection;
use crate::args::{Global, JobVerb, TaskOrJobState};
use crate::connect;
use crate::exit::{Code, Failure};
use crate::output::Printer;

pub(super) async fn run(global: &Global, verb: JobVerb, printer: &Printer) -> Result<Code, Failure> {
    match verb {
        JobVerb::Init { file } => file::init(&file, printer),
        JobVerb::Validate(arguments) => file::validate(global, &arguments, printer).await,
        JobVerb::Schema => file::schema(printer),
        JobVerb::Plan(arguments) => plan::plan(global, &arguments, printer).await,
        JobVerb::Run(arguments) => run::run(global, arguments, printer).await,
        JobVerb::Scale { target, count, detach, timeout } => {
            let client = connect::cell_client(global).await?;
            let job = target.resolve(client.user());
            let wait = if detach { WaitMode::Detached } else { WaitMode::Until(timeout) };
            run::scale(&client, &job, count, wait, printer).await
        }
        JobVerb::Stop(arguments) => {
            let client = connect::cell_client(global).await?;
            let job = arguments.target.resolve(client.user());
            let wait = if arguments.detach { WaitMode::Detached } else { WaitMode::Until(arguments.timeout) };
            run::stop(&client, &job, wait, printer).await
        }
        JobVerb::Status { target: Some(target), state, list, .. } => {
            let client = connect::cell_client(global).await?;
            let job = target.resolve(client.user());
            let states = states_of(&state, "a task", |state| state.task)?;
            let filter = TaskFilter { states, ..TaskFilter::of_job(&job) };
            show::status(&client, &job, &TaskSelection { filter, list }, printer).await
        }
        JobVerb::Status { target: None, all, ended, label, state, list } => {
            let client = connect::cell_client(global).await?;
            let user = if all { String::new() } else { client.user().to_owned() };
            let states = states_of(&state, "a job", |state| state.job)?;
            let filter = JobFilter { user, ended, states, selector: label, ..JobFilter::default() };
            show::list(&client, &filter, &list, printer).await
        }
        JobVerb::Logs(arguments) => {
            let client = connect::cell_client(global).await?;
            logs::logs(&client, &arguments, printer).await
        }
        JobVerb::History { target } => {
            let client = connect::cell_client(global).await?;
            show::history(&client, &target.resolve(client.user()), printer).await
        }
    }
}

/// The states of the kind that is listed. Some words are a state of a task only, or of a job only.
fn states_of<S>(
    words: &[TaskOrJobState],
    of: &str,
    state: impl Fn(&TaskOrJobState) -> Option<S>,
) -> Result<Vec<S>, Failure> {
    let states: Option<Vec<S>> = words.iter().map(state).collect();
    states.ok_or_else(|| {
        Failure::new(Code::Usage, format!("--state names a state that {of} does not have"))
            .with_hint("the tasks of a job are listed with JOB, and jobs without it")
    })
}
