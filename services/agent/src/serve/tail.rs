//! Reads one stream of an attempt over its files, in order, even while they are rotated and the oldest removed.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use borough_proto::bounds::log_times_max;
use borough_proto::v1::{LogPosition, LogTime};
use borough_shim::file::own_open;
use borough_shim::log::{LogTimes, OutputStream, file_numbers, file_path, times_path};

/// Most bytes of one chunk.
const CHUNK_BYTES_MAX: usize = borough_proto::bounds::STREAM_DATA_BYTES_MAX;

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

/// Where a reader begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogStart {
    /// With the oldest kept bytes.
    Oldest,
    /// So many whole lines before the end.
    Lines(u32),
    /// With what was written at this time, in milliseconds since 1970, or later; at most so many lines before the end.
    Since { since_ms: i64, lines: Option<u32> },
    /// Where an earlier reader was.
    Position(LogPosition),
}

/// Some bytes of a stream; none if only removed ones are to be reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogPart {
    pub data: Vec<u8>,
    /// Bytes before them that were removed unread.
    pub gone: u64,
    /// The position behind them.
    pub next: LogPosition,
    /// When they were written, as far as it is known.
    pub times: Vec<LogTime>,
}

/// A position in a stream's files, and the reader there.
#[derive(Debug)]
pub(super) struct LogTail {
    stream: OutputStream,
    at: LogPosition,
    /// Bytes that were removed since the last part.
    gone: u64,
    /// Most bytes of one part.
    most: usize,
    /// How many bytes of the stream are read, from its first one; `None`: also those that are still to come.
    until: Option<u64>,
    /// Open while it is read: it stays readable when it is removed.
    file: Option<File>,
    with_times: bool,
    /// The times of the open file.
    times: Option<LogTimes>,
}

impl LogTail {
    /// Begins at `start`, and reads at most `most` bytes at once.
    pub(super) fn new(attempt: &Path, stream: OutputStream, start: LogStart, most: usize) -> Self {
        let oldest =
            || LogPosition { file: file_numbers(attempt, stream).first().copied().unwrap_or(0), offset: 0 };
        // A file that vanishes meanwhile is among the oldest: then all of the rest is sent.
        let last =
            |lines: u32| tail_find(attempt, stream, u64::from(lines)).unwrap_or(None).unwrap_or_else(oldest);
        let at = match start {
            LogStart::Oldest => oldest(),
            LogStart::Position(at) => at,
            LogStart::Lines(lines) => last(lines),
            LogStart::Since { since_ms, lines } => {
                let since = since_find(attempt, stream, since_ms).unwrap_or_else(|_| oldest());
                let last = lines.map_or(since, last);
                if (last.file, last.offset) > (since.file, since.offset) { last } else { since }
            }
        };
        let most = most.clamp(1, CHUNK_BYTES_MAX);
        Self { stream, at, gone: 0, most, until: None, file: None, with_times: false, times: None }
    }

    /// The same reader, which also says when the output was written if `with_times`.
    pub(super) fn with_times(self, with_times: bool) -> Self {
        Self { with_times, ..self }
    }

    /// The same reader, which ends with the bytes that are there now. A task that writes faster than its output is read
    /// would keep it reading.
    pub(super) fn up_to_now(self, attempt: &Path) -> Self {
        let end = tail_find(attempt, self.stream, 0).ok().flatten().unwrap_or(self.at);
        Self { until: Some(end.file.saturating_add(end.offset)), ..self }
    }

    pub(super) fn stream(&self) -> OutputStream {
        self.stream
    }

    pub(super) fn position(&self) -> LogPosition {
        self.at
    }

