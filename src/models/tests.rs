//! Consistency of the table, and look-ups by host and name.

use super::*;
use longhaul_core::dialect::usage::Usage;
use longhaul_core::units::usd::Usd;
use proptest::prelude::*;
use std::process::Command;

fn look_up_at(host: &str, model: &str) -> Option<TableMatch> {
    look_up(HostKind::from_host(host), model)
}

/// Checks a look-up: `None`, or (provider, name in the table, window, input limit).
fn check(host: &str, model: &str, expect: Option<(&str, &str, u32, Option<u32>)>) {
    let found = look_up_at(host, model).map(|found| {
        let entry = found.limits;
        let input = entry.input.map(Tokens::get);
        (entry.provider, entry.model, entry.window.get(), input)
    });
    assert_eq!(found, expect, "{model} at {host}");
}

fn reason(host: &str, model: &str) -> MatchKind {
    look_up_at(host, model).unwrap().kind
}

#[test]
fn every_row_is_found_under_its_own_host_and_name() {
    let mut rows = 0;
    for row in table::all() {
        let entry = row.limits().unwrap();
        let (host, _) = hosts::all()
            .find(|(_, provider)| *provider == entry.provider)
            .unwrap_or_else(|| panic!("{} has no host", entry.provider));
        let found = look_up_at(&host, entry.model);
        let expect = TableMatch { limits: entry, kind: MatchKind::Exact };
        assert_eq!(found, Some(expect));
        rows += 1;
    }
    assert!(rows > 3_000, "{rows} rows");
}

#[test]
fn a_wider_model_is_of_the_same_provider_and_holds_the_request() {
    let wider = |host: &str, model: &str, least: u32| {
        wider_model(HostKind::from_host(host), model, Tokens::new(least))
    };
    for (model, least) in [("gpt-4", 100_000), ("gpt-5-mini", 500_000), ("gpt-4o", 900_000)] {
        let found = wider("api.openai.com", model, least).unwrap();
        let limits = look_up_at("api.openai.com", found).unwrap().limits;
        assert!(found.starts_with("gpt-") && found != model, "{model}: {found}");
        assert_eq!(limits.provider, "openai");
        assert!(limits.table_window().tokens() >= Tokens::new(least), "{found}");
    }
    assert_eq!(wider("api.openai.com", "gpt-4", u32::MAX), None);
    assert_eq!(wider("localhost", "gpt-4", 1), None);
    assert_eq!(wider("gateway.example", "gpt-4", 1), None);
}

#[test]
fn rows_are_sound_and_sorted() {
    let mut last = ("", "");
    for row in table::all() {
        let entry = row.limits().unwrap();
        assert!(last < (entry.model, entry.provider), "{entry:?}");
        assert!(entry.window > Tokens::ZERO, "{entry:?}");
        assert!(entry.input.is_none_or(|input| input < entry.window), "{entry:?}");
        last = (entry.model, entry.provider);
    }
}

#[test]
fn every_host_has_rows() {
    for (host, provider) in hosts::all() {
        let rows = table::all().filter(|row| row.provider == provider).count();
        assert!(rows > 0, "{host}: {provider} has no rows");
        assert_eq!(HostKind::from_host(&host), HostKind::Provider(provider), "{host}");
    }
}

#[test]
fn lookup_ignores_case_and_understands_the_1m_suffix() {
    check("api.openai.com", "GPT-5", Some(("openai", "gpt-5", 400_000, Some(272_000))));
    assert_eq!(reason("api.openai.com", "GPT-5"), MatchKind::Normalised);
    check(
        "gateway.example",
        "Anthropic/Claude-Sonnet-4-5",
        Some(("anthropic", "claude-sonnet-4-5", 200_000, None)),
    );
    for name in ["claude-sonnet-4-5[1m]", "claude-sonnet-4-5-20250929[1M]"] {
        let found = look_up_at("api.anthropic.com", name).unwrap().limits;
        assert_eq!(found.window, Tokens::new(1_000_000), "{name}");
    }
    check("api.openai.com", "no-such-model[1m]", None);
    check("api.openai.com", "\u{e9}[1m", None);
    // Every row is found in upper case, under a name that differs in case alone.
    for row in table::all().step_by(7) {
        let entry = row.limits().unwrap();
        let found = look_up_at("gateway.example", &entry.model.to_ascii_uppercase());
        let found = found.unwrap().limits.model;
        assert!(found.eq_ignore_ascii_case(entry.model), "{found}");
    }
}

