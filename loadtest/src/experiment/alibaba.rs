//! The Alibaba trace of 2018 as sampled by CloudSimPy: rows of batch jobs, each of many equal instances.

use std::path::Path;

use super::table::{ResultTable, Row};

/// A row: the instances of one task of a batch job.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BatchRow {
    /// Seconds from the beginning of the trace.
    pub submit_s: f64,
    pub duration_s: f64,
    pub cpu_millis: u64,
    /// Fraction of one machine's.
    pub memory_fraction: f64,
    pub job: u64,
    pub task: u64,
    pub instances: u32,
}

/// Cores of a machine of the trace.
pub(super) const MACHINE_CORES: u64 = 96;
/// The assumed memory of a machine: the trace only gives fractions of it.
pub(super) const MACHINE_MEMORY_MIB: u64 = 512 * 1024;

const ROWS: &str = "batch_jobs.csv";

impl BatchRow {
    /// Memory of one instance.
    pub(super) fn memory_mib(&self) -> u64 {
        ((self.memory_fraction * MACHINE_MEMORY_MIB as f64) as u64).max(1)
    }
}

/// The rows in `directory`, by the time of their submission.
pub(super) fn rows(directory: &Path) -> anyhow::Result<Vec<BatchRow>> {
    let row = |row: Row<'_>| -> anyhow::Result<BatchRow> {
        let cpu: f64 = row.number("cpu")?;
        Ok(BatchRow {
            submit_s: row.number("submit_time")?,
            duration_s: row.number("duration")?,
            cpu_millis: (cpu * 1000.0).round() as u64,
            memory_fraction: row.number("memory")?,
            job: row.number("job_id")?,
            task: row.number("task_id")?,
            instances: row.number("instances_num")?,
        })
    };
    let mut rows: Vec<BatchRow> =
        ResultTable::read(&directory.join(ROWS))?.rows().map(row).collect::<anyhow::Result<_>>()?;
    rows.sort_by(|left, right| left.submit_s.total_cmp(&right.submit_s));
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_in_the_order_of_their_submission() {
        let directory = tempfile::tempdir().unwrap();
        let text = ",submit_time,duration,cpu,memory,job_id,task_id,instances_num,disk\n\
            0,539,116.4,1.0,0.005,1,1,283,0\n1,7,73.6,0.5,0.25,9,23,67,0\n";
        std::fs::write(directory.path().join(ROWS), text).unwrap();
        let rows = rows(directory.path()).unwrap();
        assert_eq!(rows.iter().map(|row| row.instances).collect::<Vec<_>>(), [67, 283]);
        assert_eq!((rows[0].cpu_millis, rows[0].memory_mib()), (500, MACHINE_MEMORY_MIB / 4));
        assert!(super::rows(Path::new("/nowhere")).unwrap_err().to_string().contains("--trace"));
    }
}
