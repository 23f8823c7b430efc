//! `auth login` and `auth logout`, and the renewal of a token before a command that uses it.

use std::path::{Path, absolute};

use borough_kv::env::SystemClock;
use borough_proto::tls::HandshakeError;
use borough_store::error_chain;
use http::Uri;

use super::block_on;
use crate::args::{AuthVerb, Global, LoginArguments, Verb, value_shown};
use crate::connect;
use crate::exit::{Code, Failure};
use crate::login::{LoginCode, LoginError, LoginFile, LoginProvider, LoginRecord};
use crate::output::{Printer, line_shown, time};
use crate::provider::ProviderError;

/// Logs a person in, and keeps the token in its file.
pub(super) async fn login(
    global: &Global,
    arguments: LoginArguments,
    printer: &Printer,
) -> Result<Code, Failure> {
    let token = connect::login_token(global)?;
    let file = LoginFile::of(&token);
    let _lock = file.lock().map_err(|error| refused(error.into()))?;
    let last = file.read().map_err(|error| refused(error.into()))?;
    let wanted = wanted(arguments, last, &token)?;
    issuer_check(&wanted.issuer)?;
    let provider = LoginProvider::find(&wanted.issuer, wanted.provider_ca.as_deref());
    let provider = provider.await.map_err(refused)?;
    let scopes = if wanted.scopes.is_empty() { provider.scopes() } else { wanted.scopes.clone() };
    let show = |code: &LoginCode| printer.remark(&code_text(code));
    let given = provider.by_code(&wanted.client_id, &scopes, show).await.map_err(refused)?;
    let renews = given.refresh_token.is_some();
    // The refresh token of a login before is of that login.
    let record = LoginRecord { scopes, refresh_token: None, ..wanted };
    file.write(&given, record).map_err(|error| refused(error.into()))?;
    let by_itself = if renews { "commands renew it" } else { "then log in again" };
    printer.remark(&format!(
        "logged in; the token is in {} until {}, {by_itself}\nhint: borough auth whoami",
        line_shown(&token.to_string_lossy()),
        time(given.expires_ms),
    ));
    Ok(Code::Done)
}

/// Removes the token of a login. The provider is asked to end the login, and the files go in any case.
pub(super) async fn logout(global: &Global, printer: &Printer) -> Result<Code, Failure> {
    let token = connect::login_token(global)?;
    let file = LoginFile::of(&token);
    let read = file.read().map_err(|error| refused(error.into()))?;
    let shown = line_shown(&token.to_string_lossy()).into_owned();
    let Some(record) = read else {
        return Err(Failure::new(Code::NotFound, format!("the token in {shown} is of no login"))
            .with_hint("borough auth login --issuer URL --client-id ID"));
    };
    let ended = login_end(&record).await;
    file.remove().map_err(|error| refused(error.into()))?;
    printer.remark(&format!("logged out; {shown} is removed"));
    match ended {
        Ok(()) => Ok(Code::Done),
        Err(error) => {
            let failure = refused(error);
            let text = format!("the provider may not have ended the login: {}", failure.message());
            Err(Failure::new(Code::Failed, text).with_hint(format!("end it at {}", record.issuer)))
        }
    }
}

async fn login_end(record: &LoginRecord) -> Result<(), LoginError> {
    let Some(refresh) = record.refresh_token.clone() else { return Ok(()) };
    let provider = LoginProvider::find(&record.issuer, record.provider_ca.as_deref()).await?;
    provider.end(&record.client_id, refresh).await
}

/// Renews the token of a login if it ends soon, before a verb that shows it to a gateway. If that fails, the verb goes
/// on: the token may last long enough, or the gateway says that it has ended.
pub(super) fn renewed(global: &Global, verb: &Verb, printer: &Printer) {
    if !shows_token(verb) {
        return;
    }
    let Some(token) = connect::token_path(global) else { return };
    let file = LoginFile::of(&token);
    // Nearly every command ends here, without a runtime.
    if file.read().is_ok_and(|record| record.is_none()) {
        return;
    }
    let now_ms = SystemClock::shared().wall_ms();
    let renew = async {
        if let Err(error) = file.renew_due(now_ms).await {
            let shown = line_shown(&token.to_string_lossy()).into_owned();
            let text = error_chain(&error);
            printer.remark(&format!("the token in {shown} is not renewed: {text}\nhint: borough auth login"));
        }
        Ok(Code::Done)
    };
    // A runtime that cannot start is reported by the verb, which needs one too.
    block_on(renew).ok();
}

