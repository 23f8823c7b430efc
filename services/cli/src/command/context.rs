//! `context list`, `context use`, `context add` and `context remove`.

use std::path::{Path, PathBuf, absolute};

use borough_client::{Client, ClientConfig};
use borough_kv::env::SystemRng;

use crate::args::{ContextAddArguments, ContextVerb, Global, OptionSource};
use crate::connect::{context_file, context_unknown};
use crate::context_file::{ContextFile, SavedContext, context_path};
use crate::exit::{Code, Failure};
use crate::output::{ContextView, Printer};
use crate::own_file::{OwnFileLock, own_file_lock};

/// What a list of no contexts says.
const NO_CONTEXTS: &str = "no contexts: commands go to the dev cell, or where --gateway says\n\
    hint: borough context add NAME --gateway HOST:PORT --cell NAME --token-file FILE";

/// Where commands go without a context.
const WITHOUT_CONTEXT: &str = "commands go to the dev cell, or where --gateway says";

pub(super) fn run(global: &Global, verb: ContextVerb, printer: &Printer) -> Result<Code, Failure> {
    // Until the change is written, no other command reads what it will change.
    let _lock = match &verb {
        ContextVerb::List => None,
        _ => lock()?,
    };
    let mut file = context_file()?;
    match verb {
        ContextVerb::List => {
            let current = file.current.take();
            let view = |(name, saved)| ContextView::new(name, saved, current.as_deref());
            let contexts: Vec<ContextView> = file.contexts.into_iter().map(view).collect();
            printer.list(&contexts, NO_CONTEXTS)?;
        }
        ContextVerb::Use { context_name: None, .. } => {
            file.current = None;
            write(&file)?;
            printer.remark(&none_text(overruling(global, None)));
        }
        ContextVerb::Use { context_name: Some(name), .. } => {
            if !file.contexts.contains_key(&name) {
                return Err(context_unknown(&file, &name));
            }
            printer.remark(&format!("context {name:?} is in use"));
            overruled_remark(global, &name, printer);
            file.current = Some(name);
            write(&file)?;
        }
        ContextVerb::Add(arguments) => add(global, arguments, file, printer)?,
        ContextVerb::Remove { context_name: name } => {
            if file.contexts.remove(&name).is_none() {
                return Err(context_unknown(&file, &name));
            }
            let was_used = file.current.take_if(|current| *current == name).is_some();
            write(&file)?;
            let more = if was_used { unused_text(&file) } else { String::new() };
            printer.remark(&format!("context {name:?} is removed{more}"));
        }
    }
    Ok(Code::Done)
}

/// Says that a variable of the environment says where commands go, and counts before the context that is in use now.
fn overruled_remark(global: &Global, used: &str, printer: &Printer) {
    if let Some(variable) = overruling(global, Some(used)) {
        printer.remark(&format!(
            "but {variable} is set, and says where commands go, whatever context is in use; to go by the context: \
             unset {variable}"
        ));
    }
}

/// What is said once no context is in use: where commands go, by a variable of the environment if that says so.
fn none_text(variable: Option<&str>) -> String {
    match variable {
        Some(variable) => format!("no context is in use: {variable} says where commands go"),
        None => format!("no context is in use: {WITHOUT_CONTEXT}"),
    }
}

/// The variable of the environment that counts before the context that is in use; `None`: none does.
fn overruling(global: &Global, used: Option<&str>) -> Option<&'static str> {
    let is_other = global.context.as_deref() != Some(used.unwrap_or_default());
    let variables = [
        (global.context.is_some() && is_other, global.sources.context, "BOROUGH_CONTEXT"),
        (!global.gateway.is_empty(), global.sources.gateway, "BOROUGH_GATEWAY"),
        (global.dir.is_some(), global.sources.dir, "BOROUGH_DIR"),
    ];
    let overrules = |(is_given, source, _): &(bool, OptionSource, &str)| {
        *is_given && *source == OptionSource::Environment
    };
    variables.into_iter().find(overrules).map(|(_, _, variable)| variable)
}

