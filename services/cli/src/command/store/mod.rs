//! `store check`, `export`, `import`, `accept-loss`, `bench`: verbs on a store itself, without a gateway.

mod bench;
mod check;
mod export;
mod import;

use std::sync::Arc;

use borough_kv::env::{Clock, Rng, SystemClock, SystemRng};
use borough_kv::{Database, ErrorCode, Retryable};
use borough_model::Name;
use borough_store::check::LoadProgress;
use borough_store::{StoreError, error_chain};

use crate::args::{Global, StoreAcceptLossArguments, StoreArgument, StoreLocation, StoreVerb};
use crate::command::confirm::Intent;
use crate::exit::{Code, Failure};
use crate::output::{Preset, Printer, Progress, StoreLossView};
use crate::role::files_private;
use crate::role::store::{RoleStore, StoreMissing, StoreWanted, store_accept_loss, store_loss, store_open};

/// Rows and entries between two lines of progress.
const SHOWN_ROWS: u64 = 50_000;

pub(super) async fn run(global: &Global, verb: StoreVerb, printer: &Printer) -> Result<Code, Failure> {
    files_private();
    match verb {
        StoreVerb::Check(arguments) => check::run(global, &arguments, printer).await,
        StoreVerb::Export(arguments) => export::run(global, &arguments, printer).await,
        StoreVerb::Import(arguments) => import::run(global, &arguments, printer).await,
        StoreVerb::AcceptLoss(arguments) => loss_accept(global, &arguments, printer).await,
        StoreVerb::Bench(arguments) => bench::run(&arguments, printer).await,
    }
}

/// Opens a store with the rest of its log, if that has lost commits.
async fn loss_accept(
    global: &Global,
    arguments: &StoreAcceptLossArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    let location = &arguments.store.store;
    let StoreLocation::Embedded(directory) = location else {
        let text = format!("{location} is no embedded store, so it has no log that could be cut short");
        return Err(Failure::new(Code::Usage, text));
    };
    let rng = SystemRng::shared();
    let clock = SystemClock::shared();
    let lost = store_loss(directory, &clock, &rng).await?;
    if let Some(lost) = &lost {
        loss_confirm(global, location, lost, printer)?;
        store_accept_loss(directory, &clock, &rng).await?;
    }
    let view = StoreLossView { store: location.to_string(), accepted: lost.is_some(), lost };
    printer.one(&view, StoreLossView::text)?;
    Ok(Code::Done)
}

/// Asks whether to give commits up: nobody can take that back.
fn loss_confirm(
    global: &Global,
    location: &StoreLocation,
    lost: &str,
    printer: &Printer,
) -> Result<(), Failure> {
    let what = format!("give up for good what store {location} has lost ({lost})");
    Intent::forget(&what).possible(global)?;
    if global.yes || printer.ask(&format!("{what}?"), Preset::No)? {
        return Ok(());
    }
    let hint = "answer y to make the change, or give --yes";
    Err(Failure::new(Code::Failed, "not confirmed; nothing was changed").with_hint(hint))
}

/// An open store, with what verbs need besides.
struct OpenedStore {
    store: RoleStore,
    db: Database,
    clock: Arc<dyn Clock>,
    rng: Arc<dyn Rng>,
}

fn opened(argument: &StoreArgument, missing: StoreMissing) -> Result<OpenedStore, Failure> {
    let clock = SystemClock::shared();
    let rng = SystemRng::shared();
    let wanted = StoreWanted { location: &argument.store, missing, memory: None };
    let store = store_open(wanted, &clock, &rng)?;
    let db = Database::new(store.engine());
    Ok(OpenedStore { store, db, clock, rng })
}

/// Shows the progress of reading a cell at intervals. Without a terminal each is a line.
fn load_shown<'a>(cell: &'a Name, progress: &'a mut Progress<'_>) -> impl FnMut(LoadProgress) + 'a {
    let mut shown = 0_u64;
    move |load| {
        let done = load.rows.saturating_add(load.entries);
        if done >= shown.saturating_add(SHOWN_ROWS) {
            shown = done;
            progress.show(&format!("{cell}: {} rows, {} journal entries", load.rows, load.entries));
        }
    }
}

/// The cell that the options name.
fn cell_of(global: &Global) -> Result<Option<Name>, Failure> {
    let Some(text) = &global.cell else { return Ok(None) };
    let name = Name::new(text.as_str());
    name.map(Some)
        .map_err(|error| Failure::new(Code::Usage, format!("the name of the cell, {text:?}, {error}")))
}

/// A failure of the store, with the exit code of its kind.
fn store_failure(what: &str, error: &StoreError) -> Failure {
    let message = format!("{what}: {}", error_chain(error));
    match error {
        StoreError::CellUnknown { .. } | StoreError::NotFound { .. } => Failure::new(Code::NotFound, message),
        StoreError::AlreadyExists { .. } | StoreError::Refused { .. } => Failure::new(Code::Refused, message),
        StoreError::CellClosed { .. } => Failure::new(Code::Refused, message)
            .with_hint("finish its import first: repeat `borough store import` with the same file"),
        StoreError::JournalTrimmed { .. } => Failure::new(Code::Failed, message)
            .with_hint("the journal is trimmed faster than the cell is read: repeat it at a quieter time"),
        _ => match error.kv_error().map(|error| error.code) {
            Some(ErrorCode::TransactionTimedOut) => Failure::new(Code::Unreachable, message)
                .with_hint("the store did not answer in time: is the cluster up, and reachable from here?"),
            _ => Failure::new(Code::Failed, message),
        },
    }
}