/// Whether a verb calls a gateway as its user. Roles have credentials of their own.
fn shows_token(verb: &Verb) -> bool {
    match verb {
        Verb::Job(_)
        | Verb::Rollout(_)
        | Verb::Task(_)
        | Verb::Why(_)
        | Verb::Node(_)
        | Verb::Cell(_)
        | Verb::Quota(_)
        | Verb::Audit(_)
        | Verb::Name(_)
        | Verb::Event(_)
        | Verb::Top(_) => true,
        Verb::Federation(arguments) => arguments.verb.is_some(),
        Verb::Auth(verb) => !matches!(
            verb,
            AuthVerb::Login(_)
                | AuthVerb::Logout
                | AuthVerb::Roles
                | AuthVerb::Issuer(_)
                | AuthVerb::Token(_)
                | AuthVerb::Ca(_)
        ),
        _ => false,
    }
}

/// The login that the arguments ask for, or the last one once more.
fn wanted(
    arguments: LoginArguments,
    last: Option<LoginRecord>,
    token: &Path,
) -> Result<LoginRecord, Failure> {
    let LoginArguments { issuer, client_id, scopes, provider_ca } = arguments;
    let (Some(issuer), Some(client_id)) = (issuer, client_id) else {
        return last.ok_or_else(|| {
            let token = token.to_string_lossy();
            let text = format!("{} has no login yet; give --issuer and --client-id", line_shown(&token));
            Failure::new(Code::Usage, text).with_hint("borough auth login --help")
        });
    };
    // A later command may run in another directory.
    let provider_ca = provider_ca.map(|path| absolute(&path).unwrap_or(path));
    Ok(LoginRecord { issuer, client_id, scopes, provider_ca, refresh_token: None, expires_ms: 0 })
}

/// Refuses an issuer that is no address, as it was typed.
fn issuer_check(issuer: &str) -> Result<(), Failure> {
    let has_host =
        |uri: &Uri| uri.scheme_str() == Some("https") && uri.host().is_some_and(|host| !host.is_empty());
    if issuer.parse::<Uri>().is_ok_and(|uri| has_host(&uri)) {
        return Ok(());
    }
    let text = format!("--issuer: {}; accepted: a URL such as https://id.example.org", value_shown(issuer));
    Err(Failure::new(Code::Usage, text).with_hint("borough auth login --help"))
}

/// What a person has to do, in words of this program around those of the provider.
fn code_text(code: &LoginCode) -> String {
    let (address, word) = (line_shown(&code.address), line_shown(&code.code));
    let mut text = format!("open {address} in a browser, and enter the code {word}");
    if let Some(whole) = &code.address_with_code {
        text.push_str(&format!("\nor open {}", line_shown(whole)));
    }
    text
}

fn refused(error: LoginError) -> Failure {
    let code = match &error {
        LoginError::Provider(
            ProviderError::Silent { .. } | ProviderError::Slow { .. } | ProviderError::Encryption { .. },
        ) => Code::Unreachable,
        LoginError::Provider(
            ProviderError::Address(_)
            | ProviderError::Authorities { .. }
            | ProviderError::NoAuthority(_)
            | ProviderError::OtherIssuer { .. },
        ) => Code::Usage,
        LoginError::Denied | LoginError::Ended { .. } | LoginError::Client { .. } => Code::NotAllowed,
        _ => Code::Failed,
    };
    let hint = match &error {
        LoginError::Denied | LoginError::Late | LoginError::Ended { .. } => "borough auth login",
        LoginError::NoCode { .. } => "get a token from the provider, and name its file: --token-file FILE",
        LoginError::Client { .. } => {
            "register the client at the provider for device codes, as a public client without a secret"
        }
        LoginError::Provider(
            ProviderError::System(_) | ProviderError::Encryption { why: HandshakeError::OtherAuthority, .. },
        ) => "if the provider has a certificate of an authority of your own: --provider-ca FILE",
        _ => return Failure::new(code, line_shown(&error_chain(&error)).into_owned()),
    };
    Failure::new(code, line_shown(&error_chain(&error)).into_owned()).with_hint(hint)
}
