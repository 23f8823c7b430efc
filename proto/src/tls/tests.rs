//! Certificates from files, over connections in memory.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType, SerialNumber,
    date_time_ymd,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;

use super::*;

/// An authority in memory.
struct TestAuthority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// Which side a certificate is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Server,
    Client,
}

impl TestAuthority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, "test authority");
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::from_ca_cert_pem(&pem, key).unwrap(), pem }
    }

    /// Writes a certificate with its key into a directory, and returns its serial number.
    fn issue(&self, to: &Path, side: Side, uris: &[&str], units: &[&str]) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.subject_alt_names.extend(uris.iter().map(|uri| SanType::URI((*uri).try_into().unwrap())));
        params.distinguished_name.push(DnType::OrganizationalUnitName, units.join(","));
        params.extended_key_usages = match side {
            Side::Server => vec![ExtendedKeyUsagePurpose::ServerAuth],
            Side::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
        };
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        fs::create_dir_all(to).unwrap();
        fs::write(to.join("ca.pem"), &self.pem).unwrap();
        fs::write(to.join("cert.pem"), certificate.pem()).unwrap();
        fs::write(to.join("key.pem"), key.serialize_pem()).unwrap();
        fs::set_permissions(to.join("key.pem"), fs::Permissions::from_mode(0o600)).unwrap();
        serial_of(certificate.der())
    }

    fn revoked(&self, to: &Path, number: u8, serials: &[Vec<u8>]) {
        let revoked = |serial: &Vec<u8>| RevokedCertParams {
            serial_number: SerialNumber::from_slice(serial),
            revocation_time: date_time_ymd(2026, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2026, 1, 1),
            next_update: date_time_ymd(2096, 1, 1),
            crl_number: SerialNumber::from_slice(&[number]),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        fs::write(to, params.signed_by(&self.issuer).unwrap().pem().unwrap()).unwrap();
    }
}

fn files(directory: &Path) -> TlsFiles {
    TlsFiles {
        authorities: directory.join("ca.pem"),
        certificate: Some(directory.join("cert.pem")),
        key: Some(directory.join("key.pem")),
        revoked: None,
    }
}

/// Shakes hands and passes a byte in both directions. Returns what the server knows of the client.
async fn greeted(
    server: &ServerTls,
    client: &ClientTls,
    host: &str,
) -> std::io::Result<Option<CertificateDer<'static>>> {
    let (near, far) = tokio::io::duplex(65_536);
    let config = server.config();
    let serving = tokio::spawn(async move {
        let mut stream = TlsAcceptor::from(config).accept(far).await?;
        let mut byte = [0];
        stream.read_exact(&mut byte).await?;
        stream.write_all(&byte).await?;
        stream.flush().await?;
        let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
        Ok::<_, std::io::Error>(certificates.first().map(|certificate| certificate.clone().into_owned()))
    });
    let talk = async {
        let mut stream = client.begin(host, near).await?;
        stream.write_all(b"x").await?;
        stream.flush().await?;
        let mut byte = [0];
        stream.read_exact(&mut byte).await.map(drop)
    };
    talk.await?;
    serving.await.unwrap()
}

#[tokio::test]
async fn both_sides_prove_who_they_are() {
    let (authority, root) = (TestAuthority::new(), tempfile::tempdir().unwrap());
    let (gateway, ann) = (root.path().join("gateway"), root.path().join("ann"));
    authority.issue(&gateway, Side::Server, &["spiffe://borough/gateway"], &[]);
    authority.issue(&ann, Side::Client, &["spiffe://borough/user/ann"], &["web", "No Name", "ops"]);
    let server = ServerTls::load(files(&gateway)).unwrap();
    let client = ClientTls::load(files(&ann)).unwrap();
    let shown = greeted(&server, &client, "localhost").await.unwrap().unwrap();
    let groups = ["ops", "web"].map(|group| borough_model::Name::new(group).unwrap());
    let identity = borough_model::access::Identity {
        user: borough_model::Name::new("ann").unwrap(),
        groups: groups.into_iter().collect(),
    };
    assert_eq!(CertificateName::of(&shown, None), Ok(CertificateName::User(identity.clone())));
    assert_eq!(server.name_of(&shown), Ok(CertificateName::User(identity)), "of the same trust domain");
    // Without a certificate of its own a client is let in, as nobody.
    let nobody = TlsFiles { certificate: None, key: None, ..files(&ann) };
    let nobody = ClientTls::load(nobody).unwrap();
    assert_eq!(greeted(&server, &nobody, "localhost").await.unwrap(), None);
}

