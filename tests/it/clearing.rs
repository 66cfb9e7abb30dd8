//! Edge cases of the clearing rule, each by name.

use crate::oracle::pruner::Rule;
use crate::oracle::words::CLEARED;
use crate::promises::prunes_by_the_rule;
use crate::subject;
use longhaul_core::dialect::bypass::Bypass;
use serde_json::{Value, json};

/// Parameters of the `standard` profile.
fn standard() -> Rule {
    Rule {
        protect: 40_000,
        minimum: 20_000,
        user_turns: 2,
        exempt_tools: Vec::new(),
        keep_errors: false,
        described: false,
    }
}

/// A rule that clears everything that may be cleared.
fn greedy() -> Rule {
    Rule { protect: 0, minimum: 0, user_turns: 0, ..standard() }
}

/// A conversation under construction.
#[derive(Clone, Default)]
struct Talk(Vec<Value>);

impl Talk {
    fn says(mut self, message: Value) -> Self {
        self.0.push(message);
        self
    }

    fn user(self) -> Self {
        self.says(json!({"role": "user", "content": "go on"}))
    }

    /// Adds parallel calls of `tool` with the given paths.
    fn calls(self, tool: &str, paths: &[&str]) -> Self {
        let calls: Vec<Value> = paths
            .iter()
            .map(|path| {
                let arguments = json!({"path": path}).to_string();
                let function = json!({"name": tool, "arguments": arguments});
                json!({"id": format!("call {path}"), "type": "function", "function": function})
            })
            .collect();
        self.says(json!({"role": "assistant", "content": null, "tool_calls": calls}))
    }

    fn answer(self, path: &str, content: impl Into<Value>) -> Self {
        let content = content.into();
        let id = format!("call {path}");
        self.says(json!({"role": "tool", "tool_call_id": id, "content": content}))
    }

    /// Adds a complete step with one call.
    fn step(self, content: impl Into<Value>) -> Self {
        let path = format!("{}", self.0.len());
        self.calls("read", &[&path]).answer(&path, content)
    }

    fn body(&self) -> String {
        json!({"model": "m", "messages": self.0}).to_string()
    }
}

/// Returns a text of exactly `tokens` tokens, plus the characters that an estimate rounds off.
fn sized(tokens: usize) -> String {
    "x".repeat(tokens * 4 + 3)
}

/// Returns the messages that `rule` clears, as computed by both product and oracle.
fn cleared(talk: &Talk, rule: &Rule) -> Vec<usize> {
    prunes_by_the_rule(&talk.body(), rule);
    subject::cleared(&talk.body(), rule).0.into_keys().collect()
}

fn check(talk: &Talk, rule: &Rule, expected: &[usize]) {
    assert_eq!(cleared(talk, rule), expected);
}

/// Returns the forwarded content of a message.
fn forwarded(talk: &Talk, rule: &Rule, message: usize) -> Value {
    let body = subject::forwarded(talk.body().as_bytes(), rule).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    body["messages"][message]["content"].clone()
}

#[test]
fn protects_the_newest_40_000_tokens_exactly() {
    for (sum, expected) in [(39_999, &[][..]), (40_000, &[]), (40_001, &[3])] {
        let old = 20_009;
        let talk = Talk::default().user().user();
        let talk = talk.step(sized(old)).step(sized(sum - old));
        check(&talk, &standard(), expected);
    }
}

#[test]
fn clears_only_what_frees_more_than_20_000_tokens_net_of_the_placeholder() {
    for (freed, expected) in [(19_999, &[][..]), (20_000, &[]), (20_001, &[3])] {
        let talk = Talk::default().user().user();
        let talk = talk.step(sized(freed + 8)).step(sized(50_000));
        check(&talk, &standard(), expected);
    }
}

#[test]
fn clears_nothing_before_the_second_user_message() {
    let talk = Talk::default().user().step(sized(60_000)).step(sized(60_000));
    check(&talk, &standard(), &[]);
    check(&talk.user(), &standard(), &[2]);
}

#[test]
fn a_turn_gate_of_one_clears_in_an_unattended_session() {
    let rule = Rule { user_turns: 1, ..standard() };
    let talk = Talk::default().user().step(sized(60_000)).step(sized(60_000));
    check(&talk, &rule, &[2]);
}

