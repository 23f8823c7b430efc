//! Secrets: bearer tokens and names that nobody may guess.
//!
//! A [`Secret`] has two sources: 256 bits of the operating system's generator, or a private file. A private file
//! belongs to the user of this process and nobody else can read it. Or it belongs to root, who may let a group read it.
//! No constructor takes a seed, an [`crate::env::Rng`] or a text, so a seeded generator cannot make one.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

/// Bytes from the kernel for one secret: 256 bits.
const SECRET_BYTES: usize = 32;
/// Bytes of an unguessable name: 128 bits, too many to try.
const NAME_BYTES: usize = 16;
/// The fewest characters of a secret in a file: 128 bits in hexadecimal.
pub const SECRET_CHARACTERS_MIN: usize = 32;
/// The most bytes of a secret's file; a longer file contains something else.
const FILE_BYTES_MAX: u64 = 4_096;
/// The most bytes of a file of named secrets: 10,000 of them.
const NAMED_BYTES_MAX: u64 = 2 << 20;

/// A text that proves who sends it. `Debug` does not show it.
#[derive(Clone)]
pub struct Secret(Arc<str>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Why a secret's file is refused.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file system refused.
    #[error("cannot use {}", path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// Somebody else can read it. `chmod 600` it, and replace the secret.
    #[error("{} can be read by others (mode {mode:03o}); accepted: mode 600", path.display())]
    Open {
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It is no regular file of this process's user or of root.
    #[error("{} is not a regular file of the user who runs this, or of root", path.display())]
    Foreign { path: PathBuf },
    /// Too short, too long, or not visible ASCII. Write the secret again, or remove the file.
    #[error("{} holds no secret; accepted: one line of visible ASCII, at least {SECRET_CHARACTERS_MIN} characters", path.display())]
    Text { path: PathBuf },
    /// A line is not a name and a secret. Correct that line.
    #[error("{}, line {line}: accepted: a name, a blank and a secret of at least {SECRET_CHARACTERS_MIN} characters", path.display())]
    Line {
        path: PathBuf,
        /// Counted from 1.
        line: usize,
    },
}

impl Secret {
    /// Makes a new secret: `label`, a dash and 256 bits of the operating system's generator in hexadecimal. The label
    /// lets people and scanners see what kind of secret they have found.
    ///
    /// # Errors
    /// The kernel has no randomness. Nothing else takes its place.
    pub fn generate(label: &str) -> io::Result<Self> {
        let bits = kernel_hex::<SECRET_BYTES>()?;
        Ok(Self(format!("{label}-{bits}").into()))
    }

    /// Reads the secret of a private file. Follows a symbolic link, since Kubernetes projects secrets as links.
    ///
    /// # Errors
    /// [`SecretError`]; a FIFO or a device is refused and not waited for.
    pub fn read(path: &Path) -> Result<Self, SecretError> {
        text_read(path, private_open(path)?)
    }

    /// Reads a private file of lines of a name, white space and a secret. Empty lines and those that begin with `#` are
    /// passed over.
    ///
    /// # Errors
    /// As [`Secret::read`]; one line that is none of these refuses the file.
    pub fn read_named(path: &Path) -> Result<Vec<(String, Self)>, SecretError> {
        let file = private_open(path)?;
        let text = bounded_read(path, file, NAMED_BYTES_MAX)?;
        let lines = (1..).zip(text.lines().map(str::trim));
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let named = |line: &str| {
            let (name, secret) = line.split_once(char::is_whitespace)?;
            Some((name.to_owned(), Self::checked(secret.trim())?))
        };
        let read =
            |(line, text)| named(text).ok_or_else(|| SecretError::Line { path: path.to_owned(), line });
        lines.map(read).collect()
    }

    fn checked(text: &str) -> Option<Self> {
        let sendable = text.bytes().all(|byte| byte.is_ascii_graphic());
        (text.len() >= SECRET_CHARACTERS_MIN && sendable).then(|| Self(text.into()))
    }

    /// The secret in `path`, made if it is missing. A secret without `label` is replaced, since an older version made
    /// it from 64 bits. Other content is left alone, since a person may have written it. The returned secret's file has
    /// mode 0600.
    ///
    /// # Errors
    /// [`SecretError`].
    pub fn ensure(path: &Path, label: &str) -> Result<Self, SecretError> {
        // It may be replaced, so a link is not followed.
        match file_open(path, OFlags::NOFOLLOW) {
            Ok((file, found)) => {
                if found.uid() != rustix::process::geteuid().as_raw() {
                    return Err(SecretError::Foreign { path: path.to_owned() });
                }
                let private = fs::Permissions::from_mode(0o600);
                file.set_permissions(private).map_err(|source| failed(path, source))?;
                let found = text_read(path, file)?;
                if found.is_labelled(label) {
                    return Ok(found);
                }
                fs::remove_file(path).map_err(|source| failed(path, source))?;
            }
            Err(SecretError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Self::create(path, label)
    }

    /// Makes a new secret in a new file of mode 0600.
    ///
    /// # Errors
    /// [`SecretError::Io`], of the kind `AlreadyExists` if the name is taken.
    pub fn create(path: &Path, label: &str) -> Result<Self, SecretError> {
        let write = || {
            let secret = Self::generate(label)?;
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
            writeln!(file, "{}", secret.expose())?;
            file.sync_all()?;
            Ok(secret)
        };
        write().map_err(|source| failed(path, source))
    }

    /// The text itself, to be sent or compared. Never put it into a log, an argument or an environment.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Its SHA-256 digest, by which others know it without having it.
    pub fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.0.as_bytes()).into()
    }

    /// Returns true if [`Secret::generate`] made it with this label, in this form.
    pub fn is_labelled(&self, label: &str) -> bool {
        let bits = self.0.strip_prefix(label).and_then(|rest| rest.strip_prefix('-'));
        bits.is_some_and(|bits| {
            bits.len() == 2 * SECRET_BYTES && bits.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    }
}

/// Reads a text of at most `bytes_max` bytes that only its owner can read, such as a private key.
///
/// # Errors
/// [`SecretError`].
pub fn private_text_read(path: &Path, bytes_max: u64) -> Result<String, SecretError> {
    bounded_read(path, private_open(path)?, bytes_max)
}

/// 128 bits of the operating system's generator in hexadecimal: a name that nobody can create before its owner does.
///
/// # Errors
/// The kernel has no randomness.
pub fn unguessable_name() -> io::Result<String> {
    kernel_hex::<NAME_BYTES>()
}

#[expect(clippy::disallowed_methods, reason = "the one place that asks the kernel for secrets")]
fn kernel_hex<const BYTES: usize>() -> io::Result<String> {
    let mut bits = [0; BYTES];
    getrandom::fill(&mut bits)
        .map_err(|error| io::Error::other(format!("the kernel has no randomness: {error}")))?;
    Ok(hex::encode(bits))
}

fn failed(path: &Path, source: io::Error) -> SecretError {
    SecretError::Io { path: path.to_owned(), source }
}

/// Opens a regular file of this user or of root, without waiting for the other end of a FIFO.
fn file_open(path: &Path, flags: OFlags) -> Result<(File, Metadata), SecretError> {
    let flags = i32::try_from((flags | OFlags::NONBLOCK).bits()).unwrap_or(0);
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = opened.map_err(|source| failed(path, source))?;
    let found = file.metadata().map_err(|source| failed(path, source))?;
    let owners = [ROOT, rustix::process::geteuid().as_raw()];
    if !found.is_file() || !owners.contains(&found.uid()) {
        return Err(SecretError::Foreign { path: path.to_owned() });
    }
    Ok((file, found))
}

/// As [`file_open`], and refuses a file that others may use. The checks are of the file that a link leads to: whoever
/// made the link could not have made the file.
fn private_open(path: &Path) -> Result<File, SecretError> {
    let (file, found) = file_open(path, OFlags::empty())?;
    let mode = found.permissions().mode() & 0o777;
    if mode & open_bits(found.uid(), rustix::process::geteuid().as_raw()) != 0 {
        return Err(SecretError::Open { path: path.to_owned(), mode });
    }
    Ok(file)
}

/// The user id of root.
const ROOT: u32 = 0;

/// The permission bits that a private file of `owner` must not have when `user` reads it. A file of root may be read by
/// a group: systemd and Kubernetes give a service its secret so, and only root chooses the group.
fn open_bits(owner: u32, user: u32) -> u32 {
    if owner == ROOT && user != ROOT { 0o037 } else { 0o077 }
}

fn text_read(path: &Path, file: File) -> Result<Secret, SecretError> {
    let text = bounded_read(path, file, FILE_BYTES_MAX)?;
    Secret::checked(text.trim()).ok_or_else(|| SecretError::Text { path: path.to_owned() })
}

fn bounded_read(path: &Path, file: File, bytes_max: u64) -> Result<String, SecretError> {
    let mut text = String::new();
    let wrong = || SecretError::Text { path: path.to_owned() };
    match file.take(bytes_max.saturating_add(1)).read_to_string(&mut text) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(wrong()),
        other => other.map_err(|source| failed(path, source))?,
    };
    let whole = u64::try_from(text.len()).is_ok_and(|length| length <= bytes_max);
    if whole { Ok(text) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_secret_has_256_bits_and_is_not_shown() {
        let made: BTreeSet<String> =
            (0..64).map(|_| Secret::generate("borough-test").unwrap().expose().to_owned()).collect();
        assert_eq!(made.len(), 64);
        for text in &made {
            let bits = text.strip_prefix("borough-test-").unwrap();
            assert_eq!(bits.len(), 64, "{text}");
        }
        assert_eq!(format!("{:?}", Secret::generate("x").unwrap()), "Secret(..)");
    }

    #[test]
    fn a_file_is_made_once_and_an_older_versions_secret_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let first = Secret::ensure(&path, "borough-operator").unwrap();
        assert_eq!(Secret::ensure(&path, "borough-operator").unwrap().expose(), first.expose());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        // A secret of earlier versions: 256 bits computed from 64.
        fs::write(&path, format!("{}\n", "ab".repeat(32))).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let replaced = Secret::ensure(&path, "borough-operator").unwrap();
        assert!(replaced.is_labelled("borough-operator") && replaced.expose() != first.expose());
        assert_eq!(Secret::read(&path).unwrap().expose(), replaced.expose());
        // A person's text is not an older version's secret.
        let text = format!("{}\nalpha/n1 {}\n", replaced.expose(), "ab".repeat(32));
        fs::write(&path, &text).unwrap();
        assert!(matches!(Secret::ensure(&path, "borough-operator"), Err(SecretError::Text { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }

    #[test]
    fn a_line_that_is_no_name_and_secret_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("accepted");
        let secret = Secret::create(&path, "x").unwrap();
        assert!(matches!(Secret::read_named(&path), Err(SecretError::Line { line: 1, .. })));
        fs::write(&path, format!("# of nodes\nalpha {}\nbeta\n", secret.expose())).unwrap();
        assert!(matches!(Secret::read_named(&path), Err(SecretError::Line { line: 3, .. })));
    }

    #[test]
    fn only_a_long_private_secret_is_accepted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        assert!(matches!(Secret::read(&path), Err(SecretError::Io { .. })));
        let long = "0123456789abcdef0123456789abcdef";
        for (text, mode, taken) in [
            (format!("{long}\n"), 0o600, true),
            (format!("{long}\n"), 0o640, false),
            ("0123456789abcdef\n".to_owned(), 0o600, false),
            (format!("{long} {long}"), 0o600, false),
            ("x".repeat(5_000), 0o600, false),
        ] {
            fs::write(&path, &text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(Secret::read(&path).is_ok(), taken, "{} {mode:o}", text.len());
        }
    }

    /// Kubernetes projects a secret as a link to a link to a directory of the day.
    #[test]
    fn a_link_is_followed_to_read_and_the_file_behind_it_is_checked() {
        let directory = tempfile::tempdir().unwrap();
        let (day, data) = (directory.path().join("..2026_11_27"), directory.path().join("..data"));
        fs::create_dir(&day).unwrap();
        symlink("..2026_11_27", &data).unwrap();
        let (real, link) = (day.join("token"), directory.path().join("token"));
        symlink("..data/token", &link).unwrap();
        assert!(matches!(Secret::read(&link), Err(SecretError::Io { .. })), "the file is missing");
        let secret = Secret::create(&real, "x").unwrap();
        assert_eq!(Secret::read(&link).unwrap().expose(), secret.expose());
        assert_eq!(private_text_read(&link, 4_096).unwrap().trim(), secret.expose());
        fs::set_permissions(&real, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(Secret::read(&link), Err(SecretError::Open { mode: 0o644, .. })));
        let device = directory.path().join("device");
        symlink("/dev/zero", &device).unwrap();
        assert!(matches!(Secret::read(&device), Err(SecretError::Foreign { .. })));
    }

    #[test]
    fn a_group_reads_what_root_has_given_to_it() {
        let (service, other) = (990, 991);
        for (owner, mode, is_private) in [
            (service, 0o600, true),
            (service, 0o400, true),
            (service, 0o640, false),
            (ROOT, 0o440, true),
            (ROOT, 0o640, true),
            (ROOT, 0o660, false),
            (ROOT, 0o444, false),
            (other, 0o640, false),
        ] {
            assert_eq!(mode & open_bits(owner, service) == 0, is_private, "{owner} {mode:o}");
        }
        assert_ne!(0o440 & open_bits(ROOT, ROOT), 0, "a file of its own is for nobody else");
    }

    #[test]
    fn no_link_is_written_through_and_no_fifo_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let (real, link) = (directory.path().join("real"), directory.path().join("link"));
        Secret::create(&real, "x").unwrap();
        symlink(&real, &link).unwrap();
        assert!(Secret::ensure(&link, "x").is_err());
        assert!(Secret::create(&link, "x").is_err());
        let fifo = directory.path().join("fifo");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert!(matches!(Secret::read(&fifo), Err(SecretError::Foreign { .. })));
    }
}
