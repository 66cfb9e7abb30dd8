//! Client of a Redis server: made from a URL, and opens connections.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{MultipleNodeRoutingInfo, RoutingInfo, SingleNodeRoutingInfo};
use redis::{
    AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, Pipeline,
    RedisError, Value,
};
use rustls::RootCertStore;
use tokio_rustls::TlsConnector;

use crate::config::StoreConfig;
use crate::store::redis::dialer::{BoundedConnection, CONNECT_TIMEOUT, Dialer};
use crate::upstream::{SYSTEM_ROOTS, client_config, with_certificates};

/// Timeout for the answers to one batch of commands. Requests give up earlier; this bounds the
/// other callers, such as a purge, whose batches take long.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of times that a Cluster's client looks for a slot that has moved. Each costs a
/// round trip, and requests wait no longer than `store.wait`.
const MAX_REDIRECTIONS: u32 = 3;
/// Longest pause between two of these attempts, in milliseconds.
const MAX_REDIRECTION_WAIT_MS: u64 = 100;

#[derive(Clone)]
pub(super) enum RedisClient {
    /// Several servers, each with a part of the keys.
    Cluster {
        client: Box<ClusterClient>,
        /// Lives as long as the client, which finds it by its ID.
        _dialer: Arc<Dialer>,
    },
    Single(ConnectionAddr, Arc<Dialer>),
}

/// A connection, which its clones share.
#[derive(Clone)]
pub(super) enum RedisConnection {
    /// Connections to every node that has keys.
    Cluster(ClusterConnection<BoundedConnection>),
    Single(BoundedConnection),
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum CommandRoute {
    /// A given node of a Cluster, by host and port.
    Node(String, u16),
    /// The node that owns the keys in the commands.
    KeyOwner,
}

impl RedisClient {
    /// Creates the client for the server or Cluster at `url`. Fails if the URL or the certificates
    /// are invalid. The message never contains the password.
    pub(super) fn from_url(url: &str, config: &StoreConfig) -> Result<Self, String> {
        let (scheme, rest) = url.split_once("://").ok_or("it has no scheme")?;
        let of_cluster = scheme.strip_suffix("+cluster");
        let scheme = of_cluster.unwrap_or(scheme);
        let plain = match scheme {
            "rediss" => Some("redis"),
            "valkeys" => Some("valkey"),
            _ => None,
        };
        let tls = plain.map(|_| connector(config.ca_file.as_deref())).transpose()?;
        // The dialer does the handshake, so that it can bound what the server sends.
        let scheme = plain.unwrap_or(scheme);
        if of_cluster.is_none() {
            let node = connection_info(scheme, rest)?;
            let dialer = Dialer::new(tls, node.redis_settings().clone());
            return Ok(Self::Single(node.addr().clone(), dialer));
        }
        let nodes: Result<Vec<ConnectionInfo>, String> =
            seed_urls(rest).map(|seed| connection_info(scheme, &seed)).collect();
        let nodes = nodes?;
        let login = nodes.first().ok_or("it names no server")?.redis_settings();
        let dialer = Dialer::new(tls, login.clone());
        let nodes = nodes.into_iter();
        let nodes = nodes.map(|node| node.set_redis_settings(dialer.named_login()));
        ClusterClientBuilder::new(nodes.collect::<Vec<_>>())
            .connection_timeout(CONNECT_TIMEOUT)
            .response_timeout(ANSWER_TIMEOUT)
            .overall_response_timeout(Some(ANSWER_TIMEOUT))
            .retries(MAX_REDIRECTIONS)
            .max_retry_wait(MAX_REDIRECTION_WAIT_MS)
            .min_retry_wait(1)
            .build()
            .map(|client| Self::Cluster { client: Box::new(client), _dialer: dialer })
            .map_err(|error| invalid_settings(&error))
    }

    pub(super) async fn connect(&self) -> Result<RedisConnection, RedisError> {
        match self {
            Self::Cluster { client, .. } => {
                client.get_async_generic_connection().await.map(RedisConnection::Cluster)
            }
            Self::Single(address, dialer) => {
                let config =
                    AsyncConnectionConfig::new().set_response_timeout(Some(ANSWER_TIMEOUT));
                let connecting = dialer.connect(address, config);
                connecting.await.map(RedisConnection::Single)
            }
        }
    }
}

impl RedisConnection {
    /// Sends commands in one batch. Returns an answer for each.
    pub(super) async fn send(
        &mut self,
        node: &CommandRoute,
        commands: &Pipeline,
    ) -> Result<Vec<Value>, RedisError> {
        let count = commands.len();
        match (self, node) {
            (Self::Cluster(link), CommandRoute::Node(host, port)) => {
                let route = SingleNodeRoutingInfo::ByAddress { host: host.clone(), port: *port };
                link.route_pipeline(commands.clone(), 0, count, route).await
            }
            (Self::Cluster(link), CommandRoute::KeyOwner) => {
                link.req_packed_commands(commands, 0, count).await
            }
            (Self::Single(link), _) => link.req_packed_commands(commands, 0, count).await,
        }
    }

