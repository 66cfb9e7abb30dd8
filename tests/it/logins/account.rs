//! Records that follow an account: which tokens share a scope, and which do not.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::hosts::{Answer, Hosts, Seen, answered, post};
use crate::admin::get;
use crate::program::{Admin, Program};

/// Returns a token of `subject` that the host accepts for the account `signed`.
fn token(subject: &str, serial: u32, signed: &str) -> String {
    let part = |value: String| URL_SAFE_NO_PAD.encode(value);
    let claims = json!({"sub": subject, "jti": serial}).to_string();
    format!("Bearer {}.{}.{}", part("{}".into()), part(claims), part(signed.into()))
}

/// Accepts a token with the account that its signature names.
fn checks(request: &Seen) -> Answer {
    let signed = request.field("authorization").rsplit('.').next().unwrap();
    let account = URL_SAFE_NO_PAD.encode(request.field("chatgpt-account-id"));
    if request.host == "chatgpt.com" && signed != account {
        return (401, String::new(), "{}".into());
    }
    answered()
}

/// Sends two requests with each token, and returns the callers of both as the dashboard names them.
async fn callers(upstream: &[(&str, &str)], requests: &[(&str, String, &str)]) -> Vec<[String; 2]> {
    let hosts = Hosts::start(checks).await;
    let mut environment = hosts.environment().to_vec();
    environment.extend(upstream);
    let program = Program::with_admin("", &environment, Admin::Free);
    for (name, token, account) in requests {
        for turn in 1..3 {
            let body = json!({"model": "m", "input": format!("{name} {turn}")}).to_string();
            let fields = [("authorization", &**token), ("chatgpt-account-id", *account)];
            post(program.address(), "/v1/responses", &fields, &body).await;
        }
    }
    let page = get(program.admin(), "/export.json").await;
    let (_, body) = page.split_once("\r\n\r\n").unwrap();
    let all: Vec<Value> = serde_json::from_str(body).unwrap();
    let caller = |name: &str, turn: u8| {
        let title = format!("{name} {turn}");
        let one = all.iter().find(|it| it["title"] == title.as_str());
        one.unwrap_or_else(|| panic!("{title}: {body}"))["caller"].to_string()
    };
    let pair = |(name, ..): &(&str, String, &str)| [1, 2].map(|turn| caller(name, turn));
    requests.iter().map(pair).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_token_joins_its_account_once_the_host_has_accepted_both() {
    let found = callers(
        &[],
        &[
            ("old", token("user-1", 1, "acc-1"), "acc-1"),
            ("renewed", token("user-1", 2, "acc-1"), "acc-1"),
            ("colleague", token("user-2", 3, "acc-1"), "acc-1"),
            ("other account", token("user-1", 4, "acc-2"), "acc-2"),
            ("forged account", token("user-1", 5, "acc-3"), "acc-1"),
            ("forged subject", token("user-1", 6, "nobody"), "acc-1"),
        ],
    )
    .await;
    let [old, renewed, others @ ..] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(old[1], renewed[1]);
    assert!(old[0] != old[1] && renewed[0] != old[0] && renewed[0] != renewed[1], "{found:?}");
    for other in others {
        assert!(!other.contains(&old[1]), "{found:?}");
    }
}

/// Another host may accept whatever claims it is shown.
#[tokio::test(flavor = "multi_thread")]
async fn at_a_gateway_that_ignores_the_account_no_token_joins_another() {
    for upstream in ["https://api.openai.com/v1", "https://api.anthropic.com/v1"] {
        let found = callers(
            &[("LONGHAUL_UPSTREAM", upstream)],
            &[
                ("one", token("user-1", 1, "acc-1"), "acc-1"),
                ("other", token("user-1", 2, "acc-1"), "acc-1"),
            ],
        )
        .await;
        assert!(found[1].iter().all(|caller| !found[0].contains(caller)), "{found:?}");
    }
}
