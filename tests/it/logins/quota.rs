//! Quota of logins: read from replies, shown, and kept by calls in the background.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;

use super::hosts::{Answer, Hosts, Seen, answered, post};
use super::{ACCOUNT, TOKEN, proxy};
use crate::browser::Browser;
use crate::program::{Admin, Program};

fn stating(fields: &str) -> impl Fn(&Seen) -> Answer + Send + Sync + use<> {
    let fields = fields.to_owned();
    move |request| {
        let (status, own, body) = answered();
        let body = if request.path.contains("messages") {
            json!({"type": "message", "role": "assistant", "content": [],
                "usage": {"input_tokens": 9, "output_tokens": 1}})
            .to_string()
        } else {
            body
        };
        (status, own + &fields, body)
    }
}

const CODEX: &str = "x-codex-primary-used-percent: 12.5\r\nx-codex-primary-window-minutes: 10080\r\n\
    x-codex-primary-reset-at: 4102444800\r\nx-codex-secondary-used-percent: 41\r\n\
    x-codex-secondary-window-minutes: 300\r\nx-codex-secondary-reset-after-seconds: 60\r\n\
    x-codex-bengalfox-primary-used-percent: 99\r\nx-codex-bengalfox-primary-window-minutes: 300\r\n";
const CLAUDE: &str = "anthropic-ratelimit-unified-status: rejected\r\n\
    anthropic-ratelimit-unified-5h-utilization: 0.63\r\nanthropic-ratelimit-unified-5h-reset: 4102444800\r\n\
    anthropic-ratelimit-unified-7d-utilization: 1.02\r\nanthropic-ratelimit-unified-7d_oi-utilization: 0.2\r\n";

