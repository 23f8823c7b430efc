//! `job plan`: what `job run` would do, before anything happens.

use borough_proto::convert::job_spec_to_message;

use crate::args::{FileArguments, Global};
use crate::connect;
use crate::exit::{Code, Failure};
use crate::jobfile::path_shown;
use crate::output::{PlanView, Printer};

use super::file::{file_load, refusal_placed};
use super::run::run_in_place;

pub(super) async fn plan(
    global: &Global,
    arguments: &FileArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    let loaded = file_load(global, arguments, printer).await?;
    let spec = job_spec_to_message(&loaded.spec);
    let client = connect::cell_client(global).await?;
    let planned = client.job_plan(spec.clone()).await.map_err(Failure::from);
    let answer = planned.map_err(|failure| refusal_placed(failure, &arguments.file, &loaded))?;
    let view = PlanView::new(&spec, client.cell(), answer);
    printer.one(&view, PlanView::text)?;
    if view.changed && view.refusal.is_none() {
        let file = arguments.words();
        let check = match (view.revision, &view.id) {
            (0, _) => String::new(),
            (revision, Some(id)) => format!(" --check-revision {id}@{revision}"),
            // An older gateway.
            (revision, None) => format!(" --check-revision {revision}"),
        };
        printer.remark(&format!("to do exactly this: borough job run{check} {file}"));
    }
    // Another job of the name takes what a running one keeps. It gets no more quota, and no cell opens for it.
    if let Some(field) = view.kept_field().filter(|_| view.refusal.is_some()) {
        let job = format!("{}/{}", view.user, view.name);
        let place = loaded.place_shown(&arguments.file, &field);
        let way = run_in_place(&job, &path_shown(&arguments.file));
        printer.remark(&format!("{place}: a running job keeps its {field}; {way}"));
    }
    if view.refusal.is_some() {
        return Ok(Code::WouldBeRefused);
    }
    Ok(if view.changed { Code::Changed } else { Code::Done })
}
