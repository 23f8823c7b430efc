//! Which context a command uses, and which of its fields the options replace. Pure functions of the options and the
//! file of contexts.

use borough_client::ClientToken;
use borough_proto::tls::TlsFiles;

use crate::args::{Global, OptionSource};
use crate::connect::NamedToken;
use crate::context_file::{ContextFile, SavedContext};
use crate::exit::{Code, Failure};

/// The context of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChosenContext {
    pub(crate) name: String,
    pub(crate) saved: SavedContext,
    /// Which option names it, or the file does.
    source: OptionSource,
}

/// The context that the options name, or the current one if no option says where to connect. Only an option that is
/// as near to the command as the context replaces its parts: the command line before the environment before the file.
pub(super) fn context_choose(
    global: &Global,
    read: impl FnOnce() -> Result<ContextFile, Failure>,
) -> Result<Option<ChosenContext>, Failure> {
    let sources = global.sources;
    let places = [
        (!global.gateway.is_empty(), sources.gateway, "--gateway", "BOROUGH_GATEWAY"),
        (global.dir.is_some(), sources.dir, "--dir", "BOROUGH_DIR"),
    ];
    let Some(name) = &global.context else {
        if places.iter().any(|(given, ..)| *given) {
            return Ok(None);
        }
        let mut file = read()?;
        let Some(name) = file.current.take() else { return Ok(None) };
        return context_named(file, &name, OptionSource::File).map(Some);
    };
    if name.is_empty() {
        return Ok(None);
    }
    for (_, source, option, variable) in places.into_iter().filter(|(given, ..)| *given) {
        if source > sources.context {
            return Ok(None);
        }
        if source == sources.context {
            let (context, other) = match source {
                OptionSource::Environment => ("BOROUGH_CONTEXT", variable),
                _ => ("--context", option),
            };
            let message = format!("{context} and {other} both say where to connect; give one of them");
            return Err(Failure::new(Code::Usage, message));
        }
    }
    context_named(read()?, name, sources.context).map(Some)
}

fn context_named(mut file: ContextFile, name: &str, source: OptionSource) -> Result<ChosenContext, Failure> {
    match file.contexts.remove(name) {
        Some(saved) => Ok(ChosenContext { name: name.to_owned(), saved, source }),
        None => Err(context_unknown(&file, name)),
    }
}

/// No context has this name.
pub(crate) fn context_unknown(file: &ContextFile, name: &str) -> Failure {
    let known: Vec<&str> = file.contexts.keys().map(String::as_str).collect();
    if known.is_empty() {
        return Failure::new(Code::NotFound, format!("no context {name:?}; known: none")).with_hint(
            "make one: borough context add NAME --gateway HOST:PORT --cell NAME --token-file FILE",
        );
    }
    Failure::new(Code::NotFound, format!("no context {name:?}; known: {}", known.join(", ")))
        .with_hint("borough context list")
}

impl ChosenContext {
    /// The value of an option, or of the context. The nearer one to the command comes first.
    fn nearer<T>(&self, option: Option<T>, source: OptionSource, own: Option<T>) -> Option<T> {
        if source >= self.source { option.or(own) } else { own.or(option) }
    }

    pub(super) fn cell(&self, global: &Global) -> Option<String> {
        self.nearer(global.cell.clone(), global.sources.cell, self.saved.cell.clone())
    }

    pub(super) fn user(&self, global: &Global) -> Option<String> {
        self.nearer(global.user.clone(), global.sources.user, self.saved.user.clone())
    }

    /// The certificates by the options or by the context; `None` without encryption.
    pub(super) fn tls_files(&self, global: &Global) -> Option<TlsFiles> {
        self.nearer(global.tls.files(), global.sources.tls_ca, self.saved.tls_files())
    }

    /// The token by its file or by its variable, which `variable` reads.
    pub(super) fn token(
        &self,
        global: &Global,
        variable: impl FnOnce(&str) -> Option<String>,
    ) -> Result<Option<NamedToken>, Failure> {
        let option = NamedToken::of_option(global);
        if global.sources.token_file >= self.source
            && let Some(token) = option
        {
            return Ok(Some(token));
        }
        if let Some(name) = &self.saved.token_variable {
            let value = variable(name).filter(|value| !value.trim().is_empty());
            let value = value.ok_or_else(|| self.variable_missing(name))?;
            let source = format!("the variable {name} (context {:?})", self.name);
            let token = ClientToken::Value(value.trim().to_owned());
            return Ok(Some(NamedToken { token, source }));
        }
        let by = format!("context {:?}", self.name);
        let own = self.saved.token_file.clone().map(|path| NamedToken::of_file(path, &by));
        Ok(own.or(option))
    }

