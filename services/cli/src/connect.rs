//! Makes a client from options, environment and the dev directory.

mod choice;
mod encryption;
mod login;
mod port;
mod token_file;

pub(crate) use choice::context_unknown;
pub(crate) use token_file::{login_token, token_path};

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use borough_client::{Client, ClientConfig, ClientToken};
use borough_kv::env::SystemRng;
use borough_model::Name;
use borough_proto::connect::Connector;
use borough_proto::tls::{CertificateName, ClientTls, TlsError, TlsFiles};
use borough_store::error_chain;

use crate::args::{FEDERATION_HOME, Global, OptionSource};
use crate::client_file::{ClientFile, dev_directory};
use crate::connect::choice::{ChosenContext, context_choose};
use crate::connect::encryption::encryption_explained;
use crate::connect::port::other_port;
use crate::context_file::{ContextFile, context_path};
use crate::exit::{Code, Failure};
use crate::output::line_shown;

/// A watch or a stream of output gives up if no gateway has answered for so long.
const WATCH_PATIENCE: Duration = Duration::from_secs(60);

/// A client for the options. Does not connect yet.
pub(crate) fn client(global: &Global) -> Result<Client, Failure> {
    let settings = settings(global)?;
    cell_check(global, &settings.cell)?;
    let user = caller(global)?;
    let mut config = ClientConfig::new(settings.gateways, user, settings.cell);
    if let Some(NamedToken { token, source }) = settings.token {
        (config.token, config.token_source) = (Some(token), Some(source));
    }
    config.connector = connector(settings.tls)?;
    config.watch_patience = Some(WATCH_PATIENCE);
    let rng = SystemRng::shared();
    let client = Client::new(config, rng)?;
    Ok(if global.dry_run { client.with_dry_run() } else { client })
}

/// Refuses a text that no cell has as its name, in the words of the option that has it.
fn cell_check(global: &Global, cell: &str) -> Result<(), Failure> {
    let Some(error) = Name::new(cell).err().filter(|_| !cell.is_empty()) else { return Ok(()) };
    let source = match global.sources.cell {
        OptionSource::Line => "--cell",
        OptionSource::Environment => "BOROUGH_CELL",
        OptionSource::File => "the cell of the context",
    };
    Err(Failure::new(Code::Usage, format!("{source}: the name {cell:?} {error}"))
        .with_hint("borough cell list"))
}

/// A client of a gateway that is not the caller's. It sends no token.
pub(crate) fn stranger(global: &Global, gateway: &str) -> Result<Client, Failure> {
    let mut config = ClientConfig::new(vec![gateway.to_owned()], caller(global)?, String::new());
    config.connector = connector(settings(global)?.tls)?;
    Ok(Client::new(config, SystemRng::shared())?)
}

/// What makes connections: encrypted ones with certificates, plain ones without.
pub(crate) fn connector(tls: Option<TlsFiles>) -> Result<Connector, Failure> {
    let Some(files) = tls else { return Ok(Connector::default()) };
    let tls = ClientTls::load(files);
    Ok(Connector::tls(tls.map_err(|error| tls_refused(&error))?))
}

/// The failure of certificates. A file that cannot be used is a wrong command line, as a job file is.
pub(crate) fn tls_refused(error: &TlsError) -> Failure {
    match error {
        TlsError::Read { .. } => Failure::new(Code::Usage, error_chain(error))
            .with_hint("name files that this user may read: --tls-ca FILE, --tls-cert FILE, --tls-key FILE"),
        _ => Failure::new(Code::Usage, error_chain(error)),
    }
}

/// The home of the federation, if no option names it: that of the dev cell where one is asked, or the usual name.
pub(crate) fn federation_home(global: &Global) -> Result<String, Failure> {
    let own = settings(global)?.federation;
    Ok(if own.is_empty() { FEDERATION_HOME.to_owned() } else { own })
}

