//! The gRPC service of jobs, over the layer and the mirror.

use std::sync::Arc;

use borough_kv::Idempotency;
use borough_model::journal::JobName;
use borough_model::{JobId, JobSpec, Name};
use borough_proto::convert::{
    FieldRefused, job_spec_from_message, job_spec_to_message, job_to_message, labels_removed,
};
use borough_proto::v1;
use borough_proto::v1::job_service_server::JobService;
use borough_scheduler_core::ScoringProfile;
use borough_store::StoreResult;
use borough_store::job::{
    AdmissionAuthor, JobSubmitted, JobVersion, SubmitOutcome, job_by_name, job_history, job_labels_set,
    job_scale, job_stop, job_submit,
};
use borough_store::journal::Cursor;
use borough_store::lease::SCHEDULER_DEFAULT;
use borough_store::rollout::{RolloutOrder, rollout_order};
use prost::Message as _;
use tonic::{Request, Response, Status};

use super::admit::{Admissions, Admitted, Submission, batch_admit, submission_is_new};
use super::after::after_check;
use super::daemon::daemon_warning;
use super::expected::{expected_check, meant_check, unchanged_check};
use super::list::jobs_listed;
use super::plan::{after_warnings, plan_of, scheduler_named, spec_planned, warnings_of};
use super::priority::{growth_allow, priority_allow};
use super::purge::jobs_purge;
use super::{job_counts, job_message};
use crate::cell::{
    Asked, CellContext, Cells, KeyedRequest, cursor_to_message, keyed_found, keyed_run, loads_follow,
    principal_of, queue_check, settings_read,
};
use crate::status::{
    names_read, status_exhausted, status_from_field, status_from_profile, status_from_store,
    status_from_validation, status_not_found, status_refused,
};
use crate::task::job_found;

/// Most jobs in one history.
const HISTORY_JOBS_MAX: usize = 100;

/// The gRPC service of jobs.
#[derive(Clone)]
pub struct JobServer {
    cells: Arc<Cells>,
    admissions: Admissions,
}

impl JobServer {
    /// Serves `cells`.
    pub fn new(cells: Arc<Cells>) -> Self {
        Self { cells, admissions: Arc::default() }
    }

    /// Decides a submission with others of its user. `None`: nothing was done, and it is to be decided by itself.
    async fn submit_together(
        &self,
        cell: &Arc<CellContext>,
        submission: &Submission,
        user: Name,
        bytes: usize,
    ) -> Result<Option<Admitted>, Status> {
        let context = Arc::clone(cell);
        let author = AdmissionAuthor { space: cell.space.clone(), user };
        let admit = move |batch| batch_admit(Arc::clone(&context), batch);
        match self.admissions.admit(author, submission.clone(), bytes, admit).await {
            Ok(Some(admitted)) => admitted.map(Some),
            Ok(None) => {
                cell.admissions.alone.inc();
                Ok(None)
            }
            Err(full) => {
                cell.admissions.refused.inc();
                Err(status_exhausted("SUBMISSIONS_WAIT", full.to_string()))
            }
        }
    }
}

/// The order of a request.
fn order_of(request: &v1::OrderRolloutRequest) -> Result<RolloutOrder, Status> {
    use v1::order_rollout_request::Order;
    let refused = |field: &str, value: &str, accepted: &str| {
        status_from_field(&FieldRefused::new(field, value.to_owned(), accepted.to_owned()))
    };
    if request.version > 0 && request.order() != Order::Undo {
        return Err(refused("version", &request.version.to_string(), "0, unless the order is UNDO"));
    }
    match Order::try_from(request.order) {
        Ok(Order::Pause) => Ok(RolloutOrder::Pause),
        Ok(Order::Resume) => Ok(RolloutOrder::Resume),
        Ok(Order::Promote) => Ok(RolloutOrder::Promote),
        Ok(Order::Undo) => Ok(RolloutOrder::Undo(Some(request.version).filter(|version| *version > 0))),
        Ok(Order::Unspecified) | Err(_) => {
            Err(refused("order", &request.order.to_string(), "PAUSE, RESUME, PROMOTE or UNDO"))
        }
    }
}

/// Converts and checks the spec of a request.
fn spec_of(message: Option<&v1::JobSpec>) -> Result<JobSpec, Status> {
    let missing = v1::JobSpec::default();
    let spec = job_spec_from_message(message.unwrap_or(&missing))
        .map_err(|refused| status_from_field(&refused.within("spec")))?;
    spec.validate().map_err(|errors| status_from_validation(&errors))?;
    if let Some(profile) = &spec.profile {
        let parsed: Result<ScoringProfile, _> = profile.parse();
        parsed.map_err(|error| status_from_profile("spec.profile", profile, &error))?;
    }
    Ok(spec)
}

