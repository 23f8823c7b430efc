//! Commits a batch at its version, and interprets each answer of the store.

use std::ops::Range;

use borough_kv::database::CommitAtError;
use borough_kv::{Database, ErrorCode, Idempotency, Retryable as _, Version};
use borough_store::cell::GateOpen;
use borough_store::placement::{PlacementBatch, TRANSACTION_LIFE_VERSIONS, placement_commit, placement_find};
use borough_store::{StoreError, StoreResult};
use bytes::Bytes;

/// What became of a batch.
#[derive(Debug)]
pub(crate) enum CommitOutcome {
    /// It is durable.
    Committed,
    /// Guards were overwritten, as far as known.
    Conflict(Vec<Range<Bytes>>),
    /// It did not happen, for a reason other than a conflict. Plan again.
    NotCommitted,
}

/// How to find out whether a failed commit has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    /// It certainly did not happen.
    None,
    /// Guards were overwritten.
    Conflict,
    /// It may have happened, and is no longer in flight.
    Settled,
    /// It may still happen, for as long as a transaction lasts.
    InFlight,
    /// The store cannot continue.
    Fatal,
}

fn doubt_of(code: ErrorCode) -> Doubt {
    match code {
        ErrorCode::NotCommitted => Doubt::Conflict,
        ErrorCode::TransactionTimedOut | ErrorCode::OperationCancelled | ErrorCode::TransactionCancelled => {
            Doubt::InFlight
        }
        code if code.is_maybe_committed() => Doubt::Settled,
        code if code.is_retryable_not_committed() => Doubt::None,
        _ => Doubt::Fatal,
    }
}

/// Commits `batch` at the version at which the gate was open. After an unknown result, it searches the journal until
/// the result is known. It never replays a batch.
pub(crate) async fn batch_commit(
    db: &Database,
    gate: &GateOpen,
    batch: &PlacementBatch,
) -> StoreResult<CommitOutcome> {
    let commit = db.commit_at("placement_commit", gate.version(), |tx| placement_commit(tx, gate, batch));
    let CommitAtError { error, conflicting } = match commit.await {
        Ok(_) => return Ok(CommitOutcome::Committed),
        Err(failed) => failed,
    };
    let Some(code) = error.kv_error().map(|error: &borough_kv::KvError| error.code) else {
        return Err(error);
    };
    match doubt_of(code) {
        Doubt::Conflict => Ok(CommitOutcome::Conflict(conflicting)),
        Doubt::None => Ok(CommitOutcome::NotCommitted),
        Doubt::Settled => found(db, gate, gate.version(), batch).await,
        Doubt::InFlight => {
            let after = gate.version().saturating_add(TRANSACTION_LIFE_VERSIONS);
            found(db, gate, after, batch).await
        }
        Doubt::Fatal => Err(error),
    }
}

/// Searches for the batch at a read version later than `after`; waits until there is one.
async fn found(
    db: &Database,
    gate: &GateOpen,
    after: Version,
    batch: &PlacementBatch,
) -> StoreResult<CommitOutcome> {
    loop {
        let seen = db
            .run("placement_find", Idempotency::ReadOnly, |tx, _| async move {
                let now = tx.read_version().await?;
                if now <= after {
                    return Ok(None);
                }
                let stamp =
                    placement_find(&tx, gate.space(), gate.store_epoch(), gate.version(), batch.id).await?;
                Ok::<_, StoreError>(Some(stamp))
            })
            .await?;
        match seen {
            Some(Some(_)) => return Ok(CommitOutcome::Committed),
            Some(None) => return Ok(CommitOutcome::NotCommitted),
            None => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_decided() {
        for &code in ErrorCode::ALL {
            let doubt = doubt_of(code);
            assert_eq!(code.is_maybe_committed(), doubt == Doubt::Settled, "{code:?}");
            if code.is_retryable_not_committed() {
                assert!(matches!(doubt, Doubt::None | Doubt::Conflict), "{code:?}");
            }
        }
        assert_eq!(doubt_of(ErrorCode::TransactionTimedOut), Doubt::InFlight);
        assert_eq!(doubt_of(ErrorCode::IoError), Doubt::Fatal);
    }
}
