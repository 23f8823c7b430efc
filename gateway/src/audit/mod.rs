//! The audit at a gateway: `AuditService`, and what it learns of calls for it.
//!
//! A change is recorded in its own transaction. A refusal changes nothing, so the gateway writes refusals together,
//! every few seconds.

mod layer;

use std::sync::Arc;
use std::time::Duration;

use borough_kv::Idempotency;
use borough_model::audit::{AuditRecord, AuditSeal};
use borough_proto::convert::FieldRefused;
use borough_proto::v1;
use borough_proto::v1::audit_service_server::AuditService;
use borough_store::audit::{audit_chunks_after, audit_head, audit_is_behind};
use tonic::{Request, Response, Status};

pub(crate) use layer::{AuditLayer, refusal_note};

use crate::cell::{Asked, CellContext, Cells, audit_flush};
use crate::page::PagedList;
use crate::status::{status_from_field, status_from_store};

/// Chunks that one transaction reads.
const CHUNKS_READ: u64 = 16;
/// Chunks that one page looks at.
const CHUNKS_LOOKED: u64 = 128;
/// How long a list waits until the calls before it are sealed, and how often it looks.
const SEAL_WAIT: Duration = Duration::from_secs(4);
const SEAL_LOOK: Duration = Duration::from_millis(100);

/// The gRPC service of the audit.
#[derive(Clone)]
pub struct AuditServer {
    cells: Arc<Cells>,
}

impl AuditServer {
    /// Serves `cells`.
    pub fn new(cells: Arc<Cells>) -> Self {
        Self { cells }
    }
}

#[tonic::async_trait]
impl AuditService for AuditServer {
    async fn list_audit(
        &self,
        request: Request<v1::ListAuditRequest>,
    ) -> Result<Response<v1::ListAuditResponse>, Status> {
        let Asked { cell, message: request } = self.cells.admit_read(request)?;
        let list = PagedList::new(&cell.name, "audit");
        let page = list.request(request.page.as_ref())?;
        let filter = request.filter.unwrap_or_default();
        outcome_check(&filter)?;
        let (begin, behind) = match page.after.as_deref().map(position_of) {
            Some(position) => (position, false),
            None => {
                let behind = sealed_await(cell).await?;
                (ListPosition::last(cell).await?, behind)
            }
        };
        let (mut calls, end) = calls_before(cell, &filter, begin, page.limit).await?;
        // Refusals are written some seconds after they were made.
        calls.sort_by_key(|call| std::cmp::Reverse(call.at_ms));
        let next_page = end.map(|end| list.token(&end.to_text())).unwrap_or_default();
        Ok(Response::new(v1::ListAuditResponse { calls, next_page, behind }))
    }

    async fn list_audit_chunks(
        &self,
        request: Request<v1::ListAuditChunksRequest>,
    ) -> Result<Response<v1::ListAuditChunksResponse>, Status> {
        let Asked { cell, message: request } = self.cells.admit_read(request)?;
        let mut chunks = chunks_read(cell, request.after, CHUNKS_READ).await?;
        let mut behind = false;
        if chunks.is_empty() {
            // Perhaps the end: what was done before this call comes too.
            behind = sealed_await(cell).await?;
            chunks = chunks_read(cell, request.after, CHUNKS_READ).await?;
        }
        let chunks = chunks.into_iter().map(chunk_message).collect();
        Ok(Response::new(v1::ListAuditChunksResponse { chunks, behind }))
    }
}

/// The number of the last chunk; 0: there is none.
async fn last_read(cell: &CellContext) -> Result<u64, Status> {
    let space = &cell.space;
    let read =
        cell.db.run("audit_head", Idempotency::ReadOnly, |tx, _| async move { audit_head(&tx, space).await });
    Ok(read.await.map_err(|error| status_from_store(&error))?.map_or(0, |head| head.number))
}

/// Chunks after the number `after`, at most `most`.
async fn chunks_read(cell: &CellContext, after: u64, most: u64) -> Result<Vec<AuditSeal>, Status> {
    let (space, limit) = (&cell.space, usize::try_from(most).unwrap_or(usize::MAX));
    let read = cell.db.run("audit_read", Idempotency::ReadOnly, |tx, _| async move {
        audit_chunks_after(&tx, space, after, limit).await
    });
    read.await.map_err(|error| status_from_store(&error))
}

async fn behind_read(cell: &CellContext) -> Result<bool, Status> {
    let space = &cell.space;
    let read = cell
        .db
        .run("audit_behind", Idempotency::ReadOnly, |tx, _| async move { audit_is_behind(&tx, space).await });
    read.await.map_err(|error| status_from_store(&error))
}

/// Waits until the calls before this moment are sealed, for a while. Returns true if they are not.
async fn sealed_await(cell: &CellContext) -> Result<bool, Status> {
    audit_flush(cell).await.map_err(|error| status_from_store(&error))?;
    let waited = tokio::time::timeout(SEAL_WAIT, async {
        while behind_read(cell).await? {
            tokio::time::sleep(SEAL_LOOK).await;
        }
        Ok::<_, Status>(())
    });
    match waited.await {
        Ok(sealed) => sealed.map(|()| false),
        Err(_) => Ok(true),
    }
}

