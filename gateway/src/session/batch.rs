//! A writer whose items share transactions: all that arrive during one commit share the next one. Ten thousand agents
//! that return at once therefore cost a few hundred commits.
//!
//! The rule on failure: **the writer waits for no item.** It tries a transaction a few times. Then it halves the batch
//! until the cause is alone, and answers each item with the reason. A refused item is counted and set aside, and its
//! session ends. What the store does not take now goes back to its caller, who decides what to do. The session of a
//! report sends it again after a pause, in fewer parts at once if needed. An agent that could not register comes back.
//!
//! The alternative is a writer that keeps an item until the store takes it. One transaction that is too long, or always
//! in conflict, would then hold up every other node of the cell. Callers that wait hold up only themselves.

use std::sync::Arc;

use borough_kv::env::{Clock, Rng};
use borough_kv::{Database, Idempotency, Transaction, TransactionOption};
use borough_store::journal::{Change, ChangeSet, Cursor, journal_head};
use borough_store::request::request_id_random;
use borough_store::{CellSpace, StoreError, StoreResult, error_chain};
use tokio::sync::{mpsc, oneshot};

use super::write::{NotWritten, SessionMetrics};
use crate::fault::{WriteFault, fault_of};

/// How often the store may refuse several things together before the batch is halved. A transaction that is too long,
/// or always in conflict, fails each time.
const RETRIES_TOGETHER: i64 = 3;
/// How often it may refuse a single thing before its caller gets the error: about 30 s of the store's own pauses. A
/// report of 20 reads over a store that fails one read of twenty fails two times in three, so ten tries are too few.
const RETRIES_ALONE: i64 = 40;
/// Items that wait for a commit. Beyond that, callers wait to enter the queue.
const QUEUE_MAX: usize = 1_024;

/// How much is written at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteSize {
    /// Things that could be written by themselves, such as the reports of single attempts.
    pub parts: usize,
    /// Roughly the bytes of agents' data. The store takes 10 MB in one transaction.
    pub bytes: usize,
}

impl WriteSize {
    fn plus(self, other: Self) -> Self {
        Self { parts: self.parts.saturating_add(other.parts), bytes: self.bytes.saturating_add(other.bytes) }
    }

    fn exceeds(self, most: Self) -> bool {
        self.parts > most.parts || self.bytes > most.bytes
    }
}

/// What a writer writes: one call's worth, for one node.
pub trait BatchItem: Sized + Send + Sync + 'static {
    /// The result for an item that was written.
    type Answer: Send + 'static;

    /// The name of the transaction, and the action of its journal entry.
    const ACTION: &'static str;
    /// The bounds of one transaction. A single item may exceed them.
    const MOST: WriteSize;

    /// What the item adds to a transaction.
    fn size(&self) -> WriteSize;

    /// The label of the counters, such as `report`.
    fn what(&self) -> &'static str;

    /// The node, by its name or id.
    fn node(&self) -> String;

    /// Writes the items. Returns an answer per item; `None` if another session of its agent is in force.
    fn write(
        tx: &Transaction,
        changes: &mut ChangeSet,
        items: &[&Self],
    ) -> impl Future<Output = StoreResult<Vec<Option<Self::Answer>>>> + Send;
}

/// An item that is durable.
#[derive(Debug)]
pub struct Written<A> {
    pub answer: A,
    /// The journal contains everything behind the answer up to here. It is the position of the write. If nothing had
    /// changed (an earlier try may have written it), it is the position of the last entry.
    pub cursor: Cursor,
}

/// An item that was not written, and why.
#[derive(Debug)]
pub enum Unwritten<I> {
    /// Another session of the node's agent is in force.
    Superseded,
    /// The transaction refuses its content. A retry cannot help.
    Refused(Arc<StoreError>),
    /// The store does not take it now. The caller may send it again.
    Later { item: I, fault: WriteFault, error: Arc<StoreError> },
}

impl<I> From<Unwritten<I>> for NotWritten {
    fn from(unwritten: Unwritten<I>) -> Self {
        match unwritten {
            Unwritten::Superseded => Self::Superseded,
            Unwritten::Refused(error) => Self::Refused(error),
            Unwritten::Later { error, .. } => Self::Later(error),
        }
    }
}

/// What a writer of the gateway's own transactions needs.
#[derive(Clone)]
pub struct WriterContext {
    pub db: Database,
    pub space: CellSpace,
    pub clock: Arc<dyn Clock>,
    pub rng: Arc<dyn Rng>,
    pub metrics: SessionMetrics,
}

/// An item, and its caller.
struct QueuedItem<I: BatchItem> {
    item: I,
    done: oneshot::Sender<Result<Written<I::Answer>, Unwritten<I>>>,
}

/// The writer of one cell. Clones share it; it ends with the last one.
pub struct BatchWriter<I: BatchItem> {
    queue: mpsc::Sender<QueuedItem<I>>,
}

impl<I: BatchItem> Clone for BatchWriter<I> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone() }
    }
}

