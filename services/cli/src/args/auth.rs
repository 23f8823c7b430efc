//! Verbs on rights: who may do what in a cell.

use std::path::PathBuf;
use std::time::Duration;

use borough_model::Name;
use borough_model::access::{AccessRole, AccessSubject, Right};
use clap::{Args, Subcommand};

use super::ca::CaVerb;
use super::list::{ListArguments, word_refusal};

/// What a grant is.
const GRANT_NOTES: &str = "Nobody has a right that no grant gives, and a right that any grant of a user or of one of \
    the user's groups denies is denied. `borough auth roles` lists roles and rights. A grant holds at every gateway \
    within seconds.";
/// What can be asked.
const ACTION_NOTES: &str = "ACTION is a right, such as read, or a method of the API, such as StopJob.";

/// What a login needs and does.
const LOGIN_NOTES: &str = "The token goes into the file that --token-file or the context names. Commands that use the file \
    renew the token a minute before it ends, until the provider ends the login. Gateways must accept the issuer, with \
    the client id as the audience: borough gateway --issuer FILE.";

/// Verbs on rights.
#[derive(Debug, Subcommand)]
pub enum AuthVerb {
    /// Show who the credential says you are, and which rights you have
    Whoami,
    /// Log in at an OpenID provider, by a code that you enter in a browser
    #[command(after_help = LOGIN_NOTES)]
    Login(LoginArguments),
    /// Remove the token of a login, and end the login at its provider
    Logout,
    /// Ask whether you may do something: ends with 0 if so, and with 1 if not
    #[command(name = "can-i", after_help = ACTION_NOTES)]
    CanI(CanIArguments),
    /// List the users and groups that may do something
    #[command(name = "who-can", after_help = ACTION_NOTES)]
    WhoCan {
        /// A right, or a method of the API
        action: String,
        /// The user whose jobs it concerns [default: everybody]
        #[arg(long, value_name = "USER")]
        owner: Option<Name>,
    },
    /// List the grants of the cell, or show one with its last changes
    Grants {
        /// user/NAME or group/NAME [default: all]
        subject: Option<AccessSubject>,
        #[command(flatten)]
        list: ListArguments,
    },
    /// Add roles and rights to the grant of a user or a group
    #[command(after_help = GRANT_NOTES)]
    Grant(GrantArguments),
    /// Take roles and rights out of the grant of a user or a group
    #[command(after_help = GRANT_NOTES)]
    Revoke(RevokeArguments),
    /// List the roles with their rights
    Roles,
    /// Make the key of an issuer of tokens, and the file by which gateways accept them
    Issuer(IssuerArguments),
    /// Make a token of a user with the key of an issuer
    Token(UserTokenArguments),
    /// Issue, renew and revoke certificates of a small set-up
    #[command(subcommand)]
    Ca(CaVerb),
    /// List and rotate the keys that sign the identities of tasks
    #[command(subcommand)]
    Keys(KeysVerb),
}

/// When to rotate, and how.
const ROTATE_NOTES: &str = "The cell rotates its keys every 30 days by itself. After --withdraw a task gets a token of the \
    new key when its agent renews it, after half of the ttl, or when it is restarted.";

/// Verbs on the keys of identities.
#[derive(Debug, Subcommand)]
pub enum KeysVerb {
    /// List the public keys, and what each does
    List,
    /// Make another key before it is due; those before it stay until their last token has ended
    #[command(after_help = ROTATE_NOTES)]
    Rotate {
        /// Publish the new key for this time before it signs, 0s to 7d
        #[arg(long, value_name = "TIME", default_value = "1h", value_parser = ahead)]
        ahead: Duration,
        /// A key is stolen: the new one signs at once, and no token of those before it counts any more
        #[arg(long, conflicts_with = "ahead")]
        withdraw: bool,
    },
}

fn ahead(text: &str) -> Result<Duration, String> {
    super::number::time_within(text, &(0..=7 * 86_400_000), "0s to 7d")
}

/// `auth can-i`.
#[derive(Clone, Debug, Args)]
pub struct CanIArguments {
    /// A right, or a method of the API
    pub action: String,
    /// The user whose jobs it concerns [default: your own]
    #[arg(long, value_name = "USER")]
    pub owner: Option<Name>,
    /// Ask for user/NAME or group/NAME; needs the right read
    #[arg(long = "as", value_name = "SUBJECT")]
    pub subject: Option<AccessSubject>,
    /// A group of that user; repeat for more
    #[arg(long = "group", value_name = "NAME", requires = "subject")]
    pub groups: Vec<Name>,
}

