//! Keeps a server's stream open over broken connections, by the rules of [`Resumption`].

use std::sync::Arc;

use borough_proto::v1::Cursor;
use tonic::{Code, Status, Streaming};

use crate::call::Client;
use crate::error::ClientError;
use crate::retry::worth_repeating;
use crate::watch::resumption::Resumption;

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
}

pub(crate) struct WatchFollower<F: WatchFeed> {
    client: Client,
    feed: Arc<F>,
    resumption: Resumption,
    stream: Option<Streaming<F::Message>>,
    /// Tries in a row without a message.
    attempts: u32,
}

/// Why a stream has ended.
enum Break {
    Trimmed(String),
    Repeat(Option<Box<Status>>),
    Fatal(ClientError),
}

impl<F: WatchFeed> WatchFollower<F> {
    /// A watch after `base`, or one that starts with a snapshot. Opened at the first [`WatchFollower::next`].
    pub(crate) fn new(client: Client, feed: F, base: Option<Cursor>) -> Self {
        let feed = Arc::new(feed);
        Self { client, feed, resumption: Resumption::after(base), stream: None, attempts: 0 }
    }

    /// The next item; waits for it.
    pub(crate) async fn next(&mut self) -> Result<Followed<F::Message>, ClientError> {
        loop {
            let message = match self.message().await {
                Ok(message) => message,
                Err(broken) => match self.broken(broken).await? {
                    Some(item) => return Ok(item),
                    None => continue,
                },
            };
            self.attempts = 0;
            let cursor = F::cursor(&message).cloned();
            if F::is_bookmark(&message) {
                let Some(cursor) = cursor else { continue };
                self.resumption.complete(&cursor);
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

    /// The next message. Opens the stream first if none is open.
    async fn message(&mut self) -> Result<F::Message, Break> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => {
                let opened = open(&self.client, self.feed.as_ref(), self.resumption.reopened()).await?;
                self.stream.insert(opened)
            }
        };
        match stream.message().await {
            Ok(Some(message)) => Ok(message),
            // A gateway ends a watch only when it shuts down.
            Ok(None) => Err(Break::Repeat(None)),
            Err(status) => Err(sort(&self.client, status)),
        }
    }

    /// Prepares the next stream, after a pause. Returns an item if the consumer must know.
    async fn broken(&mut self, broken: Break) -> Result<Option<Followed<F::Message>>, ClientError> {
        self.stream = None;
        self.attempts += 1;
        let status = match broken {
            Break::Fatal(error) => return Err(error),
            Break::Trimmed(why) => {
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
        if self.client.config().watch_attempts_max.is_some_and(|most| self.attempts >= most) {
            return Err(self.client.unreachable_after(self.attempts, status));
        }
        tracing::debug!(attempts = self.attempts, status = ?status, "a watch has failed; the client opens it again");
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
    let opening = tokio::time::timeout(client.config().deadline, feed.open(client, resume));
    match opening.await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(status)) => Err(sort(client, status)),
        Err(_) => Err(Break::Repeat(None)),
    }
}

fn sort(client: &Client, status: Status) -> Break {
    match status.code() {
        Code::OutOfRange => Break::Trimmed(status.message().to_owned()),
        _ if worth_repeating(&status) => Break::Repeat(Some(Box::new(status))),
        _ => Break::Fatal(client.failed_once(status)),
    }
}
