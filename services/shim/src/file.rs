//! Small JSON files that are either the old or the new one, whatever happens in between.
//!
//! A record that must be writable on a full disk is padded to a fixed size from its first writing on: where the disk
//! has no room for a new file, the old one is overwritten in place, which takes none.

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

/// Records are padded to a multiple of this: a block of every usual file system.
const PADDED_BYTES: usize = 4096;

/// Replaces `dir/name` by `value`, atomically, readable by the owner only.
///
/// # Errors
/// Those of the file system; the old file is then still whole.
pub fn json_write<T: Serialize>(dir: &Path, name: &str, value: &T, durability: Durability) -> io::Result<()> {
    whole_write(dir, name, &serde_json::to_vec_pretty(value)?, durability)
}

/// The first writing of a file for [`json_rewrite`]; survives the death of any process.
///
/// # Errors
/// Those of the file system.
pub fn json_begin<T: Serialize>(dir: &Path, name: &str, value: &T) -> io::Result<()> {
    whole_write(dir, name, &padded(value)?, Durability::Process)
}

/// Makes a file that is written already safe from a loss of power.
///
/// # Errors
/// Those of the file system.
pub fn file_sync(dir: &Path, name: &str) -> io::Result<()> {
    File::open(dir.join(name))?.sync_all()?;
    File::open(dir)?.sync_all()
}

/// As [`json_write`], durable, for a file that is rewritten until its task is over. On a full disk it is overwritten
/// in place: then a loss of power at that very moment may damage it, and it is read as absent.
///
/// # Errors
/// Those of the file system, where not even that was possible.
pub fn json_rewrite<T: Serialize>(dir: &Path, name: &str, value: &T) -> io::Result<()> {
    let padded = padded(value)?;
    let error = match whole_write(dir, name, &padded, Durability::Power) {
        Ok(()) => return Ok(()),
        Err(error) => error,
    };
    if error.kind() != io::ErrorKind::StorageFull && error.kind() != io::ErrorKind::QuotaExceeded {
        return Err(error);
    }
    let mut file = OpenOptions::new().write(true).open(dir.join(name))?;
    if file.metadata()?.len() != u64::try_from(padded.len()).unwrap_or(0) {
        return Err(error);
    }
    file.write_all(&padded)?;
    file.sync_all()
}

/// Blanks behind it mean nothing in JSON.
fn padded<T: Serialize>(value: &T) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(value)?;
    bytes.resize(bytes.len().next_multiple_of(PADDED_BYTES), b' ');
    Ok(bytes)
}

fn whole_write(dir: &Path, name: &str, bytes: &[u8], durability: Durability) -> io::Result<()> {
    let temporary = dir.join(format!(".{name}.{}.new", std::process::id()));
    let written = temporary_write(&temporary, bytes, durability).and_then(|()| {
        fs::rename(&temporary, dir.join(name))?;
        if durability == Durability::Power { File::open(dir)?.sync_all() } else { Ok(()) }
    });
    if written.is_err() {
        // Best effort: the name is ours alone, and the next write truncates it anyway.
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn temporary_write(path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
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