impl<I: BatchItem> BatchWriter<I> {
    /// Starts the writer.
    pub fn spawn(context: WriterContext) -> Self {
        let (queue, receiver) = mpsc::channel(QUEUE_MAX);
        tokio::spawn(BatchLoop { context }.run(receiver));
        Self { queue }
    }

    /// Writes an item. `None` if this process is ending.
    pub async fn write(&self, item: I) -> Option<Result<Written<I::Answer>, Unwritten<I>>> {
        let (done, written) = oneshot::channel();
        self.queue.send(QueuedItem { item, done }).await.ok()?;
        written.await.ok()
    }
}

struct BatchLoop {
    context: WriterContext,
}

impl BatchLoop {
    async fn run<I: BatchItem>(self, mut receiver: mpsc::Receiver<QueuedItem<I>>) {
        let mut next = receiver.recv().await;
        while let Some(first) = next.take() {
            let mut size = first.item.size();
            let mut batch = vec![first];
            while let Ok(more) = receiver.try_recv() {
                size = size.plus(more.item.size());
                if size.exceeds(I::MOST) {
                    next = Some(more);
                    break;
                }
                batch.push(more);
            }
            self.batch_write(batch).await;
            if next.is_none() {
                next = receiver.recv().await;
            }
        }
    }

    /// Writes a batch, in smaller parts if it fails as a whole.
    async fn batch_write<I: BatchItem>(&self, batch: Vec<QueuedItem<I>>) {
        let mut parts = vec![batch];
        while let Some(mut part) = parts.pop() {
            let error = match self.batch_try(&part).await {
                Ok((answers, cursor)) => {
                    self.answer(part, answers, cursor);
                    continue;
                }
                Err(error) => Arc::new(error),
            };
            // A failure of several items blames none of them, even if all other callers have gone in the meantime.
            let several = part.len() > 1;
            part.retain(|queued| !queued.done.is_closed());
            let fault = fault_of(&error);
            if fault != WriteFault::Item {
                tracing::warn!(cell = %self.context.space, action = I::ACTION, error = %error_chain(&*error), "the store does not take a batch now");
            }
            if several && fault != WriteFault::Store {
                let rest = part.split_off(part.len() / 2);
                parts.extend([rest, part].into_iter().filter(|half| !half.is_empty()));
                continue;
            }
            for queued in part {
                self.answer_error(queued, fault, &error);
            }
        }
    }

    /// Answers per item, and a position at or after the write.
    async fn batch_try<I: BatchItem>(
        &self,
        batch: &[QueuedItem<I>],
    ) -> StoreResult<(Vec<Option<I::Answer>>, Cursor)> {
        let WriterContext { db, space, clock, rng, .. } = &self.context;
        let actor = match batch {
            [single] => format!("node/{}", single.item.node()),
            _ => "gateway".to_owned(),
        };
        let request = request_id_random(&**rng);
        let change = &Change { request, actor, action: I::ACTION, at_ms: clock.wall_ms() };
        let items: &Vec<&I> = &batch.iter().map(|queued| &queued.item).collect();
        let size = items.iter().fold(WriteSize::default(), |size, item| size.plus(item.size()));
        let retries = if size.parts > 1 { RETRIES_TOGETHER } else { RETRIES_ALONE };
        let written = db.run_committed(I::ACTION, Idempotency::Natural, |tx, _| async move {
            tx.set_option(TransactionOption::RetryLimit(retries))?;
            let mut changes = ChangeSet::begin(&tx, space, change).await?;
            let answers = I::write(&tx, &mut changes, items).await?;
            let begin = Cursor::start(changes.store_epoch());
            // A write without an entry, such as a lease, has a stamp that the journal never shows.
            let is_entry = !changes.deltas().is_empty();
            let last = if is_entry { begin } else { journal_head(&tx, space).await? };
            changes.append(&tx)?;
            Ok::<_, StoreError>((answers, last, is_entry))
        });
        let ((answers, last, is_entry), committed) = written.await?;
        let own = committed.stamp.filter(|_| is_entry);
        Ok((answers, own.map_or(last, |stamp| Cursor { stamp, ..last })))
    }

    /// Answers what was written, or not since its session was superseded. Callers may have gone in the meantime.
    fn answer<I: BatchItem>(
        &self,
        batch: Vec<QueuedItem<I>>,
        answers: Vec<Option<I::Answer>>,
        cursor: Cursor,
    ) {
        for (QueuedItem { item, done }, answer) in batch.into_iter().zip(answers) {
            if answer.is_none() {
                self.context.metrics.superseded(item.what());
            }
            let written = answer.map(|answer| Written { answer, cursor });
            done.send(written.ok_or(Unwritten::Superseded)).ok();
        }
    }

