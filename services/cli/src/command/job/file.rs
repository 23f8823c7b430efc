//! `job init`, `job schema` and `job validate`, and how every verb reads a job file.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use borough_model::Name;
use borough_model::federation::federated_file_schema;
use borough_proto::convert::job_spec_to_message;
use borough_proto::v1::{self, JobKind};

use crate::args::{FileArguments, Global};
use crate::connect;
use crate::exit::{Code, Failure};
use crate::jobfile::{
    EmptyContent, JobFileError, LoadOptions, LoadedFile, StarterKind, file_named, load, path_shown, starter,
    starter_json, starter_of,
};
use crate::output::{Printer, SpecView, tally};

/// Writes the file, or with `-` its text to standard output.
pub(super) fn init(path: &Path, kind: Option<StarterKind>, printer: &Printer) -> Result<Code, Failure> {
    let text = kind.map_or_else(starter, |kind| starter_of(kind).to_owned());
    if path == Path::new("-") {
        printer.text(&text)?;
        return Ok(Code::Done);
    }
    let extension = path.extension().and_then(|extension| extension.to_str());
    let text = match extension {
        Some("yaml" | "yml") => text,
        // Without comments: JSON has none, and a job file in JSON is one in Jsonnet too.
        Some("json" | "jsonnet") => starter_json(&text).map_err(|error| Failure::new(Code::Failed, error))?,
        _ => {
            let message = format!("{} ends in none of .yaml, .yml, .json and .jsonnet", path_shown(path));
            return Err(Failure::new(Code::Usage, message).with_hint("to see it only: borough job init -"));
        }
    };
    let written = std::fs::File::create_new(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Failure::new(Code::Refused, format!("{} exists already", path_shown(path)))
                .with_hint("name another file, which is not there yet")
        }
        _ => Failure::new(Code::Failed, format!("cannot write {}: {error}", path_shown(path))),
    })?;
    printer.remark(&format!("wrote {0}; run it with: borough job run {0}", path_shown(path)));
    Ok(Code::Done)
}

pub(super) fn schema(printer: &Printer) -> Result<Code, Failure> {
    printer.text(&format!("{:#}\n", federated_file_schema()))?;
    Ok(Code::Done)
}

pub(super) async fn validate(
    global: &Global,
    arguments: &FileArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    let loaded = file_load_for("validate", global, arguments, printer).await?;
    let spec = job_spec_to_message(&loaded.spec);
    printer.one(&SpecView::new(Some(&spec)), |_, _| {
        let tasks = match spec.kind() {
            JobKind::Daemon => "a task on each node that matches".to_owned(),
            JobKind::AllocSet => tally(usize::try_from(spec.count).unwrap_or(usize::MAX), "alloc"),
            _ => tally(usize::try_from(spec.count).unwrap_or(usize::MAX), "task"),
        };
        format!("{}: fine: {}/{} with {tasks}", file_named(&arguments.file), spec.user, spec.name)
    })?;
    Ok(Code::Done)
}

/// What a job file is read with.
pub(in crate::command) fn load_options(
    global: &Global,
    arguments: &FileArguments,
) -> Result<LoadOptions, Failure> {
    let caller = Name::new(connect::caller(global)?)
        .map_err(|error| Failure::new(Code::Usage, format!("the user's name {error}")))?;
    let evaluator = std::env::current_exe()
        .map_err(|error| Failure::new(Code::Failed, format!("cannot find this program: {error}")))?;
    Ok(LoadOptions {
        caller,
        ext_str: arguments.ext_str.clone(),
        tla_str: arguments.tla_str.clone(),
        evaluator,
    })
}

/// Reads a job file and warns of surprises in it.
pub(super) async fn file_load(
    global: &Global,
    arguments: &FileArguments,
    printer: &Printer,
) -> Result<LoadedFile, Failure> {
    file_load_for("run", global, arguments, printer).await
}

/// The same for a verb, which a federated job has too.
async fn file_load_for(
    verb: &str,
    global: &Global,
    arguments: &FileArguments,
    printer: &Printer,
) -> Result<LoadedFile, Failure> {
    let options = load_options(global, arguments)?;
    let loaded = load(&arguments.file, &options).await;
    let loaded = loaded.map_err(|error| named_in(refused(&arguments.file, &error), verb, arguments))?;
    for note in &loaded.notes {
        printer.remark(&format!("note: {note}"));
    }
    user_warn(global, loaded.spec.user.as_str(), printer);
    Ok(loaded)
}

/// What the message of a file with a `federation` part names.
const FEDERATED_COMMAND: &str = "borough federation job run FILE";

