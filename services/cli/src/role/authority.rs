//! The certificate authority of a small set-up: a directory with its key, its list of what it has issued, and the list
//! of revoked certificates.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use borough_kv::env::SystemClock;
use borough_kv::secret::private_text_read;
use borough_model::Name;
use borough_proto::tls::{CertificateName, serial_of};
use borough_store::error_chain;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, RevocationReason,
    RevokedCertParams, SanType, SerialNumber,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde::{Deserialize, Serialize};

use super::issuer::new_file;
use super::{failed, files_private, there_already};
use crate::args::{CaIssueArguments, CaVerb};
use crate::exit::{Code, Failure};
use crate::output::{CertificateView, Printer, time};
use crate::own_file::{own_file_lock, own_file_read, own_file_write};

/// For how long an authority is valid.
const AUTHORITY_VALID: Duration = Duration::from_secs(10 * 365 * 24 * 3_600);
/// A certificate counts from a moment ago, since clocks differ.
const SKEW: Duration = Duration::from_secs(300);
/// The longest file with a key, in bytes.
const KEY_BYTES_MAX: u64 = 16_384;

/// The files of a certificate that is issued.
const FILES: [&str; 3] = ["key.pem", "cert.pem", "ca.pem"];

/// What an authority has issued.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IssuedFile {
    domain: String,
    certificates: Vec<IssuedCertificate>,
}

/// A certificate that an authority has issued. Times are seconds since 1970.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IssuedCertificate {
    /// In hexadecimal.
    serial: String,
    /// Such as `user/ann`.
    name: String,
    expires_s: u64,
    revoked_s: Option<u64>,
}

/// `auth ca`.
pub(crate) fn run(verb: &CaVerb, printer: &Printer) -> Result<Code, Failure> {
    files_private();
    match verb {
        CaVerb::Init { ca, domain } => init(ca, domain, printer)?,
        CaVerb::Issue(arguments) => Authority::open(&arguments.ca)?.issue(arguments, printer)?,
        CaVerb::Revoke { ca, certificate } => Authority::open(ca)?.revoke(certificate, printer)?,
        CaVerb::List { ca } => {
            let authority = Authority::open(ca)?;
            let now_s = now_s();
            let issued = authority.issued.certificates.iter();
            let views: Vec<CertificateView> = issued.map(|one| view_of(one, now_s)).collect();
            printer.list(&views, "the authority has issued nothing\nhint: borough auth ca issue --help")?;
        }
    }
    Ok(Code::Done)
}

fn view_of(issued: &IssuedCertificate, now_s: u64) -> CertificateView {
    let ms = |seconds: u64| i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX);
    let state = match issued.revoked_s {
        Some(_) => "revoked",
        None if issued.expires_s <= now_s => "expired",
        None => "valid",
    };
    CertificateView {
        name: issued.name.clone().into(),
        serial: issued.serial.clone().into(),
        state,
        expires_ms: ms(issued.expires_s),
        revoked_ms: issued.revoked_s.map(ms),
    }
}

fn now_s() -> u64 {
    u64::try_from(SystemClock::shared().wall_ms() / 1_000).unwrap_or(0)
}

/// A time as certificates have it.
macro_rules! at {
    ($seconds:expr) => {
        rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs($seconds)
    };
}

fn init(dir: &Path, domain: &str, printer: &Printer) -> Result<(), Failure> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_".contains(&byte);
    if domain.is_empty() || domain.len() > 255 || !domain.bytes().all(plain) {
        let text = format!(
            "--domain: {domain:?}; accepted: a trust domain such as example.org (a-z, 0-9, '.', '-', '_')"
        );
        return Err(Failure::new(Code::Usage, text));
    }
    fs::create_dir_all(dir).map_err(|error| failed(&format!("cannot make {}", dir.display()), &error))?;
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)
        .map_err(|error| failed("cannot make a key", &error))?;
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, format!("Borough authority of {domain}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    let now_s = now_s();
    params.not_before = at!(now_s.saturating_sub(SKEW.as_secs()));
    params.not_after = at!(now_s.saturating_add(AUTHORITY_VALID.as_secs()));
    let certificate =
        params.self_signed(&key).map_err(|error| failed("cannot sign the authority", &error))?;
    new_file(&dir.join("ca.key"), 0o600, &key.serialize_pem())?;
    new_file(&dir.join("ca.pem"), 0o644, &certificate.pem())?;
    let issued = IssuedFile { domain: domain.to_owned(), certificates: Vec::new() };
    write(&dir.join("issued.json"), &issued)?;
    Authority::open(dir)?.list_write()?;
    printer.remark(&format!(
        "made an authority in {0}\nhint: borough auth ca issue gateway --dns HOST --ca {0} --to DIR",
        dir.display()
    ));
    Ok(())
}

