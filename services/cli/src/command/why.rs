//! `why`: why tasks are not placed, or do not run as they should.

use borough_client::{Client, JobRef, count_with_surge};
use borough_proto::v1::Job;

use super::job::jobs_shown;
use super::unknown::job_missing;
use crate::args::{Global, WhyArguments};
use crate::connect;
use crate::exit::{Code, Failure};
use crate::output::{ExplanationView, Printer, explanations_text, tally};

pub(super) async fn run(
    global: &Global,
    arguments: WhyArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    let client = connect::cell_client(global).await?;
    if let [target] = arguments.targets.as_slice() {
        let (views, text) = explained(&client, &target.resolve(client.user()), target.index).await?;
        printer.one(&views, |_, _| text)?;
        return Ok(Code::Done);
    }
    let named = arguments.targets.iter().map(|target| (target.resolve(client.user()), target.index));
    let mut asked: Vec<(JobRef, Option<u32>)> = named.collect();
    if asked.is_empty() {
        let chosen = jobs_shown(&client, arguments.labels).await?;
        asked = chosen.into_iter().map(|job| (job, None)).collect();
    }
    let (mut all, mut texts) = (Vec::new(), Vec::new());
    for (job, index) in asked {
        let (views, text) = match explained(&client, &job, index).await {
            Ok(explained) => explained,
            Err(failure) => return Err(job_missing(&client, &job, failure).await),
        };
        let indented = text.lines().map(|line| format!("  {line}\n")).collect::<String>();
        // A job without an explanation names itself.
        texts.push(if views.is_empty() { text } else { format!("{job}:\n{indented}") });
        all.extend(views);
    }
    printer.one(&all, |_, _| texts.concat())?;
    Ok(Code::Done)
}

/// The explanations of a job or of one of its tasks, and their text.
async fn explained(
    client: &Client,
    job: &JobRef,
    index: Option<u32>,
) -> Result<(Vec<ExplanationView>, String), Failure> {
    let answer = client.task_explain(job, index).await?;
    let shown = client.job_get(job).await?;
    let row = shown.job.unwrap_or_default();
    let mut views = ExplanationView::all_of(&row, answer.explanations);
    let placed = if views.is_empty() { placed_text(&row) + "\n" } else { String::new() };
    // One task is explained by itself.
    views.extend(ExplanationView::of_rollout(&row, shown.spec.as_ref()).filter(|_| index.is_none()));
    let text = format!("{placed}{}", explanations_text(&views));
    Ok((views, text))
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
