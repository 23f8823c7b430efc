//! Lets the submissions of one author share transactions: those that come while one is under way go into the next one.
//!
//! A lone submission begins at once. Under load, a thousand submissions cost a few commits, and those of one quota line
//! no longer wait for each other's conflicts. Different authors share nothing, so that an entry of the journal has one
//! author.

use std::collections::BTreeMap;
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

/// A submission that waits.
struct Waiting<I, A> {
    item: I,
    /// About the size of its spec.
    bytes: usize,
    done: oneshot::Sender<Option<A>>,
}

/// The author of submissions that may share a transaction.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AdmissionAuthor {
    pub space: CellSpace,
    pub user: Name,
}

/// Submissions `I` that wait for their answers `A`, by their authors. An author is here while a transaction of it is
/// under way.
pub struct AdmissionQueue<I, A> {
    authors: Mutex<BTreeMap<AdmissionAuthor, Vec<Waiting<I, A>>>>,
    jobs_max: usize,
}

impl<I, A> Default for AdmissionQueue<I, A> {
    fn default() -> Self {
        Self::with_most(JOBS_MAX)
    }
}

/// Where a submission enters the queue.
#[derive(PartialEq, Eq)]
enum Entered {
    /// Nobody else admits for the author now.
    First,
    Behind,
}

impl<I: Send + 'static, A: Send + 'static> AdmissionQueue<I, A> {
    /// Admits `item` of `author` with others: one call of `admit` decides some items, of which it returns an answer for
    /// each. `None`: nothing was done for the item, so decide it by itself.
    ///
    /// If the caller goes away, the item may still be decided.
    pub async fn admit<F, Fut>(
        self: &Arc<Self>,
        author: AdmissionAuthor,
        item: I,
        bytes: usize,
        admit: F,
    ) -> Option<A>
    where
        F: Fn(Vec<I>) -> Fut + Send + 'static,
        Fut: Future<Output = Vec<Option<A>>> + Send + 'static,
    {
        let (done, answer) = oneshot::channel();
        if self.enter(author.clone(), Waiting { item, bytes, done }) == Entered::First {
            tokio::spawn(Arc::clone(self).all_admit(author, admit));
        }
        answer.await.ok().flatten()
    }

    /// Admits the submissions of an author until none waits.
    async fn all_admit<F, Fut>(self: Arc<Self>, author: AdmissionAuthor, admit: F)
    where
        F: Fn(Vec<I>) -> Fut + Send,
        Fut: Future<Output = Vec<Option<A>>> + Send,
    {
        let mut active = AuthorActive { queue: &self, author, over: false };
        while let Some(batch) = self.batch_take(&active.author) {
            let (items, done): (Vec<I>, Vec<_>) = batch.into_iter().map(|one| (one.item, one.done)).unzip();
            for (done, answer) in done.into_iter().zip(admit(items).await) {
                done.send(answer).ok();
            }
        }
        active.over = true;
    }
}

/// An author whose submissions are being admitted. When that ends, nobody waits any more, even if a transaction has
/// panicked: those who still do get `None`.
struct AuthorActive<'a, I, A> {
    queue: &'a AdmissionQueue<I, A>,
    author: AdmissionAuthor,
    /// The queue has forgotten the author. It may be active again, by another one.
    over: bool,
}

impl<I, A> Drop for AuthorActive<'_, I, A> {
    fn drop(&mut self) {
        if !self.over {
            drop(self.queue.authors.lock().remove(&self.author));
        }
    }
}

impl<I, A> AdmissionQueue<I, A> {
    /// A queue with at most `jobs_max` submissions in one transaction.
    pub fn with_most(jobs_max: usize) -> Self {
        Self { authors: Mutex::default(), jobs_max: jobs_max.max(1) }
    }

    fn enter(&self, author: AdmissionAuthor, waiting: Waiting<I, A>) -> Entered {
        let mut authors = self.authors.lock();
        if let Some(others) = authors.get_mut(&author) {
            others.push(waiting);
            return Entered::Behind;
        }
        authors.insert(author, vec![waiting]);
        Entered::First
    }

    /// The next submissions of an author. `None`: none waits, and the author is forgotten.
    fn batch_take(&self, author: &AdmissionAuthor) -> Option<Vec<Waiting<I, A>>> {
        let mut authors = self.authors.lock();
        let waiting = authors.get_mut(author)?;
        waiting.retain(|one| !one.done.is_closed());
        if waiting.is_empty() {
            authors.remove(author);
            return None;
        }
        let mut bytes = 0_usize;
        let fits = waiting.iter().take(self.jobs_max).take_while(|one| {
            bytes = bytes.saturating_add(one.bytes);
            bytes <= BYTES_MAX
        });
        let count = fits.count().max(1);
        Some(waiting.drain(..count).collect())
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
                let admit = move |items: Vec<u32>| {
                    sizes.lock().push(items.len());
                    async move {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                        assert!(items.iter().all(|other| other % 2 == items[0] % 2), "{items:?}");
                        items.into_iter().map(|item| (!item.is_multiple_of(7)).then_some(item)).collect()
                    }
                };
                queue.admit(author, item, bytes, admit).await
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

    #[tokio::test(start_paused = true)]
    async fn a_transaction_that_panics_holds_up_nobody() {
        let queue: Arc<AdmissionQueue<u32, u32>> = Arc::default();
        let enter = |item: u32| {
            let admit = |items: Vec<u32>| async move {
                tokio::time::sleep(Duration::from_millis(5)).await;
                assert!(!items.contains(&1), "the first one panics");
                items.into_iter().map(Some).collect()
            };
            let queue = Arc::clone(&queue);
            let author = AdmissionAuthor { space: CellSpace::new(name("alpha")), user: name("ada") };
            async move { queue.admit(author, item, 1, admit).await }
        };
        let both = tokio::time::timeout(Duration::from_secs(60), join_all([enter(1), enter(2)])).await;
        assert_eq!(both.expect("each is answered"), [None, None]);
        assert_eq!(enter(3).await, Some(3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_goes_away_holds_up_nobody() {
        let queue: Arc<AdmissionQueue<u32, u32>> = Arc::default();
        let enter = |item: u32| {
            let admit = |items: Vec<u32>| async move {
                tokio::time::sleep(Duration::from_millis(5)).await;
                items.into_iter().map(Some).collect()
            };
            let queue = Arc::clone(&queue);
            let author = AdmissionAuthor { space: CellSpace::new(name("alpha")), user: name("ada") };
            async move { queue.admit(author, item, 1, admit).await }
        };
        let (mut first, mut second, third) = (Box::pin(enter(1)), Box::pin(enter(2)), enter(3));
        assert!(futures::poll!(&mut first).is_pending());
        assert!(futures::poll!(&mut second).is_pending());
        drop((first, second));
        assert_eq!(tokio::time::timeout(Duration::from_secs(60), third).await, Ok(Some(3)));
    }
}
