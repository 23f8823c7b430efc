//! Ports of one test cell: tests run in parallel, in processes that do not know each other.

use std::fs::{self, File, OpenOptions};
use std::net::TcpListener;

use rustix::fs::{FlockOperation, flock};

/// Ports of one cell: two of the gateway, three of the name service, those of load balancers, the others of its tasks.
const PORTS: u16 = 100;
/// Ports for load balancers that a test starts.
const BALANCERS: u16 = 8;
/// The first port: below those of `borough dev`, and below those that the kernel assigns.
const FIRST: u16 = 12_000;
/// The most cells at once on one machine.
const SLOTS: u16 = 70;

/// Ports that belong to one test while it runs: a locked file reserves them.
#[derive(Debug)]
pub struct PortSlot {
    first: u16,
    _lock: File,
}

impl PortSlot {
    /// Reserves free ports.
    ///
    /// # Panics
    /// None are free.
    pub fn take() -> Self {
        let directory = std::env::temp_dir().join("borough-test-ports");
        fs::create_dir_all(&directory).expect("the directory of port locks");
        for slot in 0..SLOTS {
            let path = directory.join(slot.to_string());
            let file = OpenOptions::new().create(true).truncate(false).write(true).open(path);
            let lock = file.expect("a port lock");
            let first = FIRST + slot * PORTS;
            // A program that does not know the locks may use them as well.
            let free = || TcpListener::bind(("127.0.0.1", first)).is_ok();
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() && free() {
                return Self { first, _lock: lock };
            }
        }
        panic!("all {SLOTS} port slots are taken");
    }

    /// The port of the gateway's gRPC.
    pub fn grpc(&self) -> u16 {
        self.first
    }

    /// The port of the gateway's HTTP.
    pub fn http(&self) -> u16 {
        self.first + 1
    }

    /// The port of the name service's DNS.
    pub fn dns(&self) -> u16 {
        self.first + 2
    }

    /// The port of the name service's HTTP.
    pub fn names(&self) -> u16 {
        self.first + 3
    }

    /// The port of xDS.
    pub fn xds(&self) -> u16 {
        self.first + 4
    }

    /// The port of the load balancer with this number.
    ///
    /// # Panics
    /// So many have none.
    pub fn balancer(&self, number: u16) -> u16 {
        assert!(number < BALANCERS, "only {BALANCERS} load balancers have a port");
        self.first + 5 + number
    }

    /// The ports of tasks, as FIRST-LAST.
    pub fn tasks(&self) -> String {
        format!("{}-{}", self.first + 5 + BALANCERS, self.first + PORTS - 1)
    }
}
