//! `QuotaService`: operators say how much a user or a group may have admitted, and everybody sees it.

use std::sync::Arc;

use borough_kv::Idempotency;
use borough_model::access::AccessSubject;
use borough_model::job::Band;
use borough_model::quota::{
    QuotaBorrow, QuotaLimit, quota_holder_parse, quota_holder_text, quota_limit_check,
};
use borough_model::{Name, Resources};
use borough_proto::convert::{FieldRefused, capacity_from_message, name_from_text, resources_to_message};
use borough_proto::v1;
use borough_proto::v1::quota_service_server::QuotaService;
use borough_store::quota::{
    LineChange, PoolGrants, QuotaChange, QuotaFilter, QuotaLine, QuotaRow, quota_change, quota_line,
    quota_page,
};
use futures::future::try_join_all;
use tonic::{Request, Response, Status};

use crate::cell::{Asked, CellContext, CellGrants, Cells, KeyedRequest, capacity_ready, keyed_run};
use crate::page::PagedList;
use crate::status::{status_from_field, status_from_store, status_from_validation};

/// The bands that a quota may limit.
const LIMITED: [Band; 3] = [Band::Batch, Band::Production, Band::Monitoring];

/// The gRPC service of quotas.
#[derive(Clone)]
pub struct QuotaServer {
    cells: Arc<Cells>,
}

impl QuotaServer {
    /// Serves `cells`.
    pub fn new(cells: Arc<Cells>) -> Self {
        Self { cells }
    }
}

#[tonic::async_trait]
impl QuotaService for QuotaServer {
    async fn list_quotas(
        &self,
        request: Request<v1::ListQuotasRequest>,
    ) -> Result<Response<v1::ListQuotasResponse>, Status> {
        let Asked { cell, message: request } = self.cells.admit_read(request)?;
        let now_ms = cell.clock.wall_ms();
        if !request.user.is_empty() {
            parent_alone_check(&request)?;
            let holder = holder_of("user", &request.user)?;
            let (space, holder) = (&cell.space, &holder);
            let read = cell.db.run("quota_list", Idempotency::ReadOnly, |tx, _| async move {
                try_join_all(LIMITED.map(|band| quota_line(&tx, space, holder, band))).await
            });
            let lines = read.await.map_err(|error| status_from_store(&error))?;
            let quotas = lines.iter().map(|line| quota_message(line, now_ms)).collect();
            let granted = CellGrants::read(cell).await?.pools_message();
            return Ok(Response::new(v1::ListQuotasResponse { quotas, next_page: String::new(), granted }));
        }
        let list = PagedList::new(&cell.name, "quotas");
        let page = list.request(request.page.as_ref())?;
        let after = page.after.as_deref().map(|after| holder_of("page", after)).transpose()?;
        let filter = QuotaFilter { parent: parent_of("parent", &request.parent)? };
        let (space, filter, after) = (&cell.space, &filter, after.as_ref());
        let read = cell.db.run("quota_list", Idempotency::ReadOnly, |tx, _| async move {
            quota_page(&tx, space, filter, after, page.limit).await
        });
        let found = read.await.map_err(|error| status_from_store(&error))?;
        let next = found.next.map(|holder| list.token(&quota_holder_text(&holder))).unwrap_or_default();
        let quotas = found.lines.iter().map(|line| quota_message(line, now_ms)).collect();
        let whole = filter.parent.is_none() && after.is_none();
        let granted = if whole { CellGrants::read(cell).await?.pools_message() } else { Vec::new() };
        Ok(Response::new(v1::ListQuotasResponse { quotas, next_page: next, granted }))
    }

    async fn get_quota(
        &self,
        request: Request<v1::GetQuotaRequest>,
    ) -> Result<Response<v1::GetQuotaResponse>, Status> {
        let Asked { cell, message: request } = self.cells.admit_read(request)?;
        let line = line_read(cell, &holder_of("user", &request.user)?, band_of(request.band)?).await?;
        let changes = line.row.iter().flat_map(|row| &row.changes).map(change_message).collect();
        let quota = Some(quota_message(&line, cell.clock.wall_ms()));
        Ok(Response::new(v1::GetQuotaResponse { quota, changes }))
    }

