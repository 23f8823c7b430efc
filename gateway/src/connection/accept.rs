//! Accepts connections. The stream never ends over an error. Each connection is closed in time if it presents no token.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use borough_proto::tls::ServerTls;
use futures::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::time::Sleep;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::transport::server::Connected;

use super::tls::PeerStream;
use super::{ConnectionMark, Connections};

/// Pause after an error of the machine (usually no free descriptor), in which connections may close.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long an evicted connection has to finish a request that it has begun: its token may be on the way.
const EVICTION_GRACE: Duration = Duration::from_secs(1);

/// Accepts the connections of `listener` within the limits.
pub(crate) fn connections_accept(
    listener: TcpListener,
    connections: Connections,
    tls: Option<ServerTls>,
) -> impl Stream<Item = io::Result<AcceptedConnection>> + Send {
    async_stream::stream! {
        let mut failing = false;
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    failing = false;
                    // A refused connection is closed here.
                    let Some((mark, evicted)) = connections.admit(peer.ip()) else { continue };
                    // Without this, a small message waits up to 40 ms for the acknowledgement of the one before.
                    if let Err(error) = stream.set_nodelay(true) {
                        tracing::debug!(%error, "the client has closed a connection already");
                    }
                    let deadline = tokio::time::sleep(connections.0.limits.unauthenticated_for);
                    let evicted = Some(Box::pin(evicted.cancelled_owned()));
                    let stream = PeerStream::new(stream, tls.as_ref());
                    yield Ok(AcceptedConnection {
                        stream,
                        mark,
                        deadline: Box::pin(deadline),
                        evicted,
                        cut: None,
                        received: false,
                    });
                }
                Err(error) => {
                    if !std::mem::replace(&mut failing, true) {
                        tracing::warn!(%error, "the gateway cannot accept a connection; it closes connections without a token");
                    }
                    connections.shed();
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// One connection, counted from its acceptance to its end.
pub(crate) struct AcceptedConnection {
    stream: PeerStream,
    mark: ConnectionMark,
    deadline: Pin<Box<Sleep>>,
    /// Completes when the connection is evicted for another; `None` after that was seen.
    evicted: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    /// Completes when the peer's certificate is revoked; `None` without one.
    cut: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    /// Whether any byte was received.
    received: bool,
}

impl AcceptedConnection {
    /// The handle by which its requests authenticate it.
    pub(crate) fn mark(&self) -> ConnectionMark {
        self.mark.clone()
    }

    /// Passes on the outcome of a call, or the reason to close the connection. Checked at every call, ready or not. A
    /// peer that sends without end, or reads nothing, therefore keeps its place no longer than a silent one.
    fn in_time<T>(&mut self, context: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match self.poll_overdue(context) {
            Poll::Ready(error) => Poll::Ready(Err(error)),
            Poll::Pending => outcome,
        }
    }

    /// Goes on with the handshake of an encrypted connection.
    fn poll_begun(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let begun = self.stream.poll_begun(context);
        if let Poll::Ready(Ok(Some(certificate))) = begun {
            self.cut = Some(Box::pin(self.mark.certify(certificate).cancelled_owned()));
            return Poll::Ready(Ok(()));
        }
        begun.map_ok(drop)
    }

    /// The reason to close a connection without a token, once it is overdue.
    fn poll_overdue(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        if let Some(cut) = &mut self.cut
            && cut.as_mut().poll(context).is_ready()
        {
            self.cut = None;
            self.stream = PeerStream::Broken;
            return Poll::Ready(io::ErrorKind::ConnectionAborted.into());
        }
        if self.mark.is_authenticated() {
            return Poll::Pending;
        }
        if let Some(evicted) = &mut self.evicted
            && evicted.as_mut().poll(context).is_ready()
        {
            self.evicted = None;
            if !self.received {
                return Poll::Ready(io::ErrorKind::ConnectionAborted.into());
            }
            self.deadline.set(tokio::time::sleep(EVICTION_GRACE));
        }
        match self.deadline.as_mut().poll(context) {
            Poll::Ready(()) => {
                self.mark.timed_out();
                Poll::Ready(io::ErrorKind::TimedOut.into())
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Drop for AcceptedConnection {
    fn drop(&mut self) {
        self.mark.close();
    }
}

impl Connected for AcceptedConnection {
    type ConnectInfo = ConnectionMark;

    fn connect_info(&self) -> ConnectionMark {
        self.mark()
    }
}

impl AsyncRead for AcceptedConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let begun = self.poll_begun(context);
        if !matches!(begun, Poll::Ready(Ok(()))) {
            return self.in_time(context, begun);
        }
        let before = buffer.filled().len();
        let read = self.stream.poll_read(context, buffer);
        self.received |= buffer.filled().len() > before;
        self.in_time(context, read)
    }
}

impl AsyncWrite for AcceptedConnection {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = match self.poll_begun(context) {
            Poll::Ready(Ok(())) => self.stream.poll_write(context, slices),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        };
        self.in_time(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = self.stream.poll_flush(context);
        self.in_time(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use prometheus_client::registry::Registry;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    use super::*;
    use crate::connection::ConnectionLimits;

    /// A test waits this long for anything that must happen.
    const DEADLINE: Duration = Duration::from_secs(60);

    /// A connection as the gateway holds it, with its peer.
    async fn pair() -> (AcceptedConnection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let limits = ConnectionLimits {
            unauthenticated_for: Duration::from_millis(100),
            ..ConnectionLimits::of_descriptors(1_024)
        };
        let connections = Connections::new(limits, &mut Registry::default());
        let peer = TcpStream::connect(address).await.unwrap();
        let mut accepted = Box::pin(connections_accept(listener, connections, None));
        (accepted.next().await.unwrap().unwrap(), peer)
    }

    #[tokio::test]
    async fn a_peer_that_reads_nothing_is_closed_in_time() {
        let (mut connection, _peer) = pair().await;
        let answers = [0; 65_536];
        let writing = async { while connection.write_all(&answers).await.is_ok() {} };
        tokio::time::timeout(DEADLINE, writing).await.unwrap();
        assert_eq!(connection.write(&answers).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_peer_that_sends_without_end_is_closed_in_time() {
        let (mut connection, mut peer) = pair().await;
        let sending = tokio::spawn(async move { while peer.write_all(&[0; 1_024]).await.is_ok() {} });
        let mut buffer = [0; 4_096];
        let reading = async { while connection.read(&mut buffer).await.is_ok() {} };
        tokio::time::timeout(DEADLINE, reading).await.unwrap();
        drop(connection);
        sending.await.unwrap();
    }
}
