//! Reads one stream of an attempt over its files, in order, even while they are rotated and the oldest removed.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use borough_shim::file::own_open;
use borough_shim::log::{OutputStream, file_numbers, file_path};

/// Bytes of one chunk.
const CHUNK_BYTES: usize = borough_proto::bounds::STREAM_DATA_BYTES_MAX;

/// Bytes that are searched for the last lines. A sparse file costs its maker nothing, but would make a reader search
/// without end.
const SEARCH_BYTES_MAX: u64 = 64 << 20;

/// Opens a file that the shim wrote. Refuses a link, a FIFO and a file with another name, whoever put it there.
fn log_open(attempt: &Path, stream: OutputStream, number: u64) -> io::Result<File> {
    let path = file_path(attempt, stream, number);
    let file = own_open(&path, OpenOptions::new().read(true))?;
    if file.metadata()?.nlink() > 1 {
        let text = format!("{}: a file that has another name too", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(file)
}

/// A position in a stream's files.
#[derive(Debug)]
pub(super) struct LogTail {
    stream: OutputStream,
    number: u64,
    offset: u64,
    /// Open while it is read: it stays readable when it is removed.
    file: Option<File>,
}

impl LogTail {
    /// At the beginning, or so many whole lines before the end.
    pub(super) fn new(attempt: &Path, stream: OutputStream, tail_lines: Option<u32>) -> Self {
        let first = file_numbers(attempt, stream).first().copied().unwrap_or(0);
        let start = Self { stream, number: first, offset: 0, file: None };
        match tail_lines {
            None => start,
            // A file that vanishes meanwhile is among the oldest: then all of the rest is sent.
            Some(lines) => tail_find(attempt, stream, u64::from(lines)).unwrap_or(None).unwrap_or(start),
        }
    }

    pub(super) fn stream(&self) -> OutputStream {
        self.stream
    }

    /// The next bytes; `None` if none are available now.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn read(&mut self, attempt: &Path) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(data) = self.read_here(attempt)? {
                return Ok(Some(data));
            }
            // The next file exists only once this one is complete, so read again before moving on.
            let Some(next) =
                file_numbers(attempt, self.stream).into_iter().find(|number| *number > self.number)
            else {
                return Ok(None);
            };
            if let Some(data) = self.read_here(attempt)? {
                return Ok(Some(data));
            }
            *self = Self { stream: self.stream, number: next, offset: 0, file: None };
        }
    }

    fn read_here(&mut self, attempt: &Path) -> io::Result<Option<Vec<u8>>> {
        if self.file.is_none() {
            match log_open(attempt, self.stream, self.number) {
                Ok(mut file) => {
                    file.seek(SeekFrom::Start(self.offset))?;
                    self.file = Some(file);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        let Some(file) = &mut self.file else { return Ok(None) };
        let mut data = vec![0; CHUNK_BYTES];
        let length = file.read(&mut data)?;
        data.truncate(length);
        self.offset = self.offset.saturating_add(u64::try_from(length).unwrap_or(0));
        Ok((length > 0).then_some(data))
    }
}

/// Where the last `lines` lines begin, at most [`SEARCH_BYTES_MAX`] before the end; `None` if the files have fewer.
fn tail_find(attempt: &Path, stream: OutputStream, lines: u64) -> io::Result<Option<LogTail>> {
    let mut count = Count { left: lines, last: true, bytes: SEARCH_BYTES_MAX };
    for number in file_numbers(attempt, stream).into_iter().rev() {
        let mut file = match log_open(attempt, stream, number) {
            // Reading it fails too, with the reason.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => continue,
            other => other?,
        };
        let length = file.metadata()?.len();
        let offset = if lines == 0 { Some(length) } else { lines_begin(&mut file, length, &mut count)? };
        if let Some(offset) = offset {
            return Ok(Some(LogTail { stream, number, offset, file: None }));
        }
    }
    Ok(None)
}

/// Lines counted from the end.
struct Count {
    /// Lines still to be found.
    left: u64,
    /// Nothing was read yet: a line end here closes the last line and begins none.
    last: bool,
    /// Bytes that may still be searched.
    bytes: u64,
}

impl Count {
    /// Searches a block from its end. Returns the position after the line end that was searched for.
    fn block(&mut self, block: &[u8]) -> Option<usize> {
        for (at, byte) in block.iter().enumerate().rev() {
            let begins = *byte == b'\n' && !self.last;
            self.last = false;
            if begins && self.left <= 1 {
                return at.checked_add(1);
            }
            self.left = self.left.saturating_sub(u64::from(begins));
        }
        None
    }
}

/// Reads a file from its end. Returns where in it the lines begin, if they do.
fn lines_begin(file: &mut File, length: u64, count: &mut Count) -> io::Result<Option<u64>> {
    let mut end = length;
    while end > 0 {
        let from = end.saturating_sub(u64::try_from(CHUNK_BYTES).unwrap_or(u64::MAX));
        let mut block = vec![0; usize::try_from(end.saturating_sub(from)).unwrap_or(0)];
        file.seek(SeekFrom::Start(from))?;
        file.read_exact(&mut block)?;
        if let Some(at) = count.block(&block) {
            return Ok(Some(from.saturating_add(u64::try_from(at).unwrap_or(0))));
        }
        count.bytes = count.bytes.saturating_sub(end.saturating_sub(from));
        if count.bytes == 0 {
            return Ok(Some(from));
        }
        end = from;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    use borough_shim::log::LogWriter;
    use borough_shim::spec::LogLimits;
    use proptest::prelude::*;

    fn all(tail: &mut LogTail, attempt: &Path) -> String {
        let mut text = Vec::new();
        while let Some(data) = tail.read(attempt).unwrap() {
            text.extend(data);
        }
        String::from_utf8(text).unwrap()
    }

    fn writer(attempt: &Path, file_bytes_max: u64, files_max: u32) -> LogWriter {
        LogWriter::new(attempt.to_owned(), OutputStream::Stdout, LogLimits { file_bytes_max, files_max })
    }

    #[test]
    fn reading_follows_over_rotations() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = writer(dir.path(), 4, 100);
        let mut tail = LogTail::new(dir.path(), OutputStream::Stdout, None);
        assert_eq!(all(&mut tail, dir.path()), "");
        log.append(b"one\ntwo\nthr");
        assert_eq!(all(&mut tail, dir.path()), "one\ntwo\nthr");
        log.append(b"ee\nfour\n");
        assert_eq!(all(&mut tail, dir.path()), "ee\nfour\n");
    }

    #[test]
    fn what_was_removed_before_it_was_read_is_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = writer(dir.path(), 2, 2);
        log.append(b"a\n");
        let mut tail = LogTail::new(dir.path(), OutputStream::Stdout, None);
        assert_eq!(all(&mut tail, dir.path()), "a\n");
        log.append(b"b\nc\nd\ne");
        // The open file stays readable. The one after it was made and removed unseen.
        assert_eq!(all(&mut tail, dir.path()), "b\nd\ne");
    }

    #[test]
    fn what_a_task_planted_is_refused_and_named() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let (first, second) =
            (file_path(dir.path(), OutputStream::Stdout, 0), file_path(dir.path(), OutputStream::Stdout, 1));
        for what in ["symbolic link", "no regular file", "another name"] {
            std::fs::write(&first, "one\ntwo\n").unwrap();
            match what {
                "symbolic link" => symlink("/etc/hostname", &second).unwrap(),
                "another name" => {
                    std::fs::write(dir.path().join("other"), "secret\n").unwrap();
                    std::fs::hard_link(dir.path().join("other"), &second).unwrap();
                }
                _ => {
                    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
                    rustix::fs::mknodat(rustix::fs::CWD, &second, kind, mode, 0).unwrap();
                }
            }
            for lines in [None, Some(1)] {
                let mut tail = LogTail::new(dir.path(), OutputStream::Stdout, lines);
                let mut text = Vec::new();
                let error = loop {
                    match tail.read(dir.path()) {
                        Ok(Some(data)) => text.extend(data),
                        Ok(None) => panic!("{what} was read to its end"),
                        Err(error) => break error,
                    }
                };
                assert!(error.to_string().contains(what), "{what}: {error}");
                assert_eq!(text.strip_prefix(b"one\n").unwrap_or(&text), b"two\n");
            }
            std::fs::remove_file(&second).unwrap();
        }
    }

    #[test]
    fn the_search_for_lines_in_a_sparse_file_ends() {
        let dir = tempfile::tempdir().unwrap();
        File::create(file_path(dir.path(), OutputStream::Stdout, 0)).unwrap().set_len(1 << 42).unwrap();
        let tail = LogTail::new(dir.path(), OutputStream::Stdout, Some(3));
        assert_eq!(tail.offset, (1 << 42) - SEARCH_BYTES_MAX);
    }

    proptest! {
        // Each case writes dozens of files.
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_last_lines_are_those_of_the_whole_text(
            lines in prop::collection::vec("[a-z]{0,9}", 0..25), wanted in 0u32..30, closed: bool, limit in 1u64..40,
        ) {
            let dir = tempfile::tempdir().unwrap();
            let mut text = lines.join("\n");
            if closed && !text.is_empty() {
                text.push('\n');
            }
            writer(dir.path(), limit, u32::MAX).append(text.as_bytes());
            let parts: Vec<&str> = text.split_inclusive('\n').collect();
            let expect = parts[parts.len().saturating_sub(wanted as usize)..].concat();
            let mut tail = LogTail::new(dir.path(), OutputStream::Stdout, Some(wanted));
            prop_assert_eq!(all(&mut tail, dir.path()), expect);
        }
    }
}
