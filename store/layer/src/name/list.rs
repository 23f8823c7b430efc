//! Reading endpoints.

use borough_kv::Transaction;
use borough_model::Name;

use super::EndpointRow;
use crate::error::StoreResult;
use crate::keys::{self, CellSpace, EndpointKey, Prefix};

/// A page of endpoints.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct EndpointPage {
    /// Endpoints in the order of job and index.
    pub rows: Vec<EndpointRow>,
    /// The key after which the next page begins; `None` at the end.
    pub next: Option<EndpointKey>,
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
    let (rows, next) = keys::chunk_read(tx, space, &Prefix::of_two(user, job), after, limit).await?;
    Ok(EndpointPage { rows: rows.into_iter().map(|(_, row)| row).collect(), next })
}
