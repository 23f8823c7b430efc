//! `FederatedService`: owners say what their federated jobs want, and see what has become of it. The gateway calls no
//! cell: a federation process divides the tasks, and the store of the home has what it promised and saw.

mod message;
mod plan;

use std::ops::Bound;
use std::sync::Arc;

use borough_kv::Idempotency;
use borough_model::federation::{
    FederatedJob, FederatedJobRow, FederatedState, RebalancedTasks, ReleaseOrderKind,
};
use borough_model::job::{JobSpec, band};
use borough_model::{FederatedJobId, Name};
use borough_proto::convert::FieldRefused;
use borough_proto::v1;
use borough_proto::v1::federated_service_server::FederatedService;
use borough_store::federated::{
    federated_forget, federated_order, federated_parts_of, federated_rebalance, federated_scale,
    federated_status_of, federated_stop, federated_submit, federated_versions,
};
use futures::future::try_join_all;
use tonic::{Request, Response, Status};

use self::message::{Divided, file_text, job_message, version_message};
use crate::auth::Principal;
use crate::cell::{Asked, CellContext, Cells, KeyedRequest, keyed_run, principal_of};
use crate::page::{PagedList, page_cut};
use crate::status::{
    name_read, names_read, status_from_field, status_from_lines, status_from_store, status_not_found,
};

/// What names the tasks of a rebalance.
const REBALANCED_ACCEPTED: &str = "REBALANCED_TASKS_ALL or REBALANCED_TASKS_STUCK";
/// Jobs of a page whose parts are read in one transaction.
const READ_TOGETHER: usize = 32;

/// The gRPC service of federated jobs.
#[derive(Clone)]
pub struct FederatedServer {
    cells: Arc<Cells>,
}

impl FederatedServer {
    /// Serves `cells`.
    pub fn new(cells: Arc<Cells>) -> Self {
        Self { cells }
    }
}

/// The job of a request: its file names the same user and the same name.
fn job_read(user: &str, name: &str, job_file: &str) -> Result<FederatedJob, Status> {
    let (user, name) = names_read(user, name)?;
    let file: serde_json::Value = serde_json::from_str(job_file).map_err(|error| {
        let accepted = "a job file as JSON, with its federation part";
        status_from_field(&FieldRefused::new("job_file", error.to_string(), accepted))
    })?;
    let (job, _) = FederatedJob::from_file(&(&file).into(), &user).map_err(|problems| {
        let lines: Vec<_> = problems.iter().map(|problem| ("job_file", problem.message.clone())).collect();
        status_from_lines(&lines)
    })?;
    for (field, given, wanted) in [("user", &job.job.user, &user), ("name", &job.job.name, &name)] {
        if given != wanted {
            let accepted = format!("{wanted}, as {field} of the request says");
            return Err(status_from_field(&FieldRefused::new(
                format!("job_file.{field}"),
                given.as_str(),
                accepted,
            )));
        }
    }
    Ok(job)
}

fn order_read(request: &v1::OrderFederatedReleaseRequest) -> Result<ReleaseOrderKind, Status> {
    use v1::order_federated_release_request::Order;
    match request.order() {
        Order::Pause => Ok(ReleaseOrderKind::Pause),
        Order::Resume => Ok(ReleaseOrderKind::Resume),
        Order::Approve => Ok(ReleaseOrderKind::Approve { stage: request.stage }),
        Order::Revert => Ok(ReleaseOrderKind::Revert),
        Order::Unspecified => {
            let accepted = "PAUSE, RESUME, APPROVE or REVERT";
            Err(status_from_field(&FieldRefused::new("order", request.order.to_string(), accepted)))
        }
    }
}

/// The tasks that a rebalance may move; `None`: no rebalance is asked for.
fn rebalanced_read(field: &str, value: i32) -> Result<Option<RebalancedTasks>, Status> {
    match v1::RebalancedTasks::try_from(value) {
        Ok(v1::RebalancedTasks::Unspecified) => Ok(None),
        Ok(v1::RebalancedTasks::All) => Ok(Some(RebalancedTasks::All)),
        Ok(v1::RebalancedTasks::Stuck) => Ok(Some(RebalancedTasks::Stuck)),
        Err(_) => Err(status_from_field(&FieldRefused::new(field, value.to_string(), REBALANCED_ACCEPTED))),
    }
}

