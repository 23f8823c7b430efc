//! `why`: why tasks are not placed.

use crate::args::{Global, WhyTarget};
use crate::connect;
use crate::exit::{Code, Failure};
use crate::output::{ExplanationView, Printer, explanations_text};

pub(super) async fn run(global: &Global, target: &WhyTarget, printer: &Printer) -> Result<Code, Failure> {
    let client = connect::cell_client(global).await?;
    let job = target.resolve(client.user());
    let answer = client.task_explain(&job, target.index).await?;
    let views: Vec<ExplanationView> = answer.explanations.into_iter().map(ExplanationView::from).collect();
    printer.one(&views, |views, _| match views.as_slice() {
        [] => format!("{job}: every task is placed"),
        views => explanations_text(views),
    })?;
    Ok(Code::Done)
}