/// Runs a mutation on the job of a name. The value is the job's id.
async fn job_change<F, Fut>(
    cell: &CellContext,
    request: &KeyedRequest,
    change: F,
) -> Result<(v1::Job, v1::Cursor), Status>
where
    F: Fn(borough_kv::Transaction, borough_store::ChangeSet) -> Fut,
    Fut: Future<Output = StoreResult<(JobId, borough_store::ChangeSet)>>,
{
    let changed = keyed_run(cell, request, change).await;
    let (job, cursor) = cell.settled(changed).await?;
    Ok((job_by_id(cell, job)?, cursor_to_message(cursor)))
}

fn job_by_id(cell: &CellContext, job: JobId) -> Result<v1::Job, Status> {
    let row = cell.state(|state| state.jobs().get(&job).cloned())?;
    let message = row.map(|row| job_message(cell, &row));
    message.ok_or_else(|| status_not_found(&format!("job {job} any more")))
}

#[tonic::async_trait]
impl JobService for JobServer {
    async fn submit_job(
        &self,
        request: Request<v1::SubmitJobRequest>,
    ) -> Result<Response<v1::SubmitJobResponse>, Status> {
        let principal = principal_of(request.extensions())?;
        let (cell, caller, request) = self.cells.admit_change(request)?;
        let spec = spec_of(request.spec.as_ref())?;
        // A submission that was admitted keeps its answer, whatever queues the cell has by now.
        let queued = queue_check(cell, spec.queue.as_deref()).await;
        let allowed = queued.and_then(|_| priority_allow(cell, &principal, &spec));
        let acceptable = allowed.and_then(|()| after_check(cell, &spec)).and_then(|()| {
            let room = cell.journal.admit().and_then(|()| cell.ended_jobs.admit());
            room.map_err(|full| status_from_store(&full))
        });
        let keyed = Arc::new(KeyedRequest::new(&caller, "job_submit", &request).of_new_work());
        let acceptable = keyed_found(cell, &keyed, acceptable).await?.is_some();
        tokio::time::sleep(cell.ended_jobs.delay()).await;
        if acceptable {
            let followed = loads_follow(cell, spec.profile.as_deref()).await;
            followed.map_err(|error| status_from_store(&error))?;
        }
        let bytes = request.spec.as_ref().map_or(0, v1::JobSpec::encoded_len);
        let submission = Submission {
            keyed,
            spec: Arc::new(spec),
            candidate: JobId(cell.id()),
            submitted_ms: cell.clock.wall_ms(),
        };
        let is_new = acceptable
            && !caller.is_dry_run()
            && request.expected_revision == 0
            && request.expected_job.is_empty()
            && !request.expected_absent
            && cell.state(|state| submission_is_new(state, &submission.spec))?;
        let together =
            if is_new { self.submit_together(cell, &submission, caller.user, bytes).await? } else { None };
        let submitted = match together {
            Some(admitted) => Ok(admitted),
            None => submit_alone(cell, &submission, &request).await,
        };
        let (submitted, cursor) = cell.settled(submitted).await?;
        let scheduler = cell.state(|state| scheduler_named(state, submitted.job))?;
        let mut warnings = cell.state(|state| after_warnings(state, &submission.spec))?;
        warnings.extend(cell.state(|state| daemon_warning(state, &submission.spec))?);
        warnings.extend(warnings_of(cell, scheduler.as_ref()).await);
        let response = v1::SubmitJobResponse {
            job: Some(job_by_id(cell, submitted.job)?),
            warnings,
            changed: submitted.outcome != SubmitOutcome::Unchanged,
            diff: Vec::new(),
            cursor: Some(cursor_to_message(cursor)),
        };
        Ok(Response::new(response))
    }

