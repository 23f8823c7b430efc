//! Opens a directory: locks it for this process, verifies everything, and only then writes.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::checkpoint::{self, Meta, checkpoint_load};
use super::disk::{DirectoryDisk, Disk, is_no_space};
use super::log::{Log, is_spare, segment_name, segment_sequence};
use super::marker::{self, LogLoss, MarkerFile, MarkerRead, loss_find, marker_read};
use super::recover::{LogEnd, LogError, log_read};
use super::worker::{Background, CheckpointThreads, DurableLog};
use crate::contract::Version;
use crate::contract::limits::RECOVERY_VERSION_JUMP;
use crate::embedded::memory::{Memory, OpenedRows};
use crate::embedded::sequencer::{AppendError, CEILING_AHEAD_VERSIONS, Durable, Flush};
use crate::env::{Clock, Rng};

/// The format this build writes.
const FORMAT: u32 = 3;
/// The oldest format that it reads, and upgrades to its own: without the marker of the log's end.
const FORMAT_OLDEST: u32 = 2;
const FORMAT_NAME: &str = "FORMAT";
const FORMAT_NEW: &str = "FORMAT.new";
const FORMAT_PREFIX: &str = "borough-kv format ";
/// Marks a directory whose first opening was interrupted: its content may be discarded.
const INITIALISING: &str = "INITIALISING";
/// Names the process that has the directory.
const OWNER: &str = "OWNER";

/// Bytes of rows in memory, unless an opening says otherwise.
const MEMORY_BYTES: usize = 512 << 20;

/// How to open a durable engine.
#[derive(Clone)]
pub struct OpenOptions {
    /// The directory of the store. It is made if it is missing.
    pub directory: PathBuf,
    pub clock: Arc<dyn Clock>,
    /// For version steps and retry pauses.
    pub rng: Arc<dyn Rng>,
    /// Whether commits wait for the disk. Without it, a crash of the machine (not of the process) loses commits.
    pub fsync: bool,
    /// Bytes of one segment of the commit log.
    pub segment_bytes: u64,
    /// Bytes of log after which a checkpoint is written.
    pub checkpoint_bytes: u64,
    /// Bytes that the rows may take in memory. Others are read from the checkpoint when they are needed.
    pub memory_bytes: usize,
    /// Opens a log that has lost acknowledged commits at its end, and accepts that loss for good. Other damage is still
    /// refused.
    pub accept_loss: bool,
    /// Replaces the machine's disk in tests; `directory` is then only a name.
    pub disk: Option<Arc<dyn Disk>>,
}

impl OpenOptions {
    /// The default options for `directory`: everything durable.
    pub fn new(directory: impl Into<PathBuf>, clock: Arc<dyn Clock>, rng: Arc<dyn Rng>) -> Self {
        let (segment_bytes, checkpoint_bytes) = (16 << 20, 64 << 20);
        Self {
            directory: directory.into(),
            clock,
            rng,
            fsync: true,
            segment_bytes,
            checkpoint_bytes,
            memory_bytes: MEMORY_BYTES,
            accept_loss: false,
            disk: None,
        }
    }
}

/// Why a directory was not opened. All errors except [`OpenError::Io`] have changed nothing in it.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it. Stop that one, or use another directory.
    #[error("the store in {location} is in use by {}", owner(*pid))]
    Locked {
        location: String,
        /// The process that has it, if known.
        pid: Option<u32>,
    },
    /// A build of another time wrote it. Export the cell with the older of the two, and import it with the newer.
    #[error(
        "the store in {location} has format {found}, which this build no longer reads (it has {supported})"
    )]
    Older {
        location: String,
        found: u32,
        /// The format this build reads and writes.
        supported: u32,
    },
    /// A newer build wrote it. Use that build, or a later one.
    #[error("the store in {location} has format {found}, this build reads up to {supported}")]
    Newer {
        location: String,
        found: u32,
        /// The newest format this build knows.
        supported: u32,
    },
    /// The content contradicts itself in a way that no crash explains. Restore it from a backup.
    #[error("the store in {location} is damaged: {detail}")]
    Damaged { location: String, detail: String },
    /// Its log ends before acknowledged commits: a file was cut short, or is missing. Restore the directory, or accept
    /// the loss with [`OpenOptions::accept_loss`].
    #[error("the store in {location} has lost acknowledged commits: {loss}")]
    Lost { location: String, loss: LogLoss },
    /// It could not be read or written (say, on a full disk). Nothing that was acknowledged is lost.
    #[error("the store in {location} cannot be opened")]
    Io {
        location: String,
        #[source]
        source: io::Error,
    },
}

