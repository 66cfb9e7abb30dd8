//! Prompt files that replace the built-in prompts, read once at start.

use std::path::PathBuf;

use super::keys::read_text_file;
use super::problems::read_all;
use super::resolved::ResolvedSettings;
use super::setting::Setting;
use super::settings::{SUMMARY_PROMPT, SUMMARY_UPDATE_PROMPT};
use crate::error::Problem;
use longhaul_core::summary::prompts::Prompts;

/// Maximum bytes of a prompt. The built-in ones have two thousand, and each call pays for its
/// prompt.
const PROMPT_BYTES: u64 = 64 * 1024;

/// Reads the prompts that the settings name. Fails if a file cannot be used.
pub(super) fn read_prompts(found: &ResolvedSettings) -> Result<Prompts, Vec<Problem>> {
    read_all! {
        fresh = prompt_from_setting(found, &SUMMARY_PROMPT);
        update = prompt_from_setting(found, &SUMMARY_UPDATE_PROMPT);
    }
    Ok(Prompts::new(fresh.as_deref(), update.as_deref()))
}

fn prompt_from_setting(
    found: &ResolvedSettings,
    setting: &Setting<Option<PathBuf>>,
) -> Result<Option<String>, Problem> {
    let Some(path) = found.value(setting)? else {
        return Ok(None);
    };
    let prompt = read_text_file(&path, PROMPT_BYTES).and_then(|text| match text.trim() {
        "" => Err("found no text, expected a prompt; `longhaul defaults --prompts` prints the \
                   built-in ones"
            .into()),
        _ => Ok(Some(text)),
    });
    prompt.map_err(|reason| found.value_problem(setting, format!("{}: {reason}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn check(key: &str, bytes: &[u8]) -> Result<Prompts, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("prompt.md");
        std::fs::write(&path, bytes).unwrap();
        let config = Config::default_with([(key, path.to_str().unwrap())]);
        config.map(|config| config.summary.prompts).map_err(|problems| problems[0].to_string())
    }

    #[test]
    fn prompt_file_replaces_the_prompt_it_is_set_for() {
        let built_in = Prompts::default();
        let own = check("summary.prompt", b"Own words.\n").unwrap();
        assert_eq!((own.fresh(), own.update()), ("Own words.", built_in.update()));
        let own = check("summary.update_prompt", b"Own words.\n").unwrap();
        assert_eq!((own.fresh(), own.update()), (built_in.fresh(), "Own words."));
    }

    #[test]
    fn rejects_an_invalid_prompt_file_with_the_reason() {
        let long = vec![b'x'; 64 * 1024 + 1];
        for (bytes, reason) in [
            (&b" \n"[..], "found no text"),
            (b"a\xff", "valid UTF-8"),
            (&long, "at most 65536 bytes"),
        ] {
            let problem = check("summary.prompt", bytes).unwrap_err();
            assert!(
                problem.starts_with("summary.prompt from ") && problem.contains(reason),
                "{problem}"
            );
        }
        let problems = Config::default_with([("summary.prompt", "no/such/file")]).unwrap_err();
        assert!(problems[0].to_string().contains("no/such/file: "));
        assert!(problems[0].to_string().contains("name a file"));
    }
}
