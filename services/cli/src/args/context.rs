//! Verbs on contexts, and where the values of the global options come from.

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Subcommand};

/// Which options `context add` keeps.
const CONTEXT_NOTES: &str = "Give what the context keeps as global options: --gateway, --cell, --user, --token-file, --tls-ca, --tls-cert, --tls-key, or \
    --dir for a dev cell. It keeps where the token is, never the token.";

/// Verbs on contexts.
#[derive(Debug, Subcommand)]
pub enum ContextVerb {
    /// List the contexts
    List,
    /// Use a context for the commands that name none
    Use {
        /// The context's name
        #[arg(required_unless_present = "none", value_name = "NAME")]
        context_name: Option<String>,
        /// Use none: the dev cell again
        #[arg(long, conflicts_with = "context_name")]
        none: bool,
    },
    /// Keep the gateways, the cell, the user and the token's place of this command line under a name
    #[command(after_help = CONTEXT_NOTES)]
    Add(ContextAddArguments),
    /// Forget a context
    Remove {
        /// The context's name
        #[arg(value_name = "NAME")]
        context_name: String,
    },
}

/// `context add`.
#[derive(Clone, Debug, Args)]
pub struct ContextAddArguments {
    /// The new context's name
    #[arg(value_name = "NAME")]
    pub new_name: borough_model::Name,
    /// Take the token from this environment variable when it is needed
    #[arg(long, value_parser = variable, value_name = "VARIABLE")]
    pub token_variable: Option<String>,
    /// Replace a context of this name
    #[arg(long)]
    pub replace: bool,
}

/// The name of an environment variable. A token in its place would be kept in clear.
fn variable(text: &str) -> Result<String, String> {
    let first = text.starts_with(|first: char| first.is_ascii_uppercase() || first == '_');
    let plain = text.bytes().all(|byte| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_'));
    if first && plain {
        return Ok(text.to_owned());
    }
    Err("accepted: the name of a variable, A-Z, 0-9 and _, and never the token itself".to_owned())
}

/// Where the value of an option comes from, the weakest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum OptionSource {
    /// Nowhere, or from a file.
    #[default]
    File,
    Environment,
    Line,
}

/// Where the values of the options come from that say where to connect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OptionSources {
    pub context: OptionSource,
    pub gateway: OptionSource,
    pub dir: OptionSource,
    pub token_file: OptionSource,
    pub tls_ca: OptionSource,
    pub cell: OptionSource,
    pub user: OptionSource,
}

impl OptionSources {
    /// The sources in the arguments of the program.
    pub(super) fn of(matches: &ArgMatches) -> Self {
        let of = |name| match matches.value_source(name) {
            Some(ValueSource::CommandLine) => OptionSource::Line,
            Some(ValueSource::EnvVariable) => OptionSource::Environment,
            _ => OptionSource::File,
        };
        Self {
            context: of("context"),
            gateway: of("gateway"),
            dir: of("dir"),
            token_file: of("token_file"),
            tls_ca: of("tls_ca"),
            cell: of("cell"),
            user: of("user"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_no_name_of_a_variable() {
        assert_eq!(variable("PROD_TOKEN").as_deref(), Ok("PROD_TOKEN"));
        for bad in ["", "0123456789abcdef", "c0ffee", "A-B", "token", "9TOKEN"] {
            assert!(variable(bad).is_err(), "{bad}");
        }
    }
}
