//! Facts about a model that a replica has learned survive the writes of a replica that could not
//! read them.

use longhaul_mock_model::ModelOptions;

use super::fleet::Fleet;
use crate::caller::talk;
use crate::redis_server::RedisServer;
use crate::time_limit::bounded;

/// Returns a hash of the learned facts that the server holds; empty without any.
fn told(server: &RedisServer) -> String {
    let told = "\
        local told = ''
        for _, key in ipairs(redis.call('KEYS', 'longhaul:*')) do
            if redis.call('TYPE', key).ok == 'hash' then
                local note = redis.call('HGET', key, 'note:006c6561726e6564')
                if note then told = told .. redis.sha1hex(note) end
            end
        end
        return told";
    server.asked(&["EVAL", told, "0"])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs redis-server"]
async fn learned_window_survives_writes_of_a_replica_that_could_not_read_it() {
    let server = RedisServer::start();
    let settings = [
        ("LONGHAUL_SUMMARY_MODEL", "none"),
        ("LONGHAUL_UPSTREAM_ASK", "false"),
        ("LONGHAUL_STORE_WAIT", "200ms"),
    ];
    let options = ModelOptions::with_window(32_768);
    let mut fleet = Fleet::start(2, options, &server.url(), &settings).await;
    let refused = fleet.step(0, talk(24, 2_000)).await;
    assert_eq!(refused.upstream.len(), 2, "the window is learned");
    fleet.until(|| !told(&server).is_empty()).await;
    let learned = told(&server);

    server.freeze();
    let met = fleet.step(1, talk(5, 2_000)).await;
    assert_eq!(met.arrived.status, 200);
    server.thaw();
    // The replica publishes the facts learned from its reply as soon as the server is back.
    bounded(async {
        while told(&server) == learned {
            let again = fleet.step(1, talk(5, 2_000)).await;
            assert_eq!(again.arrived.status, 200);
        }
    })
    .await;

    for (replica, tokens) in [(0, 2_100), (1, 2_200)] {
        let next = fleet.step(replica, talk(24, tokens)).await;
        assert_eq!(next.arrived.status, 200);
        assert_eq!(next.upstream.len(), 1, "replica {replica} knows the window");
    }
}
