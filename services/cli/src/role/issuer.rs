//! Issuers of tokens: the files by which gateways trust them, and tokens of a small set-up's own issuer.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use borough_gateway::auth::{IssuerSettings, Issuers, public_jwk};
use borough_kv::env::SystemClock;
use borough_kv::secret::{SecretError, private_text_read};
use borough_store::error_chain;
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use serde::Serialize;

use super::issuer_keys::KeyFollower;
use super::{failed, files_follow, files_private, there_already};
use crate::args::{IssuerArguments, UserTokenArguments};
use crate::exit::{Code, Failure};
use crate::output::{Printer, time};
use crate::own_file::own_file_read;

/// The audience of tokens that the program makes itself.
const AUDIENCE: &str = "borough";
/// The longest file with a key, in bytes.
const KEY_BYTES_MAX: u64 = 16_384;
/// The line before the key in its file, which says whose tokens it signs.
const ISSUER_LINE: &str = "issuer ";

/// The issuers of files, which are read again when they change. Must run inside a runtime.
pub(super) fn issuers_read(paths: &[PathBuf]) -> Result<Issuers, Failure> {
    let issuers = Issuers::default();
    if paths.is_empty() {
        return Ok(issuers);
    }
    issuers_load(paths, &issuers)?;
    let (files, known) = (paths.to_vec(), issuers.clone());
    tokio::spawn(KeyFollower::new(issuers.clone(), SystemClock::shared()).run());
    // An invalid file changes nothing.
    tokio::spawn(files_follow(paths.to_vec(), move || match issuers_load(&files, &known) {
        Ok(()) => tracing::info!(files = files.len(), "issuers of tokens read again"),
        Err(failure) => tracing::warn!(problem = failure.message(), "issuers of tokens stay as they were"),
    }));
    Ok(issuers)
}

/// Refuses issuers that gateways could not use, before anything is opened.
pub(super) fn issuers_check(paths: &[PathBuf]) -> Result<(), Failure> {
    issuers_load(paths, &Issuers::default())
}

fn issuers_load(paths: &[PathBuf], issuers: &Issuers) -> Result<(), Failure> {
    let read = |path: &PathBuf| {
        let refused = |text: String| {
            Failure::new(Code::Usage, text)
                .with_hint("borough auth issuer --help; docs/access.md shows a file")
        };
        let settings: Option<IssuerSettings> =
            own_file_read(path).map_err(|error| refused(error.to_string()))?;
        let settings =
            settings.ok_or_else(|| refused(format!("{}: there is no such file", path.display())))?;
        // Each by itself first, so that an error names its file.
        let alone = Issuers::default().replace(vec![settings.clone()]);
        alone.map_err(|error| refused(format!("{}: {error}", path.display())))?;
        Ok(settings)
    };
    let settings = paths.iter().map(read).collect::<Result<Vec<_>, Failure>>()?;
    issuers.replace(settings).map_err(|error| failed("the issuers cannot be used", &error))
}

/// `auth issuer`: makes a key, and the file by which gateways accept its tokens.
pub(crate) fn issuer_create(arguments: &IssuerArguments, printer: &Printer) -> Result<Code, Failure> {
    files_private();
    let IssuerArguments { issuer, key, to } = arguments;
    if issuer.is_empty() || issuer.chars().any(char::is_control) {
        let text =
            format!("--issuer: {issuer:?}; accepted: a text on one line, such as https://id.example.org");
        return Err(Failure::new(Code::Usage, text));
    }
    let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)
        .map_err(|error| failed("cannot make a key", &error))?;
    let signing = EncodingKey::from_ec_pem(pair.serialize_pem().as_bytes());
    let signing = signing.map_err(|error| failed("cannot use the new key", &error))?;
    let jwk = public_jwk(&signing).map_err(|error| failed("cannot use the new key", &error))?;
    let settings = IssuerSettings {
        issuer: issuer.clone(),
        audience: AUDIENCE.to_owned(),
        user_claim: "sub".to_owned(),
        groups_claim: "groups".to_owned(),
        jwks: Some(JwkSet { keys: vec![jwk] }),
        jwks_url: None,
        jwks_ca: None,
    };
    let file =
        serde_json::to_string_pretty(&settings).map_err(|error| failed("cannot write the issuer", &error))?;
    new_file(key, 0o600, &format!("{ISSUER_LINE}{issuer}\n{}", pair.serialize_pem()))?;
    new_file(to, 0o644, &format!("{file}\n")).inspect_err(|_| {
        // A key without its file would be taken for one that gateways accept.
        std::fs::remove_file(key).ok();
    })?;
    printer.remark(&format!(
        "wrote {}, for gateways with --issuer {}, and the secret key {}\nhint: borough auth token USER --key {} --to FILE",
        to.display(),
        to.display(),
        key.display(),
        key.display()
    ));
    Ok(Code::Done)
}