#[test]
fn result_that_crosses_the_protection_line_is_cleared_with_older_ones() {
    let talk = Talk::default().user().user();
    let talk = talk.step(sized(100)).step(sized(25_000));
    check(&talk.step(sized(20_000)), &standard(), &[3, 5]);
}

#[test]
fn the_newest_batch_stays_however_large_it_is() {
    let talk = Talk::default().user().user().step(sized(400_000));
    check(&talk, &standard(), &[]);
    check(&talk.clone().user(), &standard(), &[]);
    check(&talk.step(sized(1)), &standard(), &[3]);
}

#[test]
fn a_parallel_batch_is_newest_as_a_whole() {
    let talk = Talk::default().user().user().calls("read", &["a", "b", "c"]);
    let talk = talk.answer("b", sized(50_000)).answer("a", sized(50_000));
    let talk = talk.answer("c", sized(30_000));
    check(&talk, &standard(), &[]);
    check(&talk.step(sized(1)), &standard(), &[3, 4]);
}

#[test]
fn incomplete_batch_does_not_count_as_a_request() {
    let talk = Talk::default().user().user().step(sized(30_000));
    let talk = talk.calls("read", &["a", "b"]).answer("a", sized(50_000));
    check(&talk, &standard(), &[]);
    check(&talk.clone().answer("a", "again"), &standard(), &[]);
    check(&talk.clone().answer("b", "done"), &standard(), &[3]);
    check(&talk.user(), &standard(), &[3]);
}

#[test]
fn results_without_a_call_do_not_count_as_a_request() {
    let talk = Talk::default().user().step(sized(99)).step(sized(9));
    let orphan = json!({"role": "tool", "tool_call_id": "none", "content": sized(50)});
    let stranger = json!({"role": "critic", "tool_calls": [{"id": "call z"}]});
    check(&talk.clone().says(orphan.clone()), &greedy(), &[2]);
    let talk = talk.says(json!({"role": "user", "content": "so"})).says(orphan);
    check(&talk, &greedy(), &[2]);
    let talk = talk.says(stranger).answer("z", sized(50));
    check(&talk, &greedy(), &[2]);
    check(&talk.user(), &greedy(), &[2, 4, 6]);
}

#[test]
fn cleared_results_grow_in_leaps_and_never_shrink() {
    let mut talk = Talk::default().user().user();
    let mut counts = Vec::new();
    for _ in 0..20 {
        talk = talk.step(sized(5_000));
        counts.push(cleared(&talk, &standard()).len());
    }
    assert_eq!(counts, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 5, 5, 5, 5, 10, 10, 10]);
}

#[test]
fn a_string_stays_a_string() {
    let talk = Talk::default().user().step(sized(99)).step("new");
    assert_eq!(forwarded(&talk, &greedy(), 2), json!(CLEARED));
}

#[test]
fn an_array_becomes_one_text_part_with_the_last_cache_mark() {
    let parts = json!([
        {"type": "text", "text": sized(9), "cache_control": {"type": "ephemeral"}},
        {"cache_control": {"type": "ephemeral", "ttl": "1h"}, "type": "text", "text": sized(9)},
        {"type": "text", "text": "end", "cache_control": null},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ]);
    let mark = json!({"type": "ephemeral", "ttl": "1h"});
    let talk = Talk::default().user().step(parts).step("new");
    assert_eq!(cleared(&talk, &greedy()), [2]);
    assert_eq!(
        forwarded(&talk, &greedy(), 2),
        json!([{"type": "text", "text": CLEARED, "cache_control": mark}])
    );
}

#[test]
fn the_size_of_an_array_is_that_of_its_text_parts_joined() {
    let part = |chars: usize| json!({"type": "text", "text": "x".repeat(chars)});
    // Nine tokens joined, eight separately: the placeholder is shorter only if the parts are
    // joined.
    let talk = Talk::default().user().step(json!([part(18), part(18)]));
    check(&talk.step("new"), &greedy(), &[2]);
    let odd = json!({"type": "audio", "text": sized(99)});
    let talk = Talk::default().user().step(json!([part(18), odd]));
    check(&talk.step("new"), &greedy(), &[]);
}

#[test]
fn result_without_text_is_not_cleared() {
    let image = json!([{"type": "image_url", "image_url": {"url": sized(99)}}]);
    for content in [json!(null), json!(""), json!([]), image] {
        let talk = Talk::default().user().step(content).step("new");
        check(&talk, &greedy(), &[]);
    }
    let missing = json!({"role": "tool", "tool_call_id": "call a"});
    let talk = Talk::default().user().calls("read", &["a"]).says(missing);
    check(&talk.step("new"), &greedy(), &[]);
}

