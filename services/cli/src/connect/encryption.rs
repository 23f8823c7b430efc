//! What encryption has to do with a gateway that does not answer.

use std::path::Path;

use borough_proto::tls::{HandshakeError, TlsFiles};

use super::port::is_loopback;
use super::{ConnectSettings, context, settings};
use crate::args::{Global, OptionSource};
use crate::exit::Failure;

/// What the client says of a port that answers without encryption, as the HTTP port of a gateway.
const HTTP_PORT: &str = "is the HTTP port of a gateway";

/// What the client says of a port that does not speak HTTP, as one that is encrypted and is asked in plain text.
const SPEAKS_OTHERWISE: &str = " is no gateway, but a service that speaks otherwise";

/// Adds what encryption has to do with a gateway that does not answer, if it listens at all.
pub(super) fn encryption_explained(global: &Global, failure: Failure) -> Failure {
    let says = |words: &str| failure.message().contains(words);
    let listens = !says("refused") && !says("has no address") && !says(HTTP_PORT);
    let Some(settings) = settings(global).ok().filter(|_| listens) else { return failure };
    let is_of_gateway = settings.gateways.iter().any(|gateway| failure.message().contains(gateway.as_str()));
    let is_dev = context(global).ok().flatten().is_none() && global.gateway.is_empty();
    if !is_of_gateway || is_dev {
        return failure;
    }
    explained(&settings, global.sources.tls_ca, failure)
}

/// The failure to reach the gateway of such settings, whose authority is named by `source`.
fn explained(settings: &ConnectSettings, source: OptionSource, failure: Failure) -> Failure {
    let Some(files) = &settings.tls else { return of_plain(settings, failure) };
    if let Some(message) = handshake_text(files, source, failure.message()) {
        // The message says what to do: another gateway is no remedy.
        return Failure::new(failure.code(), message).with_details(failure.details().to_vec());
    }
    let text = match &files.certificate {
        Some(certificate) => format!(
            "the gateway may not accept the certificate {}: it may be expired, revoked, or of another authority",
            certificate.display()
        ),
        None => {
            format!("the gateway must show a certificate of the authority in {}", files.authorities.display())
        }
    };
    with_detail(failure, text)
}

/// A connection in plain text.
fn of_plain(settings: &ConnectSettings, failure: Failure) -> Failure {
    if let Some((gateway, _)) = failure.message().split_once(SPEAKS_OTHERWISE) {
        let message =
            format!("{gateway} speaks TLS or is no gateway: give --tls-ca FILE if it has a certificate");
        let hint = failure.hint().unwrap_or_default().to_owned();
        return Failure::new(failure.code(), message).with_hint(hint);
    }
    // A gateway on this machine needs no encryption, and may have it.
    let text = if settings.gateways.iter().all(|gateway| is_loopback(gateway)) {
        "the connection is not encrypted; if the gateway has a certificate: --tls-ca FILE"
    } else {
        "the connection is not encrypted, and a gateway beyond loopback needs that: --tls-ca FILE"
    };
    with_detail(failure, text.to_owned())
}

fn with_detail(failure: Failure, text: String) -> Failure {
    let mut details = failure.details().to_vec();
    details.push(text);
    failure.with_details(details)
}

/// What is wrong with the encryption, and with which file, if the failure says how the handshake ended.
fn handshake_text(files: &TlsFiles, source: OptionSource, message: &str) -> Option<String> {
    let (gateways, cause) = message.strip_prefix("no gateway answers at ")?.split_once(" (")?;
    let is = |error: HandshakeError| cause.starts_with(&error.to_string());
    let option = match source {
        OptionSource::Line => "--tls-ca",
        OptionSource::Environment => "BOROUGH_TLS_CA",
        OptionSource::File => "the certificates in the context",
    };
    if is(HandshakeError::Plain) {
        return Some(format!("the gateway at {gateways} speaks no TLS: leave out {option}"));
    }
    if is(HandshakeError::OtherAuthority) {
        let authority = files.authorities.display();
        return Some(format!(
            "the certificate of the gateway at {gateways} is not of the authority in {authority}; accepted: \
             --tls-ca with the file of its authority"
        ));
    }
    if is(HandshakeError::OtherName) {
        return Some(format!(
            "the certificate of the gateway at {gateways} is for other names; accepted: --gateway with a name of it"
        ));
    }
    if is(HandshakeError::Refused) {
        return Some(match files.certificate.as_deref().map(Path::display) {
            Some(certificate) => format!(
                "the gateway at {gateways} does not accept the certificate {certificate}: it is expired, revoked, or of \
                 another authority"
            ),
            None => format!(
                "the gateway at {gateways} needs a certificate; accepted: --tls-cert FILE --tls-key FILE"
            ),
        });
    }
    let own = [HandshakeError::Expired, HandshakeError::Early, HandshakeError::Unfit];
    let found = own.into_iter().find(|error| is(*error))?.to_string();
    let what = found.trim_start_matches("its certificate ");
    Some(format!("the certificate of the gateway at {gateways} {what}; its operator gives it another"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Code;

    fn of(cause: &str, certificate: Option<&str>) -> Failure {
        let tls = TlsFiles {
            authorities: "ca.pem".into(),
            certificate: certificate.map(Into::into),
            ..TlsFiles::default()
        };
        let settings = ConnectSettings {
            gateways: vec!["g:1".to_owned()],
            token: None,
            cell: String::new(),
            tls: Some(tls),
            federation: String::new(),
        };
        let failure = Failure::new(Code::Unreachable, format!("no gateway answers at g:1 ({cause})"))
            .with_hint("start one with `borough dev`");
        explained(&settings, OptionSource::Line, failure)
    }

    #[test]
    fn the_end_of_a_handshake_says_what_to_change() {
        for (error, begin) in [
            (HandshakeError::Plain, "the gateway at g:1 speaks no TLS: leave out --tls-ca"),
            (
                HandshakeError::OtherAuthority,
                "the certificate of the gateway at g:1 is not of the authority in ca.pem; accepted: --tls-ca",
            ),
            (
                HandshakeError::OtherName,
                "the certificate of the gateway at g:1 is for other names; accepted: ",
            ),
            (HandshakeError::Expired, "the certificate of the gateway at g:1 has expired; "),
            (HandshakeError::Unfit, "the certificate of the gateway at g:1 is none of a server; "),
            (HandshakeError::Refused, "the gateway at g:1 does not accept the certificate own.pem: "),
        ] {
            let failure = of(&error.to_string(), Some("own.pem"));
            assert!(failure.message().starts_with(begin), "{failure:?}");
            assert!(failure.details().is_empty() && failure.hint().is_none(), "{failure:?}");
            assert_eq!(failure.code(), Code::Unreachable);
        }
    }

    #[test]
    fn another_failure_may_be_one_of_the_certificate() {
        let failure = of("it closed the connection", Some("own.pem"));
        let [detail] = failure.details() else { panic!("{failure:?}") };
        assert!(detail.starts_with("the gateway may not accept the certificate own.pem"), "{detail}");
        assert!(failure.hint().is_some());
    }
}
