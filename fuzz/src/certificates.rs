//! Certificates of peers, in DER, as a handshake passes them on.
//!
//! Property: no bytes make the reader panic. A name that is accepted is one of a certificate's own forms.

use borough_proto::tls::{CertificateName, serial_of};
use rustls::pki_types::CertificateDer;

/// One certificate.
pub fn run(data: &[u8]) {
    let certificate = CertificateDer::from(data);
    let serial = serial_of(&certificate);
    assert_ne!(serial.first(), Some(&0), "a serial number begins with its first digit");
    if let Ok(name) = CertificateName::of(&certificate, None) {
        let path = name.path();
        let forms = ["operator", "gateway", "control", "user/", "cell/"];
        assert!(forms.iter().any(|form| path.starts_with(form)), "{path}");
    }
}

/// Certificates of a gateway, of a user with groups and of a node.
pub fn corpus() -> Vec<Vec<u8>> {
    include_str!("certificates.hex").lines().filter_map(|line| hex::decode(line).ok()).collect()
}
