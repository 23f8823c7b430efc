//! Reading endpoints.

use borough_kv::{Transaction, Versionstamp};
use borough_model::Name;

use super::EndpointRow;
use crate::error::StoreResult;
use crate::keys::{self, CellSpace, EndpointKey, NameRevisionKey, Prefix};

/// A page of endpoints.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct EndpointPage {
    /// Endpoints in the order of job and index.
    pub rows: Vec<EndpointRow>,
    /// The key after which the next page begins; `None` at the end.
    pub next: Option<EndpointKey>,
}

/// The endpoint of one task, if it is published.
pub async fn endpoint_get(
    tx: &Transaction,
    space: &CellSpace,
    user: &Name,
    job: &Name,
    index: u32,
) -> StoreResult<Option<EndpointRow>> {
    keys::read_snapshot(tx, space, &EndpointKey { user: user.clone(), job: job.clone(), index }).await
}

/// The endpoints of a job after a key, at most `limit`.
pub async fn endpoint_list(
    tx: &Transaction,
    space: &CellSpace,
    user: &Name,
    job: &Name,
    after: Option<EndpointKey>,
    limit: usize,
) -> StoreResult<EndpointPage> {
    endpoint_page(tx, space, &Prefix::of_two(user, job), after, limit).await
}

async fn endpoint_page(
    tx: &Transaction,
    space: &CellSpace,
    prefix: &Prefix<EndpointKey>,
    after: Option<EndpointKey>,
    limit: usize,
) -> StoreResult<EndpointPage> {
    let (rows, next) = keys::chunk_read(tx, space, prefix, after, limit).await?;
    Ok(EndpointPage { rows: rows.into_iter().map(|(_, row)| row).collect(), next })
}

/// The stamp of the last change of any endpoint of the job; zero if none ever changed.
pub async fn name_revision(
    tx: &Transaction,
    space: &CellSpace,
    user: &Name,
    job: &Name,
) -> StoreResult<Versionstamp> {
    let key = NameRevisionKey { user: user.clone(), job: job.clone() };
    let stamp = keys::read_snapshot(tx, space, &key).await?;
    Ok(stamp.map_or(Versionstamp::ZERO, |stamp| stamp.0))
}
