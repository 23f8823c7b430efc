//! Logins at OpenID providers: what is kept beside a token, and when the token is renewed.

mod flow;

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub(crate) use flow::{LoginCode, LoginError, LoginProvider};

use crate::own_file::{OwnFileLock, own_bytes_write, own_file_lock, own_file_read, own_file_write};

/// A token is renewed this long before it ends, in milliseconds: a command that runs for seconds ends with it.
const RENEWED_BEFORE_MS: i64 = 60_000;

/// How a token was got. It stands beside the token, so that the next one needs no person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoginRecord {
    /// Address of the provider.
    pub issuer: String,
    pub client_id: String,
    pub scopes: Vec<String>,
    /// A file (PEM) with the authorities of the provider's certificate. Absent: those of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_ca: Option<PathBuf>,
    /// A secret. Absent: the provider gives none, so the next token needs a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<String>,
    /// When the token ends: milliseconds since 1970.
    pub expires_ms: i64,
}

impl LoginRecord {
    /// Whether the token should be renewed now, and can be.
    fn is_due(&self, now_ms: i64) -> bool {
        self.refresh_token.is_some() && now_ms >= self.expires_ms.saturating_sub(RENEWED_BEFORE_MS)
    }
}

/// A token that a provider has given.
pub(crate) struct GivenToken {
    pub token: String,
    /// Absent: the one before goes on to count, if there is one.
    pub refresh_token: Option<String>,
    pub expires_ms: i64,
}

/// The file of a token with what is kept beside it.
pub(crate) struct LoginFile {
    token: PathBuf,
    record: PathBuf,
}

impl LoginFile {
    pub(crate) fn of(token: &Path) -> Self {
        let mut record = token.as_os_str().to_owned();
        record.push(".login.json");
        Self { token: token.to_owned(), record: record.into() }
    }

    /// What is kept of the last login; `None` if the token is of no login.
    ///
    /// # Errors
    /// An unreadable or damaged file, with its path.
    pub(crate) fn read(&self) -> io::Result<Option<LoginRecord>> {
        own_file_read(&self.record)
    }

    /// Waits until no other command changes the files. Makes their directory.
    pub(crate) fn lock(&self) -> io::Result<OwnFileLock> {
        own_file_lock(&self.record)
    }

    /// Writes the token, and then what is kept of its login.
    pub(crate) fn write(&self, given: &GivenToken, of: LoginRecord) -> io::Result<()> {
        own_bytes_write(&self.token, given.token.as_bytes())?;
        let refresh_token = given.refresh_token.clone().or(of.refresh_token);
        own_file_write(&self.record, &LoginRecord { refresh_token, expires_ms: given.expires_ms, ..of })
    }

    /// Removes both files; those that are gone already do not matter.
    pub(crate) fn remove(&self) -> io::Result<()> {
        for path in [&self.token, &self.record] {
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Renews the token if it ends soon and its provider renews it without a person.
    ///
    /// # Errors
    /// The token stays as it is.
    pub(crate) async fn renew_due(&self, now_ms: i64) -> Result<(), LoginError> {
        if !self.read()?.is_some_and(|record| record.is_due(now_ms)) {
            return Ok(());
        }
        let _lock = self.lock()?;
        // Another command may have renewed it since.
        let Some(record) = self.read()?.filter(|record| record.is_due(now_ms)) else { return Ok(()) };
        let Some(refresh) = record.refresh_token.clone() else { return Ok(()) };
        let provider = LoginProvider::find(&record.issuer, record.provider_ca.as_deref()).await?;
        let given = provider.renew(&record.client_id, refresh).await?;
        self.write(&given, record)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn record() -> LoginRecord {
        LoginRecord {
            issuer: "https://id.example.org".to_owned(),
            client_id: "borough".to_owned(),
            scopes: vec!["openid".to_owned()],
            provider_ca: None,
            refresh_token: Some("again".to_owned()),
            expires_ms: 1_000_000,
        }
    }

    #[test]
    fn a_token_is_renewed_a_minute_before_it_ends_if_no_person_is_needed() {
        assert!(!record().is_due(939_999));
        assert!(record().is_due(940_000) && record().is_due(i64::MAX));
        assert!(!LoginRecord { refresh_token: None, ..record() }.is_due(i64::MAX));
    }

    #[test]
    fn only_their_owner_reads_the_files_and_a_login_goes_on_with_its_old_refresh_token() {
        let directory = tempfile::tempdir().unwrap();
        let file = LoginFile::of(&directory.path().join("prod.token"));
        assert_eq!(file.read().unwrap(), None);
        let given = GivenToken { token: "a.b.c".to_owned(), refresh_token: None, expires_ms: 5 };
        file.write(&given, record()).unwrap();
        assert_eq!(file.read().unwrap(), Some(LoginRecord { expires_ms: 5, ..record() }));
        for path in ["prod.token", "prod.token.login.json"] {
            let mode = std::fs::metadata(directory.path().join(path)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{path}");
        }
        assert_eq!(std::fs::read_to_string(directory.path().join("prod.token")).unwrap(), "a.b.c");
        file.remove().unwrap();
        file.remove().unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