/// The claims of a token (RFC 7519). Times are seconds since 1970.
#[derive(Serialize)]
struct TokenClaims<'a> {
    iss: &'a str,
    aud: &'static str,
    sub: String,
    groups: Vec<String>,
    iat: i64,
    exp: i64,
}

/// `auth token`: makes a token of a user.
pub(crate) fn user_token(arguments: &UserTokenArguments, printer: &Printer) -> Result<Code, Failure> {
    files_private();
    let UserTokenArguments { user_name, groups, key, expires, to } = arguments;
    let text = private_text_read(key, KEY_BYTES_MAX).map_err(key_refused)?;
    let not_ours = || {
        let text = format!("{} is no key of an issuer", key.display());
        Failure::new(Code::Usage, text).with_hint("make one: borough auth issuer --key FILE --to FILE")
    };
    let (issuer, pem) =
        text.strip_prefix(ISSUER_LINE).and_then(|rest| rest.split_once('\n')).ok_or_else(not_ours)?;
    let signing = EncodingKey::from_ec_pem(pem.as_bytes()).map_err(|_| not_ours())?;
    let kid = public_jwk(&signing).map_err(|_| not_ours())?.common.key_id;
    let header = Header { kid, ..Header::new(Algorithm::ES256) };
    let iat = SystemClock::shared().wall_ms() / 1_000;
    let lasts = i64::try_from(expires.as_secs()).unwrap_or(0);
    let claims = TokenClaims {
        iss: issuer,
        aud: AUDIENCE,
        sub: user_name.to_string(),
        groups: groups.iter().map(ToString::to_string).collect(),
        iat,
        exp: iat.saturating_add(lasts),
    };
    let token = jsonwebtoken::encode(&header, &claims, &signing);
    let token = token.map_err(|error| failed("cannot sign the token", &error))?;
    new_file(to, 0o600, &format!("{token}\n"))?;
    let until = time(claims.exp.saturating_mul(1_000));
    printer.remark(&format!("wrote {}, a token of {user_name}, valid until {until}", to.display()));
    Ok(Code::Done)
}

fn key_refused(error: SecretError) -> Failure {
    let failure = Failure::new(Code::Usage, error_chain(&error));
    match error {
        SecretError::Open { path, .. } => failure.with_hint(format!("chmod 600 {}", path.display())),
        SecretError::Io { .. } => failure
            .with_hint("name the key of an issuer, or make one: borough auth issuer --key FILE --to FILE"),
        _ => failure,
    }
}

/// Writes a file that must not exist.
pub(super) fn new_file(path: &Path, mode: u32, text: &str) -> Result<(), Failure> {
    let write = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => there_already(path),
        _ => failed(&format!("cannot write {}", path.display()), &error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_read_is_wrong_usage() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("nokey");
        let refused = key_refused(private_text_read(&missing, KEY_BYTES_MAX).unwrap_err());
        assert_eq!(refused.code(), Code::Usage);
        assert!(refused.hint().unwrap().contains("borough auth issuer --key FILE"), "{refused:?}");
        let wrong = directory.path().join("issuer.json");
        std::fs::write(&wrong, "issuer").unwrap();
        for path in [missing, wrong] {
            assert_eq!(issuers_check(&[path]).unwrap_err().code(), Code::Usage);
        }
    }
}
