//! `why`: why tasks are not placed, or do not run as they should.

use borough_proto::v1::Job;

use crate::args::{Global, WhyTarget};
use crate::connect;
use crate::exit::{Code, Failure};
use crate::output::{ExplanationView, Printer, count_with_surge, explanations_text, tally};

pub(super) async fn run(global: &Global, target: &WhyTarget, printer: &Printer) -> Result<Code, Failure> {
    let client = connect::cell_client(global).await?;
    let job = target.resolve(client.user());
    let answer = client.task_explain(&job, target.index).await?;
    let row = client.job_get(&job).await?.job.unwrap_or_default();
    let mut views = ExplanationView::all_of(&row, answer.explanations);
    let placed = if views.is_empty() { placed_text(&row) + "\n" } else { String::new() };
    // One task is explained by itself.
    views.extend(ExplanationView::of_rollout(&row).filter(|_| target.index.is_none()));
    printer.one(&views, |views, _| format!("{placed}{}", explanations_text(views)))?;
    Ok(Code::Done)
}

/// A job of which no task wants a node. Its tasks are placed, or have ended for good.
fn placed_text(job: &Job) -> String {
    let name = format!("{}/{}", job.user, job.name);
    let ended = job.tasks.as_ref().map_or(0, |tasks| tasks.failed);
    match usize::try_from(ended).unwrap_or(usize::MAX) {
        0 if count_with_surge(job) == 0 => format!("{name}: it has no tasks: its count is 0"),
        0 => format!("{name}: every task is placed or has succeeded"),
        ended => {
            let ended = tally(ended, "task");
            format!("{name}: no task wants a node; {ended} failed for good: borough task status {name}")
        }
    }
}
