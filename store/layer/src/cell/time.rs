//! The time of a cell, which measures every duration that outlives a process.
//!
//! The cell stores an anchor: a version of the store, and the time that it stands for. Versions advance by a million a
//! second, so the time at any read version follows from the anchor. No process needs to trust another one's wall clock.
//! A process reads the anchor every [`OBSERVE_EVERY`] and uses its own monotonic clock in between ([`CellClock`]).
//!
//! Versions jump (a recovery of FoundationDB skips 100 seconds of them), and wall clocks jump. An observation therefore
//! makes a process's time at most a tenth faster or slower ([`slewed`]). A process that renews the anchor moves it
//! towards its own wall clock by at most a tenth. Any measured duration is therefore between 80 and 125 per cent of the
//! real one, however wrong the clocks are.

use std::sync::Arc;
use std::time::Duration;

use borough_kv::env::Clock;
use borough_kv::{Database, Idempotency, Transaction, TransactionOption, Version};
use parking_lot::Mutex;

use super::{CellGate, CellMeta, CellState, CellTime};
use crate::error::{StoreError, StoreResult, error_chain};
use crate::keys::{self, CellGateKey, CellMetaKey, CellSpace};

/// How often a process reads the cell's time.
pub const OBSERVE_EVERY: Duration = Duration::from_secs(2);
/// Milliseconds after which the anchor is renewed. A process that starts during a jump of versions trusts the jump for
/// at most this long.
const RENEW_MS: i64 = 10_000;
/// The most milliseconds by which the opening of a store moves the cell's time on. The process takes them from its wall
/// clock, since nobody else knows how long the store was closed.
const CLOSED_MS_MAX: i64 = 86_400_000;
/// A correction changes a duration by at most one part in so many: a tenth.
const SLEW_PART: i64 = 10;

/// The time `elapsed_ms` after `before_ms`, if an observation shows `seen_ms`. The result is between nine and eleven
/// tenths of `elapsed_ms` later.
fn slewed(before_ms: i64, elapsed_ms: i64, seen_ms: i64) -> i64 {
    let (expected, most) = (before_ms.saturating_add(elapsed_ms), elapsed_ms / SLEW_PART);
    expected.saturating_add(seen_ms.saturating_sub(expected).clamp(-most, most))
}

/// Whether other processes may use the store that a process opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreOpened {
    /// Only this process: nothing has happened in the store since it was closed.
    Alone,
    /// Others use it, or may use it.
    Shared,
}

/// A clock that shows the time of a cell. Before the first observation it shows the machine's time.
pub struct CellClock {
    machine: Arc<dyn Clock>,
    seen: Mutex<Option<SeenTime>>,
}

/// The cell's time at a moment of the machine's monotonic clock.
#[derive(Clone, Copy, Debug)]
struct SeenTime {
    at: Duration,
    ms: i64,
}

