//! The chain of an audit, and the file that has it: a line for each chunk, and behind it its calls, one per line.
//!
//! Each line is JSON, so that other programs read it. The hash of a chunk is SHA-256 of the line `NUMBER PREVIOUS` and
//! of its calls as they stand in the file.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use borough_model::audit::{AUDIT_BODY_BYTES_MAX, AuditHash, AuditSeal, SealBroken, seal_check};
use serde::{Deserialize, Serialize};

use crate::exit::{Code, Failure};
use crate::jobfile::kind_unreadable;

/// The longest text of a chunk that a file may have, in bytes.
const CHUNK_BYTES_MAX: usize = 2 * AUDIT_BODY_BYTES_MAX;

/// The line before the calls of a chunk.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChunkLine {
    chunk: u64,
    previous: String,
    hash: String,
    /// The number of calls that follow.
    calls: usize,
}

/// What was checked of a chain so far.
#[derive(Clone, Debug)]
pub(super) struct CheckedChain {
    pub(super) first: Option<u64>,
    /// The number and the hash of the last chunk.
    pub(super) last: Option<(u64, AuditHash)>,
    pub(super) calls: u64,
    looked_for: Option<AuditHash>,
    found: bool,
}

impl CheckedChain {
    /// A chain that notes whether it has `looked_for`.
    pub(super) fn new(looked_for: Option<AuditHash>) -> Self {
        Self { first: None, last: None, calls: 0, looked_for, found: false }
    }

    /// Takes the next chunk.
    ///
    /// # Errors
    /// Somebody has changed it, or removed one before it.
    pub(super) fn push(&mut self, chunk: &AuditSeal) -> Result<(), Failure> {
        seal_check(chunk, self.last).map_err(|broken| tampered(&broken))?;
        self.first.get_or_insert(chunk.number);
        self.last = Some((chunk.number, chunk.hash));
        self.calls = self.calls.saturating_add(u64::try_from(chunk.body.lines().count()).unwrap_or(u64::MAX));
        self.found |= self.looked_for == Some(chunk.hash);
        Ok(())
    }

    pub(super) fn has_looked_for(&self) -> bool {
        self.found
    }
}

fn tampered(broken: &SealBroken) -> Failure {
    Failure::new(Code::Failed, format!("the audit was changed: {broken}"))
        .with_hint("compare it with an export that was kept elsewhere")
}

/// A file that takes chunks at its end.
pub(super) struct AuditFile {
    path: PathBuf,
    file: File,
    pub(super) chain: CheckedChain,
}

impl AuditFile {
    /// Opens a file, or makes it, and checks what it has.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        is_plain(path)?;
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create(true).mode(0o600).open(path);
        let file = file.map_err(|error| unusable(path, &error))?;
        let chain = chain_read(path, BufReader::new(&file), None)?;
        Ok(Self { path: path.to_owned(), file, chain })
    }

    /// Checks a file as it is.
    pub(super) fn read(path: &Path, looked_for: Option<AuditHash>) -> Result<Self, Failure> {
        is_plain(path)?;
        let file = File::open(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                let text = format!("there is no file {}", path.display());
                Failure::new(Code::Usage, text).with_hint("borough audit export --to FILE makes one")
            }
            _ => Failure::new(Code::Usage, unusable(path, &error).message()),
        })?;
        let chain = chain_read(path, BufReader::new(&file), looked_for)?;
        Ok(Self { path: path.to_owned(), file, chain })
    }

    pub(super) fn append(&mut self, chunk: &AuditSeal) -> Result<(), Failure> {
        self.chain.push(chunk)?;
        let text = chunk_text(chunk);
        self.file.write_all(text.as_bytes()).map_err(|error| unusable(&self.path, &error))
    }

    /// Makes the file durable.
    pub(super) fn end(self) -> Result<CheckedChain, Failure> {
        self.file.sync_all().map_err(|error| unusable(&self.path, &error))?;
        Ok(self.chain)
    }
}

/// Refuses what may never end, before it is opened.
fn is_plain(path: &Path) -> Result<(), Failure> {
    let Some(kind) = kind_unreadable(path) else { return Ok(()) };
    let text = format!("{} is a {kind}", path.display());
    Err(Failure::new(Code::Usage, text).with_hint("accepted: the path of a file"))
}

fn unusable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(Code::Failed, format!("cannot use {}: {}", path.display(), error.kind()))
}

fn chunk_text(chunk: &AuditSeal) -> String {
    let line = ChunkLine {
        chunk: chunk.number,
        previous: chunk.previous.to_string(),
        hash: chunk.hash.to_string(),
        calls: chunk.body.lines().count(),
    };
    let line = serde_json::to_string(&line).unwrap_or_default();
    format!("{line}\n{}", chunk.body)
}

/// Reads chunks until the end of a file.
fn chain_read(
    path: &Path,
    mut lines: impl io::BufRead,
    looked_for: Option<AuditHash>,
) -> Result<CheckedChain, Failure> {
    let (mut chain, mut number) = (CheckedChain::new(looked_for), 0_u64);
    let mut line = String::new();
    loop {
        line.clear();
        number = number.saturating_add(1);
        if line_read(path, number, &mut lines, &mut line)? == 0 {
            return Ok(chain);
        }
        let head = chunk_line(&line).ok_or_else(|| no_chunk(path, number))?;
        let mut body = String::new();
        for _ in 0..head.calls {
            number = number.saturating_add(1);
            let read = line_read(path, number, &mut lines, &mut body)?;
            if read == 0 || !body.ends_with('\n') || body.len() > CHUNK_BYTES_MAX {
                let text = format!("{}:{number}: chunk {} is cut off", path.display(), head.chunk);
                let hint = "an export was interrupted: remove the lines from that chunk on, and export again";
                return Err(Failure::new(Code::Failed, text).with_hint(hint));
            }
        }
        let hashes = AuditHash::from_text(&head.previous).zip(AuditHash::from_text(&head.hash));
        let (previous, hash) = hashes.ok_or_else(|| no_chunk(path, number))?;
        chain.push(&AuditSeal { number: head.chunk, previous, hash, body })?;
    }
}

