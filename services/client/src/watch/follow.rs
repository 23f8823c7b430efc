//! Keeps a server's stream open over broken connections, by the rules of [`Resumption`].

use std::sync::Arc;
use std::time::Duration;

use borough_proto::v1::Cursor;
use tonic::{Code, Status, Streaming};

use crate::call::Client;
use crate::error::ClientError;
use crate::outage::{GatewayAbsence, Outage, OutageStep};
use crate::retry::worth_repeating;
use crate::watch::resumption::Resumption;

/// A stream that stays open so long without a message shows that a gateway answers again.
const ANSWERED_AFTER: Duration = Duration::from_secs(1);

/// A kind of watch: how to open it, and how to read its messages.
pub(crate) trait WatchFeed: Send + Sync + 'static {
    /// What the server sends.
    type Message: Send + 'static;

    /// Opens the stream after `resume`, or with a snapshot.
    fn open(
        &self,
        client: &Client,
        resume: Option<Cursor>,
    ) -> impl Future<Output = Result<Streaming<Self::Message>, Status>> + Send;

    fn cursor(message: &Self::Message) -> Option<&Cursor>;

    /// Returns true if more changes of the same commit follow, with the same cursor.
    fn is_followed(message: &Self::Message) -> bool;

    /// Returns true if the message only says that everything up to its cursor was sent.
    fn is_bookmark(message: &Self::Message) -> bool;
}

/// An item of a follower.
pub(crate) enum Followed<M> {
    /// A change, once.
    Change(Box<M>),
    /// Everything up to the cursor was yielded.
    Bookmark(Cursor),
    /// The stream started again inside an incomplete snapshot: discard what was yielded of it.
    SnapshotVoid,
    /// The gateway cannot resume the watch; the text says why. The next stream starts with a snapshot.
    Trimmed(String),
    /// No gateway answers. Comes once until the next message.
    Absent(GatewayAbsence),
}

pub(crate) struct WatchFollower<F: WatchFeed> {
    client: Client,
    feed: Arc<F>,
    resumption: Resumption,
    stream: Option<Streaming<F::Message>>,
    /// Tries in a row without a message.
    attempts: u32,
    /// Since the stream broke without a message.
    outage: Option<Outage>,
    /// What the last of these tries came to.
    failed: Option<Box<Status>>,
    /// It was said that no gateway answers, and nothing has come since.
    told: bool,
}

/// Why a stream has ended.
enum Break {
    Trimmed(String),
    Repeat(Option<Box<Status>>),
    Outage(OutageStep),
    Fatal(ClientError),
}

impl<F: WatchFeed> WatchFollower<F> {
    /// A watch after `base`, or one that starts with a snapshot. Opened at the first [`WatchFollower::next`].
    pub(crate) fn new(client: Client, feed: F, base: Option<Cursor>) -> Self {
        let feed = Arc::new(feed);
        let resumption = Resumption::after(base);
        Self { client, feed, resumption, stream: None, attempts: 0, outage: None, failed: None, told: false }
    }

    /// The next item; waits for it.
    pub(crate) async fn next(&mut self) -> Result<Followed<F::Message>, ClientError> {
        loop {
            let message = match self.message().await {
                Ok(Some(message)) => message,
                // Nothing has changed, and the consumer must not wait for the next change to learn that this goes on.
                Ok(None) => {
                    self.answered();
                    match self.resumption.reopened() {
                        Some(cursor) => return Ok(Followed::Bookmark(cursor)),
                        None => continue,
                    }
                }
                Err(broken) => match self.broken(broken).await? {
                    Some(item) => return Ok(item),
                    None => continue,
                },
            };
            self.answered();
            let cursor = F::cursor(&message).cloned();
            if F::is_bookmark(&message) {
                let Some(cursor) = cursor else { continue };
                // One that goes back is no news, and a consumer that keeps it would see changes twice.
                if !self.resumption.complete(&cursor) {
                    continue;
                }
                return Ok(Followed::Bookmark(cursor));
            }
            let Some(cursor) = cursor else { return Ok(Followed::Change(Box::new(message))) };
            let new = self.resumption.accept(&cursor);
            if !F::is_followed(&message) && !self.resumption.in_snapshot() {
                self.resumption.complete(&cursor);
            }
            if new {
                return Ok(Followed::Change(Box::new(message)));
            }
        }
    }

