//! Verbs on the certificate authority of a small set-up.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use borough_model::Name;
use borough_model::access::Identity;
use borough_proto::tls::CertificateName;
use clap::{Args, Subcommand};

/// What the files are for.
const CA_NOTES: &str = "DIR/ca.pem is what everybody trusts, DIR/crl.pem lists what was revoked, and DIR/ca.key makes \
    certificates: keep it off the gateways.";
const ISSUE_NOTES: &str = "Writes ca.pem, cert.pem and key.pem into the directory of --to. Roles and verbs take them with \
    --tls-ca, --tls-cert and --tls-key, and read them again when they change.";

/// Verbs on a certificate authority.
#[derive(Debug, Subcommand)]
pub enum CaVerb {
    /// Make an authority in a new directory
    #[command(after_help = CA_NOTES)]
    Init {
        /// The directory of the authority
        #[arg(long, value_name = "DIR")]
        ca: PathBuf,
        /// The trust domain in the names of certificates, such as example.org
        #[arg(long, value_name = "DOMAIN", default_value = "borough")]
        domain: String,
    },
    /// Issue a certificate, or renew one
    #[command(after_help = ISSUE_NOTES)]
    Issue(Box<CaIssueArguments>),
    /// Revoke the certificates of a name, or one of them; gateways cut its connections within seconds
    Revoke {
        /// The directory of the authority
        #[arg(long, value_name = "DIR")]
        ca: PathBuf,
        /// What `auth ca list` shows: a name such as user/ann, or a serial number
        certificate: String,
    },
    /// List the certificates of an authority
    List {
        /// The directory of the authority
        #[arg(long, value_name = "DIR")]
        ca: PathBuf,
    },
}

/// `auth ca issue`.
#[derive(Clone, Debug, Args)]
pub struct CaIssueArguments {
    /// gateway, control (schedulers and controllers), operator, user/NAME, or CELL/NODE of an agent
    #[arg(value_parser = holder)]
    pub holder: CertificateName,
    /// The directory of the authority
    #[arg(long, value_name = "DIR")]
    pub ca: PathBuf,
    /// Write the certificate and its key into this directory
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// A name under which others reach the server; repeat for more
    #[arg(long = "dns", value_name = "HOST")]
    pub names: Vec<String>,
    /// An address under which others reach the server; repeat for more
    #[arg(long = "ip", value_name = "ADDRESS")]
    pub addresses: Vec<IpAddr>,
    /// A group of the user; repeat for more
    #[arg(long = "group", value_name = "NAME")]
    pub groups: Vec<Name>,
    /// For how long the certificate is valid, from a minute to 825 days
    #[arg(long, value_name = "TIME", default_value = "90d", value_parser = validity)]
    pub expires: Duration,
    /// Replace the certificate and the key in that directory
    #[arg(long)]
    pub renew: bool,
}

fn holder(text: &str) -> Result<CertificateName, String> {
    let accepted = "accepted: gateway, control, operator, user/NAME, or CELL/NODE";
    // The name is a part of what was typed, which the message begins with.
    let name = |part: &str| Name::new(part).map_err(|error| format!("the name {part:?} {error}"));
    match text.split_once('/') {
        Some(("user", user)) => {
            Ok(CertificateName::User(Identity { user: name(user)?, groups: BTreeSet::new() }))
        }
        Some((cell, node)) => Ok(CertificateName::Node { cell: name(cell)?, node: name(node)? }),
        None => match text {
            "gateway" => Ok(CertificateName::Gateway),
            "control" => Ok(CertificateName::Control),
            "operator" => Ok(CertificateName::Operator),
            _ => Err(accepted.to_owned()),
        },
    }
}

/// The longest time is that which browsers and their authorities keep to.
fn validity(text: &str) -> Result<Duration, String> {
    const SHORTEST: Duration = Duration::from_secs(60);
    const LONGEST: Duration = Duration::from_secs(825 * 24 * 3_600);
    let time = humantime::parse_duration(text).ok().filter(|time| (SHORTEST..=LONGEST).contains(time));
    time.ok_or_else(|| "accepted: a time from 1m to 825d, such as 90d".to_owned())
}
