//! Lets the submissions of one author share transactions: those that come while one is under way go into the next one.
//!
//! A lone submission begins at once. Under load, a thousand submissions cost a few commits, and those of one quota line
//! no longer wait for each other's conflicts. Different authors share nothing, so that an entry of the journal has one
//! author.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::sync::Arc;

use borough_model::Name;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::keys::CellSpace;

/// Most submissions of one transaction.
const JOBS_MAX: usize = 128;
/// About the most bytes of their specs. A single one may have more.
const BYTES_MAX: usize = 1 << 20;
/// Most submissions of one author that wait, and about the most bytes of their specs.
const WAITING_MAX: usize = 16_384;
const WAITING_BYTES_MAX: usize = 64 << 20;

/// A submission that waits, and its caller. Dropped without an answer, it is to be decided by itself.
#[derive(Debug)]
pub struct WaitingSubmission<I, A> {
    pub item: I,
    /// About the size of its spec.
    bytes: usize,
    done: oneshot::Sender<A>,
}

impl<I, A> WaitingSubmission<I, A> {
    /// Whether nobody waits for the answer any more.
    pub fn is_gone(&self) -> bool {
        self.done.is_closed()
    }

    /// Answers the caller, who may have gone.
    pub fn answer(self, answer: A) {
        self.done.send(answer).ok();
    }
}

/// The author of submissions that may share a transaction.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AdmissionAuthor {
    pub space: CellSpace,
    pub user: Name,
}

/// Too many submissions of one author wait. Try again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{waiting} submissions of the user wait, with {bytes} bytes of specs; accepted: {WAITING_MAX}, and {WAITING_BYTES_MAX} bytes"
)]
pub struct AdmissionQueueFull {
    pub waiting: usize,
    pub bytes: usize,
}

/// Submissions `I` that wait for their answers `A`, by their authors. An author is here while a transaction of it is
/// under way.
pub struct AdmissionQueue<I, A> {
    authors: Mutex<BTreeMap<AdmissionAuthor, AuthorQueue<I, A>>>,
    jobs_max: usize,
}

/// The submissions of one author, and the sum of their bytes.
struct AuthorQueue<I, A> {
    waiting: VecDeque<WaitingSubmission<I, A>>,
    bytes: usize,
}

impl<I, A> Default for AdmissionQueue<I, A> {
    fn default() -> Self {
        Self::with_most(JOBS_MAX)
    }
}

impl<I: Send + 'static, A: Send + 'static> AdmissionQueue<I, A> {
    /// Admits `item` of `author` with others: one call of `admit` decides some of them, and answers each. `None`:
    /// nothing was done for the item, so decide it by itself.
    ///
    /// If the caller goes away, the item may still be decided.
    ///
    /// # Errors
    ///
    /// Too many of the author's submissions wait.
    pub async fn admit<F, Fut>(
        self: &Arc<Self>,
        author: AdmissionAuthor,
        item: I,
        bytes: usize,
        admit: F,
    ) -> Result<Option<A>, AdmissionQueueFull>
    where
        F: Fn(Vec<WaitingSubmission<I, A>>) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let (done, answer) = oneshot::channel();
        if let Some(turns) = self.enter(author, WaitingSubmission { item, bytes, done })? {
            tokio::spawn(turns.all_admit(admit));
        }
        Ok(answer.await.ok())
    }

    /// Puts a submission into the queue. Returns the author's turns if nobody else has them.
    fn enter(
        self: &Arc<Self>,
        author: AdmissionAuthor,
        one: WaitingSubmission<I, A>,
    ) -> Result<Option<AuthorTurns<I, A>>, AdmissionQueueFull> {
        let mut authors = self.authors.lock();
        if let Some(AuthorQueue { waiting, bytes }) = authors.get_mut(&author) {
            if waiting.len() >= WAITING_MAX || *bytes >= WAITING_BYTES_MAX {
                return Err(AdmissionQueueFull { waiting: waiting.len(), bytes: *bytes });
            }
            *bytes = bytes.saturating_add(one.bytes);
            waiting.push_back(one);
            return Ok(None);
        }
        let only = AuthorQueue { bytes: one.bytes, waiting: VecDeque::from([one]) };
        authors.insert(author.clone(), only);
        Ok(Some(AuthorTurns { queue: Arc::clone(self), author, over: false }))
    }
}

