//! The watch of endpoints, for load balancers and for callers that wait for one.

use borough_proto::v1::name_service_client::NameServiceClient;
use borough_proto::v1::{
    Cursor, Endpoint, EndpointWithdrawn, WatchEndpointsRequest, WatchEndpointsResponse,
    watch_endpoints_response,
};
use futures::{StreamExt as _, stream};
use tonic::{Status, Streaming};

use crate::call::{Client, ItemStream, rpc};
use crate::error::ClientError;
use crate::outage::GatewayAbsence;
use crate::watch::follow::{Followed, WatchFeed, WatchFollower};

/// An item of the watch of endpoints.
#[derive(Clone, Debug)]
pub enum EndpointItem {
    /// Every present endpoint: replaces whatever was known before.
    Snapshot {
        endpoints: Vec<Endpoint>,
        /// A watch from here continues the snapshot.
        cursor: Cursor,
    },
    /// A new or changed endpoint.
    Published(Box<Endpoint>),
    /// An endpoint is gone; its incarnation never comes back.
    Withdrawn(EndpointWithdrawn),
    /// All changes up to the cursor were yielded.
    Bookmark(Cursor),
    /// No gateway answers. The watch goes on as soon as one does; the endpoints of before may be used meanwhile.
    Absent(GatewayAbsence),
    /// The gateway cannot resume this watch; the text says why. A snapshot follows.
    Resync(String),
}

struct EndpointFeed {
    user: String,
    job: String,
}

impl WatchFeed for EndpointFeed {
    type Message = WatchEndpointsResponse;

    async fn open(
        &self,
        client: &Client,
        resume: Option<Cursor>,
    ) -> Result<Streaming<WatchEndpointsResponse>, Status> {
        let message = WatchEndpointsRequest {
            context: client.context_read(),
            cell: client.cell().to_owned(),
            user: self.user.clone(),
            job: self.job.clone(),
            resume,
        };
        client.attempt(message, &rpc!(NameServiceClient.watch_endpoints)).await
    }

    fn cursor(message: &WatchEndpointsResponse) -> Option<&Cursor> {
        message.cursor.as_ref()
    }

    fn is_followed(message: &WatchEndpointsResponse) -> bool {
        message.more
    }

    fn is_bookmark(message: &WatchEndpointsResponse) -> bool {
        match &message.event {
            Some(watch_endpoints_response::Event::Bookmark(_)) => true,
            // A kind of a later version. With more of its commit to come, its cursor is not complete.
            None => !message.more,
            Some(_) => false,
        }
    }
}

impl Client {
    /// Yields the endpoints of a user's job, or of all of the user's jobs if `job` is empty. First comes a snapshot
    /// (unless `resume` is given), then every change, in order, without gaps or repetition over broken connections.
    ///
    /// # Errors
    /// An error, such as a refusal, ends the stream.
    pub fn watch_endpoints(
        &self,
        user: impl Into<String>,
        job: impl Into<String>,
        resume: Option<Cursor>,
    ) -> ItemStream<EndpointItem> {
        let feed = EndpointFeed { user: user.into(), job: job.into() };
        let snapshot = resume.is_none().then(Vec::new);
        let follower = WatchFollower::new(self.clone(), feed, resume);
        let state = Watching { follower, snapshot };
        stream::unfold(Some(state), |state| async move {
            let mut state = state?;
            match state.next().await {
                Ok(item) => Some((Ok(item), Some(state))),
                Err(error) => Some((Err(error), None)),
            }
        })
        .boxed()
    }
}

struct Watching {
    follower: WatchFollower<EndpointFeed>,
    /// The endpoints of an incomplete snapshot. A broken snapshot is never yielded.
    snapshot: Option<Vec<Endpoint>>,
}

impl Watching {
    async fn next(&mut self) -> Result<EndpointItem, ClientError> {
        loop {
            let message = match self.follower.next().await? {
                Followed::Change(message) => *message,
                Followed::Bookmark(cursor) => match self.snapshot.take() {
                    Some(endpoints) => return Ok(EndpointItem::Snapshot { endpoints, cursor }),
                    None => return Ok(EndpointItem::Bookmark(cursor)),
                },
                Followed::SnapshotVoid => {
                    self.snapshot = Some(Vec::new());
                    continue;
                }
                Followed::Absent(absence) => return Ok(EndpointItem::Absent(absence)),
                Followed::Trimmed(why) => {
                    self.snapshot = Some(Vec::new());
                    return Ok(EndpointItem::Resync(why));
                }
            };
            if let Some(item) = self.event(message.event) {
                return Ok(item);
            }
        }
    }

    /// An item, or a part of the snapshot.
    fn event(&mut self, event: Option<watch_endpoints_response::Event>) -> Option<EndpointItem> {
        match (event, &mut self.snapshot) {
            (Some(watch_endpoints_response::Event::Published(endpoint)), Some(snapshot)) => {
                snapshot.push(endpoint);
                None
            }
            (Some(watch_endpoints_response::Event::Published(endpoint)), None) => {
                Some(EndpointItem::Published(Box::new(endpoint)))
            }
            (Some(watch_endpoints_response::Event::Withdrawn(gone)), Some(snapshot)) => {
                snapshot.retain(|known| {
                    (&known.user, &known.job, known.index) != (&gone.user, &gone.job, gone.index)
                });
                None
            }
            (Some(watch_endpoints_response::Event::Withdrawn(gone)), None) => {
                Some(EndpointItem::Withdrawn(gone))
            }
            (Some(watch_endpoints_response::Event::Bookmark(_)) | None, _) => None,
        }
    }
}
