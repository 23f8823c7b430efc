//! Seals the calls of a cell's journal in the chain of its audit, and removes those that are too old.

use std::convert::Infallible;
use std::time::Duration;

use borough_store::StoreResult;
use borough_store::audit::{AUDIT_BYTES_MAX, SealPosition, audit_seal, audit_trim};
use borough_store::cell::cell_meta_read;
use borough_store::lease::LeaseWriter;

/// Interval of looks for calls to seal.
const SEAL_LOOK: Duration = Duration::from_secs(1);
/// Interval of checks for calls that are too old.
const AUDIT_LOOK: Duration = Duration::from_secs(60);

/// Seals calls as they come, and removes those that are too old. Only an error ends it: that of the store, or the
/// loss of the lease.
pub(crate) async fn audit_keep(writer: &LeaseWriter) -> StoreResult<Infallible> {
    let (space, mut seen, mut looked_at) = (&writer.space, None::<SealPosition>, None::<Duration>);
    loop {
        let sealed = writer.run("audit_seal", |tx| async move { audit_seal(&tx, space, seen).await }).await?;
        seen = Some(sealed.next);
        let now = writer.clock.monotonic();
        if looked_at.is_none_or(|at| now.saturating_sub(at) >= AUDIT_LOOK) {
            while audit_pass(writer).await? > 0 {}
            looked_at = Some(now);
        }
        if !sealed.more {
            tokio::time::sleep(SEAL_LOOK).await;
        }
    }
}

/// Removes one batch of calls that are too old or too many. Returns the number of chunks that are gone.
async fn audit_pass(writer: &LeaseWriter) -> StoreResult<usize> {
    let (space, now_ms) = (&writer.space, writer.clock.wall_ms());
    let trimmed = writer.run("audit_trim", |tx| async move {
        let kept_ms =
            i64::try_from(cell_meta_read(&tx, space).await?.audit_retention_ms()).unwrap_or(i64::MAX);
        audit_trim(&tx, space, now_ms.saturating_sub(kept_ms), AUDIT_BYTES_MAX).await
    });
    trimmed.await
}
