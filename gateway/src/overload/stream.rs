//! The body of a stream's answer. It keeps the stream's place until the stream ends or its reader goes, and ends with
//! the gateway.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::FutureExt as _;
use http::HeaderMap;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::Status;
use tonic::body::Body;

use super::{StreamSeat, ending_status};

pub(super) struct HeldBody {
    body: Body,
    /// The gateway ends its streams. Absent: this one has ended for that.
    cut: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    _seat: StreamSeat,
}

impl HeldBody {
    /// The answer of a stream, until `cut`. Its last message is then a status by which clients resume elsewhere.
    pub(super) fn new(body: Body, seat: StreamSeat, cut: &CancellationToken) -> Self {
        Self { body, cut: Some(Box::pin(cut.clone().cancelled_owned())), _seat: seat }
    }
}

impl HttpBody for HeldBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        // Before the body, which may never be without a message. A frame has whole messages, so none is cut in two.
        match self.cut.as_mut().map(|cut| cut.poll_unpin(context)) {
            None => return Poll::Ready(None),
            Some(Poll::Ready(())) => {
                self.cut = None;
                let mut trailers = HeaderMap::new();
                let added = ending_status().add_header(&mut trailers);
                return Poll::Ready(Some(added.map(|()| Frame::trailers(trailers))));
            }
            Some(Poll::Pending) => {}
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.cut.is_none() || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
