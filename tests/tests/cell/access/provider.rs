//! An OpenID provider publishes the keys of an issuer. It is away, comes, changes its key, and is away again.

use std::path::PathBuf;
use std::sync::Arc;

use borough_tests::{TestCell, options, until};
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::{program, with_token};

/// A provider with a certificate of its own authority.
struct Provider {
    directory: tempfile::TempDir,
    port: u16,
    /// The keys that it publishes, as JSON.
    keys: Arc<Mutex<String>>,
}

impl Provider {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        // Nobody listens there until it is served.
        let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        let provider = Self { directory, port, keys: Arc::default() };
        let (ca, server) = (provider.text("ca"), provider.text("server"));
        program(&["auth", "ca", "init", "--ca", &ca, "--domain", "id.example.org"]).ended(0);
        program(&["auth", "ca", "issue", "gateway", "--dns", "localhost", "--ca", &ca, "--to", &server])
            .ended(0);
        provider
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn url(&self) -> String {
        format!("https://localhost:{}", self.port)
    }

    /// The file for gateways.
    fn file(&self) -> String {
        let issuer = serde_json::json!({
            "issuer": self.url(), "audience": "borough", "jwks_ca": self.text("server/ca.pem"),
        });
        std::fs::write(self.path("issuer.json"), issuer.to_string()).unwrap();
        self.text("issuer.json")
    }

    /// Publishes a new key and no other, and returns the file of a token of ann that it has signed.
    fn rotate(&self, key: &str) -> PathBuf {
        let (secret, file) = (self.text(key), self.text(&format!("{key}.json")));
        program(&["auth", "issuer", "--issuer", &self.url(), "--key", &secret, "--to", &file]).ended(0);
        let issuer: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        *self.keys.lock() = issuer["jwks"].to_string();
        let token = self.path(&format!("{key}.token"));
        program(&["auth", "token", "ann", "--key", &secret, "--to", &token.display().to_string()]).ended(0);
        token
    }

    /// Answers until the handle is aborted.
    async fn serve(&self) -> JoinHandle<()> {
        let pem = |name: &str| std::fs::read(self.path("server").join(name)).unwrap();
        let chain = CertificateDer::pem_slice_iter(&pem("cert.pem")).collect::<Result<Vec<_>, _>>().unwrap();
        let key = PrivateKeyDer::from_pem_slice(&pem("key.pem")).unwrap();
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind(("127.0.0.1", self.port)).await.unwrap();
        let (keys, url) = (Arc::clone(&self.keys), self.url());
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                answer(&acceptor, stream, &url, &keys).await.ok();
            }
        })
    }
}

async fn answer(
    acceptor: &TlsAcceptor,
    stream: TcpStream,
    url: &str,
    keys: &Mutex<String>,
) -> std::io::Result<()> {
    let mut stream = acceptor.accept(stream).await?;
    let mut request = [0; 4_096];
    let length = stream.read(&mut request).await?;
    let request = String::from_utf8_lossy(&request[..length]).into_owned();
    let body = if request.starts_with("GET /.well-known/openid-configuration ") {
        serde_json::json!({"issuer": url, "jwks_uri": format!("{url}/keys")}).to_string()
    } else {
        keys.lock().clone()
    };
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).await?;
    stream.shutdown().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn keys_that_a_provider_publishes_are_fetched_and_followed() {
    let provider = Provider::new().await;
    let cell = TestCell::start(options!().nodes(1).dev_arguments(&["--issuer", &provider.file()])).await;
    cell.borough(&["auth", "grant", "user/ann", "--role", "viewer"]).await.ended(0);
    let first = provider.rotate("first");
    // The provider is away, and the cell works without it.
    with_token(&cell, &first, &["job", "list"])
        .await
        .ended(6)
        .warns("has no keys of issuer")
        .warns("try again");
    cell.borough(&["job", "list"]).await.ended(0);

    let served = provider.serve().await;
    let counts = async |token: &PathBuf| with_token(&cell, token, &["job", "list"]).await.code == Some(0);
    until("the first keys", || async { counts(&first).await.then_some(()) }).await;

    let second = provider.rotate("second");
    until("the second key", || async { counts(&second).await.then_some(()) }).await;
    with_token(&cell, &first, &["job", "list"]).await.ended(6).warns("no issuer that this gateway trusts");
    served.abort();
    served.await.unwrap_err();
    with_token(&cell, &second, &["job", "list"]).await.ended(0);
}
