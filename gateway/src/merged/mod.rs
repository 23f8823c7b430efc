//! `MergeService`: owners of jobs make one service of several, and see how its traffic is divided now.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use borough_model::job::JobState;
use borough_model::merged::{
    LabelCondition, LabelOperator, MergedMember, MergedServiceRow, MergedServiceSpec, TrafficParts,
    WeightSum, merged_name_check, merged_spec_check,
};
use borough_model::task::Health;
use borough_model::{JobRow, MergedServiceId, Name};
use borough_proto::convert::FieldRefused;
use borough_proto::v1;
use borough_proto::v1::merge_service_server::MergeService;
use borough_store::merged::{merged_service_remove, merged_service_set};
use borough_store::mirror::{MirrorState, StoredEndpoint, StoredSpec};
use tonic::{Request, Response, Status};

use crate::cell::{Asked, CellContext, Cells, KeyedRequest, keyed_run};
use crate::page::{PAGE_ROWS_MAX, PagedList, page_cut};
use crate::status::{name_read, names_read, status_from_field, status_from_validation, status_not_found};

/// The gRPC service of merged services.
#[derive(Clone)]
pub struct MergeServer {
    cells: Arc<Cells>,
}

impl MergeServer {
    /// Serves `cells`.
    pub fn new(cells: Arc<Cells>) -> Self {
        Self { cells }
    }
}

#[tonic::async_trait]
impl MergeService for MergeServer {
    async fn list_merged_services(
        &self,
        request: Request<v1::ListMergedServicesRequest>,
    ) -> Result<Response<v1::ListMergedServicesResponse>, Status> {
        let Asked { cell, message: request } = self.cells.admit_read(request)?;
        let user = (!request.user.is_empty()).then(|| name_read("user", &request.user)).transpose()?;
        let list = PagedList::new(&cell.name, "merged services");
        let page = list.request(request.page.as_ref())?;
        let after = page.after.as_deref().and_then(key_of);
        let begin = match (after, &user) {
            (Some(after), _) => Bound::Excluded(after),
            (None, Some(user)) => Bound::Included((user.clone(), Name::first())),
            (None, None) => Bound::Unbounded,
        };
        let mut rows: Vec<Arc<MergedServiceRow>> = cell.state(|state| {
            let rows = state.merged_services().range((begin, Bound::Unbounded)).map(|(_, row)| row);
            let wanted = rows.take_while(|row| user.as_ref().is_none_or(|user| row.user == *user));
            // One more shows whether another page follows.
            wanted.take(page.limit.saturating_add(1)).cloned().collect()
        })?;
        let has_more = rows.len() > page.limit;
        rows.truncate(page.limit);
        let key = |service: &v1::MergedService| format!("{}/{}", service.user, service.name);
        let services: Vec<v1::MergedService> = rows.iter().map(|row| message_of(row)).collect();
        let next = services.last().filter(|_| has_more).map(key).unwrap_or_default();
        let (services, next) = page_cut(services, next, key);
        Ok(Response::new(v1::ListMergedServicesResponse { services, next_page: list.token(&next) }))
    }

    async fn get_merged_service(
        &self,
        request: Request<v1::GetMergedServiceRequest>,
    ) -> Result<Response<v1::GetMergedServiceResponse>, Status> {
        let Asked { cell, message: request } = self.cells.admit_read(request)?;
        let key = names_read(&request.user, &request.name)?;
        let row = cell.state(|state| state.merged_services().get(&key).cloned())?;
        let row = row.ok_or_else(|| status_not_found(&format!("service \"{}/{}\"", key.0, key.1)))?;
        let jobs = jobs_selected(cell, &row);
        let is_selected = |name: &&Name| !jobs.iter().any(|job| job.name == **name);
        let unselected = row.shares.keys().filter(is_selected).map(ToString::to_string).collect();
        let service = Some(message_of(&row));
        let jobs = jobs_now(cell, &row, &jobs);
        Ok(Response::new(v1::GetMergedServiceResponse { service, jobs, unselected }))
    }

    async fn set_merged_service(
        &self,
        request: Request<v1::SetMergedServiceRequest>,
    ) -> Result<Response<v1::SetMergedServiceResponse>, Status> {
        let (cell, caller, request) = self.cells.admit_change(request)?;
        let (user, name) = names_read(&request.user, &request.name)?;
        merged_name_check(&name).map_err(|errors| status_from_validation(&errors))?;
        let spec = spec_of(&request)?;
        let (new, expected) = (MergedServiceId(cell.id()), request.expected_revision);
        let keyed = KeyedRequest::new(&caller, "merged_service_set", &request);
        let (user, name, spec) = (&user, &name, &spec);
        let set = keyed_run(cell, &keyed, |tx, mut changes| async move {
            let row = merged_service_set(&tx, &mut changes, user, name, new, spec, expected).await?;
            Ok((row, changes))
        });
        // A look after the answer sees the change.
        let (row, _) = cell.settled(set.await).await?;
        Ok(Response::new(v1::SetMergedServiceResponse { service: Some(message_of(&row)) }))
    }

