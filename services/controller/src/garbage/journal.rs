//! Keeps the journal within its retention and its bound.

use std::convert::Infallible;
use std::time::Duration;

use borough_kv::Idempotency;
use borough_store::cell::{CellMeta, cell_meta_read};
use borough_store::journal::{JournalMeter, TrimGoal, journal_cutoff, journal_trim};
use borough_store::lease::LeaseWriter;
use borough_store::{StoreError, StoreResult};

use super::decide::journal_excess;

/// Interval of checks of a journal that is well within its bound, and of one that nears it.
const TRIM_LOOK: Duration = Duration::from_secs(2);
const TRIM_LOOK_NEAR: Duration = Duration::from_millis(250);

/// Keeps the journal within its retention and its bound, batch by batch. Only an error ends it: that of the store, or
/// the loss of the lease.
pub(crate) async fn journal_keep(writer: &LeaseWriter) -> StoreResult<Infallible> {
    let mut meter = JournalMeter::default();
    loop {
        let (kept, meta) = journal_measure(writer, &mut meter).await?;
        let bytes_max = meta.journal_bytes_max();
        let mut excess = journal_excess(kept, bytes_max);
        while let Some(removed) = journal_pass(writer, &meter, meta.journal_retention_ms, excess).await? {
            excess = excess.saturating_sub(removed);
        }
        let near = kept > bytes_max / 2;
        tokio::time::sleep(if near { TRIM_LOOK_NEAR } else { TRIM_LOOK }).await;
    }
}

/// Bytes of the journal, and the cell's settings.
async fn journal_measure(writer: &LeaseWriter, meter: &mut JournalMeter) -> StoreResult<(u64, CellMeta)> {
    let (space, measured) = (&writer.space, &*meter);
    let look = writer.db.run("journal_bytes", Idempotency::ReadOnly, |tx, _| async move {
        let meta = cell_meta_read(&tx, space).await?;
        Ok::<_, StoreError>((measured.look(&tx, space).await?, meta))
    });
    let (look, meta) = look.await?;
    Ok((meter.note(look), meta))
}

/// Removes one batch of entries that are too old or, by `excess` bytes, too many. Returns its bytes; `None` if nothing
/// is left to remove.
async fn journal_pass(
    writer: &LeaseWriter,
    meter: &JournalMeter,
    retention_ms: u64,
    excess: u64,
) -> StoreResult<Option<u64>> {
    let (space, now_ms) = (&writer.space, writer.clock.wall_ms());
    let goal = &TrimGoal { retention_ms, now_ms, excess };
    let trimmed = writer.run("journal_trim", |tx| async move {
        let Some(cutoff) = journal_cutoff(&tx, space, goal, meter).await? else { return Ok(None) };
        Ok(journal_trim(&tx, space, cutoff.keep_from, now_ms).await?.map(|_| cutoff.bytes))
    });
    trimmed.await
}
