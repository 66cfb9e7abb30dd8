//! Who writes summaries, how and where; read out of the layers.

use std::time::Duration;

use http::HeaderValue;

use super::BaseUrl;
use super::keys::{authorization_from_setting, require_guarded_key};
use super::kinds::ChoiceSetting;
use super::layers::ResolvedSettings;
use super::problems::Problems;
use super::prompts::read_prompts;
use super::settings::conversations as asked;
use crate::error::Problem;
use crate::rewrite::placement::Placement;
use crate::rewrite::prompts::Prompts;
use crate::rewrite::tokens::Tokens;

/// Who writes summaries.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SummaryConfig {
    /// The model that is asked.
    pub model: SummaryModel,
    /// What it holds, where that is not the conversation's own window.
    pub window: Option<Tokens>,
    /// Where it is asked, if not where the conversation is.
    pub endpoint: Option<SummaryEndpoint>,
    /// What it is shown.
    pub style: SummaryStyle,
    /// Where what stands for history goes; what is learned of that is the proxy's.
    pub placement: PlacementSetting,
    /// How long a request may wait for a summary in all; then a digest serves.
    pub wait_limit: Duration,
    /// How many a conversation asks for in an hour; past it a digest serves.
    pub max_per_hour: usize,
    /// What is asked: the built-in prompts, or those of the operator's files.
    pub prompts: Prompts,
}

/// The model that writes summaries.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SummaryModel {
    /// This one.
    Named(String),
    /// None: digests stand for history.
    Disabled,
    /// The conversation's own.
    SameAsConversation,
}

/// An endpoint for summaries alone. No credential of a caller goes there.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SummaryEndpoint {
    /// Its base URL.
    pub base: BaseUrl,
    /// The operator's own credential for it, as the Authorization header has it.
    pub authorization: Option<HeaderValue>,
}

/// What a summariser is shown.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SummaryStyle {
    /// The live conversation itself, for the provider's cache, where nobody waits for it.
    Cached,
    /// A transcript.
    Transcript,
}

impl ChoiceSetting for SummaryStyle {
    const ALL: &'static [(&'static str, Self)] =
        &[("transcript", Self::Transcript), ("cached", Self::Cached)];
}

/// Where what stands for history goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PlacementSetting {
    /// A message of its own, unless the model has refused that.
    Auto,
    /// Into the user messages beside it.
    Merge,
    /// A message of its own.
    Separate,
}

impl ChoiceSetting for PlacementSetting {
    const ALL: &'static [(&'static str, Self)] = &[
        ("auto", Self::Auto),
        ("separate", Self::Separate),
        ("merge", Self::Merge),
    ];
}

impl PlacementSetting {
    /// What holds before anything is learned.
    pub(super) fn initial_placement(self) -> Placement {
        match self {
            Self::Auto | Self::Separate => Placement::Separate,
            Self::Merge => Placement::Merged,
        }
    }
}

/// What the settings say of summaries.
///
/// # Errors
/// A file cannot be used, or two settings do not go together.
pub(super) fn read_summary(found: &ResolvedSettings) -> Result<SummaryConfig, Problems> {
    let mut problems = Problems::default();
    let endpoint = problems.ok_or_record(read_endpoint(found));
    let style = problems.ok_or_record(read_style(found));
    let prompts = problems.ok_or_record(read_prompts(found));
    let (Some(endpoint), Some(style), Some(prompts)) = (endpoint, style, prompts) else {
        return Err(problems);
    };
    Ok(SummaryConfig {
        model: found.value(&asked::SUMMARY_MODEL)?,
        window: found.value(&asked::SUMMARY_WINDOW)?,
        endpoint,
        style,
        placement: found.value(&asked::SUMMARY_PLACEMENT)?,
        wait_limit: found.value(&asked::SUMMARY_WAIT)?,
        max_per_hour: found.value(&asked::SUMMARY_PER_HOUR)?,
        prompts,
    })
}

