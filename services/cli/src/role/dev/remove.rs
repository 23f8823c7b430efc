//! `borough dev --remove`: ends what runs in a directory, and removes what `dev` made there. It does not read the
//! store, which may be damaged or gone.

use std::fs;
use std::io;
use std::path::Path;

use borough_agent::ProcessGuard;
use borough_shim::tree::tree_remove;

use super::super::failed;
use super::layout::{Layout, Remembered};
use super::nodes::{is_locked, tasks_remove};
use crate::exit::{Code, Failure};
use crate::output::Printer;

/// Files that `dev` makes in its directory, besides the tokens of its cells' nodes, in their order of removal. The file
/// that marks the directory as one of `dev` is last, so that an interrupted removal can be repeated.
const MADE: [&str; 10] =
    ["nodes", "store", "log", "bin", "records", "token", "client.json", "dev.json.new", "dev.json", LOCK];
/// Held by the `dev` of a directory.
const LOCK: &str = "LOCK";
/// Names of what is left that are shown.
const LEFT_SHOWN: usize = 3;
/// The directory for secrets.
const SECRETS: &str = "secrets";
/// The prefix of the files of those tokens.
const NODE_TOKEN: &str = "node-token-";

/// Ends and removes everything of the directory `root`.
pub(super) fn remove(root: &Path, printer: &Printer) -> Result<Code, Failure> {
    let unusable = |error: io::Error| failed(&format!("cannot use {}", root.display()), &error);
    let remembered = Remembered::read(root).map_err(unusable)?;
    if remembered.is_none() && !only_made(root) {
        let text = format!("no dev cell in {}", root.display());
        return Err(Failure::new(Code::NotFound, text));
    }
    // Refused while a `dev` runs there.
    let layout = Layout::open(root).map_err(|error| {
        let is_running = error.kind() == io::ErrorKind::ResourceBusy;
        let refused = unusable(error);
        if is_running {
            refused.with_hint("end that process first, with Ctrl-C where it runs or with `kill`")
        } else {
            refused
        }
    })?;
    printer.remark("ending the tasks and agents of this directory");
    let guard = ProcessGuard::new(layout.root()).and_then(ProcessGuard::end);
    guard.map_err(|error| failed("nothing was removed: cannot end what runs", &error))?;
    if let Some(node) = node_running(&layout) {
        let text = format!("nothing was removed: the agent of {node} runs and is not in records/");
        return Err(Failure::new(Code::Failed, text).with_hint("end its process first"));
    }
    tasks_remove(&layout);
    made_remove(layout.root()).map_err(|error| failed("cannot remove everything; try again", &error))?;
    if let Some(store) = remembered.and_then(|remembered| remembered.store) {
        printer.remark(&format!(
            "the cells in {store} stay; admit their nodes with `borough node admit` when they return"
        ));
    }
    match fs::remove_dir(layout.root()) {
        Ok(()) => printer.remark(&format!("{} is removed", layout.root().display())),
        Err(error) => {
            let why = left_text(layout.root()).unwrap_or_else(|| error.to_string());
            printer.remark(&format!("{} stays: {why}", layout.root().display()));
        }
    }
    Ok(Code::Done)
}

/// What is left in the directory, such as secrets that a person has put there; `None`: nothing.
fn left_text(root: &Path) -> Option<String> {
    let entries = fs::read_dir(root).ok()?.flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let shown = names.iter().take(LEFT_SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(LEFT_SHOWN) {
        _ if names.is_empty() => None,
        None | Some(0) => Some(format!("it has {shown}, and `dev` removes only what it made")),
        Some(more) => Some(format!("it has {shown} and {more} more, and `dev` removes only what it made")),
    }
}

/// A node whose agent still runs, even if it was never recorded.
fn node_running(layout: &Layout) -> Option<String> {
    let entries = fs::read_dir(layout.nodes()).into_iter().flatten().flatten();
    let running = |entry: fs::DirEntry| {
        is_locked(&entry.path()).then(|| entry.file_name().to_string_lossy().into_owned())
    };
    entries.into_iter().find_map(running)
}

/// Returns true if the directory has what a `dev` makes that could not start, and nothing else.
fn only_made(root: &Path) -> bool {
    let Ok(entries) = fs::read_dir(root) else { return false };
    let names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.iter().any(|name| name == LOCK)
        && names.iter().all(|name| is_token(name) || name == SECRETS || MADE.contains(&name.as_str()))
}

/// Names of files that it makes one of for each cell or process.
fn is_token(name: &str) -> bool {
    name.starts_with(NODE_TOKEN) || (name.starts_with("client.json.") && name.ends_with(".new"))
}

/// Removes what `dev` has made, and nothing else.
fn made_remove(root: &Path) -> io::Result<()> {
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        if is_token(&entry.file_name().to_string_lossy()) {
            fs::remove_file(entry.path())?;
        }
    }
    // Secrets are not of `dev`: the directory goes only if it is empty.
    fs::remove_dir(root.join(SECRETS)).ok();
    MADE.iter().try_for_each(|name| tree_remove(&root.join(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_named() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(left_text(root.path()), None);
        fs::create_dir(root.path().join("secrets")).unwrap();
        let only = "it has secrets, and `dev` removes only what it made";
        assert_eq!(left_text(root.path()).as_deref(), Some(only));
        for mine in ["a", "b", "c"] {
            fs::write(root.path().join(mine), "").unwrap();
        }
        assert!(left_text(root.path()).unwrap().starts_with("it has a, b, c and 1 more, and "));
    }

    #[test]
    fn a_directory_whose_dev_could_not_start_is_one_of_dev() {
        let root = tempfile::tempdir().unwrap();
        assert!(!only_made(root.path()), "an empty one may be anybody's");
        for made in ["token", "node-token-alpha", "LOCK", "client.json.7.new"] {
            fs::write(root.path().join(made), "").unwrap();
        }
        assert!(only_made(root.path()));
        fs::write(root.path().join("mine.txt"), "").unwrap();
        assert!(!only_made(root.path()));
    }

    #[test]
    fn nothing_but_what_dev_made_is_removed() {
        let root = tempfile::tempdir().unwrap();
        for made in ["token", "node-token-alpha", "client.json.7.new", "dev.json", "mine.txt"] {
            fs::write(root.path().join(made), "").unwrap();
        }
        fs::create_dir_all(root.path().join("nodes/alpha-1")).unwrap();
        fs::create_dir(root.path().join("notes")).unwrap();
        fs::create_dir_all(root.path().join("secrets/ann")).unwrap();
        made_remove(root.path()).unwrap();
        let left = fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut left: Vec<_> = left.collect();
        left.sort();
        assert_eq!(left, ["mine.txt", "notes", "secrets"]);
        fs::remove_dir(root.path().join("secrets/ann")).unwrap();
        made_remove(root.path()).unwrap();
        assert!(!root.path().join("secrets").exists());
    }
}
