//! Windows in the recorded formats; a trained window does not count.

use super::*;

/// A file of `fixtures/models`.
macro_rules! recorded {
    ($name:literal) => {
        include_bytes!(concat!("../../../../fixtures/models/", $name)).as_slice()
    };
}

/// The window of every recorded server.
const HOLDS: Option<Tokens> = Some(Tokens::new(32_768));

fn listed(bytes: &[u8], model: &str) -> Option<Tokens> {
    models_page(bytes, model).unwrap().window
}

#[test]
fn reads_the_window_from_model_lists() {
    assert_eq!(listed(recorded!("vllm.json"), "served"), HOLDS);
    assert_eq!(listed(recorded!("sglang.json"), "served"), HOLDS);
    assert_eq!(listed(recorded!("llama-cpp-models.json"), "example.gguf"), HOLDS);
    assert_eq!(listed(recorded!("openrouter-next.json"), "example/later"), HOLDS);
    assert_eq!(listed(recorded!("together.json"), "example/chat"), HOLDS);
}

#[test]
fn reads_the_smaller_window_and_the_next_page_from_openrouter() {
    let page = recorded!("openrouter.json");
    let of = |model| listed(page, model).map(Tokens::get);
    assert_eq!(of("example/wide"), Some(131_072));
    assert_eq!(of("example/wide:nitro"), Some(131_072));
    assert_eq!(of("openai/gpt-4"), Some(8_192));
    let other = models_page(page, "example/later").unwrap();
    assert_eq!((other.models, other.window), (2, None));
    assert_eq!(other.next.as_deref(), Some("offset=500&limit=500"));
    let last = models_page(recorded!("openrouter-next.json"), "no/such").unwrap();
    assert_eq!(last.next, None);
}

#[test]
fn llama_cpp_accepts_any_model_name_and_reports_the_slot_size() {
    assert_eq!(listed(recorded!("llama-cpp-models.json"), "gpt-4"), HOLDS);
    assert_eq!(llama_cpp(recorded!("llama-cpp-props.json"), "gpt-4"), HOLDS);
}

#[test]
fn training_context_length_is_not_the_window() {
    assert_eq!(listed(recorded!("llama-cpp-models-old.json"), "example.gguf"), None);
    assert_eq!(lm_studio(recorded!("lm-studio.json"), "not-loaded"), None);
}

#[test]
fn reads_the_window_from_other_local_servers() {
    assert_eq!(lm_studio(recorded!("lm-studio.json"), "served"), HOLDS);
    assert_eq!(listed(recorded!("ollama-models.json"), "served:latest"), None);
    assert_eq!(ollama(recorded!("ollama-ps.json"), "served"), HOLDS);
    assert_eq!(ollama(recorded!("ollama-ps.json"), "served:latest"), HOLDS);
    assert_eq!(ollama(recorded!("ollama-ps.json"), "other"), None);
    assert_eq!(text_generation_inference(recorded!("tgi-info.json"), "any"), HOLDS);
}

#[test]
fn ignores_odd_values_without_losing_valid_ones() {
    let of = |entry: &str| listed(format!(r#"{{"data":[{entry}]}}"#).as_bytes(), "m");
    for value in ["null", "0", "-1", "1.5", "\"32768\"", "[]", "99999999999"] {
        let entry = format!(
            r#"{{"id":"m","context_length":{value},"meta":{value},"top_provider":{value},"max_model_len":32768}}"#
        );
        assert_eq!(of(&entry), HOLDS, "{value}");
    }
    assert_eq!(of("\"m\""), None);
    for text in ["", "{}", "[", "null", r#"{"data":null}"#, "<html>"] {
        assert_eq!(models_page(text.as_bytes(), "m"), None, "{text}");
        for (path, form) in LOCAL_ENDPOINTS {
            assert_eq!(form(text.as_bytes(), "m"), None, "{path}: {text}");
        }
    }
}
