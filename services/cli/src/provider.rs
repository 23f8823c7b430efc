//! Requests to OpenID providers. Each is encrypted and bounded in time and length.

use std::path::{Path, PathBuf};
use std::time::Duration;

use borough_gateway::auth::KeySource;
use borough_proto::tls::HandshakeError;
use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::{ClientConfig, RootCertStore};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::exit::cause_text;

/// Longest time of one request.
const REQUEST_MAX: Duration = Duration::from_secs(10);
/// Longest answer of a provider, in bytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Why a provider was not asked, or has not answered as it should.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProviderError {
    /// Correct the address.
    #[error("{0} is no address; accepted: a URL that begins with https://")]
    Address(String),
    /// Name a file with PEM that this user may read.
    #[error("the authorities of {} cannot be read: {why}", path.display())]
    Authorities { path: PathBuf, why: String },
    /// Name the certificate of the authority that signs that of the provider.
    #[error("{} has no certificate of an authority", .0.display())]
    NoAuthority(PathBuf),
    /// Name the authorities in a file.
    #[error("the authorities of this system cannot be read")]
    System(#[source] std::io::Error),
    /// Try again, or look at the provider.
    #[error("{url} does not answer: {why}")]
    Silent { url: String, why: String },
    /// Do what the cause says.
    #[error("{url} cannot be asked: {why}")]
    Encryption { url: String, why: HandshakeError },
    /// Try again, or look at the provider.
    #[error("{url} has not answered within {} s", REQUEST_MAX.as_secs())]
    Slow { url: String },
    /// Correct the address.
    #[error("{url} answers with HTTP status {status}; accepted: 200")]
    Status { url: String, status: u16 },
    /// Look at the provider.
    #[error("the answer of {url} breaks off, or has more than {ANSWER_BYTES_MAX} bytes")]
    Body { url: String },
    /// Correct the address.
    #[error("the answer of {url} is no such document as an OpenID provider has")]
    Document { url: String },
    /// Name the issuer as its provider does.
    #[error("{url} is of issuer {found:?}; accepted: {wanted:?}")]
    OtherIssuer { url: String, found: String, wanted: String },
}

impl ProviderError {
    /// The words of the libraries say nothing to a person who logs in.
    fn of_connection(url: String, error: &hyper_util::client::legacy::Error) -> Self {
        match HandshakeError::found(error) {
            Some(why) => Self::Encryption { url, why },
            None => Self::Silent { url, why: cause_text(error) },
        }
    }
}

/// Makes requests to one provider.
pub(crate) struct ProviderHttp(Client<HttpsConnector<HttpConnector>, Full<Bytes>>);

impl ProviderHttp {
    /// Trusts the authorities of this file, or those of the system.
    ///
    /// # Errors
    /// The authorities cannot be read.
    pub(crate) fn trusting(ca: Option<&Path>) -> Result<Self, ProviderError> {
        Ok(Self(Client::builder(TokioExecutor::new()).build(connector(ca)?)))
    }

    /// Gets a JSON document. Follows no redirection.
    pub(crate) async fn document<T: DeserializeOwned>(&self, url: &str) -> Result<T, ProviderError> {
        let address: Uri = url.parse().map_err(|_| ProviderError::Address(url.to_owned()))?;
        let mut request = Request::new(Vec::new());
        *request.uri_mut() = address;
        let answer = self.send(request).await?;
        if answer.status() != StatusCode::OK {
            return Err(ProviderError::Status { url: url.to_owned(), status: answer.status().as_u16() });
        }
        serde_json::from_slice(answer.body()).map_err(|_| ProviderError::Document { url: url.to_owned() })
    }

    /// Gets the discovery document of an issuer, which must be that issuer's.
    pub(crate) async fn discovery<T: DeserializeOwned>(
        &self,
        source: &KeySource,
    ) -> Result<T, ProviderError> {
        let url = source.discovery_url();
        let found: Value = self.document(&url).await?;
        let issuer = found.get("issuer").and_then(Value::as_str).unwrap_or_default();
        if issuer != source.issuer {
            let (found, wanted) = (issuer.to_owned(), source.issuer.clone());
            return Err(ProviderError::OtherIssuer { url, found, wanted });
        }
        serde_json::from_value(found).map_err(|_| ProviderError::Document { url })
    }

    /// Sends a request and reads the answer whole, whatever its status. Follows no redirection.
    pub(crate) async fn send(&self, request: Request<Vec<u8>>) -> Result<Response<Vec<u8>>, ProviderError> {
        let url = request.uri().to_string();
        if !KeySource::is_secure(&url) {
            return Err(ProviderError::Address(url));
        }
        let exchange = async {
            let silent = |error| ProviderError::of_connection(url.clone(), &error);
            let answer =
                self.0.request(request.map(|body| Full::new(Bytes::from(body)))).await.map_err(silent)?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|_| ProviderError::Body { url: url.clone() })?.to_bytes();
            Ok(Response::from_parts(head, body.to_vec()))
        };
        let slow = |_| ProviderError::Slow { url: url.clone() };
        tokio::time::timeout(REQUEST_MAX, exchange).await.map_err(slow)?
    }
}

fn connector(ca: Option<&Path>) -> Result<HttpsConnector<HttpConnector>, ProviderError> {
    let builder = HttpsConnectorBuilder::new();
    let trusting = match ca {
        None => builder.with_native_roots().map_err(ProviderError::System)?,
        Some(path) => {
            let unread = |error| {
                let why = match error {
                    pem::Error::Io(error) => error.to_string(),
                    _ => "the file is no PEM".to_owned(),
                };
                ProviderError::Authorities { path: path.to_owned(), why }
            };
            let mut roots = RootCertStore::empty();
            for certificate in CertificateDer::pem_file_iter(path).map_err(unread)? {
                // What is no authority is passed over: a file may have a whole chain.
                roots.add(certificate.map_err(unread)?).ok();
            }
            if roots.is_empty() {
                return Err(ProviderError::NoAuthority(path.to_owned()));
            }
            builder
                .with_tls_config(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())
        }
    };
    Ok(trusting.https_only().enable_http1().build())
}
