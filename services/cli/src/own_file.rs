//! Files of the user that the program keeps itself: JSON, in the user's directories.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Reads a file; `None` if it does not exist. An error names its path.
pub(crate) fn own_file_read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    let named = |problem: String, kind| io::Error::new(kind, format!("{}: {problem}", path.display()));
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(named(error.to_string(), error.kind())),
    };
    let read = serde_json::from_str(&text);
    read.map(Some).map_err(|error| named(error.to_string(), io::ErrorKind::InvalidData))
}

/// Writes a file for its owner alone, in one step: a reader sees the old one or the new one.
pub(crate) fn own_file_write(path: &Path, content: &impl Serialize) -> io::Result<()> {
    let temporary = path.with_extension("json.new");
    let mut text = serde_json::to_vec_pretty(content)?;
    text.push(b'\n');
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(&text)?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)
}

/// A directory of the user: what an XDG variable names, else this one below the home directory.
pub(crate) fn own_directory(variable: &str, below_home: &str) -> PathBuf {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || set("HOME").unwrap_or_else(|| PathBuf::from("/")).join(below_home);
    set(variable).unwrap_or_else(home)
}
