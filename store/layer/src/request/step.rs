//! Steps of transactions on keyed requests.

use borough_kv::Transaction;
use borough_model::RequestId;

use crate::error::{StoreError, StoreResult};
use crate::keys::{self, CellSpace, Prefix, RangeOptions, RequestExpiryKey, RequestKey};
use crate::row::{RequestExpiry, RequestRow};

/// The record of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestBegun {
    /// None: do it, and finish it in the same transaction.
    Fresh,
    /// It was done, with this answer.
    Done(Vec<u8>),
}

/// Looks up a request, with a conflict: of two requests with one id, one finds the other's result. `digest` is that of
/// the request's content; an id with other content is refused.
pub async fn request_begin(
    tx: &Transaction,
    space: &CellSpace,
    request: RequestId,
    digest: &[u8],
) -> StoreResult<RequestBegun> {
    match keys::read(tx, space, &RequestKey { id: request }).await? {
        None => Ok(RequestBegun::Fresh),
        Some(row) if row.digest == digest => Ok(RequestBegun::Done(row.result)),
        Some(_) => Err(StoreError::RequestReused { request }),
    }
}

/// Records the result of a fresh request until the wall time `expires_ms`.
pub fn request_finish(
    tx: &Transaction,
    space: &CellSpace,
    request: RequestId,
    digest: &[u8],
    result: &[u8],
    expires_ms: i64,
) -> StoreResult<()> {
    let row = RequestRow { digest: digest.to_vec(), result: result.to_vec(), expires_ms, entry: None };
    keys::write(tx, space, &RequestKey { id: request }, &row)?;
    keys::write(tx, space, &RequestExpiryKey { expires_ms, id: request }, &RequestExpiry::default())
}

/// A fresh request that is done, among others.
#[derive(Clone, Debug)]
pub struct RequestDone<'a> {
    pub request: RequestId,
    pub digest: &'a [u8],
    pub result: Vec<u8>,
}

/// Records the results of fresh requests until the wall time `expires_ms`. They share one entry of the index by time:
/// `entry` is an id that no request has.
pub fn requests_finish(
    tx: &Transaction,
    space: &CellSpace,
    entry: RequestId,
    done: Vec<RequestDone<'_>>,
    expires_ms: i64,
) -> StoreResult<()> {
    if done.is_empty() {
        return Ok(());
    }
    let mut requests = Vec::with_capacity(done.len());
    for RequestDone { request, digest, result } in done {
        let row = RequestRow { digest: digest.to_vec(), result, expires_ms, entry: Some(entry) };
        keys::write(tx, space, &RequestKey { id: request }, &row)?;
        requests.push(request);
    }
    let listed = RequestExpiry { requests: Some(requests) };
    keys::write(tx, space, &RequestExpiryKey { expires_ms, id: entry }, &listed)
}

/// The wall time at which the request that expires first may be removed. Without a conflict.
pub async fn request_oldest(tx: &Transaction, space: &CellSpace) -> StoreResult<Option<i64>> {
    let options = RangeOptions { limit: 1, ..RangeOptions::snapshot() };
    let rows = keys::range::<RequestExpiryKey>(tx, space, &Prefix::all(), options).await?;
    Ok(rows.first().map(|(key, _)| key.expires_ms))
}

/// Removes about `limit` requests that expired between the wall times `from_ms` and `now_ms`: whole entries until they
/// are as many. Returns how many; call again unless they are fewer. Processes that begin at different times do not
/// conflict.
pub async fn request_expire(
    tx: &Transaction,
    space: &CellSpace,
    from_ms: i64,
    now_ms: i64,
    limit: usize,
) -> StoreResult<usize> {
    let after = RequestExpiryKey { expires_ms: from_ms, id: RequestId(0) };
    let options = RangeOptions { limit, after: Some(after), ..RangeOptions::default() };
    let rows = keys::range::<RequestExpiryKey>(tx, space, &Prefix::all(), options).await?;
    let mut removed = 0_usize;
    for (key, listed) in rows.iter().filter(|(key, _)| key.expires_ms <= now_ms) {
        if removed >= limit {
            break;
        }
        keys::clear(tx, space, key)?;
        for id in listed.requests(key.id) {
            keys::clear(tx, space, &RequestKey { id })?;
            removed = removed.saturating_add(1);
        }
    }
    Ok(removed)
}
