//! An OpenID provider: it publishes the keys of an issuer, logs people in by codes, and is away at times.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use borough_tests::{TestCell, options, until};
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::{program, with_token};

/// What the parts of a provider share.
#[derive(Default)]
struct ProviderState {
    /// The keys that it publishes, as JSON.
    keys: String,
    /// Status and body of the next answers to requests for a token. Without one nobody has entered the code yet.
    tokens: VecDeque<(u16, serde_json::Value)>,
    /// Path and body of each request that has a body.
    asked: Vec<String>,
}

/// A provider with a certificate of its own authority.
pub(super) struct Provider {
    directory: tempfile::TempDir,
    port: u16,
    state: Arc<Mutex<ProviderState>>,
}

impl Provider {
    pub(super) async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        // Nobody listens there until it is served.
        let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        let provider = Self { directory, port, state: Arc::default() };
        let (ca, server) = (provider.text("ca"), provider.text("server"));
        program(&["auth", "ca", "init", "--ca", &ca, "--domain", "id.example.org"]).ended(0);
        program(&["auth", "ca", "issue", "gateway", "--dns", "localhost", "--ca", &ca, "--to", &server])
            .ended(0);
        provider
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(super) fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    pub(super) fn url(&self) -> String {
        format!("https://localhost:{}", self.port)
    }

    /// The file for gateways.
    pub(super) fn file(&self) -> String {
        let issuer = serde_json::json!({
            "issuer": self.url(), "audience": "borough", "jwks_ca": self.text("server/ca.pem"),
        });
        std::fs::write(self.path("issuer.json"), issuer.to_string()).unwrap();
        self.text("issuer.json")
    }

    /// Publishes a new key and no other, and returns the file of a token of ann that it has signed.
    pub(super) fn rotate(&self, key: &str) -> PathBuf {
        let (secret, file) = (self.text(key), self.text(&format!("{key}.json")));
        program(&["auth", "issuer", "--issuer", &self.url(), "--key", &secret, "--to", &file]).ended(0);
        let issuer: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        self.state.lock().keys = issuer["jwks"].to_string();
        self.token(key, "12h")
    }

    /// The file of another token of ann.
    pub(super) fn token(&self, key: &str, expires: &str) -> PathBuf {
        let token = self.path(&format!("{key}-{expires}.token"));
        std::fs::remove_file(&token).ok();
        let (secret, to) = (self.text(key), token.display().to_string());
        program(&["auth", "token", "ann", "--key", &secret, "--expires", expires, "--to", &to]).ended(0);
        token
    }

    /// The answer to one further request for a token.
    pub(super) fn answer_next(&self, status: u16, body: serde_json::Value) {
        self.state.lock().tokens.push_back((status, body));
    }

    /// The requests with a body that came since the last look.
    pub(super) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().asked)
    }

    /// Answers until the handle is aborted.
    pub(super) async fn serve(&self) -> JoinHandle<()> {
        let pem = |name: &str| std::fs::read(self.path("server").join(name)).unwrap();
        let chain = CertificateDer::pem_slice_iter(&pem("cert.pem")).collect::<Result<Vec<_>, _>>().unwrap();
        let key = PrivateKeyDer::from_pem_slice(&pem("key.pem")).unwrap();
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind(("127.0.0.1", self.port)).await.unwrap();
        let (state, url) = (Arc::clone(&self.state), self.url());
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                answer(&acceptor, stream, &url, &state).await.ok();
            }
        })
    }
}

async fn answer(
    acceptor: &TlsAcceptor,
    stream: TcpStream,
    url: &str,
    state: &Mutex<ProviderState>,
) -> std::io::Result<()> {
    let mut stream = acceptor.accept(stream).await?;
    let (path, body) = request_read(&mut stream).await?;
    let (status, body) = state.lock().answer(&path, &body, url);
    let head = format!(
        "HTTP/1.1 {status} Answer\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await?;
    stream.shutdown().await
}

/// The path and the body of a request.
async fn request_read(stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<(String, String)> {
    let mut stream = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    stream.read_line(&mut first).await?;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        if let Some(bytes) = line.to_lowercase().strip_prefix("content-length:") {
            length = bytes.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    Ok((path, String::from_utf8_lossy(&body).into_owned()))
}

impl ProviderState {
    fn answer(&mut self, path: &str, body: &str, url: &str) -> (u16, String) {
        if !body.is_empty() {
            self.asked.push(format!("{path} {body}"));
        }
        let (status, json) = match path {
            "/.well-known/openid-configuration" => {
                let document = serde_json::json!({
                    "issuer": url,
                    "jwks_uri": format!("{url}/keys"),
                    "token_endpoint": format!("{url}/token"),
                    "device_authorization_endpoint": format!("{url}/device"),
                    "revocation_endpoint": format!("{url}/revoke"),
                    "scopes_supported": ["openid", "email", "profile", "offline_access"],
                });
                (200, document)
            }
            "/device" => {
                let code = serde_json::json!({
                    "device_code": "the-device",
                    "user_code": "WDJB-MJHT",
                    "verification_uri": format!("{url}/activate"),
                    "verification_uri_complete": format!("{url}/activate?code=WDJB-MJHT"),
                    "expires_in": 600,
                    "interval": 1,
                });
                (200, code)
            }
            "/token" => {
                let pending = || (400, serde_json::json!({"error": "authorization_pending"}));
                self.tokens.pop_front().unwrap_or_else(pending)
            }
            "/revoke" => (200, serde_json::json!({})),
            _ => return (200, self.keys.clone()),
        };
        (status, json.to_string())
    }
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
