//! `job edit`: the stored job as a file in the user's editor, its plan, and the change after a yes.

use std::io::{IsTerminal as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::Command;

use borough_client::{Client, ClientError, ExpectedJob, JobRef};
use borough_proto::convert::job_spec_from_message;
use borough_proto::signal::signal_name;
use borough_proto::v1::{Job, JobSpec, JobState};
use tonic::Code as Status;

use super::file::spec_load;
use super::run::submit;
use crate::args::{EditArguments, FileArguments, Global};
use crate::command::confirm::{Intent, confirm};
use crate::connect;
use crate::exit::{Code, Failure};
use crate::jobfile::{job_text, overrides_gone};
use crate::output::{
    Foreign, PlanView, Preset, Printer, Style, changes_text, is_attended, spec_changes, word,
};

/// The editor of those who have named none, on a terminal.
const EDITOR_DEFAULT: &str = "vi";

pub(super) async fn edit(
    global: &Global,
    arguments: &EditArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    let client = connect::cell_client(global).await?;
    let job = arguments.target.resolve(client.user());
    let what = format!("apply this to job {job}");
    let intent = Intent::forget(&what);
    let stored = client.job_get(&job).await?;
    let row = stored.job.unwrap_or_default();
    running(&job, &row)?;
    intent.possible(global)?;
    let editor = editor_chosen(editor_named(), &job)?;
    let draft = Draft::new(&client, &job, &row, &stored.spec.unwrap_or_default(), editor)?;
    loop {
        draft.edit()?;
        if draft.is_unchanged()? {
            draft.remove();
            printer.remark(&format!("{job}: no change"));
            return Ok(Code::Done);
        }
        match draft.plan(global, &client, printer).await {
            Ok(Planned::Nothing) => {
                draft.remove();
                printer.remark(&format!("{job}: no change"));
                return Ok(Code::Done);
            }
            Ok(Planned::Change(spec)) => {
                confirm(global, &client, intent, printer).map_err(|no| draft.kept(no))?;
                let expected = ExpectedJob { id: row.id.clone(), revision: row.revision };
                let submitted = submit(&client, *spec, expected, printer).await;
                let path = draft.path.display().to_string();
                let submitted = submitted.map_err(|refused| {
                    let failure = refused.failure(&path);
                    if failure.dry_run().is_some() {
                        printer.remark(&format!(
                            "your text is kept in {path}; to apply it: borough job run {path}"
                        ));
                        return failure;
                    }
                    draft.kept(failure)
                })?;
                draft.remove();
                return submitted.wait(&client, arguments.wait.into(), printer).await;
            }
            Err(Unplanned::Mistake(failure)) if is_attended() => {
                printer.failure(&failure);
                if !printer.ask("edit it again?", Preset::Yes)? {
                    return Err(draft.kept(Failure::new(Code::Usage, format!("{job} was not changed"))));
                }
            }
            Err(Unplanned::Mistake(failure) | Unplanned::Other(failure)) => return Err(draft.kept(failure)),
        }
    }
}

/// Refuses a job that has nothing to change any more.
fn running(job: &JobRef, row: &Job) -> Result<(), Failure> {
    if matches!(row.state(), JobState::Waiting | JobState::Running) {
        return Ok(());
    }
    let state = word(row.state().as_str_name(), "JOB_STATE_");
    let message = format!("job {job} is {state}: only a job that runs or waits can be edited");
    Err(Failure::new(Code::Refused, message).with_hint("begin it again from its file: borough job run FILE"))
}

/// The outcome of a plan.
enum Planned {
    /// The file says what the cell has.
    Nothing,
    Change(Box<JobSpec>),
}

/// Why no plan was made.
enum Unplanned {
    /// The text can be corrected.
    Mistake(Failure),
    Other(Failure),
}

/// The text that is being edited, in a file of its own.
struct Draft<'d> {
    job: &'d JobRef,
    /// The revision that it began with, and the spec.
    revision: u64,
    stored: borough_model::JobSpec,
    text: String,
    path: PathBuf,
    editor: String,
}

