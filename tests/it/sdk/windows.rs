//! A tool-using session of three windows over each SDK, against the strict model.

use super::Script;
use crate::program::Program;
use longhaul_mock_model::{
    ChatBehaviour, FileReading, Model, ModelOptions, ReplyCompletion, RequestKind, SeenRequest,
    TokenDensity, Verdict,
};

/// Context window of the model, in tokens.
const WINDOW: u64 = 32_768;
/// Number of files, of about 3,000 tokens each: slightly more than three windows.
const PARTS: usize = 36;
const TASK: &str = "Read the parts, one after the other, to the last one. Then say so.";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the SDKs of tests/sdk/install"]
async fn python_sdk_completes_a_session_of_three_windows() {
    check(Script::python("tests/clients/sessions/openai_python.py")).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs the SDKs of tests/sdk/install"]
async fn node_sdk_completes_a_session_of_three_windows() {
    check(Script::node("tests/clients/sessions/openai_node.cjs")).await;
}

async fn check(script: Script) {
    script.require();
    let folder = tempfile::tempdir().expect("a folder");
    let reading = FileReading::write(folder.path(), PARTS).expect("parts are written");
    let options = ModelOptions {
        chat: ChatBehaviour::Reads(reading.clone()),
        ..ModelOptions::with_window(WINDOW)
    };
    let model = Model::start(options).await.expect("the model starts");
    let program = Program::told(&model.url(), &[("LONGHAUL_WINDOW", "32768")]);
    let base_url = format!("http://{}/v1", program.address());
    let talk = tokio::task::spawn_blocking(move || script.run(TASK, &base_url));
    let said = talk.await.expect("the script ran");
    assert_eq!(said.trim_end(), FileReading::END);

    let log = program.ended();
    let statuses = log.matches(" status=").count();
    // The last request's log line may come after the program was stopped.
    assert!(statuses >= PARTS, "a line for each request: {log}");
    assert_eq!(log.matches(" status=200 ").count(), statuses, "{log}");
    let seen = model.seen();
    let chats: Vec<&SeenRequest> =
        seen.iter().filter(|seen| seen.kind == RequestKind::Chat).collect();
    let accepted = chats.iter().filter(|chat| chat.verdict == Verdict::Accepted);
    let prompts: Vec<u64> = accepted.map(|chat| chat.prompt_tokens).collect();
    let history = reading.shown_tokens(TokenDensity::STANDARD, &seen);
    assert!(history >= 3 * WINDOW, "a history of {history} tokens");
    assert!(prompts.iter().all(|prompt| *prompt <= WINDOW), "{prompts:?}");
    assert!(chats.iter().all(|chat| chat.ended == ReplyCompletion::Answered));
    let compactions = prompts.windows(2).filter(|pair| pair[1] < pair[0]).count();
    assert!(compactions >= 2, "{prompts:?}");
}
