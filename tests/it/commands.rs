//! Commands of the dashboard's page: what they do to the next requests, and who may give none.

use longhaul_mock_model::{Model, ModelOptions, RequestKind};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::browser::Browser;
use crate::caller::{Caller, talk};
use crate::dashboard_page::{DESKTOP, link, words};
use crate::program::{Admin, Program};

const RULE: &str = "Never push to main.";
const OTHER: &str = "Answer in French.";

/// A user with a state folder, and a proxy that writes digests from 16,000 tokens on.
struct User {
    home: TempDir,
    model: Model,
    program: Program,
    caller: Caller,
}

impl User {
    async fn start(settings: &[(&str, &str)]) -> Self {
        let model = Model::start(ModelOptions::with_window(1_000_000)).await.unwrap();
        let home = tempfile::tempdir().unwrap();
        let program = Self::program(&model, &home, settings);
        let caller = Caller::of(program.address());
        Self { home, model, program, caller }
    }

    fn program(model: &Model, home: &TempDir, settings: &[(&str, &str)]) -> Program {
        let own = [
            ("XDG_STATE_HOME", home.path().to_str().unwrap()),
            ("LONGHAUL_WINDOW", "16000"),
            ("LONGHAUL_SUMMARY_MODEL", "none"),
        ];
        Program::with_admin(&model.url(), &[&own[..], settings].concat(), Admin::Free)
    }

    fn link(&self) -> String {
        link(&[("XDG_STATE_HOME", self.home.path().to_str().unwrap())])
    }

    fn token(&self) -> String {
        let path = self.home.path().join("longhaul/page.token");
        std::fs::read_to_string(path).unwrap()
    }

    /// Sends a chat, and returns what the model received of it.
    async fn forwarded(&self, turns: usize) -> String {
        assert_eq!(self.caller.ask(talk(turns, 500)).await.status, 200);
        let mut seen = self.model.seen().into_iter();
        let chat = seen.rfind(|seen| seen.kind == RequestKind::Chat).unwrap();
        String::from_utf8(chat.body.to_vec()).unwrap()
    }

    /// Asks for a page, or gives a command, with these header fields. Returns status and body.
    async fn exchange(&self, head: &str, fields: &[(&str, &str)], body: &str) -> (u16, Value) {
        let fields = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        let fields = fields.collect::<Vec<_>>().concat();
        let length = body.len();
        let request = format!("{head} HTTP/1.1\r\ncontent-length: {length}\r\n{fields}\r\n{body}");
        let answer = crate::admin::told(self.program.admin(), &request).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or_default())
    }

    /// Gives a command as the page does.
    async fn command(&self, body: &Value) -> (u16, Value) {
        let (admin, token) = (self.program.admin().to_string(), self.token());
        let fields = [
            ("host", &*admin),
            ("x-longhaul-token", &*token),
            ("content-type", "application/json"),
            ("origin", &*format!("http://{admin}")),
        ];
        self.exchange("POST /commands", &fields, &body.to_string()).await
    }

    async fn json(&self, path: &str) -> Value {
        let (admin, token) = (self.program.admin().to_string(), self.token());
        let fields = [("host", &*admin), ("x-longhaul-token", &*token)];
        let (status, page) = self.exchange(&format!("GET {path}"), &fields, "").await;
        assert_eq!(status, 200, "{path}");
        page
    }

    /// Returns the newest conversation.
    async fn newest(&self) -> Value {
        self.json("/conversations").await["conversations"][0].clone()
    }
}

