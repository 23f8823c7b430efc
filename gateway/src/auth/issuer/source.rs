//! Where the public keys of an issuer are published.

use std::path::PathBuf;

use super::{IssuerRefused, IssuerSettings};

/// The scheme of every address from which keys are fetched: whoever could change an answer would be every user.
const SCHEME: &str = "https://";
/// The document of a provider that says where its keys are (OpenID Connect Discovery 1.0, section 4).
const DISCOVERY_PATH: &str = "/.well-known/openid-configuration";

/// Where the public keys of an issuer are published.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeySource {
    pub issuer: String,
    /// Absent: the discovery document of the issuer says it.
    pub jwks_url: Option<String>,
    /// A file (PEM) with the authorities of the provider's certificate. Absent: those of the system.
    pub ca: Option<PathBuf>,
}

impl KeySource {
    /// The source that the settings name; `None`: they have the keys themselves.
    pub(super) fn of(settings: &IssuerSettings) -> Result<Option<Self>, IssuerRefused> {
        let IssuerSettings { issuer, jwks, jwks_url, jwks_ca, .. } = settings;
        if jwks.is_some() {
            return match (jwks_url, jwks_ca) {
                (Some(_), _) => Err(IssuerRefused::TwoSources("jwks_url")),
                (None, Some(_)) => Err(IssuerRefused::TwoSources("jwks_ca")),
                (None, None) => Ok(None),
            };
        }
        let (field, address) = jwks_url.as_ref().map_or(("issuer", issuer), |url| ("jwks_url", url));
        let source = Self { issuer: issuer.clone(), jwks_url: jwks_url.clone(), ca: jwks_ca.clone() };
        if Self::is_secure(address) {
            return Ok(Some(source));
        }
        Err(IssuerRefused::NotHttps { field, value: address.clone() })
    }

    /// Whether keys may be fetched from this address.
    pub fn is_secure(address: &str) -> bool {
        address.strip_prefix(SCHEME).is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
    }

    /// The address of the issuer's discovery document.
    pub fn discovery_url(&self) -> String {
        format!("{}{DISCOVERY_PATH}", self.issuer.trim_end_matches('/'))
    }
}
