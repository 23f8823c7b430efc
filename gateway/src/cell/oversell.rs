//! What the quotas of a cell may grant together, against the capacity of its nodes.

use std::ops::Bound;

use borough_kv::Idempotency;
use borough_model::Resources;
use borough_model::node::NodeState;
use borough_model::quota::OversellFactors;
use borough_model::resource::resources_add;
use borough_proto::bounds::{OVERSELL_BATCH, OVERSELL_PRODUCTION};
use borough_proto::convert::FieldRefused;
use borough_proto::v1;
use borough_store::quota::{PoolGrants, pool_grants};
use tonic::Status;

use super::context::CellContext;
use crate::status::status_from_store;

/// Nodes that are looked at under one hold of the lock.
const PART_NODES: usize = 1_024;

/// The factors that a request names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OversellChange {
    production: Option<u32>,
    /// 0: any amount.
    batch: Option<u32>,
}

impl OversellChange {
    pub(super) fn of(settings: &v1::CellSettings) -> Self {
        Self { production: settings.oversell_production, batch: settings.oversell_batch }
    }

    pub(super) fn checked(&self) -> Result<(), FieldRefused> {
        let factors = [
            ("oversell_production", self.production, OVERSELL_PRODUCTION, ""),
            ("oversell_batch", self.batch, OVERSELL_BATCH, "; 0 is any amount"),
        ];
        for (field, value, within, zero) in factors {
            let Some(value) = value.filter(|value| !within.contains(value)) else { continue };
            let accepted = format!("{} to {} percent{zero}", within.start(), within.end());
            return Err(FieldRefused::new(field, value.to_string(), &accepted));
        }
        Ok(())
    }

    /// The factors after the change; `None`: it names none.
    pub(super) fn made(&self, before: OversellFactors) -> Option<OversellFactors> {
        let batch = self.batch.map(|percent| Some(percent).filter(|percent| *percent > 0));
        (self.production.is_some() || self.batch.is_some()).then(|| OversellFactors {
            production_percent: self.production.or(before.production_percent),
            batch_percent: batch.unwrap_or(before.batch_percent),
        })
    }

    /// The capacity that a change of factors is checked against.
    pub(super) async fn capacity(&self, cell: &CellContext) -> Result<Option<Resources>, Status> {
        match self.made(OversellFactors::default()) {
            Some(_) => capacity_ready(cell).await,
            None => Ok(None),
        }
    }
}

/// The sum over the nodes that are ready, as the mirror knows them; `None`: the cell has no node at all, so nobody
/// knows yet what it will have. Fails until the mirror has listed the cell.
pub(crate) async fn capacity_ready(cell: &CellContext) -> Result<Option<Resources>, Status> {
    let (mut sum, mut after, mut nodes) = (Resources::default(), Bound::Unbounded, 0_usize);
    loop {
        let part: Vec<_> = cell.state(|state| {
            let rows = state.nodes().range((after, Bound::Unbounded)).take(PART_NODES);
            rows.map(|(id, row)| (*id, row.clone())).collect()
        })?;
        let Some((last, _)) = part.last() else { break };
        (after, nodes) = (Bound::Excluded(*last), nodes.saturating_add(part.len()));
        for (_, row) in part.iter().filter(|(_, row)| row.state == NodeState::Ready) {
            // More than can be counted is enough.
            sum = resources_add(&sum, &row.capacity).unwrap_or(sum);
        }
        tokio::task::yield_now().await;
    }
    Ok((nodes > 0).then_some(sum))
}

/// What the quotas of a cell grant together.
#[derive(Clone, Debug)]
pub(crate) struct CellGrants {
    pub(crate) pools: Vec<PoolGrants>,
    pub(crate) capacity: Resources,
}

impl CellGrants {
    /// Reads them without conflicts.
    pub(crate) async fn read(cell: &CellContext) -> Result<Self, Status> {
        let capacity = capacity_ready(cell).await?;
        Self::read_against(cell, capacity).await
    }

    /// As [`Self::read`], for who has visited the nodes already ([`capacity_ready`]).
    pub(super) async fn read_against(
        cell: &CellContext,
        capacity: Option<Resources>,
    ) -> Result<Self, Status> {
        let (space, now_ms, known) = (&cell.space, cell.clock.wall_ms(), capacity.as_ref());
        let read = cell.db.run("quota_grants", Idempotency::ReadOnly, |tx, _| async move {
            pool_grants(&tx, space, known, now_ms).await
        });
        let pools = read.await.map_err(|error| status_from_store(&error))?;
        Ok(Self { pools, capacity: capacity.unwrap_or_default() })
    }

    /// A warning for each pool that grants too much.
    pub(super) fn warnings(&self) -> Vec<String> {
        let exceeded = self.pools.iter().filter(|grants| !grants.excess.is_empty());
        let text = |grants: &PoolGrants| {
            let excess: Vec<String> = grants.excess.iter().map(ToString::to_string).collect();
            format!(
                "the quotas of {} grant more than the cell has: {}; make them smaller, or add nodes",
                grants.pool,
                excess.join("; ")
            )
        };
        exceeded.map(text).collect()
    }
}
