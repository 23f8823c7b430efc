//! TLS between all roles: certificates from files, which may be replaced while a role runs.
//!
//! A certificate says who its holder is in one URI (SPIFFE, <https://spiffe.io>): see [`CertificateName`]. Servers have
//! certificates for servers, and everybody else for clients only. So a node that was taken over cannot pose as a
//! gateway.

mod files;
mod handshake;
mod name;

use std::sync::Arc;

use parking_lot::RwLock;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use files::{FilesStamp, TlsMaterial};
pub use files::{TlsError, TlsFiles};
pub use handshake::HandshakeError;
use name::RevokedList;
pub use name::{CertificateName, CertificateNameError, serial_of};

/// What gRPC and HTTP/2 speak, by ALPN.
const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// Settings made of files, with what the files were when they were read.
#[derive(Debug)]
struct Reloaded<T> {
    files: TlsFiles,
    now: RwLock<(FilesStamp, Arc<T>)>,
    make: Make<T>,
}

/// Makes settings of files, and of the settings before.
type Make<T> = fn(TlsMaterial, Option<&T>) -> Result<T, TlsError>;

impl<T> Reloaded<T> {
    fn load(files: TlsFiles, make: Make<T>) -> Result<Self, TlsError> {
        let stamp = files.stamp();
        let made = Arc::new(make(files.read()?, None)?);
        Ok(Self { files, now: RwLock::new((stamp, made)), make })
    }

    fn now(&self) -> Arc<T> {
        Arc::clone(&self.now.read().1)
    }

    /// Reads the files again if they have changed. Files that cannot be used change nothing.
    fn refresh(&self) -> Result<bool, TlsError> {
        let stamp = self.files.stamp();
        if self.now.read().0 == stamp {
            return Ok(false);
        }
        let before = self.now();
        let made = self.files.read().and_then(|material| (self.make)(material, Some(&before)));
        let mut now = self.now.write();
        // Invalid files are looked at again when they change.
        now.0 = stamp;
        now.1 = Arc::new(made?);
        Ok(true)
    }
}

/// The side that connects: whom it trusts, and its own certificate.
#[derive(Clone, Debug)]
pub struct ClientTls(Arc<Reloaded<ClientConfig>>);

impl ClientTls {
    /// Reads the files.
    ///
    /// # Errors
    /// A file that cannot be read or used, by its name.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        Ok(Self(Arc::new(Reloaded::load(files, client_config)?)))
    }

    /// Begins TLS over `stream` to a server that must have a certificate for `host`. Reads files that have changed.
    ///
    /// # Errors
    /// The server proves nothing, or does not accept this side.
    pub(crate) async fn begin<S>(&self, host: &str, stream: S) -> std::io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        // With the certificate of before it may still work; if not, the server says why.
        self.0.refresh().ok();
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host).map_err(std::io::Error::other)?;
        TlsConnector::from(self.0.now()).connect(name, stream).await.map_err(HandshakeError::named)
    }
}

/// The side that listens: its certificate, and which certificates of clients it accepts.
#[derive(Clone, Debug)]
pub struct ServerTls(Arc<Reloaded<ServerSettings>>);

#[derive(Debug)]
struct ServerSettings {
    config: Arc<ServerConfig>,
    revoked: Vec<RevokedList>,
    /// The trust domain of its own certificate.
    domain: Option<String>,
}

impl ServerTls {
    /// Reads the files, of which a server needs its certificate and key.
    ///
    /// # Errors
    /// A file that cannot be read or used, by its name.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        Ok(Self(Arc::new(Reloaded::load(files, server_settings)?)))
    }

    /// The settings for the next connection.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0.now().config)
    }

    /// Returns true if a certificate with this serial number was revoked.
    pub fn is_revoked(&self, serial: &[u8]) -> bool {
        self.0.now().revoked.iter().any(|list| list.serials.contains(serial))
    }

    /// Whose the certificate of a peer is, in the trust domain of this side's own.
    ///
    /// # Errors
    /// It says nothing here.
    pub fn name_of(&self, certificate: &CertificateDer<'_>) -> Result<CertificateName, CertificateNameError> {
        match &self.0.now().domain {
            Some(domain) => CertificateName::of(certificate, Some(domain)),
            None => Err(CertificateNameError::Homeless),
        }
    }

    /// Reads the files again if they have changed, and says whether they had.
    ///
    /// # Errors
    /// Files that cannot be used; the settings stay.
    pub fn refresh(&self) -> Result<bool, TlsError> {
        self.0.refresh()
    }
}

fn roots_of(authorities: Vec<CertificateDer<'static>>, files: &TlsFiles) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority).map_err(|error| files.authority_refused(&error))?;
    }
    Ok(roots)
}

fn client_config(material: TlsMaterial, _: Option<&ClientConfig>) -> Result<ClientConfig, TlsError> {
    let TlsMaterial { files, authorities, own, .. } = material;
    let config = ClientConfig::builder().with_root_certificates(roots_of(authorities, &files)?);
    let mut config = match own {
        None => config.with_no_client_auth(),
        Some((chain, key)) => {
            config.with_client_auth_cert(chain, key).map_err(|error| files.own_refused(&error))?
        }
    };
    config.alpn_protocols = vec![HTTP2.to_vec()];
    Ok(config)
}

fn server_settings(
    material: TlsMaterial,
    before: Option<&ServerSettings>,
) -> Result<ServerSettings, TlsError> {
    let TlsMaterial { files, authorities, own, revoked } = material;
    let (chain, key) = own.ok_or(TlsError::NoCertificate)?;
    let lists = revoked.iter().map(|list| RevokedList::of(list, &authorities));
    let lists = lists.collect::<Result<Vec<_>, _>>().map_err(|why| files.revoked_refused(&why))?;
    if files.revoked.is_some() && lists.is_empty() {
        return Err(files.revoked_refused(&"it has no list of revoked certificates"));
    }
    let earlier = before.map(|before| before.revoked.as_slice()).unwrap_or_default();
    if lists.iter().any(|list| earlier.iter().any(|known| list.is_before(known))) {
        return Err(files.revoked_refused(&"its list is older than the one in force"));
    }
    let domain = chain.first().and_then(name::domain_of);
    let roots = Arc::new(roots_of(authorities, &files)?);
    let verifier = WebPkiClientVerifier::builder(roots)
        .with_crls(revoked)
        // Certificates of an authority without a list are accepted: an external one may have none.
        .allow_unknown_revocation_status()
        // Callers with a token need no certificate, and neither does who asks for the health.
        .allow_unauthenticated()
        .build()
        .map_err(|error| files.authority_refused(&error))?;
    let config = ServerConfig::builder().with_client_cert_verifier(verifier);
    let mut config = config.with_single_cert(chain, key).map_err(|error| files.own_refused(&error))?;
    config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
    Ok(ServerSettings { config: Arc::new(config), revoked: lists, domain })
}

#[cfg(test)]
mod tests;
