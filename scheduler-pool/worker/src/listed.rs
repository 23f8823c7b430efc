//! What a scheduler makes of a cell as the store or a mirror has it. The gateway and the controller ask a scheduler's
//! snapshot as well, so their answers say what a worker will do.

use borough_model::{JobSpec, JournalEntry};
use borough_scheduler_core::{CellSettings, Snapshot, StoredSettings};
use borough_store::cell::CellMeta;
use borough_store::journal::Cursor;
use borough_store::mirror::{MirrorRow, MirrorState, RowsPart, RowsPosition, StoredSpec};

/// The settings that a worker plans with.
pub fn settings_of_meta(meta: &CellMeta) -> CellSettings {
    CellSettings::of_stored(&StoredSettings {
        failure_domains: &meta.failure_domains,
        profile: &meta.profile,
        queueing: &meta.queueing,
        queues: &meta.queues,
        fresh_start_ms: meta.fresh_start_ms,
        reclaim: meta.reclaim,
    })
}

/// A snapshot that is built from a mirror in parts, so that nobody holds the mirror's lock while a cell of a million
/// tasks is listed.
///
/// The caller subscribes to the mirror and begins at the position of the subscription. It reads the part at
/// [`SnapshotBuild::position`] under the lock, adds it without the lock, and applies every entry of the subscription in
/// their order.
#[derive(Debug)]
pub struct SnapshotBuild {
    snapshot: Snapshot,
    position: RowsPosition,
    /// The entries up to here are applied.
    applied: Cursor,
    /// Parts were read that have rows up to here.
    seen: Cursor,
    /// The last spec that was decoded: many jobs in a row have the same.
    decoded: Option<(StoredSpec, JobSpec)>,
}

impl SnapshotBuild {
    /// Begins. The entries after `from` will be applied.
    pub fn begin(settings: CellSettings, from: Cursor) -> Self {
        Self {
            snapshot: Snapshot::new(settings),
            position: RowsPosition::BEGIN,
            applied: from,
            seen: from,
            decoded: None,
        }
    }

    /// The next part to read.
    pub fn position(&self) -> RowsPosition {
        self.position
    }

    /// Adds the part that was read at [`SnapshotBuild::position`].
    pub fn add(&mut self, part: RowsPart) {
        part.rows.into_iter().for_each(|row| self.row_add(row));
        self.position = part.next;
        self.seen = self.seen.max(part.at);
    }

    fn row_add(&mut self, row: MirrorRow) {
        match row {
            MirrorRow::Node(row) => {
                self.snapshot.node_upsert(&row);
            }
            MirrorRow::Alloc(node, alloc) => {
                self.snapshot.alloc_upsert(node, &alloc);
            }
            MirrorRow::Load(node, load) => {
                self.snapshot.load_upsert(node, &load);
            }
            MirrorRow::Job { row, spec: stored, base } => {
                let spec = stored.and_then(|stored| match self.decoded.take() {
                    Some((known, spec)) if known.is_same(&stored) => {
                        Some((known, JobSpec { name: row.name.clone(), ..spec }))
                    }
                    _ => stored.decoded(&row.name).map(|spec| (stored, spec)),
                });
                self.snapshot.job_upsert(&row, spec.as_ref().map(|(_, spec)| spec));
                self.decoded = spec;
                let base = base.and_then(|(version, stored)| Some((version, stored.decoded(&row.name)?)));
                if let Some((version, spec)) = base {
                    self.snapshot.job_base_upsert(row.id, version, &spec);
                }
            }
            MirrorRow::Task(row) => {
                self.snapshot.task_upsert(&row);
            }
        }
    }

    /// Applies an entry of the subscription.
    pub fn apply(&mut self, cursor: Cursor, entry: &JournalEntry) {
        for delta in &entry.deltas {
            self.snapshot.apply(delta);
        }
        self.applied = cursor;
    }

    /// Returns true if it shows the cell as of one position: all parts are in, and so is every entry that some part
    /// already shows.
    pub fn is_whole(&self) -> bool {
        self.position == RowsPosition::Over && self.applied >= self.seen
    }

    /// The snapshot. Before it [is whole](SnapshotBuild::is_whole), it mixes rows of several positions.
    pub fn snapshot(self) -> Snapshot {
        self.snapshot
    }
}

/// The snapshot of a cell as its mirror shows it, for a state that nobody else waits for.
pub fn snapshot_of_mirror(state: &MirrorState, settings: CellSettings) -> Snapshot {
    let mut build = SnapshotBuild::begin(settings, state.cursor());
    while build.position() != RowsPosition::Over {
        build.add(state.rows_part(build.position(), RowsPosition::PART_ROWS));
    }
    build.snapshot()
}
