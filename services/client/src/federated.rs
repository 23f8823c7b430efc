//! Federated jobs. The cell of the client is the home of the federation.

use std::time::Duration;

use borough_proto::v1::federated_service_client::FederatedServiceClient;
use borough_proto::v1::order_federated_release_request::Order;
use borough_proto::v1::{
    FederatedJob, FederatedJobVersion, ForgetFederatedJobRequest, GetFederatedJobHistoryRequest,
    GetFederatedJobRequest, GetFederatedJobResponse, ListFederatedJobsRequest, ListFederatedJobsResponse,
    OrderFederatedReleaseRequest, PageRequest, PlanFederatedJobRequest, PlanFederatedJobResponse,
    RebalanceFederatedJobRequest, RebalancedTasks, RunFederatedJobRequest, RunFederatedJobResponse,
    ScaleFederatedJobRequest, StopFederatedJobRequest,
};

use crate::call::{Client, present, rpc};
use crate::error::ClientError;
use crate::job::JobRef;

/// The gateway waits up to 12 s for a federation process.
const PLAN_DEADLINE: Duration = Duration::from_secs(30);

/// Which federated jobs are listed.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FederatedFilter {
    /// The user that owns the jobs; empty: every user.
    pub user: String,
    /// Also those that are stopped.
    pub stopped: bool,
    /// Only those with tasks in this member cell, each with its part there; empty: all.
    pub member: String,
}

