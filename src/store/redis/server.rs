//! Which server it is: a URL made into a client, and a client into connections.

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

use super::tls;
use crate::config::StoreConfig;
use crate::limits::{TCP_KEEPALIVE, TCP_KEEPALIVE_INTERVAL};

/// For a connection to come about: TCP, TLS, the password. Nobody waits that long, but a server
/// that is far away must be reached in the end.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// For an answer to one batch of commands. Those who must not wait give up earlier; this bounds the
/// others, and a purge has batches that take long.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a Cluster's client looks again where a slot has gone. Each time costs a round trip, and
/// those who wait have no longer than `store.wait`.
const MAX_REDIRECTIONS: u32 = 3;
/// Between two of these looks at the most.
const MAX_REDIRECTION_WAIT_MS: u64 = 100;

/// A server that can be connected to, or a Cluster of them.
#[derive(Clone)]
pub(super) enum RedisClient {
    /// Several, each with a part of the keys.
    Cluster(Box<ClusterClient>),
    /// One.
    Single(Box<Client>),
}

/// A connection; a clone is the same connection.
#[derive(Clone)]
pub(super) enum RedisConnection {
    /// To every node that has keys.
    Cluster(ClusterConnection),
    /// To the one there is.
    Single(MultiplexedConnection),
}

/// Where commands go.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum CommandRoute {
    /// To this one of a Cluster.
    Node(String, u16),
    /// To the one that has the keys in them.
    KeyOwner,
}

impl RedisClient {
    /// The server or Cluster at `url`.
    ///
    /// # Errors
    /// What is wrong with the URL or the certificates, without the password.
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

    /// Connects.
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
    /// Sends commands in one go; an answer for each.
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

    /// Whether it answers, whatever it says.
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

    /// All that have keys.
    pub(super) async fn nodes(&mut self) -> Result<Vec<CommandRoute>, RedisError> {
        let Self::Cluster(link) = self else {
            return Ok(vec![CommandRoute::KeyOwner]);
        };
        // What is asked of all of them is answered by address.
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

/// The URLs, without their scheme, of the nodes that `rest` lists with commas between them. What
/// stands before an `@` or behind a `/` goes for all of them.
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
    // What follows would switch off the checking of certificates; the library refuses it without
    // saying what it is.
    if rest.contains('#') {
        return Err("it has a # in it, which a password is written as %23".to_owned());
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

/// The library's own words for what is wrong with settings: they are fixed, its details are not
/// told.
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
    fn servers_are_named_as_redis_clients_name_them() {
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
    fn what_cannot_be_used_is_said_without_the_password() {
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
    fn every_node_of_a_list_has_the_password_and_what_follows() {
        let seeds: Vec<String> = seed_urls("u:p@one:1,two:2/?protocol=2").collect();
        assert_eq!(seeds, ["u:p@one:1/?protocol=2", "u:p@two:2/?protocol=2"]);
    }
}
