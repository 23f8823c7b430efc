//! Files that the agent writes into the own directory of a task. Its user may change everything there, so no path is
//! followed: files are made new within the opened directory, and then renamed.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::path::Path;

use borough_shim::user::TaskUser;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fchown, openat, renameat, unlinkat};
use rustix::process::{Gid, Uid};

/// The name of a file that is not whole yet.
const TEMPORARY: &str = ".borough-new";

/// Writes a file that only the task's user can read, in place of the file of that name.
///
/// # Errors
/// Those of the file system. The file before stays then.
pub(crate) fn task_file_write(
    directory: &Path,
    name: &str,
    content: &[u8],
    user: Option<TaskUser>,
) -> io::Result<()> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    let directory = openat(CWD, directory, flags, Mode::empty())?;
    // Left by an agent that died, or put there by the task.
    let _ = unlinkat(&directory, TEMPORARY, AtFlags::empty());
    let made = file_make(directory.as_fd(), content, user)
        .and_then(|()| Ok(renameat(&directory, TEMPORARY, &directory, name)?));
    if made.is_err() {
        let _ = unlinkat(&directory, TEMPORARY, AtFlags::empty());
    }
    made
}

fn file_make(directory: impl AsFd, content: &[u8], user: Option<TaskUser>) -> io::Result<()> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::WRONLY;
    let file = openat(directory, TEMPORARY, flags, Mode::RUSR | Mode::WUSR)?;
    let mut file = File::from(file);
    file.write_all(content)?;
    if let Some(TaskUser { uid, gid }) = user {
        fchown(&file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_private() {
        let directory = tempfile::tempdir().unwrap();
        for content in ["one", "two"] {
            task_file_write(directory.path(), "token", content.as_bytes(), None).unwrap();
            let path = directory.path().join("token");
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn no_link_of_a_task_is_followed() {
        let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let victim = other.path().join("victim");
        fs::write(&victim, "whole").unwrap();
        for name in ["token", TEMPORARY] {
            symlink(&victim, directory.path().join(name)).unwrap();
        }
        task_file_write(directory.path(), "token", b"new", None).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "whole");
        assert_eq!(fs::read_to_string(directory.path().join("token")).unwrap(), "new");
        let link = other.path().join("link");
        symlink(directory.path(), &link).unwrap();
        assert!(task_file_write(&link, "token", b"x", None).is_err());
    }
}
