//! One channel per gateway, and the one in use. A channel reconnects by itself. The pool changes to the next gateway
//! when the present one could not answer a call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use borough_proto::connect::{Connector, ServerGreeting};
use parking_lot::Mutex;
use tonic::transport::{Channel, Endpoint};

use crate::config::ClientConfig;
use crate::error::ClientError;

/// The shortest deadline in which a silent gateway is noticed and another one asked.
const DEADLINE_FOR_TWO: Duration = Duration::from_secs(6);
/// The longest time for an answer of the other side of a connection, and between two questions if there are several.
const KEEP_ALIVE_MAX: Duration = Duration::from_secs(5);

/// The gateways of a client.
#[derive(Debug)]
pub(crate) struct GatewayPool {
    connector: Connector,
    gateways: Vec<PooledGateway>,
    current: AtomicUsize,
}

#[derive(Debug)]
struct PooledGateway {
    address: String,
    endpoint: Endpoint,
    /// Made at the first use: a channel needs a runtime, a client does not.
    channel: Mutex<Option<Channel>>,
    /// How the server at the address begins.
    greeting: Arc<ServerGreeting>,
}

impl GatewayPool {
    /// Checks every address; does not connect.
    pub(crate) fn new(config: &ClientConfig) -> Result<Self, ClientError> {
        if config.gateways.is_empty() {
            return Err(ClientError::NoGateway);
        }
        let gateways = config.gateways.iter().map(|address| gateway(config, address));
        let gateways = gateways.collect::<Result<_, _>>()?;
        Ok(Self { connector: config.connector.clone(), gateways, current: AtomicUsize::new(0) })
    }

    /// The channel in use, and its number for [`GatewayPool::rotate`].
    pub(crate) fn current(&self) -> (usize, Channel) {
        let number = self.current.load(Ordering::Relaxed) % self.gateways.len();
        let gateway = &self.gateways[number];
        let mut channel = gateway.channel.lock();
        let connect = || {
            let greeting = Arc::clone(&gateway.greeting);
            self.connector.connect_lazy_greeted(&gateway.endpoint, greeting)
        };
        (number, channel.get_or_insert_with(connect).clone())
    }

