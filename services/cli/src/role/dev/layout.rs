//! The directory of a dev cell: its files, and the settings kept from start to start.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use borough_gateway::auth::{NodeGrant, NodeToken, Token};
use borough_kv::secret::{Secret, SecretError, unguessable_name};
use borough_model::Name;
use serde::{Deserialize, Serialize};

use super::super::token::{NODE_LABEL, OPERATOR_LABEL};

/// Kept settings, so that agents find their gateway again after a restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Remembered {
    /// The format of this file.
    pub format: u32,
    /// Port of the gateway's gRPC.
    pub grpc_port: u16,
    /// Port of the gateway's HTTP.
    pub http_port: u16,
    /// Ports of the name service. A directory of an older version lacks them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<NamesPorts>,
    /// The store of the cells, if not in the directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
}

/// Ports of the views of the name service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NamesPorts {
    pub dns: u16,
    pub http: u16,
    pub xds: u16,
}

/// A link in the place of a file is refused: it leads out of this directory.
const NO_LINK: i32 = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
/// Said of a file that `dev` has not written like this.
pub(super) const DAMAGED: &str = "the file is damaged";
/// The format this build writes.
const FORMAT: u32 = 1;

/// The directory of a dev cell, locked.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    root: PathBuf,
    /// Held while the directory is in use. If the store is elsewhere, only this lock keeps a second `dev` out.
    _lock: Arc<fs::File>,
}

impl Layout {
    /// Makes the directory if it is missing, for its owner alone.
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(root)?;
        let root = fs::canonicalize(root)?;
        // The owner of the directory can read and replace everything in it.
        if fs::metadata(&root)?.uid() != rustix::process::geteuid().as_raw() {
            let text = "another user owns it; accepted: a directory of the user who runs this";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        // Agents keep the environments of tasks here, which others must not read.
        fs::set_permissions(&root, fs::Permissions::from_mode(0o700))?;
        for folder in ["nodes", "log", "records", "secrets"] {
            private_directory(&root.join(folder))?;
        }
        // Files that an older version wrote for others too.
        for file in ["dev.json", "LOCK"] {
            private_file(&root.join(file))?;
        }
        let mut lock = fs::OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600)
            .custom_flags(NO_LINK)
            .open(root.join("LOCK"))?;
        if rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut owner = String::new();
            lock.read_to_string(&mut owner)?;
            let text = format!(
                "another dev cell (process {}) runs there; stop it, or name another directory",
                owner.trim()
            );
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
        }
        // The owner is recorded for people only: a full disk must not keep anyone out of their own directory.
        lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id())).ok();
        Ok(Self { root, _lock: Arc::new(lock) })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn token(&self) -> PathBuf {
        self.root.join("token")
    }

    /// The file with the token of a cell's nodes.
    pub(super) fn node_token(&self, cell: &Name) -> PathBuf {
        self.root.join(format!("node-token-{cell}"))
    }

    /// The secrets that its agents give to tasks.
    pub(super) fn secrets(&self) -> PathBuf {
        self.root.join("secrets")
    }

    /// The state directories of agents.
    pub(super) fn nodes(&self) -> PathBuf {
        self.root.join("nodes")
    }

    pub(super) fn node(&self, node: &str) -> PathBuf {
        self.nodes().join(node)
    }

    pub(super) fn log(&self, node: &str) -> PathBuf {
        self.root.join("log").join(format!("{node}.log"))
    }

    /// Where agents record what they start, for the guard that ends it.
    pub(super) fn records(&self) -> PathBuf {
        self.root.join("records")
    }

    /// The operator's token, made if it is missing.
    pub(super) fn token_ensure(&self) -> Result<Secret, SecretError> {
        Secret::ensure(&self.token(), OPERATOR_LABEL)
    }

    /// The token of a cell's nodes, made if it is missing: it only opens sessions of its agents.
    pub(super) fn node_token_ensure(&self, cell: &Name) -> Result<NodeToken, SecretError> {
        let secret = Secret::ensure(&self.node_token(cell), NODE_LABEL)?;
        let grant = NodeGrant { cell: cell.clone(), node: None };
        Ok(NodeToken { token: Token::new(secret), grant })
    }

    /// The kept settings, if any.
    pub(super) fn remembered(&self) -> io::Result<Option<Remembered>> {
        Remembered::read(&self.root)
    }

    /// Writes the settings. Unchanged ones are not written, so a full disk does no harm.
    pub(super) fn remember(&self, now: &Remembered) -> io::Result<()> {
        if self.remembered()?.as_ref() == Some(now) {
            return Ok(());
        }
        let text = serde_json::to_vec_pretty(now)?;
        let path = self.root.join("dev.json");
        let temporary = self.root.join("dev.json.new");
        fs::write(&temporary, text)?;
        fs::rename(temporary, path)
    }
}

