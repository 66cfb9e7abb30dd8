//! `longhaul store`, on a file left by a proxy.

use std::process::{Command, Output};

use longhaul_mock_model::{Model, ModelOptions};
use serde_json::Value;

use super::{Place, SMALL};
use crate::caller::{Caller, talk};
use crate::program::Program;

fn store(place: &Place, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command.env_clear().arg("store").args(arguments);
    command.args(["--store", &place.setting()]);
    command.output().unwrap()
}

/// Returns the output of a successful call.
fn printed(place: &Place, arguments: &[&str]) -> String {
    let output = store(place, arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout).unwrap()
}

fn json(place: &Place, arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(place, &[arguments, &["--json"]].concat())).unwrap()
}

#[tokio::test]
async fn lists_records_without_content_and_purges_them_by_caller() {
    let model = Model::start(ModelOptions::with_window(SMALL)).await.unwrap();
    let place = Place::new();
    let program = Program::start(&model.url(), &[("LONGHAUL_STORE", &place.setting())]);
    let caller = Caller::of(program.address());
    for key in ["Bearer hunter2", "Bearer other"] {
        let arrived = caller.ask_with(&[("authorization", key)], talk(20, 2_000)).await;
        assert!(!arrived.action().is_empty());
    }
    // A file in use cannot be inspected.
    for what in ["list", "stats", "purge"] {
        let output = store(&place, &[what]);
        assert_eq!(output.status.code(), Some(64));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("in use by another process"), "{said}");
    }
    drop(program);

    let table = printed(&place, &["list"]);
    let listed = json(&place, &["list"]);
    let records = listed["records"].as_array().unwrap();
    assert_eq!(records.len(), 2, "{listed}");
    for record in records {
        let tokens = |name: &str| record[name].as_u64().unwrap();
        assert!(tokens("tokens_before") > tokens("tokens_after"));
        assert_eq!(record["adopted"], true);
        assert_eq!(record["model"], "m");
        assert!(table.contains(record["scope"].as_str().unwrap()), "{table}");
    }
    for page in [table, listed.to_string(), json(&place, &["stats"]).to_string()] {
        for secret in ["hunter2", "said", "Task", "condensed"] {
            assert!(!page.contains(secret), "{secret}: {page}");
        }
    }

    let first = records[0]["scope"].as_str().unwrap();
    let scoped = |what: &'static str| json(&place, &[what, "--scope", first]);
    assert_eq!(scoped("list")["records"].as_array().unwrap().len(), 1);
    assert_eq!(scoped("stats")["scopes"][0]["records"], 1);
    assert!(scoped("purge")["purged"].as_u64().unwrap() > 0);
    assert_eq!(scoped("stats")["scopes"].as_array().unwrap().len(), 0);
    assert_eq!(json(&place, &["list"])["records"].as_array().unwrap().len(), 1);
    let said = printed(&place, &["purge"]);
    assert!(said.contains("entries deleted"), "{said}");
    assert_eq!(json(&place, &["list"])["records"].as_array().unwrap().len(), 0);
}

#[test]
fn rejects_a_missing_store_file_without_creating_it() {
    let place = Place::new();
    for what in ["list", "stats", "purge"] {
        let output = store(&place, &[what]);
        assert_eq!(output.status.code(), Some(66), "{what}");
        let said = String::from_utf8(output.stderr).unwrap();
        let setting = place.setting();
        let path = setting.strip_prefix("file:").unwrap();
        assert!(said.contains(path) && said.contains("--store"), "{said}");
    }
    assert_eq!(place.files(), [""; 0]);
}

#[test]
fn rejects_store_commands_for_a_memory_store() {
    let output = Command::new(env!("CARGO_BIN_EXE_longhaul"))
        .env_clear()
        .args(["store", "list"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(64));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("--store"), "{said}");
}

#[tokio::test]
async fn second_proxy_on_the_same_file_is_rejected() {
    let model = Model::start(ModelOptions::with_window(SMALL)).await.unwrap();
    let place = Place::new();
    let setting = place.setting();
    let _first = Program::start(&model.url(), &[("LONGHAUL_STORE", &setting)]);
    let second = Command::new(env!("CARGO_BIN_EXE_longhaul"))
        .env_clear()
        .args(["--listen", "127.0.0.1:0", "--store", &setting])
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(64));
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(said.contains("in use by another process"), "{said}");
}

#[test]
fn check_prints_no_store_password_or_secret() {
    let output = Command::new(env!("CARGO_BIN_EXE_longhaul"))
        .env_clear()
        .env("LONGHAUL_STORE", "rediss://me:hunter2@example.org:6380/1")
        .env("LONGHAUL_STORE_SCOPE_SECRET", "hunter2".repeat(8))
        .arg("check")
        .output()
        .unwrap();
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.contains("rediss://…@example.org:6380/1"), "{page}");
    assert!(page.contains("store.scope_secret = \"…\""), "{page}");
    assert!(!page.contains("hunter2"), "{page}");
}
