//! Who signs the identities of a cell's tasks, as others know it.

use std::fmt;
use std::str::FromStr;

use borough_model::Name;
use http::Uri;

use super::keyring::{KeyringMirror, WorkloadStore};

/// Most bytes of such a URL: it is in every token.
const URL_BYTES_MAX: usize = 256;

/// Where others reach the HTTP port of the gateways of a cell, such as `https://cells.example.org`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityUrl {
    /// Without a slash at its end.
    text: String,
    /// Its host: the trust domain of SPIFFE IDs.
    host: String,
}

/// A text that is no such URL. Give a scheme, a host and perhaps a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "accepted: https://HOST[:PORT][/PATH] with a name or an IPv4 address as host, such as https://cells.example.org"
)]
pub struct IdentityUrlError;

impl Default for IdentityUrl {
    /// A name of nobody: whoever checks tokens is given the keys, or an address of a gateway.
    fn default() -> Self {
        Self { text: "https://borough.internal".to_owned(), host: "borough.internal".to_owned() }
    }
}

impl fmt::Display for IdentityUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for IdentityUrl {
    type Err = IdentityUrlError;

    fn from_str(text: &str) -> Result<Self, IdentityUrlError> {
        let uri: Uri = text.parse().map_err(|_| IdentityUrlError)?;
        let host = uri.host().unwrap_or_default();
        // The characters of a trust domain (SPIFFE ID, section 2.1).
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_".contains(&byte);
        let is_domain = !host.is_empty() && host.bytes().all(inner);
        let is_plain = text.len() <= URL_BYTES_MAX && uri.query().is_none() && !text.contains(['#', '@']);
        if !matches!(uri.scheme_str(), Some("https" | "http")) || !is_domain || !is_plain {
            return Err(IdentityUrlError);
        }
        Ok(Self { text: text.trim_end_matches('/').to_owned(), host: host.to_owned() })
    }
}

/// The issuer of a cell's identities, and its keys.
pub(crate) struct WorkloadIssuer {
    pub(crate) names: IssuerNames,
    pub(crate) keys: KeyringMirror,
}

/// What tokens and documents call the issuer of a cell, and its tasks.
#[derive(Clone, Debug)]
pub(crate) struct IssuerNames {
    /// The claim `iss`.
    pub(crate) issuer: String,
    /// The beginning of each SPIFFE ID.
    spiffe: String,
}

impl WorkloadIssuer {
    /// The issuer of `cell` behind `url`, with the keys of `store`.
    pub(crate) fn new(url: &IdentityUrl, cell: &Name, store: WorkloadStore) -> Self {
        Self { names: IssuerNames::new(url, cell), keys: KeyringMirror::new(store) }
    }
}

impl IssuerNames {
    fn new(url: &IdentityUrl, cell: &Name) -> Self {
        let issuer = format!("{url}/v1/cells/{cell}");
        Self { issuer, spiffe: format!("spiffe://{}/cell/{cell}", url.host) }
    }

    /// The SPIFFE ID of a task.
    pub(super) fn spiffe_id(&self, user: &Name, job: &Name, index: u32) -> String {
        format!("{}/user/{user}/job/{job}/task/{index}", self.spiffe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_has_an_issuer_and_a_domain_of_its_own() {
        let name = |text| Name::new(text).unwrap();
        let url: IdentityUrl = "https://id.example.org:7401/borough/".parse().unwrap();
        let issuer = IssuerNames::new(&url, &name("alpha"));
        assert_eq!(issuer.issuer, "https://id.example.org:7401/borough/v1/cells/alpha");
        let id = issuer.spiffe_id(&name("ann"), &name("web"), 3);
        assert_eq!(id, "spiffe://id.example.org/cell/alpha/user/ann/job/web/task/3");
        assert_eq!(IdentityUrl::default().to_string().parse(), Ok(IdentityUrl::default()));
    }

    #[test]
    fn a_text_that_is_no_url_of_a_domain_is_refused() {
        for bad in [
            "",
            "id.example.org",
            "ftp://a",
            "https://",
            "https://a?b",
            "https://u@a",
            "https://[::1]",
            "https://A",
        ] {
            assert_eq!(bad.parse::<IdentityUrl>(), Err(IdentityUrlError), "{bad}");
        }
    }
}
