//! Strict serializability by replay. Concurrent transactions record what they read and wrote, and log themselves under
//! their stamp. The stamps give the order of commits. Replayed in that order,
//!
//! - every read gives the value at the read version,
//! - a value that a transaction read with a conflict is still the same just before its stamp,
//! - its read version is not before any commit that was acknowledged before it began,
//! - an acknowledged transaction is in the log under the stamp that it was given, a refused one is not, and an unknown
//!   one is one or the other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use super::cycle::{late_commits_wait, persist};
use super::{Check, Context, Wrong, ensure};
use borough_kv::contract::{
    AtomicOp, ErrorCode, Isolation, KvError, KvResult, RangeRequest, Version, Versionstamp,
};
use borough_kv::database::{Idempotency, Transaction};

const WORKERS: usize = 6;
const TURNS: usize = 50;
const KEYS: usize = 6;

/// The result of a try, as its client saw it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum TryOutcome {
    Committed(Versionstamp),
    Refused,
    Unknown,
}

/// What a try read of one key: the id of the try that wrote it.
#[derive(Debug)]
struct SeenWrite {
    key: Vec<u8>,
    isolation: Isolation,
    writer: Option<u64>,
}

/// One transaction that was tried once.
#[derive(Debug)]
struct HistoryTry {
    id: u64,
    /// The latest version acknowledged to any client before this began.
    acknowledged: Version,
    read_version: Version,
    seen: Vec<SeenWrite>,
    written: Vec<Vec<u8>>,
    outcome: TryOutcome,
}

/// State that the workers share.
struct HistoryShared {
    context: Context,
    ids: AtomicU64,
    acknowledged: AtomicI64,
}

fn id_of(value: Option<&[u8]>) -> Option<u64> {
    value.and_then(|value| value.try_into().ok()).map(u64::from_be_bytes)
}

impl HistoryShared {
    fn key(&self) -> Vec<u8> {
        self.context.key(&[b'k', self.context.below(KEYS).to_le_bytes()[0]])
    }

    /// Tries one transaction. An error before the commit is `None`: there is nothing to check.
    async fn attempt(&self) -> Option<HistoryTry> {
        let id = self.ids.fetch_add(1, Ordering::SeqCst);
        let acknowledged = self.acknowledged.load(Ordering::SeqCst);
        let transaction = self.context.begin();
        let read_version = transaction.read_version().await.ok()?;
        let (mut seen, mut written) = (Vec::new(), Vec::new());
        for _ in 0..self.context.below(4) {
            let (key, isolation) = (self.key(), self.context.isolation_any());
            // Own writes hide the database's values.
            if written.contains(&key) {
                continue;
            }
            let writer = id_of(transaction.get(&key, isolation).await.ok()?.as_deref());
            seen.push(SeenWrite { key, isolation, writer });
            tokio::task::yield_now().await;
            if self.context.once_in(2) {
                let key = self.key();
                transaction.set(&key, &id.to_be_bytes()).ok()?;
                written.push(key);
            }
        }
        let prefix = self.context.key(b"log/");
        let offset = u32::try_from(prefix.len()).unwrap_or(0).to_le_bytes();
        let log = [prefix.as_slice(), &Versionstamp::INCOMPLETE, &offset].concat();
        transaction.atomic(AtomicOp::SetVersionstampedKey, &log, &id.to_be_bytes()).ok()?;
        let outcome =
            outcome(transaction.commit().await.map(|committed| committed.stamp.unwrap_or_default()));
        if let TryOutcome::Committed(stamp) = outcome {
            self.acknowledged.fetch_max(stamp.version(), Ordering::SeqCst);
        }
        Some(HistoryTry { id, acknowledged, read_version, seen, written, outcome })
    }
}

fn outcome(result: KvResult<Versionstamp>) -> TryOutcome {
    match result {
        Ok(stamp) => TryOutcome::Committed(stamp),
        Err(KvError { code, .. }) if code.is_maybe_committed() || code == ErrorCode::TransactionTimedOut => {
            TryOutcome::Unknown
        }
        Err(_) => TryOutcome::Refused,
    }
}