#[tokio::test]
async fn a_false_server_and_a_false_client_are_refused() {
    let (authority, other) = (TestAuthority::new(), TestAuthority::new());
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    authority.issue(&at("gateway"), Side::Server, &["spiffe://borough/gateway"], &[]);
    authority.issue(&at("node"), Side::Client, &["spiffe://borough/cell/alpha/node/n1"], &[]);
    other.issue(&at("stranger"), Side::Server, &["spiffe://borough/gateway"], &[]);
    other.issue(&at("intruder"), Side::Client, &["spiffe://borough/operator"], &[]);
    let node = ClientTls::load(files(&at("node"))).unwrap();
    let server = |name: &str| ServerTls::load(files(&at(name))).unwrap();
    assert!(greeted(&server("gateway"), &node, "localhost").await.is_ok());
    let refused =
        async |name: &str, host: &str| greeted(&server(name), &node, host).await.unwrap_err().to_string();
    let of_stranger = refused("stranger", "localhost").await;
    assert_eq!(of_stranger, HandshakeError::OtherAuthority.to_string());
    let of_node = refused("node", "localhost").await;
    assert_eq!(of_node, HandshakeError::Unfit.to_string(), "a node poses as a gateway");
    let of_other = refused("gateway", "other.example").await;
    assert_eq!(of_other, HandshakeError::OtherName.to_string(), "another host's certificate");
    let trusting = TlsFiles { authorities: at("gateway").join("ca.pem"), ..files(&at("intruder")) };
    let intruder = ClientTls::load(trusting).unwrap();
    assert!(greeted(&server("gateway"), &intruder, "localhost").await.is_err(), "signed by a stranger");
}

#[tokio::test]
async fn a_server_without_tls_is_known_by_its_first_bytes() {
    let (authority, root) = (TestAuthority::new(), tempfile::tempdir().unwrap());
    authority.issue(root.path(), Side::Client, &["spiffe://borough/user/ann"], &[]);
    let client = ClientTls::load(files(root.path())).unwrap();
    // The settings of HTTP/2, and a server of HTTP/1.1.
    for begin in [b"\0\0\x06\x04\0\0\0\0\0\0\x05\0\0\x40\0".as_slice(), b"HTTP/1.1 400 Bad Request\r\n\r\n"] {
        let (near, mut far) = tokio::io::duplex(65_536);
        far.write_all(begin).await.unwrap();
        let error = client.begin("localhost", near).await.unwrap_err();
        assert_eq!(error.to_string(), HandshakeError::Plain.to_string());
    }
}

#[tokio::test]
async fn certificates_are_read_again_and_revoked_ones_refused() {
    let (authority, root) = (TestAuthority::new(), tempfile::tempdir().unwrap());
    let (gateway, ann, list) =
        (root.path().join("gateway"), root.path().join("ann"), root.path().join("crl.pem"));
    authority.issue(&gateway, Side::Server, &["spiffe://borough/gateway"], &[]);
    let serial = authority.issue(&ann, Side::Client, &["spiffe://borough/user/ann"], &[]);
    authority.revoked(&list, 1, &[]);
    let server = ServerTls::load(TlsFiles { revoked: Some(list.clone()), ..files(&gateway) }).unwrap();
    let client = ClientTls::load(files(&ann)).unwrap();
    assert!(greeted(&server, &client, "localhost").await.is_ok());
    assert!(!server.refresh().unwrap(), "nothing has changed");
    // Damaged files change nothing; they are looked at again when they change.
    fs::write(&list, "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n").unwrap();
    server.refresh().unwrap_err();
    assert!(greeted(&server, &client, "localhost").await.is_ok());
    for bad in ["", "junk"] {
        fs::write(&list, bad).unwrap();
        let refused = server.refresh().unwrap_err().to_string();
        assert!(refused.ends_with("it has no list of revoked certificates"), "{refused}");
    }
    TestAuthority::new().revoked(&list, 9, &[]);
    assert!(server.refresh().unwrap_err().to_string().ends_with("its list is of another authority"));
    authority.revoked(&list, 3, std::slice::from_ref(&serial));
    assert!(server.refresh().unwrap());
    assert!(server.is_revoked(&serial));
    assert!(greeted(&server, &client, "localhost").await.is_err());
    authority.revoked(&list, 2, &[]);
    let older = server.refresh().unwrap_err().to_string();
    assert!(older.ends_with("its list is older than the one in force"), "{older}");
    assert!(server.is_revoked(&serial), "an older list takes nothing back");
    // The client takes its new certificate without a restart.
    let renewed = authority.issue(&ann, Side::Client, &["spiffe://borough/user/ann"], &[]);
    assert!(!server.is_revoked(&renewed));
    assert!(greeted(&server, &client, "localhost").await.is_ok());
}