    /// Changes from gateway `failed` to the next one, unless another call already has.
    pub(crate) fn rotate(&self, failed: usize) {
        let next = (failed + 1) % self.gateways.len();
        // If another call was faster, the pool has changed already.
        let _moved = self.current.compare_exchange(failed, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Returns true if what answers at one of the addresses speaks another protocol.
    pub(crate) fn is_foreign(&self) -> bool {
        self.gateways.iter().any(|gateway| gateway.greeting.is_foreign())
    }

    /// The addresses, as given.
    pub(crate) fn addresses(&self) -> Vec<String> {
        self.gateways.iter().map(|gateway| gateway.address.clone()).collect()
    }
}

/// What is wrong with the host or the port of an address without its scheme.
fn place_problem(address: &str) -> Option<String> {
    let place = address.split('/').next().unwrap_or_default();
    if place.is_empty() {
        return Some("is empty".to_owned());
    }
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => return Some("has no port".to_owned()),
    };
    if host.is_empty() {
        return Some("has no host".to_owned());
    }
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let valid = digits && port.parse::<u16>().is_ok_and(|port| port > 0);
    (!valid).then(|| format!("has the port {port:?}"))
}

/// How often a connection is asked whether its other side is there, and how long the answer may take. With several
/// gateways a silent one is noticed while the next one can still answer in time.
fn keep_alive(config: &ClientConfig) -> (Duration, Duration) {
    // In a shorter deadline there is no time for another one.
    if config.gateways.len() < 2 || config.deadline < DEADLINE_FOR_TWO {
        return (Duration::from_secs(10), KEEP_ALIVE_MAX);
    }
    let part = |of: u32| (config.deadline / of).clamp(Duration::from_secs(1), KEEP_ALIVE_MAX);
    (part(3), part(5))
}

/// The URL of an address for a connector with this scheme: `https` encrypts what goes there, `http` does not.
fn url_of(address: &str, scheme: &'static str) -> Result<String, ClientError> {
    let encrypted = scheme == "https";
    let refuse = |problem: String| ClientError::Address { address: address.to_owned(), problem, scheme };
    let url = match address.split_once("://") {
        None => format!("http://{address}"),
        Some(("http", _)) if !encrypted => address.to_owned(),
        // The connector encrypts what goes there.
        Some(("https", place)) if encrypted => format!("http://{place}"),
        Some(("http", _)) => {
            return Err(refuse("has the scheme \"http\", and --tls-ca asks for encryption".to_owned()));
        }
        Some(("https", _)) => {
            return Err(refuse("has the scheme \"https\", and no --tls-ca says whom to trust".to_owned()));
        }
        Some((scheme, _)) => return Err(refuse(format!("has the scheme {scheme:?}"))),
    };
    if let Some(problem) = place_problem(url.strip_prefix("http://").unwrap_or(&url)) {
        return Err(refuse(problem));
    }
    let uri: http::Uri = url.parse().map_err(|_| refuse("is no address".to_owned()))?;
    if !matches!(uri.path(), "" | "/") {
        return Err(refuse(format!("has the path {:?}", uri.path())));
    }
    Ok(url)
}

fn gateway(config: &ClientConfig, address: &str) -> Result<PooledGateway, ClientError> {
    let url = url_of(address, if config.connector.is_encrypted() { "https" } else { "http" })?;
    let (interval, timeout) = keep_alive(config);
    let refuse = |_| ClientError::Address {
        address: address.to_owned(),
        problem: "is no address".to_owned(),
        scheme: "http",
    };
    let endpoint = Endpoint::from_shared(url)
        .map_err(refuse)?
        .connect_timeout(config.connect_timeout)
        .tcp_nodelay(true)
        // A peer that vanished is noticed, also by idle watches.
        .http2_keep_alive_interval(interval)
        .keep_alive_timeout(timeout)
        .keep_alive_while_idle(true);
    let (address, greeting) = (address.to_owned(), Arc::default());
    Ok(PooledGateway { address, endpoint, channel: Mutex::new(None), greeting })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(addresses: &[&str]) -> Result<GatewayPool, ClientError> {
        let gateways = addresses.iter().map(|&address| address.to_owned()).collect();
        GatewayPool::new(&ClientConfig::new(gateways, "alice", "alpha"))
    }

    #[test]
    fn addresses_with_and_without_scheme_are_taken() {
        assert!(pool(&["127.0.0.1:7000", "http://localhost:1", "[::1]:7000"]).is_ok());
    }

    #[test]
    fn what_is_no_address_is_refused_with_what_is_accepted() {
        for bad in ["", "localhost", "https://localhost:7000", "127.0.0.1:70000", "a b:1", "h:0", "h:1/x"] {
            let error = pool(&[bad]).unwrap_err().to_string();
            assert!(error.contains("accepted: HOST:PORT"), "{bad}: {error}");
        }
        assert!(matches!(pool(&[]), Err(ClientError::NoGateway)));
    }

    #[test]
    fn the_part_of_an_address_that_is_wrong_is_named() {
        for (address, problem) in [
            ("", "is empty"),
            ("http://", "is empty"),
            ("localhost", "has no port"),
            ("[::1]", "has no port"),
            (":7400", "has no host"),
            ("h:", "has the port \"\""),
            ("h:0", "has the port \"0\""),
            ("h:65536", "has the port \"65536\""),
            ("h:http", "has the port \"http\""),
            ("[::1]:-1", "has the port \"-1\""),
            ("h:1/x", "has the path \"/x\""),
            ("https://h:1", "has the scheme \"https\", and no --tls-ca says whom to trust"),
        ] {
            let error = pool(&[address]).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("gateway address {address:?} {problem}; accepted: ")),
                "{error}"
            );
        }
    }

    #[test]
    fn the_scheme_of_an_encrypted_gateway_is_https() {
        assert_eq!(url_of("https://h:1", "https").unwrap(), "http://h:1");
        let error = url_of("http://h:1", "https").unwrap_err().to_string();
        let expected = "gateway address \"http://h:1\" has the scheme \"http\", and --tls-ca asks for encryption; \
                        accepted: HOST:PORT or https://HOST:PORT, with a port from 1 to 65535";
        assert_eq!(error, expected);
    }

    #[test]
    fn rotation_goes_round_and_counts_one_failure_once() {
        let pool = pool(&["h:1", "h:2"]).unwrap();
        pool.rotate(0);
        pool.rotate(0);
        assert_eq!(pool.current.load(Ordering::Relaxed), 1);
        pool.rotate(1);
        assert_eq!(pool.current.load(Ordering::Relaxed), 0);
    }
}
