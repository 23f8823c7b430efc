//! When output was written: a file of fixed records beside each log file.
//!
//! A record says that the bytes from an offset on were written at a time. It is written before them, so a reader that
//! sees bytes sees their time. Records are few: a task that writes byte by byte must not fill the disk with times.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::OutputStream;

/// Bytes of a record: the offset and the time, each as a little-endian number.
const RECORD_BYTES: u64 = 16;
/// Time without another record.
const INTERVAL_MS: i64 = 100;
/// Records that a file has in any case. Further ones need [`BYTES_PER_RECORD`] of output each.
const RECORDS_FREE: u64 = 1_024;
const BYTES_PER_RECORD: u64 = 64;

/// The path of the times of log file `number` of a stream.
pub fn times_path(attempt: &Path, stream: OutputStream, number: u64) -> PathBuf {
    attempt.join(format!("{}.{number}.times", stream.text()))
}

/// Bytes from an offset of a file on, and when they were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputTime {
    pub offset: u64,
    /// Wall time, milliseconds since 1970.
    pub at_ms: i64,
}

/// Writes the times of one log file. A failure costs times and nothing else.
#[derive(Debug)]
pub(super) struct TimesWriter {
    file: Option<File>,
    records: u64,
    last_ms: i64,
}

impl TimesWriter {
    /// Makes the file, unless the name is taken: then the log has no times.
    pub(super) fn create(attempt: &Path, stream: OutputStream, number: u64) -> Self {
        let path = times_path(attempt, stream, number);
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(path).ok();
        Self { file, records: 0, last_ms: 0 }
    }

    /// Records that what follows `offset` is written at `at_ms`.
    pub(super) fn record(&mut self, offset: u64, at_ms: i64) {
        let Some(file) = &mut self.file else { return };
        if !is_due(self.records, self.last_ms, OutputTime { offset, at_ms }) {
            return;
        }
        let mut record = [0; RECORD_BYTES as usize];
        let (first, second) = record.split_at_mut(8);
        first.copy_from_slice(&offset.to_le_bytes());
        second.copy_from_slice(&at_ms.to_le_bytes());
        match file.write(&record) {
            Ok(16) => (self.records, self.last_ms) = (self.records.saturating_add(1), at_ms),
            // A part of a record would shift all others.
            _ => self.file = None,
        }
    }
}

/// Decides whether a time is recorded.
fn is_due(records: u64, last_ms: i64, time: OutputTime) -> bool {
    let is_later = records == 0 || time.at_ms < last_ms || time.at_ms.saturating_sub(last_ms) >= INTERVAL_MS;
    is_later && records < RECORDS_FREE.saturating_add(time.offset / BYTES_PER_RECORD)
}

/// The recorded times of one log file, as a reader of it needs them.
#[derive(Debug)]
pub struct LogTimes {
    file: File,
}

impl LogTimes {
    /// Reads from a file that [`times_path`] names.
    pub fn new(file: File) -> Self {
        Self { file }
    }

    fn count(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len() / RECORD_BYTES)
    }

    fn get(&self, record: u64) -> io::Result<OutputTime> {
        let (mut offset, mut at_ms) = ([0; 8], [0; 8]);
        let begin = record.saturating_mul(RECORD_BYTES);
        self.file.read_exact_at(&mut offset, begin)?;
        self.file.read_exact_at(&mut at_ms, begin.saturating_add(8))?;
        Ok(OutputTime { offset: u64::from_le_bytes(offset), at_ms: i64::from_le_bytes(at_ms) })
    }

    /// The first record for which `is_behind` holds. Those before it must not, and all behind it must.
    fn search(&self, is_behind: impl Fn(OutputTime) -> bool) -> io::Result<u64> {
        let (mut low, mut high) = (0, self.count()?);
        while low < high {
            let middle = low + (high - low) / 2;
            if is_behind(self.get(middle)?) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(low)
    }

    /// The times of the bytes from `begin` to before `end`, at most `most`. The first is that of `begin`.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn between(&self, begin: u64, end: u64, most: usize) -> io::Result<Vec<OutputTime>> {
        let first = self.search(|time| time.offset > begin)?.saturating_sub(1);
        let mut times = Vec::new();
        for record in first..self.count()? {
            let time = self.get(record)?;
            if time.offset >= end || times.len() >= most {
                break;
            }
            times.push(time);
        }
        Ok(times)
    }

    /// The offset from which on all was written at `since_ms` or later; `None`: nothing was.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn since(&self, since_ms: i64) -> io::Result<Option<u64>> {
        let first = self.search(|time| time.at_ms >= since_ms)?;
        if first >= self.count()? { Ok(None) } else { self.get(first).map(|time| Some(time.offset)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: u64, at_ms: i64) -> OutputTime {
        OutputTime { offset, at_ms }
    }

    fn written(times: &[OutputTime]) -> (tempfile::TempDir, LogTimes) {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = TimesWriter::create(dir.path(), OutputStream::Stdout, 7);
        times.iter().for_each(|time| writer.record(time.offset, time.at_ms));
        let file = File::open(times_path(dir.path(), OutputStream::Stdout, 7)).unwrap();
        (dir, LogTimes::new(file))
    }

    #[test]
    fn bytes_have_the_time_of_the_last_record_before_them() {
        let all = [at(0, 1_000), at(10, 2_000), at(30, 3_000)];
        let (_dir, times) = written(&all);
        assert_eq!(times.between(0, 40, 9).unwrap(), all);
        assert_eq!(times.between(10, 30, 9).unwrap(), [all[1]]);
        assert_eq!(times.between(12, 31, 9).unwrap(), [all[1], all[2]]);
        assert_eq!(times.between(5, 40, 2).unwrap(), [all[0], all[1]]);
        assert_eq!(times.between(99, 100, 9).unwrap(), [all[2]]);
        let (_dir, none) = written(&[]);
        assert_eq!(none.between(0, 9, 9).unwrap(), []);
        assert_eq!(none.since(0).unwrap(), None);
    }

    #[test]
    fn output_since_a_time_begins_with_the_first_record_of_it() {
        let (_dir, times) = written(&[at(0, 1_000), at(10, 2_000), at(30, 3_000)]);
        let since = |ms| times.since(ms).unwrap();
        assert_eq!(
            [since(0), since(1_000), since(1_001), since(3_000)],
            [Some(0), Some(0), Some(10), Some(30)]
        );
        assert_eq!(since(3_001), None);
    }

    #[test]
    fn records_are_few() {
        assert!(is_due(0, 0, at(0, 5)));
        assert!(!is_due(1, 1_000, at(10, 1_099)) && is_due(1, 1_000, at(10, 1_100)));
        assert!(is_due(1, 1_000, at(10, 500)), "the clock was set back");
        assert!(!is_due(RECORDS_FREE, 0, at(63, 9_999)) && is_due(RECORDS_FREE, 0, at(64, 9_999)));
    }

    #[test]
    fn a_name_that_is_taken_costs_the_times_only() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(times_path(dir.path(), OutputStream::Stdout, 7), "precious").unwrap();
        TimesWriter::create(dir.path(), OutputStream::Stdout, 7).record(0, 5);
        let kept = std::fs::read_to_string(times_path(dir.path(), OutputStream::Stdout, 7)).unwrap();
        assert_eq!(kept, "precious");
    }
}
