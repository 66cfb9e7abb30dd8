//! Summary settings: model, endpoint, style, limits and prompts.

use std::path::PathBuf;
use std::time::Duration;

use http::HeaderValue;

use super::base_url::BaseUrl;
use super::choices::{PlacementSetting, SummaryApi, SummaryModel, SummaryStyle};
use super::keys::{authorization_from_file, from_file, read_text_file, require_guarded_key};
use super::problems::read_all;
use super::resolved::ResolvedSettings;
use super::setting::Setting;
use super::settings;
use crate::error::Problem;
use longhaul_core::summary::prompts::Prompts;
use longhaul_core::units::tokens::Tokens;

/// Summary configuration.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SummaryConfig {
    /// Model that writes summaries.
    pub model: SummaryModel,
    /// Context window of that model; `None` uses the window learned or configured for it.
    pub window: Option<Tokens>,
    /// Separate endpoint for summaries; `None` uses the conversation's upstream.
    pub endpoint: Option<SummaryEndpoint>,
    /// Form in which the model receives the history.
    pub style: SummaryStyle,
    /// Placement of replacements for old history. The proxy keeps what it learns about placements.
    pub placement: PlacementSetting,
    /// Total time that a request waits for a summary before a digest is used instead.
    pub wait_limit: Duration,
    /// Summaries per conversation and hour; beyond that, digests are used.
    pub max_per_hour: usize,
    /// Percentage of a login's quota from which on background summaries pause; 0 for never.
    pub max_quota: usize,
    /// Summary prompts: the built-in ones, or those of the operator's files.
    pub prompts: Prompts,
}

/// Separate endpoint for summaries. It never receives a caller's credentials.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SummaryEndpoint {
    /// Base URL.
    pub base: BaseUrl,
    /// API that the endpoint speaks.
    pub api: SummaryApi,
    /// The operator's credential for the endpoint, as an Authorization header.
    pub authorization: Option<HeaderValue>,
}

/// Reads the summary configuration from the settings. Fails if a file cannot be used, or two
/// settings conflict.
pub(super) fn read_summary(found: &ResolvedSettings) -> Result<SummaryConfig, Vec<Problem>> {
    read_all! {
        endpoint = read_endpoint(found);
        style = read_style(found);
        prompts = read_prompts(found);
    }
    Ok(SummaryConfig {
        model: found.value(&settings::SUMMARY_MODEL)?,
        window: found.value(&settings::SUMMARY_WINDOW)?,
        endpoint,
        style,
        placement: found.value(&settings::SUMMARY_PLACEMENT)?,
        wait_limit: found.value(&settings::SUMMARY_WAIT)?,
        max_quota: found.value(&settings::SUMMARY_MAX_QUOTA)?,
        max_per_hour: found.value(&settings::SUMMARY_PER_HOUR)?,
        prompts,
    })
}

fn read_style(found: &ResolvedSettings) -> Result<SummaryStyle, Problem> {
    let style = found.value(&settings::SUMMARY_STYLE)?;
    if style == SummaryStyle::Cached
        && found.value(&settings::SUMMARY_MODEL)? != SummaryModel::SameAsConversation
    {
        let reason = format!(
            "found cached, but only the conversation's own model has the conversation in its cache; \
             expected transcript, or {} = own",
            settings::SUMMARY_MODEL.key
        );
        return Err(found.value_problem(&settings::SUMMARY_STYLE, reason));
    }
    Ok(style)
}

fn read_endpoint(found: &ResolvedSettings) -> Result<Option<SummaryEndpoint>, Vec<Problem>> {
    read_all! {
        base = endpoint_base(found);
        key = from_file(found, &settings::SUMMARY_API_KEY_FILE, authorization_from_file);
    }
    let Some(base) = base else {
        return key.map_or(Ok(None), |_| {
            let upstream = settings::SUMMARY_UPSTREAM.key;
            let reason = format!("the key needs an endpoint: set {upstream}");
            Err(found.value_problem(&settings::SUMMARY_API_KEY_FILE, reason).into())
        });
    };
    if key.is_some() {
        require_guarded_key(found, settings::SUMMARY_API_KEY_FILE.key)?;
    }
    Ok(Some(SummaryEndpoint {
        base,
        api: found.value(&settings::SUMMARY_UPSTREAM_API)?,
        authorization: key,
    }))
}