    fn answered(&mut self) {
        (self.attempts, self.outage, self.failed, self.told) = (0, None, None, false);
    }

    /// The next message. Opens the stream first if none is open. `None`: after an outage that was reported, a stream is
    /// open again and has nothing to say.
    async fn message(&mut self) -> Result<Option<F::Message>, Break> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => {
                let resume = self.resumption.reopened();
                let opening = open(&self.client, self.feed.as_ref(), resume);
                let opened = match &mut self.outage {
                    None => opening.await?,
                    Some(outage) => tokio::select! {
                        biased;
                        step = outage.step() => return Err(Break::Outage(step)),
                        opened = opening => opened?,
                    },
                };
                self.stream.insert(opened)
            }
        };
        let next = if self.told {
            match tokio::time::timeout(ANSWERED_AFTER, stream.message()).await {
                Ok(next) => next,
                Err(_) => return Ok(None),
            }
        } else {
            stream.message().await
        };
        match next {
            Ok(Some(message)) => Ok(Some(message)),
            // A gateway ends a watch only when it shuts down.
            Ok(None) => Err(Break::Repeat(None)),
            Err(status) => Err(sort(&self.client, status)),
        }
    }

    /// Prepares the next stream, after a pause. Returns an item if the consumer must know.
    async fn broken(&mut self, broken: Break) -> Result<Option<Followed<F::Message>>, ClientError> {
        self.stream = None;
        let patience = self.client.config().watch_patience;
        let status = match broken {
            Break::Fatal(error) => return Err(error),
            Break::Outage(OutageStep::Tell) => {
                let error = self.client.unreachable_after(self.attempts, self.failed.clone());
                self.told = true;
                return Ok(Some(Followed::Absent(GatewayAbsence::told(error, patience))));
            }
            Break::Outage(OutageStep::GiveUp) => {
                return Err(self.client.unreachable_after(self.attempts, self.failed.take()));
            }
            Break::Trimmed(why) => {
                self.attempts += 1;
                let first = self.attempts == 1;
                self.resumption = Resumption::after(None);
                // A gateway that trims again at once must not be asked in a tight loop.
                if !first {
                    self.pause().await;
                }
                return Ok(Some(Followed::Trimmed(why)));
            }
            Break::Repeat(status) => status,
        };
        self.attempts += 1;
        self.outage.get_or_insert_with(|| Outage::begin(patience));
        tracing::debug!(attempts = self.attempts, status = ?status, "a watch has failed; the client opens it again");
        self.failed = status.or_else(|| self.failed.take());
        self.pause().await;
        Ok(self.resumption.in_snapshot().then_some(Followed::SnapshotVoid))
    }

    async fn pause(&self) {
        let pause = self.client.config().retry.pause(self.attempts, self.client.random_bits());
        tokio::time::sleep(pause).await;
    }
}

async fn open<F: WatchFeed>(
    client: &Client,
    feed: &F,
    resume: Option<Cursor>,
) -> Result<Streaming<F::Message>, Break> {
    let opening = tokio::time::timeout(client.deadline(), feed.open(client, resume));
    match opening.await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(status)) => Err(sort(client, status)),
        Err(_) => Err(Break::Repeat(None)),
    }
}

fn sort(client: &Client, status: Status) -> Break {
    match status.code() {
        Code::OutOfRange => Break::Trimmed(status.message().to_owned()),
        // The credential of an open stream has expired, and its file has another one by now.
        _ if worth_repeating(&status) || client.token_renewed(&status) => {
            Break::Repeat(Some(Box::new(status)))
        }
        _ => Break::Fatal(client.failed_once(status)),
    }
}