fn write(path: &Path, content: &impl Serialize) -> Result<(), Failure> {
    own_file_write(path, content).map_err(|error| failed(&format!("cannot write {}", path.display()), &error))
}

/// An authority while a verb uses it. Others wait.
struct Authority {
    dir: PathBuf,
    pem: String,
    issuer: Issuer<'static, KeyPair>,
    issued: IssuedFile,
    _lock: crate::own_file::OwnFileLock,
}

impl Authority {
    fn open(dir: &Path) -> Result<Self, Failure> {
        let none = |why: String| {
            Failure::new(Code::Refused, format!("no authority in {}: {why}", dir.display()))
                .with_hint(format!("make one: borough auth ca init --ca {}", dir.display()))
        };
        let register = dir.join("issued.json");
        if !register.is_file() {
            return Err(none(format!("{} is missing", register.display())));
        }
        let lock = own_file_lock(&register).map_err(|error| none(error.to_string()))?;
        let issued = own_file_read(&register).map_err(|error| none(error.to_string()))?;
        let issued: IssuedFile = issued.ok_or_else(|| none(format!("{} is missing", register.display())))?;
        let key = private_text_read(&dir.join("ca.key"), KEY_BYTES_MAX)
            .map_err(|error| none(error_chain(&error)))?;
        let key = KeyPair::from_pem(&key).map_err(|error| none(error.to_string()))?;
        let pem = fs::read_to_string(dir.join("ca.pem")).map_err(|error| none(error.to_string()))?;
        let issuer = Issuer::from_ca_cert_pem(&pem, key).map_err(|error| none(error.to_string()))?;
        Ok(Self { dir: dir.to_owned(), pem, issuer, issued, _lock: lock })
    }

