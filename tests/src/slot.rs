//! Ports of one test cell: tests run beside each other, in processes that do not know of each other.

use std::fs::{self, File, OpenOptions};
use std::net::TcpListener;

use rustix::fs::{FlockOperation, flock};

/// Ports of one cell: two of the gateway, the others of its tasks.
const PORTS: u16 = 100;
/// The first port: below those of `borough dev`, and below those the kernel gives away itself.
const FIRST: u16 = 12_000;
/// Cells beside each other on one machine.
const SLOTS: u16 = 70;

/// Ports that belong to one test for as long as it lives: a locked file says so to all others.
#[derive(Debug)]
pub struct PortSlot {
    first: u16,
    _lock: File,
}

impl PortSlot {
    /// Ports nobody else has.
    ///
    /// # Panics
    /// Where there are none.
    pub fn take() -> Self {
        let directory = std::env::temp_dir().join("borough-test-ports");
        fs::create_dir_all(&directory).expect("the directory of port locks");
        for slot in 0..SLOTS {
            let path = directory.join(slot.to_string());
            let file = OpenOptions::new().create(true).truncate(false).write(true).open(path);
            let lock = file.expect("a port lock");
            let first = FIRST + slot * PORTS;
            // Somebody who does not know of the locks may be there as well.
            let free = || TcpListener::bind(("127.0.0.1", first)).is_ok();
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() && free() {
                return Self { first, _lock: lock };
            }
        }
        panic!("all {SLOTS} port slots are taken");
    }

    /// The gateway's gRPC.
    pub fn grpc(&self) -> u16 {
        self.first
    }

    /// The gateway's HTTP.
    pub fn http(&self) -> u16 {
        self.first + 1
    }

    /// Those of tasks, as FIRST-LAST.
    pub fn tasks(&self) -> String {
        format!("{}-{}", self.first + 2, self.first + PORTS - 1)
    }
}