    async fn set_quota(
        &self,
        request: Request<v1::SetQuotaRequest>,
    ) -> Result<Response<v1::SetQuotaResponse>, Status> {
        let (cell, caller, request) = self.cells.admit_change(request)?;
        let (holder, band) = (holder_of("user", &request.user)?, band_of(request.band)?);
        let limit = limit_of(request.limit.as_ref())?;
        let (keyed, expected) =
            (KeyedRequest::new(&caller, "quota_set", &request), request.expected_revision);
        let (holder, limit) = (&holder, &limit);
        let capacity = capacity_ready(cell).await?;
        let asked = &LineChange { holder, band, limit, expected, capacity: capacity.as_ref() };
        let set = keyed_run(cell, &keyed, |tx, mut changes| async move {
            let row = quota_change(&tx, &mut changes, asked).await?;
            Ok((row, changes))
        });
        set.await.map_err(|error| status_from_store(&error))?;
        let line = line_read(cell, holder, band).await?;
        Ok(Response::new(v1::SetQuotaResponse { quota: Some(quota_message(&line, cell.clock.wall_ms())) }))
    }
}

impl CellGrants {
    /// What lines without a parent grant together.
    fn pools_message(&self) -> Vec<v1::GrantedTogether> {
        let message = |grants: &PoolGrants| v1::GrantedTogether {
            bands: grants.pool.bands().iter().map(|band| band_message(*band).into()).collect(),
            granted: Some(resources_to_message(&grants.granted)),
            capacity: Some(resources_to_message(&self.capacity)),
            percent: grants.percent,
            excess: grants.excess.iter().map(ToString::to_string).collect(),
        };
        self.pools.iter().map(message).collect()
    }
}

async fn line_read(cell: &CellContext, holder: &AccessSubject, band: Band) -> Result<QuotaLine, Status> {
    let space = &cell.space;
    let read = cell.db.run("quota_get", Idempotency::ReadOnly, |tx, _| async move {
        quota_line(&tx, space, holder, band).await
    });
    read.await.map_err(|error| status_from_store(&error))
}

fn holder_of(field: &str, text: &str) -> Result<AccessSubject, Status> {
    if !text.contains('/') {
        let user = name_from_text(field, text).map_err(|refused| status_from_field(&refused))?;
        return Ok(AccessSubject::User(user));
    }
    quota_holder_parse(text)
        .map_err(|accepted| status_from_field(&FieldRefused::new(field, text.to_owned(), accepted)))
}

/// The group that a text names; `None` if it is empty.
fn parent_of(field: &str, text: &str) -> Result<Option<Name>, Status> {
    match quota_holder_parse(text) {
        Ok(AccessSubject::Group(group)) => Ok(Some(group)),
        _ if text.is_empty() => Ok(None),
        Ok(AccessSubject::User(_)) | Err(_) => {
            let accepted = "group/NAME of a group, such as group/shop";
            Err(status_from_field(&FieldRefused::new(field, text.to_owned(), accepted.to_owned())))
        }
    }
}

/// The lines below a group are of other holders.
fn parent_alone_check(request: &v1::ListQuotasRequest) -> Result<(), Status> {
    if request.parent.is_empty() {
        return Ok(());
    }
    let accepted = "nothing beside a `user`: either the lines of a holder, or those below a group";
    Err(status_from_field(&FieldRefused::new("parent", request.parent.clone(), accepted.to_owned())))
}

fn band_of(number: i32) -> Result<Band, Status> {
    let (found, accepted) = (v1::Band::try_from(number), "batch, production or monitoring");
    let refused =
        |value: &str, accepted: &str| status_from_field(&FieldRefused::new("band", value, accepted));
    match found {
        Ok(v1::Band::Batch) => Ok(Band::Batch),
        Ok(v1::Band::Production) => Ok(Band::Production),
        Ok(v1::Band::Monitoring) => Ok(Band::Monitoring),
        Ok(v1::Band::BestEffort) => Err(refused(
            "best_effort",
            &format!("{accepted}: best effort has no limits, and is evicted first"),
        )),
        Ok(v1::Band::Unspecified) => Err(refused("", accepted)),
        Err(_) => Err(refused(&number.to_string(), accepted)),
    }
}