    async fn plan_job(
        &self,
        request: Request<v1::PlanJobRequest>,
    ) -> Result<Response<v1::PlanJobResponse>, Status> {
        let principal = principal_of(request.extensions())?;
        let Asked { cell, message: request } = self.cells.admit_read(request)?;
        let spec = spec_of(request.spec.as_ref())?;
        queue_check(cell, spec.queue.as_deref()).await?;
        // The caller may plan it. The plan is that the job would be refused.
        let allowed = priority_allow(cell, &principal, &spec);
        allowed.map_err(|refused| status_refused("ACCESS_REFUSED", refused.message()))?;
        after_check(cell, &spec)?;
        let settings = settings_read(cell).await.map_err(|error| status_from_store(&error))?;
        let spec = spec_planned(cell, &spec, &settings.schedulers.unwrap_or_default())?;
        let mut response = plan_of(cell, &spec).await?;
        let scheduler = spec.scheduler.as_ref();
        // The tasks that wait for another job say so themselves.
        if response.unplaced.is_empty() {
            response.warnings.extend(cell.state(|state| after_warnings(state, &spec))?);
        }
        response.warnings.extend(warnings_of(cell, scheduler).await);
        response.scheduler = scheduler.map_or(SCHEDULER_DEFAULT, Name::as_str).to_owned();
        Ok(Response::new(response))
    }

    async fn scale_job(
        &self,
        request: Request<v1::ScaleJobRequest>,
    ) -> Result<Response<v1::ScaleJobResponse>, Status> {
        let principal = principal_of(request.extensions())?;
        let (cell, caller, request) = self.cells.admit_change(request)?;
        let (user, name) = names_read(&request.user, &request.name)?;
        growth_allow(cell, &principal, &JobName { user: user.clone(), job: name.clone() }, request.count)?;
        let (user, name, count, space) = (&user, &name, request.count, &cell.space);
        let (expected, revision) = (&request.expected_job, request.expected_revision);
        let journal = &cell.journal;
        let keyed = KeyedRequest::new(&caller, "job_scale", &request);
        let (job, cursor) = job_change(cell, &keyed, |tx, mut changes| async move {
            let row = job_by_name(&tx, space, user, name).await?;
            meant_check(&row, expected)?;
            unchanged_check(&row, revision)?;
            if count > row.owner_count() {
                journal.admit()?;
            }
            job_scale(&tx, &mut changes, row.id, count).await?;
            Ok((row.id, changes))
        })
        .await?;
        Ok(Response::new(v1::ScaleJobResponse { job: Some(job), cursor: Some(cursor) }))
    }

    async fn order_rollout(
        &self,
        request: Request<v1::OrderRolloutRequest>,
    ) -> Result<Response<v1::OrderRolloutResponse>, Status> {
        let (cell, caller, request) = self.cells.admit_change(request)?;
        let (user, name) = names_read(&request.user, &request.name)?;
        let order = order_of(&request)?;
        let expected = Some(request.expected_version).filter(|version| *version > 0);
        let (user, name, space) = (&user, &name, &cell.space);
        let action = if order == RolloutOrder::Promote { "rollout_promote" } else { "rollout_order" };
        let keyed = KeyedRequest::new(&caller, action, &request);
        let (job, cursor) = job_change(cell, &keyed, |tx, mut changes| async move {
            let job = job_by_name(&tx, space, user, name).await?.id;
            rollout_order(&tx, &mut changes, job, order, expected).await?;
            Ok((job, changes))
        })
        .await?;
        Ok(Response::new(v1::OrderRolloutResponse { job: Some(job), cursor: Some(cursor) }))
    }

    async fn stop_job(
        &self,
        request: Request<v1::StopJobRequest>,
    ) -> Result<Response<v1::StopJobResponse>, Status> {
        let (cell, caller, request) = self.cells.admit_change(request)?;
        let (user, name) = names_read(&request.user, &request.name)?;
        let (user, name, space, expected) = (&user, &name, &cell.space, &request.expected_job);
        let keyed = KeyedRequest::new(&caller, "job_stop", &request);
        let (job, cursor) = job_change(cell, &keyed, |tx, mut changes| async move {
            let row = job_by_name(&tx, space, user, name).await?;
            meant_check(&row, expected)?;
            job_stop(&tx, &mut changes, row.id).await?;
            Ok((row.id, changes))
        })
        .await?;
        Ok(Response::new(v1::StopJobResponse { job: Some(job), cursor: Some(cursor) }))
    }

    async fn purge_job(
        &self,
        request: Request<v1::PurgeJobRequest>,
    ) -> Result<Response<v1::PurgeJobResponse>, Status> {
        let (cell, caller, request) = self.cells.admit_change(request)?;
        let (user, name) = names_read(&request.user, &request.name)?;
        jobs_purge(cell, &caller, &request, &JobName { user, job: name }).await.map(Response::new)
    }