fn line_read(
    path: &Path,
    number: u64,
    lines: &mut impl io::BufRead,
    into: &mut String,
) -> Result<usize, Failure> {
    let most = u64::try_from(CHUNK_BYTES_MAX).unwrap_or(u64::MAX);
    let mut line = io::Read::take(lines, most);
    line.read_line(into).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => no_chunk(path, number),
        _ => unusable(path, &error),
    })
}

fn chunk_line(line: &str) -> Option<ChunkLine> {
    serde_json::from_str(line).ok()
}

fn no_chunk(path: &Path, number: u64) -> Failure {
    let text = format!("{}:{number}: no line of an exported audit", path.display());
    // A file of something else is a mistake of the caller. Further down somebody has changed an audit.
    let code = if number == 1 { Code::Usage } else { Code::Failed };
    Failure::new(code, text).with_hint("accepted: a file that borough audit export --to FILE has written")
}

#[cfg(test)]
mod tests {
    use borough_model::audit::{AuditRecord, AuditedCall, audit_chunks};

    use super::*;

    fn records(count: usize) -> Vec<AuditRecord> {
        let call = |number| AuditedCall {
            method: "JobService/StopJob".to_owned(),
            by: "operator".to_owned(),
            user: None,
            from: None,
            request: None,
            object: Some(format!("job/ann/{}{number}", "x".repeat(9_000))),
            revisions: None,
            refused: None,
            at_ms: None,
        };
        (0..count).map(|number| AuditRecord { at_ms: 1, call: call(number) }).collect()
    }

    fn written(dir: &Path, count: usize) -> PathBuf {
        let path = dir.join("audit");
        let mut file = AuditFile::open(&path).unwrap();
        for chunk in audit_chunks(&records(count), 0, AuditHash::default()) {
            file.append(&chunk).unwrap();
        }
        file.end().unwrap();
        path
    }

    #[test]
    fn a_file_that_is_not_there_is_wrong_usage() {
        let missing = AuditFile::read(Path::new("/nowhere/at/all"), None).map(|_| ()).unwrap_err();
        assert_eq!(missing.code(), Code::Usage);
    }

    fn refused(path: &Path) -> String {
        AuditFile::read(path, None).map(|_| ()).unwrap_err().message().to_owned()
    }

    #[test]
    fn a_file_reads_back_and_shows_what_was_changed() {
        let dir = tempfile::tempdir().unwrap();
        let path = written(dir.path(), 20);
        let chain = AuditFile::read(&path, None).unwrap().chain;
        assert_eq!((chain.first, chain.calls), (Some(1), 20));
        let (last, hash) = chain.last.unwrap();
        assert!(last > 2, "several chunks");
        assert!(AuditFile::read(&path, Some(hash)).unwrap().chain.has_looked_for());
        assert!(!AuditFile::read(&path, Some(AuditHash::default())).unwrap().chain.has_looked_for());

        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replacen("StopJob", "GetJob", 1)).unwrap();
        assert!(refused(&path).contains("chunk 1"), "{}", refused(&path));
        // A whole chunk is gone.
        let second = text.match_indices("{\"chunk\":2").next().unwrap().0;
        let third = text.match_indices("{\"chunk\":3").next().unwrap().0;
        std::fs::write(&path, format!("{}{}", &text[..second], &text[third..])).unwrap();
        assert!(refused(&path).contains("2 should come here"), "{}", refused(&path));
        // A call is gone.
        let line = text.match_indices('\n').nth(1).unwrap().0;
        let first = text.match_indices('\n').next().unwrap().0;
        std::fs::write(&path, format!("{}{}", &text[..first], &text[line..])).unwrap();
        assert!(AuditFile::read(&path, None).is_err());
        // The end is gone.
        std::fs::write(&path, &text[..text.len() - 5]).unwrap();
        assert!(refused(&path).contains("is cut off"), "{}", refused(&path));
    }

    #[test]
    fn another_file_is_refused_and_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notes");
        for text in [
            "hello\n",
            "{}\n",
            "{\"chunk\":1}\n",
            "\u{0}\u{1}",
            "{\"chunk\":1,\"previous\":\"\",\"hash\":\"\",\"calls\":0}\n",
        ] {
            std::fs::write(&path, text).unwrap();
            let failure = AuditFile::open(&path).map(|_| ()).unwrap_err();
            assert!(
                failure.message().contains("notes:1: no line of an exported audit"),
                "{}",
                failure.message()
            );
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        std::fs::write(&path, [0xff, 0xfe, b'\n']).unwrap();
        assert!(refused(&path).contains("no line of an exported audit"));
        let failure = AuditFile::read(dir.path(), None).map(|_| ()).unwrap_err();
        assert!(failure.message().contains("is a directory"), "{}", failure.message());
    }
}
