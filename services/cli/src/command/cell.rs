//! `cell list` and `cell status`.

use crate::args::{CellVerb, Global};
use crate::connect;
use crate::exit::{Code, Failure};
use crate::output::{CellView, Printer};

pub(super) async fn run(global: &Global, verb: CellVerb, printer: &Printer) -> Result<Code, Failure> {
    match verb {
        CellVerb::List => {
            let cells = connect::client(global)?.cell_list().await?;
            let views: Vec<CellView> = cells.into_iter().map(CellView::from).collect();
            printer.list(&views)?;
        }
        CellVerb::Status { name } => {
            let client = match name {
                Some(name) => connect::client(global)?.with_cell(name),
                None => connect::cell_client(global)?,
            };
            let (cell, _) = client.cell_get().await?;
            printer.one(&CellView::from(cell), CellView::text)?;
        }
    }
    Ok(Code::Done)
}