/// A client of one cell, which must be known. If none is named, asks the gateway for its cells: a wrong address or
/// token is then reported first, because the user must correct it first.
pub(crate) async fn cell_client(global: &Global) -> Result<Client, Failure> {
    let client = client(global)?;
    if client.cell().is_empty() {
        let cells: Vec<String> = client.cell_list().await?.into_iter().map(|cell| cell.name).collect();
        let (gateway, cells) = (client.gateways().join(", "), cells.join(", "));
        let message = if cells.is_empty() {
            format!("no cell is named, and the gateway at {gateway} shows you none: you have no right in any")
        } else {
            format!("no cell is named; the gateway at {gateway} has: {cells}")
        };
        return Err(Failure::new(Code::Usage, message).with_hint("name one with --cell or BOROUGH_CELL"));
    }
    Ok(client)
}

/// The contexts of the user.
pub(crate) fn context_file() -> Result<ContextFile, Failure> {
    // Without a home directory nobody has kept any.
    let Some(path) = context_path() else { return Ok(ContextFile::default()) };
    ContextFile::read(&path).map_err(|error| {
        Failure::new(Code::Usage, error.to_string())
            .with_hint("correct the file, or go without: --context ''")
    })
}

fn context(global: &Global) -> Result<Option<ChosenContext>, Failure> {
    context_choose(global, context_file)
}

/// Where a change would be made, as a question names it; `None` for the dev cell of this machine.
pub(crate) fn place(global: &Global, client: &Client) -> Result<Option<String>, Failure> {
    let cell = client.cell();
    if let Some(context) = context(global)? {
        return Ok(Some(format!("context {:?}, cell {cell}", context.name)));
    }
    let file =
        dev_directory(global.dir.as_deref()).and_then(|directory| ClientFile::read(&directory).ok()?);
    let file = file.unwrap_or_default();
    if global.gateway.is_empty() || own_addresses(&global.gateway, &file.gateways).is_some() {
        return Ok(None);
    }
    Ok(Some(format!("no context, gateway {}, cell {cell}", global.gateway.join(", "))))
}

/// The failure to reach the gateway of a context, with the context and its file.
pub(crate) fn unreachable_explained(global: &Global, failure: Failure) -> Failure {
    let failure = port_explained(global, encryption_explained(global, failure));
    let chosen = context(global).ok().flatten();
    let known =
        chosen.and_then(|chosen| Some((context_settings(global, &chosen).ok()?, chosen, context_path()?)));
    let Some((settings, chosen, path)) = known else { return failure };
    if !settings.gateways.iter().any(|gateway| failure.message().contains(gateway.as_str())) {
        return failure;
    }
    let mut details = failure.details().to_vec();
    details.push(format!("it is the gateway of context {:?} in {}", chosen.name, path.display()));
    let is_general = failure.hint().is_some_and(|hint| hint.starts_with("start one with `borough dev`"));
    let failure = failure.with_details(details);
    if !is_general {
        return failure;
    }
    failure.with_hint("borough context list; to use another one: borough context use NAME")
}

/// Adds what listens on the port of a gateway that does not answer as one.
fn port_explained(global: &Global, failure: Failure) -> Failure {
    // What refuses connections is nothing, and the HTTP port of a gateway says what it is.
    let is_known =
        ["refused", "has no address", "is the HTTP port"].iter().any(|part| failure.message().contains(part));
    let Some(settings) = settings(global).ok().filter(|_| !is_known) else { return failure };
    let named = settings.gateways.iter().filter(|gateway| failure.message().contains(gateway.as_str()));
    let mut details = failure.details().to_vec();
    details.extend(named.filter_map(|gateway| other_port(gateway)));
    failure.with_details(details)
}

/// The settings of a context.
fn context_settings(global: &Global, context: &ChosenContext) -> Result<ConnectSettings, Failure> {
    let dev = match &context.saved.dir {
        None => ClientFile::default(),
        Some(directory) => {
            let read = ClientFile::read(directory);
            let read = read.map_err(|error| dev_unreadable(directory, &error))?;
            read.ok_or_else(|| {
                let message =
                    format!("context {:?}: no dev cell is in {}", context.name, directory.display());
                Failure::new(Code::Unreachable, message)
                    .with_hint(format!("start it: borough dev --dir {}", directory.display()))
            })?
        }
    };
    let token = context.token(global, |name| std::env::var(name).ok())?;
    let saved = &context.saved.gateways;
    Ok(ConnectSettings {
        gateways: if saved.is_empty() { dev.gateways } else { saved.clone() },
        token: token.or_else(|| dev.token_file.map(NamedToken::of_dev)),
        cell: context.cell(global).unwrap_or(dev.default_cell),
        tls: context.tls_files(global),
        federation: dev.federation,
    })
}