/// A failure that names the verb on federated jobs, with this file.
fn named_in(failure: Failure, verb: &str, arguments: &FileArguments) -> Failure {
    let own = format!("borough federation job {verb} {}", arguments.words());
    failure.with_lines(|line| line.contains(FEDERATED_COMMAND).then(|| line.replace(FEDERATED_COMMAND, &own)))
}

/// Says that the user of a job file counts, if the options name another one.
pub(in crate::command) fn user_warn(global: &Global, owner: &str, printer: &Printer) {
    if let Some(text) = global.user.as_deref().and_then(|user| user_text(user, owner)) {
        printer.remark(&text);
    }
}

fn user_text(user: &str, owner: &str) -> Option<String> {
    (user != owner).then(|| format!("note: the job is of user {owner}, as its file says, and not of {user}"))
}

/// The message of a valid job file.
pub(super) async fn spec_load(
    global: &Global,
    arguments: &FileArguments,
    printer: &Printer,
) -> Result<v1::JobSpec, Failure> {
    Ok(job_spec_to_message(&file_load(global, arguments, printer).await?.spec))
}

/// A refusal by a gateway, with the places of the fields in the job file.
pub(super) fn refusal_placed(failure: Failure, file: &Path, loaded: &LoadedFile) -> Failure {
    failure.with_lines(|line| loaded.line_placed(file, line))
}

/// What stands where a job file was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    Missing,
    Empty,
    /// Comments, which nobody should lose.
    Commented,
}

/// The command that writes a file to start from, in the place of an empty or missing one.
fn start_hint(path: &Path, start: Start) -> String {
    let shown = path.to_string_lossy();
    let is_yaml = shown.ends_with(".yaml") || shown.ends_with(".yml");
    let is_plain = shown.chars().all(|each| each.is_ascii_alphanumeric() || "-_./".contains(each));
    match start {
        Start::Missing if is_yaml && is_plain => {
            format!("to start from an example: borough job init {shown}")
        }
        Start::Empty if is_yaml && is_plain => {
            format!("to start from an example: borough job init - > {shown}")
        }
        _ => "to see an example: borough job init -".to_owned(),
    }
}

/// The job file beside a missing one that has its name with another ending.
fn file_meant(path: &Path) -> Option<PathBuf> {
    let others = ["yaml", "yml", "json", "jsonnet"].map(|ending| path.with_extension(ending));
    others.into_iter().find(|other| other.is_file())
}

pub(in crate::command) fn refused(path: &Path, error: &JobFileError) -> Failure {
    if let JobFileError::Empty { content, .. } = error {
        let start = match content {
            EmptyContent::Nothing => Start::Empty,
            EmptyContent::Comments => Start::Commented,
        };
        return Failure::new(Code::Usage, error.to_string()).with_hint(start_hint(path, start));
    }
    if let JobFileError::Read { source, .. } = error
        && source.kind() == std::io::ErrorKind::NotFound
    {
        let lines = error.lines().join("; ");
        return match file_meant(path) {
            Some(near) => {
                let near = near.to_string_lossy();
                Failure::new(Code::Usage, format!("{lines}, did you mean {near:?}?"))
            }
            None => Failure::new(Code::Usage, lines).with_hint(start_hint(path, Start::Missing)),
        };
    }
    let lines = error.lines();
    match lines.as_slice() {
        [line] => Failure::new(Code::Usage, line.clone()),
        _ => {
            let found = tally(lines.len(), "problem");
            Failure::new(Code::Usage, format!("{}: {found}", file_named(path))).with_details(lines)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_another_ending_is_meant() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("web.yml");
        assert_eq!(file_meant(&path), None);
        let other = directory.path().join("web.yaml");
        std::fs::write(&other, "name: web").unwrap();
        assert_eq!(file_meant(&path), Some(other));
    }

    #[test]
    fn the_user_of_a_file_that_counts_is_said() {
        assert_eq!(user_text("ann", "ann"), None);
        let text = user_text("ann", "bob").unwrap();
        assert_eq!(text, "note: the job is of user bob, as its file says, and not of ann");
    }

    #[test]
    fn a_federated_file_leads_to_the_same_verb_on_federated_jobs() {
        let file = FileArguments { file: "fed.yaml".into(), ext_str: Vec::new(), tla_str: Vec::new() };
        let text = format!(
            "fed.yaml:4:1: unknown field \"federation\": it runs in several cells: {FEDERATED_COMMAND}"
        );
        let failure = named_in(Failure::new(Code::Usage, text), "validate", &file);
        assert!(failure.message().ends_with("borough federation job validate fed.yaml"), "{failure:?}");
    }
}
