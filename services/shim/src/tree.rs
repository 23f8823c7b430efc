//! Removes a tree that a task made: however deep it is, with two open directories and without following a link.
//!
//! `std::fs::remove_dir_all` keeps a directory open for each level. A task can make a million levels with `mkdir` and
//! `chdir`, which would take every descriptor of the agent. This module first moves directories below the first level
//! up to it.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, chmodat, openat, renameat, renameat_with, statat,
    unlinkat,
};
use rustix::io::Errno;

/// Names that are visited before a directory is read again: a read during changes may skip some.
const NAMES_MAX: usize = 1024;
/// The name of a directory that was moved up, with a number.
const MOVED: &str = ".borough-removed.";

/// Removes `path`: a directory with all that is in it, a file, or a link itself.
///
/// # Errors
/// Those of the file system; the rest can be removed later. A missing `path` is no error.
pub fn tree_remove(path: &Path) -> io::Result<()> {
    match unlinkat(CWD, path, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    let root = match directory_open(CWD, path) {
        Err(Errno::NOENT) => return Ok(()),
        other => other?,
    };
    let mut moved = 0_u64;
    loop {
        let names = names(root.as_fd())?;
        if names.is_empty() {
            break;
        }
        for name in names {
            if !file_remove(root.as_fd(), &name)? {
                directory_empty(root.as_fd(), &name, &mut moved)?;
            }
        }
    }
    match unlinkat(CWD, path, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Empties the directory `name` of `root`, moves its directories up to `root`, and removes it.
fn directory_empty(root: BorrowedFd<'_>, name: &CStr, moved: &mut u64) -> io::Result<()> {
    let directory = match directory_open(root, name) {
        Err(Errno::NOENT) => return Ok(()),
        other => other?,
    };
    loop {
        let names = names(directory.as_fd())?;
        if names.is_empty() {
            break;
        }
        for inner in names {
            if !file_remove(directory.as_fd(), &inner)? {
                move_up(directory.as_fd(), &inner, root, moved)?;
            }
        }
    }
    match unlinkat(root, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn move_up(from: BorrowedFd<'_>, name: &CStr, root: BorrowedFd<'_>, moved: &mut u64) -> io::Result<()> {
    loop {
        *moved = moved.saturating_add(1);
        let target = format!("{MOVED}{moved}");
        let done = match renameat_with(from, name, root, target.as_str(), RenameFlags::NOREPLACE) {
            // A file system without the flag. It also refuses a name that a non-empty directory has.
            Err(Errno::INVAL | Errno::NOSYS) => renameat(from, name, root, target.as_str()),
            other => other,
        };
        match done {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            // The task had such a name.
            Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
            // A directory that this user may not change: it must be writable to be moved.
            Err(Errno::ACCESS) if chmodat(from, name, Mode::RWXU, AtFlags::empty()).is_ok() => {
                return Ok(renameat(from, name, root, target.as_str())?);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Removes anything except a directory. Returns true if it was none.
fn file_remove(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<bool> {
    match unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        // Linux says the first, POSIX the second.
        Err(Errno::ISDIR | Errno::PERM) => {
            let kind = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
                .map(|found| FileType::from_raw_mode(found.st_mode));
            match kind {
                Ok(FileType::Directory) => Ok(false),
                Err(Errno::NOENT) => Ok(true),
                Ok(_) => Err(Errno::PERM.into()),
                Err(error) => Err(error.into()),
            }
        }
        Err(error) => Err(error.into()),
    }
}

/// Opens a directory that a task may have closed to everyone; never follows a link.
fn directory_open(at: BorrowedFd<'_>, name: impl rustix::path::Arg + Copy) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(at, name, flags, Mode::empty()) {
        Ok(directory) => {
            // Without this permission nothing in it can be removed. If another user owns it, root needs no permission.
            let _ = rustix::fs::fchmod(&directory, Mode::RWXU);
            Ok(directory)
        }
        Err(Errno::ACCESS) => {
            chmodat(at, name, Mode::RWXU, AtFlags::empty())?;
            openat(at, name, flags, Mode::empty())
        }
        Err(error) => Err(error),
    }
}

/// Some of the names in a directory; empty if it is.
fn names(directory: BorrowedFd<'_>) -> io::Result<Vec<CString>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            found.push(name.to_owned());
        }
        if found.len() >= NAMES_MAX {
            break;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn links_are_removed_and_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (tree, kept) = (dir.path().join("work"), dir.path().join("kept"));
        fs::create_dir_all(tree.join("a/b/c")).unwrap();
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("file"), "precious").unwrap();
        for link in ["to_directory", "a/to_directory", "a/b/c/to_directory"] {
            symlink(&kept, tree.join(link)).unwrap();
        }
        symlink(kept.join("file"), tree.join("to_file")).unwrap();
        fs::hard_link(kept.join("file"), tree.join("a/hard")).unwrap();
        rustix::fs::mknodat(CWD, tree.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        fs::write(tree.join("a/.borough-removed.1"), "").unwrap();
        fs::create_dir(tree.join(".borough-removed.1")).unwrap();
        tree_remove(&tree).unwrap();
        assert!(!tree.exists());
        assert_eq!(fs::read_to_string(kept.join("file")).unwrap(), "precious");
        symlink(&kept, &tree).unwrap();
        tree_remove(&tree).unwrap();
        assert!(kept.join("file").exists() && !tree.is_symlink());
        tree_remove(&tree).unwrap();
    }

    #[test]
    fn a_tree_deeper_than_there_are_descriptors_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("work");
        fs::create_dir(&tree).unwrap();
        // As a task makes it: no path is long enough to name its end.
        let mut at = directory_open(CWD, tree.as_path()).unwrap();
        for _ in 0..3_000 {
            rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
            at = directory_open(at.as_fd(), c"d").unwrap();
        }
        tree_remove(&tree).unwrap();
        assert!(!tree.exists());
    }

    #[test]
    fn closed_directories_and_many_files_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("work");
        fs::create_dir_all(tree.join("a/b")).unwrap();
        for at in 0..2_500 {
            fs::write(tree.join(format!("a/{at}")), "").unwrap();
        }
        fs::set_permissions(tree.join("a/b"), fs::Permissions::from_mode(0o0)).unwrap();
        fs::set_permissions(tree.join("a"), fs::Permissions::from_mode(0o500)).unwrap();
        tree_remove(&tree).unwrap();
        assert!(!tree.exists());
    }
}
