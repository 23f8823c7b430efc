//! Gateways vouch for the nodes of their sessions, each with one row of its own.
//!
//! A gateway claims a random number, and renews the row of that number with another beat each time. The epoch counts
//! the claims. A copy of the process has the same number and the same epoch. The first of the two that renews moves the
//! beat, so the other one finds a beat that it has not written. It then claims the number again, which ends the epoch
//! for both, and each vouches again for the sessions that it really holds.

use borough_kv::Transaction;
use borough_model::node::{GatewayLive, Voucher};

use crate::error::StoreResult;
use crate::keys::{self, CellSpace, GatewayLiveKey};

/// The result of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewayRenewed {
    /// The nodes that name the voucher are alive.
    Renewed,
    /// The row is gone, or has another epoch: its number belongs to nobody, or to another process.
    Deposed,
    /// Another process renews the same epoch.
    Copied,
}

/// Claims the number `gateway`, whoever had it: the epoch before is over. `beat` is random.
pub async fn gateway_live_claim(
    tx: &Transaction,
    space: &CellSpace,
    gateway: u64,
    address: &str,
    beat: u64,
) -> StoreResult<Voucher> {
    let key = GatewayLiveKey { gateway };
    let before = keys::read(tx, space, &key).await?.map_or(0, |row| row.epoch);
    let epoch = before.saturating_add(1);
    keys::write(tx, space, &key, &GatewayLive { epoch, beat, address: address.to_owned() })?;
    Ok(Voucher { gateway, epoch })
}

/// Renews the row of `voucher`. `last` is the beat of the last renewal that succeeded, and `beat` a new random one. A
/// caller that does not know what became of a renewal repeats it with the same `beat`.
pub async fn gateway_live_renew(
    tx: &Transaction,
    space: &CellSpace,
    voucher: Voucher,
    last: u64,
    beat: u64,
) -> StoreResult<GatewayRenewed> {
    let key = GatewayLiveKey { gateway: voucher.gateway };
    let row = keys::read(tx, space, &key).await?;
    let Some(row) = row.filter(|row| row.epoch == voucher.epoch) else { return Ok(GatewayRenewed::Deposed) };
    if row.beat != last && row.beat != beat {
        return Ok(GatewayRenewed::Copied);
    }
    keys::write(tx, space, &key, &GatewayLive { beat, ..row })?;
    Ok(GatewayRenewed::Renewed)
}

/// Removes the row of a gateway if it is still as `observed`: the gateway has ended, or was silent for so long that its
/// nodes are lost. If it comes back, it finds itself deposed. Returns true if the row was removed.
pub async fn gateway_live_remove(
    tx: &Transaction,
    space: &CellSpace,
    voucher: Voucher,
    beat: u64,
) -> StoreResult<bool> {
    let key = GatewayLiveKey { gateway: voucher.gateway };
    let row = keys::read(tx, space, &key).await?;
    let same = row.is_some_and(|row| (row.epoch, row.beat) == (voucher.epoch, beat));
    if same {
        keys::clear(tx, space, &key)?;
    }
    Ok(same)
}
