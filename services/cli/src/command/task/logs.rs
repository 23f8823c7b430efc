//! `task logs`.

use borough_client::{Client, LogQuery, TaskRef};
use borough_proto::v1::read_logs_request::Stream;
use futures::StreamExt as _;

use super::no_such_task;
use crate::args::LogArguments;
use crate::exit::{Code, Failure};
use crate::output::Printer;

pub(super) async fn logs(
    client: &Client,
    arguments: &LogArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    let task = arguments.target.resolve(client.user());
    let incarnation =
        if arguments.previous { Some(previous(client, &task).await?) } else { arguments.incarnation };
    let stream = if arguments.stdout {
        Stream::Stdout
    } else if arguments.stderr {
        Stream::Stderr
    } else {
        Stream::Unspecified
    };
    let (tail_lines, follow) = (arguments.tail, arguments.follow);
    let query = LogQuery { stream, tail_lines, follow, incarnation, ..LogQuery::default() };
    let mut parts = client.task_logs(&task, query).await?;
    while let Some(part) = parts.next().await {
        let part = part?;
        if part.gone_bytes > 0 {
            printer.remark(&gone_text(&task, part.gone_bytes));
        }
        match part.stream() {
            // A single requested stream goes to standard output. Of both, each goes where the task sent it.
            Stream::Stderr if stream == Stream::Unspecified => printer.error_bytes(&part.data)?,
            _ => printer.bytes(&part.data)?,
        }
    }
    Ok(Code::Done)
}

/// What is said of output that the node removed before it was read.
pub(crate) fn gone_text(task: &TaskRef, bytes: u64) -> String {
    format!("{task}: {bytes} bytes of output are gone; the node removed them before they were read")
}

/// The attempt before the current or last one.
async fn previous(client: &Client, task: &TaskRef) -> Result<u64, Failure> {
    let (tasks, _) = client.task_list_of_job(&task.job).await?;
    let row = tasks.iter().find(|row| row.index == task.index).ok_or_else(|| no_such_task(task))?;
    let earlier = row.incarnation.checked_sub(1).filter(|&incarnation| incarnation > 0);
    earlier.ok_or_else(|| Failure::new(Code::NotFound, format!("{task} has had no earlier attempt")))
}