fn owner(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

/// A failure before the directory's name is added to it.
enum OpenFailure {
    Older(u32),
    Newer(u32),
    Damaged(String),
    Lost(LogLoss),
    Io(io::Error),
}

impl From<io::Error> for OpenFailure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<LogError> for OpenFailure {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Damaged(detail) => Self::Damaged(detail),
            LogError::Io(error) => Self::Io(error),
        }
    }
}

impl From<redb::Error> for OpenFailure {
    fn from(error: redb::Error) -> Self {
        match error {
            redb::Error::Io(error) if error.kind() != io::ErrorKind::InvalidData => Self::Io(error),
            other => Self::Damaged(format!("checkpoint: {other}")),
        }
    }
}

/// The parts with which an engine starts.
pub(in crate::embedded) struct OpenedEngine {
    pub(in crate::embedded) memory: Memory,
    /// The first version of this opening: above every version ever used.
    pub(in crate::embedded) first: Version,
    pub(in crate::embedded) ceiling: Version,
    pub(in crate::embedded) durable: Box<dyn Durable>,
    /// Locks the directory for this process.
    pub(in crate::embedded) lock: Box<dyn Send + Sync>,
    pub(in crate::embedded) location: String,
}

/// Opens the store of `options`.
pub(in crate::embedded) fn store_open(options: &OpenOptions) -> Result<OpenedEngine, OpenError> {
    store_open_with(options, Box::new(CheckpointThreads))
}

/// As [`store_open`], with a test's way of writing checkpoints.
pub(super) fn store_open_with(
    options: &OpenOptions,
    background: Box<dyn Background>,
) -> Result<OpenedEngine, OpenError> {
    let machine = || {
        let directory = DirectoryDisk::new(&options.directory);
        Arc::new(if options.fsync { directory } else { directory.without_fsync() }) as Arc<dyn Disk>
    };
    let disk = options.disk.clone().unwrap_or_else(machine);
    let location = disk.location();
    let io = |source| OpenError::Io { location: location.clone(), source };
    // Each time: a process killed between the two calls has left a name that a power cut removes, with all below it.
    disk.directory_create().and_then(|()| disk.parent_sync()).map_err(io)?;
    let Some(lock) = disk.lock().map_err(io)? else {
        return Err(OpenError::Locked { pid: owner_read(disk.as_ref()), location });
    };
    let opened = store_verify(disk.as_ref(), options);
    let opened = opened.and_then(|found| store_start(&disk, options, background, found));
    match opened {
        Ok((memory, first, ceiling, durable)) => {
            Ok(OpenedEngine { memory, first, ceiling, durable, lock, location })
        }
        Err(OpenFailure::Older(found)) => Err(OpenError::Older { location, found, supported: FORMAT }),
        Err(OpenFailure::Newer(found)) => Err(OpenError::Newer { location, found, supported: FORMAT }),
        Err(OpenFailure::Damaged(detail)) => Err(OpenError::Damaged { location, detail }),
        Err(OpenFailure::Lost(loss)) => Err(OpenError::Lost { location, loss }),
        Err(OpenFailure::Io(source)) => Err(OpenError::Io { location, source }),
    }
}

/// The content of a directory, read and verified.
#[derive(Default)]
struct FoundStore {
    names: Vec<String>,
    /// Whether this is the first opening (or the first one that finishes).
    fresh: bool,
    memory: Memory,
    log: LogEnd,
    ceiling: Version,
    /// The content of the marker's file; `None` if a new one must be made.
    marker: Option<MarkerRead>,
    /// Whether the format must be upgraded to this build's.
    upgrade: bool,
}