    async fn label_job(
        &self,
        request: Request<v1::LabelJobRequest>,
    ) -> Result<Response<v1::LabelJobResponse>, Status> {
        let (cell, caller, request) = self.cells.admit_change(request)?;
        let (user, name) = names_read(&request.user, &request.name)?;
        let remove = labels_removed(&request.labels, &request.remove)
            .map_err(|refused| status_from_field(&refused))?;
        let (user, name, space, set, remove) = (&user, &name, &cell.space, &request.labels, &remove);
        let keyed = KeyedRequest::new(&caller, "job_label", &request);
        let (job, cursor) = job_change(cell, &keyed, |tx, mut changes| async move {
            let job = job_by_name(&tx, space, user, name).await?.id;
            job_labels_set(&tx, &mut changes, job, set, remove).await?;
            Ok((job, changes))
        })
        .await?;
        Ok(Response::new(v1::LabelJobResponse { job: Some(job), cursor: Some(cursor) }))
    }

    async fn get_job(
        &self,
        request: Request<v1::GetJobRequest>,
    ) -> Result<Response<v1::GetJobResponse>, Status> {
        let Asked { cell, message: request } = self.cells.admit_read(request)?;
        let (row, spec, cursor) = cell.state(|state| {
            let row = job_found(state, &cell.name, &request.user, &request.name)?;
            Ok::<_, Status>((Arc::clone(row), state.spec_of(row), state.cursor()))
        })??;
        let spec = spec.map(|spec| job_spec_to_message(&spec.in_force(&row)));
        let (job, cursor) = (Some(job_message(cell, &row)), Some(cursor_to_message(cursor)));
        Ok(Response::new(v1::GetJobResponse { job, spec, cursor }))
    }

    async fn list_jobs(
        &self,
        request: Request<v1::ListJobsRequest>,
    ) -> Result<Response<v1::ListJobsResponse>, Status> {
        let Asked { cell, message: request } = self.cells.admit_read(request)?;
        cell.state(|_| ())?;
        Ok(Response::new(jobs_listed(cell, &request).await?))
    }

    async fn get_job_history(
        &self,
        request: Request<v1::GetJobHistoryRequest>,
    ) -> Result<Response<v1::GetJobHistoryResponse>, Status> {
        let Asked { cell, message: request } = self.cells.admit_read(request)?;
        let (user, name) = names_read(&request.user, &request.name)?;
        let (user, name, space) = (&user, &name, &cell.space);
        let versions = cell.db.run("job_history", Idempotency::ReadOnly, |tx, _| async move {
            job_history(&tx, space, user, name, HISTORY_JOBS_MAX).await
        });
        let versions = versions.await.map_err(|error| status_from_store(&error))?;
        if versions.is_empty() {
            return Err(status_not_found(&format!("job {user}/{name} in cell {}, now or before", cell.name)));
        }
        cell.state(|_| ())?;
        let message = |version: &JobVersion| {
            let counts = job_counts(&cell.mirror, &version.job);
            let job = job_to_message(&cell.name, &version.job, Some(&version.spec), counts);
            version_message(version, job)
        };
        let versions = versions.iter().map(message).collect();
        Ok(Response::new(v1::GetJobHistoryResponse { versions }))
    }
}

/// A version of a job with who made it. The first one came with the job.
fn version_message(version: &JobVersion, job: v1::Job) -> v1::JobVersion {
    let JobVersion { job: row, version: number, spec } = version;
    let origins = row.changes.iter().flat_map(|changes| &changes.versions);
    let origin = origins.into_iter().find(|origin| origin.version == *number);
    let first_ms = if *number == 1 { row.submitted_ms } else { 0 };
    v1::JobVersion {
        job: Some(job),
        version: *number,
        spec: Some(job_spec_to_message(spec)),
        at_ms: origin.map_or(first_ms, |origin| origin.at_ms),
        by: origin.map(|origin| origin.by.clone()).unwrap_or_default(),
        revision: origin.map_or(0, |origin| origin.revision),
        count_before: origin.and_then(|origin| Some(origin.before?.count)),
        priority_before: origin.and_then(|origin| Some(origin.before?.priority)),
    }
}

/// Decides a submission by itself: it changes a running job, is refused, was done before, or is made for a plan.
async fn submit_alone(
    cell: &CellContext,
    submission: &Submission,
    request: &v1::SubmitJobRequest,
) -> StoreResult<(JobSubmitted, Option<Cursor>)> {
    let Submission { keyed, spec, candidate, .. } = submission;
    let submitted = keyed_run(cell, keyed, |tx, mut changes| async move {
        expected_check(&tx, &changes, spec, request).await?;
        let submitted = job_submit(&tx, &mut changes, spec, *candidate).await?;
        Ok((submitted, changes))
    });
    submitted.await
}