    fn variable_missing(&self, variable: &str) -> Failure {
        let name = &self.name;
        let message =
            format!("the context {name:?} takes its token from the variable {variable}, which is not set");
        Failure::new(Code::NotAllowed, message)
            .with_hint(format!("set {variable} to the token of context {name:?}, or give --token-file FILE"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Arguments;

    fn global(line: &str) -> Global {
        Arguments::read(line.split_whitespace()).unwrap().global
    }

    /// Like the variables of the environment, which a test must not set.
    fn in_environment(mut global: Global) -> Global {
        let sources = &mut global.sources;
        for source in [&mut sources.context, &mut sources.gateway, &mut sources.dir, &mut sources.cell] {
            if *source == OptionSource::Line {
                *source = OptionSource::Environment;
            }
        }
        global
    }

    fn file() -> Result<ContextFile, Failure> {
        let saved = |gateway: &str, cell: &str| SavedContext {
            gateways: vec![gateway.to_owned()],
            cell: Some(cell.to_owned()),
            user: Some("alice".to_owned()),
            token_file: Some("/prod/token".into()),
            ..SavedContext::default()
        };
        let contexts = [("prod", saved("p:1", "alpha")), ("test", saved("t:1", "beta"))];
        let contexts = contexts.into_iter().map(|(name, saved)| (name.to_owned(), saved)).collect();
        Ok(ContextFile { current: Some("test".to_owned()), contexts })
    }

    fn chosen(global: &Global) -> Result<Option<String>, String> {
        let chosen = context_choose(global, file).map_err(|failure| failure.message().to_owned());
        chosen.map(|chosen| chosen.map(|context| context.name))
    }

    #[test]
    fn the_nearest_name_of_a_place_counts() {
        let some = |name: &str| Ok(Some(name.to_owned()));
        assert_eq!(chosen(&global("borough cell list")), some("test"));
        assert_eq!(chosen(&global("borough cell list --context prod")), some("prod"));
        assert_eq!(chosen(&global("borough --gateway g:1 cell list")), Ok(None));
        assert_eq!(chosen(&global("borough cell list --dir d")), Ok(None));
        assert_eq!(chosen(&global("borough cell list --context=")), Ok(None));
        let both = "--context and --gateway both say where to connect; give one of them".to_owned();
        assert_eq!(chosen(&global("borough cell list --context prod --gateway g:1")), Err(both));
        let unknown = "no context \"prdo\"; known: prod, test".to_owned();
        assert_eq!(chosen(&global("borough cell list --context prdo")), Err(unknown));

        let mut mixed = in_environment(global("borough cell list --context prod --gateway g:1"));
        let both =
            "BOROUGH_CONTEXT and BOROUGH_GATEWAY both say where to connect; give one of them".to_owned();
        assert_eq!(chosen(&mixed), Err(both));
        mixed.sources.context = OptionSource::Line;
        assert_eq!(chosen(&mixed), some("prod"));
        mixed.sources.context = OptionSource::Environment;
        mixed.sources.gateway = OptionSource::Line;
        assert_eq!(chosen(&mixed), Ok(None));
    }

    #[test]
    fn an_option_replaces_a_part_of_a_context_if_it_is_as_near() {
        let line = global("borough cell list --context prod --cell gamma --token-file t");
        let context = context_choose(&line, file).unwrap().unwrap();
        assert_eq!(context.cell(&line).as_deref(), Some("gamma"));
        assert_eq!(context.user(&line).as_deref(), Some("alice"));
        let source = |global: &Global| context.token(global, |_| None).unwrap().unwrap().source;
        assert_eq!(source(&line), "the file t (--token-file)");
        // A token of the environment is for another gateway than that of the context on the line.
        let mut mixed = in_environment(line);
        mixed.sources.token_file = OptionSource::Environment;
        assert_eq!(context.cell(&mixed).as_deref(), Some("alpha"));
        assert_eq!(source(&mixed), "the file /prod/token (context \"prod\")");
    }

    #[test]
    fn a_token_comes_from_its_variable_or_the_answer_names_it() {
        let plain = global("borough cell list");
        let mut context = context_choose(&plain, file).unwrap().unwrap();
        context.saved.token_variable = Some("PROD_TOKEN".to_owned());
        let token = context.token(&plain, |name| (name == "PROD_TOKEN").then(|| "abc\n".to_owned())).unwrap();
        let token = token.unwrap();
        assert!(matches!(token.token, ClientToken::Value(value) if value == "abc"));
        assert_eq!(token.source, "the variable PROD_TOKEN (context \"test\")");
        let failure = context.token(&plain, |_| None).unwrap_err();
        assert_eq!(failure.code(), Code::NotAllowed);
        assert!(failure.message().contains("PROD_TOKEN"), "{failure:?}");
        let hint = failure.hint().unwrap_or_default();
        assert!(hint.contains("PROD_TOKEN") && hint.contains("\"test\""), "{hint}");
    }
}