#[tokio::test]
async fn a_command_without_its_guards_is_refused_with_a_reason_in_json() {
    let user = User::start(&[]).await;
    user.forwarded(1).await;
    let id = user.newest().await["id"].clone();
    let (admin, token) = (user.program.admin().to_string(), user.token());
    let own = format!("http://{admin}");
    let keep = json!({"command": "keep", "conversation": id, "text": RULE});
    let right = [
        ("host", &*admin),
        ("x-longhaul-token", &*token),
        ("content-type", "application/json"),
        ("origin", &*own),
    ];
    let check = async |name: &str, value: Option<&str>, expect: u16| {
        let others = right.iter().filter(|(field, _)| *field != name).copied();
        let fields: Vec<_> = others.chain(value.map(|value| (name, value))).collect();
        let (status, why) = user.exchange("POST /commands", &fields, &keep.to_string()).await;
        assert_eq!(status, expect, "{name}: {value:?}");
        assert!(why["error"].is_string(), "{why}");
    };
    check("x-longhaul-token", None, 403).await;
    check("x-longhaul-token", Some(&"0".repeat(64)), 403).await;
    check("origin", Some("http://127.0.0.1:1"), 403).await;
    check("origin", Some("null"), 403).await;
    check("sec-fetch-site", Some("same-site"), 403).await;
    check("host", Some("evil.example"), 403).await;
    check("content-type", Some("text/plain"), 415).await;
    check("content-type", None, 415).await;
    assert_eq!(user.exchange("GET /commands", &right, "").await.0, 404, "a command is a POST");
    let of =
        |command: &str, text: &str| json!({"command": command, "conversation": id, "text": text});
    let price = |input: f64| json!({"command": "set-price", "model": "m", "input": input});
    for (command, expect) in [
        (json!({"command": "purge"}), 400),
        (json!({"command": "keep", "conversation": id, "text": "a", "more": 1}), 400),
        (json!({"command": "set-price", "model": "m"}), 400),
        (json!({"command": "keep", "conversation": "0000000000000001", "text": "a"}), 404),
        (of("keep", ""), 422),
        (of("keep", &"x".repeat(4_001)), 422),
        (of("keep", &"x".repeat(60_000)), 413),
        (of("take-back", RULE), 404),
        (of("compact-again", &"x".repeat(4_001)), 422),
        (price(-1.0), 422),
    ] {
        let (status, why) = user.command(&command).await;
        assert_eq!(status, expect, "{command}");
        assert!(why["error"].is_string(), "{why}");
    }
    assert_eq!(
        user.json(&format!("/conversations/{}", id.as_str().unwrap())).await["kept"],
        json!([])
    );
    for turns in [40, 41] {
        assert!(!user.forwarded(turns).await.contains("[Kept]"));
    }
    // Every command that was read has one line, without content.
    assert_eq!(user.command(&keep).await.0, 200);
    let said = user.program.closed();
    let lines: Vec<_> = said.lines().filter(|it| it.contains("a command of the page")).collect();
    assert_eq!(lines.len(), 7, "{said}");
    assert!(lines.iter().any(|line| line.contains("keep") && !line.contains("refused")), "{said}");
    assert!(!said.contains(RULE) && !said.contains(&token), "{said}");
}

#[tokio::test]
async fn without_the_setting_or_a_state_folder_there_are_no_commands() {
    let price = json!({"command": "set-price", "model": "m", "input": 1});
    let user = User::start(&[("LONGHAUL_ADMIN_COMMANDS", "false")]).await;
    assert_eq!(user.command(&price).await.0, 403);
    assert_eq!(user.json("/conversations").await["commands"], false);
    let model = Model::start(ModelOptions::default()).await.unwrap();
    let program = Program::with_admin(&model.url(), &[], Admin::Free);
    let nobody = User { program, ..user };
    assert_eq!(nobody.command(&price).await.0, 403);
}

/// Chooses a tab of the conversation.
fn choose(browser: &mut Browser, tab: &str) {
    browser.wait_for(&format!("document.getElementById('tab-{tab}')"));
    browser.value(&format!("document.getElementById('tab-{tab}').click()"));
}

