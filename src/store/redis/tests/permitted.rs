//! The user that the README tells an operator to make may do all that is needed and nothing else.

use super::*;

const README: &str = include_str!("../../../../README.md");
/// How the README's lines begin: the user of a proxy, what `longhaul store` needs beside that, and
/// what a Cluster does.
const USER: &str = "ACL SETUSER longhaul on >PASSWORD ~longhaul:* ";
const FOR_THE_COMMAND: &str = "ACL SETUSER longhaul +scan ";
const IN_A_CLUSTER: &str = "ACL SETUSER longhaul +cluster";

/// The words of the README's one line that begins so.
fn told(begins: &str) -> Vec<&'static str> {
    let mut lines = README.lines().map(str::trim);
    let line = lines.find(|line| line.starts_with(begins));
    line.expect("the README has the line").split(' ').collect()
}

/// Gives a user these permissions at all `servers`, and says what it is refused first of all that a
/// proxy and `longhaul store` do. Each time in another scope.
async fn refused(
    servers: &[RedisServer],
    url: &str,
    scope: u8,
    told: &[&str],
) -> Result<(), Unavailable> {
    let (ours, foreign) = (key(scope, "ours"), key(scope, "foreign"));
    for server in servers {
        let reset = ["ACL", "SETUSER", "longhaul", "reset"];
        assert_eq!(server.asked(&reset), "OK");
        assert_eq!(server.asked(told), "OK", "{told:?}");
        // Of a Cluster, one has the place.
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
    tier.lease(ours, token, TTL).await?;
    tier.renew(ours, token, TTL).await?;
    tier.release(ours, token).await?;

    let mut listed = Vec::new();
    let scope = Some(ours.scope());
    tier.for_each_entry(scope, &mut |one| listed.push(one.idle))
        .await?;
    // How long an entry was idle is left out where it is not to be had.
    if listed.len() != 2 || listed.contains(&None) {
        return Err(MALFORMED_ANSWER);
    }
    tier.purge(scope).await.map(drop)
}

/// All commands of `told` together are enough, and each is needed but for those in `spare`.
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
async fn the_user_that_the_readme_tells_to_make_has_what_is_needed_and_nothing_more() {
    if is_missing() {
        return;
    }
    let server = RedisServer::start();
    let url = format!("{}?user=longhaul&pass=PASSWORD", server.url());
    let mut all = told(USER);
    all.extend(told(FOR_THE_COMMAND).into_iter().skip(3));
    // PING is sent, and any answer to it will do.
    check(&[server], &url, &all, &["+ping"]).await;
}

#[tokio::test]
async fn the_user_of_a_cluster_needs_no_more_than_the_readme_tells() {
    if is_missing() {
        return;
    }
    let cluster = Cluster::start();
    let url = cluster.url().replace("://", "://longhaul:PASSWORD@");
    let mut all = told(USER);
    // The same as at one server.
    let spare = all.clone();
    all.extend(told(FOR_THE_COMMAND).into_iter().skip(3));
    all.extend(told(IN_A_CLUSTER).into_iter().skip(3));
    check(&cluster.nodes, &url, &all, &spare).await;
}
