//! Recall settings: whether originals are kept, and which line names them.

use super::base_url::BaseUrl;
use super::choices::RecallSetting;
use super::resolved::ResolvedSettings;
use super::{listener, settings};
use crate::error::Problem;
use crate::limits::RECALL_PATH;
use longhaul_core::units::recall_id::RecallForm;
use std::net::SocketAddr;

pub(super) fn is_on(found: &ResolvedSettings) -> Result<bool, Problem> {
    Ok(found.value(&settings::RECALL)? != RecallSetting::Off
        && !found.value(&settings::RECALL_DISABLED)?)
}

/// Returns the form of the lines, or `None` if recall is off.
///
/// A URL must be the same after a restart. If each start picks another port, the line names a command,
/// which finds the port in its environment.
pub(super) fn form(
    found: &ResolvedSettings,
    listen: SocketAddr,
) -> Result<Option<RecallForm>, Problem> {
    if !is_on(found)? {
        return Ok(None);
    }
    let url = found.value(&settings::RECALL_URL)?;
    Ok(match found.value(&settings::RECALL)? {
        RecallSetting::Off => None,
        RecallSetting::Mcp => Some(RecallForm::Tool),
        RecallSetting::Url if listen.port() == 0 => Some(RecallForm::Command),
        RecallSetting::Url => {
            let has_tls = listener::tls_files(found)?.is_some();
            let base = url.map_or_else(
                || listener::own_origin(listen, has_tls),
                |url| format!("{}{}", url.origin(), url.path()),
            );
            Some(RecallForm::Url(format!("{base}{RECALL_PATH}").into()))
        }
    })
}

/// Returns the address of the running proxy, and whether it requires a client token, from few settings: an
/// agent's environment may lack the others. Fails if the settings name no address that stays the same.
pub(crate) fn endpoint(found: &ResolvedSettings) -> Result<(BaseUrl, bool), Problem> {
    let listen = found.value(&settings::LISTEN)?;
    let base = match found.value(&settings::RECALL_URL)? {
        Some(url) => url,
        None if listen.port() == 0 => {
            return Err(Problem::CommandLine(
                "listen has port 0, so the proxy cannot be found: set recall_url \
                 (LONGHAUL_RECALL_URL), which `longhaul run` sets for its command"
                    .into(),
            ));
        }
        None => {
            let has_tls = found.value(&settings::TLS_CERTIFICATE_FILE)?.is_some();
            let url = listener::own_origin(listen, has_tls);
            BaseUrl::parse(&url).map_err(Problem::System)?
        }
    };
    Ok((base, found.value(&settings::CLIENT_TOKENS_FILE)?.is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    /// Returns the form under these settings.
    fn form(changes: &[(&str, &str)]) -> Option<RecallForm> {
        Config::default_with(changes.iter().copied()).unwrap().recall
    }

    #[test]
    fn a_url_is_named_only_if_each_start_has_the_same() {
        let url = ("recall", "url");
        let named = |base: &str| Some(RecallForm::Url(format!("{base}{RECALL_PATH}").into()));
        assert_eq!(form(&[url]), named("http://127.0.0.1:8484"));
        let all = ("listen", "0.0.0.0:9000");
        assert_eq!(form(&[url, all, ("public", "true")]), named("http://127.0.0.1:9000"));
        let own = ("recall_url", "http://longhaul:8484/sub/");
        assert_eq!(form(&[url, own]), named("http://longhaul:8484/sub"));
        let free = ("listen", "127.0.0.1:0");
        assert_eq!(form(&[url, free, own]), Some(RecallForm::Command));
        assert_eq!(form(&[("recall", "mcp"), free]), Some(RecallForm::Tool));
    }

    #[test]
    fn recall_is_off_unless_asked_for_and_not_switched_off() {
        assert_eq!(form(&[]), None);
        assert_eq!(form(&[("recall", "off")]), None);
        assert_eq!(form(&[("recall", "url"), ("recall_disabled", "1")]), None);
    }
}
