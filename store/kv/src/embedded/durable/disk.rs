//! The disk as a trait, so that tests can supply one that tears, reorders, fills up and fails.
//!
//! It has one directory with flat names. A write is durable after [`DiskFile::sync_data`], a name after
//! [`Disk::directory_sync`], the directory's own name after [`Disk::parent_sync`].

use std::fmt::Debug;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{
    DirBuilderExt as _, FileExt, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::Dir;

use super::directory::DirectoryFlushes;

/// One directory of files.
pub trait Disk: Send + Sync + Debug + 'static {
    /// Makes the directory if it is missing.
    fn directory_create(&self) -> io::Result<()>;
    /// Makes the directory's own name durable. After a crash it may be unknown whether that was done.
    fn parent_sync(&self) -> io::Result<()>;
    /// Removes the permissions of the group and of others from the directory and its files: an older version left them
    /// to the umask. Files of another user stay as they are.
    fn permissions_tighten(&self) -> io::Result<()> {
        Ok(())
    }
    /// Locks the directory for this process; `None` if another process has it. Dropping the result unlocks it. Writes
    /// nothing.
    fn lock(&self) -> io::Result<Option<Box<dyn Send + Sync>>>;
    /// Every name in the directory, sorted.
    fn names(&self) -> io::Result<Vec<String>>;
    /// Opens a file that exists.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Makes an empty file. Replaces a file of that name.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Renames a file. Replaces a file of the new name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Makes names durable after files were created, renamed and removed. After a failure it fails for ever: the names
    /// of other threads may be lost too.
    fn directory_sync(&self) -> io::Result<()>;
    /// Bytes that can still be written.
    fn available_bytes(&self) -> io::Result<u64>;
    /// A description of the place, for people.
    fn location(&self) -> String;
}

/// One file.
pub trait DiskFile: Send + Sync + Debug + 'static {
    /// Its length in bytes.
    fn length(&self) -> io::Result<u64>;
    /// Fills `buffer` from `offset`; an error if the file ends before.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Cuts or extends the file; new bytes are zero.
    fn length_set(&self, bytes: u64) -> io::Result<()>;
    /// Extends the file with zeros to `bytes` and allocates the space now, so that a later write cannot run out of it.
    fn reserve(&self, bytes: u64) -> io::Result<()>;
    /// Makes everything written durable.
    fn sync_data(&self) -> io::Result<()>;
    /// Returns true if `name` still leads to this file. If somebody removes, moves or replaces the directory, a process
    /// keeps its open files, but nobody will find what it writes into them.
    fn is_named(&self, _name: &str) -> io::Result<bool> {
        Ok(true)
    }
}

/// Returns true if `error` means that the disk is full.
pub fn is_no_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The mode of the directory. A store contains environments and commands of every user, so only its owner may read it.
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Sets the mode to `mode` if others have permissions.
fn mode_tighten(path: &Path, mode: u32) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?.permissions().mode();
    if found & 0o077 == 0 {
        return Ok(());
    }
    match fs::set_permissions(path, Permissions::from_mode(mode)) {
        // Another user owns it and has given this one access.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        result => result,
    }
}

/// Returns true if `error` means a lack of something that becomes free again (descriptors, memory, threads): the disk
/// itself is fine.
pub fn is_resource(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let short = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN, Errno::NOBUFS];
    Errno::from_io_error(error).is_some_and(|errno| short.contains(&errno))
        || error.kind() == io::ErrorKind::OutOfMemory
}

/// Descriptors held in reserve, so that an opening finds one even if the process has no other left. The roll of a
/// segment and a checkpoint together have so many open.
const DESCRIPTORS_RESERVED: usize = 8;

/// The descriptors of a [`DirectoryDisk`].
#[derive(Debug, Default)]
struct Descriptors {
    /// The directory itself, so that it can be flushed without opening it.
    directory: Option<Arc<File>>,
    /// The directory again, so that it can be listed without opening it.
    listing: Option<Dir>,
    /// Closed one by one when an opening finds no descriptor, and replaced later.
    reserved: Vec<OwnedFd>,
}

impl Descriptors {
    /// Opens the descriptors that stay open with the disk.
    fn open(path: &Path) -> io::Result<Self> {
        let directory = Arc::new(File::open(path)?);
        let listing = Dir::read_from(&directory)?;
        let mut descriptors =
            Self { directory: Some(directory), listing: Some(listing), reserved: Vec::new() };
        descriptors.reserve();
        Ok(descriptors)
    }

    /// Refills the reserve as far as possible.
    fn reserve(&mut self) {
        let Some(directory) = &self.directory else { return };
        while self.reserved.len() < DESCRIPTORS_RESERVED {
            let Ok(another) = directory.try_clone() else { return };
            self.reserved.push(another.into());
        }
    }

    /// Closes a file. If the reserve is short, the file's descriptor goes there in one step. In a process without free
    /// descriptors, another thread would take one that is free for a moment.
    fn close(&mut self, file: File) {
        let Some(directory) = &self.directory else { return };
        if self.reserved.len() < DESCRIPTORS_RESERVED {
            let mut descriptor = OwnedFd::from(file);
            if rustix::io::dup2(directory, &mut descriptor).is_ok() {
                self.reserved.push(descriptor);
            }
        }
    }
}

