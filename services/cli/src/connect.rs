//! Makes a client from options, environment and the dev directory.

use std::path::Path;

use borough_client::{Client, ClientConfig, ClientToken};
use borough_kv::env::SystemRng;
use borough_model::Name;

use crate::args::Global;
use crate::client_file::{ClientFile, dev_directory};
use crate::exit::{Code, Failure};

/// A watch gives up after so many tries in a row without a message: about a minute.
const WATCH_ATTEMPTS_MAX: u32 = 40;

/// A client for the options. Does not connect yet.
pub(crate) fn client(global: &Global) -> Result<Client, Failure> {
    let settings = settings(global)?;
    let user = caller(global)?;
    let mut config = ClientConfig::new(settings.gateways, user, settings.cell);
    config.token = settings.token;
    config.watch_attempts_max = Some(WATCH_ATTEMPTS_MAX);
    let rng = SystemRng::shared();
    Ok(Client::new(config, rng)?)
}

/// A client of one cell, which must be known.
pub(crate) fn cell_client(global: &Global) -> Result<Client, Failure> {
    let client = client(global)?;
    if client.cell().is_empty() {
        let hint = "name one with --cell or BOROUGH_CELL; `borough cell list` shows them";
        return Err(Failure::new(Code::Usage, "no cell is named").with_hint(hint));
    }
    Ok(client)
}

struct ConnectSettings {
    gateways: Vec<String>,
    token: Option<ClientToken>,
    cell: String,
}

fn settings(global: &Global) -> Result<ConnectSettings, Failure> {
    let directory = dev_directory(global.dir.as_deref());
    let file = ClientFile::read(&directory);
    let cell = global.cell.clone();
    let token = global.token_file.clone().map(ClientToken::File);
    if !global.gateway.is_empty() {
        // The dev cell's token must go only to the dev cell's gateway.
        let own = file
            .unwrap_or_default()
            .filter(|file| global.gateway.iter().all(|address| file.gateways.contains(address)));
        let own = own.unwrap_or_default();
        return Ok(ConnectSettings {
            gateways: global.gateway.clone(),
            token: token.or_else(|| own.token_file.map(ClientToken::File)),
            cell: cell.unwrap_or(own.default_cell),
        });
    }
    let file = file.map_err(|error| Failure::new(Code::Unreachable, error.to_string()))?;
    let file = file.ok_or_else(|| no_dev_cell(&directory))?;
    Ok(ConnectSettings {
        gateways: file.gateways,
        token: token.or_else(|| file.token_file.map(ClientToken::File)),
        cell: cell.unwrap_or(file.default_cell),
    })
}

fn no_dev_cell(directory: &Path) -> Failure {
    let message = format!("no gateway is named, and no dev cell is in {}", directory.display());
    let hint =
        "start one with `borough dev`, or say where a gateway is: --gateway HOST:PORT or BOROUGH_GATEWAY";
    Failure::new(Code::Unreachable, message).with_hint(hint)
}

/// The user of the request: `--user`, or the login name in the form of a user name.
pub(crate) fn caller(global: &Global) -> Result<String, Failure> {
    if let Some(user) = &global.user {
        let checked = Name::new(user.as_str());
        checked.map_err(|error| Failure::new(Code::Usage, format!("the user {user:?} {error}")))?;
        return Ok(user.clone());
    }
    let login = std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_default();
    Ok(user_name(&login))
}

/// A login name as a user name: characters that a name cannot have become `-`.
fn user_name(login: &str) -> String {
    let lower = login.to_lowercase();
    let allowed = |each: char| if matches!(each, 'a'..='z' | '0'..='9') { each } else { '-' };
    let mapped: String = lower.chars().map(allowed).take(Name::LENGTH_MAX - 1).collect();
    let trimmed = mapped.trim_matches('-');
    match trimmed.chars().next() {
        None => "user".to_owned(),
        Some('0'..='9') => format!("u{trimmed}"),
        Some(_) => trimmed.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_login_becomes_a_user_name() {
        for (login, user) in [
            ("alice", "alice"),
            ("Alice.Smith", "alice-smith"),
            ("DOMAIN\\bob", "domain-bob"),
            ("1000", "u1000"),
            ("_svc_", "svc"),
            ("", "user"),
            ("---", "user"),
            ("ünal", "nal"),
        ] {
            assert_eq!(user_name(login), user);
        }
        assert!(Name::new(user_name(&"x".repeat(200))).is_ok());
        assert!(Name::new(user_name(&"9".repeat(200))).is_ok());
    }
}
