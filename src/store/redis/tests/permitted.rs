//! The user that the page about stores creates may do all that longhaul needs, and nothing else.

use super::*;

const PAGE: &str = include_str!("../../../../docs/how-to/stores.md");
/// First words of the lines of the page: the user of a proxy, the additions for `longhaul store`, and
/// the additions for a Cluster.
const USER: &str = "ACL SETUSER longhaul on >PASSWORD ~longhaul:* ";
const FOR_THE_COMMAND: &str = "ACL SETUSER longhaul +scan ";
const IN_A_CLUSTER: &str = "ACL SETUSER longhaul +cluster";

/// Returns the words of the only line of the page that begins with `begins`.
fn told(begins: &str) -> Vec<&'static str> {
    let mut lines = PAGE.lines().map(str::trim);
    let line = lines.find(|line| line.starts_with(begins));
    line.expect("the page has the line").split(' ').collect()
}

/// Gives a user these permissions at all `servers`, and does all that a proxy and `longhaul store`
/// do. Returns the first refusal. Each call uses another scope.
async fn refused(
    servers: &[RedisServer],
    url: &str,
    scope: u8,
    told: &[&str],
) -> Result<(), crate::store::durable::Unavailable> {
    let (ours, foreign) = (key(scope, "ours"), key(scope, "foreign"));
    for server in servers {
        let reset = ["ACL", "SETUSER", "longhaul", "reset"];
        assert_eq!(server.asked(&reset), "OK");
        assert_eq!(server.asked(told), "OK", "{told:?}");
        // In a Cluster, only one node has the key's slot.
        server.asked(&["SET", &entry::redis_key(foreign), "no entry"]);
    }
    let tier = tier(url, &[]);
    let note = || Change::Note(NoteName([7; 8]), "note".into());
    for write in [
        write(foreign, [record("in its place")]),
        write(ours, [record("first"), Change::Adopted, note()]),
        write(ours, [record("second"), note()]),
        write(ours, [Change::Discard("first".into())]),
        write(ours, [record("third")]),
    ] {
        tier.write(&[write]).await?;
    }
    tier.read(&[ours, foreign]).await?;

    let token = LeaseToken(1);
    tier.lease(LeaseAction::Acquire, ours, token, TTL).await?;
    tier.lease(LeaseAction::Renew, ours, token, TTL).await?;
    tier.lease(LeaseAction::Release, ours, token, Duration::ZERO).await?;

    let mut listed = Vec::new();
    let scope = Some(ours.scope());
    tier.for_each_entry(scope, &mut |one| listed.push(one.idle)).await?;
    // The idle time of an entry is left out if it is not available.
    if listed.len() != 2 || listed.contains(&None) {
        return Err(MALFORMED_ANSWER);
    }
    tier.purge(scope).await.map(drop)
}

/// Checks that all commands of `told` together are enough, and that each is needed except those in
/// `spare`.
async fn check(servers: &[RedisServer], url: &str, told: &[&str], spare: &[&str]) {
    assert_eq!(refused(servers, url, 0, told).await, Ok(()), "{told:?}");
    let commands = told.iter().filter(|word| word.starts_with('+'));
    for (scope, one) in (1..).zip(commands.filter(|one| !spare.contains(one))) {
        let mut without = told.to_vec();
        without.retain(|word| word != one);
        let refused = refused(servers, url, scope, &without).await;
        assert!(refused.is_err(), "nothing needs {one}");
    }
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn the_user_that_the_docs_tell_to_make_has_what_is_needed_and_nothing_more() {
    let server = RedisServer::start();
    let url = format!("{}?user=longhaul&pass=PASSWORD", server.url());
    let mut all = told(USER);
    all.extend(told(FOR_THE_COMMAND).into_iter().skip(3));
    // PING is sent, and any answer to it will do.
    check(&[server], &url, &all, &["+ping"]).await;
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn the_user_of_a_cluster_needs_no_more_than_the_docs_tell() {
    let cluster = Cluster::start();
    let url = cluster.url().replace("://", "://longhaul:PASSWORD@");
    let mut all = told(USER);
    // Identical to those at a single server.
    let spare = all.clone();
    all.extend(told(FOR_THE_COMMAND).into_iter().skip(3));
    all.extend(told(IN_A_CLUSTER).into_iter().skip(3));
    check(&cluster.nodes, &url, &all, &spare).await;
}
