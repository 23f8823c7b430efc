//! The disk as a trait, so that tests can put one there that tears, reorders, fills up and fails.
//!
//! One directory, flat names. A write is durable after [`DiskFile::sync_data`], a name after
//! [`Disk::directory_sync`], the directory's own after [`Disk::parent_sync`].

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
    /// Whether `name` still leads to it. Whoever removes, moves or replaces the directory leaves a process that has the
    /// files open only these, and what it writes on is found by nobody.
    fn is_named(&self, _name: &str) -> io::Result<bool> {
        Ok(true)
    }
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

/// Whether `error` says that the process or the machine is short of something that comes free again (descriptors,
/// memory, threads): the disk is as good as before.
pub fn is_resource(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let short = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN, Errno::NOBUFS];
    Errno::from_io_error(error).is_some_and(|errno| short.contains(&errno))
        || error.kind() == io::ErrorKind::OutOfMemory
}

/// Descriptors that are held so that an opening finds one where the process has no other left: as many as the roll of
/// a segment and a checkpoint have open beside each other.
const DESCRIPTORS_RESERVED: usize = 8;

/// The descriptors of a [`DirectoryDisk`].
#[derive(Debug, Default)]
struct Descriptors {
    /// The directory itself, to be flushed without an opening.
    directory: Option<Arc<File>>,
    /// The directory once more, to be listed without an opening.
    listing: Option<Dir>,
    /// Given up one by one where an opening finds none, and taken again later.
    reserved: Vec<OwnedFd>,
}

impl Descriptors {
    /// Opens what is open for as long as the disk is there.
    fn open(path: &Path) -> io::Result<Self> {
        let directory = Arc::new(File::open(path)?);
        let listing = Dir::read_from(&directory)?;
        let mut descriptors =
            Self { directory: Some(directory), listing: Some(listing), reserved: Vec::new() };
        descriptors.reserve();
        Ok(descriptors)
    }

    /// Takes what is missing to the reserve, as far as it goes.
    fn reserve(&mut self) {
        let Some(directory) = &self.directory else { return };
        while self.reserved.len() < DESCRIPTORS_RESERVED {
            let Ok(another) = directory.try_clone() else { return };
            self.reserved.push(another.into());
        }
    }

    /// Closes a file. Where the reserve is short its descriptor goes there, in one step: one that is free for a moment
    /// is another's in a process that has none left.
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
}

impl DirectoryDisk {
    /// The directory at `path`.
    pub fn new(path: impl Into<PathBuf>, fsync: bool) -> Self {
        Self { path: path.into(), fsync, descriptors: Arc::default() }
    }

    /// Opens something, with a descriptor of the reserve where the process has no other left. Another thread may be
    /// faster than the second attempt: then the next one of the reserve goes.
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
        let descriptors = Arc::clone(&self.descriptors);
        let directory = self.path.clone();
        Arc::new(MachineFile { file: Some(file), directory, fsync: self.fsync, descriptors })
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
        self.opened(|_| Ok(()))
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
        directory.map_or(Ok(()), |directory| directory.sync_all())
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
            // Without the call the room is not taken; a write that finds none is undone instead.
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
