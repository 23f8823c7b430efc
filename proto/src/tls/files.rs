//! The files of TLS: PEM, as every tool writes it.

use std::fmt::Display;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};

use super::name::CertificateName;
use crate::file::file_read;

/// The longest file that is read, in bytes: a list of some 100,000 revoked certificates.
const BYTES_MAX: u64 = 8 << 20;

/// Where the certificates of a role are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificates of the authorities that it trusts.
    pub authorities: PathBuf,
    /// Its own certificate, with those between it and the authority behind it.
    pub certificate: Option<PathBuf>,
    /// The key of its certificate, which only its owner may read.
    pub key: Option<PathBuf>,
    /// The list of revoked certificates.
    pub revoked: Option<PathBuf>,
}

/// Files that cannot be used. Correct the file that is named.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} has no {what}", path.display())]
    Missing { path: PathBuf, what: &'static str },
    #[error("{} can be read by others (mode {mode:o}): chmod 600 {}", path.display(), path.display())]
    Open { path: PathBuf, mode: u32 },
    #[error("{} cannot be used: {why}", path.display())]
    Unusable { path: PathBuf, why: String },
    #[error("the key {} is not that of the certificate {}", key.display(), certificate.display())]
    OtherKey { certificate: PathBuf, key: PathBuf },
    /// A certificate without its key, or the other way round.
    #[error("a certificate and its key are given together: --tls-cert FILE --tls-key FILE")]
    Half,
    /// A server without a certificate.
    #[error("a server needs a certificate: --tls-cert FILE --tls-key FILE")]
    NoCertificate,
}

/// What the files were when they were looked at.
pub(super) type FilesStamp = Vec<Option<(i64, i64, u64, u64)>>;

/// The contents of the files.
pub(super) struct TlsMaterial {
    pub(super) files: TlsFiles,
    pub(super) authorities: Vec<CertificateDer<'static>>,
    pub(super) own: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    pub(super) revoked: Vec<CertificateRevocationListDer<'static>>,
}

impl TlsFiles {
    fn each(&self) -> impl Iterator<Item = &PathBuf> {
        let optional = [&self.certificate, &self.key, &self.revoked];
        std::iter::once(&self.authorities).chain(optional.into_iter().flatten())
    }

    /// Whose its own certificate is; `None` without one, or if it says nothing that Borough knows.
    pub fn holder(&self) -> Option<CertificateName> {
        let chain = certificates(self.certificate.as_deref()?).ok()?;
        CertificateName::of(chain.first()?, None).ok()
    }

    pub(super) fn stamp(&self) -> FilesStamp {
        let found = |path: &PathBuf| {
            let found = std::fs::metadata(path).ok()?;
            Some((found.mtime(), found.mtime_nsec(), found.len(), found.ino()))
        };
        self.each().map(found).collect()
    }

    pub(super) fn read(&self) -> Result<TlsMaterial, TlsError> {
        let authorities = certificates(&self.authorities)?;
        let own = match (&self.certificate, &self.key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificates(certificate)?, private_key(key)?)),
            _ => return Err(TlsError::Half),
        };
        let revoked = match &self.revoked {
            None => Vec::new(),
            Some(path) => {
                let text = text_read(path)?;
                let lists = CertificateRevocationListDer::pem_slice_iter(text.as_bytes());
                lists.collect::<Result<Vec<_>, _>>().map_err(|error| unusable(path, &error))?
            }
        };
        Ok(TlsMaterial { files: self.clone(), authorities, own, revoked })
    }

    pub(super) fn authority_refused(&self, why: &dyn Display) -> TlsError {
        unusable(&self.authorities, why)
    }

    pub(super) fn revoked_refused(&self, why: &dyn Display) -> TlsError {
        unusable(self.revoked.as_deref().unwrap_or_else(|| Path::new("")), why)
    }

    pub(super) fn own_refused(&self, why: &rustls::Error) -> TlsError {
        match (&self.certificate, &self.key, why) {
            (Some(certificate), Some(key), rustls::Error::InconsistentKeys(_)) => {
                TlsError::OtherKey { certificate: certificate.clone(), key: key.clone() }
            }
            _ => unusable(self.certificate.as_deref().unwrap_or_else(|| Path::new("")), why),
        }
    }
}

fn unusable(path: &Path, why: &dyn Display) -> TlsError {
    TlsError::Unusable { path: path.to_owned(), why: why.to_string() }
}

fn text_read(path: &Path) -> Result<String, TlsError> {
    file_read(path, BYTES_MAX).map_err(|source| TlsError::Read { path: path.to_owned(), source })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = text_read(path)?;
    let found = CertificateDer::pem_slice_iter(text.as_bytes()).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|error| unusable(path, &error))?;
    if found.is_empty() {
        return Err(TlsError::Missing { path: path.to_owned(), what: "certificate in PEM" });
    }
    Ok(found)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let mode = std::fs::metadata(path).map(|found| found.mode() & 0o777);
    let mode = mode.map_err(|source| TlsError::Read { path: path.to_owned(), source })?;
    if mode & 0o077 != 0 {
        return Err(TlsError::Open { path: path.to_owned(), mode });
    }
    let text = text_read(path)?;
    let missing = |_| TlsError::Missing { path: path.to_owned(), what: "private key in PEM" };
    PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(missing)
}