    fn answer_error<I: BatchItem>(
        &self,
        QueuedItem { item, done }: QueuedItem<I>,
        fault: WriteFault,
        error: &Arc<StoreError>,
    ) {
        let error = Arc::clone(error);
        if fault != WriteFault::Item {
            done.send(Err(Unwritten::Later { item, fault, error })).ok();
            return;
        }
        self.context.metrics.refused(item.what());
        tracing::warn!(
            cell = %self.context.space,
            node = item.node(),
            what = item.what(),
            error = %error_chain(&*error),
            "the store refused an item; the gateway has set it aside"
        );
        done.send(Err(Unwritten::Refused(error))).ok();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use borough_kv::env::{ManualClock, SeededRng};
    use borough_kv::{ErrorCode, KvError};
    use borough_store::cell::CellMeta;
    use borough_testkit::{MemoryStore, OpenCell, metrics_text};

    use super::*;

    /// An item with a transaction that fails whenever the item is part of it.
    struct TestItem {
        fails: Option<ErrorCode>,
        /// Counts the transactions that any item was in.
        tries: Arc<AtomicUsize>,
    }

    impl BatchItem for TestItem {
        type Answer = ();

        const ACTION: &'static str = "test";
        const MOST: WriteSize = WriteSize { parts: 8, bytes: 100 };

        fn size(&self) -> WriteSize {
            WriteSize { parts: 1, bytes: 1 }
        }

        fn what(&self) -> &'static str {
            "item"
        }

        fn node(&self) -> String {
            "n1".to_owned()
        }

        async fn write(
            _tx: &Transaction,
            _changes: &mut ChangeSet,
            items: &[&Self],
        ) -> StoreResult<Vec<Option<()>>> {
            if let Some(first) = items.first() {
                first.tries.fetch_add(1, Ordering::SeqCst);
            }
            match items.iter().find_map(|item| item.fails) {
                Some(code) => Err(KvError::new(code).into()),
                None => Ok(vec![Some(()); items.len()]),
            }
        }
    }

    /// Writes items that arrive together. Returns their results, the number of transactions, and the counters.
    async fn written(fails: &[Option<ErrorCode>]) -> (Vec<Result<(), Option<WriteFault>>>, usize, String) {
        let clock: Arc<dyn Clock> = ManualClock::at(1_000);
        let rng = SeededRng::shared(1);
        let store = MemoryStore::new(Arc::clone(&clock), Arc::clone(&rng));
        let OpenCell { db, space } = OpenCell::create(store.quiet(), &CellMeta::default()).await;
        let metrics = SessionMetrics::default();
        let writer = BatchWriter::spawn(WriterContext { db, space, clock, rng, metrics: metrics.clone() });
        let tries = Arc::new(AtomicUsize::new(0));
        let item = |fails: &Option<ErrorCode>| TestItem { fails: *fails, tries: Arc::clone(&tries) };
        let all = futures::future::join_all(fails.iter().map(|fails| writer.write(item(fails))));
        let all = tokio::time::timeout(Duration::from_secs(60), all).await.expect("every item is answered");
        let result = |written: Option<Result<Written<()>, Unwritten<TestItem>>>| match written.unwrap() {
            Ok(Written { answer, .. }) => Ok(answer),
            Err(Unwritten::Later { fault, .. }) => Err(Some(fault)),
            Err(Unwritten::Refused(_) | Unwritten::Superseded) => Err(None),
        };
        let text = metrics_text(|registry| metrics.register(registry));
        (all.into_iter().map(result).collect(), tries.load(Ordering::SeqCst), text)
    }

    /// The writer answers an item that is always in conflict after a few tries, and the others commit meanwhile. It
    /// waits for none of them.
    #[tokio::test(start_paused = true)]
    async fn an_item_that_is_always_in_conflict_goes_back_to_its_caller() {
        let fails = [None, Some(ErrorCode::NotCommitted), None, None, None];
        let (results, _, text) = written(&fails).await;
        assert_eq!(results, [Ok(()), Err(Some(WriteFault::Batch)), Ok(()), Ok(()), Ok(())]);
        assert!(!text.contains("what=\"item\""), "nothing was refused for its content: {text}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_item_with_refused_content_is_set_aside_and_counted() {
        let fails = [None, None, Some(ErrorCode::ValueTooLarge)];
        let (results, _, text) = written(&fails).await;
        assert_eq!(results, [Ok(()), Ok(()), Err(None)]);
        assert!(text.contains("session_refused_total{what=\"item\"} 1"), "{text}");
    }

    /// Smaller batches would only add load, and the callers know best when to send again.
    #[tokio::test(start_paused = true)]
    async fn a_batch_that_fails_by_the_store_is_not_halved() {
        let (results, tries, _) = written(&[Some(ErrorCode::IoError), None, None]).await;
        assert_eq!(results, [Err(Some(WriteFault::Store)); 3]);
        assert_eq!(tries, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_transaction_stays_within_its_bound() {
        let (results, tries, _) = written(&[None; 20]).await;
        assert!(results.iter().all(Result::is_ok));
        assert_eq!(tries, 3, "20 items, 8 at once");
    }
}