/// A token, and where it is from in the words of an error.
#[derive(Debug)]
pub(crate) struct NamedToken {
    token: ClientToken,
    source: String,
}

impl NamedToken {
    fn of_file(path: PathBuf, by: &str) -> Self {
        let source = format!("the file {} ({by})", line_shown(&path.to_string_lossy()));
        Self { token: ClientToken::File(path), source }
    }

    fn of_dev(path: PathBuf) -> Self {
        Self::of_file(path, "of the dev cell")
    }

    /// The file that the option names, or its variable.
    fn of_option(global: &Global) -> Option<Self> {
        let by = match global.sources.token_file {
            OptionSource::Environment => "BOROUGH_TOKEN_FILE",
            _ => "--token-file",
        };
        global.token_file.clone().map(|path| Self::of_file(path, by))
    }
}

struct ConnectSettings {
    gateways: Vec<String>,
    token: Option<NamedToken>,
    cell: String,
    /// Absent: nothing is encrypted.
    tls: Option<TlsFiles>,
    /// The home of a federation that the dev cell has; empty without one.
    federation: String,
}

fn settings(global: &Global) -> Result<ConnectSettings, Failure> {
    if let Some(context) = context(global)? {
        return context_settings(global, &context);
    }
    let directory = dev_directory(global.dir.as_deref());
    let file = directory.as_deref().map_or(Ok(None), ClientFile::read);
    let cell = global.cell.clone();
    let token = NamedToken::of_option(global);
    if !global.gateway.is_empty() {
        // The dev cell's token must go only to the dev cell's gateway.
        let file = file.unwrap_or_default().unwrap_or_default();
        let own = own_addresses(&global.gateway, &file.gateways);
        if own.is_some() {
            tls_of_dev_refuse(global)?;
        }
        let (gateways, own, tls) = match own {
            Some(addresses) => (addresses, file, None),
            None => (global.gateway.clone(), ClientFile::default(), global.tls.files()),
        };
        return Ok(ConnectSettings {
            gateways,
            token: token.or_else(|| own.token_file.map(NamedToken::of_dev)),
            cell: cell.unwrap_or(own.default_cell),
            tls,
            federation: own.federation,
        });
    }
    let known = directory.as_deref().unwrap_or_else(|| Path::new(""));
    let file = file.map_err(|error| dev_unreadable(known, &error))?;
    let file = file.ok_or_else(|| no_dev_cell(directory.as_deref()))?;
    tls_of_dev_refuse(global)?;
    Ok(ConnectSettings {
        gateways: file.gateways,
        token: token.or_else(|| file.token_file.map(NamedToken::of_dev)),
        cell: cell.unwrap_or(file.default_cell),
        tls: None,
        federation: file.federation,
    })
}

/// Refuses certificates on the line of a command that goes to the dev cell: nobody should believe that they count.
/// Those of the environment are for other gateways.
fn tls_of_dev_refuse(global: &Global) -> Result<(), Failure> {
    if global.tls.tls_ca.is_none() || global.sources.tls_ca != OptionSource::Line {
        return Ok(());
    }
    let text = "--tls-ca has no effect: the gateway is that of the dev cell, which encrypts nothing";
    Err(Failure::new(Code::Usage, text)
        .with_hint("leave --tls-ca out, or name another gateway: --gateway HOST:PORT"))
}

/// The addresses of the dev cell's gateways that `given` names, as the dev cell wrote them; `None` if `given` names
/// any other. Another user may listen on the port of `[::1]`, so the token never goes to `localhost` itself.
fn own_addresses(given: &[String], known: &[String]) -> Option<Vec<String>> {
    let same = |given: &String| {
        let plain = given.strip_prefix("http://").unwrap_or(given);
        let plain = plain.strip_suffix('/').unwrap_or(plain);
        let port = plain.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
        let named = port.as_deref().unwrap_or(plain);
        known.iter().find(|address| *address == named).cloned()
    };
    given.iter().map(same).collect()
}

