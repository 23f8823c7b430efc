//! The first bytes that a server sends. A gateway begins with the settings of HTTP/2, and most other servers do not.
//!
//! A library that speaks HTTP/2 may close such a connection before the first call is on its way. The call then fails
//! because its connection was closed, which says nothing of the server. So the bytes themselves are looked at.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that decide: the length of the first frame, and its kind.
const HEAD_BYTES: usize = 4;
/// The kind of the frame with which each side of HTTP/2 begins.
const SETTINGS: u8 = 4;

/// How the server of the last connection to an address has begun.
#[derive(Debug, Default)]
pub struct ServerGreeting(AtomicBool);

impl ServerGreeting {
    /// Returns true if it speaks no HTTP/2.
    pub fn is_foreign(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Whether a server that begins like this speaks HTTP/2; `None` if more bytes decide.
fn speaks_http2(head: &[u8]) -> Option<bool> {
    match *head {
        [] => None,
        // No server has 64 KiB of settings.
        [first, ..] if first != 0 => Some(false),
        [_, _, _, kind, ..] => Some(kind == SETTINGS),
        _ => None,
    }
}

/// A connection, with a note of how its server begins.
pub(crate) struct GreetedConnection<S> {
    stream: S,
    greeting: Arc<ServerGreeting>,
    /// The first bytes.
    head: Vec<u8>,
    decided: bool,
}

impl<S> GreetedConnection<S> {
    pub(crate) fn new(stream: S, greeting: Arc<ServerGreeting>) -> Self {
        Self { stream, greeting, head: Vec::new(), decided: false }
    }

    fn note(&mut self, bytes: &[u8]) {
        if self.decided {
            return;
        }
        self.head.extend(bytes.iter().take(HEAD_BYTES - self.head.len().min(HEAD_BYTES)));
        if let Some(http2) = speaks_http2(&self.head) {
            self.decided = true;
            self.greeting.0.store(!http2, Ordering::Relaxed);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for GreetedConnection<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buffer);
        this.note(buffer.filled().get(before..).unwrap_or_default());
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for GreetedConnection<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[test]
    fn a_server_of_http2_is_told_by_its_first_bytes() {
        assert_eq!((speaks_http2(b""), speaks_http2(&[0, 0, 12])), (None, None));
        assert_eq!(speaks_http2(&[0, 0, 12, SETTINGS, 0]), Some(true));
        assert_eq!(speaks_http2(&[0, 0, 12, 7, 0]), Some(false));
        for other in [&b"SSH-2.0-x\r\n"[..], b"HTTP/1.0 400 Bad Request\r\n", b"H", &[0xff], &[0x15, 3, 3]] {
            assert_eq!(speaks_http2(other), Some(false), "{other:?}");
        }
    }

    #[tokio::test]
    async fn the_last_connection_says_what_the_server_is() {
        let greeting = Arc::new(ServerGreeting::default());
        for (parts, foreign) in [
            (&[&b"SSH-2.0-x\r\n"[..]][..], true),
            (&[&[0, 0][..], &[12, SETTINGS, 0, 0, 0, 0, 0]], false),
            (&[b"HTTP/1.1 400"], true),
            // It has said nothing.
            (&[], true),
        ] {
            let (near, mut far) = tokio::io::duplex(64);
            let mut near = GreetedConnection::new(near, Arc::clone(&greeting));
            let mut read = 0;
            for part in parts {
                far.write_all(part).await.unwrap();
                let mut bytes = [0; 64];
                read += near.read(&mut bytes).await.unwrap();
                assert_eq!(bytes.get(..part.len()).unwrap(), *part);
            }
            assert_eq!(read, parts.iter().map(|part| part.len()).sum::<usize>());
            assert_eq!(greeting.is_foreign(), foreign, "{parts:?}");
        }
    }
}