/// Writes a text to keep, and presses the button with this label.
fn press(browser: &mut Browser, text: &str, label: &str) {
    browser.wait_for("document.querySelector('form.command textarea')");
    browser.value(&format!(
        "(() => {{ const field = document.querySelector('form.command textarea'); field.value = '{text}'; \
         field.dispatchEvent(new Event('input', {{ bubbles: true }})); }})()"
    ));
    let button = format!(
        "[...document.querySelectorAll('#panel button')].find((it) => it.innerText === '{label}' && !it.disabled)"
    );
    browser.wait_for(&button);
    browser.value(&format!("{button}.click()"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs chromium"]
async fn a_text_kept_on_the_page_stands_from_the_next_break_on_until_it_is_taken_back() {
    let user = User::start(&[]).await;
    let first = user.forwarded(1).await;
    let mut browser = Browser::open(&user.link(), DESKTOP);
    choose(&mut browser, "Keep");
    press(&mut browser, RULE, "Keep");
    browser.wait_for(&format!("document.querySelector('.kept li q')?.innerText === '{RULE}'"));
    assert_eq!(user.forwarded(1).await, first, "no byte before a break");
    let digest = user.forwarded(40).await;
    assert!(digest.contains("[Kept]: Never push to main."), "{digest}");
    // A text that is taken back stands in no later segment.
    press(&mut browser, OTHER, "Keep");
    browser.wait_for("document.querySelectorAll('.kept li').length === 2");
    browser.value("document.querySelectorAll('.kept li button')[1].click()");
    browser.wait_for("document.querySelectorAll('.kept li').length === 1");
    // Compacted again: a new record at the newest prefix.
    let before = user.forwarded(41).await;
    press(&mut browser, "", "Compact again");
    browser.wait_for(
        "document.querySelector('article .facts').innerText.includes('with its next request')",
    );
    let again = user.forwarded(42).await;
    assert!(again.contains("[Kept]: Never push") && !again.contains(OTHER), "{again}");
    assert!(again.len() < before.len());
    let next = user.forwarded(43).await;
    let shared = again.bytes().zip(next.bytes()).take_while(|(one, other)| one == other).count();
    assert!(shared + 600 > again.len(), "the next request goes on from there: {next}");
    browser.wait_for("!document.querySelector('main').innerText.includes('with its next request')");
    press(&mut browser, OTHER, "Compact again and keep this");
    browser.wait_for(
        "document.querySelector('article .facts').innerText.includes('with its next request')",
    );
    let with = user.forwarded(44).await;
    assert!(with.contains("[Kept]: Answer in French."), "{with}");
    // No record changes: an undo finds the first one.
    let (record, _) = digest.split_once("[End of the record").unwrap();
    let undone = user.forwarded(36).await;
    assert!(undone.starts_with(record), "{undone}");
    assert!(!words(&mut browser).contains("error"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs chromium"]
async fn a_price_set_on_the_page_counts_for_an_unknown_model_and_survives_a_restart() {
    let user = User::start(&[]).await;
    user.forwarded(1).await;
    assert_eq!(user.newest().await["unknown"], 1);
    let mut browser = Browser::open(&user.link(), DESKTOP);
    choose(&mut browser, "Money");
    browser.wait_for("document.querySelector('form.price')");
    browser.value(
        "(() => { const form = document.querySelector('form.price'); form.elements.input.value = '1.25'; \
         form.elements.output.value = '10'; form.requestSubmit(); })()",
    );
    browser.wait_for("document.querySelector('form.price').innerText.includes('Set.')");
    user.forwarded(2).await;
    browser
        .wait_for("document.querySelector('.money').innerText.includes('at list or set prices')");
    words(&mut browser);
    drop(browser);
    let (home, model) = (user.home, user.model);
    user.program.closed();
    let program = User::program(&model, &home, &[]);
    let user = User { caller: Caller::of(program.address()), home, model, program };
    let before = user.newest().await["known"].as_u64().unwrap();
    user.forwarded(3).await;
    assert_eq!(user.newest().await["known"], before + 1);
    let state = [("XDG_STATE_HOME", user.home.path().to_str().unwrap())];
    user.program.closed();
    let file = user.home.path().join("longhaul/lessons.db.prices.json");
    assert!(file.exists());
    let told = crate::cli::stdout(&["store", "purge"], &state);
    assert!(
        told.contains(file.to_str().unwrap()) && told.contains("no store of records"),
        "{told}"
    );
    assert!(!file.exists());
}

#[tokio::test]
async fn what_a_running_longhaul_learned_is_not_purged() {
    let user = User::start(&[]).await;
    user.forwarded(1).await;
    let state = [("XDG_STATE_HOME", user.home.path().to_str().unwrap())];
    let said = ["lessons.db is in use by a running longhaul", "stop that process"];
    crate::cli::check_refused(&["store", "purge"], &state, &said);
    user.program.closed();
    assert!(crate::cli::stdout(&["store", "purge"], &state).contains("lessons.db"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs chromium"]
async fn a_stranger_a_foreign_page_and_a_page_without_commands_give_none() {
    let user = User::start(&[]).await;
    user.forwarded(1).await;
    let id = user.newest().await["id"].as_str().unwrap().to_owned();
    let admin = user.program.admin();
    let order = |token: &str| {
        let body = json!({"command": "keep", "conversation": id, "text": RULE}).to_string();
        format!(
            "fetch('http://{admin}/commands', {{ method: 'POST', body: '{body}', headers: {{ \
             'content-type': 'application/json', 'x-longhaul-token': '{token}' }} }}).then(\
             (answer) => answer.status, () => 'refused')"
        )
    };
    let mut stranger = Browser::open(&format!("http://{admin}/"), DESKTOP);
    stranger.wait_for("document.body.innerText.includes('needs its link')");
    assert_eq!(stranger.value(&order("")), 403);
    // A page of another port has the token, and is of another origin.
    let mut foreign = Browser::open(&user.model.url(), DESKTOP);
    foreign.wait_for("location.protocol === 'http:' && document.readyState === 'complete'");
    assert_eq!(foreign.value(&order(&user.token())), "refused");
    let simple = order("").replace("method:", "mode: 'no-cors', method:");
    assert_eq!(foreign.value(&simple), 0, "an answer that the page cannot read");
    let other = User::start(&[("LONGHAUL_ADMIN_COMMANDS", "false")]).await;
    other.forwarded(1).await;
    let mut without = Browser::open(&other.link(), DESKTOP);
    without.wait_for("document.querySelector('.request')");
    assert!(without.value("document.getElementById('tab-Keep')").is_null());
    choose(&mut without, "Money");
    without.wait_for("document.getElementById('panel').innerText.includes('[[price]]')");
    let kept = user.json(&format!("/conversations/{id}")).await["kept"].clone();
    assert_eq!(kept, json!([]));
    let mut own = Browser::open(&user.link(), DESKTOP);
    own.wait_for("document.querySelector('.request')");
    assert_eq!(own.value(&order(&user.token())), 200);
}