/// Waits until no other command changes the contexts; `None` if there is no place for them.
fn lock() -> Result<Option<OwnFileLock>, Failure> {
    let Some(path) = context_path() else { return Ok(None) };
    let failed = |error: std::io::Error| {
        Failure::new(Code::Failed, format!("cannot change {}: {error}", path.display()))
    };
    own_file_lock(&path).map(Some).map_err(failed)
}

/// What is said besides if the removed context was in use. `file` is what is left.
fn unused_text(file: &ContextFile) -> String {
    let mut text = format!("; it was in use, and now none is: {WITHOUT_CONTEXT}");
    let known: Vec<&str> = file.contexts.keys().map(String::as_str).collect();
    if !known.is_empty() {
        text.push_str(&format!("; to use another: borough context use NAME; known: {}", known.join(", ")));
    }
    text
}

fn add(
    global: &Global,
    arguments: ContextAddArguments,
    mut file: ContextFile,
    printer: &Printer,
) -> Result<(), Failure> {
    let name = arguments.new_name.as_str().to_owned();
    if file.contexts.contains_key(&name) && !arguments.replace {
        let hint = format!("to replace it: borough context add {name} --replace, with the same options");
        return Err(Failure::new(Code::Refused, format!("a context {name:?} exists")).with_hint(hint));
    }
    let saved = saved_of(global, arguments.token_variable)?;
    lacks(&saved).iter().for_each(|text| printer.remark(&format!("note: context {name:?} {text}")));
    file.contexts.insert(name.clone(), saved);
    write(&file)?;
    printer.remark(&format!("context {name:?} is saved; to use it: borough context use {name}"));
    Ok(())
}

/// What a context lacks that commands with it need, or that is not there now.
fn lacks(saved: &SavedContext) -> Vec<String> {
    let is_remote = saved.dir.is_none();
    let has_credential =
        saved.token_file.is_some() || saved.token_variable.is_some() || saved.tls_cert.is_some();
    let missing = saved.token_file.as_deref().filter(|file| !file.exists());
    let lacks = [
        (is_remote && saved.cell.is_none())
            .then(|| "names no cell: give --cell with each command".to_owned()),
        (is_remote && !has_credential)
            .then(|| "names no token: give --token-file FILE with each command".to_owned()),
        missing.map(|file| format!("names a token file that is not there: {}", file.display())),
    ];
    lacks.into_iter().flatten().collect()
}

/// What the command line says. The environment may be about another cell, so it does not count.
fn saved_of(global: &Global, token_variable: Option<String>) -> Result<SavedContext, Failure> {
    let sources = global.sources;
    let on_line = |source| source == OptionSource::Line;
    let path = |path: &Path| absolute(path).unwrap_or_else(|_| path.to_owned());
    let tls = |file: &Option<PathBuf>| file.as_deref().filter(|_| on_line(sources.tls_ca)).map(path);
    let saved = SavedContext {
        gateways: if on_line(sources.gateway) { global.gateway.clone() } else { Vec::new() },
        dir: global.dir.as_deref().filter(|_| on_line(sources.dir)).map(path),
        cell: global.cell.clone().filter(|_| on_line(sources.cell)),
        user: global.user.clone().filter(|_| on_line(sources.user)),
        token_file: global.token_file.as_deref().filter(|_| on_line(sources.token_file)).map(path),
        token_variable,
        tls_ca: tls(&global.tls.tls_ca),
        tls_cert: tls(&global.tls.tls_cert),
        tls_key: tls(&global.tls.tls_key),
    };
    let wrong =
        |message: &str| Err(Failure::new(Code::Usage, message).with_hint("borough context add --help"));
    match usize::from(!saved.gateways.is_empty()) + usize::from(saved.dir.is_some()) {
        0 => return wrong("a context needs --gateway HOST:PORT, or --dir DIR of a dev cell"),
        1 => {}
        _ => return wrong("a context has --gateway or --dir, not both"),
    }
    if saved.token_file.is_some() && saved.token_variable.is_some() {
        return wrong("a context has --token-file or --token-variable, not both");
    }
    if !saved.gateways.is_empty() {
        // Refuses wrong addresses and names. It does not connect.
        let user = crate::connect::caller(global)?;
        let cell = saved.cell.clone().unwrap_or_default();
        let mut config = ClientConfig::new(saved.gateways.clone(), user, cell);
        config.connector = crate::connect::connector(saved.tls_files())?;
        Client::new(config, SystemRng::shared())?;
    }
    Ok(saved)
}

