//! Why TLS with a server does not begin, in words for people.

use std::io;

use rustls::CertificateError;

/// What the server at the other end is, instead of one that this side trusts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// Connect without encryption, if the server is on this machine.
    #[error("it speaks no TLS")]
    Plain,
    /// Trust the authority of the server.
    #[error("its certificate is of another authority")]
    OtherAuthority,
    /// Connect by a name that the certificate has.
    #[error("its certificate is for other names")]
    OtherName,
    /// The server needs a new certificate.
    #[error("its certificate has expired")]
    Expired,
    /// Look at the clocks of both sides.
    #[error("its certificate is not valid yet")]
    Early,
    /// The certificate is not one for servers, or is damaged.
    #[error("its certificate is none of a server")]
    Unfit,
    /// The server refused this side or its certificate.
    #[error("it does not accept the certificate")]
    Refused,
}

impl HandshakeError {
    fn of(error: &rustls::Error) -> Option<Self> {
        Some(match error {
            rustls::Error::InvalidMessage(_) | rustls::Error::InappropriateMessage { .. } => Self::Plain,
            rustls::Error::AlertReceived(_) => Self::Refused,
            rustls::Error::InvalidCertificate(why) => Self::of_certificate(why),
            _ => return None,
        })
    }

    fn of_certificate(why: &CertificateError) -> Self {
        match why {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => Self::OtherAuthority,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Self::OtherName
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Self::Early,
            _ => Self::Unfit,
        }
    }

    /// A failure of the library in the words here, if it has them.
    pub(super) fn named(error: io::Error) -> io::Error {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match inner.and_then(Self::of) {
            Some(own) => io::Error::new(error.kind(), own),
            None => error,
        }
    }
}
