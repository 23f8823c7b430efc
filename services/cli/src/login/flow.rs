//! Asks an OpenID provider for tokens: by a code that a person enters in a browser (RFC 8628), and again without one.

use std::path::Path;
use std::time::Duration;

use borough_gateway::auth::KeySource;
use jsonwebtoken::dangerous::insecure_decode_claims;
use oauth2::basic::{
    BasicErrorResponse, BasicErrorResponseType, BasicRevocationErrorResponse,
    BasicTokenIntrospectionResponse, BasicTokenType,
};
use oauth2::{
    Client, ClientId, DeviceAuthorizationUrl, DeviceCodeErrorResponse, DeviceCodeErrorResponseType,
    EndpointNotSet, EndpointSet, ExtraTokenFields, HttpRequest, RefreshToken, RequestTokenError,
    RevocationUrl, Scope, StandardDeviceAuthorizationResponse, StandardRevocableToken, StandardTokenResponse,
    TokenResponse as _, TokenUrl,
};
use serde::{Deserialize, Serialize};

use super::GivenToken;
use crate::provider::{ProviderError, ProviderHttp};

/// The longest wait for a person, whatever the provider allows.
const PERSON_MAX: Duration = Duration::from_secs(15 * 60);
/// The scope that every login asks for: without it a provider gives no identity token.
const SCOPE: &str = "openid";
/// Scopes that a login asks for too if the provider has them: who the user is, and a token that renews the login.
const SCOPES_IF_KNOWN: [&str; 3] = ["email", "groups", "offline_access"];

/// Why nobody is logged in.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoginError {
    /// As its own variants say.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// Correct the permissions of the file or its directory.
    #[error("the files of the login cannot be read or written")]
    File(#[from] std::io::Error),
    /// Get a token from the provider in another way.
    #[error("{issuer} has no login by a code (RFC 8628)")]
    NoCode { issuer: String },
    /// Look at the provider: it names an address that is none.
    #[error("{issuer} names the address {address:?}; accepted: a URL that begins with https://")]
    Address { issuer: String, address: String },
    /// Log in again.
    #[error("the login was refused in the browser")]
    Denied,
    /// Log in again, and be quicker.
    #[error("nobody has entered the code in time")]
    Late,
    /// Log in again.
    #[error("{issuer} has ended the login")]
    Ended { issuer: String },
    /// Register the client at the provider, for logins by a code and without a secret.
    #[error("{issuer} does not let the client {client_id:?} log in by a code")]
    Client { issuer: String, client_id: String },
    /// Do what the provider says.
    #[error("{issuer} refuses the login: {text}")]
    Refused { issuer: String, text: String },
    /// Look at the provider.
    #[error("{issuer} gives no identity token; the client needs the scope openid")]
    NoToken { issuer: String },
    /// Look at the provider.
    #[error("the answer of {issuer} is not as a login has it")]
    Answer { issuer: String },
}

/// What a person has to do.
#[derive(Debug)]
pub(crate) struct LoginCode {
    /// Where to enter the code.
    pub address: String,
    pub code: String,
    /// The address with the code in it, if the provider has such.
    pub address_with_code: Option<String>,
}

/// The part of the discovery document that a login needs.
#[derive(Deserialize)]
struct LoginDiscovery {
    issuer: String,
    token_endpoint: String,
    device_authorization_endpoint: Option<String>,
    revocation_endpoint: Option<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
}

/// What an answer with a token has beside what OAuth says: the token that names the user.
#[derive(Debug, Serialize, Deserialize)]
struct IdentityField {
    id_token: Option<String>,
}

impl ExtraTokenFields for IdentityField {}

type Given = StandardTokenResponse<IdentityField, BasicTokenType>;

/// A client of which no address is known yet.
type LoginClient<DeviceUrl, RevokeUrl, TokenAt> = Client<
    BasicErrorResponse,
    Given,
    BasicTokenIntrospectionResponse,
    StandardRevocableToken,
    BasicRevocationErrorResponse,
    EndpointNotSet,
    DeviceUrl,
    EndpointNotSet,
    RevokeUrl,
    TokenAt,
>;

/// The claims of a token that its holder needs. Gateways check the signature.
#[derive(Deserialize)]
struct HeldClaims {
    /// Seconds since 1970.
    exp: i64,
}

/// A provider whose addresses are known.
pub(crate) struct LoginProvider {
    http: ProviderHttp,
    known: LoginDiscovery,
}

impl LoginProvider {
    /// Reads the discovery document of an issuer.
    ///
    /// # Errors
    /// The provider does not answer, or is of another issuer.
    pub(crate) async fn find(issuer: &str, ca: Option<&Path>) -> Result<Self, LoginError> {
        let http = ProviderHttp::trusting(ca)?;
        let source = KeySource { issuer: issuer.to_owned(), jwks_url: None, ca: None };
        let known = http.discovery(&source).await?;
        Ok(Self { http, known })
    }

    /// What a login asks for that names no scopes.
    pub(crate) fn scopes(&self) -> Vec<String> {
        let is_known = |scope: &&str| self.known.scopes_supported.iter().any(|known| known == scope);
        let known = SCOPES_IF_KNOWN.into_iter().filter(is_known);
        std::iter::once(SCOPE).chain(known).map(str::to_owned).collect()
    }