#[test]
fn a_result_that_its_placeholder_would_not_shorten_stays() {
    for (chars, expected) in [(32, &[][..]), (35, &[]), (36, &[2]), (37, &[2])] {
        let talk = Talk::default().user().step("y".repeat(chars)).step("new");
        check(&talk, &greedy(), expected);
    }
}

#[test]
fn keeps_a_result_shorter_in_bytes_than_its_described_placeholder() {
    let rule = Rule { described: true, ..greedy() };
    let wide = "漢".repeat(100);
    let talk = Talk::default().user().calls("read", &[&wide]);
    let talk = talk.answer(&wide, "y".repeat(300)).step(sized(99)).step("new");
    check(&talk, &rule, &[4]);
}

#[test]
fn existing_placeholders_are_not_cleared_but_near_misses_are() {
    let described =
        format!("[Old tool result content cleared: read {}, about 900 tokens]", "a".repeat(120));
    let near = format!("{CLEARED} {}", sized(9));
    for (content, expected) in [(CLEARED.to_owned(), &[][..]), (described, &[]), (near, &[2])] {
        let talk = Talk::default().user().step(content).step("new");
        check(&talk, &greedy(), expected);
    }
}

#[test]
fn a_described_placeholder_names_the_call_in_one_line() {
    let rule = Rule { described: true, ..greedy() };
    let talk = Talk::default().user().calls("read", &["a\nb"]);
    let talk = talk.answer("a\nb", sized(99)).step("new");
    assert_eq!(
        forwarded(&talk, &rule, 2),
        json!("[Old tool result content cleared: read a b, about 99 tokens]")
    );
}

#[test]
fn placeholder_with_a_very_long_tool_name_is_not_cleared_again() {
    let rule = Rule { described: true, ..greedy() };
    let talk = Talk::default().user().calls(&"t".repeat(9_000), &["a"]);
    let talk = talk.answer("a", sized(99_000)).step("new");
    check(&talk, &rule, &[2]);
}

#[test]
fn exempt_results_stay_but_count_towards_the_protected_tokens() {
    let rule = Rule { exempt_tools: vec!["read".to_owned()], ..standard() };
    let talk = Talk::default().user().user().calls("bash", &["a"]);
    let talk = talk.answer("a", sized(25_000)).step(sized(50_000));
    check(&talk.clone().step("new"), &rule, &[3]);
    check(&talk.step("new"), &standard(), &[3, 5]);
}

#[test]
fn error_results_stay_if_keep_errors_is_set() {
    let rule = Rule { keep_errors: true, ..greedy() };
    let error = format!("\n Traceback (most recent call last): {}", sized(99));
    let talk = Talk::default().user().step(error).step("new");
    check(&talk, &rule, &[]);
    check(&talk, &greedy(), &[2]);
}

#[test]
fn legacy_function_result_is_cleared_unless_its_tool_is_exempt() {
    let call = json!({"name": "read", "arguments": "{}"});
    let talk = Talk::default().user();
    let talk = talk.says(json!({"role": "assistant", "function_call": call}));
    let talk = talk.says(json!({"role": "function", "name": "read", "content": sized(99)}));
    check(&talk.clone().step("new"), &greedy(), &[2]);
    let rule = Rule { exempt_tools: vec!["read".to_owned()], ..greedy() };
    check(&talk.step("new"), &rule, &[]);
}

#[test]
fn counts_decoded_characters_however_they_are_escaped() {
    let body = |text: &str| {
        let talk = Talk::default().user().step("TEXT").step("new");
        talk.body().replace("TEXT", text)
    };
    for unit in [
        "é",
        "\\u00e9",
        "漢",
        "😀",
        "\\ud83d\\ude00",
        "\\n",
        "\\\"",
        "\\\\",
        "\\/",
        "\\u0000",
        "\\ud83d",
    ] {
        let whole = body(&unit.repeat(36));
        prunes_by_the_rule(&whole, &greedy());
        assert_eq!(subject::cleared(&whole, &greedy()).0.len(), 1, "{unit}");
        let short = body(&unit.repeat(35));
        prunes_by_the_rule(&short, &greedy());
        assert!(subject::cleared(&short, &greedy()).0.is_empty(), "{unit}");
    }
}