/// `auth login`.
#[derive(Clone, Debug, Args)]
pub struct LoginArguments {
    /// The address of the provider, https://... [default: that of the last login]
    #[arg(long, value_name = "URL", requires = "client_id")]
    pub issuer: Option<String>,
    /// What the provider calls this program [default: that of the last login]
    #[arg(long, value_name = "ID", requires = "issuer")]
    pub client_id: Option<String>,
    /// Ask for this scope; repeat for more [default: openid, and what the provider has of email, groups and
    /// offline_access]
    #[arg(long = "scope", value_name = "SCOPE", requires = "issuer")]
    pub scopes: Vec<String>,
    /// The authorities of the provider's certificate, as PEM [default: those of this system]
    #[arg(long, value_name = "FILE", requires = "issuer")]
    pub provider_ca: Option<PathBuf>,
}

/// Entries of a grant.
#[derive(Clone, Debug, Default, Args)]
pub struct GrantEntries {
    /// viewer, runner, maintainer or admin; repeat for more
    #[arg(long = "role", value_name = "ROLE", value_parser = role)]
    pub roles: Vec<AccessRole>,
    /// A right beside those of the roles; repeat for more
    #[arg(long = "allow", value_name = "RIGHT", value_parser = right)]
    pub allow: Vec<Right>,
    /// A right that the subject never has; repeat for more
    #[arg(long = "deny", value_name = "RIGHT", value_parser = right)]
    pub deny: Vec<Right>,
}

impl GrantEntries {
    /// Returns true if nothing is named.
    pub fn is_empty(&self) -> bool {
        self.roles.is_empty() && self.allow.is_empty() && self.deny.is_empty()
    }
}

/// `auth grant`.
#[derive(Clone, Debug, Args)]
pub struct GrantArguments {
    /// user/NAME or group/NAME
    pub subject: AccessSubject,
    #[command(flatten)]
    pub entries: GrantEntries,
}

/// `auth revoke`.
#[derive(Clone, Debug, Args)]
pub struct RevokeArguments {
    /// user/NAME or group/NAME
    pub subject: AccessSubject,
    #[command(flatten)]
    pub entries: GrantEntries,
    /// Take the whole grant away
    #[arg(long, conflicts_with_all = ["roles", "allow", "deny"])]
    pub all: bool,
}

/// `auth issuer`.
#[derive(Clone, Debug, Args)]
pub struct IssuerArguments {
    /// The issuer's name, as the claim `iss` of its tokens says it
    #[arg(long, value_name = "NAME", default_value = "borough")]
    pub issuer: String,
    /// Write the secret key here: whoever has it can make tokens of every user
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// Write the file for gateways here: borough gateway --issuer FILE
    #[arg(long, value_name = "FILE")]
    pub to: PathBuf,
}

/// `auth token`.
#[derive(Clone, Debug, Args)]
pub struct UserTokenArguments {
    /// The user's name
    pub user_name: Name,
    /// A group of the user; repeat for more
    #[arg(long = "group", value_name = "NAME")]
    pub groups: Vec<Name>,
    /// The secret key of the issuer, as `borough auth issuer` wrote it
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// For how long the token is valid, from a minute to 90 days
    #[arg(long, value_name = "TIME", default_value = "12h", value_parser = validity)]
    pub expires: Duration,
    /// Write the token here
    #[arg(long, value_name = "FILE")]
    pub to: PathBuf,
}

fn role(text: &str) -> Result<AccessRole, String> {
    AccessRole::from_name(text).ok_or_else(|| word_refusal(text, &AccessRole::ALL.map(AccessRole::name)))
}

fn right(text: &str) -> Result<Right, String> {
    Right::from_name(text).ok_or_else(|| word_refusal(text, &Right::ALL.map(Right::name)))
}

/// A token that is valid for longer would better be a client certificate.
fn validity(text: &str) -> Result<Duration, String> {
    const SHORTEST: Duration = Duration::from_secs(60);
    const LONGEST: Duration = Duration::from_secs(90 * 24 * 3_600);
    let time = humantime::parse_duration(text).ok().filter(|time| (SHORTEST..=LONGEST).contains(time));
    time.ok_or_else(|| "accepted: a time from 1m to 90d, such as 12h".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_or_a_right_that_nobody_knows_is_refused_with_the_near_one() {
        let refused = role("runnr").unwrap_err();
        assert!(refused.starts_with(", did you mean \"runner\"?; accepted: viewer, "), "{refused}");
        assert!(role("zzz").unwrap_err().starts_with("accepted: viewer, "));
        assert!(right("administr").unwrap_err().starts_with(", did you mean \"administer\"?; accepted: "));
    }
}