fn band_message(band: Band) -> v1::Band {
    match band {
        Band::BestEffort => v1::Band::BestEffort,
        Band::Batch => v1::Band::Batch,
        Band::Production => v1::Band::Production,
        Band::Monitoring => v1::Band::Monitoring,
    }
}

/// Checks a limit. Without one, the line is removed.
fn limit_of(message: Option<&v1::QuotaLimit>) -> Result<QuotaLimit, Status> {
    let Some(message) = message else { return Ok(QuotaLimit::default()) };
    let resources = capacity_from_message(message.resources.as_ref());
    let resources = resources.map_err(|refused| status_from_field(&refused.within("limit.resources")))?;
    let v1::QuotaLimit { tasks_max, from_ms, until_ms, .. } = *message;
    let parent = parent_of("limit.parent", &message.parent)?;
    let borrow = message.borrow.as_ref().map(borrow_of).transpose()?;
    let limit = QuotaLimit { resources, tasks_max, from_ms, until_ms, parent, borrow };
    quota_limit_check(&limit).map_err(|errors| status_from_validation(&errors))?;
    Ok(limit)
}

fn borrow_of(message: &v1::QuotaBorrow) -> Result<QuotaBorrow, Status> {
    let resources = capacity_from_message(message.resources.as_ref());
    let resources =
        resources.map_err(|refused| status_from_field(&refused.within("limit.borrow.resources")))?;
    let amounts = QuotaBorrow::UpTo { resources, tasks: message.tasks };
    if !message.all {
        return Ok(amounts);
    }
    if amounts == (QuotaBorrow::UpTo { resources: Resources::default(), tasks: 0 }) {
        return Ok(QuotaBorrow::All);
    }
    let accepted = "false beside amounts: either all, or these";
    Err(status_from_field(&FieldRefused::new("limit.borrow.all", "true".to_owned(), accepted.to_owned())))
}

fn quota_message(line: &QuotaLine, now_ms: i64) -> v1::Quota {
    let set = line.row.as_ref().filter(|row| !row.set().is_empty());
    v1::Quota {
        user: quota_holder_text(&line.holder),
        band: band_message(line.band).into(),
        limit: set.map(|row| limit_message(&row.set())),
        used: Some(resources_to_message(&line.used.used)),
        used_tasks: line.used.tasks,
        revision: line.row.as_ref().map_or(0, |row| row.revision),
        in_force: set.is_some_and(|row| QuotaRow::is_in_force(row, now_ms)),
    }
}

fn change_message(change: &QuotaChange) -> v1::QuotaChange {
    let limit = Some(change.set()).filter(|limit| !limit.is_empty());
    v1::QuotaChange {
        revision: change.revision,
        at_ms: change.at_ms,
        by: change.by.clone(),
        limit: limit.as_ref().map(limit_message),
    }
}

fn limit_message(limit: &QuotaLimit) -> v1::QuotaLimit {
    let QuotaLimit { ref resources, tasks_max, from_ms, until_ms, ref parent, ref borrow } = *limit;
    v1::QuotaLimit {
        resources: Some(resources_to_message(resources)),
        tasks_max,
        from_ms,
        until_ms,
        parent: parent.as_ref().map(|group| format!("group/{group}")).unwrap_or_default(),
        borrow: borrow.as_ref().map(borrow_message),
    }
}

fn borrow_message(borrow: &QuotaBorrow) -> v1::QuotaBorrow {
    match borrow {
        QuotaBorrow::All => v1::QuotaBorrow { all: true, ..v1::QuotaBorrow::default() },
        QuotaBorrow::UpTo { resources, tasks } => {
            v1::QuotaBorrow { all: false, resources: Some(resources_to_message(resources)), tasks: *tasks }
        }
    }
}