mod pins {
    use longhaul_core::dialect::chat_completions as dialect;
    use longhaul_core::planning::plan::{SummarySource, plan_unmodified};
    use longhaul_core::planning::recovery::{RecoveryDecision, plan_recovery};
    use longhaul_core::policy::record::PriorRecords;
    use longhaul_core::policy::{CompactionSettings, Policy};
    use longhaul_core::units::tokens::Tokens;

    use super::*;

    const STUB: &str = "File unchanged since last read.";

    fn read(talk: Talk, path: &str, content: &str) -> Talk {
        talk.calls("read", &[path]).answer(path, content)
    }

    #[test]
    fn stub_pins_the_read_it_refers_to() {
        let talk = read(Talk::default().user(), "a", &sized(99));
        let talk = read(talk, "b", &sized(99));
        let stub = read(talk.clone(), "a", STUB);
        let rule = Rule { minimum: 150, ..greedy() };
        check(&read(talk, "c", "new"), &rule, &[2, 4]);
        check(&read(stub.clone(), "c", "new"), &rule, &[]);
        check(&read(stub, "c", "new"), &greedy(), &[4]);
    }

    #[test]
    fn stub_restores_its_cleared_read_and_the_restore_is_counted() {
        let talk = read(Talk::default().user(), "a", &sized(99));
        let talk = read(talk, "b", &sized(99));
        check(&talk, &greedy(), &[2]);
        let talk = read(talk, "a", STUB);
        check(&talk, &greedy(), &[4]);
        assert_eq!(subject::cleared(&talk.body(), &greedy()).1, 1);
        check(&read(talk, "c", "new"), &greedy(), &[4]);
    }

    #[test]
    fn reads_that_stubs_keep_give_way_to_an_overflow() {
        let talk = (0..40).fold(Talk::default().user(), |talk, file| {
            let path = file.to_string();
            read(read(talk, &path, &sized(2_000)), &path, STUB)
        });
        let body = talk.body();
        let window = Tokens::new(20_000);
        let conversation = dialect::read(body.as_bytes()).unwrap();
        let policy = Policy::new(&CompactionSettings::default(), window);
        let whole = plan_unmodified(&conversation, &policy).view;
        assert!(whole.tokens(&conversation) > Tokens::new(60_000));
        let none = PriorRecords::default();
        let digest = SummarySource::Digest;
        let RecoveryDecision::Retry(view, _) =
            plan_recovery(&conversation, &policy, &none, &whole, digest)
        else {
            panic!("a smaller request");
        };
        assert!(view.tokens(&conversation) < window);
    }

    #[test]
    fn stub_in_an_incomplete_batch_pins_nothing_yet() {
        let talk = read(Talk::default().user(), "a", &sized(99));
        let talk = read(talk, "b", &sized(99)).calls("read", &["a", "c"]);
        let talk = talk.answer("a", STUB);
        check(&talk, &greedy(), &[2]);
        check(&talk.answer("c", "new"), &greedy(), &[4]);
    }

    #[test]
    fn stub_pins_the_latest_read_of_a_path_by_the_same_tool() {
        let talk = read(Talk::default().user(), "a", &sized(50));
        let talk = read(talk, "a", &sized(60));
        let talk = talk.calls("grep", &["a"]).answer("a", sized(70));
        let talk = read(read(talk, "a", STUB), "c", "new");
        check(&talk, &greedy(), &[2, 6]);
    }

    #[test]
    fn a_stub_and_the_read_it_pins_both_stay() {
        let talk = read(Talk::default().user(), "a", &sized(99));
        let talk = read(talk, "a", &format!("{STUB}{}", sized(50)));
        check(&read(talk, "c", "new"), &greedy(), &[]);
    }

    #[test]
    fn long_result_that_contains_the_stub_text_is_not_a_stub() {
        let talk = read(Talk::default().user(), "a", &sized(99));
        let talk = read(talk, "a", &format!("{STUB}{}", sized(125)));
        check(&read(talk, "c", "new"), &greedy(), &[2, 4]);
    }
}

#[test]
fn bypasses_a_conversation_with_nothing_to_clear() {
    let body = Talk::default().user().body();
    let why = subject::forwarded(body.as_bytes(), &standard());
    assert_eq!(why, Err(Bypass::Nothing));
}
