//! Accepts the HTTP connections of a gateway.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio_util::sync::CancellationToken;

use super::KEEP_ALIVE;
use crate::connection::AcceptedConnection;
use crate::http::HttpServer;

/// How long a connection may wait for its next request.
const HTTP_IDLE: Duration = Duration::from_secs(30);

/// Answers on each connection until it ends or `cancelled`.
pub(super) async fn http_answer(
    incoming: impl Stream<Item = io::Result<AcceptedConnection>>,
    cell: Arc<HttpServer>,
    cancelled: CancellationToken,
) {
    let mut incoming = pin!(incoming);
    loop {
        let accepted = tokio::select! {
            accepted = incoming.next() => accepted,
            () = cancelled.cancelled() => return,
        };
        let Some(Ok(stream)) = accepted else { return };
        let (cell, cancelled, mark) = (Arc::clone(&cell), cancelled.clone(), stream.mark());
        tokio::spawn(async move {
            let answer = |request| Arc::clone(&cell).answer(request, mark.clone());
            let mut builder = auto::Builder::new(TokioExecutor::new());
            builder.http1().timer(TokioTimer::new()).header_read_timeout(HTTP_IDLE);
            builder
                .http2()
                .timer(TokioTimer::new())
                .keep_alive_interval(KEEP_ALIVE)
                .keep_alive_timeout(KEEP_ALIVE);
            let service = hyper::service::service_fn(answer);
            let connection = builder.serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                // A peer may disconnect at any time.
                _ = connection => {}
                () = cancelled.cancelled() => {}
            }
        });
    }
}