/// What was last decided and seen of each of these jobs, in one transaction.
async fn divided_read(cell: &CellContext, jobs: &[FederatedJobId]) -> Result<Vec<Divided>, Status> {
    let space = &cell.space;
    let read = cell.db.run("federated_read", Idempotency::ReadOnly, |tx, _| async move {
        let tx = &tx;
        let each = jobs.iter().map(|job| async move {
            let parts = federated_parts_of(tx, space, *job).await?;
            let status = federated_status_of(tx, space, *job).await?.unwrap_or_default();
            Ok(Divided { parts, status })
        });
        try_join_all(each).await
    });
    read.await.map_err(|error| status_from_store(&error))
}

async fn divided_now(cell: &CellContext, row: &FederatedJobRow) -> Result<Divided, Status> {
    Ok(divided_read(cell, &[row.id]).await?.pop().unwrap_or_default())
}

async fn message_now(cell: &CellContext, row: &FederatedJobRow) -> Result<v1::FederatedJob, Status> {
    Ok(job_message(row, &divided_now(cell, row).await?))
}

/// Decides whether the caller may run this with the priority that it has.
fn priority_allow(cell: &CellContext, principal: &Principal, spec: &JobSpec) -> Result<(), Status> {
    if principal.is_free_in(band(spec.priority)) {
        return Ok(());
    }
    cell.allow_priority(principal, &spec.user, spec.priority)
}

fn row_found(cell: &CellContext, user: &str, name: &str) -> Result<Arc<FederatedJobRow>, Status> {
    let key = names_read(user, name)?;
    let row = cell.state(|state| state.federated_jobs().get(&key).cloned())?;
    row.ok_or_else(|| status_not_found(&format!("federated job \"{}/{}\"", key.0, key.1)))
}

#[tonic::async_trait]
impl FederatedService for FederatedServer {
    async fn run_federated_job(
        &self,
        request: Request<v1::RunFederatedJobRequest>,
    ) -> Result<Response<v1::RunFederatedJobResponse>, Status> {
        let principal = principal_of(request.extensions())?;
        let (cell, caller, request) = self.cells.admit_change(request)?;
        let spec = job_read(&request.user, &request.name, &request.job_file)?;
        priority_allow(cell, &principal, &spec.job)?;
        cell.journal.admit().map_err(|full| status_from_store(&full))?;
        let new = FederatedJobId(cell.id());
        let expected = request.expected_revision;
        let (keyed, spec) = (KeyedRequest::new(&caller, "federated_submit", &request), &spec);
        let submitted = keyed_run(cell, &keyed, |tx, mut changes| async move {
            let submitted = federated_submit(&tx, &mut changes, new, spec, expected).await?;
            Ok((submitted.changed, changes))
        });
        let (changed, _) = cell.settled(submitted.await).await?;
        let row = row_found(cell, &request.user, &request.name)?;
        let job = Some(message_now(cell, &row).await?);
        Ok(Response::new(v1::RunFederatedJobResponse { job, changed }))
    }

    async fn plan_federated_job(
        &self,
        request: Request<v1::PlanFederatedJobRequest>,
    ) -> Result<Response<v1::PlanFederatedJobResponse>, Status> {
        let principal = principal_of(request.extensions())?;
        let Asked { cell, message: request } = self.cells.admit_read(request)?;
        if let Some(which) = rebalanced_read("rebalance", request.rebalance)? {
            if !request.job_file.is_empty() {
                let found = format!("{} bytes", request.job_file.len());
                let accepted = "nothing, since the plan is of a rebalance of the job as it is";
                return Err(status_from_field(&FieldRefused::new("job_file", found, accepted)));
            }
            let row = row_found(cell, &request.user, &request.name)?;
            return Ok(Response::new(plan::rebalance_plan(cell, &row, which).await?));
        }
        let spec = job_read(&request.user, &request.name, &request.job_file)?;
        priority_allow(cell, &principal, &spec.job)?;
        Ok(Response::new(plan::run_plan(cell, spec).await?))
    }

