//! `borough dev --remove`: ends what runs in a directory, and removes what `dev` made there. It needs nothing of the store,
//! which may be damaged or gone.

use std::fs;
use std::io;
use std::path::Path;

use borough_agent::ProcessGuard;

use super::super::failed;
use super::layout::Layout;
use super::nodes::tasks_remove;
use crate::exit::{Code, Failure};
use crate::output::Printer;

/// What `dev` makes in its directory, beside the tokens of its cells' nodes.
const MADE: [&str; 9] =
    ["bin", "log", "nodes", "records", "store", "token", "client.json", "dev.json", "LOCK"];
/// How the files of those tokens begin.
const NODE_TOKEN: &str = "node-token-";

/// Ends and removes everything of the directory `root`.
pub(super) fn remove(root: &Path, printer: &Printer) -> Result<Code, Failure> {
    if !(root.join("LOCK").is_file() && root.join("nodes").is_dir()) {
        return Err(Failure::new(
            Code::NotFound,
            format!("there is no cell of `borough dev` in {}", root.display()),
        ));
    }
    // Refused while a `dev` runs there.
    let layout =
        Layout::open(root).map_err(|error| failed(&format!("cannot use {}", root.display()), &error))?;
    let guard = ProcessGuard::new(layout.root()).map_err(|error| failed("cannot end what runs", &error))?;
    printer.remark("ending the tasks and agents of this directory");
    drop(guard);
    tasks_remove(&layout);
    made_remove(layout.root()).map_err(|error| failed("cannot remove everything", &error))?;
    match fs::remove_dir(layout.root()) {
        Ok(()) => printer.remark(&format!("{} is removed", layout.root().display())),
        Err(error) => {
            printer
                .remark(&format!("{} stays, with what is not of `dev` ({error})", layout.root().display()));
        }
    }
    Ok(Code::Done)
}

/// Removes what `dev` has made, and nothing else.
fn made_remove(root: &Path) -> io::Result<()> {
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !MADE.contains(&name.as_ref()) && !name.starts_with(NODE_TOKEN) {
            continue;
        }
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_what_dev_made_is_removed() {
        let root = tempfile::tempdir().unwrap();
        for made in ["token", "node-token-alpha", "dev.json", "mine.txt"] {
            fs::write(root.path().join(made), "").unwrap();
        }
        fs::create_dir_all(root.path().join("nodes/alpha-1")).unwrap();
        fs::create_dir(root.path().join("notes")).unwrap();
        made_remove(root.path()).unwrap();
        let left = fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut left: Vec<_> = left.collect();
        left.sort();
        assert_eq!(left, ["mine.txt", "notes"]);
    }
}
