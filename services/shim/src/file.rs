//! Small JSON files that are replaced whole: a reader sees the old content or the new one.
//!
//! A record that must be writable on a full disk is padded to a fixed size from the first write. If the disk has no
//! space for a new file, the old one is overwritten in place, which takes none. Space for the first one is reserved.
//!
//! A task that runs as the agent's own user can put anything under these names. This module therefore follows no link,
//! waits for no FIFO, and reads at most [`FILE_BYTES_MAX`].

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Space of an attempt's directory for the first record of its shim. Without it, a disk that is full by then leaves an
/// attempt of which nobody knows how far it came.
const RESERVE_FILE: &str = "reserve";
/// Two blocks: one for the record, and one for what a file system needs beside it.
const RESERVE_BYTES: usize = 2 * PADDED_BYTES;

/// Whether a write must survive a loss of power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Survives the death of any process.
    Process,
    /// Also survives a loss of power: costs two fsyncs.
    Power,
}

/// Records are padded to a multiple of this: a block of every usual file system.
const PADDED_BYTES: usize = 4096;

/// The most bytes read of such a file: a spec has at most 90,000, and its JSON a few times that.
pub const FILE_BYTES_MAX: u64 = 16 << 20;

/// Opens a regular file of an attempt's directory with `options`. Neither follows a link nor waits for the other end of
/// a FIFO.
///
/// # Errors
/// Those of the file system; `InvalidData` if the name is not a regular file.
pub fn own_open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY).bits()).unwrap_or(0);
    let foreign =
        |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}", path.display()));
    let file = match options.custom_flags(flags).open(path) {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(foreign("a symbolic link, which is not followed"));
        }
        // A FIFO without a reader, opened for writing.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
            return Err(foreign("no regular file"));
        }
        other => other?,
    };
    if file.metadata()?.is_file() { Ok(file) } else { Err(foreign("no regular file")) }
}

/// Reads `dir/name` whole; at most [`FILE_BYTES_MAX`].
///
/// # Errors
/// Those of [`own_open`]; `InvalidData` if it is longer.
pub fn own_read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = own_open(path, OpenOptions::new().read(true))?;
    file.take(FILE_BYTES_MAX.saturating_add(1)).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length <= FILE_BYTES_MAX) {
        return Ok(bytes);
    }
    let text = format!("{}: longer than {FILE_BYTES_MAX} bytes", path.display());
    Err(io::Error::new(io::ErrorKind::InvalidData, text))
}

/// Replaces `dir/name` by `value`, atomically, readable by the owner only.
///
/// # Errors
/// Those of the file system; the old file is then still whole.
pub fn json_write<T: Serialize>(dir: &Path, name: &str, value: &T, durability: Durability) -> io::Result<()> {
    whole_write(dir, name, &serde_json::to_vec_pretty(value)?, durability)
}

/// The first write of a file for [`json_rewrite`]; survives the death of any process.
///
/// # Errors
/// Those of the file system.
pub fn json_begin<T: Serialize>(dir: &Path, name: &str, value: &T) -> io::Result<()> {
    reserved_write(dir, name, &padded(value)?, Durability::Process)
}

/// Reserves the space of a first [`json_begin`] or [`json_rewrite`] in a directory.
///
/// # Errors
/// Those of the file system, such as a full disk.
pub fn reserve_make(dir: &Path) -> io::Result<()> {
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(dir.join(RESERVE_FILE))?;
    // Blanks, since a hole takes no space.
    file.write_all(&[b' '; RESERVE_BYTES])
}

/// Gives the space back. Returns true if there was any.
pub fn reserve_release(dir: &Path) -> bool {
    fs::remove_file(dir.join(RESERVE_FILE)).is_ok()
}

