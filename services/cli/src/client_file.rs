//! `client.json` in the directory of a dev cell: the addresses of its gateways and the caller's token. `borough dev`
//! writes it. Every other verb reads it unless its options name a gateway.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::own_file::{own_directory, own_file_read, own_file_write};

/// The file's name within the directory.
pub const FILE_NAME: &str = "client.json";

/// What a client needs to reach a dev cell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientFile {
    /// gRPC addresses of the gateways, `host:port`.
    pub gateways: Vec<String>,
    /// Base address of the HTTP service, `http://host:port`; empty without one.
    pub http: String,
    /// The file with the token.
    pub token_file: Option<PathBuf>,
    /// The cell of a verb that names none.
    pub default_cell: String,
    pub cells: Vec<String>,
    /// The cell that is the home of a federation; empty without one.
    pub federation: String,
}

impl ClientFile {
    /// Reads the file of the dev directory `directory`; `None` without one.
    ///
    /// # Errors
    /// An unreadable or damaged file, with its path.
    pub fn read(directory: &Path) -> io::Result<Option<Self>> {
        own_file_read(&directory.join(FILE_NAME))
    }

    /// Writes the file for its owner alone, in one step: a reader sees the old one or the new one.
    ///
    /// # Errors
    /// Those of the file system. If the content is the same, nothing is written, so a full disk does no harm.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        let path = directory.join(FILE_NAME);
        let before = std::fs::metadata(&path).is_ok_and(|known| known.permissions().mode() & 0o777 == 0o600);
        if before && Self::read(directory).ok().flatten().as_ref() == Some(self) {
            return Ok(());
        }
        own_file_write(&path, self)
    }
}

/// The directory of the dev cell: `given`, or below the user's state directory. `None` without a home directory.
pub fn dev_directory(given: Option<&Path>) -> Option<PathBuf> {
    let own = || Some(own_directory("XDG_STATE_HOME", ".local/state")?.join("borough/dev"));
    given.map(Path::to_path_buf).or_else(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_by_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(ClientFile::read(directory.path()).unwrap(), None);
        let file = ClientFile {
            gateways: vec!["127.0.0.1:7000".to_owned()],
            token_file: Some("/state/token".into()),
            default_cell: "alpha".to_owned(),
            ..ClientFile::default()
        };
        file.write(directory.path()).unwrap();
        assert_eq!(ClientFile::read(directory.path()).unwrap(), Some(file));
        let mode = std::fs::metadata(directory.path().join(FILE_NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_damaged_file_is_named() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(FILE_NAME), "{").unwrap();
        let error = ClientFile::read(directory.path()).unwrap_err().to_string();
        assert!(error.contains("client.json:1:"), "{error}");
    }
}
