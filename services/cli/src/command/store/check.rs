//! `store check`: recomputes what the rows imply, and compares it with what is stored.

use borough_kv::Idempotency;
use borough_model::Name;
use borough_store::cell::{CellState, cell_list};
use borough_store::check::{
    CellRows, CheckMode, LOAD_CHUNK_ROWS, Violation, cell_rows_load, cell_violations,
};
use borough_store::{CellSpace, Cursor, StoreError};

use super::{OpenedStore, cell_of, load_shown, opened, store_failure};
use crate::args::{Global, StoreCheckArguments};
use crate::exit::{Code, Failure};
use crate::output::{CellCheckView, Printer, Progress, StoreCheckView, ViolationView};
use crate::role::store::StoreMissing;

pub(super) async fn run(
    global: &Global,
    arguments: &StoreCheckArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    let named = cell_of(global)?;
    let opened = opened(&arguments.store, StoreMissing::Refuse)?;
    let outcome = stores_check(&opened, named, arguments, printer).await;
    opened.store.close().await;
    let view = outcome?;
    let wrong = view.violations > 0;
    printer.one(&view, StoreCheckView::text)?;
    Ok(if wrong { Code::Failed } else { Code::Done })
}

/// Where the name of a checked cell comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CellSource {
    /// From `--cell`.
    Named,
    /// From the store's list of cells.
    Listed,
}

async fn stores_check(
    opened: &OpenedStore,
    named: Option<Name>,
    arguments: &StoreCheckArguments,
    printer: &Printer,
) -> Result<StoreCheckView, Failure> {
    let (cells, source) = match named {
        Some(cell) => (vec![cell], CellSource::Named),
        None => {
            let list = opened
                .db
                .run("cell_list", Idempotency::ReadOnly, |tx, _| async move { cell_list(&tx).await });
            let cells = list.await.map_err(|error| store_failure("cannot read the store", &error))?;
            (cells, CellSource::Listed)
        }
    };
    let mode = if arguments.settled { CheckMode::Settled } else { CheckMode::Always };
    let mut progress = Progress::new(printer);
    let mut views = Vec::new();
    for cell in cells {
        let space = CellSpace::new(cell.clone());
        let shown = load_shown(&cell, &mut progress);
        views.push(match cell_rows_load(&opened.db, &space, LOAD_CHUNK_ROWS, shown).await {
            Ok((rows, at)) => cell_view(&cell, &rows, Some(at), mode, source)?,
            // Keys of a cell without its gate: an unknown cell if it was named, a violation if it was listed.
            Err(StoreError::CellUnknown { .. }) if source == CellSource::Listed => {
                cell_view(&cell, &CellRows::default(), None, mode, source)?
            }
            Err(error) => return Err(store_failure(&format!("cannot check cell {cell}"), &error)),
        });
    }
    Ok(StoreCheckView::new(arguments.store.store.to_string(), views))
}

fn cell_view(
    cell: &Name,
    rows: &CellRows,
    at: Option<Cursor>,
    mode: CheckMode,
    source: CellSource,
) -> Result<CellCheckView, Failure> {
    let state = rows.gate.as_ref().map(|gate| gate.state);
    let importing = state == Some(CellState::Importing);
    if importing && source == CellSource::Named {
        let closed = StoreError::CellClosed { cell: cell.to_string(), state: CellState::Importing.as_str() };
        return Err(store_failure(&format!("cannot check cell {cell}"), &closed));
    }
    // A half-imported cell lacks rows, which is no violation.
    let violations: Vec<Violation> = if importing { Vec::new() } else { cell_violations(rows, mode) };
    Ok(CellCheckView {
        cell: cell.as_str().into(),
        state: state.map_or_else(String::new, |state| state.as_str().to_owned()),
        at: at.map(|at| at.to_string()),
        nodes: rows.nodes.len(),
        jobs: rows.jobs.len(),
        tasks: rows.tasks.len(),
        endpoints: rows.endpoints.len(),
        requests: rows.requests.len(),
        violations: violations.into_iter().map(ViolationView::from).collect(),
    })
}