/// The committed transactions, by stamp.
async fn log_read(context: &Context) -> Result<BTreeMap<u64, Versionstamp>, Wrong> {
    let prefix = context.key(b"log/");
    let read = |transaction: Transaction, _| {
        let request = RangeRequest::between(prefix.clone(), context.key(b"log0"));
        async move { Ok::<_, Wrong>(transaction.range_all(request).await?) }
    };
    let rows = persist(|| context.database.run("log", Idempotency::ReadOnly, read)).await?;
    let entry = |(key, value): (bytes::Bytes, bytes::Bytes)| {
        Some((id_of(Some(&value))?, Versionstamp::from_slice(key.get(prefix.len()..)?)?))
    };
    Ok(rows.into_iter().filter_map(entry).collect())
}

/// Compares the result of each try with the log. Returns those that were committed, in order.
fn committed(
    attempts: Vec<HistoryTry>,
    log: &BTreeMap<u64, Versionstamp>,
) -> Result<Vec<(Versionstamp, HistoryTry)>, Wrong> {
    let mut happened = Vec::new();
    for attempt in attempts {
        let logged = log.get(&attempt.id).copied();
        let agrees = match attempt.outcome {
            TryOutcome::Committed(stamp) => logged == Some(stamp),
            TryOutcome::Refused => logged.is_none(),
            TryOutcome::Unknown => true,
        };
        ensure!(agrees, "the log has {logged:?} for {attempt:?}");
        happened.extend(logged.map(|stamp| (stamp, attempt)));
    }
    happened.sort_by_key(|(stamp, _)| *stamp);
    Ok(happened)
}

fn replay(happened: &[(Versionstamp, HistoryTry)]) -> Check {
    // The writers of each key, in order.
    let mut writers: BTreeMap<&[u8], Vec<(Versionstamp, u64)>> = BTreeMap::new();
    for (stamp, attempt) in happened {
        for key in &attempt.written {
            writers.entry(key).or_default().push((*stamp, attempt.id));
        }
    }
    for (stamp, attempt) in happened {
        ensure!(
            attempt.read_version >= attempt.acknowledged && attempt.read_version < stamp.version(),
            "acknowledged, read and committed out of order at {stamp}: {attempt:?}"
        );
        for SeenWrite { key, isolation, writer } in &attempt.seen {
            let history = writers.get(key.as_slice()).map(Vec::as_slice).unwrap_or_default();
            let last = |before: &dyn Fn(Versionstamp) -> bool| {
                history.iter().rev().find(|(at, _)| before(*at)).map(|(_, id)| *id)
            };
            let at_read = last(&|at| at.version() <= attempt.read_version);
            ensure!(*writer == at_read, "{key:?} was {at_read:?} at the read version of {attempt:?}");
            let at_commit = last(&|at| at < *stamp);
            ensure!(
                *isolation == Isolation::Snapshot || *writer == at_commit,
                "{key:?} was {at_commit:?} just before {stamp}: {attempt:?}"
            );
        }
    }
    Ok(())
}

pub(super) async fn check(context: Context) -> Check {
    let shared = Arc::new(HistoryShared { context, ids: AtomicU64::new(1), acknowledged: AtomicI64::new(0) });
    let workers: Vec<_> = (0..WORKERS)
        .map(|_| {
            let shared = Arc::clone(&shared);
            tokio::spawn(async move {
                let mut attempts = Vec::new();
                for _ in 0..TURNS {
                    attempts.extend(shared.attempt().await);
                }
                attempts
            })
        })
        .collect();
    let mut attempts = Vec::new();
    for worker in workers {
        attempts.extend(worker.await.map_err(|error| Wrong::Differs(format!("a worker ended: {error}")))?);
    }
    late_commits_wait().await;
    let tried = attempts.len();
    let happened = committed(attempts, &log_read(&shared.context).await?)?;
    // An engine that refuses everything would pass otherwise, and so would one without contention.
    ensure!(happened.len() > tried / 4 && happened.len() < tried, "{} of {tried} committed", happened.len());
    replay(&happened)
}