    async fn list_federated_jobs(
        &self,
        request: Request<v1::ListFederatedJobsRequest>,
    ) -> Result<Response<v1::ListFederatedJobsResponse>, Status> {
        let Asked { cell, message: request } = self.cells.admit_read(request)?;
        let user = (!request.user.is_empty()).then(|| name_read("user", &request.user)).transpose()?;
        let list = PagedList::new(&cell.name, "federated jobs");
        let page = list.request(request.page.as_ref())?;
        let after = page.after.as_deref().and_then(key_of);
        let begin = match (after, &user) {
            (Some(after), _) => Bound::Excluded(after),
            (None, Some(user)) => Bound::Included((user.clone(), Name::first())),
            (None, None) => Bound::Unbounded,
        };
        let mut rows: Vec<Arc<FederatedJobRow>> = cell.state(|state| {
            let rows = state.federated_jobs().range((begin, Bound::Unbounded)).map(|(_, row)| row);
            let of_user = rows.take_while(|row| user.as_ref().is_none_or(|user| row.user() == user));
            let wanted = of_user.filter(|row| request.stopped || row.state != FederatedState::Stopped);
            // One more shows whether another page follows.
            wanted.take(page.limit.saturating_add(1)).cloned().collect()
        })?;
        let has_more = rows.len() > page.limit;
        rows.truncate(page.limit);
        let last = rows.last().map(|row| format!("{}/{}", row.user(), row.name())).unwrap_or_default();
        let mut jobs = Vec::with_capacity(rows.len());
        for rows in rows.chunks(READ_TOGETHER) {
            let ids: Vec<FederatedJobId> = rows.iter().map(|row| row.id).collect();
            let divided = divided_read(cell, &ids).await?;
            let messages = rows.iter().zip(&divided).map(|(row, divided)| job_message(row, divided));
            jobs.extend(messages.filter_map(|job| listed(job, &request.member)));
        }
        let key = |job: &v1::FederatedJob| format!("{}/{}", job.user, job.name);
        let next = if has_more { last } else { String::new() };
        let (jobs, next) = page_cut(jobs, next, key);
        Ok(Response::new(v1::ListFederatedJobsResponse { jobs, next_page: list.token(&next) }))
    }

    async fn get_federated_job(
        &self,
        request: Request<v1::GetFederatedJobRequest>,
    ) -> Result<Response<v1::GetFederatedJobResponse>, Status> {
        let Asked { cell, message: request } = self.cells.admit_read(request)?;
        let row = row_found(cell, &request.user, &request.name)?;
        let (job, job_file) = (Some(message_now(cell, &row).await?), file_text(&row.spec));
        Ok(Response::new(v1::GetFederatedJobResponse { job, job_file }))
    }

    async fn scale_federated_job(
        &self,
        request: Request<v1::ScaleFederatedJobRequest>,
    ) -> Result<Response<v1::ScaleFederatedJobResponse>, Status> {
        let principal = principal_of(request.extensions())?;
        let (cell, caller, request) = self.cells.admit_change(request)?;
        let before = row_found(cell, &request.user, &request.name)?;
        if request.count > before.spec.job.count {
            priority_allow(cell, &principal, &before.spec.job)?;
        }
        let (user, name, count) = (before.user(), before.name(), request.count);
        let keyed = KeyedRequest::new(&caller, "federated_scale", &request);
        let scaled = keyed_run(cell, &keyed, |tx, mut changes| async move {
            federated_scale(&tx, &mut changes, user, name, count).await?;
            Ok(((), changes))
        });
        cell.settled(scaled.await).await?;
        let row = row_found(cell, &request.user, &request.name)?;
        let job = Some(message_now(cell, &row).await?);
        Ok(Response::new(v1::ScaleFederatedJobResponse { job }))
    }

    async fn stop_federated_job(
        &self,
        request: Request<v1::StopFederatedJobRequest>,
    ) -> Result<Response<v1::StopFederatedJobResponse>, Status> {
        let (cell, caller, request) = self.cells.admit_change(request)?;
        let (user, name) = &names_read(&request.user, &request.name)?;
        let keyed = KeyedRequest::new(&caller, "federated_stop", &request);
        let stopped = keyed_run(cell, &keyed, |tx, mut changes| async move {
            federated_stop(&tx, &mut changes, user, name).await?;
            Ok(((), changes))
        });
        cell.settled(stopped.await).await?;
        let row = row_found(cell, &request.user, &request.name)?;
        let job = Some(message_now(cell, &row).await?);
        Ok(Response::new(v1::StopFederatedJobResponse { job }))
    }

