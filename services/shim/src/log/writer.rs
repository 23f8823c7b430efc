//! Writes one stream: rotates at line ends, removes the oldest files, and on a full disk loses only output.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::PathBuf;

use super::times::TimesWriter;
use super::{OutputStream, file_numbers, file_path, times_path};
use crate::spec::LogLimits;

/// How far a file may grow beyond its limit before a line is broken in two.
pub const LINE_SLACK_BYTES: u64 = 64 * 1024;

/// The most taken names in a row that are skipped, before output is dropped instead.
const TAKEN_MAX: u32 = 1024;

/// Writes one stream of one attempt.
#[derive(Debug)]
pub struct LogWriter {
    attempt: PathBuf,
    stream: OutputStream,
    limits: LogLimits,
    file: Option<File>,
    times: Option<TimesWriter>,
    /// When the next output is written; `None`: nobody has said, and no time is recorded.
    now_ms: Option<i64>,
    number: u64,
    size: u64,
    dropped_bytes: u64,
}

/// What to do with the first bytes of `data`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WriteStep {
    /// Bytes for the open file.
    take: usize,
    /// Whether the file is full then.
    rotate: bool,
}

/// How much of `data` still goes into a file of `size` bytes.
fn step(size: u64, limit: u64, data: &[u8]) -> WriteStep {
    let whole = WriteStep { take: data.len(), rotate: false };
    let length = u64::try_from(data.len()).unwrap_or(u64::MAX);
    if size.saturating_add(length) < limit {
        return whole;
    }
    // The first line end at or after the limit. Bytes before the limit stay in any case.
    let from = usize::try_from(limit.saturating_sub(size)).unwrap_or(usize::MAX).saturating_sub(1);
    let line_end = data.get(from..).and_then(|rest| rest.iter().position(|byte| *byte == b'\n'));
    let hard =
        usize::try_from(limit.saturating_add(LINE_SLACK_BYTES).saturating_sub(size)).unwrap_or(usize::MAX);
    let lines = line_end.map(|at| from.saturating_add(at).saturating_add(1));
    if let Some(take) = lines.filter(|&take| take <= hard) {
        return WriteStep { take, rotate: true };
    }
    if data.len() >= hard { WriteStep { take: hard, rotate: true } } else { whole }
}

impl LogWriter {
    /// A writer that starts a new file after the existing ones.
    pub fn new(attempt: PathBuf, stream: OutputStream, limits: LogLimits) -> Self {
        let number = file_numbers(&attempt, stream).last().map_or(0, |&last| {
            let length = fs::symlink_metadata(file_path(&attempt, stream, last)).map_or(0, |file| file.len());
            last.saturating_add(length.max(1))
        });
        let mut writer = Self {
            attempt,
            stream,
            limits,
            file: None,
            times: None,
            now_ms: None,
            number,
            size: 0,
            dropped_bytes: 0,
        };
        // On a full disk this is tried again with the first output.
        let _ = writer.open();
        writer
    }

    /// Sets the time at which the following output is written, in milliseconds since 1970.
    pub fn time_set(&mut self, now_ms: i64) {
        self.now_ms = Some(now_ms);
    }