#[test]
fn another_trust_domain_of_the_same_authority_proves_nothing() {
    let (authority, root) = (TestAuthority::new(), tempfile::tempdir().unwrap());
    let (gateway, plain, other) =
        (root.path().join("gateway"), root.path().join("plain"), root.path().join("other"));
    authority.issue(&gateway, Side::Server, &["spiffe://example.org/gateway"], &[]);
    authority.issue(&plain, Side::Server, &[], &[]);
    authority.issue(&other, Side::Client, &["spiffe://evil.org/operator"], &[]);
    use rustls::pki_types::pem::PemObject as _;
    let shown = CertificateDer::from_pem_slice(&fs::read(other.join("cert.pem")).unwrap()).unwrap();
    let refused = |directory: &Path| ServerTls::load(files(directory)).unwrap().name_of(&shown).unwrap_err();
    assert!(matches!(refused(&gateway), CertificateNameError::Domain { .. }));
    assert_eq!(refused(&plain), CertificateNameError::Homeless);
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let (authority, root) = (TestAuthority::new(), tempfile::tempdir().unwrap());
    let own = root.path().join("own");
    authority.issue(&own, Side::Server, &["spiffe://borough/gateway"], &[]);
    let refused = |files: TlsFiles| ServerTls::load(files).unwrap_err().to_string();
    let missing = refused(TlsFiles { authorities: own.join("none.pem"), ..files(&own) });
    assert!(missing.starts_with("cannot read ") && missing.contains("none.pem"), "{missing}");
    let not_pem = refused(TlsFiles { authorities: own.join("key.pem"), ..files(&own) });
    assert!(not_pem.ends_with("has no certificate in PEM"), "{not_pem}");
    assert!(refused(TlsFiles { key: None, ..files(&own) }).contains("--tls-cert FILE --tls-key FILE"));
    assert!(refused(TlsFiles { key: None, certificate: None, ..files(&own) }).contains("a server needs"));
    let other = root.path().join("other");
    authority.issue(&other, Side::Server, &["spiffe://borough/gateway"], &[]);
    let unlike = refused(TlsFiles { key: Some(other.join("key.pem")), ..files(&own) });
    let files_named = unlike.contains("other/key.pem") && unlike.contains("own/cert.pem");
    assert!(files_named && unlike.contains("is not that of"), "{unlike}");
    fs::set_permissions(own.join("key.pem"), fs::Permissions::from_mode(0o640)).unwrap();
    assert!(refused(files(&own)).contains("chmod 600"));
}

#[test]
fn a_certificate_says_one_thing_that_borough_knows() {
    let (authority, root) = (TestAuthority::new(), tempfile::tempdir().unwrap());
    let of = |uris: &[&str]| {
        authority.issue(root.path(), Side::Client, uris, &[]);
        let pem = fs::read(root.path().join("cert.pem")).unwrap();
        use rustls::pki_types::pem::PemObject as _;
        CertificateName::of(&CertificateDer::from_pem_slice(&pem).unwrap(), None)
    };
    for path in ["operator", "gateway", "control", "user/ann", "cell/alpha/node/n1"] {
        assert_eq!(of(&[&format!("spiffe://example.org/{path}")]).unwrap().path(), path);
    }
    assert_eq!(of(&[]), Err(CertificateNameError::Uris(0)));
    assert_eq!(of(&["spiffe://a/operator", "spiffe://a/gateway"]), Err(CertificateNameError::Uris(2)));
    for wrong in [
        "https://a/operator",
        "spiffe:///operator",
        "spiffe://a/operator/",
        "spiffe://a/user/Ann",
        "spiffe://a/cell/x/node",
    ] {
        assert!(matches!(of(&[wrong]), Err(CertificateNameError::Unknown(_))), "{wrong}");
    }
}