    /// Logs a person in, who enters the code that `show` gets.
    ///
    /// # Errors
    /// Nobody is logged in.
    pub(crate) async fn by_code(
        &self,
        client_id: &str,
        scopes: &[String],
        show: impl FnOnce(&LoginCode),
    ) -> Result<GivenToken, LoginError> {
        let issuer = || self.known.issuer.clone();
        let device = self.known.device_authorization_endpoint.as_ref();
        let device = device.ok_or_else(|| LoginError::NoCode { issuer: issuer() })?;
        let device = DeviceAuthorizationUrl::new(device.clone()).map_err(|_| self.no_address(device))?;
        let client = self.client(client_id)?.set_device_authorization_url(device);
        let http = |request: HttpRequest| self.http.send(request);
        let asked = client
            .exchange_device_code()
            .add_scopes(scopes.iter().cloned().map(Scope::new))
            .request_async(&http)
            .await;
        let details: StandardDeviceAuthorizationResponse =
            asked.map_err(|error| self.refused(client_id, error))?;
        show(&LoginCode {
            address: details.verification_uri().to_string(),
            code: details.user_code().secret().clone(),
            address_with_code: details.verification_uri_complete().map(|address| address.secret().clone()),
        });
        let given = client
            .exchange_device_access_token(&details)
            .request_async(&http, tokio::time::sleep, Some(PERSON_MAX))
            .await;
        self.token(given.map_err(|error| self.refused_by_code(client_id, error))?)
    }

    /// Gets another token for a login, without a person.
    ///
    /// # Errors
    /// The provider has ended the login, or does not answer.
    pub(crate) async fn renew(&self, client_id: &str, refresh: String) -> Result<GivenToken, LoginError> {
        let refresh = RefreshToken::new(refresh);
        let http = |request: HttpRequest| self.http.send(request);
        let given = self.client(client_id)?.exchange_refresh_token(&refresh).request_async(&http).await;
        self.token(given.map_err(|error| self.refused(client_id, error))?)
    }

    /// Ends a login at the provider, if the provider can.
    ///
    /// # Errors
    /// The provider does not answer, or refuses.
    pub(crate) async fn end(&self, client_id: &str, refresh: String) -> Result<(), LoginError> {
        let Some(address) = &self.known.revocation_endpoint else { return Ok(()) };
        let address = RevocationUrl::new(address.clone()).map_err(|_| self.no_address(address))?;
        let client = self.client(client_id)?.set_revocation_url(address);
        let http = |request: HttpRequest| self.http.send(request);
        let issuer = || self.known.issuer.clone();
        let request = client
            .revoke_token(RefreshToken::new(refresh).into())
            .map_err(|_| LoginError::Answer { issuer: issuer() })?;
        request.request_async(&http).await.map_err(|error| match error {
            RequestTokenError::Request(error) => error.into(),
            RequestTokenError::ServerResponse(answer) => {
                LoginError::Refused { issuer: issuer(), text: answer.error().to_string() }
            }
            _ => LoginError::Answer { issuer: issuer() },
        })
    }

    fn client(
        &self,
        client_id: &str,
    ) -> Result<LoginClient<EndpointNotSet, EndpointNotSet, EndpointSet>, LoginError> {
        let address = &self.known.token_endpoint;
        let address = TokenUrl::new(address.clone()).map_err(|_| self.no_address(address))?;
        Ok(Client::new(ClientId::new(client_id.to_owned())).set_token_uri(address))
    }

    fn no_address(&self, address: &str) -> LoginError {
        LoginError::Address { issuer: self.known.issuer.clone(), address: address.to_owned() }
    }

    fn token(&self, given: Given) -> Result<GivenToken, LoginError> {
        let issuer = || self.known.issuer.clone();
        let token = given.extra_fields().id_token.clone();
        let token = token.ok_or_else(|| LoginError::NoToken { issuer: issuer() })?;
        let claims: HeldClaims =
            insecure_decode_claims(&token).map_err(|_| LoginError::Answer { issuer: issuer() })?;
        let refresh_token = given.refresh_token().map(|refresh| refresh.secret().clone());
        Ok(GivenToken { token, refresh_token, expires_ms: claims.exp.saturating_mul(1_000) })
    }

    fn refused_by_code(
        &self,
        client_id: &str,
        error: RequestTokenError<ProviderError, DeviceCodeErrorResponse>,
    ) -> LoginError {
        match error {
            RequestTokenError::Request(error) => error.into(),
            RequestTokenError::ServerResponse(answer) => match answer.error() {
                DeviceCodeErrorResponseType::AccessDenied => LoginError::Denied,
                DeviceCodeErrorResponseType::ExpiredToken => LoginError::Late,
                DeviceCodeErrorResponseType::Basic(error) => {
                    self.refused_for(client_id, error, answer.error_description())
                }
                _ => LoginError::Answer { issuer: self.known.issuer.clone() },
            },
            _ => LoginError::Answer { issuer: self.known.issuer.clone() },
        }
    }

    fn refused(
        &self,
        client_id: &str,
        error: RequestTokenError<ProviderError, BasicErrorResponse>,
    ) -> LoginError {
        match error {
            RequestTokenError::Request(error) => error.into(),
            RequestTokenError::ServerResponse(answer) => {
                self.refused_for(client_id, answer.error(), answer.error_description())
            }
            _ => LoginError::Answer { issuer: self.known.issuer.clone() },
        }
    }

    fn refused_for(
        &self,
        client_id: &str,
        error: &BasicErrorResponseType,
        description: Option<&String>,
    ) -> LoginError {
        let issuer = self.known.issuer.clone();
        match error {
            BasicErrorResponseType::InvalidGrant => LoginError::Ended { issuer },
            BasicErrorResponseType::InvalidClient | BasicErrorResponseType::UnauthorizedClient => {
                LoginError::Client { issuer, client_id: client_id.to_owned() }
            }
            other => {
                let code = other.as_ref();
                let text = description.map_or_else(|| code.to_owned(), |text| format!("{code}: {text}"));
                LoginError::Refused { issuer, text }
            }
        }
    }
}
