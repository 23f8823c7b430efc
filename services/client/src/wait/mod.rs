//! A wait for a job, with what `borough job run` waits for.

mod seen;

use std::time::Duration;

use borough_proto::v1::{WatchFilter, watch_response};
use futures::StreamExt as _;

pub use self::seen::{JobGoal, SeenJob, ServiceProgress, WaitOutcome, count_with_surge};
use crate::call::{Client, ItemStream};
use crate::error::ClientError;
use crate::job::JobRef;
use crate::watch::CellItem;

/// Why a wait came to nothing. The job goes on in any case.
#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    /// The job has not come so far in time. Ask for its state, or why its tasks wait, and wait again.
    #[error("{job} did not come so far within {} s", limit.as_secs_f64())]
    Late { job: JobRef, limit: Duration },
    /// A call failed.
    #[error(transparent)]
    Call(#[from] ClientError),
}

impl Client {
    /// Waits until `job` has reached `goal`, or can no longer reach it: the outcome says which. The wait survives
    /// gateways that come and go.
    ///
    /// # Errors
    /// [`WaitError::Late`] after `limit`; [`WaitError::Call`] if a call is refused.
    pub async fn job_wait(
        &self,
        job: &JobRef,
        goal: JobGoal,
        limit: Duration,
    ) -> Result<WaitOutcome, WaitError> {
        let reached = tokio::time::timeout(limit, self.job_reach(job, goal)).await;
        reached.map_err(|_| WaitError::Late { job: job.clone(), limit })?.map_err(WaitError::Call)
    }

    async fn job_reach(&self, job: &JobRef, goal: JobGoal) -> Result<WaitOutcome, ClientError> {
        let (mut seen, mut changes) = self.job_open(job).await?;
        loop {
            if let Some(outcome) = seen.outcome(goal) {
                return Ok(outcome);
            }
            match changes.next().await.transpose()? {
                Some(CellItem::Change(message)) => match message.change {
                    Some(watch_response::Change::Job(row)) => {
                        seen.job_changed(row);
                    }
                    Some(watch_response::Change::Task(row)) => {
                        seen.task_changed(row);
                    }
                    _ => {}
                },
                Some(CellItem::Bookmark(_) | CellItem::Absent(_)) => {}
                Some(CellItem::Resync(_)) | None => (seen, changes) = self.job_open(job).await?,
            }
        }
    }

    /// The rows of a job, and every change of them from then on.
    async fn job_open(&self, job: &JobRef) -> Result<(SeenJob, ItemStream<CellItem>), ClientError> {
        let answer = self.job_get(job).await?;
        let (tasks, _) = self.task_list_of_job(job).await?;
        let mut seen = SeenJob { job: answer.job.unwrap_or_default(), ..SeenJob::default() };
        seen.tasks.extend(tasks.into_iter().map(|task| (task.index, task)));
        let (user, name) = (job.user.clone(), job.name.clone());
        let filter = WatchFilter { user, job: name, jobs: true, tasks: true, ..WatchFilter::default() };
        Ok((seen, self.watch_cell(filter, answer.cursor)))
    }
}