fn outcome_check(filter: &v1::AuditFilter) -> Result<(), Status> {
    match v1::AuditOutcome::try_from(filter.outcome) {
        Ok(_) => Ok(()),
        Err(_) => {
            let value = filter.outcome.to_string();
            Err(status_from_field(&FieldRefused::new("filter.outcome", value, "done, refused, or none")))
        }
    }
}

/// Where a list goes on: calls before the call `index` of the chunk `number`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ListPosition {
    number: u64,
    index: usize,
}

impl ListPosition {
    /// Behind the last chunk.
    async fn last(cell: &CellContext) -> Result<Self, Status> {
        Ok(Self { number: last_read(cell).await?, index: usize::MAX })
    }

    fn to_text(self) -> String {
        format!("{}:{}", self.number, self.index)
    }
}

/// A token that this service has made; its check is done.
fn position_of(key: &str) -> ListPosition {
    let (number, index) = key.split_once(':').unwrap_or_default();
    ListPosition { number: number.parse().unwrap_or(0), index: index.parse().unwrap_or(0) }
}

/// Calls before `begin` that the filter takes, the newest first, and where the next page begins; `None`: nowhere.
async fn calls_before(
    cell: &CellContext,
    filter: &v1::AuditFilter,
    begin: ListPosition,
    limit: usize,
) -> Result<(Vec<v1::AuditedCall>, Option<ListPosition>), Status> {
    let (mut calls, mut at, mut looked) = (Vec::new(), begin, 0);
    while at.number > 0 && looked < CHUNKS_LOOKED {
        let after = at.number.saturating_sub(CHUNKS_READ);
        let chunks = chunks_read(cell, after, at.number.saturating_sub(after)).await?;
        if chunks.first().is_none_or(|chunk| chunk.number > at.number) {
            // The rest is gone: it was too old.
            return Ok((calls, None));
        }
        for chunk in chunks.iter().rev().filter(|chunk| chunk.number <= at.number) {
            let records: Vec<AuditRecord> = chunk.records().collect();
            let from = if chunk.number == at.number { at.index.min(records.len()) } else { records.len() };
            for (index, record) in records.iter().enumerate().take(from).rev() {
                if is_long_before(record.at_ms, filter.since_ms) {
                    return Ok((calls, None));
                }
                if matches(filter, record) {
                    calls.push(call_message(record, chunk.number));
                }
                if calls.len() >= limit {
                    return Ok((calls, Some(ListPosition { number: chunk.number, index })));
                }
            }
            looked += 1;
        }
        at = ListPosition { number: after, index: usize::MAX };
    }
    Ok((calls, Some(at).filter(|at| at.number > 0)))
}

/// Clocks of gateways may differ, so calls are nearly in the order of time, and not quite.
fn is_long_before(at_ms: i64, since_ms: i64) -> bool {
    since_ms.saturating_sub(at_ms) > 3_600_000
}

fn matches(filter: &v1::AuditFilter, record: &AuditRecord) -> bool {
    let call = &record.call;
    let by = filter.by.is_empty()
        || call.by == filter.by
        || call.by.strip_prefix("user/") == Some(&filter.by)
        || call.user.as_deref() == Some(filter.by.strip_prefix("user/").unwrap_or(&filter.by))
        // As a list shows who acts in the name of somebody else.
        || filter.by.split_once(" as ").is_some_and(|(by, user)| {
            call.by == by && call.user.as_deref() == Some(user)
        });
    let method = filter.method.is_empty()
        || call.method == filter.method
        || call.method.split_once('/').is_some_and(|(_, name)| name == filter.method);
    let object = filter.object.is_empty()
        || call
            .object
            .as_deref()
            .and_then(|object| object.strip_prefix(&*filter.object))
            .is_some_and(is_whole);
    let outcome = match filter.outcome() {
        v1::AuditOutcome::Unspecified => true,
        v1::AuditOutcome::Done => call.refused.is_none(),
        v1::AuditOutcome::Refused => call.refused.is_some(),
    };
    let until = filter.until_ms == 0 || record.at_ms < filter.until_ms;
    by && method && object && outcome && until && record.at_ms >= filter.since_ms
}

/// Returns true if a part of a name ends where this rest begins.
fn is_whole(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('/')
}

fn call_message(record: &AuditRecord, chunk: u64) -> v1::AuditedCall {
    let call = record.call.clone();
    let (before, after) = call.revisions.map_or((0, 0), |revisions| (revisions.before, revisions.after));
    v1::AuditedCall {
        at_ms: record.at_ms,
        method: call.method,
        by: call.by,
        user: call.user.unwrap_or_default(),
        from: call.from.unwrap_or_default(),
        request_id: call.request.map(|request| request.to_string()).unwrap_or_default(),
        object: call.object.unwrap_or_default(),
        revision_before: before,
        revision_after: after,
        refused: call.refused.map(|refused| v1::AuditRefusal {
            code: refused.code,
            reason: refused.reason,
            times: refused.times,
        }),
        chunk,
    }
}

fn chunk_message(chunk: AuditSeal) -> v1::AuditChunk {
    v1::AuditChunk {
        number: chunk.number,
        previous: chunk.previous.0.to_vec().into(),
        hash: chunk.hash.0.to_vec().into(),
        text: chunk.body,
    }
}

#[cfg(test)]
mod tests;
