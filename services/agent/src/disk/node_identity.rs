//! The identity that the node got for its join token, as files of the state directory.
//!
//! The agent writes a new identity before it asks a gateway to accept it, and takes it into use after the answer. So a
//! crash at any moment leaves either the old one, or the new one that the agent asks for again.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use borough_kv::secret::{Secret, SecretError};
use borough_proto::bounds::NODE_IDENTITY_LABEL;

/// The identity in use.
const FILE: &str = "node-identity";
/// The next one.
const NEXT: &str = "node-identity.next";

/// The files of the identity in a state directory.
#[derive(Clone, Debug)]
pub(crate) struct NodeIdentityFiles {
    root: PathBuf,
}

impl NodeIdentityFiles {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The identity in use; `None`: the node has not joined.
    ///
    /// # Errors
    /// The file cannot be read, or others can.
    pub(crate) fn current(&self) -> Result<Option<Secret>, SecretError> {
        read(&self.root.join(FILE))
    }

    /// The identity that a gateway may have accepted, without the agent knowing.
    ///
    /// # Errors
    /// The file cannot be read, or others can.
    pub(crate) fn next(&self) -> Result<Option<Secret>, SecretError> {
        let path = self.root.join(NEXT);
        match read(&path) {
            // It was written in part, so no gateway was asked.
            Err(SecretError::Text { .. }) => {
                fs::remove_file(&path).map_err(|source| SecretError::Io { path, source })?;
                Ok(None)
            }
            read => read,
        }
    }

    /// The next identity, on the disk.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub(crate) fn next_ensure(&self) -> Result<Secret, SecretError> {
        if let Some(known) = self.next()? {
            return Ok(known);
        }
        let path = self.root.join(NEXT);
        let made = Secret::create(&path, NODE_IDENTITY_LABEL)?;
        self.sync().map_err(|source| SecretError::Io { path, source })?;
        Ok(made)
    }

    /// Takes the next identity into use.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub(crate) fn next_use(&self) -> Result<(), SecretError> {
        let path = self.root.join(FILE);
        let renamed = fs::rename(self.root.join(NEXT), &path).and_then(|()| self.sync());
        renamed.map_err(|source| SecretError::Io { path, source })
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.root)?.sync_all()
    }
}

/// Returns true if the agent of a state directory has got an identity for a join token. One that cannot be read counts:
/// its session says why.
pub fn has_joined(state_dir: &Path) -> bool {
    !matches!(NodeIdentityFiles::new(state_dir).current(), Ok(None))
}

fn read(path: &Path) -> Result<Option<Secret>, SecretError> {
    match Secret::read(path) {
        Ok(secret) => Ok(Some(secret)),
        Err(SecretError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_next_identity_is_the_same_until_it_is_used() {
        let directory = tempfile::tempdir().unwrap();
        let files = NodeIdentityFiles::new(directory.path());
        assert!(files.current().unwrap().is_none() && files.next().unwrap().is_none());
        let next = files.next_ensure().unwrap();
        assert_eq!(files.next_ensure().unwrap().expose(), next.expose(), "a crash before the answer");
        let mode = fs::metadata(directory.path().join(NEXT)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!has_joined(directory.path()));
        files.next_use().unwrap();
        assert!(has_joined(directory.path()));
        assert_eq!(files.current().unwrap().unwrap().expose(), next.expose());
        assert!(files.next().unwrap().is_none());
        assert_ne!(files.next_ensure().unwrap().expose(), next.expose());
    }

    #[test]
    fn what_was_written_in_part_is_made_again() {
        let directory = tempfile::tempdir().unwrap();
        let files = NodeIdentityFiles::new(directory.path());
        files.next_ensure().unwrap();
        fs::write(directory.path().join(NEXT), "borough-no").unwrap();
        assert!(files.next_ensure().unwrap().is_labelled(NODE_IDENTITY_LABEL));
    }
}