    /// The next bytes; `None` if none are available now.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn read(&mut self, attempt: &Path) -> io::Result<Option<LogPart>> {
        loop {
            if self.left() == 0 {
                return Ok(self.gone_part());
            }
            if let Some(part) = self.read_here(attempt)? {
                return Ok(Some(part));
            }
            // The next file exists only once this one is complete, so read again before moving on.
            let Some(next) =
                file_numbers(attempt, self.stream).into_iter().find(|number| *number > self.at.file)
            else {
                return Ok(self.gone_part());
            };
            if let Some(part) = self.read_here(attempt)? {
                return Ok(Some(part));
            }
            let behind = self.at.file.saturating_add(self.at.offset);
            self.gone = self.gone.saturating_add(next.saturating_sub(behind));
            self.at = LogPosition { file: next, offset: 0 };
            (self.file, self.times) = (None, None);
        }
    }

    /// How many bytes it may still read.
    fn left(&self) -> u64 {
        self.until.map_or(u64::MAX, |until| until.saturating_sub(self.at.file.saturating_add(self.at.offset)))
    }

    /// A part without bytes for removed ones that nothing follows yet.
    fn gone_part(&mut self) -> Option<LogPart> {
        let gone = std::mem::take(&mut self.gone);
        (gone > 0).then_some(LogPart { data: Vec::new(), gone, next: self.at, times: Vec::new() })
    }

    fn read_here(&mut self, attempt: &Path) -> io::Result<Option<LogPart>> {
        let left = self.left();
        if self.file.is_none() {
            match log_open(attempt, self.stream, self.at.file) {
                Ok(mut file) => {
                    file.seek(SeekFrom::Start(self.at.offset))?;
                    self.file = Some(file);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        let Some(file) = &mut self.file else { return Ok(None) };
        let mut data = vec![0; self.most.min(usize::try_from(left).unwrap_or(usize::MAX))];
        let length = file.read(&mut data)?;
        if length == 0 {
            return Ok(None);
        }
        data.truncate(length);
        let times = self.times_of(attempt, &mut data)?;
        self.at.offset = self.at.offset.saturating_add(u64::try_from(data.len()).unwrap_or(0));
        Ok(Some(LogPart { data, gone: std::mem::take(&mut self.gone), next: self.at, times }))
    }

    /// The times of bytes that were just read. Leaves the last ones for the next part if they have too many times.
    fn times_of(&mut self, attempt: &Path, data: &mut Vec<u8>) -> io::Result<Vec<LogTime>> {
        if !self.with_times {
            return Ok(Vec::new());
        }
        if self.times.is_none() {
            // A log from before has no times.
            self.times = times_open(attempt, self.stream, self.at.file).ok().map(LogTimes::new);
        }
        let Some(recorded) = &self.times else { return Ok(Vec::new()) };
        let begin = self.at.offset;
        let end = begin.saturating_add(u64::try_from(data.len()).unwrap_or(0));
        let (mut times, mut fit) = (Vec::new(), data.len());
        // One more than fit shows where the data must be cut.
        for time in recorded.between(begin, end, log_times_max(data.len()).saturating_add(1))? {
            let at = usize::try_from(time.offset.saturating_sub(begin)).unwrap_or(usize::MAX);
            if times.len() >= log_times_max(at) {
                fit = at;
                break;
            }
            times.push(LogTime { at: u32::try_from(at).unwrap_or(u32::MAX), ms: time.at_ms });
        }
        if fit < data.len() {
            data.truncate(fit);
            let end = begin.saturating_add(u64::try_from(fit).unwrap_or(0));
            if let Some(file) = &mut self.file {
                file.seek(SeekFrom::Start(end))?;
            }
        }
        Ok(times)
    }
}

/// Opens the times of a log file, which the shim wrote too.
fn times_open(attempt: &Path, stream: OutputStream, number: u64) -> io::Result<File> {
    own_open(&times_path(attempt, stream, number), OpenOptions::new().read(true))
}

/// Where the output begins that was written at a time or later; the end if none was.
fn since_find(attempt: &Path, stream: OutputStream, since_ms: i64) -> io::Result<LogPosition> {
    let mut end = LogPosition::default();
    for number in file_numbers(attempt, stream) {
        let file = log_open(attempt, stream, number)?.metadata()?;
        end = LogPosition { file: number, offset: file.len() };
        let begin = match times_open(attempt, stream, number) {
            Ok(times) => LogTimes::new(times).since(since_ms)?,
            // A log from before has no times, but its file says when it was written last.
            Err(_) => {
                let last_ms = file.mtime().saturating_mul(1_000);
                (file.len() > 0 && last_ms >= since_ms).then_some(0)
            }
        };
        if let Some(offset) = begin {
            return Ok(LogPosition { file: number, offset });
        }
    }
    Ok(end)
}

/// Where the last `lines` lines begin, at most [`SEARCH_BYTES_MAX`] before the end; `None` if the files have fewer.
fn tail_find(attempt: &Path, stream: OutputStream, lines: u64) -> io::Result<Option<LogPosition>> {
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
            return Ok(Some(LogPosition { file: number, offset }));
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
        let from = end.saturating_sub(u64::try_from(CHUNK_BYTES_MAX).unwrap_or(u64::MAX));
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
        while let Some(part) = tail.read(attempt).unwrap() {
            text.extend(part.data);
        }
        String::from_utf8(text).unwrap()
    }

    fn tail(attempt: &Path, start: LogStart) -> LogTail {
        LogTail::new(attempt, OutputStream::Stdout, start, CHUNK_BYTES_MAX)
    }

    fn writer(attempt: &Path, file_bytes_max: u64, files_max: u32) -> LogWriter {
        LogWriter::new(attempt.to_owned(), OutputStream::Stdout, LogLimits { file_bytes_max, files_max })
    }

    #[test]
    fn reading_follows_over_rotations() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = writer(dir.path(), 4, 100);
        let mut tail = tail(dir.path(), LogStart::Oldest);
        assert_eq!(all(&mut tail, dir.path()), "");
        log.append(b"one\ntwo\nthr");
        assert_eq!(all(&mut tail, dir.path()), "one\ntwo\nthr");
        log.append(b"ee\nfour\n");
        assert_eq!(all(&mut tail, dir.path()), "ee\nfour\n");
    }

    #[test]
    fn a_reader_up_to_now_leaves_what_is_written_later() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = writer(dir.path(), 4, 100);
        assert_eq!(all(&mut tail(dir.path(), LogStart::Oldest).up_to_now(dir.path()), dir.path()), "");
        log.append(b"one\ntwo\nthr");
        let mut tail = tail(dir.path(), LogStart::Oldest).up_to_now(dir.path());
        log.append(b"ee\nfour\n");
        assert_eq!(all(&mut tail, dir.path()), "one\ntwo\nthr");
    }

    #[test]
    fn what_was_removed_before_it_was_read_is_skipped_and_counted() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = writer(dir.path(), 2, 2);
        log.append(b"a\n");
        let mut tail = tail(dir.path(), LogStart::Oldest);
        assert_eq!(all(&mut tail, dir.path()), "a\n");
        log.append(b"b\nc\nd\ne");
        // The open file stays readable. The one after it was made and removed unseen.
        for (data, gone) in [("b\n", 0), ("d\n", 2)] {
            let part = tail.read(dir.path()).unwrap().unwrap();
            assert_eq!((part.data.as_slice(), part.gone), (data.as_bytes(), gone));
        }
        assert_eq!(all(&mut tail, dir.path()), "e");
    }

    #[test]
    fn output_has_its_times_and_is_found_by_them() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = writer(dir.path(), 10, 9);
        for second in 1..=40_i64 {
            log.time_set(second * 1_000);
            log.append(format!("{second:02}\n").as_bytes());
        }
        let read = |start| {
            let mut tail = tail(dir.path(), start).with_times(true);
            let mut lines = Vec::new();
            while let Some(part) = tail.read(dir.path()).unwrap() {
                assert!(part.times.len() <= log_times_max(part.data.len()));
                for (at, line) in part.data.chunks(3).enumerate() {
                    let time = part.times.iter().rev().find(|time| time.at as usize <= at * 3).unwrap();
                    lines.push((String::from_utf8(line.to_vec()).unwrap(), time.ms));
                }
            }
            lines
        };
        let expected = |from: i64| {
            (from..=40).map(|second| (format!("{second:02}\n"), second * 1_000)).collect::<Vec<_>>()
        };
        assert_eq!(read(LogStart::Since { since_ms: 38_500, lines: None }), expected(39));
        assert_eq!(read(LogStart::Since { since_ms: 30_000, lines: Some(2) }), expected(39));
        assert_eq!(read(LogStart::Since { since_ms: 39_000, lines: Some(9) }), expected(39));
        assert_eq!(read(LogStart::Since { since_ms: 99_000, lines: None }), []);
        let all = read(LogStart::Oldest);
        assert_eq!(all, expected(40 - i64::try_from(all.len()).unwrap() + 1));
        assert!(all.len() > 20);
    }

    /// Many times in few bytes are spread over several parts, and no byte is lost.
    #[test]
    fn a_part_has_few_times() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = writer(dir.path(), 1 << 20, 9);
        for second in 1..=100_i64 {
            log.time_set(second * 1_000);
            log.append(b"x");
        }
        let (mut tail, mut parts, mut bytes) = (tail(dir.path(), LogStart::Oldest).with_times(true), 0, 0);
        while let Some(part) = tail.read(dir.path()).unwrap() {
            assert!(part.times.len() <= log_times_max(part.data.len()));
            bytes += part.data.len();
            parts += 1;
        }
        assert_eq!((bytes, parts), (100, 13));
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
            for start in [LogStart::Oldest, LogStart::Lines(1)] {
                let mut tail = tail(dir.path(), start);
                let mut text = Vec::new();
                let error = loop {
                    match tail.read(dir.path()) {
                        Ok(Some(part)) => text.extend(part.data),
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
        let tail = tail(dir.path(), LogStart::Lines(3));
        assert_eq!(tail.position(), LogPosition { file: 0, offset: (1 << 42) - SEARCH_BYTES_MAX });
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
            let mut tail = tail(dir.path(), LogStart::Lines(wanted));
            prop_assert_eq!(all(&mut tail, dir.path()), expect);
        }

        /// Readers that begin where the one before ended read each byte once, or report it as gone.
        #[test]
        fn readers_that_go_on_from_positions_read_every_byte_once(
            chunks in prop::collection::vec("[a-z\n]{0,20}", 1..20), limit in 1u64..20, files_max in 1u32..9, most in 1usize..9,
        ) {
            let dir = tempfile::tempdir().unwrap();
            let mut log = writer(dir.path(), limit, files_max);
            let (mut at, mut seen, mut written) = (LogPosition::default(), 0, Vec::new());
            for chunk in &chunks {
                log.append(chunk.as_bytes());
                written.extend_from_slice(chunk.as_bytes());
                // A new reader each time, which reads one part more than nothing.
                let mut tail = LogTail::new(dir.path(), OutputStream::Stdout, LogStart::Position(at), most);
                if let Some(part) = tail.read(dir.path()).unwrap() {
                    seen += usize::try_from(part.gone).unwrap();
                    prop_assert_eq!(&written[seen..seen + part.data.len()], part.data.as_slice());
                    seen += part.data.len();
                    at = part.next;
                }
            }
            let mut tail = LogTail::new(dir.path(), OutputStream::Stdout, LogStart::Position(at), most);
            while let Some(part) = tail.read(dir.path()).unwrap() {
                seen += usize::try_from(part.gone).unwrap();
                prop_assert_eq!(&written[seen..seen + part.data.len()], part.data.as_slice());
                seen += part.data.len();
            }
            prop_assert_eq!(seen, written.len());
        }
    }
}
