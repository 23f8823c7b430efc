//! The disk as a trait, so that tests can put one there that tears, reorders, fills up and fails.
//!
//! One directory, flat names. A write is durable after [`DiskFile::sync_data`], a name after
//! [`Disk::directory_sync`], the directory's own after [`Disk::parent_sync`].

use std::fmt::Debug;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One directory of files.
pub trait Disk: Send + Sync + Debug + 'static {
    /// Makes the directory where it is missing.
    fn directory_create(&self) -> io::Result<()>;
    /// Makes the directory's own name durable. Not after every crash is it known whether that was done.
    fn parent_sync(&self) -> io::Result<()>;
    /// Takes the permissions of the group and of others away from the directory and its files: an older version left
    /// them to the umask. What this user does not own stays as it is.
    fn permissions_tighten(&self) -> io::Result<()> {
        Ok(())
    }
    /// Takes the directory for this process; `None` where another has it. Given back when dropped. Writes nothing.
    fn lock(&self) -> io::Result<Option<Box<dyn Send + Sync>>>;
    /// Every name in the directory, sorted.
    fn names(&self) -> io::Result<Vec<String>>;
    /// Opens a file that exists.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Makes an empty file, instead of any that has the name.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Gives a file another name, instead of any that has it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Makes names durable: what was created, renamed and removed.
    fn directory_sync(&self) -> io::Result<()>;
    /// Bytes that can still be written.
    fn available_bytes(&self) -> io::Result<u64>;
    /// Where this is, for people.
    fn location(&self) -> String;
}

/// One file.
pub trait DiskFile: Send + Sync + Debug + 'static {
    /// Its length in bytes.
    fn length(&self) -> io::Result<u64>;
    /// Fills `buffer` from `offset`; an error where the file ends before.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Cuts or extends the file; new bytes are zero.
    fn length_set(&self, bytes: u64) -> io::Result<()>;
    /// Extends the file to `bytes` of zeros whose room is taken now, so that writing there cannot run out of it.
    fn reserve(&self, bytes: u64) -> io::Result<()>;
    /// Makes everything written durable.
    fn sync_data(&self) -> io::Result<()>;
}

/// Whether `error` says that there is no room.
pub fn is_no_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// A store holds environments and commands of every user: its directory and files are for its owner alone.
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Gives what others may use the mode `mode`.
fn mode_tighten(path: &Path, mode: u32) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?.permissions().mode();
    if found & 0o077 == 0 {
        return Ok(());
    }
    match fs::set_permissions(path, Permissions::from_mode(mode)) {
        // Another user owns it and has let this one in.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        result => result,
    }
}

/// A directory of the machine.
#[derive(Clone, Debug)]
pub struct DirectoryDisk {
    path: PathBuf,
    /// Whether syncs reach the disk. Without them a crash of the machine loses acknowledged commits.
    fsync: bool,
}

impl DirectoryDisk {
    /// The directory at `path`.
    pub fn new(path: impl Into<PathBuf>, fsync: bool) -> Self {
        Self { path: path.into(), fsync }
    }

    /// Makes the name of `directory` durable.
    fn name_sync(&self, directory: &Path) -> io::Result<()> {
        if !self.fsync {
            return Ok(());
        }
        // The parent of a path as given may be one of its parts, the working directory, or what a link points into.
        let real = fs::canonicalize(directory)?;
        let Some(parent) = real.parent() else { return Ok(()) };
        match File::open(parent) {
            Ok(parent) => parent.sync_all(),
            // A parent that this user may not read was not written by this user either: the name was there.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn file(&self, file: File) -> Arc<dyn DiskFile> {
        Arc::new(MachineFile { file, fsync: self.fsync })
    }
}

impl Disk for DirectoryDisk {
    fn directory_create(&self) -> io::Result<()> {
        let missing: Vec<&Path> = self.path.ancestors().take_while(|path| !path.exists()).collect();
        DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(&self.path)?;
        // Its parents that are as new; its own name is [`Disk::parent_sync`]'s.
        for made in missing.iter().skip(1).filter(|made| !made.as_os_str().is_empty()) {
            self.name_sync(made)?;
        }
        Ok(())
    }

    fn parent_sync(&self) -> io::Result<()> {
        self.name_sync(&self.path)
    }

    fn permissions_tighten(&self) -> io::Result<()> {
        mode_tighten(&self.path, DIRECTORY_MODE)?;
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            // The kind of the name itself: a link is not followed.
            if entry.file_type()?.is_file() {
                mode_tighten(&entry.path(), FILE_MODE)?;
            }
        }
        Ok(())
    }

    fn lock(&self) -> io::Result<Option<Box<dyn Send + Sync>>> {
        let directory = File::open(&self.path)?;
        match rustix::fs::flock(&directory, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Box::new(directory))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(File::options().read(true).write(true).open(self.path.join(name))?))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(true).mode(FILE_MODE);
        Ok(self.file(options.open(self.path.join(name))?))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn directory_sync(&self) -> io::Result<()> {
        if self.fsync { File::open(&self.path)?.sync_all() } else { Ok(()) }
    }

    fn available_bytes(&self) -> io::Result<u64> {
        let statistics = rustix::fs::statvfs(&self.path)?;
        Ok(statistics.f_bavail.saturating_mul(statistics.f_frsize))
    }

    fn location(&self) -> String {
        self.path.display().to_string()
    }
}

#[derive(Debug)]
struct MachineFile {
    file: File,
    fsync: bool,
}

impl DiskFile for MachineFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn length_set(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.file, rustix::fs::FallocateFlags::empty(), 0, bytes) {
            // Without the call the room is not taken; a write that finds none is undone instead.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => self.file.set_len(bytes),
            result => Ok(result?),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.fsync { self.file.sync_data() } else { Ok(()) }
    }
}
