//! Verbs on jobs.

mod file;
mod logs;
mod plan;
mod progress;
mod run;
mod show;
mod wait;

use borough_client::JobFilter;

use self::run::WaitMode;
use crate::args::{Global, JobVerb};
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
        JobVerb::Status { target: Some(target), tasks, .. } => {
            let client = connect::cell_client(global).await?;
            show::status(&client, &target.resolve(client.user()), &tasks, printer).await
        }
        JobVerb::Status { target: None, all, ended, label, .. } => {
            let client = connect::cell_client(global).await?;
            let user = if all { String::new() } else { client.user().to_owned() };
            let filter = JobFilter { user, ended, labels: label.into_iter().collect() };
            show::list(&client, &filter, printer).await
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