fn write(file: &ContextFile) -> Result<(), Failure> {
    let Some(path) = context_path() else {
        let message = "cannot keep contexts: neither XDG_CONFIG_HOME nor HOME is an absolute path";
        return Err(Failure::new(Code::Usage, message).with_hint("set HOME to your home directory"));
    };
    file.write(&path).map_err(|error| {
        Failure::new(Code::Failed, format!("cannot write {}: {error}", path.display()))
            .with_hint("nothing was changed")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_says_what_it_lacks() {
        let gateway = SavedContext { gateways: vec!["g:1".to_owned()], ..SavedContext::default() };
        let text = lacks(&gateway).join("; ");
        assert!(text.contains("no cell") && text.contains("no token"), "{text}");
        let file = Some(PathBuf::from("/nowhere/token"));
        let whole = SavedContext { cell: Some("alpha".to_owned()), token_file: file, ..gateway };
        assert_eq!(lacks(&whole), ["names a token file that is not there: /nowhere/token"]);
        let dev = SavedContext { dir: Some("/srv/dev".into()), ..SavedContext::default() };
        assert!(lacks(&dev).is_empty());
    }
    use crate::args::Arguments;

    #[test]
    fn a_variable_that_counts_before_the_context_is_named() {
        // A test must not set variables, so the line stands for them.
        let of = |line: &str, used: Option<&str>| {
            let mut global = Arguments::read(line.split_whitespace()).unwrap().global;
            assert_eq!(overruling(&global, used), None, "an option counts for its own line");
            let sources = &mut global.sources;
            for source in [&mut sources.context, &mut sources.gateway, &mut sources.dir] {
                *source = OptionSource::Environment;
            }
            overruling(&global, used)
        };
        assert_eq!(of("borough context list", Some("prod")), None);
        assert_eq!(of("borough context list --dir d", Some("prod")), Some("BOROUGH_DIR"));
        assert_eq!(of("borough context list --gateway g:1", Some("prod")), Some("BOROUGH_GATEWAY"));
        assert_eq!(of("borough context list --context test", Some("prod")), Some("BOROUGH_CONTEXT"));
        assert_eq!(of("borough context list --context prod", Some("prod")), None);
        assert_eq!(of("borough context list --dir d", None), Some("BOROUGH_DIR"));
    }

    #[test]
    fn without_a_context_a_variable_says_where_commands_go() {
        assert_eq!(
            none_text(Some("BOROUGH_DIR")),
            "no context is in use: BOROUGH_DIR says where commands go"
        );
        assert!(none_text(None).ends_with("commands go to the dev cell, or where --gateway says"));
    }

    #[test]
    fn who_removes_the_context_in_use_is_told_where_commands_go_now() {
        let mut file = ContextFile::default();
        let used = "; it was in use, and now none is: commands go to the dev cell, or where --gateway says";
        assert_eq!(unused_text(&file), used);
        file.contexts.extend(["var", "local"].map(|name| (name.to_owned(), SavedContext::default())));
        let more = format!("{used}; to use another: borough context use NAME; known: local, var");
        assert_eq!(unused_text(&file), more);
    }
}
