//! The dashboard's page in a real browser: its behaviour, not its markup.

use std::path::Path;

use longhaul_mock_model::{Model, ModelOptions};
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::caller::Caller;
use crate::dashboard::{json_of, play_counted};
use crate::program::{Admin, Program};

/// Text that would run as a script if it were interpreted as markup.
const MARKUP: &str = "<img src=x onerror=\"document.title='broken'\"><script>1</script>";
pub(crate) const DESKTOP: (u32, u32) = (1_400, 900);
const PHONE: (u32, u32) = (390, 844);

/// The checker of accessibility that tests/sdk/install installs.
const AXE: &str = "target/sdk/node/node_modules/axe-core/axe.min.js";

/// Sends the first request of a conversation.
async fn ask(caller: &Caller, words: &str) -> u16 {
    let message = json!({"role": "user", "content": words});
    let body = json!({"model": "m", "messages": [message]}).to_string();
    caller.ask(body).await.status
}

/// Starts a model and a proxy, and plays the demo's session.
async fn after_the_demo(settings: &[(&str, &str)]) -> (Model, Program, Caller) {
    let options = ModelOptions { price: Some(1_250), ..ModelOptions::default() };
    let model = Model::start(options).await.unwrap();
    let program = Program::with_admin(&model.url(), settings, Admin::Free);
    let caller = Caller::of(program.address());
    play_counted(&caller).await;
    (model, program, caller)
}

fn page(program: &Program) -> String {
    format!("http://{}/", program.admin())
}

/// Returns the link of the user whose state folder is in `state`. A program opens its socket right after its
/// greeting, so the first answers may be missing.
pub(crate) fn link(state: &[(&str, &str)]) -> String {
    let mut answers = (0..100).map(|_| crate::cli::longhaul(&["dashboard"], state));
    let answer = answers.find(|answer| answer.status.success());
    String::from_utf8(answer.expect("a page of the user").stdout).unwrap().trim().to_owned()
}

/// Returns the conversation with the most requests, as the user's page shows it.
async fn busiest_of_user(program: &Program, state: &[(&str, &str)]) -> Value {
    let link = link(state);
    let (_, token) = link.split_once("#token=").unwrap();
    let admin = program.admin();
    let stranger = crate::admin::get(admin, "/conversations").await;
    assert!(stranger.starts_with("HTTP/1.1 403 "), "{stranger}");
    let asked = format!(
        "GET /conversations HTTP/1.1\r\nHost: {admin}\r\nx-longhaul-token: {token}\r\n\r\n"
    );
    let answer = crate::admin::told(admin, &asked).await;
    busiest_of(&serde_json::from_str(crate::admin::body(&answer, "200")).unwrap())
}

/// Returns the conversation with the most requests.
async fn busiest(program: &Program) -> Value {
    busiest_of(&json_of(program.admin(), "/conversations").await)
}

