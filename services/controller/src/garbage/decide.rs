//! Decides what goes.

use borough_model::JobId;
use borough_store::cell::CellMeta;
use borough_store::mirror::EndedJobs;

/// The ended jobs of a part that go at `now_ms`, the oldest first, at most `limit`. Those go that ended longer ago than
/// their retention, and the oldest ones of a cell that has more than it keeps. Jobs that are `kept` stay in any case.
pub(super) fn jobs_due(
    ended: &EndedJobs,
    part: usize,
    meta: &CellMeta,
    now_ms: i64,
    limit: usize,
    kept: impl Fn(JobId) -> bool,
) -> Vec<JobId> {
    let kept_ms = i64::try_from(meta.job_retention_ms).unwrap_or(i64::MAX);
    let excess = excess_of_part(ended.len(), meta.ended_jobs_max());
    let due = ended
        .part(part)
        .enumerate()
        .take_while(|(place, (ended_ms, _))| *place < excess || ended_ms.saturating_add(kept_ms) < now_ms);
    due.map(|(_, (_, job))| job).filter(|job| !kept(*job)).take(limit).collect()
}

/// How many jobs each part gives up, whatever their age. A cell that has more than `most` goes down to seven eighths of
/// it, so that it does not begin again with the next job.
fn excess_of_part(kept: usize, most: u64) -> usize {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    if kept <= most { 0 } else { kept.saturating_sub(most - most / 8).div_ceil(EndedJobs::PARTS) }
}

/// For how many milliseconds the oldest ended job has been due.
pub(super) fn jobs_lag_ms(oldest_ms: Option<i64>, meta: &CellMeta, now_ms: i64) -> i64 {
    let kept_ms = i64::try_from(meta.job_retention_ms).unwrap_or(i64::MAX);
    oldest_ms.map_or(0, |oldest_ms| now_ms.saturating_sub(oldest_ms.saturating_add(kept_ms)).max(0))
}

/// Excess bytes of the journal. Trimming begins at three quarters of the bound and goes down to five eighths, so that
/// the bound itself is never reached while a controller leads.
pub(super) fn journal_excess(kept: u64, bytes_max: u64) -> u64 {
    if kept > bytes_max / 4 * 3 { kept.saturating_sub(bytes_max / 8 * 5) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_is_trimmed_before_it_reaches_its_bound_and_not_for_a_little() {
        const MAX: u64 = 512 << 20;
        assert_eq!(journal_excess(0, MAX), 0);
        assert_eq!(journal_excess(MAX / 4 * 3, MAX), 0);
        assert_eq!(journal_excess(MAX / 4 * 3 + 1, MAX), MAX / 8 + 1);
        assert_eq!(journal_excess(MAX, MAX), MAX / 8 * 3);
        for kept in (0..2 * MAX).step_by(1 << 20) {
            let left = kept - journal_excess(kept, MAX);
            assert!(left <= MAX / 4 * 3 && (left >= MAX / 8 * 5 || left == kept), "{kept}");
        }
    }

    #[test]
    fn a_cell_that_has_too_many_ended_jobs_gives_up_an_eighth_and_each_part_its_share() {
        assert_eq!([0, 799, 800].map(|kept| excess_of_part(kept, 800)), [0, 0, 0]);
        assert_eq!(excess_of_part(801, 800), 101_usize.div_ceil(16));
        assert_eq!(excess_of_part(1_600, 800), 900_usize.div_ceil(16));
        assert_eq!(excess_of_part(5, 0), 1);
    }

    #[test]
    fn a_lag_is_the_time_since_the_oldest_job_became_due() {
        let meta = CellMeta { job_retention_ms: 1_000, ..CellMeta::default() };
        assert_eq!(jobs_lag_ms(None, &meta, 9_000), 0);
        assert_eq!(jobs_lag_ms(Some(8_500), &meta, 9_000), 0);
        assert_eq!(jobs_lag_ms(Some(5_000), &meta, 9_000), 3_000);
    }
}
