//! Verbs on single tasks.

mod exec;
mod logs;
mod stop;
mod terminal;

use borough_client::TaskRef;

use crate::args::{Global, TaskVerb};
use crate::connect;
use crate::exit::{Code, Failure};
use crate::output::{Printer, TaskOutput};

pub(super) async fn run(global: &Global, verb: TaskVerb, printer: &Printer) -> Result<Code, Failure> {
    let client = connect::cell_client(global).await?;
    match verb {
        TaskVerb::Status { target, index } => {
            let job = target.resolve(client.user());
            let (tasks, _) = client.task_list_of_job(&job).await?;
            let wanted = tasks.into_iter().filter(|task| index.is_none_or(|index| task.index == index));
            let views: Vec<TaskOutput> = wanted.map(TaskOutput::from).collect();
            match (index, views.is_empty()) {
                (Some(index), true) => return Err(no_such_task(&TaskRef { job, index })),
                _ => printer.list(&views)?,
            }
        }
        TaskVerb::Logs(arguments) => return logs::logs(&client, &arguments, printer).await,
        TaskVerb::Exec(arguments) => return exec::exec(&client, arguments, printer).await,
        TaskVerb::Signal { target, signal } => {
            let task = target.resolve(client.user());
            client.task_signal(&task, signal).await?;
            printer.remark(&format!("{task}: sent {}", crate::args::signal_name(signal)));
        }
        TaskVerb::Restart { target } => {
            let task = target.resolve(client.user());
            client.task_restart(&task).await?;
            printer.remark(&format!("{task}: restarting"));
        }
        TaskVerb::Stop(arguments) => return stop::stop(global, &client, &arguments, printer).await,
    }
    Ok(Code::Done)
}

fn no_such_task(task: &TaskRef) -> Failure {
    Failure::new(Code::NotFound, format!("no task {task}"))
        .with_hint(format!("borough task status {} lists the tasks of the job", task.job))
}
