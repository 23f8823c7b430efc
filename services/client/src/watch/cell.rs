//! The watch of all changes in a cell.

use borough_proto::v1::watch_service_client::WatchServiceClient;
use borough_proto::v1::{Cursor, WatchFilter, WatchRequest, WatchResponse, watch_response};
use futures::{StreamExt as _, stream};
use tonic::{Status, Streaming};

use crate::call::{Client, ItemStream, present, rpc};
use crate::error::ClientError;
use crate::outage::GatewayAbsence;
use crate::watch::follow::{Followed, WatchFeed, WatchFollower};

/// An item of the watch of a cell.
#[derive(Clone, Debug)]
pub enum CellItem {
    /// A change; each is yielded once, in order.
    Change(Box<WatchResponse>),
    /// All matching changes up to the cursor were yielded.
    Bookmark(Cursor),
    /// The gateway cannot resume this watch; the text says why. It is the last item: list again, and watch from the
    /// cursor of that list.
    Resync(String),
    /// No gateway answers. The watch goes on by itself, and says so once until it has an answer.
    Absent(GatewayAbsence),
}

struct CellFeed {
    filter: WatchFilter,
}

impl WatchFeed for CellFeed {
    type Message = WatchResponse;

    async fn open(
        &self,
        client: &Client,
        resume: Option<Cursor>,
    ) -> Result<Streaming<WatchResponse>, Status> {
        let message = WatchRequest {
            context: client.context_read(),
            cell: client.cell().to_owned(),
            resume,
            filter: Some(self.filter.clone()),
        };
        client.attempt(message, &rpc!(WatchServiceClient.watch)).await
    }

    fn cursor(message: &WatchResponse) -> Option<&Cursor> {
        message.cursor.as_ref()
    }

    fn is_followed(message: &WatchResponse) -> bool {
        message.more
    }

    fn is_bookmark(message: &WatchResponse) -> bool {
        match &message.change {
            Some(watch_response::Change::Bookmark(_)) => true,
            // A kind of a later version. With more of its commit to come, its cursor is not complete.
            None => !message.more,
            Some(_) => false,
        }
    }
}

impl Client {
    /// Yields all matching changes of the cell after `resume`, or from now: in order, without gaps or repetition over
    /// broken connections.
    ///
    /// # Errors
    /// The first item may be an error of the call for the present cursor. A later one, such as a refusal, ends the
    /// stream.
    pub fn watch_cell(&self, filter: WatchFilter, resume: Option<Cursor>) -> ItemStream<CellItem> {
        let unopened = Unopened { client: self.clone(), filter, resume };
        let state = Watching::Unopened(Box::new(unopened));
        stream::unfold(state, |state| async move {
            let (item, state) = state.next().await?;
            Some((item, state))
        })
        .boxed()
    }
}

enum Watching {
    Unopened(Box<Unopened>),
    Open(Box<WatchFollower<CellFeed>>),
    Over,
}

/// A watch before its first item.
struct Unopened {
    client: Client,
    filter: WatchFilter,
    resume: Option<Cursor>,
}

impl Watching {
    async fn next(self) -> Option<(Result<CellItem, ClientError>, Self)> {
        let mut follower = match self {
            Self::Over => return None,
            Self::Open(follower) => follower,
            Self::Unopened(unopened) => match unopened.open().await {
                Ok(follower) => follower,
                Err(error) => return Some((Err(error), Self::Over)),
            },
        };
        loop {
            match follower.next().await {
                Ok(Followed::Change(change)) => {
                    return Some((Ok(CellItem::Change(change)), Self::Open(follower)));
                }
                Ok(Followed::Bookmark(cursor)) => {
                    return Some((Ok(CellItem::Bookmark(cursor)), Self::Open(follower)));
                }
                // This watch has a cursor from the start and so never a snapshot.
                Ok(Followed::SnapshotVoid) => {}
                Ok(Followed::Absent(absence)) => {
                    return Some((Ok(CellItem::Absent(absence)), Self::Open(follower)));
                }
                Ok(Followed::Trimmed(why)) => return Some((Ok(CellItem::Resync(why)), Self::Over)),
                Err(error) => return Some((Err(error), Self::Over)),
            }
        }
    }
}

impl Unopened {
    /// Without a cursor, asks for the present one first. A watch without one would lose changes if its connection broke
    /// before its first message.
    async fn open(self) -> Result<Box<WatchFollower<CellFeed>>, ClientError> {
        let base = match self.resume {
            Some(cursor) => cursor,
            None => present("GetCell", "cursor", self.client.cell_get().await?.1)?,
        };
        Ok(Box::new(WatchFollower::new(self.client, CellFeed { filter: self.filter }, Some(base))))
    }
}