impl CellClock {
    /// A clock over a machine's clock, without an observation yet.
    pub fn new(machine: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { machine, seen: Mutex::new(None) })
    }

    /// Records the cell's time as it was just read.
    pub fn observe(&self, ms: i64) {
        let at = self.machine.monotonic();
        let mut seen = self.seen.lock();
        let ms = seen.map_or(ms, |seen| slewed(seen.ms, since_ms(seen.at, at), ms));
        *seen = Some(SeenTime { at, ms });
    }

    /// The cell's time, if it was observed.
    fn known_ms(&self) -> Option<i64> {
        let seen = (*self.seen.lock())?;
        Some(seen.ms.saturating_add(since_ms(seen.at, self.machine.monotonic())))
    }

    /// Reads the cell's time once. Call it before anything is stamped.
    pub async fn begin(&self, db: &Database, space: &CellSpace, opened: StoreOpened) -> StoreResult<()> {
        let wall_ms = self.machine.wall_ms();
        let begun = db.run("cell_time_begin", Idempotency::Natural, |tx, _| async move {
            let (version, gate, meta) = read(&tx, space).await?;
            match meta
                .clock
                .filter(|_| opened == StoreOpened::Shared)
                .filter(|time| time.store_epoch == gate.store_epoch)
            {
                Some(time) => Ok::<_, StoreError>(time.at(version)),
                None => {
                    let closed =
                        |time: CellTime| wall_ms.clamp(time.at_ms, time.at_ms.saturating_add(CLOSED_MS_MAX));
                    let at_ms = meta.clock.map_or(wall_ms, closed);
                    write(&tx, space, (version, gate, meta), at_ms)
                }
            }
        });
        self.observe(begun.await?);
        Ok(())
    }

    /// Reads the cell's time, and renews its anchor if that is due.
    async fn look(&self, db: &Database, space: &CellSpace) -> StoreResult<()> {
        let (own_ms, wall_ms) = (self.known_ms(), self.machine.wall_ms());
        let looked = db.run("cell_time", Idempotency::Natural, |tx, _| async move {
            // Whatever is stamped by this anchor and made durable makes the anchor durable too: it comes later.
            tx.set_option(TransactionOption::FlushLater)?;
            let (version, gate, meta) = read(&tx, space).await?;
            let time = meta.clock.filter(|time| time.store_epoch == gate.store_epoch);
            let Some(time) = time else {
                // The cell has moved to another store: its time did not advance in between.
                let at_ms = meta.clock.map_or(wall_ms, |time| time.at_ms);
                return write(&tx, space, (version, gate, meta), at_ms);
            };
            let seen_ms = time.at(version);
            let elapsed_ms = seen_ms.saturating_sub(time.at_ms);
            match own_ms {
                // The time that this process has counted itself is not affected by a jump of versions.
                Some(own_ms) if elapsed_ms >= RENEW_MS => {
                    let counted_ms = own_ms.max(time.at_ms);
                    let at_ms = slewed(time.at_ms, counted_ms.saturating_sub(time.at_ms), wall_ms);
                    write(&tx, space, (version, gate, meta), at_ms)
                }
                _ => Ok(seen_ms),
            }
        });
        self.observe(looked.await?);
        Ok(())
    }

    /// Follows the cell's time until the future is dropped.
    pub async fn follow(&self, db: Database, space: CellSpace) {
        loop {
            tokio::time::sleep(OBSERVE_EVERY).await;
            if let Err(error) = self.look(&db, &space).await {
                tracing::debug!(cell = %space, error = %error_chain(&error), "the cell's time cannot be read; the monotonic clock goes on");
            }
        }
    }
}

impl Clock for CellClock {
    fn monotonic(&self) -> Duration {
        self.machine.monotonic()
    }

    fn wall_ms(&self) -> i64 {
        self.known_ms().unwrap_or_else(|| self.machine.wall_ms())
    }
}

fn since_ms(from: Duration, to: Duration) -> i64 {
    i64::try_from(to.saturating_sub(from).as_millis()).unwrap_or(i64::MAX)
}

type TimeRead = (Version, CellGate, CellMeta);

async fn read(tx: &Transaction, space: &CellSpace) -> StoreResult<TimeRead> {
    let unknown = || StoreError::CellUnknown { cell: space.to_string() };
    let gate = keys::read_snapshot(tx, space, &CellGateKey {}).await?.ok_or_else(unknown)?;
    let meta = keys::read_snapshot(tx, space, &CellMetaKey {}).await?.ok_or_else(unknown)?;
    Ok((tx.read_version().await?, gate, meta))
}