    fn issue(mut self, arguments: &CaIssueArguments, printer: &Printer) -> Result<(), Failure> {
        let CaIssueArguments { to, expires, renew, .. } = arguments;
        let mut name = name_of(arguments)?;
        if *renew {
            groups_kept(&mut name, to);
        } else {
            places_free(to)?;
        }
        let now_s = now_s();
        let expires_s = now_s.saturating_add(expires.as_secs());
        let mut params = params_of(&self.issued.domain, &name, arguments)?;
        params.not_before = at!(now_s.saturating_sub(SKEW.as_secs()));
        params.not_after = at!(expires_s);
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)
            .map_err(|error| failed("cannot make a key", &error))?;
        let certificate =
            params.signed_by(&key, &self.issuer).map_err(|error| failed("cannot sign", &error))?;
        let serial = hex::encode(serial_of(certificate.der()));
        // Known before anybody can have it, so that it can be revoked.
        self.issued.certificates.push(IssuedCertificate {
            serial,
            name: name.path(),
            expires_s,
            revoked_s: None,
        });
        write(&self.dir.join("issued.json"), &self.issued)?;
        fs::create_dir_all(to).map_err(|error| failed(&format!("cannot make {}", to.display()), &error))?;
        let files = [(0o600, key.serialize_pem()), (0o644, certificate.pem()), (0o644, self.pem.clone())];
        for (file, (mode, text)) in FILES.into_iter().zip(files) {
            let path = to.join(file);
            if *renew { replaced(&path, mode, &text)? } else { new_file(&path, mode, &text)? }
        }
        let until = time(i64::try_from(expires_s.saturating_mul(1_000)).unwrap_or(i64::MAX));
        printer.remark(&format!(
            "wrote cert.pem, key.pem and ca.pem of {} into {}, valid until {until}",
            name.path(),
            to.display()
        ));
        Ok(())
    }

    fn revoke(mut self, wanted: &str, printer: &Printer) -> Result<(), Failure> {
        let now_s = now_s();
        // A node is called as for `issue`, too.
        let node = wanted.split_once('/').map(|(cell, node)| format!("cell/{cell}/node/{node}"));
        let is_meant = |one: &&mut IssuedCertificate| {
            one.name == wanted || one.serial == wanted || node.as_ref() == Some(&one.name)
        };
        let meant: Vec<&mut IssuedCertificate> =
            self.issued.certificates.iter_mut().filter(is_meant).collect();
        if meant.is_empty() {
            let text = format!("the authority has issued nothing that is called {wanted:?}");
            let hint = format!("borough auth ca list --ca {}", self.dir.display());
            return Err(Failure::new(Code::NotFound, text).with_hint(hint));
        }
        let (mut revoked, all) = (0, meant.len());
        for one in meant.into_iter().filter(|one| one.revoked_s.is_none()) {
            one.revoked_s = Some(now_s);
            revoked += 1;
        }
        write(&self.dir.join("issued.json"), &self.issued)?;
        self.list_write()?;
        printer.remark(&format!(
            "revoked {revoked} of {all} certificates of {wanted}; gateways need the new {} (--tls-crl)",
            self.dir.join("crl.pem").display()
        ));
        Ok(())
    }

    /// Writes the list of revoked certificates.
    fn list_write(&self) -> Result<(), Failure> {
        let revoked = self.issued.certificates.iter().filter_map(|one| {
            let serial = hex::decode(&one.serial).ok()?;
            Some(RevokedCertParams {
                serial_number: SerialNumber::from_slice(&serial),
                revocation_time: at!(one.revoked_s?),
                reason_code: Some(RevocationReason::KeyCompromise),
                invalidity_date: None,
            })
        });
        let now_s = now_s();
        let params = CertificateRevocationListParams {
            this_update: at!(now_s),
            next_update: at!(now_s.saturating_add(AUTHORITY_VALID.as_secs())),
            crl_number: SerialNumber::from_slice(&now_s.to_be_bytes()),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = params.signed_by(&self.issuer).and_then(|list| list.pem());
        let list = list.map_err(|error| failed("cannot sign the list of revoked certificates", &error))?;
        replaced(&self.dir.join("crl.pem"), 0o644, &list)
    }
}

/// Refuses a directory that has one of the files, before anything is recorded as issued.
fn places_free(to: &Path) -> Result<(), Failure> {
    let taken = FILES.iter().map(|file| to.join(file)).find(|path| path.symlink_metadata().is_ok());
    let renewed = "name another directory, or renew the certificate in this one: --renew";
    taken.map_or(Ok(()), |path| Err(there_already(&path).with_hint(renewed)))
}

/// Whose the certificate is, with the groups of a user.
fn name_of(arguments: &CaIssueArguments) -> Result<CertificateName, Failure> {
    let CaIssueArguments { holder, names, addresses, groups, .. } = arguments;
    let is_server = matches!(holder, CertificateName::Gateway | CertificateName::Control);
    let has_place = !names.is_empty() || !addresses.is_empty();
    if is_server && !has_place {
        let text =
            "a server needs a name or an address under which others reach it: --dns HOST or --ip ADDRESS";
        return Err(Failure::new(Code::Usage, text));
    }
    if !is_server && has_place {
        return Err(Failure::new(Code::Usage, "only a server has --dns and --ip: gateway or control"));
    }
    let mut name = holder.clone();
    match &mut name {
        CertificateName::User(identity) => identity.groups.extend(groups.iter().cloned()),
        _ if !groups.is_empty() => {
            return Err(Failure::new(Code::Usage, "only a user has groups: user/NAME"));
        }
        _ => {}
    }
    Ok(name)
}

/// A renewed certificate keeps the groups of the one before, unless others are given.
fn groups_kept(name: &mut CertificateName, to: &Path) {
    let CertificateName::User(identity) = name else { return };
    let before = fs::read(to.join("cert.pem")).ok().and_then(|pem| CertificateDer::from_pem_slice(&pem).ok());
    let before = before.and_then(|certificate| CertificateName::of(&certificate, None).ok());
    if let (true, Some(CertificateName::User(before))) = (identity.groups.is_empty(), before) {
        identity.groups = before.groups;
    }
}