/// Reads everything and changes nothing.
fn store_verify(disk: &dyn Disk, options: &OpenOptions) -> Result<FoundStore, OpenFailure> {
    let names = disk.names()?;
    let has = |name: &str| names.iter().any(|one| one == name);
    if !has(FORMAT_NAME) {
        if has(INITIALISING) || is_unborn(disk, &names)? {
            let memory = Memory::opened(OpenedRows::default(), options.memory_bytes);
            return Ok(FoundStore { names, fresh: true, memory, ..FoundStore::default() });
        }
        return Err(OpenFailure::Damaged("there are files, but none says which format they have".to_owned()));
    }
    let upgrade = format_check(disk)? < FORMAT;
    let marker = if upgrade { None } else { marker_read(disk, &names)? };
    if !upgrade && marker.is_none() && !options.accept_loss {
        let detail = format!("{} is missing or unreadable: it says how far the log must reach", marker::NAME);
        return Err(OpenFailure::Damaged(detail));
    }
    let (opened, meta) = if has(checkpoint::NAME) {
        checkpoint_load(disk, options.memory_bytes)?
    } else {
        (OpenedRows::default(), Meta::default())
    };
    let memory = Memory::opened(opened, options.memory_bytes);
    let mut ceiling = meta.ceiling;
    let log = log_read(disk, &names, meta.version, |record| {
        ceiling = record.kind.ceiling().unwrap_or(ceiling);
        memory.apply(record.version, &record.mutations);
        // No reader needs old versions here; without this the chains would grow with the log.
        memory.trim(record.version);
    })?;
    let promised = marker.unwrap_or_default().marker;
    if let Some(loss) = loss_find(disk, promised, &log)? {
        if !options.accept_loss {
            return Err(OpenFailure::Lost(loss));
        }
        tracing::warn!(%loss, "the loss of acknowledged commits is accepted");
        // Versions of the lost commits must not be given again.
        ceiling = ceiling.max(loss.version_expected);
    }
    if log.tail.is_none() {
        return Err(OpenFailure::Damaged("the commit log is missing".to_owned()));
    }
    Ok(FoundStore { names, fresh: false, memory, log, ceiling, marker, upgrade })
}

/// Returns true if the directory contains only what a first opening makes before it accepts a commit. Its mark may be
/// missing: after a failed flush of the directory, a later flush does not write it.
fn is_unborn(disk: &dyn Disk, names: &[String]) -> io::Result<bool> {
    let made = [OWNER, FORMAT_NEW, marker::NAME];
    let ours = |name: &String| made.contains(&name.as_str()) || segment_sequence(name) == Some(1);
    let mut rows = false;
    match log_read(disk, names, 0, |record| rows |= !record.mutations.is_empty()) {
        Ok(end) => Ok(!rows && end.missing.is_none() && names.iter().all(ours)),
        Err(LogError::Damaged(_)) => Ok(false),
        Err(LogError::Io(error)) => Err(error),
    }
}

/// The format of the store, which this build can read.
fn format_check(disk: &dyn Disk) -> Result<u32, OpenFailure> {
    let text = text_read(disk, FORMAT_NAME)?;
    let format = text.strip_prefix(FORMAT_PREFIX).and_then(|format| format.trim_end().parse::<u32>().ok());
    match format {
        Some(format @ FORMAT_OLDEST..=FORMAT) => Ok(format),
        Some(newer) if newer > FORMAT => Err(OpenFailure::Newer(newer)),
        Some(older) if older > 0 => Err(OpenFailure::Older(older)),
        _ => Err(OpenFailure::Damaged(format!("{FORMAT_NAME} reads {text:?}"))),
    }
}

