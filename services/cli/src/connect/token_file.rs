//! The file with the token of the caller.

use std::path::PathBuf;

use borough_client::ClientToken;

use super::{NamedToken, context};
use crate::args::Global;
use crate::exit::{Code, Failure};

/// The file with the token that a command would show to a gateway; `None`: its token is in no file, or is that of a dev
/// cell.
pub(crate) fn token_path(global: &Global) -> Option<PathBuf> {
    let named = match context(global).ok()? {
        Some(chosen) => chosen.token(global, |_| None).ok()?,
        None => NamedToken::of_option(global),
    };
    match named?.token {
        ClientToken::File(path) => Some(path),
        ClientToken::Value(_) => None,
    }
}

/// The file that a login writes.
///
/// # Errors
/// Neither the context nor an option names one.
pub(crate) fn login_token(global: &Global) -> Result<PathBuf, Failure> {
    if let Some(path) = token_path(global) {
        return Ok(path);
    }
    let missing = |text: String| {
        Failure::new(Code::Usage, text)
            .with_hint("name the file that the token is to be in: --token-file FILE")
    };
    let Some(chosen) = context(global)? else {
        return Err(missing("no context is in use, and no file is named for the token".to_owned()));
    };
    let name = &chosen.name;
    Err(match &chosen.saved.token_variable {
        Some(variable) => {
            missing(format!("the context {name:?} takes its token from the variable {variable}"))
        }
        None => missing(format!("the context {name:?} names no file for its token")),
    })
}
