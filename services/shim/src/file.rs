//! Small JSON files that are either the old or the new one, whatever happens in between.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Whether a write must outlive a loss of power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Survives the death of any process.
    Process,
    /// Survives a loss of power too: costs two fsyncs.
    Power,
}

/// Replaces `dir/name` by `value`, atomically, readable by the owner only.
///
/// # Errors
/// Those of the file system; the old file is then still whole.
pub fn json_write<T: Serialize>(dir: &Path, name: &str, value: &T, durability: Durability) -> io::Result<()> {
    let temporary = dir.join(format!(".{name}.{}.new", std::process::id()));
    let written = temporary_write(&temporary, value, durability).and_then(|()| {
        fs::rename(&temporary, dir.join(name))?;
        if durability == Durability::Power { File::open(dir)?.sync_all() } else { Ok(()) }
    });
    if written.is_err() {
        // Best effort: the name is ours alone, and the next write truncates it anyway.
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn temporary_write<T: Serialize>(path: &Path, value: &T, durability: Durability) -> io::Result<()> {
    let bytes = serde_json::to_vec_pretty(value)?;
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(&bytes)?;
    if durability == Durability::Power {
        file.sync_all()?;
    }
    Ok(())
}

/// Reads `dir/name`; `None` where there is none.
///
/// # Errors
/// Those of the file system; `InvalidData` where the file is damaged.
pub fn json_read<T: DeserializeOwned>(dir: &Path, name: &str) -> io::Result<Option<T>> {
    match fs::read(dir.join(name)) {
        Ok(bytes) => {
            let damaged = |error| io::Error::new(io::ErrorKind::InvalidData, format!("{name}: {error}"));
            serde_json::from_slice(&bytes).map(Some).map_err(damaged)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_comes_back_and_leaves_no_temporary_file() {
        let dir = tempfile::tempdir().unwrap();
        json_write(dir.path(), "x.json", &vec![1, 2], Durability::Power).unwrap();
        json_write(dir.path(), "x.json", &vec![3], Durability::Process).unwrap();
        assert_eq!(json_read::<Vec<u8>>(dir.path(), "x.json").unwrap(), Some(vec![3]));
        assert_eq!(json_read::<Vec<u8>>(dir.path(), "y.json").unwrap(), None);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_damaged_file_is_an_error_and_not_an_absence() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("x.json"), "{").unwrap();
        assert_eq!(
            json_read::<Vec<u8>>(dir.path(), "x.json").unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
    }
}