/// Refuses what is no name of a host, as others would ask for it. `*.` may stand in front.
fn host_check(host: &str) -> Result<(), Failure> {
    let is_label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=63).contains(&label.len())
            && label.bytes().all(plain)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let plain = host.strip_prefix("*.").unwrap_or(host).trim_end_matches('.');
    if host.len() <= 253 && plain.split('.').all(is_label) {
        return Ok(());
    }
    let message = format!("--dns: {host:?}; accepted: the name of a host, such as gate-1.example.org");
    Err(Failure::new(Code::Usage, message))
}

/// What a certificate says, without its times.
fn params_of(
    domain: &str,
    name: &CertificateName,
    arguments: &CaIssueArguments,
) -> Result<CertificateParams, Failure> {
    let refused = |what: &str| Failure::new(Code::Usage, format!("{what}: accepted: a name in ASCII"));
    let mut params = CertificateParams::default();
    let uri = format!("spiffe://{domain}/{}", name.path());
    params
        .subject_alt_names
        .push(SanType::URI(uri.as_str().try_into().map_err(|_| refused("the trust domain"))?));
    for host in &arguments.names {
        host_check(host)?;
        params
            .subject_alt_names
            .push(SanType::DnsName(host.as_str().try_into().map_err(|_| refused("--dns"))?));
    }
    params.subject_alt_names.extend(arguments.addresses.iter().copied().map(SanType::IpAddress));
    params.distinguished_name.push(DnType::CommonName, name.path());
    if let CertificateName::User(identity) = name {
        // One unit for all: a name that is made here has each kind of part once.
        let groups: Vec<&str> = identity.groups.iter().map(Name::as_str).collect();
        if !groups.is_empty() {
            params.distinguished_name.push(DnType::OrganizationalUnitName, groups.join(","));
        }
    }
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    // Gateways are clients of one another. Nobody else can pose as a server.
    params.extended_key_usages = match name {
        CertificateName::Gateway | CertificateName::Control => {
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth]
        }
        _ => vec![ExtendedKeyUsagePurpose::ClientAuth],
    };
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

/// Writes a file in one step, also over one that is there: a reader sees the old one or the new one.
fn replaced(path: &Path, mode: u32, text: &str) -> Result<(), Failure> {
    let beside = path.with_extension("new");
    let unwritten = |error: io::Error| failed(&format!("cannot write {}", path.display()), &error);
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(unwritten(error)),
        _ => {}
    }
    new_file(&beside, mode, text)?;
    fs::rename(&beside, path).map_err(unwritten)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::TypedOptions;

    #[test]
    fn a_certificate_has_names_of_hosts_only() {
        for host in ["gate-1", "gate-1.example.org", "*.example.org", "a_b.example.org."] {
            assert!(host_check(host).is_ok(), "{host}");
        }
        for host in ["", "a b", "-a", "a-", "a..b", "*", "gate 1.example.org", &"a".repeat(64)] {
            assert!(host_check(host).is_err(), "{host}");
        }
    }

    #[test]
    fn a_certificate_that_is_not_written_is_not_recorded() {
        let root = tempfile::tempdir().unwrap();
        let (ca, to) = (root.path().join("ca"), root.path().join("own"));
        let printer = Printer::errors_only(TypedOptions::default());
        init(&ca, "example.org", &printer).unwrap();
        fs::create_dir(&to).unwrap();
        fs::write(to.join("cert.pem"), "").unwrap();
        let arguments = CaIssueArguments {
            holder: CertificateName::Operator,
            ca: ca.clone(),
            to: to.clone(),
            names: Vec::new(),
            addresses: Vec::new(),
            groups: Vec::new(),
            expires: Duration::from_secs(3_600),
            renew: false,
        };
        let refused = Authority::open(&ca).unwrap().issue(&arguments, &printer).unwrap_err();
        assert!(refused.message().ends_with("cert.pem is there already"), "{refused:?}");
        assert!(!to.join("key.pem").exists());
        assert!(Authority::open(&ca).unwrap().issued.certificates.is_empty());
        fs::remove_file(to.join("cert.pem")).unwrap();
        Authority::open(&ca).unwrap().issue(&arguments, &printer).unwrap();
        assert_eq!(Authority::open(&ca).unwrap().issued.certificates.len(), 1);
    }
}
