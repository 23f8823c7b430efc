//! The runtime's time, and wall clocks that are off.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use borough_kv::Database;
use borough_kv::env::Clock;
use borough_store::CellSpace;
use borough_store::cell::{CellClock, StoreOpened};

/// The runtime's time. In a paused runtime it advances while every task waits.
#[derive(Debug)]
pub struct VirtualClock {
    begin: tokio::time::Instant,
    begin_ms: i64,
}

impl VirtualClock {
    /// A clock that begins now, at `wall_ms`.
    #[expect(clippy::disallowed_methods, reason = "the runtime's clock is the test's")]
    pub fn at(wall_ms: i64) -> Arc<dyn Clock> {
        Arc::new(Self { begin: tokio::time::Instant::now(), begin_ms: wall_ms })
    }
}

impl Clock for VirtualClock {
    fn monotonic(&self) -> Duration {
        self.begin.elapsed()
    }

    fn wall_ms(&self) -> i64 {
        self.begin_ms.saturating_add(i64::try_from(self.begin.elapsed().as_millis()).unwrap())
    }
}

/// The clocks of a machine with a wrong wall clock.
pub struct OffClock {
    clock: Arc<dyn Clock>,
    off_ms: AtomicI64,
}

impl OffClock {
    /// Clocks like `clock`, except that the wall clock is off by so many milliseconds.
    pub fn new(clock: Arc<dyn Clock>, off_ms: i64) -> Arc<Self> {
        Arc::new(Self { clock, off_ms: AtomicI64::new(off_ms) })
    }

    /// The wall clock jumps: from now on it is off by so much.
    pub fn jump(&self, off_ms: i64) {
        self.off_ms.store(off_ms, Ordering::SeqCst);
    }
}

impl Clock for OffClock {
    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    fn wall_ms(&self) -> i64 {
        self.clock.wall_ms().saturating_add(self.off_ms.load(Ordering::SeqCst))
    }
}

/// The time of a cell on a machine, followed as every role of the control plane follows it.
pub async fn cell_time(machine: Arc<dyn Clock>, db: &Database, space: &CellSpace) -> Arc<dyn Clock> {
    let time = CellClock::new(machine);
    time.begin(db, space, StoreOpened::Shared).await.unwrap();
    let (followed, db, space) = (Arc::clone(&time), db.clone(), space.clone());
    tokio::spawn(async move { followed.follow(db, space).await });
    time
}

/// Runs a test on one thread, in time that passes only while every task waits.
pub fn in_simulated_time<T>(test: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(test)
}
