//! `contexts.json` in the user's configuration directory: named ways to cells. It has credentials by reference only, so
//! it may be copied to other machines.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use borough_proto::tls::TlsFiles;
use serde::{Deserialize, Serialize};

use crate::own_file::{own_directory, own_file_read, own_file_write};

/// The file's name within its directory.
pub const FILE_NAME: &str = "contexts.json";

/// All contexts of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ContextFile {
    /// The context of a command that names none.
    pub current: Option<String>,
    pub contexts: BTreeMap<String, SavedContext>,
}

/// A named way to a cell. An absent field has the value that it has without a context.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SavedContext {
    /// gRPC addresses of the gateways, `host:port`; empty with `dir`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gateways: Vec<String>,
    /// The directory of a dev cell, which knows its gateways and its token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cell: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The file with the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// The environment variable with the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_variable: Option<String>,
    /// The certificate of the authority that signs those of the gateways. Absent: nothing is encrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_ca: Option<PathBuf>,
    /// The caller's own certificate, and its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_cert: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_key: Option<PathBuf>,
}

impl SavedContext {
    /// Its certificates; `None` without encryption.
    pub(crate) fn tls_files(&self) -> Option<TlsFiles> {
        let authorities = self.tls_ca.clone()?;
        let (certificate, key) = (self.tls_cert.clone(), self.tls_key.clone());
        Some(TlsFiles { authorities, certificate, key, revoked: None })
    }
}

impl ContextFile {
    /// Reads the file; no contexts without one.
    ///
    /// # Errors
    /// An unreadable or damaged file, with its path.
    pub fn read(path: &Path) -> io::Result<Self> {
        Ok(own_file_read(path)?.unwrap_or_default())
    }

    /// Writes the file for its owner alone, in one step: a reader sees the old one or the new one.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        own_file_write(path, self)
    }
}

/// The path of the file: `borough/contexts.json` in `$XDG_CONFIG_HOME` or `~/.config`. `None` without a home directory.
pub fn context_path() -> Option<PathBuf> {
    Some(own_directory("XDG_CONFIG_HOME", ".config")?.join("borough").join(FILE_NAME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_read_as_they_are_written_by_their_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("below").join(FILE_NAME);
        assert_eq!(ContextFile::read(&path).unwrap(), ContextFile::default());
        let prod = SavedContext {
            gateways: vec!["gate:7400".to_owned()],
            cell: Some("alpha".to_owned()),
            token_variable: Some("PROD_TOKEN".to_owned()),
            ..SavedContext::default()
        };
        let file = ContextFile {
            current: Some("prod".to_owned()),
            contexts: BTreeMap::from([("prod".to_owned(), prod)]),
        };
        file.write(&path).unwrap();
        assert_eq!(ContextFile::read(&path).unwrap(), file);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_secret_in_the_file_is_refused_with_its_place() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE_NAME);
        std::fs::write(&path, r#"{"contexts": {"prod": {"gateways": ["g:1"], "token": "0123"}}}"#).unwrap();
        let error = ContextFile::read(&path).unwrap_err().to_string();
        assert!(error.contains("contexts.json:1:") && error.contains("token_file"), "{error}");
    }
}