fn text_read(disk: &dyn Disk, name: &str) -> io::Result<String> {
    let file = disk.open(name)?;
    let length = usize::try_from(file.length()?.min(1024)).unwrap_or(0);
    let mut bytes = vec![0; length];
    file.read_at(0, &mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn owner_read(disk: &dyn Disk) -> Option<u32> {
    text_read(disk, OWNER).ok()?.trim().parse().ok()
}

type StartedLog = (Memory, Version, Version, Box<dyn Durable>);

/// Makes the writes of an opening: the owner, the cleaned end of the log, a new ceiling. On a full disk this needs no
/// space, since the log keeps some for it.
fn store_start(
    disk: &Arc<dyn Disk>,
    options: &OpenOptions,
    background: Box<dyn Background>,
    found: FoundStore,
) -> Result<StartedLog, OpenFailure> {
    let FoundStore { names, fresh, memory, log: end, ceiling, marker, upgrade } = found;
    disk.permissions_tighten()?;
    if fresh {
        fresh_begin(disk.as_ref(), &names)?;
    } else if names.iter().any(|name| name == INITIALISING) {
        // The first opening ended before it knew that its last step was durable: repeat that step.
        format_write(disk.as_ref())?;
        initialising_end(disk.as_ref())?;
    }
    owner_write(disk.as_ref(), &names)?;
    if marker.is_none() {
        MarkerFile::create(disk.as_ref(), &names)?;
    }
    leftovers_remove(disk.as_ref(), &names, &end)?;
    let marker = MarkerFile::open(disk.as_ref(), marker)?;
    let first = end.version.max(ceiling).saturating_add(RECOVERY_VERSION_JUMP);
    let ceiling = first.saturating_add(CEILING_AHEAD_VERSIONS);
    let log = Log::start(Arc::clone(disk), options.segment_bytes, &end, marker, Arc::clone(&options.rng))?;
    let mut durable =
        DurableLog::new(log, Arc::clone(disk), ceiling, options.checkpoint_bytes, &end, background);
    durable.append(first, Some(ceiling), &[], Flush::Now).map_err(|error| {
        OpenFailure::Io(match error {
            AppendError::NoSpace(detail) => io::Error::new(io::ErrorKind::StorageFull, detail),
            AppendError::Resources(detail) => io::Error::other(detail),
            AppendError::Failed(error) => io::Error::other(error),
        })
    })?;
    if fresh || upgrade {
        format_write(disk.as_ref())?;
    }
    if fresh {
        initialising_end(disk.as_ref())?;
    }
    memory.trim(first);
    Ok((memory, first, ceiling, Box::new(durable)))
}

/// Records the owner of the directory, for people. Nothing depends on it, so a full disk may prevent the write.
fn owner_write(disk: &dyn Disk, names: &[String]) -> io::Result<()> {
    let there = names.iter().any(|name| name == OWNER);
    let file = if there { disk.open(OWNER) } else { disk.create(OWNER) };
    // Padded to one width, so that it overwrites any earlier number.
    let written = file.and_then(|file| file.write_at(0, format!("{:<11}\n", std::process::id()).as_bytes()));
    written.or_else(|error| if is_no_space(&error) { Ok(()) } else { Err(error) })
}

/// Marks the directory as unfinished and removes the files of an earlier unfinished opening.
fn fresh_begin(disk: &dyn Disk, names: &[String]) -> io::Result<()> {
    disk.create(INITIALISING)?.sync_data()?;
    disk.directory_sync()?;
    for name in names {
        if segment_sequence(name).is_some() || name == FORMAT_NEW {
            disk.remove(name)?;
        }
    }
    Ok(())
}

/// From here on the directory is a store in this build's format.
fn format_write(disk: &dyn Disk) -> io::Result<()> {
    let file = disk.create(FORMAT_NEW)?;
    file.write_at(0, format!("{FORMAT_PREFIX}{FORMAT}\n").as_bytes())?;
    file.sync_data()?;
    disk.rename(FORMAT_NEW, FORMAT_NAME)?;
    disk.directory_sync()
}

/// The first opening has finished.
fn initialising_end(disk: &dyn Disk) -> io::Result<()> {
    disk.remove(INITIALISING)?;
    disk.directory_sync()
}

/// Removes the files of an interrupted opening, segment or checkpoint, and makes the names durable: those of the
/// previous opening may not be.
fn leftovers_remove(disk: &dyn Disk, names: &[String], end: &LogEnd) -> io::Result<()> {
    if let Some(sequence) = end.unfinished {
        disk.remove(&segment_name(sequence))?;
    }
    for name in names.iter().filter(|name| *name == checkpoint::NAME_NEW || is_spare(name)) {
        disk.remove(name)?;
    }
    disk.directory_sync()
}