/// The failure of a dev directory that is none, or whose file cannot be read.
fn dev_unreadable(directory: &Path, error: &io::Error) -> Failure {
    let directory = directory.display();
    if error.kind() == io::ErrorKind::NotADirectory {
        let message = format!("{directory} is no directory; accepted: that of a dev cell");
        return Failure::new(Code::Usage, message).with_hint(
            "name the directory with --dir DIR; to start a dev cell there: borough dev --dir DIR",
        );
    }
    let failure = Failure::new(Code::Usage, error.to_string());
    if error.kind() != io::ErrorKind::InvalidData {
        return failure.with_hint("name the directory of a dev cell that this user may read: --dir DIR");
    }
    failure.with_hint(format!("remove the file, and start its cell again: borough dev --dir {directory}"))
}

fn no_dev_cell(directory: Option<&Path>) -> Failure {
    let Some(directory) = directory else {
        let message = "no gateway is named, and without HOME no dev cell is known";
        let hint =
            "set HOME to your home directory, or say where a gateway is: --gateway HOST:PORT, or --dir DIR";
        return Failure::new(Code::Unreachable, message).with_hint(hint);
    };
    let message = format!("no gateway is named, and no dev cell is in {}", directory.display());
    let hint =
        "start one with `borough dev`, or say where a gateway is: --gateway HOST:PORT or BOROUGH_GATEWAY";
    Failure::new(Code::Unreachable, message).with_hint(hint)
}

/// The user of the request: `--user`, or that of the context, or that of a user's token or certificate, or the login
/// name in the form of a user name.
pub(crate) fn caller(global: &Global) -> Result<String, Failure> {
    let user = match context(global)? {
        Some(context) => context.user(global),
        None => global.user.clone(),
    };
    if let Some(user) = user {
        let checked = Name::new(user.as_str());
        checked.map_err(|error| Failure::new(Code::Usage, format!("the user {user:?} {error}")))?;
        return Ok(user);
    }
    Ok(credential_user(global).unwrap_or_else(login::user_name))
}

/// The user whom the credential is for, as it says itself. The gateway checks it; here it only saves an option. A
/// token counts before a certificate.
pub(crate) fn credential_user(global: &Global) -> Option<String> {
    let settings = settings(global).ok()?;
    match settings.token {
        Some(token) => token_user(&token),
        None => certificate_user(&settings.tls?),
    }
}

fn certificate_user(files: &TlsFiles) -> Option<String> {
    match files.holder()? {
        CertificateName::User(identity) => Some(identity.user.to_string()),
        _ => None,
    }
}

