//! Finds the process that listens on a port, in the kernel's tables. A probe that reaches another process's server says
//! nothing about the task, and a task cannot use a port that another process has.
//!
//! The kernel's table of sockets names the listening ones by inode, and the links in `/proc/PID/fd` show which process
//! has which. A listener that a child has inherited counts as the task's. UDP has no listeners and is not checked.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use borough_shim::cgroup::Leaf;
use borough_shim::process::descendants;
use parking_lot::Mutex;

/// After so many probes that only checked a known link, the next one searches all sockets again.
const KNOWN_USES: u32 = 20;

/// A TCP socket that listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listener {
    /// One of the machine's addresses, or all of them.
    pub address: SocketAddr,
    /// The number of the socket in the kernel's tables.
    pub inode: u64,
}

/// Every socket of this network namespace that listens on a port.
///
/// # Errors
/// Those of reading `/proc`.
pub(crate) fn listeners(port: u16) -> io::Result<Vec<Listener>> {
    let mut found = table_parse(&fs::read_to_string("/proc/self/net/tcp")?, port);
    match fs::read_to_string("/proc/self/net/tcp6") {
        Ok(text) => found.extend(table_parse(&text, port)),
        // A kernel without IPv6.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    Ok(found)
}

/// The listening sockets of a port in a table in the format of `/proc/net/tcp`.
fn table_parse(text: &str, port: u16) -> Vec<Listener> {
    let suffix = format!(":{port:04X}");
    let listener = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let local = fields.nth(1).filter(|local| local.ends_with(&suffix))?;
        // The state: 0A is LISTEN.
        fields.nth(1).filter(|state| *state == "0A")?;
        let inode = fields.nth(5)?.parse().ok()?;
        let address = address_parse(local.strip_suffix(&suffix)?)?;
        Some(Listener { address: SocketAddr::new(address, port), inode })
    };
    text.lines().skip(1).filter_map(listener).collect()
}

/// An address in the kernel's format: words of 32 bits, each in the machine's byte order.
fn address_parse(text: &str) -> Option<IpAddr> {
    let word = |at: usize| u32::from_str_radix(text.get(at..at + 8)?, 16).ok().map(u32::to_ne_bytes);
    match text.len() {
        8 => Some(IpAddr::from(Ipv4Addr::from(word(0)?))),
        32 => {
            let bytes: Vec<u8> = [word(0)?, word(8)?, word(16)?, word(24)?].concat();
            Some(IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)).to_canonical())
        }
        _ => None,
    }
}

/// The listeners that the kernel gives a connection to `address`: those with the most specific address. If none
/// matches, another machine forwards to this one, and every listener of the port may be meant.
pub(crate) fn answering(listeners: &[Listener], address: IpAddr) -> Vec<Listener> {
    let address = address.to_canonical();
    let rank = |listener: &Listener| match listener.address.ip() {
        own if own == address => 3,
        own if own.is_unspecified() && own.is_ipv4() == address.is_ipv4() => 2,
        own if own.is_unspecified() && own.is_ipv6() => 1,
        _ => 0,
    };
    let best = listeners.iter().map(rank).max().unwrap_or(0);
    listeners.iter().filter(|listener| rank(listener) == best).copied().collect()
}

/// The processes of a task.
#[derive(Clone, Debug, Default)]
pub struct Owner {
    /// Its cgroup, if it has one.
    pub leaf: Leaf,
    /// Its shim. All processes of the task are its descendants, since it reaps orphans.
    pub shim: Option<u32>,
}

impl Owner {
    fn processes(&self) -> BTreeSet<u32> {
        let mut processes = self.leaf.processes();
        if processes.is_empty() {
            processes.extend(self.shim.into_iter().flat_map(descendants));
        }
        processes
    }
}

/// Remembers the link in `/proc` where a task's listener was found. Most probes then read one link instead of a table.
#[derive(Debug, Default)]
pub struct KnownSocket(Mutex<Option<KnownLink>>);

#[derive(Clone, Debug)]
struct KnownLink {
    address: SocketAddr,
    link: PathBuf,
    inode: u64,
    uses: u32,
}

impl KnownSocket {
    fn holds(&self, address: SocketAddr) -> bool {
        let mut known = self.0.lock();
        let Some(link) = known.as_mut().filter(|link| link.address == address) else { return false };
        link.uses += 1;
        link.uses <= KNOWN_USES && socket_of(&link.link) == Some(link.inode)
    }
}

/// The owner of the listeners at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listeners {
    /// Only the task.
    Task,
    /// No process of this machine.
    Nobody,
    /// Another process, alone or besides the task.
    Other(Listener),
    /// The kernel does not show the descriptors of the task's processes.
    Hidden,
}

/// Finds out whether the task answers at `address`. Blocks while it reads `/proc`.
///
/// # Errors
/// Those of reading `/proc`.
pub(crate) fn who_answers(owner: &Owner, address: SocketAddr, known: &KnownSocket) -> io::Result<Listeners> {
    if known.holds(address) {
        return Ok(Listeners::Task);
    }
    let all = listeners(address.port())?;
    let mut left = answering(&all, address.ip());
    if left.is_empty() {
        return Ok(Listeners::Nobody);
    }
    let (mut hidden, mut found) = (false, None);
    for process in owner.processes() {
        let directory = match fs::read_dir(format!("/proc/{process}/fd")) {
            Ok(directory) => directory,
            Err(error) => {
                // It has just ended, or this agent may not read it.
                hidden |= error.kind() == io::ErrorKind::PermissionDenied;
                continue;
            }
        };
        for link in directory.flatten().map(|entry| entry.path()) {
            let Some(inode) = socket_of(&link) else { continue };
            if left.iter().any(|listener| listener.inode == inode) {
                left.retain(|listener| listener.inode != inode);
                found = Some(KnownLink { address, link, inode, uses: 0 });
            }
        }
    }
    Ok(match left.first() {
        None => {
            *known.0.lock() = found;
            Listeners::Task
        }
        Some(_) if hidden => Listeners::Hidden,
        Some(&other) => Listeners::Other(other),
    })
}

