//! Jobs: submit, plan, scale, stop, list and describe them.

use std::collections::BTreeMap;

use borough_proto::v1::job_service_client::JobServiceClient;
use borough_proto::v1::order_rollout_request::Order;
use borough_proto::v1::{
    GetJobHistoryRequest, GetJobRequest, GetJobResponse, Job, JobSpec, JobState, JobVersion, LabelJobRequest,
    LabelJobResponse, LabelMatch, ListJobsRequest, ListJobsResponse, OrderRolloutRequest,
    OrderRolloutResponse, PageRequest, PlanJobRequest, PlanJobResponse, PurgeJobRequest, PurgeJobResponse,
    ScaleJobRequest, ScaleJobResponse, StopJobRequest, StopJobResponse, SubmitJobRequest, SubmitJobResponse,
};

use crate::call::{Client, rpc};
use crate::error::ClientError;

/// A job by its user and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobRef {
    pub user: String,
    pub name: String,
}

impl JobRef {
    /// The job `name` of `user`.
    pub fn new(user: impl Into<String>, name: impl Into<String>) -> Self {
        Self { user: user.into(), name: name.into() }
    }
}

impl std::fmt::Display for JobRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.user, self.name)
    }
}

/// A change of labels.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LabelChange {
    pub set: BTreeMap<String, String>,
    /// Keys. A label that is missing is no error.
    pub remove: Vec<String>,
}

/// The job that a caller has seen, and changes.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ExpectedJob {
    /// Empty: whichever job has the name.
    pub id: String,
    /// 0: any, even none.
    pub revision: u64,
}

/// Which jobs are listed.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct JobFilter {
    /// The user that owns the jobs; empty: every user.
    pub user: String,
    /// Also those that are over.
    pub ended: bool,
    /// Only those in one of these states; empty: `ended` decides.
    pub states: Vec<JobState>,
    /// Only those that have all of these labels.
    pub labels: BTreeMap<String, String>,
    /// Only those with labels that meet all of these conditions.
    pub selector: Vec<LabelMatch>,
}

impl Client {
    /// Submits a new job or a changed one. An `expected_revision` other than 0 fails with `FAILED_PRECONDITION` if the
    /// job's revision differs.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with the invalid fields, or why the change is not possible.
    pub async fn job_submit(
        &self,
        spec: JobSpec,
        expected_revision: u64,
    ) -> Result<SubmitJobResponse, ClientError> {
        self.job_submit_to(spec, ExpectedJob { id: String::new(), revision: expected_revision }).await
    }