impl<'d> Draft<'d> {
    /// Writes the stored job to a file that only the user can read.
    fn new(
        client: &Client,
        job: &'d JobRef,
        row: &Job,
        spec: &JobSpec,
        editor: String,
    ) -> Result<Self, Failure> {
        let failed =
            |why: String| Failure::new(Code::Failed, format!("cannot show job {job} as a file: {why}"));
        let mut spec = job_spec_from_message(spec).map_err(|refused| failed(refused.to_string()))?;
        // They would come back with a larger count, and go with this edit.
        let gone = overrides_gone(&mut spec);
        let file = job_text(&spec).map_err(|fields| {
            failed("no job file can say what these fields have".to_owned()).with_details(fields)
        })?;
        let text = format!(
            "# Job {job} in cell {}, revision {}. Its fields: borough job schema.\n\
             # The plan comes after this, and a question. An unchanged file changes nothing.\n{gone}{file}",
            client.cell(),
            row.revision
        );
        let file =
            tempfile::Builder::new().prefix(&format!("borough-{}-", job.name)).suffix(".yaml").tempfile();
        let written = file.and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.into_temp_path().keep().map_err(|error| error.error)
        });
        let path = written.map_err(|error| failed(error.to_string()))?;
        Ok(Self { job, revision: row.revision, stored: spec, text, path, editor })
    }

    /// Runs the editor until it ends. The shell splits its name, as `EDITOR="code --wait"` needs.
    fn edit(&self) -> Result<(), Failure> {
        let line = format!("{} \"$1\"", self.editor);
        let ran = Command::new("sh").args(["-c", &line, "sh"]).arg(&self.path).status();
        let why = match ran {
            Ok(status) if status.success() => return Ok(()),
            // The shell's code for a program that it does not find. The shell itself says nothing of use.
            Ok(status) if status.code() == Some(127) => "no such program".to_owned(),
            Ok(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("exit code {code}"),
                (None, Some(signal)) => signal_name(signal),
                (None, None) => "it did not end".to_owned(),
            },
            Err(error) => error.to_string(),
        };
        let message = format!("the editor {:?} failed ({why}); {} was not changed", self.editor, self.job);
        let failure = Failure::new(Code::Failed, message).with_hint("name another in VISUAL or EDITOR");
        if self.is_unchanged().unwrap_or(false) {
            self.remove();
            return Err(failure);
        }
        Err(self.kept(failure))
    }

    fn is_unchanged(&self) -> Result<bool, Failure> {
        let failed =
            |error| Failure::new(Code::Failed, format!("cannot read {} again: {error}", self.path.display()));
        // What is no file any more is refused as a job file. To read a FIFO would take for ever.
        let is_file = std::fs::metadata(&self.path).map_err(failed)?.is_file();
        Ok(is_file && std::fs::read(&self.path).map_err(failed)? == self.text.as_bytes())
    }

    /// Reads the text and shows the effects that it would have.
    async fn plan(&self, global: &Global, client: &Client, printer: &Printer) -> Result<Planned, Unplanned> {
        let file = FileArguments { file: self.path.clone(), ext_str: Vec::new(), tla_str: Vec::new() };
        let spec = spec_load(global, &file, printer).await.map_err(Unplanned::Mistake)?;
        self.same_job(&spec).map_err(Unplanned::Mistake)?;
        let answer = client.job_plan(spec.clone()).await.map_err(|error| match &error {
            ClientError::Refused(refusal) if refusal.code == Status::InvalidArgument => {
                Unplanned::Mistake(error.into())
            }
            // For a plan this is an answer like others; here nothing can be applied.
            ClientError::Refused(refusal) if refusal.reason == "ACCESS_REFUSED" => {
                Unplanned::Other(Failure::new(Code::NotAllowed, refusal.to_string()))
            }
            _ => Unplanned::Other(error.into()),
        })?;
        // A step of a rollout changes the revision as well, and is nobody's change.
        let is_unchanged = match answer.changed_revision {
            0 => answer.revision == self.revision,
            changed => changed <= self.revision,
        };
        if answer.revision == 0 || !is_unchanged {
            return Err(Unplanned::Other(self.changed_meanwhile(client, answer.revision).await));
        }
        if !answer.changed {
            return Ok(Planned::Nothing);
        }
        let mut view = PlanView::new(&spec, client.cell(), answer);
        // The failure says it.
        let refusal = view.refusal.take();
        if printer.is_machine() {
            printer.remark(view.text(&Style::default()).trim_end());
        } else {
            printer.one(&view, PlanView::text).map_err(Unplanned::Other)?;
        }
        match refusal {
            None => Ok(Planned::Change(Box::new(spec))),
            Some(refusal) => {
                let message = format!("the gateway would refuse it: {refusal}");
                Err(Unplanned::Mistake(Failure::new(Code::Refused, message)))
            }
        }
    }

    /// Refuses another name: that would be another job.
    fn same_job(&self, spec: &JobSpec) -> Result<(), Failure> {
        let fields = [("user", &spec.user, &self.job.user), ("name", &spec.name, &self.job.name)];
        let other = fields.into_iter().find(|(_, written, own)| written != own);
        let Some((field, written, own)) = other else { return Ok(()) };
        let path = self.path.display();
        let message = format!("{path}: {field}: {written}; accepted: {own}, the {field} of the edited job");
        Err(Failure::new(Code::Usage, message))
    }

    /// Refuses a change of a job that somebody else has changed meanwhile, and shows that change.
    async fn changed_meanwhile(&self, client: &Client, revision: u64) -> Failure {
        let Self { job, revision: own, stored, .. } = self;
        let now = match revision {
            0 => "has ended".to_owned(),
            revision => format!("is at revision {revision}"),
        };
        let answer = client.job_get(job).await.unwrap_or_default();
        let by = answer.job.map(|row| Foreign::from(row.changed_by)).filter(|by| !by.is_empty());
        let by = by.map(|by| format!(", last by {by}")).unwrap_or_default();
        let message = format!("job {job} {now}: it has changed since the editor showed revision {own}{by}");
        let spec = answer.spec.and_then(|spec| job_spec_from_message(&spec).ok());
        let changes = spec.map(|spec| spec_changes(stored, &spec)).unwrap_or_default();
        let lines = changes_text(&changes, &Style::default());
        Failure::new(Code::Refused, message).with_details(lines.lines().map(str::to_owned).collect())
    }

    /// The failure, with the place of the text.
    fn kept(&self, failure: Failure) -> Failure {
        let path = self.path.display();
        // After a refusal the cell is not as the text expects it.
        let verb = if failure.code() == Code::Refused { "plan" } else { "run" };
        failure.with_hint(format!("your text is kept in {path}; to go on from it: borough job {verb} {path}"))
    }

    fn remove(&self) {
        // The file is in the directory for temporary ones: what is left there harms nobody.
        let _removed = std::fs::remove_file(&self.path);
    }
}

/// `$VISUAL`, or `$EDITOR`.
fn editor_named() -> Option<String> {
    let named = ["VISUAL", "EDITOR"].into_iter().filter_map(|name| std::env::var(name).ok());
    named.map(|editor| editor.trim().to_owned()).find(|editor| !editor.is_empty())
}

/// The named editor. The one that nobody has named needs a terminal: a script would wait for it for ever.
fn editor_chosen(named: Option<String>, job: &JobRef) -> Result<String, Failure> {
    match named {
        Some(editor) => Ok(editor),
        None if is_attended() && std::io::stdout().is_terminal() => Ok(EDITOR_DEFAULT.to_owned()),
        None => {
            let message =
                format!("cannot edit job {job}: no terminal, and neither VISUAL nor EDITOR names an editor");
            let hint = format!(
                "change it from a file: borough job run FILE; or by a command: EDITOR='sed -i s/v1/v2/' \
                 borough job edit {job} --yes"
            );
            Err(Failure::new(Code::Usage, message).with_hint(hint))
        }
    }
}