/// The socket behind a link in `/proc/PID/fd`.
fn socket_of(link: &std::path::Path) -> Option<u64> {
    let target = fs::read_link(link).ok()?;
    target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// A listener that occupies a task's port, on a node with the address `host`.
///
/// # Errors
/// Those of reading `/proc`.
pub(crate) fn in_the_way(host: &str, port: u16) -> io::Result<Option<Listener>> {
    let host = host.trim_matches(['[', ']']).parse::<IpAddr>().ok().map(|address| address.to_canonical());
    let blocks = |listener: &Listener| {
        let address = listener.address.ip();
        address.is_unspecified() || host.is_none_or(|host| host.is_unspecified() || host == address)
    };
    Ok(listeners(port)?.into_iter().find(blocks))
}

/// Names the process that has a socket, for people. Searches every process of the machine, so call it only after a
/// failure.
pub(crate) fn holder(inode: u64) -> String {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let has = |process: &u32| {
        let mut links = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        links.any(|link| socket_of(&link.path()) == Some(inode))
    };
    let mut numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    match numbers.find(has) {
        Some(process) => {
            let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
            format!("process {process} ({})", name.trim().escape_debug())
        }
        None => "a process that this agent cannot see".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::process::{Command, Stdio};

    use super::*;

    fn listener(address: &str, inode: u64) -> Listener {
        Listener { address: address.parse().unwrap(), inode }
    }

    #[test]
    fn listening_sockets_are_read_and_others_are_not() {
        let v4 = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                  0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0\n   \
                  1: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4712 1 0\n   \
                  2: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 4713 1 0\n   \
                  3: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4714 1 0\n";
        assert_eq!(table_parse(v4, 8080), [listener("127.0.0.1:8080", 4711), listener("0.0.0.0:8080", 4712)]);
        let v6 = "  sl  local_address\n   \
                  0: 00000000000000000000000000000000:1F90 0:0 0A 0:0 0:0 0 0 0 4715 1\n   \
                  1: 0000000000000000FFFF00000100007F:1F90 0:0 0A 0:0 0:0 0 0 0 4716 1\n";
        assert_eq!(table_parse(v6, 8080), [listener("[::]:8080", 4715), listener("127.0.0.1:8080", 4716)]);
    }

    #[test]
    fn the_most_special_listener_answers() {
        let all = [
            listener("0.0.0.0:80", 1),
            listener("127.0.0.1:80", 2),
            listener("[::]:80", 3),
            listener("10.0.0.1:80", 4),
        ];
        let inodes = |listeners: &[Listener], address: &str| {
            let found = answering(listeners, address.parse().unwrap());
            found.iter().map(|listener| listener.inode).collect::<Vec<_>>()
        };
        assert_eq!(inodes(&all, "127.0.0.1"), [2]);
        assert_eq!(inodes(&all, "10.0.0.2"), [1]);
        assert_eq!(inodes(&all, "::1"), [3]);
        assert_eq!(inodes(&all[2..], "127.0.0.1"), [3]);
        assert_eq!(inodes(&all[3..], "192.0.2.1"), [4], "an address that leads here");
        assert!(inodes(&[], "127.0.0.1").is_empty());
    }

    #[test]
    fn a_listener_belongs_to_its_process_and_its_children_only() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        // A child that inherits the socket, like that of a task whose parent has closed it.
        let inherited = std::os::fd::OwnedFd::from(socket.try_clone().unwrap());
        let mut heir = Command::new("sleep").arg("60").stdin(Stdio::from(inherited)).spawn().unwrap();
        let mut stranger = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let who = |shim: u32, known: &KnownSocket| {
            who_answers(&Owner { leaf: Leaf::default(), shim: Some(shim) }, address, known).unwrap()
        };
        let known = KnownSocket::default();
        // Our children, one of which has it.
        assert_eq!(who(std::process::id(), &known), Listeners::Task);
        assert!(known.holds(address));
        assert!(matches!(who(stranger.id(), &KnownSocket::default()), Listeners::Other(_)));
        assert_eq!(in_the_way("127.0.0.1", address.port()).unwrap().unwrap().address, address);
        assert_eq!(in_the_way("192.0.2.7", address.port()).unwrap(), None);
        heir.kill().unwrap();
        heir.wait().unwrap();
        assert!(!known.holds(address), "it has ended");
        let inode = listeners(address.port()).unwrap()[0].inode;
        assert!(holder(inode).starts_with(&format!("process {} (", std::process::id())));
        drop(socket);
        // Another test may be between its fork and its exec, and have a copy until then.
        let is_gone = |_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            who(std::process::id(), &known) == Listeners::Nobody
        };
        assert!((0..1_000).any(is_gone), "nobody listens any more");
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }
}
