//! The secrets of a node: files in `DIR/USER/…`, which the operator puts there.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use borough_model::Name;
use borough_model::job::secret_place_is_fine;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

/// Most bytes of a secret: a variable takes twice as many.
const SECRET_BYTES_MAX: u64 = 64 << 10;

/// Why a secret cannot be used. Never has its content.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NodeSecretError {
    #[error("is not on this node")]
    Missing,
    #[error("is not below the directory of its user")]
    Place,
    #[error("is no file")]
    NoFile,
    #[error("has more than {SECRET_BYTES_MAX} bytes")]
    Long,
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
}

impl NodeSecretError {
    /// What is wrong, and for the operator the file that is to be written.
    pub(crate) fn described(&self, directory: &Path, user: &str, place: &str) -> String {
        match self {
            Self::Missing => {
                let file = directory.join(user).join(place);
                format!("{self}: its operator writes it to {}", file.display())
            }
            _ => self.to_string(),
        }
    }
}

/// Reads the secret at `place` of `user`. No link leads out of the directory of the user.
///
/// # Errors
/// See [`NodeSecretError`].
pub(crate) fn secret_read(directory: &Path, user: &str, place: &str) -> Result<Vec<u8>, NodeSecretError> {
    // The user is a name, so it is one part of a path.
    if Name::new(user).is_err() || !secret_place_is_fine(place) {
        return Err(NodeSecretError::Place);
    }
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    let all = openat(CWD, directory, flags, Mode::empty()).map_err(refused)?;
    let own = openat(&all, user, flags | OFlags::NOFOLLOW, Mode::empty()).map_err(refused)?;
    // A FIFO is not waited for.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let file = File::from(openat2(&own, place, flags, Mode::empty(), resolve).map_err(refused)?);
    if !file.metadata()?.is_file() {
        return Err(NodeSecretError::NoFile);
    }
    let mut content = Vec::new();
    file.take(SECRET_BYTES_MAX.saturating_add(1)).read_to_end(&mut content)?;
    let fits = u64::try_from(content.len()).is_ok_and(|length| length <= SECRET_BYTES_MAX);
    if fits { Ok(content) } else { Err(NodeSecretError::Long) }
}

fn refused(error: Errno) -> NodeSecretError {
    match error {
        Errno::NOENT | Errno::NOTDIR => NodeSecretError::Missing,
        Errno::XDEV | Errno::LOOP => NodeSecretError::Place,
        other => NodeSecretError::Io(other.into()),
    }
}

/// Refuses a directory of secrets that others may use.
///
/// # Errors
/// What is wrong with it, for people.
pub(crate) fn secrets_directory_check(directory: &Path) -> Result<(), String> {
    let shown = directory.display();
    let found = std::fs::metadata(directory).map_err(|error| format!("{shown}: {error}"))?;
    if !found.is_dir() {
        return Err(format!("{shown} is no directory"));
    }
    let own = rustix::process::geteuid().as_raw();
    if found.uid() != own && found.uid() != 0 {
        return Err(format!("{shown} is of another user; accepted: one of root or of the agent's user"));
    }
    let mode = found.permissions().mode() & 0o777;
    if mode & 0o007 != 0 {
        return Err(format!("{shown} can be used by others (mode {mode:03o}); accepted: mode 700"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn world() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (user, text) in [("ann", "of ann"), ("ben", "of ben")] {
            fs::create_dir_all(root.path().join(user).join("db")).unwrap();
            fs::write(root.path().join(user).join("db/password"), text).unwrap();
        }
        root
    }

    #[test]
    fn a_user_reads_what_is_below_its_own_directory() {
        let root = world();
        assert_eq!(secret_read(root.path(), "ann", "db/password").unwrap(), b"of ann");
        assert_eq!(secret_read(root.path(), "ben", "db/password").unwrap(), b"of ben");
        // As Kubernetes projects secrets.
        symlink("db", root.path().join("ann/today")).unwrap();
        assert_eq!(secret_read(root.path(), "ann", "today/password").unwrap(), b"of ann");
        let missing = secret_read(root.path(), "ann", "db/other").unwrap_err();
        assert_eq!(
            missing.described(Path::new("/secrets"), "ann", "db/other"),
            "is not on this node: its operator writes it to /secrets/ann/db/other"
        );
    }

    #[test]
    fn nothing_of_another_user_or_place_is_read() {
        let root = world();
        let ann = root.path().join("ann");
        symlink("../ben/db/password", ann.join("relative")).unwrap();
        symlink(root.path().join("ben/db/password"), ann.join("absolute")).unwrap();
        symlink("../ben", ann.join("home")).unwrap();
        symlink("ben", root.path().join("eve")).unwrap();
        fs::create_dir(ann.join("folder")).unwrap();
        fs::write(ann.join("long"), vec![b'x'; 65_537]).unwrap();
        for (user, place) in [
            ("ann", "relative"),
            ("ann", "absolute"),
            ("ann", "home/db/password"),
            ("ann", "../ben/db/password"),
            ("ann", "/etc/passwd"),
            ("ann", "db/absent"),
            ("ann", "folder"),
            ("ann", "long"),
            ("../ann", "db/password"),
            ("..", "ann/db/password"),
            ("", "ann/db/password"),
            ("eve", "db/password"),
            ("zoe", "db/password"),
        ] {
            let refused = secret_read(root.path(), user, place).unwrap_err();
            assert!(!refused.to_string().contains("of ben"), "{user} {place}: {refused}");
        }
    }

    #[test]
    fn a_directory_that_others_may_use_is_refused() {
        let root = world();
        let set = |mode| fs::set_permissions(root.path(), fs::Permissions::from_mode(mode)).unwrap();
        set(0o700);
        assert_eq!(secrets_directory_check(root.path()), Ok(()));
        set(0o711);
        assert!(secrets_directory_check(root.path()).unwrap_err().contains("accepted: mode 700"));
        assert!(secrets_directory_check(&root.path().join("ann/db/password")).is_err());
    }
}
