//! The identity of the agent: a key in its state directory, the machine's id, and a guard that allows one agent per
//! identity on a host.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::time::Duration;

use borough_model::node::{AgentIdentity, AgentKey, DurableId};
use procfs::process::FDTarget;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt};

use super::StateDir;
use super::attempt_dir::record_read;
use crate::error::AgentError;

/// The file of the key, in the state directory.
const FILE: &str = "identity";
/// How often the agent tries to take the host's guard. A child that a previous agent was just starting holds it until
/// it executes its program.
const GUARD_TRIES: u32 = 40;
const GUARD_PAUSE: Duration = Duration::from_millis(50);

/// The key in the state directory `root`. If it has none, it is made from `random`, for good.
///
/// # Errors
/// The file cannot be read or written, or is damaged. A damaged file is left alone: another key would make this another
/// node.
pub(crate) fn agent_key(root: &Path, random: impl FnOnce() -> u128) -> Result<AgentKey, AgentError> {
    let path = root.join(FILE);
    let failed = |source| AgentError::State { path: path.clone(), source };
    match fs::read_to_string(&path) {
        Ok(text) => {
            let digits = text.trim_end();
            let key = u128::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 32);
            let damaged = || io::Error::new(io::ErrorKind::InvalidData, "not 32 hexadecimal digits");
            key.map(AgentKey).ok_or_else(|| failed(damaged()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let key = AgentKey(random());
            durable_write(root, &path, key).map_err(failed)?;
            Ok(key)
        }
        Err(error) => Err(failed(error)),
    }
}

/// Writes the file whole or not at all, even if the machine crashes: the agent must not lose a key that a gateway
/// knows.
fn durable_write(root: &Path, path: &Path, key: AgentKey) -> io::Result<()> {
    let temporary = root.join(".identity.new");
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&temporary)?;
    writeln!(file, "{:032x}", key.0)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    File::open(root)?.sync_all()
}

/// The machine's id in the file; empty if it has no valid one.
pub(crate) fn machine_id(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    match AgentIdentity::new(DurableId(0), &text) {
        Ok(_) => text,
        Err(_) => {
            tracing::warn!(path = %path.display(), "the file contains no machine id: the agent goes on without one");
            String::new()
        }
    }
}

/// Held by an agent while it runs, so that no second agent of its identity runs on this host.
///
/// It is an abstract socket, whose name any process of the host may take, tasks too. So a taken name means another
/// agent only if the holder could be one: root, or the user of this agent.
#[derive(Debug)]
pub(crate) struct HostGuard {
    /// The kernel releases it with the process. `None`: a process that is no agent has the name.
    _socket: Option<UnixListener>,
}

/// The holder of a name that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    Agent,
    Stranger,
}

impl HostGuard {
    /// Takes the name of `identity`.
    ///
    /// # Errors
    /// Another agent of this identity runs on this host, or the kernel refuses.
    pub(crate) fn take(identity: DurableId, root: &Path) -> Result<Self, AgentError> {
        let failed = |source| AgentError::Machine { what: "the guard of the host", source };
        let name = format!("borough-agent-{identity}");
        let address = SocketAddr::from_abstract_name(&name).map_err(failed)?;
        for _ in 0..GUARD_TRIES {
            match UnixListener::bind_addr(&address) {
                Ok(socket) => return Ok(Self { _socket: Some(socket) }),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => std::thread::sleep(GUARD_PAUSE),
                Err(error) => return Err(failed(error)),
            }
        }
        let own = rustix::process::geteuid().as_raw();
        match holder_of(holder_user(&name).map_err(failed)?, own) {
            Holder::Agent => Err(AgentError::IdentityTaken { identity, path: root.join(FILE) }),
            Holder::Stranger => {
                tracing::warn!(
                    name,
                    "a process that is no agent holds the name by which a copy of this agent would be noticed on this host"
                );
                Ok(Self { _socket: None })
            }
        }
    }
}

/// The user of the process that has a name; `None` if the kernel does not show it.
fn holder_user(name: &str) -> io::Result<Option<u32>> {
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
    // The holder of the name must not be able to block this call.
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match connect(&socket, &address) {
        Ok(()) => Ok(Some(sockopt::socket_peercred(&socket)?.uid.as_raw())),
        // It does not listen, or strangers fill its queue: `/proc` then shows its owner.
        Err(_) => Ok(holder_shown(name)),
    }
}

/// The user of a process that has a socket of this name open, as `/proc` shows it. Root sees every process, others see
/// their own. An agent without root still finds another agent of its user.
fn holder_shown(name: &str) -> Option<u32> {
    // `/proc` shows an abstract name with an @ before it.
    let shown = format!("@{name}");
    let sockets = procfs::net::unix().ok()?;
    let is_named = |path: &Path| path == Path::new(&shown);
    let inodes: BTreeSet<u64> = sockets
        .into_iter()
        .filter(|socket| socket.path.as_deref().is_some_and(is_named))
        .map(|socket| socket.inode)
        .collect();
    let holds = |process: &procfs::process::Process| {
        let mut open = process.fd().into_iter().flatten().flatten();
        open.any(|fd| matches!(fd.target, FDTarget::Socket(inode) if inodes.contains(&inode)))
    };
    let processes = procfs::process::all_processes().ok()?.flatten();
    let users = processes.filter(holds).filter_map(|process| process.uid().ok());
    // Root first: any other process that holds it has inherited it.
    users.min()
}