impl<I, A> AdmissionQueue<I, A> {
    /// A queue with at most `jobs_max` submissions in one transaction.
    pub fn with_most(jobs_max: usize) -> Self {
        Self { authors: Mutex::default(), jobs_max: jobs_max.max(1) }
    }
}

/// The turns of an author whose submissions are being admitted. When they end, nobody waits any more, even if a
/// transaction has panicked: those who still do decide by themselves.
struct AuthorTurns<I, A> {
    queue: Arc<AdmissionQueue<I, A>>,
    author: AdmissionAuthor,
    /// The queue has forgotten the author. It may have turns again, of another one.
    over: bool,
}

impl<I, A> AuthorTurns<I, A> {
    /// Admits the submissions of the author until none waits.
    async fn all_admit<F, Fut>(mut self, admit: F)
    where
        F: Fn(Vec<WaitingSubmission<I, A>>) -> Fut + Send,
        Fut: Future<Output = ()> + Send,
    {
        while let Some(batch) = self.batch_take() {
            admit(batch).await;
        }
    }

    /// The next submissions. `None`: none waits, and the author is forgotten.
    fn batch_take(&mut self) -> Option<Vec<WaitingSubmission<I, A>>> {
        // Those that nobody waits for are dropped after the lock, which all authors share.
        let mut gone = Vec::new();
        let mut authors = self.queue.authors.lock();
        let AuthorQueue { waiting, bytes } = authors.get_mut(&self.author)?;
        let (mut batch, mut batch_bytes) = (Vec::new(), 0_usize);
        while let Some(next) = waiting.front() {
            let with_next = batch_bytes.saturating_add(next.bytes);
            let full = batch.len() >= self.queue.jobs_max || (with_next > BYTES_MAX && !batch.is_empty());
            if full && !next.is_gone() {
                break;
            }
            let Some(one) = waiting.pop_front() else { break };
            *bytes = bytes.saturating_sub(one.bytes);
            if one.is_gone() {
                gone.push(one);
                continue;
            }
            batch_bytes = with_next;
            batch.push(one);
        }
        if batch.is_empty() {
            authors.remove(&self.author);
            self.over = true;
            return None;
        }
        Some(batch)
    }
}

