//! The keys of a cell in the memory of a gateway. It reads them again every few seconds, and makes what is due.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use borough_kv::env::Clock;
use borough_kv::{Database, Idempotency};
use borough_store::workload::{
    NewWorkloadKey, WorkloadKeys, WorkloadSigner, workload_keys_read, workload_keys_renew,
};
use borough_store::{CellSpace, StoreResult, error_chain};
use jsonwebtoken::jwk::{Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, EncodingKey};
use parking_lot::RwLock;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use tokio::sync::Mutex;

use crate::auth::public_jwk;

/// The algorithm of the keys.
pub(crate) const ALGORITHM: Algorithm = Algorithm::ES256;
/// How long keys count as they were read: one that is withdrawn signs no longer than that, at any gateway.
const LOOK: Duration = Duration::from_secs(5);
/// How long a failed look counts, so that questions without a token cannot burden a store in trouble.
const AGAIN: Duration = Duration::from_secs(1);

/// Where the keys of a cell are.
#[derive(Clone)]
pub(crate) struct WorkloadStore {
    pub(crate) db: Database,
    pub(crate) space: CellSpace,
    /// The cell's time.
    pub(crate) clock: Arc<dyn Clock>,
    /// The clock of this process.
    pub(crate) machine: Arc<dyn Clock>,
}

/// The keys as last read.
pub(crate) struct KeyringMirror {
    store: WorkloadStore,
    known: RwLock<Option<KeyringLook>>,
    /// Held by the one that reads the store.
    turn: Mutex<()>,
}

/// The result of a look at the store.
#[derive(Clone)]
struct KeyringLook {
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
pub(crate) struct KeysAbsent;

/// The keys of a cell, ready to sign.
pub(crate) struct Keyring {
    keys: WorkloadKeys,
    /// The public keys as they are published.
    pub(crate) jwks: String,
    signers: BTreeMap<u64, SigningKey>,
}

/// A key that signs, with its name.
#[derive(Clone)]
pub(crate) struct SigningKey {
    pub(crate) id: String,
    pub(crate) key: EncodingKey,
}

impl Keyring {
    pub(crate) fn of(keys: WorkloadKeys) -> Result<Self, serde_json::Error> {
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

    pub(crate) fn keys(&self) -> &WorkloadKeys {
        &self.keys
    }

    /// The number of each published key, its name, and when it signs.
    pub(crate) fn published(&self) -> impl Iterator<Item = (&u64, String, i64)> {
        let name = |jwk: &str| serde_json::from_str::<Jwk>(jwk).ok().and_then(|jwk| jwk.common.key_id);
        self.keys
            .published
            .iter()
            .map(move |(number, row)| (number, name(&row.jwk).unwrap_or_default(), row.signs_from_ms))
    }

    /// The key that signs at `now_ms`.
    pub(crate) fn signing(&self, now_ms: i64) -> Option<&SigningKey> {
        self.signers.get(&self.keys.signing(now_ms)?)
    }
}

/// A new pair of keys, from the operating system's generator.
pub(crate) fn key_new() -> Result<NewWorkloadKey, String> {
    let failed = |error: &dyn std::fmt::Display| format!("no key can be made: {error}");
    let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|error| failed(&error))?;
    let secret = pair.serialize_der();
    let mut jwk = public_jwk(&EncodingKey::from_ec_der(&secret)).map_err(|error| failed(&error))?;
    jwk.common.public_key_use = Some(PublicKeyUse::Signature);
    let jwk = serde_json::to_string(&jwk).map_err(|error| failed(&error))?;
    Ok(NewWorkloadKey { jwk, signer: WorkloadSigner { secret } })
}

impl KeyringMirror {
    /// The keys of `store`, of which none is read yet.
    pub(crate) fn new(store: WorkloadStore) -> Self {
        Self { store, known: RwLock::default(), turn: Mutex::default() }
    }

    /// The keys of the cell. The first call makes the first key.
    pub(crate) async fn ring(&self) -> Result<Arc<Keyring>, KeysAbsent> {
        if let Some(known) = self.fresh() {
            return known;
        }
        let _turn = self.turn.lock().await;
        if let Some(known) = self.fresh() {
            return known;
        }
        let before = self.known.read().as_ref().and_then(|known| known.ring.clone());
        let at = self.store.machine.monotonic();
        let look = match self.store.read().await {
            Ok(ring) => KeyringLook { at, lasts: LOOK, ring: Some(Arc::new(ring)) },
            Err(problem) => {
                tracing::warn!(cell = %self.store.space, problem, "the keys of the cell's identities cannot be read");
                KeyringLook { at, lasts: AGAIN, ring: before }
            }
        };
        let ring = look.ring.clone();
        *self.known.write() = Some(look);
        ring.ok_or(KeysAbsent)
    }

    /// Reads them again for the next one that asks. What is known stays, in case the store does not answer.
    pub(crate) fn forget(&self) {
        if let Some(look) = self.known.write().as_mut() {
            look.lasts = Duration::ZERO;
        }
    }

    /// What was read so lately that it counts.
    fn fresh(&self) -> Option<Result<Arc<Keyring>, KeysAbsent>> {
        let known = self.known.read().clone()?;
        let age = self.store.machine.monotonic().saturating_sub(known.at);
        (age < known.lasts).then(|| known.ring.ok_or(KeysAbsent))
    }
}

impl WorkloadStore {
    async fn read(&self) -> Result<Keyring, String> {
        let keys = match self.keys_settled().await.map_err(|error| error_chain(&error))? {
            Some(keys) => keys,
            None => {
                let new = key_new()?;
                self.keys_renew(&new).await.map_err(|error| error_chain(&error))?
            }
        };
        // Its error may show a part of the text, which is a public key.
        Keyring::of(keys).map_err(|error| format!("a key in the store is damaged: {error}"))
    }

    /// The keys, unless something is due for them.
    async fn keys_settled(&self) -> StoreResult<Option<WorkloadKeys>> {
        let space = &self.space;
        let read = self.db.run("workload_keys_read", Idempotency::ReadOnly, |tx, _| async move {
            workload_keys_read(&tx, space).await
        });
        let keys = read.await?;
        let now_ms = self.clock.wall_ms();
        Ok(Some(keys).filter(|keys| keys.step(now_ms).is_nothing()))
    }

    async fn keys_renew(&self, new: &NewWorkloadKey) -> StoreResult<WorkloadKeys> {
        let (space, now_ms) = (&self.space, self.clock.wall_ms());
        let renewed = self.db.run("workload_keys_renew", Idempotency::Natural, |tx, _| async move {
            workload_keys_renew(&tx, space, new, now_ms).await
        });
        renewed.await
    }
}
