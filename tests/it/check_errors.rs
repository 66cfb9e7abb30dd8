//! Errors that `check` finds before `serve` does: settings that contradict each other, and unusable
//! paths and addresses.

use crate::cli::{check_refused, stdout};
use crate::redis_server::free_port;

/// Each value is valid, but their combination is not.
#[test]
fn conflicting_settings_are_all_reported_at_once() {
    let wrong = [
        ("LONGHAUL_LISTEN", "127.0.0.1:7001"),
        ("LONGHAUL_ADMIN", "127.0.0.1:7001"),
        ("LONGHAUL_STORE", "redis://127.0.0.1:1"),
        ("LONGHAUL_STORE_TTL", "0s"),
        ("LONGHAUL_STORE_SCOPE", "header:x-user"),
        ("LONGHAUL_COMPACT_HARD", "50%"),
        ("LONGHAUL_COMPACT_SOFT", "60%"),
        ("LONGHAUL_TLS_KEY_FILE", "/does/not/exist/key.pem"),
        ("LONGHAUL_CLIENT_TOKENS_FILE", "/does/not/exist/tokens"),
        ("LONGHAUL_SUMMARY_STYLE", "cached"),
        ("LONGHAUL_SUMMARY_MODEL", "small"),
        ("LONGHAUL_SUMMARY_PROMPT", "/does/not/exist/prompt"),
        ("LONGHAUL_SUMMARY_API_KEY_FILE", "/does/not/exist/own"),
        ("LONGHAUL_UPSTREAM_API_KEY_FILE", "/does/not/exist/key"),
    ];
    let told = [
        "admin.listen",
        "store.scope_secret_file",
        "store.ttl",
        "store.scope ",
        "compact.soft",
        "tls.key_file",
        "client_tokens_file",
        "summary.style",
        "exist/prompt",
        "summary.api_key_file",
        "upstream.api_key_file",
    ];
    check_refused(&["check"], &wrong, &told);
    check_refused(&["serve"], &wrong, &told);
}

#[test]
fn check_reports_everything_that_serve_refuses() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    std::fs::write(&file, "no directory").unwrap();
    let below = format!("file:{}", file.join("x.db").display());
    let secret = ("LONGHAUL_STORE_SCOPE_SECRET", "0123456789abcdef0123456789abcdef");
    let authority = ("LONGHAUL_STORE_CA_FILE", "/does/not/exist/ca.pem");
    let listen = format!("127.0.0.1:{}", free_port());
    let (listen, upstream) = (&*listen, &*format!("http://{listen}/v1"));
    let both = |arguments: &[&str], env: &[(&str, &str)], told: &[&str]| {
        check_refused(&[&["check"], arguments].concat(), env, told);
        check_refused(arguments, env, told);
    };
    both(&["--store", "file:/proc/nope/x.db"], &[], &["/proc/nope"]);
    both(&["--store", &below], &[], &["file/x.db"]);
    let servers = ["--store", "rediss://h:1"];
    both(&servers, &[secret, authority], &["store.at", "ca.pem"]);
    both(&["--store", "redis://h:port"], &[secret], &["store.at"]);
    both(&["--store", "redis://h:1"], &[], &["store.scope_secret"]);
    let own = ["--listen", listen, "--upstream", upstream];
    both(&own, &[], &["own listener", "--upstream"]);
    let admin = ["--listen", "127.0.0.1:0", "--admin", listen];
    both(&[&admin[..], &["--upstream", upstream]].concat(), &[], &["own listener"]);
    let twice = ["--listen", listen, "--admin", listen];
    both(&twice, &[], &["admin.listen"]);
    let several = ["check", "--listen", listen, "--upstream", upstream, "--store", &below];
    let certificate = [
        ("LONGHAUL_TLS_CERTIFICATE_FILE", "/does/not/exist/chain.pem"),
        ("LONGHAUL_TLS_KEY_FILE", "/does/not/exist/key.pem"),
    ];
    check_refused(&several, &certificate, &["own listener", "file/x.db", "chain.pem"]);
}

#[test]
fn foreign_file_is_refused_as_a_store_and_left_unchanged() {
    let place = tempfile::tempdir().unwrap();
    let notes = place.path().join("notes.txt");
    std::fs::write(&notes, "notes of mine").unwrap();
    std::fs::write(place.path().join("app.secret"), "another program's").unwrap();
    let at = |name: &str| format!("file:{}", place.path().join(name).display());
    let told = ["is not a store of longhaul's", "move what is there away"];
    for what in [&[][..], &["check"]] {
        for name in ["notes.txt", "app", "."] {
            check_refused(&[what, &["--store", &at(name)]].concat(), &[], &told);
        }
    }
    for what in ["list", "stats", "purge"] {
        let arguments = ["store", what, "--store", &at("notes.txt")];
        check_refused(&arguments, &[], &told);
    }
    assert_eq!(std::fs::read(notes).unwrap(), b"notes of mine");
    let secret = std::fs::read(place.path().join("app.secret")).unwrap();
    assert_eq!(secret, b"another program's");
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 2);
}

#[test]
fn check_accepts_a_missing_store_without_creating_it() {
    let place = tempfile::tempdir().unwrap();
    let store = format!("file:{}", place.path().join("a/b/x.db").display());
    stdout(&["check", "--store", &store], &[]);
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}
