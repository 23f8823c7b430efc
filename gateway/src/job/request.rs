//! A mutation of a job as one keyed transaction: repeated with its request id it has one effect and one answer.

use std::future::Future;
use std::time::Duration;

use borough_kv::{Idempotency, Transaction};
use borough_store::journal::{ChangeSet, Cursor, journal_head};
use borough_store::request::{RequestBegun, request_begin, request_finish};
use borough_store::{StoreError, StoreResult};
use minicbor::{Decode, Encode};
use prost::Message;

use crate::cell::{Caller, CellDoor};

/// How long the answer of a request is kept: longer than any client goes on trying.
const KEPT: Duration = Duration::from_secs(3_600);

/// Whether a mutation takes new work on, and so needs an open cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// New work: refused while the cell is being drained.
    New,
    /// Work that is there already.
    Existing,
}

/// Runs `closure` under the caller's request id. `asked` is what the id stands for; the same id with other content is
/// refused. Answers the closure's value, of this time or of the first.
pub async fn keyed_run<T, F, Fut>(
    door: &CellDoor,
    caller: &Caller,
    (action, admission): (&'static str, Admission),
    asked: &impl Message,
    closure: F,
) -> StoreResult<(T, Option<Cursor>)>
where
    T: Encode<()> + for<'b> Decode<'b, ()> + Send,
    F: Fn(Transaction, ChangeSet) -> Fut,
    Fut: Future<Output = StoreResult<(T, ChangeSet)>>,
{
    let change = door.change(caller, action);
    let digest = [action.as_bytes(), b"\0", asked.encode_to_vec().as_slice()].concat();
    let digest = digest_of(&digest);
    let kept = i64::try_from(KEPT.as_millis()).unwrap_or(i64::MAX);
    let expires_ms = change.at_ms.saturating_add(kept);
    let (change, space, digest, closure) = (&change, &door.space, &digest, &closure);
    let run = door.db.run_committed(action, Idempotency::Keyed(caller.request.0), |tx, _| async move {
        let changes = match admission {
            Admission::New => ChangeSet::begin_open(&tx, space, change).await?,
            Admission::Existing => ChangeSet::begin(&tx, space, change).await?,
        };
        let epoch = changes.store_epoch();
        if let RequestBegun::Done(result) = request_begin(&tx, space, change.request, digest).await? {
            let value = minicbor::decode(&result).map_err(|error| StoreError::refused(error.to_string()))?;
            // Done by an earlier attempt or call: whoever reads after this answer is to see it as well.
            return Ok((value, epoch, Some(journal_head(&tx, space).await?)));
        }
        let (value, changes) = closure(tx.clone(), changes).await?;
        let result = minicbor::to_vec(&value).map_err(|error| StoreError::refused(error.to_string()))?;
        request_finish(&tx, space, change.request, digest, &result, expires_ms)?;
        changes.append(&tx)?;
        Ok::<_, StoreError>((value, epoch, None))
    });
    let ((value, epoch, done_before), committed) = run.await?;
    let own = committed.stamp.map(|stamp| Cursor { store_epoch: epoch, stamp });
    Ok((value, done_before.or(own)))
}

/// Sixteen bytes that stand for a request's content, the same in every process and release: two passes of FNV-1a with
/// different offsets. It guards against mistakes, not against somebody who looks for collisions.
fn digest_of(bytes: &[u8]) -> Vec<u8> {
    let pass = |offset: u64| {
        bytes.iter().fold(offset, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
    };
    [pass(0xcbf2_9ce4_8422_2325).to_be_bytes(), pass(0x6c62_272e_07bb_0142).to_be_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::digest_of;

    #[test]
    fn digests_are_stable_and_differ() {
        assert_eq!(digest_of(b""), digest_of(b""));
        assert_ne!(digest_of(b"a"), digest_of(b"b"));
        assert_eq!(digest_of(b"job").len(), 16);
    }
}