    async fn remove_merged_service(
        &self,
        request: Request<v1::RemoveMergedServiceRequest>,
    ) -> Result<Response<v1::RemoveMergedServiceResponse>, Status> {
        let (cell, caller, request) = self.cells.admit_change(request)?;
        let (user, name) = &names_read(&request.user, &request.name)?;
        let keyed = KeyedRequest::new(&caller, "merged_service_remove", &request);
        let removed = keyed_run(cell, &keyed, |tx, mut changes| async move {
            let row = merged_service_remove(&tx, &mut changes, user, name).await?;
            Ok((row, changes))
        });
        let (row, _) = cell.settled(removed.await).await?;
        Ok(Response::new(v1::RemoveMergedServiceResponse { service: Some(message_of(&row)) }))
    }
}

/// The user and the name of the key of a page.
fn key_of(text: &str) -> Option<(Name, Name)> {
    let (user, name) = text.split_once('/')?;
    Some((Name::new(user).ok()?, Name::new(name).ok()?))
}

/// The spec that a request asks for.
fn spec_of(request: &v1::SetMergedServiceRequest) -> Result<MergedServiceSpec, Status> {
    let condition = |wanted: &v1::LabelMatch| LabelCondition {
        key: wanted.key.clone(),
        value: wanted.value.clone(),
        operator: if wanted.not { LabelOperator::IsNot } else { LabelOperator::Is },
    };
    let mut shares = BTreeMap::new();
    for (at, share) in request.shares.iter().enumerate() {
        let field = format!("shares[{at}].job");
        let job = name_read(&field, &share.job)?;
        if shares.insert(job, share.percent).is_some() {
            let accepted = "each job once";
            return Err(status_from_field(&FieldRefused::new(field, share.job.clone(), accepted)));
        }
    }
    let spec = MergedServiceSpec { selector: request.selector.iter().map(condition).collect(), shares };
    merged_spec_check(spec).map_err(|errors| status_from_validation(&errors))
}

fn message_of(row: &MergedServiceRow) -> v1::MergedService {
    let condition = |condition: &LabelCondition| v1::LabelMatch {
        key: condition.key.clone(),
        value: condition.value.clone(),
        not: condition.operator == LabelOperator::IsNot,
    };
    let shares = row.shares.iter();
    let shares = shares.map(|(job, percent)| v1::JobShare { job: job.to_string(), percent: *percent });
    v1::MergedService {
        user: row.user.to_string(),
        name: row.name.to_string(),
        selector: row.selector.iter().map(condition).collect(),
        shares: shares.collect(),
        revision: row.revision,
        changed_ms: row.changed_ms,
        changed_by: row.changed_by.clone(),
    }
}

/// The jobs of a service by name: those of its user that have not ended and that its selector chooses. Specs are
/// decoded without the mirror's lock.
fn jobs_selected(cell: &CellContext, row: &MergedServiceRow) -> Vec<Arc<JobRow>> {
    let is_live = |job: &&Arc<JobRow>| !matches!(job.state, JobState::Ended { .. });
    let with_spec = |state: &MirrorState| -> Vec<(Arc<JobRow>, Option<StoredSpec>)> {
        let jobs = state.named_jobs_of(&row.user).filter(is_live);
        jobs.map(|job| (Arc::clone(job), state.stored_spec_of(job))).collect()
    };
    let jobs = cell.mirror.read(with_spec).into_iter();
    let chosen = jobs.filter_map(|(job, stored)| {
        let spec = stored?.decoded(&job.name)?;
        row.selects(&spec.labels).then_some(job)
    });
    chosen.collect()
}

/// A job of a service with the health and the weight of each of its endpoints.
struct CountedJob<'j> {
    job: &'j JobRow,
    endpoints: Vec<(Health, u32)>,
}

impl<'j> CountedJob<'j> {
    /// Endpoints are decoded without the mirror's lock.
    fn of(cell: &CellContext, job: &'j JobRow) -> Self {
        let stored = cell.mirror.read(|state| state.endpoints(Some(&job.user), Some(&job.name)));
        let decoded = stored.iter().filter_map(StoredEndpoint::decoded);
        Self { job, endpoints: decoded.map(|endpoint| (endpoint.health, endpoint.weight)).collect() }
    }

    fn member(&self, row: &MergedServiceRow) -> MergedMember {
        let (mut healthy, mut published) = (WeightSum::default(), WeightSum::default());
        for (health, weight) in &self.endpoints {
            published.add(*weight, 1);
            healthy.add(*weight, u64::from(*health == Health::Healthy));
        }
        MergedMember { share: row.share(&self.job.name), healthy, published }
    }
}

/// The jobs of a service with their endpoints and their parts of the traffic.
fn jobs_now(cell: &CellContext, row: &MergedServiceRow, jobs: &[Arc<JobRow>]) -> Vec<v1::MergedJob> {
    let counted: Vec<CountedJob<'_>> = jobs.iter().map(|job| CountedJob::of(cell, job)).collect();
    let members: Vec<MergedMember> = counted.iter().map(|job| job.member(row)).collect();
    let parts = TrafficParts::of(&members);
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let message = |(at, CountedJob { job, endpoints }): (usize, &CountedJob<'_>)| {
        let part_ppm = parts.part(at);
        let usable = endpoints.iter().filter(|(health, _)| parts.uses(*health));
        v1::MergedJob {
            job: job.name.to_string(),
            endpoints: count(endpoints.len()),
            usable: count(usable.count()),
            share_percent: row.share(&job.name),
            part_ppm,
        }
    };
    counted.iter().enumerate().map(message).take(PAGE_ROWS_MAX).collect()
}
