//! `store import`: verifies the whole file before it stores anything, and again while it stores it.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use borough_kv::Idempotency;
use borough_store::transfer::{
    ExportEnd, ExportFileError, ExportHeader, ExportReader, ImportBegun, ImportError, Imported, ReplaceCell,
    cell_import_begin, cell_import_run, file_verify,
};
use borough_store::{CellSpace, error_chain};

use super::{OpenedStore, cell_of, opened, store_failure};
use crate::args::{Global, StoreImportArguments};
use crate::exit::{Code, Failure};
use crate::output::{Printer, Progress, StoreImportView};
use crate::role::store::StoreMissing;

/// Lines of progress of a whole import without a terminal.
const SHOWN_STEPS: u64 = 50;

pub(super) async fn run(
    global: &Global,
    arguments: &StoreImportArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    let named = cell_of(global)?;
    let from = &arguments.from;
    let (header, end) = file_verify(file_open(from)?).map_err(|error| file_failure(from, &error))?;
    let space = CellSpace::new(named.unwrap_or_else(|| header.cell.clone()));
    let opened = opened(&arguments.store, StoreMissing::Create)?;
    let outcome = import(&opened, &space, &header, &end, arguments, printer).await;
    opened.store.close().await;
    printer.one(&outcome?, StoreImportView::text)?;
    Ok(Code::Done)
}

async fn import(
    opened: &OpenedStore,
    space: &CellSpace,
    header: &ExportHeader,
    end: &ExportEnd,
    arguments: &StoreImportArguments,
    printer: &Printer,
) -> Result<StoreImportView, Failure> {
    let at_ms = opened.clock.wall_ms();
    let failed = |error| store_failure(&format!("cannot import cell {space}"), &error);
    let replace = if arguments.replace { ReplaceCell::Closed } else { ReplaceCell::Never };
    let begin = opened.db.run("cell_import_begin", Idempotency::Natural, |tx, _| async move {
        cell_import_begin(&tx, space, header, replace, at_ms).await
    });
    let mut progress = Progress::new(printer);
    match begin.await.map_err(failed)? {
        ImportBegun::Fresh => {}
        ImportBegun::Resumed(row) => {
            progress.remark(&format!("going on after {} of {} blocks", row.blocks, end.blocks));
        }
        ImportBegun::Done => progress.remark(&format!("this export has already made cell {space}")),
    }
    let mut reader = ExportReader::begin(file_open(&arguments.from)?)
        .map_err(|error| file_failure(&arguments.from, &error))?;
    if reader.header() != header {
        return Err(Failure::new(
            Code::Refused,
            format!("{} has changed meanwhile", arguments.from.display()),
        ));
    }
    let step = end.blocks.div_ceil(SHOWN_STEPS).max(1);
    let shown = |blocks: u64| {
        if blocks.is_multiple_of(step) {
            progress.step(&format!("{space}: {blocks} of {} blocks", end.blocks));
        }
    };
    let run = cell_import_run(&opened.db, space, &mut reader, at_ms, shown).await;
    let Imported { gate, rows, blocks_stored } = run.map_err(|error| match error {
        ImportError::File(error) => file_failure(&arguments.from, &error),
        ImportError::Store(error) => failed(error),
    })?;
    Ok(StoreImportView {
        cell: space.to_string().into(),
        store: arguments.store.store.to_string(),
        state: gate.state.as_str().to_owned(),
        store_epoch: gate.store_epoch,
        exported_cell: header.cell.as_str().into(),
        exported_at: header.at.to_string(),
        exported_ms: header.exported_ms,
        rows,
        blocks: end.blocks,
        blocks_before: end.blocks.saturating_sub(blocks_stored),
    })
}

fn file_open(from: &Path) -> Result<BufReader<File>, Failure> {
    let file = File::open(from).map(BufReader::new);
    file.map_err(|error| Failure::new(Code::Usage, format!("cannot read {}: {error}", from.display())))
}

fn file_failure(from: &Path, error: &ExportFileError) -> Failure {
    let failure = Failure::new(Code::Usage, format!("{}: {}", from.display(), error_chain(error)));
    match error {
        ExportFileError::NotExport => failure.with_hint("give a file that `borough store export` wrote"),
        ExportFileError::Newer { .. } => failure.with_hint("nothing was changed; use the newer program"),
        ExportFileError::Truncated { .. } | ExportFileError::Altered { .. } | ExportFileError::Row { .. } => {
            failure.with_hint("no cell was opened with it; copy or export it again, then repeat the import")
        }
        ExportFileError::Io(_) => failure,
    }
}
