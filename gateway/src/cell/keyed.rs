//! Runs a mutation as one keyed transaction: repeated with its request id, it has one effect and one answer.

use std::collections::BTreeSet;
use std::future::Future;

use borough_kv::{Idempotency, Transaction, TransactionOption};
use borough_model::RequestId;
use borough_model::audit::AuditedCall;
use borough_store::journal::{Change, ChangeSet, Cursor, journal_head};
use borough_store::request::{RequestBegun, RequestDone, request_begin, request_finish, requests_finish};
use borough_store::{StoreError, StoreResult};
use futures::future::try_join_all;
use minicbor::{Decode, Encode};
use prost::Message;
use sha2::{Digest as _, Sha256};

use tonic::Status;

use super::context::{Caller, CellContext};
use super::dry_run::DryRunOutcome;
use crate::status::status_from_store;

/// Whether a mutation needs an open cell, since it adds work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    /// New work. A cell that is being drained refuses it.
    New,
    /// Work that the cell already has.
    Existing,
}

/// How often the store may refuse several mutations together before the caller gets the error, and tries fewer.
const RETRIES_TOGETHER: i64 = 3;

/// A mutation under its caller's request id. The same id with other content is refused.
pub struct KeyedRequest {
    caller: Caller,
    action: &'static str,
    admission: Admission,
    /// Whether it changes more than its set of changes says.
    acts: bool,
    /// Stands for the content.
    digest: Vec<u8>,
}

impl KeyedRequest {
    /// A mutation of what the cell has. `asked` is its content, and `action` names its transaction.
    pub fn new(caller: &Caller, action: &'static str, asked: &impl Message) -> Self {
        let digest = digest_of_request(action, asked);
        Self { caller: caller.clone(), action, admission: Admission::Existing, acts: false, digest }
    }

    /// The same request, for new work.
    pub fn of_new_work(self) -> Self {
        Self { admission: Admission::New, ..self }
    }

    /// The same request, which always changes more than its set of changes says: an agent carries it out, or no delta
    /// shows its rows.
    pub fn beyond_changes(self) -> Self {
        Self { acts: true, ..self }
    }

    /// The request's id.
    pub fn request(&self) -> RequestId {
        self.caller.request
    }

    /// Whether both may be part of one entry of the journal.
    fn shares_with(&self, other: &Self) -> bool {
        self.caller.user == other.caller.user
            && self.action == other.action
            && self.admission == other.admission
    }
}

/// Runs `closure` under the request's id and returns its value, of this run or of the first.
///
/// The record of the request is read before anything else, also before the cell's gate. A completed request therefore
/// keeps its answer even when the cell no longer accepts such requests.
pub async fn keyed_run<T, F, Fut>(
    cell: &CellContext,
    request: &KeyedRequest,
    closure: F,
) -> StoreResult<(T, Option<Cursor>)>
where
    T: Encode<()> + for<'b> Decode<'b, ()> + Send,
    F: Fn(Transaction, ChangeSet) -> Fut,
    Fut: Future<Output = StoreResult<(T, ChangeSet)>>,
{
    let &KeyedRequest { ref caller, action, admission, acts, ref digest } = request;
    let change = cell.change(caller, action);
    let expires_ms = cell.requests_expire_ms(change.at_ms, 1);
    let (change, space, closure) = (&change, &cell.space, &closure);
    let run = cell.db.run_committed(action, Idempotency::Keyed(caller.request.0), |tx, _| async move {
        if let RequestBegun::Done(result) = request_begin(&tx, space, change.request, digest).await? {
            let value = minicbor::decode(&result).map_err(|error| StoreError::refused(error.to_string()))?;
            return Ok((value, None));
        }
        let mut changes = match admission {
            Admission::New => ChangeSet::begin_open(&tx, space, change).await?,
            Admission::Existing => ChangeSet::begin(&tx, space, change).await?,
        };
        if let Some(call) = &caller.call {
            changes.call_push(AuditedCall::clone(call));
        }
        let (value, changes) = closure(tx.clone(), changes).await?;
        if let Some(mark) = &caller.dry_run {
            let object = caller.call.as_ref().and_then(|call| call.object.clone());
            let outcome = DryRunOutcome {
                cell: cell.name.clone(),
                action,
                object: object.unwrap_or_default(),
                changes: acts || changes.has_effect(),
                deltas: changes.deltas().to_vec(),
                values: changes.values().to_vec(),
            };
            return Err(mark.finish(outcome));
        }
        let result = minicbor::to_vec(&value).map_err(|error| StoreError::refused(error.to_string()))?;
        request_finish(&tx, space, change.request, digest, &result, expires_ms)?;
        let epoch = Some(changes.store_epoch()).filter(|_| changes.has_entry());
        changes.append(&tx)?;
        Ok::<_, StoreError>((value, epoch))
    });
    let ((value, epoch), committed) = run.await?;
    let own = committed.stamp.zip(epoch).map(|(stamp, store_epoch)| Cursor { store_epoch, stamp });
    if own.is_some() {
        return Ok((value, own));
    }
    // The transaction wrote no entry: it was done before, or changed nothing. A read after the answer must see what it
    // found.
    let head = cell
        .db
        .run("journal_head", Idempotency::ReadOnly, |tx, _| async move { journal_head(&tx, space).await });
    Ok((value, Some(head.await?)))
}

/// The results of mutations that shared a transaction, and a position at or after them.
pub type KeyedTogether<T> = (Vec<Option<T>>, Option<Cursor>);