    /// Appends `data`. Output that cannot be written is dropped and counted; the count is written once the disk has
    /// space again.
    pub fn append(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            let step = step(self.size, self.limits.file_bytes_max.max(1), data);
            let (now, later) = data.split_at(step.take.min(data.len()));
            self.write(now);
            data = later;
            if step.rotate {
                self.rotate();
            }
        }
    }

    fn write(&mut self, data: &[u8]) {
        if self.dropped_bytes > 0 && !self.dropped_note() {
            self.dropped_bytes = self.dropped_bytes.saturating_add(u64::try_from(data.len()).unwrap_or(0));
            return;
        }
        self.time_record();
        let mut rest = data;
        while !rest.is_empty() {
            match self.open().and_then(|file| file.write(rest)) {
                Ok(0) => break,
                Ok(written) => {
                    self.size = self.size.saturating_add(u64::try_from(written).unwrap_or(0));
                    rest = rest.get(written..).unwrap_or_default();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.dropped_bytes = self.dropped_bytes.saturating_add(u64::try_from(rest.len()).unwrap_or(0));
    }

    /// Records when the next bytes are written, before them.
    fn time_record(&mut self) {
        let Some(now_ms) = self.now_ms.filter(|_| self.open().is_ok()) else { return };
        let create = || TimesWriter::create(&self.attempt, self.stream, self.number);
        self.times.get_or_insert_with(create).record(self.size, now_ms);
    }

    /// Writes how much is missing. Returns true on success.
    fn dropped_note(&mut self) -> bool {
        let note = format!("\n[borough: {} bytes of output lost: the disk was full]\n", self.dropped_bytes);
        let written = self.open().and_then(|file| file.write_all(note.as_bytes())).is_ok();
        if written {
            self.size = self.size.saturating_add(u64::try_from(note.len()).unwrap_or(0));
            self.dropped_bytes = 0;
        }
        written
    }

    fn open(&mut self) -> io::Result<&mut File> {
        if self.file.is_none() {
            self.file = Some(self.create()?);
            self.times = None;
            self.size = 0;
            self.link();
        }
        self.file.as_mut().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    /// Makes the next file. Skips a name that is taken, so that it neither follows a link nor waits for a FIFO that the
    /// task put there.
    fn create(&mut self) -> io::Result<File> {
        for _ in 0..TAKEN_MAX {
            let path = file_path(&self.attempt, self.stream, self.number);
            match OpenOptions::new().append(true).create_new(true).mode(0o600).open(path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    self.number = self.number.saturating_add(1);
                }
                other => return other,
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    fn rotate(&mut self) {
        // Nothing was written, as on a full disk: the next file would have the same number.
        if self.size == 0 {
            return;
        }
        self.file = None;
        self.number = self.number.saturating_add(self.size);
        self.size = 0;
        let keep = usize::try_from(self.limits.files_max.max(1)).unwrap_or(usize::MAX);
        // One of `files_max` is the new file.
        let numbers = file_numbers(&self.attempt, self.stream);
        for number in numbers.iter().take(numbers.len().saturating_sub(keep - 1)) {
            let _ = fs::remove_file(file_path(&self.attempt, self.stream, *number));
            let _ = fs::remove_file(times_path(&self.attempt, self.stream, *number));
        }
        let _ = self.open();
    }

    /// Points the stable name at the present file. Only people use it, so a failure costs nothing.
    fn link(&self) {
        let temporary = self.attempt.join(format!(".{}.link", self.stream.text()));
        let _ = fs::remove_file(&temporary);
        let target = format!("{}.{}.log", self.stream.text(), self.number);
        if symlink(target, &temporary).is_ok() {
            let _ = fs::rename(&temporary, self.attempt.join(format!("{}.log", self.stream.text())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    use crate::log::LogTimes;

    fn contents(attempt: &std::path::Path) -> Vec<Vec<u8>> {
        let numbers = file_numbers(attempt, OutputStream::Stdout);
        numbers.iter().map(|n| fs::read(file_path(attempt, OutputStream::Stdout, *n)).unwrap()).collect()
    }

    fn writer(attempt: &std::path::Path, file_bytes_max: u64, files_max: u32) -> LogWriter {
        LogWriter::new(attempt.to_owned(), OutputStream::Stdout, LogLimits { file_bytes_max, files_max })
    }

    #[test]
    fn each_file_has_times_and_both_are_removed_together() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = writer(dir.path(), 2, 2);
        for (at_ms, line) in [(1_000, b"a\n"), (2_000, b"b\n"), (3_000, b"c\n")] {
            log.time_set(at_ms);
            log.append(line);
        }
        let times = |number| {
            let file = File::open(times_path(dir.path(), OutputStream::Stdout, number)).ok()?;
            LogTimes::new(file)
                .between(0, 2, 9)
                .ok()
                .map(|times| times.iter().map(|time| time.at_ms).collect::<Vec<_>>())
        };
        assert_eq!([times(0), times(2), times(4)], [None, None, Some(vec![3_000])]);
        assert_eq!(file_numbers(dir.path(), OutputStream::Stdout), [4, 6]);
    }

    #[test]
    fn files_end_with_lines_and_the_stable_name_is_the_newest() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = writer(dir.path(), 8, 10);
        log.append(b"12345\n789\n");
        log.append(b"partial");
        assert_eq!(contents(dir.path()), [b"12345\n789\n".to_vec(), b"partial".to_vec()]);
        assert_eq!(fs::read(dir.path().join("stdout.log")).unwrap(), b"partial");
    }

    #[test]
    fn what_a_task_planted_is_not_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        let mut log = writer(dir.path(), 2, 10);
        symlink(&victim, file_path(dir.path(), OutputStream::Stdout, 2)).unwrap();
        let fifo = file_path(dir.path(), OutputStream::Stdout, 3);
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        fs::hard_link(&victim, file_path(dir.path(), OutputStream::Stdout, 4)).unwrap();
        log.append(b"a\nb\nc\n");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        let written: Vec<_> =
            [0, 5, 7].map(|n| fs::read(file_path(dir.path(), OutputStream::Stdout, n)).unwrap()).concat();
        assert_eq!(written, b"a\nb\nc\n");
    }

    #[test]
    fn the_oldest_go() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = writer(dir.path(), 2, 2);
        log.append(b"a\nb\nc\nd");
        assert_eq!(contents(dir.path()), [b"c\n".to_vec(), b"d".to_vec()]);
    }

    #[test]
    fn an_endless_line_is_broken_at_the_bound() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = writer(dir.path(), 10, 100);
        for _ in 0..200 {
            log.append(&[b'x'; 1000]);
        }
        let files = contents(dir.path());
        assert!(files.len() >= 3, "{} files", files.len());
        assert!(files.iter().all(|file| file.len() as u64 <= 10 + LINE_SLACK_BYTES));
        assert_eq!(files.iter().map(Vec::len).sum::<usize>(), 200_000);
    }

    #[test]
    fn a_full_disk_costs_output_and_the_log_notes_it() {
        let dir = tempfile::tempdir().unwrap();
        let attempt = dir.path().join("absent");
        let mut log = writer(&attempt, 1000, 2);
        log.append(b"lost\n");
        fs::create_dir(&attempt).unwrap();
        log.append(b"kept\n");
        let text = String::from_utf8(contents(&attempt).concat()).unwrap();
        assert!(text.contains("5 bytes of output lost") && text.ends_with("kept\n"), "{text}");
    }

    proptest! {
        // Each case writes dozens of files.
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn nothing_is_lost_or_reordered_and_every_file_ends_a_line(
            chunks in prop::collection::vec("[a-z\n]{0,40}", 0..30), limit in 1u64..60,
        ) {
            let dir = tempfile::tempdir().unwrap();
            let mut log = writer(dir.path(), limit, u32::MAX);
            for chunk in &chunks {
                log.append(chunk.as_bytes());
            }
            let files = contents(dir.path());
            prop_assert_eq!(files.concat(), chunks.concat().into_bytes());
            let mut before = 0;
            for (number, file) in file_numbers(dir.path(), OutputStream::Stdout).into_iter().zip(&files) {
                prop_assert_eq!(number, before, "a file is named by the bytes before it");
                before += u64::try_from(file.len()).unwrap();
            }
            for file in files.iter().rev().skip(1) {
                prop_assert_eq!(file.last(), Some(&b'\n'));
            }
        }
    }
}