fn read_style(found: &ResolvedSettings) -> Result<SummaryStyle, Problem> {
    let style = found.value(&asked::SUMMARY_STYLE)?;
    if style == SummaryStyle::Cached
        && found.value(&asked::SUMMARY_MODEL)? != SummaryModel::SameAsConversation
    {
        let reason = format!(
            "found cached, which only the conversation's own model has in its cache; expected \
             transcript, or {} = own",
            asked::SUMMARY_MODEL.key
        );
        return Err(found.value_problem(&asked::SUMMARY_STYLE, reason));
    }
    Ok(style)
}

fn read_endpoint(found: &ResolvedSettings) -> Result<Option<SummaryEndpoint>, Problems> {
    let mut problems = Problems::default();
    let base = problems.ok_or_record(endpoint_base(found));
    let key = problems.ok_or_record(authorization_from_setting(
        found,
        &asked::SUMMARY_API_KEY_FILE,
    ));
    let (Some(base), Some(key)) = (base, key) else {
        return Err(problems);
    };
    let Some(base) = base else {
        let reason = || format!("a key without {} is nobody's", asked::SUMMARY_UPSTREAM.key);
        return key.map_or(Ok(None), |_| {
            Err(found
                .value_problem(&asked::SUMMARY_API_KEY_FILE, reason())
                .into())
        });
    };
    if key.is_some() {
        require_guarded_key(found, asked::SUMMARY_API_KEY_FILE.key)?;
    }
    Ok(Some(SummaryEndpoint {
        base,
        authorization: key,
    }))
}

/// Where summaries are asked for, if that is elsewhere.
fn endpoint_base(found: &ResolvedSettings) -> Result<Option<BaseUrl>, Problem> {
    let base = found.value(&asked::SUMMARY_UPSTREAM)?;
    if base.is_some() && found.value(&asked::SUMMARY_MODEL)? == SummaryModel::SameAsConversation {
        let model = asked::SUMMARY_MODEL.key;
        let reason = format!("another endpoint has other models: name one of its own in {model}");
        return Err(found.value_problem(&asked::SUMMARY_UPSTREAM, reason));
    }
    Ok(base)
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
        let local = [
            ("summary.upstream", "http://127.0.0.1:8080/v1"),
            ("summary.model", "small"),
            file,
        ];
        let summary = check(&local).unwrap();
        let endpoint = summary.endpoint.as_ref().unwrap();
        assert_eq!(
            endpoint.authorization.as_ref().unwrap(),
            "Bearer sk-hunter2"
        );
        assert!(!format!("{summary:?}").contains("hunter2"));
        assert!(check(&[file]).unwrap_err().contains("nobody's"));
        for wrong in ["", "two hunter2", "hunter2\u{e9}"] {
            std::fs::write(&path, wrong).unwrap();
            let problem = check(&local).unwrap_err();
            assert!(
                problem.contains("expected") && !problem.contains("hunter2"),
                "{problem}"
            );
        }
    }

    #[test]
    fn its_key_is_not_to_be_spent_by_whoever_connects() {
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
        let told = check(&public).unwrap_err();
        assert!(
            told.contains("would spend the key of summary.api_key_file"),
            "{told}"
        );
        assert!(check(&public[..4]).is_ok());
        assert!(check(&public[2..]).is_ok());
        let guarded = [&public[..], &[("client_tokens_file", path)]].concat();
        assert!(check(&guarded).is_ok());
    }

    #[test]
    fn settings_that_do_not_go_together_are_a_problem() {
        let elsewhere = ("summary.upstream", "http://127.0.0.1:8080/v1");
        assert!(check(&[elsewhere]).unwrap_err().contains("summary.model"));
        let cached = ("summary.style", "cached");
        assert!(check(&[cached]).is_ok());
        assert!(check(&[cached, ("summary.model", "other")]).is_err());
    }
}
