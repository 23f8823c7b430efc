//! What cells themselves say of the tasks of a federated job that are not healthy. The home only counts them.

use std::time::Duration;

use borough_client::{Client, ClientError, JobRef};
use futures::{StreamExt as _, stream};

use crate::output::{CellCauseView, ExplanationView, FederatedJobView, explanations_text};

/// Cells that are asked. The others are left to the reader, who gets the command.
const CELLS_ASKED_MAX: usize = 8;
/// Cells that are asked at a time.
const ASKED_TOGETHER: usize = 4;
/// An answer comes no later.
const ASK_MAX: Duration = Duration::from_secs(3);

/// Adds what the cells say of their tasks that are not healthy.
pub(super) async fn causes_add(client: &Client, job: &JobRef, view: &mut FederatedJobView) {
    view.causes_set(causes(client, job, view).await);
}

/// What the cells say of their tasks that are not healthy, by cell.
pub(super) async fn causes(client: &Client, job: &JobRef, view: &FederatedJobView) -> Vec<CellCauseView> {
    let cells = view.cells_unhealthy().into_iter().take(CELLS_ASKED_MAX);
    let asked = cells.map(|cell| async move {
        let words = cell_ask(&client.with_cell(cell.as_str()).with_deadline_max(ASK_MAX), job).await;
        CellCauseView::new(&cell, job, words.unwrap_or_default())
    });
    let asked: Vec<_> = asked.collect();
    stream::iter(asked).buffered(ASKED_TOGETHER).collect().await
}

/// What a cell says of the tasks of a job. A cell that this gateway does not serve says nothing here.
async fn cell_ask(cell: &Client, job: &JobRef) -> Result<String, ClientError> {
    let explained = cell.task_explain(job, None).await?.explanations;
    let row = cell.job_get(job).await?.job.unwrap_or_default();
    Ok(explanations_text(&ExplanationView::all_of(&row, explained)))
}
