//! The keys of a cell in the memory of a gateway. It reads them again every minute, and makes what is due.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use borough_kv::Idempotency;
use borough_store::workload::{
    NewWorkloadKey, WorkloadKeys, WorkloadSigner, workload_keys_read, workload_keys_renew,
};
use borough_store::{StoreError, StoreResult, error_chain};
use jsonwebtoken::jwk::{Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, EncodingKey};
use parking_lot::RwLock;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use tokio::sync::Mutex;

use crate::auth::public_jwk;
use crate::cell::CellContext;

/// The algorithm of the keys.
pub(super) const ALGORITHM: Algorithm = Algorithm::ES256;
/// How long keys count as they were read. A new one is published long before it signs.
const LOOK: Duration = Duration::from_secs(60);
/// How long a failed look counts, so that questions without a token cannot burden a store in trouble.
const AGAIN: Duration = Duration::from_secs(1);

/// The keys as last read.
#[derive(Default)]
pub(crate) struct KeyringMirror {
    known: RwLock<Option<Look>>,
    /// Held by the one that reads the store.
    turn: Mutex<()>,
}

impl std::fmt::Debug for KeyringMirror {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyringMirror(..)")
    }
}

/// The result of a look at the store.
#[derive(Clone)]
struct Look {
    /// When it was (monotonic).
    at: Duration,
    /// How long it counts.
    lasts: Duration,
    /// Absent: the store did not answer, and nothing was known before.
    ring: Option<Arc<Keyring>>,
}

/// No keys: the store does not answer. Try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the keys of the cell cannot be read now; try again")]
pub(super) struct KeysAbsent;

/// The keys of a cell, ready to sign.
pub(super) struct Keyring {
    keys: WorkloadKeys,
    /// The public keys as they are published.
    pub(super) jwks: String,
    signers: BTreeMap<u64, SigningKey>,
}

/// A key that signs, with its name.
#[derive(Clone)]
pub(super) struct SigningKey {
    pub(super) id: String,
    pub(super) key: EncodingKey,
}

impl Keyring {
    pub(super) fn of(keys: WorkloadKeys) -> Result<Self, serde_json::Error> {
        let (mut published, mut signers) = (Vec::new(), BTreeMap::new());
        for (number, row) in &keys.published {
            let jwk: Jwk = serde_json::from_str(&row.jwk)?;
            let id = jwk.common.key_id.clone().unwrap_or_default();
            if let Some(signer) = keys.signers.get(number) {
                let key = EncodingKey::from_ec_der(&signer.secret);
                signers.insert(*number, SigningKey { id, key });
            }
            published.push(jwk);
        }
        let jwks = serde_json::to_string(&JwkSet { keys: published })?;
        Ok(Self { keys, jwks, signers })
    }

    /// The key that signs at `now_ms`.
    pub(super) fn signing(&self, now_ms: i64) -> Option<&SigningKey> {
        self.signers.get(&self.keys.signing(now_ms)?)
    }
}

/// A new pair of keys, from the operating system's generator.
pub(super) fn key_new() -> Result<NewWorkloadKey, String> {
    let failed = |error: &dyn std::fmt::Display| format!("no key can be made: {error}");
    let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|error| failed(&error))?;
    let secret = pair.serialize_der();
    let mut jwk = public_jwk(&EncodingKey::from_ec_der(&secret)).map_err(|error| failed(&error))?;
    jwk.common.public_key_use = Some(PublicKeyUse::Signature);
    let jwk = serde_json::to_string(&jwk).map_err(|error| failed(&error))?;
    Ok(NewWorkloadKey { jwk, signer: WorkloadSigner { secret } })
}

/// The keys of a cell. The first call makes the first key.
pub(super) async fn keyring(cell: &CellContext) -> Result<Arc<Keyring>, KeysAbsent> {
    let mirror = &cell.workload.keys;
    if let Some(known) = fresh(mirror, cell.machine.monotonic()) {
        return known;
    }
    let _turn = mirror.turn.lock().await;
    let now = cell.machine.monotonic();
    if let Some(known) = fresh(mirror, now) {
        return known;
    }
    let before = mirror.known.read().as_ref().and_then(|known| known.ring.clone());
    let look = match read(cell).await {
        Ok(ring) => Look { at: now, lasts: LOOK, ring: Some(Arc::new(ring)) },
        Err(problem) => {
            tracing::warn!(cell = %cell.name, problem, "the keys of the cell's identities cannot be read");
            Look { at: now, lasts: AGAIN, ring: before }
        }
    };
    let ring = look.ring.clone();
    *mirror.known.write() = Some(look);
    ring.ok_or(KeysAbsent)
}

fn fresh(mirror: &KeyringMirror, now: Duration) -> Option<Result<Arc<Keyring>, KeysAbsent>> {
    let known = mirror.known.read().clone()?;
    (now.saturating_sub(known.at) < known.lasts).then(|| known.ring.ok_or(KeysAbsent))
}

async fn read(cell: &CellContext) -> Result<Keyring, String> {
    let keys = keys_due(cell).await.map_err(|error| error_chain(&error))?;
    let keys = match keys {
        KeysLook::Settled(keys) => keys,
        KeysLook::Due => {
            let new = key_new()?;
            keys_renew(cell, &new).await.map_err(|error| error_chain(&error))?
        }
    };
    // Its error may show a part of the text, which is a public key.
    Keyring::of(keys).map_err(|error| format!("a key in the store is damaged: {error}"))
}

/// The keys, or that something is due for them.
enum KeysLook {
    Settled(WorkloadKeys),
    Due,
}

async fn keys_due(cell: &CellContext) -> StoreResult<KeysLook> {
    let space = &cell.space;
    let read = cell.db.run("workload_keys_read", Idempotency::ReadOnly, |tx, _| async move {
        workload_keys_read(&tx, space).await
    });
    let keys = read.await?;
    let settled = keys.step(cell.clock.wall_ms()).is_nothing();
    Ok(if settled { KeysLook::Settled(keys) } else { KeysLook::Due })
}

async fn keys_renew(cell: &CellContext, new: &NewWorkloadKey) -> StoreResult<WorkloadKeys> {
    let (space, now_ms) = (&cell.space, cell.clock.wall_ms());
    let renewed = cell.db.run("workload_keys_renew", Idempotency::Natural, |tx, _| async move {
        Ok::<_, StoreError>(workload_keys_renew(&tx, space, new, now_ms).await?)
    });
    renewed.await
}