impl Client {
    /// Adds a federated job, or changes the one that has the name. `job_file` is its job file as JSON. A revision other
    /// than 0 fails with `FAILED_PRECONDITION` if the job is at another one.
    ///
    /// # Errors
    /// As for every call; `INVALID_ARGUMENT` with each field that cannot be accepted.
    pub async fn federated_run(
        &self,
        job: &JobRef,
        job_file: String,
        expected_revision: u64,
    ) -> Result<RunFederatedJobResponse, ClientError> {
        let message = RunFederatedJobRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            user: job.user.clone(),
            name: job.name.clone(),
            job_file,
            expected_revision,
        };
        self.call("RunFederatedJob", message, rpc!(FederatedServiceClient.run_federated_job)).await
    }

    /// What would become of a federated job if it were run now. Nothing is changed.
    ///
    /// # Errors
    /// As [`Client::federated_run`]; `UNAVAILABLE` if no federation process answers.
    pub async fn federated_plan(
        &self,
        job: &JobRef,
        job_file: String,
    ) -> Result<PlanFederatedJobResponse, ClientError> {
        let message = PlanFederatedJobRequest {
            context: self.context_read(),
            cell: self.cell().to_owned(),
            user: job.user.clone(),
            name: job.name.clone(),
            job_file,
            rebalance: RebalancedTasks::Unspecified.into(),
        };
        let send = rpc!(FederatedServiceClient.plan_federated_job);
        self.call_within(PLAN_DEADLINE, "PlanFederatedJob", message, send).await
    }

    /// One page of federated jobs by user and name.
    ///
    /// # Errors
    /// As for every call; `NOT_FOUND` if the gateway does not serve the home.
    pub async fn federated_list_page(
        &self,
        filter: &FederatedFilter,
        page: PageRequest,
    ) -> Result<ListFederatedJobsResponse, ClientError> {
        let message = ListFederatedJobsRequest {
            context: self.context_read(),
            cell: self.cell().to_owned(),
            user: filter.user.clone(),
            stopped: filter.stopped,
            member: filter.member.clone(),
            page: Some(page),
        };
        self.call("ListFederatedJobs", message, rpc!(FederatedServiceClient.list_federated_jobs)).await
    }

    /// One federated job with its parts and its job file.
    ///
    /// # Errors
    /// As for every call; `NOT_FOUND` if there is none of that name.
    pub async fn federated_get(&self, job: &JobRef) -> Result<GetFederatedJobResponse, ClientError> {
        let message = GetFederatedJobRequest {
            context: self.context_read(),
            cell: self.cell().to_owned(),
            user: job.user.clone(),
            name: job.name.clone(),
        };
        self.call("GetFederatedJob", message, rpc!(FederatedServiceClient.get_federated_job)).await
    }

    /// Changes how many tasks a federated job has in all cells together.
    ///
    /// # Errors
    /// As for every call; `NOT_FOUND` if there is none of that name.
    pub async fn federated_scale(&self, job: &JobRef, count: u32) -> Result<FederatedJob, ClientError> {
        let message = ScaleFederatedJobRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            user: job.user.clone(),
            name: job.name.clone(),
            count,
        };
        let answer =
            self.call("ScaleFederatedJob", message, rpc!(FederatedServiceClient.scale_federated_job));
        present("ScaleFederatedJob", "job", answer.await?.job)
    }

    /// What would become of a federated job if these of its tasks were divided again now. Nothing is changed.
    ///
    /// # Errors
    /// As [`Client::federated_rebalance`]; `UNAVAILABLE` if no federation process answers.
    pub async fn federated_rebalance_plan(
        &self,
        job: &JobRef,
        which: RebalancedTasks,
    ) -> Result<PlanFederatedJobResponse, ClientError> {
        let message = PlanFederatedJobRequest {
            context: self.context_read(),
            cell: self.cell().to_owned(),
            user: job.user.clone(),
            name: job.name.clone(),
            job_file: String::new(),
            rebalance: which.into(),
        };
        self.call("PlanFederatedJob", message, rpc!(FederatedServiceClient.plan_federated_job)).await
    }

    /// Has these tasks of a federated job divided again, although nothing has changed. A revision other than 0 fails
    /// with `FAILED_PRECONDITION` if the job is at another one.
    ///
    /// # Errors
    /// As for every call; `NOT_FOUND` if there is none of that name, `FAILED_PRECONDITION` if nothing of it is divided,
    /// or an earlier rebalance is not carried out yet.
    pub async fn federated_rebalance(
        &self,
        job: &JobRef,
        which: RebalancedTasks,
        expected_revision: u64,
    ) -> Result<FederatedJob, ClientError> {
        let message = RebalanceFederatedJobRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            user: job.user.clone(),
            name: job.name.clone(),
            which: which.into(),
            expected_revision,
        };
        let method = "RebalanceFederatedJob";
        let answer = self.call(method, message, rpc!(FederatedServiceClient.rebalance_federated_job));
        present(method, "job", answer.await?.job)
    }

    /// Has every cell told to stop its part of a federated job.
    ///
    /// # Errors
    /// As for every call; `NOT_FOUND` if there is none of that name.
    pub async fn federated_stop(&self, job: &JobRef) -> Result<FederatedJob, ClientError> {
        let message = StopFederatedJobRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            user: job.user.clone(),
            name: job.name.clone(),
        };
        let answer = self.call("StopFederatedJob", message, rpc!(FederatedServiceClient.stop_federated_job));
        present("StopFederatedJob", "job", answer.await?.job)
    }

    /// Pauses, resumes, approves or takes back the release of the newest version of a federated job. `stage` counts
    /// only for an approval: the stage that is under way.
    ///
    /// # Errors
    /// As for every call; `FAILED_PRECONDITION` if there is no release that this applies to.
    pub async fn federated_order(
        &self,
        job: &JobRef,
        order: Order,
        stage: u32,
    ) -> Result<FederatedJob, ClientError> {
        let message = OrderFederatedReleaseRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            user: job.user.clone(),
            name: job.name.clone(),
            order: order.into(),
            stage,
        };
        let method = "OrderFederatedRelease";
        let answer = self.call(method, message, rpc!(FederatedServiceClient.order_federated_release));
        present(method, "job", answer.await?.job)
    }

    /// Forgets a federated job. Its parts go on in their cells. Returns it as it was; `None` if an earlier request with
    /// this id has forgotten it.
    ///
    /// # Errors
    /// As for every call; `NOT_FOUND` if there is none of that name.
    pub async fn federated_forget(&self, job: &JobRef) -> Result<Option<FederatedJob>, ClientError> {
        let message = ForgetFederatedJobRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            user: job.user.clone(),
            name: job.name.clone(),
        };
        let answer =
            self.call("ForgetFederatedJob", message, rpc!(FederatedServiceClient.forget_federated_job));
        Ok(answer.await?.job)
    }

    /// The versions of a federated job that are kept, newest first.
    ///
    /// # Errors
    /// As for every call; `NOT_FOUND` if there is none of that name.
    pub async fn federated_history(&self, job: &JobRef) -> Result<Vec<FederatedJobVersion>, ClientError> {
        let message = GetFederatedJobHistoryRequest {
            context: self.context_read(),
            cell: self.cell().to_owned(),
            user: job.user.clone(),
            name: job.name.clone(),
        };
        let answer = self
            .call("GetFederatedJobHistory", message, rpc!(FederatedServiceClient.get_federated_job_history))
            .await?;
        Ok(answer.versions)
    }
}