impl Remembered {
    /// Settings of this format.
    pub(super) fn new(grpc_port: u16, http_port: u16, names: NamesPorts, store: Option<String>) -> Self {
        Self { format: FORMAT, grpc_port, http_port, names: Some(names), store }
    }

    /// The settings in the directory `root`, if it belongs to `dev`.
    ///
    /// # Errors
    /// They cannot be read, or have a format that this build does not know.
    pub(super) fn read(root: &Path) -> io::Result<Option<Self>> {
        let path = root.join("dev.json");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let wrong =
            |text: String| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {text}", path.display()));
        let remembered: Self = serde_json::from_str(&text).map_err(|_| wrong(DAMAGED.to_owned()))?;
        match remembered.format {
            FORMAT => Ok(Some(remembered)),
            format => Err(wrong(format!("format {format}, this build knows {FORMAT}; nothing was touched"))),
        }
    }
}

/// Makes a directory for its owner alone, or restricts an existing one.
pub(super) fn private_directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))
}

/// Removes the permissions of others from a file, if it exists.
pub(super) fn private_file(path: &Path) -> io::Result<()> {
    match fs::set_permissions(path, fs::Permissions::from_mode(0o600)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Makes the directory of an ephemeral cell below the machine's temporary one. Its name cannot be guessed.
///
/// # Errors
/// Those of the file system: a name that is taken is never used.
pub(super) fn ephemeral_create() -> io::Result<PathBuf> {
    let path = std::env::temp_dir().join(format!("borough-dev-{}", unguessable_name()?));
    fs::DirBuilder::new().mode(0o700).create(&path)?;
    Ok(path)
}

/// Makes the directory of an ephemeral cell at a given path. It is removed at the end, so the path must be free.
///
/// # Errors
/// Those of the file system: `AlreadyExists` if anything is there.
pub(super) fn ephemeral_create_at(path: &Path) -> io::Result<PathBuf> {
    fs::DirBuilder::new().mode(0o700).create(path)?;
    path.canonicalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ephemeral_cell_takes_no_directory_that_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let taken = ephemeral_create_at(directory.path()).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        assert!(ephemeral_create_at(&directory.path().join("new")).is_ok());
    }

    #[test]
    fn an_ephemeral_directory_is_made_new_and_its_name_is_not_computed() {
        let (first, second) = (ephemeral_create().unwrap(), ephemeral_create().unwrap());
        assert_ne!(first, second);
        for path in [&first, &second] {
            let name = path.file_name().unwrap().to_str().unwrap();
            assert_eq!(name.strip_prefix("borough-dev-").map(str::len), Some(32), "{name}");
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o700);
            fs::remove_dir(path).unwrap();
        }
    }

    #[test]
    fn the_token_is_made_once_and_is_its_owners() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::open(&directory.path().join("dev")).unwrap();
        let token = layout.token_ensure().unwrap();
        assert_eq!(token.expose().len(), OPERATOR_LABEL.len() + 1 + 64);
        assert_eq!(layout.token_ensure().unwrap().expose(), token.expose());
        assert_eq!(fs::metadata(layout.token()).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(layout.root()).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_newer_directory_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::open(directory.path()).unwrap();
        let newer = r#"{"format":9,"grpc_port":1,"http_port":2}"#;
        fs::write(directory.path().join("dev.json"), newer).unwrap();
        assert!(layout.remembered().unwrap_err().to_string().contains("format 9"));
        assert_eq!(fs::read_to_string(directory.path().join("dev.json")).unwrap(), newer);
    }

    #[test]
    fn damaged_settings_are_told_apart() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("dev.json"), "{").unwrap();
        assert!(Remembered::read(directory.path()).unwrap_err().to_string().ends_with(DAMAGED));
    }
}