/// As [`whole_write`], on a full disk with the space that is reserved.
fn reserved_write(dir: &Path, name: &str, bytes: &[u8], durability: Durability) -> io::Result<()> {
    match whole_write(dir, name, bytes, durability) {
        Err(error) if is_full(&error) && reserve_release(dir) => whole_write(dir, name, bytes, durability),
        other => other,
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Makes a written file survive a loss of power.
///
/// # Errors
/// Those of the file system.
pub fn file_sync(dir: &Path, name: &str) -> io::Result<()> {
    own_open(&dir.join(name), OpenOptions::new().read(true))?.sync_all()?;
    File::open(dir)?.sync_all()
}

/// As [`json_write`], durable, for a file that is rewritten until its task is over. On a full disk it is overwritten in
/// place. A loss of power at that moment may damage it, and it is then read as absent.
///
/// # Errors
/// Those of the file system, if even that was not possible.
pub fn json_rewrite<T: Serialize>(dir: &Path, name: &str, value: &T) -> io::Result<()> {
    let padded = padded(value)?;
    let error = match reserved_write(dir, name, &padded, Durability::Power) {
        Ok(()) => return Ok(()),
        Err(error) => error,
    };
    if !is_full(&error) {
        return Err(error);
    }
    let mut file = own_open(&dir.join(name), OpenOptions::new().write(true))?;
    if file.metadata()?.len() != u64::try_from(padded.len()).unwrap_or(0) {
        return Err(error);
    }
    file.write_all(&padded)?;
    file.sync_all()
}

/// Trailing blanks mean nothing in JSON.
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
        // Best effort: the next write removes it anyway.
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn temporary_write(path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    if durability == Durability::Power {
        file.sync_all()?;
    }
    Ok(())
}

/// Reads `dir/name`; `None` if it does not exist.
///
/// # Errors
/// Those of the file system; `InvalidData` if the file is damaged.
pub fn json_read<T: DeserializeOwned>(dir: &Path, name: &str) -> io::Result<Option<T>> {
    match own_read(&dir.join(name)) {
        Ok(bytes) => {
            let damaged = |error| io::Error::new(io::ErrorKind::InvalidData, format!("{name}: {error}"));
            serde_json::from_slice(&bytes).map(Some).map_err(damaged)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// An error of the system in words, without its capital and its number.
pub fn error_text(error: &io::Error) -> String {
    let text = error.to_string();
    let Some((words, _)) = text.split_once(" (os error ") else { return text };
    let mut letters = words.chars();
    letters.next().map(|first| first.to_ascii_lowercase()).into_iter().chain(letters).collect()
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
    fn what_a_task_planted_is_neither_read_nor_written() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let (path, victim) = (dir.path().join("x.json"), dir.path().join("victim"));
        fs::write(&victim, "[7]").unwrap();
        type Plant = fn(&Path, &Path);
        let plant: [(&str, Plant); 2] = [
            ("link", |path, victim| symlink(victim, path).unwrap()),
            ("FIFO", |path, _| {
                let kind = rustix::fs::FileType::Fifo;
                rustix::fs::mknodat(rustix::fs::CWD, path, kind, rustix::fs::Mode::RWXU, 0).unwrap();
            }),
        ];
        for (what, plant) in plant {
            plant(&path, &victim);
            let read = json_read::<Vec<u8>>(dir.path(), "x.json").unwrap_err();
            assert_eq!(read.kind(), io::ErrorKind::InvalidData, "{what}");
            // A write in place would hit the victim.
            assert!(own_open(&path, OpenOptions::new().write(true)).is_err(), "{what}");
            let temporary = dir.path().join(format!(".x.json.{}.new", std::process::id()));
            plant(&temporary, &victim);
            json_write(dir.path(), "x.json", &vec![1], Durability::Process).unwrap();
            assert_eq!(json_read::<Vec<u8>>(dir.path(), "x.json").unwrap(), Some(vec![1]), "{what}");
            assert_eq!(fs::read_to_string(&victim).unwrap(), "[7]", "{what}");
            fs::remove_file(&path).unwrap();
        }
        // Sparse: it takes no space, and is nearly endless.
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(
            json_read::<Vec<u8>>(dir.path(), "x.json").unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
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