fn token_user(token: &NamedToken) -> Option<String> {
    let token = token.token.text().ok()?;
    let claims: serde_json::Value = jsonwebtoken::dangerous::insecure_decode_claims(token).ok()?;
    // The identity of a task has a SPIFFE ID as its subject, and says the user apart.
    let name = |claim: &str| Name::new(claims.get(claim)?.as_str()?).ok();
    Some(name("sub").or_else(|| name("user"))?.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dev_cells_gateway_is_known_by_each_of_its_names() {
        let known = ["127.0.0.1:7400".to_owned()];
        let own = |given: &[&str]| {
            let given: Vec<String> = given.iter().map(|&address| address.to_owned()).collect();
            own_addresses(&given, &known)
        };
        for name in ["127.0.0.1:7400", "localhost:7400", "http://127.0.0.1:7400", "http://localhost:7400/"] {
            assert_eq!(own(&[name]), Some(known.to_vec()), "{name}");
        }
        for other in ["localhost:7401", "[::1]:7400", "example.org:7400", "127.0.0.1:74000", "localhost", ""]
        {
            assert_eq!(own(&[other]), None, "{other}");
        }
        assert_eq!(own(&["localhost:7400", "example.org:7400"]), None, "one of them is foreign");
    }

    #[test]
    fn a_certificate_that_cannot_be_read_is_wrong_usage() {
        let files = |authorities: &str| TlsFiles {
            authorities: authorities.into(),
            certificate: None,
            key: None,
            revoked: None,
        };
        let missing = connector(Some(files("/nowhere/at/all.pem"))).err().unwrap();
        assert_eq!(missing.code(), Code::Usage);
        assert!(missing.hint().unwrap().contains("--tls-ca FILE"), "{missing:?}");
    }

    #[test]
    fn a_certificate_without_its_key_is_wrong_usage() {
        let key = || "key.pem".into();
        for error in [
            TlsError::Half,
            TlsError::Missing { path: "web.yaml".into(), what: "certificate in PEM" },
            TlsError::OtherKey { certificate: "own.pem".into(), key: key() },
            TlsError::Open { path: key(), mode: 0o644 },
        ] {
            assert_eq!(tls_refused(&error).code(), Code::Usage, "{error}");
        }
    }

    #[test]
    fn the_user_of_a_certificate_is_the_caller() {
        let directory = tempfile::tempdir().unwrap();
        let of = |uri: &str| {
            let mut parameters = rcgen::CertificateParams::default();
            parameters.subject_alt_names = vec![rcgen::SanType::URI(uri.try_into().unwrap())];
            let key = rcgen::KeyPair::generate().unwrap();
            let path = directory.path().join("own.pem");
            std::fs::write(&path, parameters.self_signed(&key).unwrap().pem()).unwrap();
            let certificate = Some(path);
            let authorities = directory.path().join("ca.pem");
            certificate_user(&TlsFiles { authorities, certificate, key: None, revoked: None })
        };
        assert_eq!(of("spiffe://example.org/user/zoe").as_deref(), Some("zoe"));
        assert_eq!(of("spiffe://example.org/operator"), None);
        assert_eq!(of("https://example.org/user/zoe"), None);
    }

    #[test]
    fn a_broken_dev_directory_is_wrong_usage_and_says_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        let read = |directory: &Path| dev_unreadable(directory, &ClientFile::read(directory).unwrap_err());
        let file = directory.path().join("file");
        std::fs::write(&file, "").unwrap();
        let failure = read(&file);
        assert_eq!(failure.code(), Code::Usage);
        assert!(
            failure.message().ends_with("file is no directory; accepted: that of a dev cell"),
            "{failure:?}"
        );
        std::fs::write(directory.path().join("client.json"), "{").unwrap();
        let failure = read(directory.path());
        assert_eq!(failure.code(), Code::Usage);
        assert!(
            failure.hint().unwrap().starts_with("remove the file, and start its cell again"),
            "{failure:?}"
        );
    }

    #[test]
    fn plain_text_to_an_encrypted_port_says_so_first() {
        let line = "borough --gateway 127.0.0.1:7401 --token-file t node list";
        let global = crate::args::Arguments::read(line.split_whitespace()).unwrap().global;
        let text = "127.0.0.1:7401 is no gateway, but a service that speaks otherwise; accepted: a gateway";
        let told = encryption_explained(&global, Failure::new(Code::Unreachable, text));
        let expected =
            "127.0.0.1:7401 speaks TLS or is no gateway: give --tls-ca FILE if it has a certificate";
        assert_eq!((told.message(), told.code()), (expected, Code::Unreachable));
    }

    #[test]
    fn encryption_is_not_said_of_a_port_that_answers_without_it() {
        let line = "borough --gateway 127.0.0.1:7401 --token-file t node list";
        let global = crate::args::Arguments::read(line.split_whitespace()).unwrap().global;
        let details = |text: String| {
            encryption_explained(&global, Failure::new(Code::Unreachable, text)).details().len()
        };
        let wrong = |what| {
            let gateways = vec!["127.0.0.1:7401".to_owned()];
            details(borough_client::ClientError::NotGateway { gateways, what }.to_string())
        };
        assert_eq!(wrong("the HTTP port of a gateway"), 0);
        assert_eq!(wrong("no gateway, but a web server or another service"), 1, "it may be encrypted");
        assert_eq!(details("no gateway answers at 127.0.0.1:7401 (it closed the connection)".to_owned()), 1);
    }
}