/// Writes the anchor, unless another process has written it since, or the cell has moved. The anchor is not a setting:
/// the journal does not record it, and no revision counts it.
fn write(tx: &Transaction, space: &CellSpace, read: TimeRead, at_ms: i64) -> StoreResult<i64> {
    let (version, gate, meta) = read;
    if matches!(gate.state, CellState::Open | CellState::Draining) {
        keys::guard(tx, space, &CellMetaKey {})?;
        let clock = Some(CellTime { store_epoch: gate.store_epoch, version, at_ms });
        keys::write(tx, space, &CellMetaKey {}, &CellMeta { clock, ..meta })?;
    }
    Ok(at_ms)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use borough_kv::env::ManualClock;
    use proptest::prelude::*;

    use super::*;
    use crate::cell::cell_meta_read;
    use crate::testing::TestCell;

    const HOUR_MS: i64 = 3_600_000;

    /// A machine whose wall clock is wrong and may jump.
    struct Machine {
        cell: Arc<ManualClock>,
        off_ms: AtomicI64,
    }

    impl Clock for Machine {
        fn monotonic(&self) -> Duration {
            self.cell.monotonic()
        }

        fn wall_ms(&self) -> i64 {
            self.cell.wall_ms() + self.off_ms.load(Ordering::SeqCst)
        }
    }

    fn machine(cell: &TestCell, off_ms: i64) -> (Arc<Machine>, Arc<CellClock>) {
        let machine = Arc::new(Machine { cell: Arc::clone(&cell.clock), off_ms: AtomicI64::new(off_ms) });
        let clock = CellClock::new(Arc::<Machine>::clone(&machine));
        (machine, clock)
    }

    /// Every machine reads the time once every two seconds, for so long.
    async fn pass(cell: &TestCell, clocks: &[Arc<CellClock>], seconds: u64) {
        for _ in 0..seconds / 2 {
            cell.clock.advance(OBSERVE_EVERY);
            for clock in clocks {
                clock.look(&cell.db, &cell.space).await.unwrap();
            }
        }
    }

    /// Roles with clocks that are off by hours and days. Each stamps what another one compares: back-off, cooling
    /// ports, promises, retention.
    #[tokio::test]
    async fn durations_are_right_whatever_the_wall_clocks_of_roles_show() {
        for off_ms in [HOUR_MS, -HOUR_MS, 24 * HOUR_MS, -24 * HOUR_MS] {
            let cell = TestCell::new().await;
            let (gateway, one) = machine(&cell, 0);
            let (_, other) = machine(&cell, off_ms);
            let (_, third) = machine(&cell, -off_ms / 2);
            let clocks = [one, other, third];
            for clock in &clocks {
                clock.begin(&cell.db, &cell.space, StoreOpened::Shared).await.unwrap();
            }
            for (number, seconds) in [10_u64, 60, 600, 3_600].into_iter().enumerate() {
                // The clock that was right jumps during the wait.
                gateway.off_ms.store(if number % 2 == 0 { off_ms } else { -off_ms }, Ordering::SeqCst);
                let stamped: Vec<i64> = clocks.iter().map(|clock| clock.wall_ms()).collect();
                let spread = stamped.iter().max().unwrap() - stamped.iter().min().unwrap();
                assert!(spread < 1_000, "off by {off_ms}: {stamped:?}");
                pass(&cell, &clocks, seconds).await;
                for (clock, stamped) in
                    clocks.iter().flat_map(|clock| stamped.iter().map(move |at| (clock, at)))
                {
                    let took = clock.wall_ms() - stamped;
                    let real = i64::try_from(seconds).unwrap() * 1_000;
                    assert!(took * 5 >= real * 4 - 5_000 && took * 4 <= real * 5 + 4_000, "{took} of {real}");
                }
            }
        }
    }

    /// A recovery of the store skips versions. Running processes continue as before, and a process that starts then is
    /// right soon.
    #[tokio::test]
    async fn a_jump_of_versions_is_no_time() {
        let cell = TestCell::new().await;
        let (_, one) = machine(&cell, 0);
        one.begin(&cell.db, &cell.space, StoreOpened::Shared).await.unwrap();
        pass(&cell, std::slice::from_ref(&one), 60).await;
        // The anchor is as if the versions since had jumped by 100 seconds.
        let jump = cell.run(async |tx| {
            let mut meta = cell_meta_read(&tx, &cell.space).await?;
            meta.clock = meta.clock.map(|time| CellTime { version: time.version - 100_000_000, ..time });
            keys::write(&tx, &cell.space, &CellMetaKey {}, &meta)
        });
        let before = one.wall_ms();
        jump.await.unwrap();
        pass(&cell, std::slice::from_ref(&one), 2).await;
        assert!(one.wall_ms() - before <= 2_200, "{}", one.wall_ms() - before);
        let (_, late) = machine(&cell, 0);
        late.begin(&cell.db, &cell.space, StoreOpened::Shared).await.unwrap();
        assert!((late.wall_ms() - one.wall_ms()).abs() <= 400, "the anchor was renewed by who knew");
    }

    /// The only owner of a store counts the time for which it was closed, by the only clock it has, and never goes
    /// back.
    #[tokio::test]
    async fn an_opening_counts_at_most_a_day_and_never_goes_back() {
        for (off_ms, moved_ms) in [(-HOUR_MS, 0), (HOUR_MS, HOUR_MS), (999 * HOUR_MS, CLOSED_MS_MAX)] {
            let cell = TestCell::new().await;
            let (_, one) = machine(&cell, 0);
            one.begin(&cell.db, &cell.space, StoreOpened::Alone).await.unwrap();
            let before = one.wall_ms();
            let (_, next) = machine(&cell, off_ms);
            next.begin(&cell.db, &cell.space, StoreOpened::Alone).await.unwrap();
            assert_eq!(next.wall_ms() - before, moved_ms);
        }
    }

    proptest! {
        #[test]
        fn time_goes_on_by_nine_to_eleven_tenths(
            before in 0..HOUR_MS,
            elapsed in 0..HOUR_MS,
            seen in any::<i64>(),
        ) {
            let after = slewed(before, elapsed, seen) - before;
            prop_assert!(after * 10 >= elapsed * 9 && after * 10 <= elapsed * 11);
        }
    }
}
