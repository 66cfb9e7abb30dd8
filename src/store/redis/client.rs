//! Client of a Redis server: made from a URL, and opens connections.

use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{MultipleNodeRoutingInfo, RoutingInfo, SingleNodeRoutingInfo};
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, ConnectionInfo, IntoConnectionInfo, Pipeline, RedisError, Value,
};
use socket2::TcpKeepalive;

use crate::config::StoreConfig;
use crate::limits::{TCP_KEEPALIVE, TCP_KEEPALIVE_INTERVAL};
use crate::store::redis::tls;

/// Timeout for opening a connection: TCP, TLS, the password. No request waits that long, but a
/// distant server must be reached in the end.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout for the answers to one batch of commands. Requests give up earlier; this bounds the
/// other callers, such as a purge, whose batches take long.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of times that a Cluster's client looks for a slot that has moved. Each costs a
/// round trip, and requests wait no longer than `store.wait`.
const MAX_REDIRECTIONS: u32 = 3;
/// Longest pause between two of these attempts, in milliseconds.
const MAX_REDIRECTION_WAIT_MS: u64 = 100;

/// Client of a server, or of a Cluster.
#[derive(Clone)]
pub(super) enum RedisClient {
    /// Several servers, each with a part of the keys.
    Cluster(Box<ClusterClient>),
    /// A single server.
    Single(Box<Client>),
}

/// A connection, which its clones share.
#[derive(Clone)]
pub(super) enum RedisConnection {
    /// Connections to every node that has keys.
    Cluster(ClusterConnection),
    /// A connection to the only server.
    Single(MultiplexedConnection),
}

/// Destination of commands.
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
        let (scheme, cluster) = match scheme.strip_suffix("+cluster") {
            Some(scheme) => (scheme, true),
            None => (scheme, false),
        };
        let tls = matches!(scheme, "rediss" | "valkeys");
        let certificates = tls
            .then(|| tls::certificates(config.ca_file.as_deref()))
            .transpose()?;
        let nodes: Result<Vec<ConnectionInfo>, String> = if cluster {
            seed_urls(rest)
                .map(|seed| connection_info(scheme, &seed))
                .collect()
        } else {
            connection_info(scheme, rest).map(|node| vec![node])
        };
        let nodes = nodes?;
        if cluster {
            let builder = ClusterClientBuilder::new(nodes)
                .connection_timeout(CONNECT_TIMEOUT)
                .response_timeout(ANSWER_TIMEOUT)
                .overall_response_timeout(Some(ANSWER_TIMEOUT))
                .retries(MAX_REDIRECTIONS)
                .max_retry_wait(MAX_REDIRECTION_WAIT_MS)
                .min_retry_wait(1)
                .tcp_settings(keepalive());
            let builder = match certificates {
                Some(certificates) => builder.certs(certificates),
                None => builder,
            };
            return builder
                .build()
                .map(|client| Self::Cluster(Box::new(client)))
                .map_err(|error| invalid_settings(&error));
        }
        let node = nodes.into_iter().next().ok_or("it names no server")?;
        match certificates {
            Some(certificates) => Client::build_with_tls(node, certificates),
            None => Client::open(node),
        }
        .map(|client| Self::Single(Box::new(client)))
        .map_err(|error| invalid_settings(&error))
    }

    pub(super) async fn connect(&self) -> Result<RedisConnection, RedisError> {
        match self {
            Self::Cluster(client) => client
                .get_async_connection()
                .await
                .map(RedisConnection::Cluster),
            Self::Single(client) => {
                let config = AsyncConnectionConfig::new()
                    .set_connection_timeout(Some(CONNECT_TIMEOUT))
                    .set_response_timeout(Some(ANSWER_TIMEOUT));
                let connecting = client.get_multiplexed_async_connection_with_config(&config);
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
                let route = SingleNodeRoutingInfo::ByAddress {
                    host: host.clone(),
                    port: *port,
                };
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

    /// Returns all nodes that have keys.
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
    let (place, tail) = match rest.find(['/', '?']) {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let (user, hosts) = match place.rfind('@') {
        Some(at) => place.split_at(at + 1),
        None => ("", place),
    };
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
    let info = info.map_err(|error| invalid_settings(&error))?;
    Ok(info.set_tcp_settings(keepalive()))
}

fn keepalive() -> TcpSettings {
    let keepalive = TcpKeepalive::new()
        .with_time(TCP_KEEPALIVE)
        .with_interval(TCP_KEEPALIVE_INTERVAL);
    TcpSettings::default()
        .set_nodelay(true)
        .set_keepalive(keepalive)
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