#[test]
fn lookup_interprets_a_name_by_its_host() {
    check("api.openai.com", "gpt-5", Some(("openai", "gpt-5", 400_000, Some(272_000))));
    check("api.openai.com", "openai/gpt-5", Some(("openai", "gpt-5", 400_000, Some(272_000))));
    check(
        "openrouter.ai",
        "anthropic/claude-opus-4.6:nitro",
        Some(("openrouter", "anthropic/claude-opus-4.6", 1_000_000, None)),
    );
    check(
        "bedrock-runtime.eu-west-1.amazonaws.com",
        "eu.anthropic.claude-opus-4-6-v1",
        Some(("bedrock", "eu.anthropic.claude-opus-4-6-v1", 1_000_000, None)),
    );
    assert_eq!(reason("api.openai.com", "gpt-5"), MatchKind::Exact);
    assert_eq!(reason("api.openai.com", "openai/gpt-5"), MatchKind::Normalised);
}

#[test]
fn model_unknown_at_its_host_is_not_found() {
    check("mine.openai.azure.com", "our-deployment", None);
    check("api.openai.com", "claude-opus-4-6", None);
    check("api.openai.com", "", None);
    check("gateway.example.org", "nobody-has-this", None);
}

#[test]
fn local_hosts_find_no_row() {
    check("127.0.0.1", "gpt-5", None);
    check("gpu.local", "openai/gpt-oss-120b", None);
}

#[test]
fn unknown_host_takes_the_makers_or_else_the_smallest_window() {
    check("gateway.example.org", "gpt-5", Some(("openai", "gpt-5", 400_000, Some(272_000))));
    assert_eq!(reason("gateway.example.org", "gpt-5"), MatchKind::OtherHost { rows: 1 });
    // No provider that serves this model made it.
    let found = look_up_at("gateway.example.org", "openai/gpt-oss-120b").unwrap();
    let smallest =
        table::rows_named("openai/gpt-oss-120b").map(|row| row.limits().unwrap().window).min();
    assert_eq!(Some(found.limits.window), smallest);
}

#[test]
fn table_matches_the_generator_script_output() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/config/models/make");
    let Ok(made) = Command::new("python3").args([script, "-"]).output() else {
        // CI and most machines have python3.
        assert!(std::env::var_os("CI").is_none(), "python3 is not installed");
        return;
    };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let table = concat!(env!("CARGO_MANIFEST_DIR"), "/config/models/table.tsv");
    let table = std::fs::read(table).unwrap();
    assert!(made.stdout == table, "run config/models/make");
}

#[test]
fn embedded_table_is_the_readable_one() {
    let readable = concat!(env!("CARGO_MANIFEST_DIR"), "/config/models/table.tsv");
    let readable = std::fs::read_to_string(readable).unwrap();
    assert!(*table::TABLE == readable, "run config/models/make");
}

proptest! {
    #[test]
    fn lookup_never_panics_on_arbitrary_hosts_and_names(host in "\\PC*", model in "\\PC*") {
        _ = look_up_at(&host, &model);
        _ = look_up_at("api.openai.com", &model);
        _ = look_up_at("gateway.example.org", &model);
    }

    #[test]
    fn lookup_never_panics_on_composed_name_parts(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "~", "models/", "us.", "ft:", ":free", "-v1:0", "-2024-08-06", "@20250514", "/",
                "gpt-5", "claude", "-", ":", "é", "\t", "\n",
            ]),
            0..8,
        ),
    ) {
        let model = parts.concat();
        for host in ["api.openai.com", "openrouter.ai", "gateway.example.org", "localhost"] {
            _ = look_up_at(host, &model);
        }
    }
}

/// Checks the prices of input, cached input and cache writes, in billionths of a dollar per token.
fn check_prices(host: &str, model: &str, expect: Option<(i64, Option<i64>)>) {
    let usage = |cached| Usage { input: 1, cached: Some(cached), ..Usage::default() };
    let found = prices(host, model).map(|prices| {
        let cost = |cached| prices.input_cost(&usage(cached)).map(Usd::as_nanos);
        (cost(0).unwrap(), cost(1))
    });
    assert_eq!(found, expect, "{model} at {host}");
}

#[test]
fn price_comes_only_from_the_same_provider_and_model() {
    check_prices("api.openai.com", "gpt-5", Some((1_250, Some(125))));
    check_prices("api.openai.com", "gpt-5-2025-08-07", Some((1_250, Some(125))));
    check_prices("openrouter.ai", "openai/gpt-5", Some((1_250, Some(125))));
    check_prices("openrouter.ai", "openai/gpt-5:nitro", None);
    check_prices("api.openai.com", "no-such-model", None);
    for nobody in ["gateway.example.org", "127.0.0.1"] {
        check_prices(nobody, "gpt-5", None);
    }
    // A subscription: not charged by the token.
    check_prices("api.githubcopilot.com", "gpt-4o", None);
}