/// Runs mutations of one caller as one transaction, called `run`, each under its own request id. `closure` gets the
/// positions of the mutations that are not recorded as done, and returns a value for each that it did.
///
/// Returns a value for each mutation that was done. Run every other one by itself with [`keyed_run`], which also finds
/// the recorded answer. One of another caller or action than the first is never done. An error concerns all of them
/// together and blames none.
pub async fn keyed_run_together<T, F, Fut>(
    cell: &CellContext,
    run: &'static str,
    requests: &[&KeyedRequest],
    closure: F,
) -> StoreResult<KeyedTogether<T>>
where
    T: Encode<()> + Send,
    F: Fn(Transaction, ChangeSet, Vec<usize>) -> Fut,
    Fut: Future<Output = StoreResult<(Vec<Option<T>>, ChangeSet)>>,
{
    let Some(first) = requests.first() else { return Ok((Vec::new(), None)) };
    let change = Change { request: cell.request_id(), ..cell.change(&first.caller, first.action) };
    // Only those that are done count, below: of a batch that is tried again, they would count twice.
    let expires_ms = cell.requests_expire_ms(change.at_ms, 0);
    let (change, space, closure) = (&change, &cell.space, &closure);
    let run = cell.db.run_committed(run, Idempotency::Natural, |tx, _| async move {
        tx.set_option(TransactionOption::RetryLimit(RETRIES_TOGETHER))?;
        let begun = requests.iter().map(async |request| {
            match request_begin(&tx, space, request.caller.request, &request.digest).await {
                Ok(begun) => Ok(begun == RequestBegun::Fresh),
                Err(StoreError::RequestReused { .. }) => Ok(false),
                Err(error) => Err(error),
            }
        });
        let begun = try_join_all(begun);
        let changes = async {
            match first.admission {
                Admission::New => ChangeSet::begin_open(&tx, space, change).await,
                Admission::Existing => ChangeSet::begin(&tx, space, change).await,
            }
        };
        let (begun, changes) = futures::try_join!(begun, changes)?;
        let mut ids = BTreeSet::new();
        // Of two with one id, the second finds the answer of the first.
        let fresh = requests.iter().zip(begun).enumerate();
        let fresh = fresh.filter(|(_, (request, fresh))| {
            *fresh && request.shares_with(first) && ids.insert(request.caller.request)
        });
        let fresh: Vec<usize> = fresh.map(|(at, _)| at).collect();
        let (done, mut changes) = closure(tx.clone(), changes, fresh.clone()).await?;
        let mut values: Vec<Option<T>> = requests.iter().map(|_| None).collect();
        let mut records = Vec::with_capacity(requests.len());
        for (at, value) in fresh.into_iter().zip(done) {
            let Some((value, request)) = value.zip(requests.get(at)) else { continue };
            let result = minicbor::to_vec(&value).map_err(|error| StoreError::refused(error.to_string()))?;
            if let Some(call) = &request.caller.call {
                changes.call_push(AuditedCall::clone(call));
            }
            records.push(RequestDone { request: request.caller.request, digest: &request.digest, result });
            if let Some(of_request) = values.get_mut(at) {
                *of_request = Some(value);
            }
        }
        requests_finish(&tx, space, change.request, records, expires_ms)?;
        let epoch = Some(changes.store_epoch()).filter(|_| changes.has_entry());
        changes.append(&tx)?;
        Ok::<_, StoreError>((values, epoch))
    });
    let ((values, epoch), committed) = run.await?;
    let done = values.iter().filter(|value| value.is_some()).count();
    cell.requests_expire_ms(change.at_ms, u32::try_from(done).unwrap_or(u32::MAX));
    Ok((values, committed.stamp.zip(epoch).map(|(stamp, store_epoch)| Cursor { store_epoch, stamp })))
}

/// Returns true if the request is recorded as done. Its answer is then known, and checks against the present state do
/// not apply. The same id with other content is refused.
async fn keyed_done(cell: &CellContext, request: &KeyedRequest) -> StoreResult<bool> {
    let begun = cell.db.run("request_begin", Idempotency::ReadOnly, |tx, _| async move {
        request_begin(&tx, &cell.space, request.caller.request, &request.digest).await
    });
    Ok(begun.await? != RequestBegun::Fresh)
}

/// Returns what a check against the present state has `found`. Returns `None` if the check refuses but the request is
/// recorded as done, so that the caller gets the recorded answer.
pub async fn keyed_found<T>(
    cell: &CellContext,
    request: &KeyedRequest,
    found: Result<T, Status>,
) -> Result<Option<T>, Status> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(refused) => {
            let done = keyed_done(cell, request).await;
            done.map_err(|error| status_from_store(&error))?.then_some(None).ok_or(refused)
        }
    }
}

/// The bytes of a digest that are recorded.
const DIGEST_BYTES: usize = 16;

/// What stands for a request's content, the same in every process and release: the first 128 bits of SHA-256 over the
/// action and the message.
fn digest_of_request(action: &'static str, asked: &impl Message) -> Vec<u8> {
    let mut hash = Sha256::new();
    hash.update(action.as_bytes());
    hash.update(b"\0");
    hash.update(asked.encode_to_vec());
    hash.finalize().into_iter().take(DIGEST_BYTES).collect()
}

#[cfg(test)]
mod tests {
    use borough_proto::v1::StopJobRequest;

    use super::digest_of_request;

    #[test]
    fn a_digest_stands_for_the_action_and_the_message_in_every_release() {
        let asked = |name: &str| StopJobRequest { name: name.to_owned(), ..StopJobRequest::default() };
        let digest = digest_of_request("job_stop", &asked("web"));
        assert_eq!(digest.len(), 16);
        assert_ne!(digest, digest_of_request("job_stop", &asked("webs")));
        assert_ne!(digest, digest_of_request("job_sto", &asked("web")));
        // SHA-256 of "job_stop", a zero byte and the message `22 03 77 65 62`: recorded digests outlive a release.
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "5a6c9ea897a6d1b2653bcdd23c9ddc66");
    }
}