/// A directory of the machine.
#[derive(Clone, Debug)]
pub struct DirectoryDisk {
    path: PathBuf,
    /// Whether syncs reach the disk. Without them a crash of the machine loses acknowledged commits.
    fsync: bool,
    descriptors: Arc<Mutex<Descriptors>>,
    flushes: Arc<DirectoryFlushes>,
}

impl DirectoryDisk {
    /// The directory at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), fsync: true, descriptors: Arc::default(), flushes: Arc::default() }
    }

    /// The same directory without syncs: a crash of the machine loses acknowledged commits.
    #[must_use]
    pub fn without_fsync(self) -> Self {
        Self { fsync: false, ..self }
    }

    /// Opens something. If the process has no free descriptor, it uses one of the reserve. Another thread may be faster
    /// than the second try; then the next one of the reserve is used.
    fn with_reserve<T>(&self, open: impl Fn() -> io::Result<T>) -> io::Result<T> {
        loop {
            match open() {
                Ok(opened) => {
                    self.descriptors.lock().reserve();
                    return Ok(opened);
                }
                Err(error) => {
                    let short = is_resource(&error);
                    if !short || self.descriptors.lock().reserved.pop().is_none() {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Uses the descriptors, which are open from the first call on.
    fn opened<T>(&self, use_them: impl FnOnce(&mut Descriptors) -> io::Result<T>) -> io::Result<T> {
        let mut descriptors = self.descriptors.lock();
        if descriptors.directory.is_none() {
            *descriptors = Descriptors::open(&self.path)?;
        }
        use_them(&mut descriptors)
    }

    /// Makes the name of `directory` durable.
    fn name_sync(&self, directory: &Path) -> io::Result<()> {
        if !self.fsync {
            return Ok(());
        }
        // The parent of the given path may be part of the path, the working directory, or the target of a link.
        let real = fs::canonicalize(directory)?;
        let Some(parent) = real.parent() else { return Ok(()) };
        match File::open(parent) {
            Ok(parent) => parent.sync_all(),
            // If this user may not read the parent, another user has made it, and the name is durable.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn file(&self, file: File) -> Arc<dyn DiskFile> {
        let descriptors = Arc::clone(&self.descriptors);
        let directory = self.path.clone();
        Arc::new(MachineFile { file: Some(file), directory, fsync: self.fsync, descriptors })
    }
}

impl Disk for DirectoryDisk {
    fn directory_create(&self) -> io::Result<()> {
        let missing: Vec<&Path> = self.path.ancestors().take_while(|path| !path.exists()).collect();
        DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(&self.path)?;
        // The new parents; [`Disk::parent_sync`] covers its own name.
        for made in missing.iter().skip(1).filter(|made| !made.as_os_str().is_empty()) {
            self.name_sync(made)?;
        }
        self.opened(|_| Ok(()))
    }

    fn parent_sync(&self) -> io::Result<()> {
        self.name_sync(&self.path)
    }

    fn permissions_tighten(&self) -> io::Result<()> {
        mode_tighten(&self.path, DIRECTORY_MODE)?;
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            // The kind of the name itself: links are not followed.
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
        let mut names = self.opened(|descriptors| {
            let mut names = Vec::new();
            let Some(listing) = &mut descriptors.listing else { return Ok(names) };
            listing.rewind();
            while let Some(entry) = listing.read() {
                let name = entry?.file_name().to_string_lossy().into_owned();
                if name != "." && name != ".." {
                    names.push(name);
                }
            }
            Ok(names)
        })?;
        names.sort();
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let path = self.path.join(name);
        Ok(self.file(self.with_reserve(|| File::options().read(true).write(true).open(&path))?))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(true).mode(FILE_MODE);
        let path = self.path.join(name);
        Ok(self.file(self.with_reserve(|| options.open(&path))?))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn directory_sync(&self) -> io::Result<()> {
        if !self.fsync {
            return Ok(());
        }
        let directory = self.opened(|descriptors| Ok(descriptors.directory.clone()))?;
        directory.map_or(Ok(()), |directory| self.flushes.run(|| directory.sync_all()))
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
    /// Until it is closed.
    file: Option<File>,
    directory: PathBuf,
    fsync: bool,
    descriptors: Arc<Mutex<Descriptors>>,
}

impl MachineFile {
    fn file(&self) -> io::Result<&File> {
        self.file.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Drop for MachineFile {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            self.descriptors.lock().close(file);
        }
    }
}

impl DiskFile for MachineFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.file()?.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file()?.read_exact_at(buffer, offset)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file()?.write_all_at(bytes, offset)
    }

    fn length_set(&self, bytes: u64) -> io::Result<()> {
        self.file()?.set_len(bytes)
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        let file = self.file()?;
        match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, bytes) {
            // Without this call the space is not allocated. A write that finds none is then undone.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => file.set_len(bytes),
            result => Ok(result?),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.fsync { self.file()?.sync_data() } else { Ok(()) }
    }

    fn is_named(&self, name: &str) -> io::Result<bool> {
        let open = self.file()?.metadata()?;
        match std::fs::metadata(self.directory.join(name)) {
            Ok(found) => Ok((found.dev(), found.ino()) == (open.dev(), open.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}
