//! Files that a person has named: read up to a bound, and only if they are files.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// The beginning of a text file, `bytes_max` bytes at most. A device has no end, and a pipe may have none.
///
/// # Errors
/// It is no regular file, cannot be read, or is no UTF-8 text.
pub fn file_begin_read(path: &Path, bytes_max: u64) -> io::Result<String> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("is no regular file"));
    }
    let mut text = String::new();
    File::open(path)?.take(bytes_max).read_to_string(&mut text)?;
    Ok(text)
}

/// A text file of at most `bytes_max` bytes.
///
/// # Errors
/// As [`file_begin_read`], and it is longer.
pub fn file_read(path: &Path, bytes_max: u64) -> io::Result<String> {
    let text = file_begin_read(path, bytes_max.saturating_add(1))?;
    if text.len() as u64 > bytes_max {
        return Err(io::Error::other(format!("has more than {bytes_max} bytes")));
    }
    Ok(text)
}
