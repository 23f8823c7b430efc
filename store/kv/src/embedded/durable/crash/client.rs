//! The clients of a simulated store: transactions of all sizes, several of them in one batch.

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::model::{ExpectedRows, Fate, Model};
use crate::contract::{
    AtomicOp, Committed, Engine as _, EngineTransaction, ErrorCode, Isolation, KvResult, RangeRequest,
    TransactionOption, Version, Versionstamp,
};
use crate::embedded::EmbeddedEngine;

/// Keys that transactions contend for.
const SHARED_KEYS: u8 = 40;

#[expect(clippy::disallowed_methods, reason = "batches are put together by hand, without the runner")]
fn begin(engine: &EmbeddedEngine) -> Box<dyn EngineTransaction> {
    engine.begin()
}

/// The value of a future of the engine that never waits.
fn now<T>(future: impl Future<Output = KvResult<T>>) -> KvResult<T> {
    future.now_or_never().expect("the engine answers at once")
}

/// All rows, and the version they were read at.
pub(super) fn rows_read(engine: &EmbeddedEngine) -> KvResult<(Version, ExpectedRows)> {
    let transaction = begin(engine);
    let version = now(transaction.read_version())?;
    let mut rows = ExpectedRows::new();
    let mut from = Bytes::new();
    loop {
        let batch = now(transaction.get_range(&RangeRequest::between(from.clone(), vec![0xff])))?;
        rows.extend(batch.rows.iter().cloned());
        match batch.rows.last() {
            Some((last, _)) if batch.more => from = crate::database::key_after(last).into(),
            _ => return Ok((version, rows)),
        }
    }
}

/// Sets one row in a batch of its own.
pub(super) fn row_put(engine: &EmbeddedEngine, key: &[u8], value: &[u8]) -> KvResult<()> {
    row_put_with(engine, key, value, &[])
}

/// Sets one row in a batch of its own, with these options.
pub(super) fn row_put_with(
    engine: &EmbeddedEngine,
    key: &[u8],
    value: &[u8],
    options: &[TransactionOption],
) -> KvResult<()> {
    let transaction = begin(engine);
    options.iter().try_for_each(|option| transaction.set_option(option.clone()))?;
    transaction.set(key, value)?;
    let mut commit = transaction.commit();
    let early = (&mut commit).now_or_never();
    engine.step();
    early.unwrap_or_else(|| now(commit)).map(drop)
}

fn shared_key(rng: &mut ChaCha8Rng) -> Vec<u8> {
    vec![b's', rng.random_range(0..SHARED_KEYS)]
}

fn value(rng: &mut ChaCha8Rng) -> Vec<u8> {
    let bytes = match rng.random_range(0..20) {
        0 => rng.random_range(2000..9000),
        1..4 => rng.random_range(200..800),
        _ => rng.random_range(0..60),
    };
    // Many values look alike, so that the rest of an old one could pass for a new one.
    vec![rng.random_range(0..4); bytes]
}

fn write(transaction: &dyn EngineTransaction, rng: &mut ChaCha8Rng) -> KvResult<()> {
    match rng.random_range(0..20) {
        0..12 => transaction.set(&shared_key(rng), &value(rng)),
        12..14 => transaction.clear(&shared_key(rng)),
        14..15 => {
            let (one, other) = (shared_key(rng), shared_key(rng));
            transaction.clear_range(one.as_slice().min(&other), one.as_slice().max(&other))
        }
        15..17 => transaction.atomic(AtomicOp::Add, b"total", &[1]),
        17..18 => transaction.atomic(AtomicOp::AppendIfFits, &shared_key(rng), &value(rng)),
        18..19 => {
            let key = [b"j".as_slice(), &Versionstamp::INCOMPLETE, &1_u32.to_le_bytes()].concat();
            transaction.atomic(AtomicOp::SetVersionstampedKey, &key, &value(rng))
        }
        // Old entries of the journal go.
        _ => transaction.clear_range(b"j", b"k"),
    }
}

/// A transaction with a row of its own, ready to be committed.
fn prepare(
    engine: &EmbeddedEngine,
    rng: &mut ChaCha8Rng,
    number: u64,
) -> KvResult<(Bytes, Box<dyn EngineTransaction>)> {
    let transaction = begin(engine);
    let own = Bytes::from([b"own/".as_slice(), &number.to_be_bytes()].concat());
    if rng.random_bool(0.3) {
        now(transaction.get(&shared_key(rng), Isolation::Serializable))?;
    }
    transaction.set(&own, &number.to_le_bytes())?;
    let writes = if rng.random_range(0..10) == 0 { 30 } else { rng.random_range(0..5) };
    for _ in 0..writes {
        write(transaction.as_ref(), rng)?;
    }
    Ok((own, transaction))
}

/// Commits up to eight transactions as one batch, and records the result of each in the model. Returns false once the
/// engine has stopped.
pub(super) fn batch_run(
    engine: &EmbeddedEngine,
    rng: &mut ChaCha8Rng,
    model: &mut Model,
    codes: &mut Vec<Option<ErrorCode>>,
) -> bool {
    let count = if rng.random_bool(0.5) { 1 } else { rng.random_range(2..8) };
    let prepared: KvResult<Vec<_>> = (0..count).map(|_| prepare(engine, rng, rng.clone().random())).collect();
    let Ok(prepared) = prepared else { return false };
    // One that must be flushed has the batch flushed. Of a generator of its own: what a seed does otherwise stays.
    let mut of_flushes = ChaCha8Rng::seed_from_u64(!rng.clone().random::<u64>());
    let later = model.flushes_later && of_flushes.random_bool(0.5);
    if later {
        for (_, transaction) in &prepared {
            transaction.set_option(TransactionOption::FlushLater).expect("an open transaction");
        }
    }
    let mut commits: Vec<(&Bytes, BoxFuture<'_, KvResult<Committed>>)> =
        prepared.iter().map(|(own, transaction)| (own, transaction.commit())).collect();
    // The first poll queues each of them; the step answers all. A stopped engine answers at once.
    let early: Vec<_> = commits.iter_mut().map(|(_, commit)| commit.now_or_never()).collect();
    engine.step();
    let mut runs = true;
    for ((own, commit), early) in commits.iter_mut().zip(early) {
        let outcome = early.unwrap_or_else(|| now(commit));
        codes.push(outcome.as_ref().err().map(|error| error.code));
        let fate = match outcome {
            Ok(committed) => {
                model.version_seen(committed.version.unwrap_or_default());
                if later { Fate::Unflushed } else { Fate::Committed }
            }
            Err(error) => match error.code {
                ErrorCode::NotCommitted | ErrorCode::NoSpace | ErrorCode::TransactionTooOld => Fate::Refused,
                ErrorCode::CommitUnknownResult => Fate::Open,
                ErrorCode::IoError => Fate::Refused,
                code => panic!("a commit ended with {code:?}"),
            },
        };
        runs &= !matches!(fate, Fate::Open) && codes.last() != Some(&Some(ErrorCode::IoError));
        model.fate_set((*own).clone(), fate);
    }
    runs
}
