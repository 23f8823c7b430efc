//! Connections of xDS: a bounded number, each of which says within a time that it speaks HTTP/2.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::{Connected, TcpConnectInfo};

use crate::listen::{ConnectionPlace, ConnectionPlaces};

/// How long a connection may take to begin.
const BEGIN_WAIT: Duration = Duration::from_secs(10);
/// Pause between two looks at a connection that has begun to begin.
const BEGIN_LOOK: Duration = Duration::from_millis(50);
/// The bytes with which every client of HTTP/2 begins.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Pause after an error of the machine (usually no free descriptor).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Connections that wait for the server.
const WAITING_MAX: usize = 64;

/// A connection that holds its place.
#[derive(Debug)]
pub(super) struct PlacedStream {
    stream: TcpStream,
    _place: ConnectionPlace,
}

/// Accepts as many connections at a time as there are places. More are closed at once.
pub(super) fn connections(
    listener: TcpListener,
    places: ConnectionPlaces,
    cancelled: CancellationToken,
) -> mpsc::Receiver<io::Result<PlacedStream>> {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    tokio::spawn(async move {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = cancelled.cancelled() => return,
            };
            let Ok((stream, client)) = accepted else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let Some(place) = places.take(client.ip()) else { continue };
            stream.set_nodelay(true).ok();
            let sender = sender.clone();
            tokio::spawn(async move {
                let begun = tokio::time::timeout(BEGIN_WAIT, begins(&stream)).await;
                if matches!(begun, Ok(Ok(true))) {
                    sender.send(Ok(PlacedStream { stream, _place: place })).await.ok();
                }
            });
        }
    });
    receiver
}

/// Waits for the first bytes. Returns true if they are those of HTTP/2.
async fn begins(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0; PREFACE.len()];
    loop {
        let length = stream.peek(&mut first).await?;
        if length == 0 || first[..length] != PREFACE[..length] {
            return Ok(false);
        }
        if length == PREFACE.len() {
            return Ok(true);
        }
        tokio::time::sleep(BEGIN_LOOK).await;
    }
}

impl Connected for PlacedStream {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for PlacedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for PlacedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    async fn listener() -> (TcpListener, std::net::SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    #[tokio::test]
    async fn more_connections_than_places_are_closed_and_a_place_is_free_again() {
        let (listener, address) = listener().await;
        let mut accepted = connections(listener, ConnectionPlaces::new(1), CancellationToken::new());
        let mut first = TcpStream::connect(address).await.unwrap();
        first.write_all(PREFACE).await.unwrap();
        let held = accepted.recv().await.unwrap().unwrap();
        let mut second = TcpStream::connect(address).await.unwrap();
        let closed = second.read(&mut [0; 1]).await;
        assert!(matches!(closed, Ok(0) | Err(_)), "{closed:?}");
        drop(held);
        let again = async {
            loop {
                let mut third = TcpStream::connect(address).await.unwrap();
                third.write_all(PREFACE).await.ok();
                if let Ok(Some(Ok(held))) =
                    tokio::time::timeout(Duration::from_millis(200), accepted.recv()).await
                {
                    return held;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(30), again).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_does_not_begin_is_closed() {
        let (listener, address) = listener().await;
        let mut accepted = connections(listener, ConnectionPlaces::new(8), CancellationToken::new());
        for begin in [&b""[..], &PREFACE[..10], b"GET / HTTP/1.1\r\n\r\n........"] {
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(begin).await.unwrap();
            let closed = tokio::time::timeout(BEGIN_WAIT * 2, client.read(&mut [0; 1])).await.unwrap();
            assert!(matches!(closed, Ok(0) | Err(_)), "{begin:?}: {closed:?}");
        }
        assert!(accepted.try_recv().is_err());
    }
}
