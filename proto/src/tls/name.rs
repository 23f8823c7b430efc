//! Whose a certificate is: the URI in it.

use std::collections::BTreeSet;

use borough_model::Name;
use borough_model::access::{GROUPS_MAX, Identity};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};
use x509_parser::revocation_list::CertificateRevocationList;

/// Who the holder of a certificate is. The URI is `spiffe://TRUST_DOMAIN/` and what stands here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateName {
    /// `operator`: may do everything.
    Operator,
    /// `gateway`: a server.
    Gateway,
    /// `control`: a scheduler or a controller, which answer for their health.
    Control,
    /// `cell/CELL/node/NODE`: the agent of one node.
    Node { cell: Name, node: Name },
    /// `user/USER`: a user. The organisational units of its subject are the user's groups, or
    /// several of them with commas between.
    User(Identity),
}

/// A certificate that says nothing Borough knows. Issue another one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateNameError {
    #[error("the certificate cannot be read")]
    Damaged,
    #[error("the certificate has {0} URIs; accepted: one, spiffe://DOMAIN/user/NAME for example")]
    Uris(usize),
    #[error(
        "the certificate is for {0:?}; accepted: spiffe://DOMAIN/ and operator, gateway, control, user/NAME or \
         cell/CELL/node/NODE"
    )]
    Unknown(String),
}

impl CertificateName {
    /// The path of its URI.
    pub fn path(&self) -> String {
        match self {
            Self::Operator => "operator".to_owned(),
            Self::Gateway => "gateway".to_owned(),
            Self::Control => "control".to_owned(),
            Self::Node { cell, node } => format!("cell/{cell}/node/{node}"),
            Self::User(identity) => format!("user/{}", identity.user),
        }
    }

    /// Whose a certificate is that was checked to come from a trusted authority.
    ///
    /// # Errors
    /// It is none of Borough's.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, CertificateNameError> {
        let (_, parsed) =
            X509Certificate::from_der(certificate).map_err(|_| CertificateNameError::Damaged)?;
        let names = parsed.subject_alternative_name().map_err(|_| CertificateNameError::Damaged)?;
        let names = names.map(|names| names.value.general_names.as_slice()).unwrap_or_default();
        let uris = names.iter().filter_map(|name| match name {
            GeneralName::URI(uri) => Some(*uri),
            _ => None,
        });
        let uris: Vec<&str> = uris.collect();
        let [uri] = uris[..] else { return Err(CertificateNameError::Uris(uris.len())) };
        let unknown = || CertificateNameError::Unknown(uri.chars().take(200).collect());
        let units = parsed.subject().iter_organizational_unit();
        let units = units.filter_map(|unit| unit.as_str().ok()).flat_map(|unit| unit.split(','));
        let groups = units.filter_map(|unit| Name::new(unit.trim()).ok()).take(GROUPS_MAX).collect();
        Self::of_uri(uri, groups).ok_or_else(unknown)
    }

    fn of_uri(uri: &str, groups: BTreeSet<Name>) -> Option<Self> {
        let (domain, path) = uri.strip_prefix("spiffe://")?.split_once('/')?;
        if domain.is_empty() {
            return None;
        }
        let parts: Vec<&str> = path.split('/').collect();
        match parts[..] {
            ["operator"] => Some(Self::Operator),
            ["gateway"] => Some(Self::Gateway),
            ["control"] => Some(Self::Control),
            ["user", user] => Some(Self::User(Identity { user: Name::new(user).ok()?, groups })),
            ["cell", cell, "node", node] => {
                Some(Self::Node { cell: Name::new(cell).ok()?, node: Name::new(node).ok()? })
            }
            _ => None,
        }
    }
}

/// The serial number of a certificate, big-endian without leading zeros; empty if it cannot be read.
pub fn serial_of(certificate: &CertificateDer<'_>) -> Vec<u8> {
    let parsed = X509Certificate::from_der(certificate);
    parsed.map(|(_, parsed)| plain(parsed.raw_serial())).unwrap_or_default()
}

/// The serial numbers of a list, as [`serial_of`] has them.
pub(super) fn revoked_serials(list: &CertificateRevocationListDer<'_>) -> Vec<Vec<u8>> {
    let Ok((_, list)) = CertificateRevocationList::from_der(list) else { return Vec::new() };
    list.iter_revoked_certificates().map(|revoked| plain(revoked.raw_serial())).collect()
}

fn plain(serial: &[u8]) -> Vec<u8> {
    serial.iter().copied().skip_while(|byte| *byte == 0).collect()
}