    async fn rebalance_federated_job(
        &self,
        request: Request<v1::RebalanceFederatedJobRequest>,
    ) -> Result<Response<v1::RebalanceFederatedJobResponse>, Status> {
        let (cell, caller, request) = self.cells.admit_change(request)?;
        let (user, name) = &names_read(&request.user, &request.name)?;
        let Some(which) = rebalanced_read("which", request.which)? else {
            let found = request.which.to_string();
            return Err(status_from_field(&FieldRefused::new("which", found, REBALANCED_ACCEPTED)));
        };
        let keyed = KeyedRequest::new(&caller, "federated_rebalance", &request);
        let expected = request.expected_revision;
        let ordered = keyed_run(cell, &keyed, |tx, mut changes| async move {
            federated_rebalance(&tx, &mut changes, user, name, which, expected).await?;
            Ok(((), changes))
        });
        cell.settled(ordered.await).await?;
        let row = row_found(cell, &request.user, &request.name)?;
        let job = Some(message_now(cell, &row).await?);
        Ok(Response::new(v1::RebalanceFederatedJobResponse { job }))
    }

    async fn order_federated_release(
        &self,
        request: Request<v1::OrderFederatedReleaseRequest>,
    ) -> Result<Response<v1::OrderFederatedReleaseResponse>, Status> {
        let (cell, caller, request) = self.cells.admit_change(request)?;
        let (user, name) = &names_read(&request.user, &request.name)?;
        let kind = order_read(&request)?;
        let keyed = KeyedRequest::new(&caller, "federated_order", &request);
        let ordered = keyed_run(cell, &keyed, |tx, mut changes| async move {
            federated_order(&tx, &mut changes, user, name, kind).await?;
            Ok(((), changes))
        });
        cell.settled(ordered.await).await?;
        let row = row_found(cell, &request.user, &request.name)?;
        let job = Some(message_now(cell, &row).await?);
        Ok(Response::new(v1::OrderFederatedReleaseResponse { job }))
    }

    async fn forget_federated_job(
        &self,
        request: Request<v1::ForgetFederatedJobRequest>,
    ) -> Result<Response<v1::ForgetFederatedJobResponse>, Status> {
        let (cell, caller, request) = self.cells.admit_change(request)?;
        let (user, name) = &names_read(&request.user, &request.name)?;
        // A repeated request finds nothing to show any more, and has its answer all the same.
        let before =
            cell.state(|state| state.federated_jobs().get(&(user.clone(), name.clone())).cloned())?;
        let job = match before {
            Some(row) => Some(message_now(cell, &row).await?),
            None => None,
        };
        let keyed = KeyedRequest::new(&caller, "federated_forget", &request);
        let forgotten = keyed_run(cell, &keyed, |tx, mut changes| async move {
            federated_forget(&tx, &mut changes, user, name).await?;
            Ok(((), changes))
        });
        cell.settled(forgotten.await).await?;
        Ok(Response::new(v1::ForgetFederatedJobResponse { job }))
    }

    async fn get_federated_job_history(
        &self,
        request: Request<v1::GetFederatedJobHistoryRequest>,
    ) -> Result<Response<v1::GetFederatedJobHistoryResponse>, Status> {
        let Asked { cell, message: request } = self.cells.admit_read(request)?;
        let row = row_found(cell, &request.user, &request.name)?;
        let (space, job) = (&cell.space, row.id);
        let versions = cell.db.run("federated_versions", Idempotency::ReadOnly, |tx, _| async move {
            federated_versions(&tx, space, job).await
        });
        let versions = versions.await.map_err(|error| status_from_store(&error))?;
        let versions = versions.iter().map(|(number, version)| version_message(*number, version)).collect();
        Ok(Response::new(v1::GetFederatedJobHistoryResponse { versions }))
    }
}

/// A job as a list shows it: without parts, or with the part in `member` alone. `None`: it has no tasks there.
fn listed(mut job: v1::FederatedJob, member: &str) -> Option<v1::FederatedJob> {
    job.parts.retain(|part| part.cell == member && part.count > 0 && !part.finished);
    if job.parts.is_empty() && !member.is_empty() {
        return None;
    }
    job.reasons.retain(|reason| reason.cells.iter().any(|cell| cell == member));
    job.holds.clear();
    Some(job)
}

/// The key of a row in the list.
fn key_of(text: &str) -> Option<(Name, Name)> {
    let (user, name) = text.split_once('/')?;
    Some((Name::new(user).ok()?, Name::new(name).ok()?))
}
