//! Files of the user that the program keeps itself: JSON, in the user's directories.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use borough_proto::file::file_read;
use rustix::fs::{FlockOperation, flock};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The most bytes of such a file. More is none of ours.
const BYTES_MAX: u64 = 1 << 20;

/// Reads a file; `None` if it does not exist. An error names its path.
pub(crate) fn own_file_read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    let named = |problem: String, kind| io::Error::new(kind, format!("{}: {problem}", path.display()));
    let text = match file_read(path, BYTES_MAX) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Err(named("is not UTF-8 text".to_owned(), error.kind()));
        }
        Err(error) => return Err(named(error.to_string(), error.kind())),
    };
    let read = serde_json::from_str(&text);
    read.map(Some).map_err(|error| {
        let placed = format!("{}:{}", path.display(), problem_text(&error));
        io::Error::new(io::ErrorKind::InvalidData, placed)
    })
}

/// Held while a file is read and written again, so that two commands do not undo each other's change.
pub(crate) struct OwnFileLock(File);

impl Drop for OwnFileLock {
    fn drop(&mut self) {
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// Waits until no other command changes the file. Makes its directory.
pub(crate) fn own_file_lock(path: &Path) -> io::Result<OwnFileLock> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let beside = path.with_extension("json.lock");
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(beside)?;
    flock(&file, FlockOperation::LockExclusive)?;
    Ok(OwnFileLock(file))
}

/// What is wrong with a file, with its place. The words are those of a reader of JSON, in the terms of this program.
fn problem_text(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let plain = text.strip_suffix(&place).unwrap_or(&text);
    let what = match error.classify() {
        serde_json::error::Category::Data => data_problem(plain),
        serde_json::error::Category::Eof => "the JSON ends in the middle".to_owned(),
        _ => "this is no JSON".to_owned(),
    };
    format!("{}:{}: {what}", error.line(), error.column().max(1))
}

/// `unknown field`, `invalid type` and their kind, as serde writes them.
fn data_problem(text: &str) -> String {
    let (what, accepted) = text.split_once(", expected ").unwrap_or((text, ""));
    let what = match what.strip_prefix("invalid type: ").or_else(|| what.strip_prefix("invalid value: ")) {
        Some(given) => given.replace('`', "").replace("map", "an object").replace("sequence", "a list"),
        None => what.replace('`', "\""),
    };
    let accepted = accepted.strip_prefix("one of ").unwrap_or(accepted).replace('`', "");
    let accepted = match accepted.as_str() {
        "a map"
        | "struct ContextFile"
        | "struct SavedContext"
        | "struct ClientFile"
        | "struct LoginRecord" => "an object, {…}",
        "a sequence" => "a list, […]",
        "a string" | "path string" => "a text in double quotes",
        other => other,
    };
    if accepted.is_empty() { what } else { format!("{what}; accepted: {accepted}") }
}

/// Writes a file for its owner alone, in one step: a reader sees the old one or the new one.
pub(crate) fn own_file_write(path: &Path, content: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec_pretty(content)?;
    text.push(b'\n');
    own_bytes_write(path, &text)
}

/// As [`own_file_write`], of a file that is no JSON.
pub(crate) fn own_bytes_write(path: &Path, text: &[u8]) -> io::Result<()> {
    // Two writers never have one file.
    let temporary = path.with_extension(format!("json.{}.new", std::process::id()));
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(text)?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)
}

/// A directory of the user: what an XDG variable names, else this one below the home directory. `None` if neither is an
/// absolute path: a relative one would be another directory for each command.
pub(crate) fn own_directory(variable: &str, below_home: &str) -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    set(variable).or_else(|| set("HOME").map(|home| home.join(below_home)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context_file::ContextFile;

    /// No word of the library that reads JSON is in a message.
    #[test]
    fn a_broken_file_is_refused_with_its_place_and_what_is_accepted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("contexts.json");
        for (text, problem) in [
            ("", "1:1: the JSON ends in the middle"),
            ("{", "1:1: the JSON ends in the middle"),
            ("{\n  x", "2:3: this is no JSON"),
            ("3", "1:1: integer 3; accepted: an object, {…}"),
            ("{\"contexts\": 3}", "1:14: integer 3; accepted: an object, {…}"),
            ("{\"current\": 3}", "1:13: integer 3; accepted: a text in double quotes"),
            ("{\"contexts\": {\"p\": {\"gateways\": \"x\"}}}", "1:35: string \"x\"; accepted: a list, […]"),
            ("{\"curent\": \"p\"}", "1:9: unknown field \"curent\"; accepted: current or contexts"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = own_file_read::<ContextFile>(&path).unwrap_err().to_string();
            assert_eq!(error, format!("{}:{problem}", path.display()), "{text}");
        }
        std::fs::write(&path, [0xff]).unwrap();
        let error = own_file_read::<ContextFile>(&path).unwrap_err().to_string();
        assert_eq!(error, format!("{}: is not UTF-8 text", path.display()));
    }
}