    /// Checks that the server answers, whatever the answer is.
    pub(super) async fn ping(&mut self) -> Result<(), RedisError> {
        let ping = redis::cmd("PING");
        match self {
            Self::Cluster(link) => {
                let anyone = RoutingInfo::SingleNode(SingleNodeRoutingInfo::Random);
                link.route_command(ping, anyone).await.map(drop)
            }
            Self::Single(link) => link.req_packed_command(&ping).await.map(drop),
        }
    }

    pub(super) async fn nodes(&mut self) -> Result<Vec<CommandRoute>, RedisError> {
        let Self::Cluster(link) = self else {
            return Ok(vec![CommandRoute::KeyOwner]);
        };
        // The answers to a command for all nodes are a map by address.
        let all = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
        let Value::Map(answers) = link.route_command(redis::cmd("PING"), all).await? else {
            return Ok(Vec::new());
        };
        let address = |(address, _): (Value, Value)| {
            let address: String = redis::from_redis_value(address).ok()?;
            let (host, port) = address.rsplit_once(':')?;
            Some(CommandRoute::Node(host.to_owned(), port.parse().ok()?))
        };
        Ok(answers.into_iter().filter_map(address).collect())
    }
}

/// Returns the URLs, without their scheme, of the nodes that `rest` lists separated by commas. The
/// part before an `@`, and the part after a `/`, apply to all of them.
fn seed_urls(rest: &str) -> impl Iterator<Item = String> + '_ {
    let (place, tail) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (user, hosts) = place.split_at(place.rfind('@').map_or(0, |at| at + 1));
    let hosts = hosts.split(',').filter(|host| !host.is_empty());
    hosts.map(move |host| format!("{user}{host}{tail}"))
}

fn connection_info(scheme: &str, rest: &str) -> Result<ConnectionInfo, String> {
    // A fragment would disable the checking of certificates. The library rejects it without an
    // explanation.
    if rest.contains('#') {
        return Err("it contains a #; write a # in a password as %23".to_owned());
    }
    let info = format!("{scheme}://{rest}").into_connection_info();
    info.map_err(|error| invalid_settings(&error))
}

/// Returns the library's message about invalid settings without its details. The message is fixed;
/// the details are not shown.
fn invalid_settings(error: &RedisError) -> String {
    let words = error.to_string();
    match error.detail() {
        Some(detail) => words.replace(detail, "…"),
        None => words,
    }
}

/// Returns a connector that trusts the authorities of the operator's file and no others, if there is a file.
/// Otherwise it trusts the machine's, or Mozilla's if it has none. A store is a private server more often
/// than not. The error describes the defect of the file.
fn connector(ca_file: Option<&Path>) -> Result<TlsConnector, String> {
    let roots = if ca_file.is_some() { RootCertStore::empty() } else { SYSTEM_ROOTS.clone() };
    let config = with_certificates(roots, ca_file).and_then(client_config);
    let named = |why| match ca_file {
        Some(path) => format!("{}: {why}", path.display()),
        None => why,
    };
    Ok(Arc::new(config.map_err(named)?).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn check(url: &str) -> Result<(), String> {
        let config = Config::default_with([("upstream.base", "http://127.0.0.1:9/v1")]).unwrap();
        RedisClient::from_url(url, &config.store).map(drop)
    }

    #[test]
    fn accepts_the_usual_redis_url_forms() {
        for url in [
            "redis://localhost",
            "redis://localhost:6380/3",
            "redis://user:p%40ss@[::1]:6379",
            "redis+unix:///run/redis.sock",
            "rediss://:secret@cache.example:6379/0",
            "valkey://localhost",
            "redis+cluster://:secret@one:7000,two:7001,three",
            "rediss+cluster://one:7000",
        ] {
            assert_eq!(check(url), Ok(()), "{url}");
        }
    }

    #[test]
    fn url_errors_omit_the_password() {
        for url in [
            "redis://",
            "redis+cluster://",
            "redis://:secret@host:port",
            "redis://:secret@host/secret",
            "redis://:secret@host/?protocol=secret",
            "redis+cluster://:secret@host:port",
            "rediss://:secret@host/#insecure",
        ] {
            let why = check(url).unwrap_err();
            assert!(!why.is_empty() && !why.contains("secret"), "{url}: {why}");
        }
    }

    #[test]
    fn every_seed_url_carries_the_password_and_query() {
        let seeds: Vec<String> = seed_urls("u:p@one:1,two:2/?protocol=2").collect();
        assert_eq!(seeds, ["u:p@one:1/?protocol=2", "u:p@two:2/?protocol=2"]);
    }
}

#[cfg(test)]
mod tls_tests {
    use super::*;

    #[test]
    fn trusts_only_the_machines_authorities_without_a_ca_file() {
        let machine = rustls_native_certs::load_native_certs().certs;
        let mut roots = RootCertStore::empty();
        let (usable, _) = roots.add_parsable_certificates(machine);
        let expect = if usable > 0 { usable } else { webpki_roots::TLS_SERVER_ROOTS.len() };
        assert_eq!(SYSTEM_ROOTS.len(), expect);
    }

    #[test]
    fn error_names_a_ca_file_without_certificates() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        std::fs::write(&path, "hello").unwrap();
        let why = connector(Some(&path)).err().unwrap();
        assert!(why.contains("ca.pem: it contains no certificate"), "{why}");
    }
}
