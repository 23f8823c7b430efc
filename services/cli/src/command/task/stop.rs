//! `task stop`: ends an attempt, and waits until the task runs again.

use borough_client::Client;

use super::bulk::stop_all;
use crate::args::{Global, TaskStopArguments};
use crate::command::confirm::{Intent, confirm};
use crate::command::job::{Goal, NextAttempt, wait};
use crate::exit::{Code, Failure};
use crate::output::{Printer, TaskOutput};

pub(super) async fn stop(
    global: &Global,
    client: &Client,
    arguments: &TaskStopArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    let [target] = arguments.targets.as_slice() else {
        return stop_all(global, client, arguments, printer).await;
    };
    let task = target.resolve(client.user());
    confirm(global, client, Intent::stop(&format!("stop task {task}")), printer)?;
    let stopped = client.task_stop(&task).await?;
    if arguments.wait.detach {
        printer.remark(&format!("{task}: stopping attempt {}", stopped.incarnation));
        return Ok(Code::Done);
    }
    let next = NextAttempt { index: task.index, after: stopped.incarnation };
    let waited = wait(client, &task.job, Goal::Again(next), arguments.wait.timeout, printer).await?;
    let Some(again) = waited.task else {
        printer.answer(&waited.text)?;
        return Ok(Code::Done);
    };
    let text = |again: &TaskOutput, _: &_| {
        format!("{task}: {} on {}, attempt {}", again.state, again.node, again.attempt)
    };
    printer.one(&TaskOutput::from(again), text)?;
    Ok(Code::Done)
}
