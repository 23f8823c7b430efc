//! Whose a certificate is: the URI in it.

use std::collections::BTreeSet;

use borough_model::Name;
use borough_model::access::{GROUPS_MAX, Identity};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use x509_parser::prelude::{FromDer as _, GeneralName, ParsedExtension, X509Certificate, X509Extension};
use x509_parser::revocation_list::CertificateRevocationList;

/// Characters of a URI that an error repeats.
const URI_SHOWN: usize = 200;

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
        "the certificate proves nothing here: the gateway's own has no spiffe:// URI, so no trust domain"
    )]
    Homeless,
    #[error("the certificate is for {uri:?}; accepted: one of the trust domain {own}, as the gateway's own")]
    Domain { uri: String, own: String },
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

    /// Whose a certificate is that was checked to come from a trusted authority. With a `domain`, one of another trust
    /// domain says nothing: an authority may serve several.
    ///
    /// # Errors
    /// It is none of Borough's.
    pub fn of(certificate: &CertificateDer<'_>, domain: Option<&str>) -> Result<Self, CertificateNameError> {
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
        let shown = || uri.chars().take(URI_SHOWN).collect();
        let unknown = || CertificateNameError::Unknown(shown());
        if let Some(domain) = domain.filter(|domain| domain_of_uri(uri) != Some(domain)) {
            return Err(CertificateNameError::Domain { uri: shown(), own: domain.to_owned() });
        }
        let units = parsed.subject().iter_organizational_unit();
        let units = units.filter_map(|unit| unit.as_str().ok()).flat_map(|unit| unit.split(','));
        let groups = units.filter_map(|unit| Name::new(unit.trim()).ok()).take(GROUPS_MAX).collect();
        Self::of_uri(uri, groups).ok_or_else(unknown)
    }

    fn of_uri(uri: &str, groups: BTreeSet<Name>) -> Option<Self> {
        domain_of_uri(uri)?;
        let (_, path) = uri.strip_prefix("spiffe://")?.split_once('/')?;
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

/// The trust domain of a URI: lower-case letters, digits, `.`, `-` and `_`, as the SPIFFE ID standard has it.
fn domain_of_uri(uri: &str) -> Option<&str> {
    let (domain, _) = uri.strip_prefix("spiffe://")?.split_once('/')?;
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_".contains(&byte);
    (!domain.is_empty() && domain.bytes().all(plain)).then_some(domain)
}

/// The trust domain of a certificate; `None` if it has no URI of one.
pub(super) fn domain_of(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let names = parsed.subject_alternative_name().ok()??;
    let mut domains = names.value.general_names.iter().filter_map(|name| match name {
        GeneralName::URI(uri) => domain_of_uri(uri),
        _ => None,
    });
    domains.next().map(str::to_owned)
}

/// The serial number of a certificate, big-endian without leading zeros; empty if it cannot be read.
pub fn serial_of(certificate: &CertificateDer<'_>) -> Vec<u8> {
    let parsed = X509Certificate::from_der(certificate);
    parsed.map(|(_, parsed)| plain(parsed.raw_serial())).unwrap_or_default()
}

/// A list of revoked certificates, read.
#[derive(Debug, Default)]
pub(super) struct RevokedList {
    /// The number of the list, big-endian without leading zeros: a later one is larger. Empty: it has none.
    pub(super) number: Vec<u8>,
    /// Serial numbers, as [`serial_of`] has them.
    pub(super) serials: BTreeSet<Vec<u8>>,
}

impl RevokedList {
    /// Reads a list of one of the authorities.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn of(
        list: &CertificateRevocationListDer<'_>,
        authorities: &[CertificateDer<'_>],
    ) -> Result<Self, &'static str> {
        let (_, list) = CertificateRevocationList::from_der(list)
            .map_err(|_| "it has no list of revoked certificates")?;
        let is_issuer = |authority: &CertificateDer<'_>| {
            let parsed = X509Certificate::from_der(authority);
            parsed.is_ok_and(|(_, parsed)| {
                let keys = (key_id_of(&parsed), list.extensions().iter().find_map(authority_key_id));
                let same_key = !matches!(&keys, (Some(own), Some(named)) if own != named);
                parsed.subject().as_raw() == list.issuer().as_raw() && same_key
            })
        };
        if !authorities.iter().any(is_issuer) {
            return Err("its list is of another authority");
        }
        let number = list.crl_number().map(|number| plain(&number.to_bytes_be())).unwrap_or_default();
        let serials = list.iter_revoked_certificates().map(|revoked| plain(revoked.raw_serial())).collect();
        Ok(Self { number, serials })
    }

    /// Returns true if it was made before another one.
    pub(super) fn is_before(&self, other: &Self) -> bool {
        (self.number.len(), &self.number) < (other.number.len(), &other.number)
    }
}

fn key_id_of(certificate: &X509Certificate<'_>) -> Option<Vec<u8>> {
    certificate.extensions().iter().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
        _ => None,
    })
}

fn authority_key_id(extension: &X509Extension<'_>) -> Option<Vec<u8>> {
    match extension.parsed_extension() {
        ParsedExtension::AuthorityKeyIdentifier(id) => Some(id.key_identifier.as_ref()?.0.to_vec()),
        _ => None,
    }
}

fn plain(serial: &[u8]) -> Vec<u8> {
    serial.iter().copied().skip_while(|byte| *byte == 0).collect()
}
