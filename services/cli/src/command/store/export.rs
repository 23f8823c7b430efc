//! `store export`: writes a cell into a file, which gets its name only when it is complete.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use borough_kv::Idempotency;
use borough_model::Name;
use borough_store::cell::{CellState, cell_gate_read, cell_gate_set};
use borough_store::check::{CheckMode, LOAD_CHUNK_ROWS, cell_violations};
use borough_store::transfer::{ExportEnd, ExportHeader, ExportSummary, cell_export, rows_export};
use borough_store::{CellSpace, StoreError, StoreResult};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::{OpenedStore, cell_of, load_shown, opened, store_failure};
use crate::args::{Global, StoreExportArguments};
use crate::exit::{Code, Failure};
use crate::output::{Printer, Progress, StoreExportView};
use crate::role::store::StoreMissing;

pub(super) async fn run(
    global: &Global,
    arguments: &StoreExportArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    let cell = cell_of(global)?;
    let cell = cell.ok_or_else(|| Failure::new(Code::Usage, "name the cell to export with --cell"))?;
    let existing = if arguments.overwrite { ExistingFile::Replace } else { ExistingFile::Refuse };
    let to = ExportTarget::new(&arguments.to, existing)?;
    let opened = opened(&arguments.store, StoreMissing::Refuse)?;
    let outcome = export(&opened, &cell, arguments, &to, printer).await;
    opened.store.close().await;
    let view = outcome?;
    match &to {
        ExportTarget::File { .. } => printer.one(&view, StoreExportView::text)?,
        // The file itself is the answer.
        ExportTarget::Output => printer.remark(&view.text(&crate::output::Style::default())),
    }
    Ok(Code::Done)
}

async fn export(
    opened: &OpenedStore,
    cell: &Name,
    arguments: &StoreExportArguments,
    to: &ExportTarget,
    printer: &Printer,
) -> Result<StoreExportView, Failure> {
    let space = CellSpace::new(cell.clone());
    let failed = |error: StoreError| store_failure(&format!("cannot export cell {cell}"), &error);
    let after = if arguments.close { AfterExport::Closed } else { AfterExport::Unchanged };
    let state = cell_state(opened, &space, after).await.map_err(failed)?;
    let mut progress = Progress::new(printer);
    let shown = load_shown(cell, &mut progress);
    let exported = cell_export(&opened.db, &space, LOAD_CHUNK_ROWS, shown).await.map_err(failed)?;
    progress.show(&format!("{cell}: writing"));
    let header = ExportHeader {
        id: id_new(opened),
        cell: cell.clone(),
        at: exported.at,
        state,
        exported_ms: opened.clock.wall_ms(),
        program: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let (end, file_bytes) = to
        .write(&exported, &header)
        .map_err(|error| Failure::new(Code::Failed, format!("cannot write {}: {error}", to.name())))?;
    Ok(StoreExportView {
        cell: cell.as_str().into(),
        store: arguments.store.store.to_string(),
        file: to.name(),
        export: header.id.iter().map(|byte| format!("{byte:02x}")).collect(),
        at: exported.at.to_string(),
        rows: end.rows,
        blocks: end.blocks,
        file_bytes,
        violations: cell_violations(&exported.rows, CheckMode::Always).len(),
    })
}

/// What an export does to its cell.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AfterExport {
    Unchanged,
    /// The cell accepts nothing from the begin of the export on.
    Closed,
}

/// The state of the cell before its export. Closes it first if `after` says so.
async fn cell_state(opened: &OpenedStore, space: &CellSpace, after: AfterExport) -> StoreResult<CellState> {
    let at_ms = opened.clock.wall_ms();
    let run = opened.db.run("cell_export_close", Idempotency::Natural, |tx, _| async move {
        let before = cell_gate_read(&tx, space).await?;
        if after == AfterExport::Closed && before.state != CellState::Importing {
            cell_gate_set(&tx, space, CellState::Moved, at_ms).await?;
        }
        Ok::<_, StoreError>(before.state)
    });
    run.await
}

fn id_new(opened: &OpenedStore) -> [u8; 16] {
    let (high, low) = (opened.rng.next_u64(), opened.rng.next_u64());
    (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
}

/// What to do if the file of an export exists.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExistingFile {
    Refuse,
    Replace,
}

/// The target of the export.
enum ExportTarget {
    Output,
    File { file: PathBuf, partial: PathBuf, existing: ExistingFile },
}

impl ExportTarget {
    fn new(to: &Path, existing: ExistingFile) -> Result<Self, Failure> {
        if to == Path::new("-") {
            return Ok(Self::Output);
        }
        // Checks the name itself: a dangling link counts as existing.
        match std::fs::symlink_metadata(to) {
            Ok(found) if found.is_dir() => {
                let text = format!("{} is a directory", to.display());
                return Err(Failure::new(Code::Refused, text).with_hint("give the name of a file in it"));
            }
            Ok(_) if existing == ExistingFile::Refuse => {
                let text = format!("{} is there already", to.display());
                let hint = "give another file, or --overwrite to replace this one";
                return Err(Failure::new(Code::Refused, text).with_hint(hint));
            }
            _ => {}
        }
        let mut partial = to.as_os_str().to_owned();
        partial.push(".partial");
        Ok(Self::File { file: to.to_owned(), partial: partial.into(), existing })
    }

    fn name(&self) -> String {
        match self {
            Self::Output => "-".to_owned(),
            Self::File { file, .. } => file.display().to_string(),
        }
    }

    /// Writes everything. A file gets its name after it is durable.
    fn write(&self, exported: &ExportSummary, header: &ExportHeader) -> io::Result<(ExportEnd, u64)> {
        match self {
            Self::Output => {
                let out = CountingWriter { out: BufWriter::new(io::stdout().lock()), bytes: 0 };
                let (out, end) = rows_export(&exported.rows, header, out)?;
                Ok((end, out.bytes))
            }
            Self::File { file, partial, existing } => {
                let out = CountingWriter { out: BufWriter::new(private_create(partial)?), bytes: 0 };
                let (out, end) = rows_export(&exported.rows, header, out)?;
                out.out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
                publish(partial, file, *existing)?;
                let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
                File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()?;
                Ok((end, out.bytes))
            }
        }
    }
}

/// Makes a file for its owner alone, and replaces what an interrupted export left. Never follows a link.
fn private_create(path: &Path) -> io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Renames a complete file to its name. Fails if the name was taken in the meantime and must not be replaced.
fn publish(partial: &Path, file: &Path, existing: ExistingFile) -> io::Result<()> {
    if existing == ExistingFile::Replace {
        return std::fs::rename(partial, file);
    }
    let flags = RenameFlags::NOREPLACE;
    match renameat_with(CWD, partial, CWD, file, flags) {
        // A file system without the flag: a hard link replaces nothing either.
        Err(Errno::INVAL | Errno::NOSYS) => {
            std::fs::hard_link(partial, file)?;
            std::fs::remove_file(partial)
        }
        result => Ok(result?),
    }
}

/// Counts the written bytes.
struct CountingWriter<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> Write for CountingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes = self.bytes.saturating_add(u64::try_from(written).unwrap_or(u64::MAX));
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// The mode does not depend on the file mode mask of the process, which is only the second guard.
    #[test]
    fn an_export_is_made_for_its_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cell.partial");
        let left = OpenOptions::new().write(true).create_new(true).mode(0o666).open(&path).unwrap();
        left.set_permissions(std::fs::Permissions::from_mode(0o666)).unwrap();
        let made = private_create(&path).unwrap();
        assert_eq!(made.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}
