//! The keys of identities for administrators: what there is, and another one before it is due.

use borough_proto::convert::FieldRefused;
use borough_proto::v1;
use borough_store::workload::{KeyRotation, workload_keys_rotate};
use tonic::{Request, Response, Status};

use crate::cell::{Asked, CellContext, Cells, KeyedRequest, keyed_run};
use crate::status::{status_from_field, status_from_store, status_unavailable};
use crate::workload::{Keyring, key_new};

/// The longest time for which a key is published before it signs: 7 days.
const AHEAD_MS_MAX: i64 = 7 * 86_400_000;

/// Lists the public halves of the keys of a cell.
pub(crate) async fn identity_keys_list(
    cells: &Cells,
    request: Request<v1::ListIdentityKeysRequest>,
) -> Result<Response<v1::ListIdentityKeysResponse>, Status> {
    let Asked { cell, .. } = cells.admit_read(request)?;
    Ok(Response::new(v1::ListIdentityKeysResponse { keys: keys_now(cell).await? }))
}

/// Makes another key.
pub(crate) async fn identity_keys_rotate(
    cells: &Cells,
    request: Request<v1::RotateIdentityKeysRequest>,
) -> Result<Response<v1::RotateIdentityKeysResponse>, Status> {
    let (cell, caller, message) = cells.admit_change(request)?;
    let rotation = rotation_of(&message)?;
    let new = key_new().map_err(|problem| {
        tracing::error!(cell = %cell.name, problem, "no key of identities can be made");
        status_unavailable("IDENTITY_KEYS_ABSENT", "no key can be made; the gateway's log says why")
    })?;
    let (keyed, new) = (KeyedRequest::new(&caller, "identity_keys_rotate", &message).beyond_changes(), &new);
    let rotated = keyed_run(cell, &keyed, |tx, changes| async move {
        Ok((workload_keys_rotate(&tx, &changes, new, rotation).await?, changes))
    });
    let (number, _) = rotated.await.map_err(|error| status_from_store(&error))?;
    tracing::info!(cell = %cell.name, number, ?rotation, "the keys of identities are rotated");
    Ok(Response::new(v1::RotateIdentityKeysResponse { keys: keys_now(cell).await? }))
}

fn rotation_of(message: &v1::RotateIdentityKeysRequest) -> Result<KeyRotation, Status> {
    let given = message.ahead_ms.to_string();
    let refused = |accepted| Err(status_from_field(&FieldRefused::new("ahead_ms", &given, accepted)));
    match i64::try_from(message.ahead_ms) {
        Ok(0) if message.withdraw => Ok(KeyRotation::Withdraw),
        _ if message.withdraw => refused("0, if the keys before are withdrawn"),
        Ok(ahead_ms) if ahead_ms <= AHEAD_MS_MAX => Ok(KeyRotation::Ahead(ahead_ms)),
        _ => refused("0 to 604800000"),
    }
}

/// The keys as the store has them now.
async fn keys_now(cell: &CellContext) -> Result<Vec<v1::IdentityKey>, Status> {
    let later =
        || status_unavailable("IDENTITY_KEYS_ABSENT", "the keys of the cell cannot be read now; try again");
    cell.workload.keys.forget();
    let ring = cell.workload.keys.ring().await.map_err(|_| later())?;
    Ok(messages_of(&ring, cell.clock.wall_ms()))
}

fn messages_of(ring: &Keyring, now_ms: i64) -> Vec<v1::IdentityKey> {
    let signing = ring.keys().signing(now_ms);
    let message = |(&number, id, signs_from_ms): (&u64, String, i64)| {
        let is_later = signing.is_some_and(|signing| number > signing) && signs_from_ms > now_ms;
        let key_use = if signing == Some(number) {
            v1::IdentityKeyUse::Signs
        } else if is_later {
            v1::IdentityKeyUse::Next
        } else {
            v1::IdentityKeyUse::Checks
        };
        v1::IdentityKey { number, id, signs_from_ms, r#use: key_use.into() }
    };
    ring.published().map(message).collect()
}

#[cfg(test)]
mod tests {
    use borough_store::workload::WorkloadKeys;

    use super::*;

    #[test]
    fn a_key_says_what_it_does() {
        let mut keys = WorkloadKeys::default();
        for (number, signs_from_ms) in [(1, 0), (2, 10), (3, 20)] {
            let new = key_new().unwrap();
            let key = borough_store::workload::WorkloadKey { jwk: new.jwk, signs_from_ms };
            keys.published.insert(number, key);
            keys.signers.insert(number, new.signer);
        }
        let ring = Keyring::of(keys).unwrap();
        let uses = |now_ms| {
            let messages = messages_of(&ring, now_ms);
            assert!(messages.iter().all(|key| !key.id.is_empty()), "{messages:?}");
            messages.into_iter().map(|key| key.r#use()).collect::<Vec<_>>()
        };
        use v1::IdentityKeyUse::{Checks, Next, Signs};
        assert_eq!(uses(15), [Checks, Signs, Next]);
        assert_eq!(uses(20), [Checks, Checks, Signs]);
    }

    #[test]
    fn a_withdrawal_signs_at_once() {
        let of = |ahead_ms, withdraw| {
            let message = v1::RotateIdentityKeysRequest { ahead_ms, withdraw, ..Default::default() };
            rotation_of(&message).ok()
        };
        assert_eq!(of(0, true), Some(KeyRotation::Withdraw));
        assert_eq!(of(1, true), None);
        assert_eq!(of(5, false), Some(KeyRotation::Ahead(5)));
        assert_eq!(of(u64::MAX, false), None);
    }
}