/// Runs `longhaul quota` against `program`.
async fn shown(program: &Program) -> String {
    let admin = program.admin().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command.args(["quota", "--admin", &admin]).env_clear().env("TZ", "IST-05:30");
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = output.await.unwrap();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn quota_is_shown_by_the_length_of_its_windows() {
    let login = [("authorization", TOKEN), ACCOUNT];
    let claude = [("authorization", "Bearer sk-ant-oat01-x")];
    for (fields, path, credential, lines, gauges) in [
        (
            CODEX,
            "/v1/responses",
            &login[..],
            &[
                "chatgpt, 7 d: 12% used, resets 01 Jan 05:30 +05:30",
                "chatgpt, 5 h: 41% used, resets ",
                "chatgpt, 5 h (bengalfox alone): 99% used",
            ][..],
            ["0.41", "0.125"],
        ),
        (
            CLAUDE,
            "/v1/messages",
            &claude[..],
            &[
                "claude, 5 h: 63% used, resets 01 Jan 05:30 +05:30",
                "claude, 7 d: 102% used",
                "claude, 7 d (oi alone): 20% used",
                "claude: the provider refuses requests at present, perhaps of one model",
            ],
            ["0.63", "1.02"],
        ),
        // Odd values cost nobody anything.
        (
            "x-codex-primary-used-percent: NaN\r\nx-codex-primary-window-minutes: 300\r\n\
          x-codex-secondary-used-percent: 5\r\nx-codex-secondary-window-minutes: 0\r\n\
          anthropic-ratelimit-unified-xd-utilization: 0.5\r\nanthropic-ratelimit-unified-h-utilization: 1\r\n\
          anthropic-ratelimit-unified-99999999999999999999d-utilization: 1\r\n",
            "/v1/responses",
            &login[..],
            &["no reply has stated a quota yet"],
            ["0", "0"],
        ),
    ] {
        let hosts = Hosts::start(stating(fields)).await;
        let program = Program::with_admin("", &hosts.environment(), Admin::Free);
        post(program.address(), path, credential, r#"{"model":"m","input":"go","messages":[]}"#)
            .await;
        let said = shown(&program).await;
        for line in lines {
            assert!(said.contains(line), "{line}: {said}");
        }
        let page = crate::admin::get(program.admin(), "/metrics").await;
        for (label, gauge) in [("5h", gauges[0]), ("7d", gauges[1]), ("other", "0")] {
            let line = format!("longhaul_quota_used_ratio{{window=\"{label}\"}} {gauge}\n");
            assert!(page.contains(&line), "{line}");
        }
        assert!(!page.contains("acc-1") && !said.contains("acc-1"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs chromium"]
async fn the_page_shows_the_quota() {
    let hosts = Hosts::start(stating(CODEX)).await;
    let program = Program::with_admin("", &hosts.environment(), Admin::Free);
    let login = [("authorization", TOKEN), ACCOUNT];
    let body = r#"{"model":"m","input":"go"}"#;
    post(program.address(), "/v1/responses", &login, body).await;
    let mut browser = Browser::open(&format!("http://{}/", program.admin()), (1_400, 900));
    browser.wait_for("document.querySelectorAll('.card').length > 4");
    let cards = browser.text("document.querySelector('.cards').innerText");
    for words in
        ["quota, 7 d", "12% used", "resets 2100-01-01", "quota, 5 h (bengalfox alone)", "99% used"]
    {
        assert!(cards.contains(words), "{words}: {cards}");
    }
    assert!(!cards.contains("acc-1") && browser.errors.is_empty(), "{:?}", browser.errors);
}

/// Plays a conversation that grows to its window, and returns the number of requests that are longhaul's own.
async fn own_calls(fields: &str, settings: &[(&str, &str)]) -> usize {
    let hosts = Hosts::start(stating(fields)).await;
    let mut all = vec![("window", "24000"), ("prune.disabled", "true")];
    all.extend(settings);
    let proxy = proxy(&hosts, &all).await;
    let mut input = Vec::new();
    let mut sent = 0;
    for turn in 0..30 {
        let text = format!("{turn} {}", "some words of work ".repeat(150));
        input.push(json!({"type": "message", "role": "user", "content": text}));
        input.push(json!({"type": "message", "role": "assistant", "content": "done"}));
        input.push(json!({"type": "message", "role": "user", "content": "go on"}));
        let body = json!({"model": "gpt-5", "input": input}).to_string();
        let key = [("authorization", "Bearer sk-1")];
        post(proxy.address, "/v1/responses", &key, &body).await;
        sent += 1;
        input.push(json!({"type": "message", "role": "assistant", "content": "done"}));
        if body.len() > 80_000 {
            break;
        }
    }
    // A call in the background may begin after the last reply.
    let mut seen = hosts.take().len();
    for _ in 0..100 {
        if seen > sent {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        seen += hosts.take().len();
    }
    proxy.stop().await;
    seen + hosts.take().len() - sent
}

#[tokio::test(flavor = "multi_thread")]
async fn background_calls_pause_above_the_share_of_the_setting() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let at = |place: &str, percent: u32, reset: u64| {
        format!(
            "x-codex-{place}-used-percent: {percent}\r\nx-codex-{place}-window-minutes: 300\r\n\
             x-codex-{place}-reset-at: {reset}\r\n"
        )
    };
    for (fields, setting, pauses) in [
        (at("primary", 89, now + 900), "90", false),
        (at("primary", 90, now + 900), "90", true),
        (at("primary", 95, now + 900), "96", false),
        (at("primary", 100, now + 900), "0", false),
        (at("primary", 95, now - 1), "90", false),
        (at("bengalfox-primary", 99, now + 900), "90", false),
    ] {
        let calls = own_calls(&fields, &[("summary.max_quota", setting)]).await;
        assert_eq!(calls == 0, pauses, "{fields} {setting}: {calls}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn run_ends_with_the_quota() {
    let hosts = Hosts::start(stating(CODEX)).await;
    let home = tempfile::tempdir().unwrap();
    let body = r#"{"model":"m","input":"go"}"#;
    let line = format!(
        "exec bash -c 'at=${{OPENAI_HOST#http://}}; exec 3<>/dev/tcp/${{at%:*}}/${{at#*:}}; \
         printf \"POST /v1/responses HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\
         Authorization: {TOKEN}\\r\\nChatGPT-Account-ID: acc-1\\r\\nContent-Length: {}\\r\\n\\r\\n%s\" \
         \"$0\" >&3; cat <&3 >/dev/null' '{body}'",
        body.len()
    );
    let said = super::clients::run(&hosts, home.path(), &[], &line).await;
    assert!(said.contains("longhaul: chatgpt, 5 h: 41% used, resets "), "{said}");
}