/// Refuses a state directory whose attempts are run by shims of another one: it is a copy. Nobody would read orders
/// that are written into it, and two agents would report its tasks.
///
/// # Errors
/// The first attempt of that kind.
pub(crate) fn copy_refuse(state: &StateDir, boot_id: &str) -> Result<(), AgentError> {
    let failed = |source| AgentError::State { path: state.root.clone(), source };
    for id in state.attempts().map_err(failed)? {
        let directory = state.attempt(&id);
        let shim =
            record_read(&directory).filter(|record| record.boot_id == boot_id).and_then(|record| record.shim);
        let Some(shim) = shim.filter(|shim| shim.alive()) else { continue };
        // A shim works in the directory of its attempt, and follows it if it is moved.
        let works_in = Path::new("/proc").join(shim.pid.to_string()).join("cwd");
        let (Ok(theirs), Ok(ours)) = (fs::metadata(&works_in), fs::metadata(&directory)) else { continue };
        if (theirs.dev(), theirs.ino()) != (ours.dev(), ours.ino()) {
            let of = fs::read_link(&works_in).unwrap_or_default();
            return Err(AgentError::Copied { path: state.root.clone(), attempt: id.to_string(), of });
        }
    }
    Ok(())
}

/// Whether a holder with this user can be an agent like one that runs as `own`.
fn holder_of(user: Option<u32>, own: u32) -> Holder {
    match user {
        Some(user) if user == 0 || user == own => Holder::Agent,
        _ => Holder::Stranger,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_key_is_made_once_and_for_its_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let made = agent_key(dir.path(), || 7).unwrap();
        assert_eq!(made, AgentKey(7));
        assert_eq!(agent_key(dir.path(), || 8).unwrap(), made);
        let mode = fs::metadata(dir.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_damaged_key_is_no_new_one() {
        let dir = tempfile::tempdir().unwrap();
        for damaged in ["", "7", "000000000000000000000000000000000", "zz"] {
            fs::write(dir.path().join(FILE), damaged).unwrap();
            assert!(matches!(agent_key(dir.path(), || 8), Err(AgentError::State { .. })), "{damaged:?}");
        }
    }

    #[test]
    fn a_machine_without_an_id_has_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("machine-id");
        assert_eq!(machine_id(&path), "");
        fs::write(&path, "0123abcd\n").unwrap();
        assert_eq!(machine_id(&path), "0123abcd");
        fs::write(&path, "uninitialized!").unwrap();
        assert_eq!(machine_id(&path), "");
    }

    /// A copied state directory has another path and the same id.
    #[test]
    fn one_host_has_one_agent_of_an_identity() {
        let dir = tempfile::tempdir().unwrap();
        let id = DurableId(u128::from(std::process::id()) << 64 | 0x0bad_cafe);
        let first = HostGuard::take(id, dir.path()).unwrap();
        assert!(matches!(HostGuard::take(id, dir.path()), Err(AgentError::IdentityTaken { .. })));
        drop(first);
        HostGuard::take(id, dir.path()).unwrap();
    }

    /// A process that fills the queue of the guard's socket must not make a copy pass for the first agent of its
    /// identity.
    #[test]
    fn an_agent_is_found_though_strangers_fill_the_queue_of_its_guard() {
        let dir = tempfile::tempdir().unwrap();
        let id = DurableId(u128::from(std::process::id()) << 64 | 0x0bad_f00d);
        let _guard = HostGuard::take(id, dir.path()).unwrap();
        let name = format!("borough-agent-{id}");
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let connected = || {
            let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
            connect(&socket, &address).is_ok().then_some(socket)
        };
        let _queue: Vec<_> = std::iter::from_fn(connected).take(100_000).collect();
        assert!(connected().is_none(), "the queue is full");
        assert_eq!(holder_user(&name).unwrap(), Some(rustix::process::geteuid().as_raw()));
        assert!(matches!(HostGuard::take(id, dir.path()), Err(AgentError::IdentityTaken { .. })));
    }

    /// A task can take the name. That must not keep an agent from starting.
    #[test]
    fn a_name_that_no_agent_holds_keeps_no_agent_out() {
        assert_eq!(holder_of(Some(1_879_048_194), 0), Holder::Stranger);
        assert_eq!(holder_of(None, 0), Holder::Stranger);
        assert_eq!(holder_of(Some(0), 1_000), Holder::Agent);
        assert_eq!(holder_of(Some(1_000), 1_000), Holder::Agent);
        let dir = tempfile::tempdir().unwrap();
        let id = DurableId(u128::from(std::process::id()) << 64 | 0x0bad_beef);
        // Another type of socket has a separate space of names.
        let address = SocketAddr::from_abstract_name(format!("borough-agent-{id}")).unwrap();
        let _held = std::os::unix::net::UnixDatagram::bind_addr(&address).unwrap();
        HostGuard::take(id, dir.path()).unwrap();
    }
}