/// Returns the base URL of the separate summary endpoint, if one is set.
fn endpoint_base(found: &ResolvedSettings) -> Result<Option<BaseUrl>, Problem> {
    let base = found.value(&settings::SUMMARY_UPSTREAM)?;
    let model = found.value(&settings::SUMMARY_MODEL)?;
    let is_conversations =
        matches!(model, SummaryModel::SameAsConversation | SummaryModel::Provider);
    if base.is_some() && is_conversations {
        let model = settings::SUMMARY_MODEL.key;
        let reason = format!("a separate endpoint has its own models: name one of them in {model}");
        return Err(found.value_problem(&settings::SUMMARY_UPSTREAM, reason));
    }
    Ok(base)
}

/// Maximum bytes of a prompt. The built-in ones have two thousand, and each call pays for its
/// prompt.
const PROMPT_BYTES: u64 = 64 * 1024;

/// Reads the prompts that the settings name. Fails if a file cannot be used.
fn read_prompts(found: &ResolvedSettings) -> Result<Prompts, Vec<Problem>> {
    read_all! {
        fresh = prompt_from_setting(found, &settings::SUMMARY_PROMPT);
        update = prompt_from_setting(found, &settings::SUMMARY_UPDATE_PROMPT);
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

    fn check(changes: &[(&str, &str)]) -> Result<SummaryConfig, String> {
        Config::default_with(changes.iter().copied())
            .map(|config| config.summary)
            .map_err(|problems| problems[0].to_string())
    }

    #[test]
    fn a_key_is_read_from_its_file_and_never_shown() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, "sk-hunter2\n").unwrap();
        let file = ("summary.api_key_file", path.to_str().unwrap());
        let local =
            [("summary.upstream", "http://127.0.0.1:8080/v1"), ("summary.model", "small"), file];
        let summary = check(&local).unwrap();
        let endpoint = summary.endpoint.as_ref().unwrap();
        assert_eq!(endpoint.authorization.as_ref().unwrap(), "Bearer sk-hunter2");
        assert!(!format!("{summary:?}").contains("hunter2"));
        assert!(check(&[file]).unwrap_err().contains("summary.upstream"));
        for wrong in ["", "two hunter2", "hunter2\u{e9}"] {
            std::fs::write(&path, wrong).unwrap();
            let problem = check(&local).unwrap_err();
            assert!(problem.contains("expected") && !problem.contains("hunter2"), "{problem}");
        }
    }

    #[test]
    fn refuses_a_summary_key_on_a_public_listener_without_client_tokens() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, "0123456789abcdef0123456789abcdef").unwrap();
        let path = path.to_str().unwrap();
        let public = [
            ("listen", "0.0.0.0:8484"),
            ("public", "true"),
            ("summary.upstream", "http://127.0.0.1:8080/v1"),
            ("summary.model", "small"),
            ("summary.api_key_file", path),
        ];
        let problem = check(&public).unwrap_err();
        assert!(problem.contains("would spend the key of summary.api_key_file"), "{problem}");
        assert!(check(&public[..4]).is_ok());
        assert!(check(&public[2..]).is_ok());
        let guarded = [&public[..], &[("client_tokens_file", path)]].concat();
        assert!(check(&guarded).is_ok());
    }

    #[test]
    fn rejects_incompatible_summary_settings() {
        let elsewhere = ("summary.upstream", "http://127.0.0.1:8080/v1");
        assert!(check(&[elsewhere]).unwrap_err().contains("summary.model"));
        let provider = ("summary.model", "provider");
        assert!(check(&[elsewhere, provider]).unwrap_err().contains("summary.model"));
        assert!(check(&[provider]).is_ok());
        let cached = ("summary.style", "cached");
        assert!(check(&[cached]).is_ok());
        assert!(check(&[cached, ("summary.model", "other")]).is_err());
    }
}

#[cfg(test)]
mod prompt_tests {
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
