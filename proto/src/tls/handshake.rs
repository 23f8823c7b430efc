//! Why TLS with a server does not begin, in words for people.

use std::error::Error;
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

    /// What a failed connection means, if some cause of the failure is of TLS.
    pub fn found(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(own) = error.downcast_ref::<rustls::Error>().and_then(Self::of) {
                return Some(own);
            }
            // What an error of this type holds is not its source.
            let held = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            cause = held.map(|held| held as &(dyn Error + 'static)).or_else(|| error.source());
        }
        None
    }

    /// A failure of the library in the words here, if it has them.
    pub(super) fn named(error: io::Error) -> io::Error {
        match Self::found(&error) {
            Some(own) => io::Error::new(error.kind(), own),
            None => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_found_wherever_it_is_held() {
        let wrong = || rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let held = io::Error::other(io::Error::other(wrong()));
        assert_eq!(HandshakeError::found(&held), Some(HandshakeError::OtherAuthority));
        assert_eq!(HandshakeError::found(&wrong()), Some(HandshakeError::OtherAuthority));
        assert_eq!(HandshakeError::found(&io::Error::other("no cause")), None);
        assert_eq!(HandshakeError::named(held).to_string(), "its certificate is of another authority");
    }
}