impl<I, A> Drop for AuthorTurns<I, A> {
    fn drop(&mut self) {
        if !self.over {
            let left = self.queue.authors.lock().remove(&self.author);
            drop(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::future::join_all;

    use super::*;
    use crate::testing::name;

    /// Admits items of which every seventh is left, with the sizes of the batches.
    async fn admitted(
        queue: AdmissionQueue<u32, u32>,
        items: u32,
        bytes: usize,
    ) -> (Vec<Option<u32>>, Vec<usize>) {
        let (queue, sizes) = (Arc::new(queue), Arc::new(Mutex::new(Vec::new())));
        let all = join_all((0..items).map(|item| {
            let (queue, sizes) = (Arc::clone(&queue), Arc::clone(&sizes));
            async move {
                let user = name(if item % 2 == 0 { "ada" } else { "bob" });
                let author = AdmissionAuthor { space: CellSpace::new(name("alpha")), user };
                let admit = move |batch: Vec<WaitingSubmission<u32, u32>>| {
                    sizes.lock().push(batch.len());
                    async move {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                        let first = batch[0].item;
                        for one in batch {
                            let item = one.item;
                            assert_eq!(item % 2, first % 2, "one author");
                            if !item.is_multiple_of(7) {
                                one.answer(item);
                            }
                        }
                    }
                };
                queue.admit(author, item, bytes, admit).await.unwrap()
            }
        }));
        let answers = tokio::time::timeout(Duration::from_secs(60), all).await.expect("each is answered");
        assert!(queue.authors.lock().is_empty(), "nobody is remembered");
        let sizes = sizes.lock().clone();
        (answers, sizes)
    }

    #[tokio::test(start_paused = true)]
    async fn each_gets_its_own_answer_and_batches_stay_within_their_bounds() {
        let answers: Vec<Option<u32>> =
            (0..600).map(|item: u32| (!item.is_multiple_of(7)).then_some(item)).collect();
        let (found, sizes) = admitted(AdmissionQueue::default(), 600, 100).await;
        assert_eq!(found, answers);
        // The first of each author begins at once, and the others wait.
        assert_eq!(sizes.iter().sum::<usize>(), 600);
        assert!(sizes.len() <= 8 && sizes.iter().all(|size| *size <= JOBS_MAX), "{sizes:?}");
        let (found, sizes) = admitted(AdmissionQueue::default(), 20, BYTES_MAX / 3).await;
        assert_eq!(found, answers[..20]);
        assert!(sizes.iter().all(|size| *size <= 3), "{sizes:?}");
        let (found, sizes) = admitted(AdmissionQueue::default(), 4, BYTES_MAX * 2).await;
        assert_eq!(found, answers[..4]);
        assert_eq!(sizes, [1; 4]);
        let (found, sizes) = admitted(AdmissionQueue::with_most(1), 10, 1).await;
        assert_eq!(found, answers[..10]);
        assert_eq!(sizes, [1; 10]);
    }

    fn all_answer(batch: Vec<WaitingSubmission<u32, u32>>) {
        for one in batch {
            let item = one.item;
            one.answer(item);
        }
    }

    #[test]
    fn too_many_that_wait_are_refused_and_only_those_of_their_author() {
        let queue: Arc<AdmissionQueue<u32, u32>> = Arc::default();
        let enter = |user: &str, bytes| {
            let author = AdmissionAuthor { space: CellSpace::new(name("alpha")), user: name(user) };
            let (done, _) = oneshot::channel();
            let entered = queue.enter(author, WaitingSubmission { item: 1, bytes, done });
            entered.map(|turns| turns.map(std::mem::forget).is_some())
        };
        assert_eq!(enter("ada", 1), Ok(true));
        for _ in 1..WAITING_MAX {
            assert_eq!(enter("ada", 1), Ok(false));
        }
        assert_eq!(enter("ada", 1), Err(AdmissionQueueFull { waiting: WAITING_MAX, bytes: WAITING_MAX }));
        assert_eq!(enter("bob", WAITING_BYTES_MAX), Ok(true), "a single one may have more");
        let full = AdmissionQueueFull { waiting: 1, bytes: WAITING_BYTES_MAX };
        assert_eq!(enter("bob", 1), Err(full));
    }

    #[tokio::test(start_paused = true)]
    async fn a_transaction_that_panics_holds_up_nobody() {
        let queue: Arc<AdmissionQueue<u32, u32>> = Arc::default();
        let enter = |item: u32| {
            let admit = |batch: Vec<WaitingSubmission<u32, u32>>| async move {
                tokio::time::sleep(Duration::from_millis(5)).await;
                assert!(batch.iter().all(|one| one.item != 1), "the first one panics");
                all_answer(batch);
            };
            let queue = Arc::clone(&queue);
            let author = AdmissionAuthor { space: CellSpace::new(name("alpha")), user: name("ada") };
            async move { queue.admit(author, item, 1, admit).await }
        };
        let both = tokio::time::timeout(Duration::from_secs(60), join_all([enter(1), enter(2)])).await;
        assert_eq!(both.expect("each is answered"), [Ok(None), Ok(None)]);
        assert_eq!(enter(3).await, Ok(Some(3)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_goes_away_holds_up_nobody() {
        let queue: Arc<AdmissionQueue<u32, u32>> = Arc::default();
        let enter = |item: u32| {
            let admit = |batch: Vec<WaitingSubmission<u32, u32>>| async move {
                tokio::time::sleep(Duration::from_millis(5)).await;
                assert!(batch.iter().all(|one| one.item != 2), "nobody waits for it");
                all_answer(batch);
            };
            let queue = Arc::clone(&queue);
            let author = AdmissionAuthor { space: CellSpace::new(name("alpha")), user: name("ada") };
            async move { queue.admit(author, item, 1, admit).await }
        };
        let (mut first, mut second, third) = (Box::pin(enter(1)), Box::pin(enter(2)), enter(3));
        assert!(futures::poll!(&mut first).is_pending());
        assert!(futures::poll!(&mut second).is_pending());
        drop((first, second));
        assert_eq!(tokio::time::timeout(Duration::from_secs(60), third).await, Ok(Ok(Some(3))));
    }
}