    /// Submits a job in place of the one that the caller has seen. Fails with `FAILED_PRECONDITION` if that one has
    /// changed, or if the name has another job by now.
    ///
    /// # Errors
    /// As for [`Client::job_submit`].
    pub async fn job_submit_to(
        &self,
        spec: JobSpec,
        expected: ExpectedJob,
    ) -> Result<SubmitJobResponse, ClientError> {
        let message = SubmitJobRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            spec: Some(spec),
            expected_revision: expected.revision,
            expected_job: expected.id,
            expected_absent: false,
        };
        self.call("SubmitJob", message, rpc!(JobServiceClient.submit_job)).await
    }

    /// Submits a job whose name no job has. Fails with `FAILED_PRECONDITION` if there is one that has not ended.
    ///
    /// # Errors
    /// As for [`Client::job_submit`].
    pub async fn job_submit_new(&self, spec: JobSpec) -> Result<SubmitJobResponse, ClientError> {
        let message = SubmitJobRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            spec: Some(spec),
            expected_revision: 0,
            expected_job: String::new(),
            expected_absent: true,
        };
        self.call("SubmitJob", message, rpc!(JobServiceClient.submit_job)).await
    }

    /// What submitting `spec` would change, and where its tasks would run.
    ///
    /// # Errors
    /// As for every call.
    pub async fn job_plan(&self, spec: JobSpec) -> Result<PlanJobResponse, ClientError> {
        let message =
            PlanJobRequest { context: self.context_read(), cell: self.cell().to_owned(), spec: Some(spec) };
        self.call("PlanJob", message, rpc!(JobServiceClient.plan_job)).await
    }

    /// Changes the number of tasks.
    ///
    /// # Errors
    /// As for every call.
    pub async fn job_scale(&self, job: &JobRef, count: u32) -> Result<ScaleJobResponse, ClientError> {
        self.job_scale_of(job, ExpectedJob::default(), count).await
    }

    /// As [`Client::job_scale`], of the job that the caller has seen.
    ///
    /// # Errors
    /// As for every call; `FAILED_PRECONDITION` if that one has changed, or if the name has another job by now.
    pub async fn job_scale_of(
        &self,
        job: &JobRef,
        expected: ExpectedJob,
        count: u32,
    ) -> Result<ScaleJobResponse, ClientError> {
        let message = ScaleJobRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            user: job.user.clone(),
            name: job.name.clone(),
            count,
            expected_job: expected.id,
            expected_revision: expected.revision,
        };
        self.call("ScaleJob", message, rpc!(JobServiceClient.scale_job)).await
    }

    /// Pauses, resumes or takes back the rollout of a job. `version` counts only for the last: 0 is the newest one that
    /// differs from the version in force. `expected` is the version in force that the caller has seen; 0: any.
    ///
    /// # Errors
    /// As for every call; `FAILED_PRECONDITION` if the job has no rollout that this applies to, or another
    /// version.
    pub async fn rollout_order(
        &self,
        job: &JobRef,
        order: Order,
        version: u32,
        expected: u32,
    ) -> Result<OrderRolloutResponse, ClientError> {
        let message = OrderRolloutRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            user: job.user.clone(),
            name: job.name.clone(),
            order: order.into(),
            version,
            expected_version: expected,
        };
        self.call("OrderRollout", message, rpc!(JobServiceClient.order_rollout)).await
    }

    /// Stops a job. Returns when the stop is committed, before the tasks have ended.
    ///
    /// # Errors
    /// As for every call.
    pub async fn job_stop(&self, job: &JobRef) -> Result<StopJobResponse, ClientError> {
        self.job_stop_of(job, "").await
    }

    /// As [`Client::job_stop`], of the job with the id `expected`. A later one of the name is refused.
    ///
    /// # Errors
    /// As for every call; `FAILED_PRECONDITION` if the name has another job by now.
    pub async fn job_stop_of(&self, job: &JobRef, expected: &str) -> Result<StopJobResponse, ClientError> {
        let message = StopJobRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            user: job.user.clone(),
            name: job.name.clone(),
            expected_job: expected.to_owned(),
        };
        self.call("StopJob", message, rpc!(JobServiceClient.stop_job)).await
    }

    /// Forgets every ended job of a name: rows, specs and history. Returns when that is committed.
    ///
    /// # Errors
    /// As for every call; `FAILED_PRECONDITION` if the job has not ended.
    pub async fn job_purge(&self, job: &JobRef) -> Result<PurgeJobResponse, ClientError> {
        let message = PurgeJobRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            user: job.user.clone(),
            name: job.name.clone(),
        };
        self.call("PurgeJob", message, rpc!(JobServiceClient.purge_job)).await
    }

    /// Sets and removes labels of a job. No task restarts.
    ///
    /// # Errors
    /// As for every call; `INVALID_ARGUMENT` names an invalid label.
    pub async fn job_label(
        &self,
        job: &JobRef,
        change: LabelChange,
    ) -> Result<LabelJobResponse, ClientError> {
        let message = LabelJobRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            user: job.user.clone(),
            name: job.name.clone(),
            labels: change.set,
            remove: change.remove,
        };
        self.call("LabelJob", message, rpc!(JobServiceClient.label_job)).await
    }

    /// One job with its spec, and the cursor for a watch that misses nothing.
    ///
    /// # Errors
    /// As for every call; `NOT_FOUND` if the job does not exist.
    pub async fn job_get(&self, job: &JobRef) -> Result<GetJobResponse, ClientError> {
        let message = GetJobRequest {
            context: self.context_read(),
            cell: self.cell().to_owned(),
            user: job.user.clone(),
            name: job.name.clone(),
        };
        self.call("GetJob", message, rpc!(JobServiceClient.get_job)).await
    }

    /// One page of the cell's jobs.
    ///
    /// # Errors
    /// As for every call.
    pub async fn job_list_page(
        &self,
        filter: &JobFilter,
        page: PageRequest,
    ) -> Result<ListJobsResponse, ClientError> {
        let message = ListJobsRequest {
            context: self.context_read(),
            cell: self.cell().to_owned(),
            user: filter.user.clone(),
            ended: filter.ended,
            page: Some(page),
            labels: filter.labels.clone(),
            selector: filter.selector.clone(),
            states: filter.states.iter().map(|&state| state.into()).collect(),
            usage: false,
        };
        self.call("ListJobs", message, rpc!(JobServiceClient.list_jobs)).await
    }

    /// Every page of [`Client::job_list_page`].
    ///
    /// # Errors
    /// As for every call.
    pub async fn job_list(&self, filter: &JobFilter) -> Result<Vec<Job>, ClientError> {
        let mut jobs = Vec::new();
        let mut page = PageRequest::default();
        loop {
            let answer = self.job_list_page(filter, page).await?;
            jobs.extend(answer.jobs);
            if answer.next_page.is_empty() {
                return Ok(jobs);
            }
            page = PageRequest { limit: 0, page: answer.next_page };
        }
    }

    /// Every job that had this name, with its spec versions, newest first.
    ///
    /// # Errors
    /// As for every call.
    pub async fn job_history(&self, job: &JobRef) -> Result<Vec<JobVersion>, ClientError> {
        let message = GetJobHistoryRequest {
            context: self.context_read(),
            cell: self.cell().to_owned(),
            user: job.user.clone(),
            name: job.name.clone(),
        };
        let answer = self.call("GetJobHistory", message, rpc!(JobServiceClient.get_job_history)).await?;
        Ok(answer.versions)
    }
}