fn busiest_of(all: &Value) -> Value {
    let conversations = all["conversations"].as_array().unwrap().iter();
    conversations.max_by_key(|one| one["requests"].as_u64()).unwrap().clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs chromium"]
async fn what_was_cleared_and_why_is_two_clicks_away() {
    let (_model, program, _caller) = after_the_demo(&[]).await;
    let id = busiest(&program).await["id"].as_str().unwrap().to_owned();
    let one = json_of(program.admin(), &format!("/conversations/{id}")).await;
    let points = one["points"].as_array().unwrap();
    let cleared = points
        .iter()
        .find(|point| point["cleared"].as_u64() > Some(0) && point["has_account"] == json!(true));
    let number = cleared.unwrap()["number"].as_u64().unwrap();
    for size in [DESKTOP, PHONE] {
        let mut browser = Browser::open(&page(&program), size);
        browser.wait_for("document.querySelector('.row')");
        browser.value("document.querySelector('.row').click()");
        browser.wait_for("document.querySelector('.request')");
        let line = format!(
            "[...document.querySelectorAll('.request > button')].find((line) => \
             line.querySelector('.number').textContent === '{number}')"
        );
        let older = format!(
            "(() => {{ const line = {line}; if (line) return true; \
             document.querySelector('main .more').click(); return false; }})()"
        );
        browser.wait_for(&older);
        browser.value(&format!("{line}.click()"));
        browser.wait_for("document.querySelector('.explanation tr.cleared')");
        let why = browser.text("document.querySelector('.explanation p').innerText");
        assert!(why.starts_with("Why: ") && why.len() > 30, "{why}");
        let row = browser.text("document.querySelector('.explanation tr.cleared').innerText");
        assert!(row.contains("cleared"), "{row}");
        let layers = browser.text("document.querySelector('.explanation table').innerText");
        assert!(layers.contains("steps") && layers.contains("tail"), "{layers}");
        let address = browser.text("location.hash");
        assert!(address.starts_with(&format!("#/c/{id}/r/")), "{address}");
        let is_wide = browser.value("document.documentElement.scrollWidth > innerWidth");
        assert_eq!(is_wide, false, "nothing scrolls sideways at {size:?}");
        let table = "document.querySelector('.explanation .scroll')";
        let is_cut = browser.value(&format!("{table}.scrollWidth > {table}.clientWidth"));
        assert_eq!(is_cut, false, "no column of the explanation is cut at {size:?}");
        assert_eq!(browser.value(IS_TO_SCALE), true, "the bar of messages at {size:?}");
        let is_low = "(() => { const plot = document.querySelector('.plot'); \
            return plot.querySelector('canvas').clientHeight > plot.clientHeight; })()";
        assert_eq!(browser.value(is_low), false, "the axis of the chart is cut at {size:?}");
        // The address alone leads there.
        let mut again = Browser::open(&format!("{}{address}", page(&program)), size);
        again.wait_for("document.querySelector('.explanation tr.cleared')");
        again.wait_for("document.title !== 'longhaul'");
        for browser in [&browser, &again] {
            assert!(browser.errors.is_empty(), "{:?}", browser.errors);
        }
    }
}

/// Delays what runs after a paint until the first data have come, and stops the page's clock.
const LATE_EFFECTS: &str = "requestAnimationFrame = () => 0; setInterval = () => 0; \
     const later = setTimeout; setTimeout = (run, wait) => later(run, (wait ?? 0) + 500);";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs chromium"]
async fn data_that_come_before_the_first_paint_are_shown() {
    let model = Model::start(ModelOptions::default()).await.unwrap();
    let program = Program::with_admin(&model.url(), &[], Admin::Free);
    let mut browser = Browser::open_after(LATE_EFFECTS, &page(&program), DESKTOP);
    browser.wait_for("document.querySelector('.empty')");
    assert!(browser.errors.is_empty(), "{:?}", browser.errors);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs chromium and the SDKs of tests/sdk/install"]
async fn axe_core_finds_nothing_in_either_scheme_on_a_desktop_and_a_phone() {
    let axe = Path::new(env!("CARGO_MANIFEST_DIR")).join(AXE);
    let axe = std::fs::read_to_string(axe).expect("tests/sdk/install installs axe-core");
    let home = tempfile::tempdir().unwrap();
    let state = [("XDG_STATE_HOME", home.path().to_str().unwrap())];
    let model = Model::start(ModelOptions::default()).await.unwrap();
    let program = Program::with_admin(&model.url(), &state, Admin::Free);
    play_counted(&Caller::of(program.address())).await;
    for size in [DESKTOP, PHONE] {
        let mut browser = Browser::open(&link(&state), size);
        browser.wait_for("document.querySelector('.row')");
        browser.value(&format!("{axe}; true"));
        for (open, shows) in [
            ("null", "main"),
            ("'.row'", "article .chart"),
            ("'.request > button'", ".explanation table"),
            ("'#tab-Money'", "form.price"),
            ("'#tab-Keep'", "form.command textarea"),
        ] {
            browser.value(&format!("document.querySelector({open})?.click()"));
            browser.wait_for(&format!("document.querySelector('{shows}')"));
            for scheme in ["light", "dark"] {
                browser.prefers(scheme);
                let found = browser.value(
                    "axe.run().then((found) => found.violations.map((rule) => \
                     rule.id + ': ' + rule.nodes.map((node) => node.target + ' ' + node.any[0]?.message).join(', ')))",
                );
                assert_eq!(found, json!([]), "{size:?}, {scheme}, after {open}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs chromium"]
async fn focus_selection_scroll_and_a_slow_click_survive_new_requests() {
    let (_model, program, caller) = after_the_demo(&[]).await;
    let id = busiest(&program).await["id"].as_str().unwrap().to_owned();
    let mut browser = Browser::open(&format!("{}#/c/{id}", page(&program)), DESKTOP);
    browser.wait_for("document.querySelectorAll('.request').length > 10");
    browser.value(
        "(() => { const line = document.querySelectorAll('.request > button')[7]; line.focus(); \
         window.line = line; const range = document.createRange(); \
         range.selectNodeContents(document.querySelector('.facts')); \
         getSelection().removeAllRanges(); getSelection().addRange(range); \
         document.querySelector('main').scrollTop = 200; })()",
    );
    let before = browser.text("getSelection().toString().split('·')[0]");
    let place = "(() => { const box = document.querySelector('.list .row').getBoundingClientRect(); \
                 return [box.x + 30, box.y + 12]; })()";
    for number in 0..3 {
        assert_eq!(ask(&caller, &format!("A new conversation {number}")).await, 200);
        browser.wait_for(&format!(
            "[...document.querySelectorAll('.row .title')].some((title) => title.textContent === \
             'A new conversation {number}')"
        ));
    }
    assert_eq!(browser.value("document.activeElement === window.line"), true);
    assert_eq!(browser.value("document.querySelector('main').scrollTop"), 200);
    let after = browser.text("getSelection().toString().split('·')[0]");
    assert_eq!(after, before);
    // Enter opens the request that has the focus.
    browser.press("Enter", 13);
    browser.wait_for("document.querySelector('.explanation table')");
    // The row under the pointer stays the same node while another conversation becomes the newest.
    browser.value("document.querySelector('.filters select:nth-of-type(1)')");
    let place = browser.value(place);
    let wanted = browser.text("document.querySelector('.list .row').hash");
    browser.mouse("mousePressed", &place);
    assert_eq!(ask(&caller, "A new conversation 2").await, 200);
    browser.wait_for("document.querySelector('.list .row')");
    browser.mouse("mouseReleased", &place);
    browser.wait_for(&format!("location.hash === '{wanted}'"));
    // The arrow keys read the chart.
    let back = format!("location.hash = '#/c/{id}'");
    browser.value(&back);
    browser.wait_for("document.querySelector('.plot canvas')");
    browser.value("document.querySelector('.plot').focus()");
    browser.press("Home", 36);
    browser.wait_for("document.querySelector('.readout').innerText.startsWith('1 ')");
    browser.press("ArrowRight", 39);
    browser.wait_for("document.querySelector('.readout').innerText.startsWith('2 ')");
    assert!(browser.errors.is_empty(), "{:?}", browser.errors);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs chromium"]
async fn text_of_a_conversation_is_text_and_failures_are_seen() {
    let model = Model::start(ModelOptions::default()).await.unwrap();
    let program = Program::with_admin(&model.url(), &[], Admin::Free);
    let caller = Caller::of(program.address());
    let message = json!({"role": "user", "content": MARKUP});
    let body = json!({"model": MARKUP, "messages": [message]});
    assert_eq!(caller.ask(body.to_string()).await.status, 200);
    let mut browser = Browser::open(&page(&program), DESKTOP);
    browser.wait_for("document.querySelector('.row')");
    assert_eq!(browser.text("document.querySelector('.row .title').textContent"), MARKUP);
    browser.value("document.querySelector('.row').click()");
    browser.wait_for("document.querySelector('.request')");
    browser.wait_for("document.title !== 'longhaul'");
    assert_ne!(browser.text("document.title"), "broken");
    let money = "document.getElementById('tab-Money').click()";
    browser.value(money);
    browser.wait_for(
        "document.getElementById('panel').innerText.includes('unknown for 1 of 1 request')",
    );
    browser.wait_for("document.getElementById('panel').innerText.includes('[[price]]')");
    // An upstream that is gone fails every request.
    drop(model);
    assert_eq!(ask(&caller, "Anybody there?").await, 502);
    browser.wait_for("document.querySelector('.alarm')?.innerText.includes('1 failed')");
    browser
        .wait_for("document.querySelector('.problems')?.innerText.includes('cannot be reached')");
    browser.wait_for(
        "[...document.querySelectorAll('.row')].some((row) => row.innerText.includes('1 error'))",
    );
    // Such a request has its fault in words, and no forwarded size.
    browser.value(
        "[...document.querySelectorAll('.row')].find((row) => row.innerText.includes('1 error')).click()",
    );
    browser.wait_for("document.querySelector('.request.failed .what')?.innerText.includes('upstream unreachable')");
    browser
        .wait_for("document.querySelector('.request.failed .size').innerText.includes('nothing')");
    browser.wait_for("document.querySelector('.readout').innerText.includes('forwarded nothing')");
    // Search finds by words, and says how many there are.
    browser.value(
        "(() => { const field = document.querySelector('input[type=search]'); field.value = 'anybody'; \
         field.dispatchEvent(new Event('input')); })()",
    );
    browser.wait_for("document.querySelector('.count').innerText.startsWith('1 of 2')");
    let words = browser.text("document.body.innerText");
    assert!(!words.contains("NaN") && !words.contains("undefined"), "{words}");
    assert!(browser.errors.is_empty(), "{:?}", browser.errors);
}

/// Reads the words of the page, which name no value that is missing.
#[track_caller]
pub(crate) fn words(browser: &mut Browser) -> String {
    let words = browser.text("document.body.innerText");
    assert!(!words.contains("NaN") && !words.contains("undefined"), "{words}");
    assert!(browser.errors.is_empty(), "{:?}", browser.errors);
    words
}

/// Tests whether each message of the request as sent is as wide as its share of the tokens.
const IS_TO_SCALE: &str = "(() => { const bar = document.querySelector('.bar'); \
    const tokens = (cell) => Number(cell.title.match(/([\\d,]+) tokens/)[1].replaceAll(',', '')); \
    const cells = [...bar.children]; const all = cells.reduce((sum, cell) => sum + tokens(cell), 0); \
    return cells.length > 9 && cells.every((cell) => \
      Math.abs(cell.getBoundingClientRect().width - bar.clientWidth * tokens(cell) / all) < 1); })()";

/// Tests whether something is wider than the window.
const IS_WIDE: &str = "document.documentElement.scrollWidth > innerWidth";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs chromium"]
async fn the_first_screen_answers_without_a_click() {
    let model = Model::start(ModelOptions::default()).await.unwrap();
    let program = Program::with_admin(&model.url(), &[], Admin::Free);
    let mut browser = Browser::open(&page(&program), DESKTOP);
    browser.wait_for("document.querySelector('.empty')?.innerText.includes('ANTHROPIC_BASE_URL')");
    // One conversation is open, and says how full its window is.
    let caller = Caller::of(program.address());
    assert_eq!(ask(&caller, "The first one").await, 200);
    browser.wait_for("document.querySelector('#title')?.innerText === 'The first one'");
    browser.wait_for("document.querySelector('.chart')?.innerText.includes('One request so far')");
    // Nothing has a price, so no amount is shown.
    play_counted(&caller).await;
    browser.wait_for("document.querySelectorAll('.feed .request').length > 10");
    browser.wait_for("document.querySelector('.cards')?.innerText.includes('unknown for')");
    browser.wait_for("document.querySelector('.trend canvas')");
    assert!(!words(&mut browser).contains('$'));
    let first = "document.querySelector('.feed .number, .feed .time').innerText";
    let newest = browser.text(first);
    assert_eq!(newest.len(), "12:00:00".len(), "{newest}");
    for size in [PHONE, (320, 700)] {
        let mut phone = Browser::open(&page(&program), size);
        phone.wait_for("document.querySelector('.trend canvas')");
        assert_eq!(phone.value(IS_WIDE), false, "{size:?}");
        phone.value("document.querySelector('.feed a').click()");
        phone.wait_for("document.querySelector('.explanation')");
        assert_eq!(phone.value(IS_WIDE), false, "{size:?}");
        words(&mut phone);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs chromium"]
async fn mode_shadow_says_what_it_would_have_saved() {
    let (_model, program, _caller) = after_the_demo_in_shadow().await;
    let mut browser = Browser::open(&page(&program), DESKTOP);
    browser.wait_for("document.querySelector('.badge.shadow')");
    browser.wait_for("document.querySelector('.cards').innerText.includes('would have saved')");
    browser.wait_for("document.querySelector('.readout').innerText.includes('would forward')");
    let readout = browser.text("document.querySelector('.readout').innerText");
    let numbers: Vec<&str> = readout.split("ed ").skip(1).collect();
    let sizes: Vec<&str> = numbers.iter().filter_map(|it| it.split(' ').next()).collect();
    assert_eq!(sizes[0], sizes[1], "what went out is what came: {readout}");
    let one = busiest(&program).await;
    let [saved, tokens] = ["would_save", "shadow_saved"].map(|field| one[field].as_u64().unwrap());
    assert!(saved > 0 && saved <= tokens * 500, "at $0.50 for a million tokens: {one}");
    browser.wait_for(
        "document.querySelector('.cards').innerText.includes('at the price of cached input')",
    );
    browser.value("document.getElementById('tab-Money').click()");
    browser.wait_for("document.querySelector('.money').innerText.includes('Would have saved')");
    assert!(words(&mut browser).contains("LONGHAUL_MODE=on"));
}

async fn after_the_demo_in_shadow() -> (Model, Program, Caller) {
    let model = Model::start(ModelOptions::with_window(10_000_000)).await.unwrap();
    let home = tempfile::tempdir().unwrap();
    let prices = home.path().join("prices.toml");
    std::fs::write(&prices, "[[price]]\nmatch = '*'\ninput = 2\ncached = 0.5\n").unwrap();
    let settings = [
        ("LONGHAUL_MODE", "shadow"),
        ("LONGHAUL_WINDOW", "32768"),
        ("LONGHAUL_CONFIG", prices.to_str().unwrap()),
    ];
    let program = Program::with_admin(&model.url(), &settings, Admin::Free);
    let caller = Caller::of(program.address());
    play_counted(&caller).await;
    (model, program, caller)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs chromium"]
async fn an_error_of_the_provider_has_its_status_and_its_name() {
    let model = Model::start(ModelOptions::default()).await.unwrap();
    let program = Program::with_admin(&model.url(), &[], Admin::Free);
    let caller = Caller::of(program.address());
    // No window holds this message, and nothing of it can go.
    assert_eq!(ask(&caller, &"word ".repeat(200_000)).await, 400);
    let mut browser = Browser::open(&page(&program), DESKTOP);
    browser.wait_for("document.querySelector('.request.failed')");
    let row = browser.text("document.querySelector('.request.failed').innerText");
    assert!(row.contains("400"), "{row}");
    browser.value("document.querySelector('.request.failed > button').click()");
    browser.wait_for("document.querySelector('.explanation p')?.innerText.includes('error 400 ')");
    words(&mut browser);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs chromium"]
async fn totals_and_rows_survive_a_restart_without_text() {
    let home = tempfile::tempdir().unwrap();
    let state = [("XDG_STATE_HOME", home.path().to_str().unwrap())];
    let (model, program, _caller) = after_the_demo(&state).await;
    let before = busiest_of_user(&program, &state).await;
    program.closed();
    let folder = home.path().join("longhaul");
    let kept = std::fs::read_to_string(folder.join("lessons.db.conversations.json")).unwrap();
    let title = before["title"].as_str().unwrap();
    assert!(!title.is_empty() && !kept.contains(title), "{kept}");
    let program = Program::with_admin(&model.url(), &state, Admin::Free);
    let after = busiest_of_user(&program, &state).await;
    for field in ["id", "requests", "tokens_before", "tokens_after", "unknown", "reported", "last"]
    {
        assert_eq!(before[field], after[field], "{field}");
    }
    let mut browser = Browser::open(&link(&state), DESKTOP);
    browser.wait_for("document.querySelector('.row')");
    browser.wait_for("document.querySelector('.cards').innerText.includes('received')");
    browser.wait_for("document.querySelector('main').innerText.includes('over a restart')");
    words(&mut browser);
    drop(browser);
    // The next request of the conversation goes on with the same row.
    play_counted(&Caller::of(program.address())).await;
    let again = busiest_of_user(&program, &state).await;
    assert_eq!(again["id"], before["id"]);
    assert!(again["requests"].as_u64() > before["requests"].as_u64());
    program.closed();
    assert!(crate::cli::stdout(&["store", "purge"], &state).contains("deleted"));
    assert!(!folder.join("lessons.db.conversations.json").exists());
    assert!(!folder.join("lessons.db.days.json").exists());
}

#[tokio::test]
async fn titles_survive_a_restart_sealed_and_only_where_content_is_shown() {
    let home = tempfile::tempdir().unwrap();
    let state = [("XDG_STATE_HOME", home.path().to_str().unwrap())];
    let shown = [state[0], ("LONGHAUL_ADMIN_SHOW_CONTENT", "true")];
    let model = Model::start(ModelOptions::default()).await.unwrap();
    let started = |settings: &[_]| Program::with_admin(&model.url(), settings, Admin::Free);
    let file = home.path().join("longhaul/lessons.db.titles");

    let program = started(&shown);
    assert_eq!(ask(&Caller::of(program.address()), "Repair the aqueduct").await, 200);
    program.closed();
    let sealed = std::fs::read(&file).unwrap();
    assert!(memchr::memmem::find(&sealed, b"aqueduct").is_none());
    let mode = std::fs::metadata(&file).unwrap().permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600);
    let rows = std::fs::read_to_string(file.with_file_name("lessons.db.conversations.json"));
    assert!(!rows.unwrap().contains("aqueduct"));

    let program = started(&shown);
    let after = busiest_of_user(&program, &state).await;
    assert_eq!(after["title"], "Repair the aqueduct");
    assert_eq!(after["body"], "Repair the aqueduct");
    program.closed();
    // Without the setting, the titles are neither shown nor kept.
    let program = started(&state);
    assert_eq!(busiest_of_user(&program, &state).await["title"], "");
    program.closed();
    let program = started(&shown);
    let after = busiest_of_user(&program, &state).await;
    assert_eq!((&after["title"], &after["requests"]), (&json!(""), &json!(1)));
    program.closed();
    assert!(file.exists());
    assert!(crate::cli::stdout(&["store", "purge"], &state).contains("deleted"));
    assert!(!file.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs chromium"]
async fn one_page_shows_all_longhauls_of_a_user_and_nothing_to_a_stranger() {
    let home = tempfile::tempdir().unwrap();
    let state = [("XDG_STATE_HOME", home.path().to_str().unwrap())];
    let model = Model::start(ModelOptions::default()).await.unwrap();
    let first = Program::with_admin(&model.url(), &state, Admin::Free);
    let mut browser = Browser::open(&link(&state), DESKTOP);
    browser.wait_for("document.querySelector('.empty')?.innerText.includes('No conversation yet')");
    assert_eq!(browser.text("location.hash"), "", "the token leaves the address");
    // The second one has no port of its own, and joins while the page is open.
    let second = Program::with_admin(&model.url(), &state, Admin::Default);
    assert_eq!(ask(&Caller::of(first.address()), "Of the first").await, 200);
    assert_eq!(ask(&Caller::of(second.address()), "Of the second").await, 200);
    browser.wait_for("document.querySelectorAll('.row').length === 2");
    browser.value(
        "[...document.querySelectorAll('.row')].find((row) => row.innerText.includes('Of the second')).click()",
    );
    browser.wait_for("document.querySelector('.request')");
    browser.value("document.querySelector('.request > button').click()");
    browser.wait_for("document.querySelector('.explanation table')");
    let last = crate::cli::stdout(&["explain", "--last", "--json"], &state);
    assert!(last.contains("\"why\""), "{last}");
    // One that ends leaves the page.
    second.closed();
    browser.wait_for("document.querySelectorAll('.row').length === 1");
    let mut stranger = Browser::open(&page(&first), DESKTOP);
    stranger.wait_for("document.body.innerText.includes('needs its link')");
    assert!(!stranger.text("document.body.innerText").contains("Of the first"));
    let folder = home.path().join("longhaul");
    let names = std::fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.file_name());
    let sockets = names.filter(|name| name.to_string_lossy().ends_with(".sock"));
    assert_eq!(sockets.count(), 1, "the socket of a process goes with it");
}
