//! A connection that is plain, or encrypted. The handshake happens with the first bytes, so that a peer that does not
//! finish it delays nobody else and is closed like any other silent one.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use borough_proto::tls::{CertificateName, CertificateNameError, ServerTls, serial_of};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, TlsAcceptor};

/// The certificate that a peer has proven to hold.
#[derive(Clone, Debug)]
pub(crate) struct PeerCertificate {
    pub(crate) name: Result<CertificateName, CertificateNameError>,
    /// As in a list of revoked ones.
    pub(crate) serial: Vec<u8>,
}

/// The bytes of a connection.
pub(super) enum PeerStream {
    Plain(TcpStream),
    Handshake(Box<Accept<TcpStream>>, ServerTls),
    Encrypted(Box<TlsStream<TcpStream>>),
    /// The handshake has failed.
    Broken,
}

impl PeerStream {
    pub(super) fn new(stream: TcpStream, tls: Option<&ServerTls>) -> Self {
        match tls {
            None => Self::Plain(stream),
            Some(tls) => {
                let accept = TlsAcceptor::from(tls.config()).accept(stream);
                Self::Handshake(Box::new(accept), tls.clone())
            }
        }
    }

    /// Goes on with the handshake. Ready with the peer's certificate when it has just ended, if the peer has one.
    pub(super) fn poll_begun(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<Option<PeerCertificate>>> {
        let Self::Handshake(accept, tls) = self else { return Poll::Ready(Ok(None)) };
        match ready!(Pin::new(accept.as_mut()).poll(context)) {
            Ok(stream) => {
                let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
                let certificate = certificates.first().map(|certificate| PeerCertificate {
                    name: tls.name_of(certificate),
                    serial: serial_of(certificate),
                });
                *self = Self::Encrypted(Box::new(stream));
                Poll::Ready(Ok(certificate))
            }
            Err(error) => {
                *self = Self::Broken;
                Poll::Ready(Err(error))
            }
        }
    }

    pub(super) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Encrypted(stream) => Pin::new(stream.as_mut()).poll_read(context, buffer),
            Self::Handshake(..) | Self::Broken => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    pub(super) fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Encrypted(stream) => Pin::new(stream.as_mut()).poll_write_vectored(context, slices),
            Self::Handshake(..) | Self::Broken => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    pub(super) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Encrypted(stream) => Pin::new(stream.as_mut()).poll_flush(context),
            Self::Handshake(..) | Self::Broken => Poll::Ready(Ok(())),
        }
    }

    pub(super) fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Encrypted(stream) => Pin::new(stream.as_mut()).poll_shutdown(context),
            Self::Handshake(..) | Self::Broken => Poll::Ready(Ok(())),
        }
    }
}
