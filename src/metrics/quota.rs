//! Quota of logins, as providers state it in the heads of their replies.
//!
//! Headers: `x-codex-*` of the backend for `ChatGPT` logins, `anthropic-ratelimit-unified-*` of Anthropic's API.

use std::collections::VecDeque;
use std::time::Duration;

use http::HeaderMap;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use longhaul_core::units::scope::ScopeTag;

/// Maximum accounts whose quota is kept; the one that was stated longest ago makes room.
const MAX_ACCOUNTS: usize = 16;
/// Maximum windows that one reply states. Providers state two, and two for each model with its own limit.
const MAX_WINDOWS: usize = 16;
/// Maximum bytes of the name of a limit.
const MAX_NAME: usize = 32;
/// Pause if the provider refuses requests, or does not state when a window resets.
const UNSTATED_PAUSE: Duration = Duration::from_mins(5);
pub(crate) const DAY_MINUTES: u64 = 24 * 60;
pub(crate) const WINDOW_LABELS: [&str; 3] = ["5h", "7d", "other"];

/// A window of an account's quota.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct QuotaWindow {
    /// Name of a limit apart from the account's own, as for one model. Empty for the account's.
    pub(crate) limit: String,
    pub(crate) minutes: u64,
    pub(crate) used_percent: f64,
    /// Unix time in seconds. `None` if the provider does not state it.
    pub(crate) resets_at: Option<u64>,
    /// Estimated share without longhaul. `None` while nothing shows a difference.
    pub(crate) without_percent: Option<f64>,
    /// Share, and tokens of all chats as received and as forwarded, at the first reading of this window.
    #[serde(skip)]
    first: Option<(f64, [u64; 2])>,
}

/// Statement of one reply about an account.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Quota {
    /// Provider: `chatgpt` or `claude`.
    pub(crate) source: String,
    /// Hash of the account's credentials, of this process.
    pub(crate) account: String,
    /// Whether the provider refuses requests at present, perhaps for one model.
    pub(crate) is_refused: bool,
    pub(crate) windows: Vec<QuotaWindow>,
}

impl Quota {
    /// Reads the headers of a reply. `None` if they state no window.
    pub(crate) fn read(headers: &HeaderMap, now: u64) -> Option<Self> {
        let names = headers.keys().map(http::HeaderName::as_str);
        let stated = names.filter_map(|name| {
            let codex = name.strip_prefix("x-codex-")?;
            let place = codex.strip_suffix("-used-percent")?;
            codex_window(headers, place, now)
        });
        let names = headers.keys().map(http::HeaderName::as_str);
        let unified = names.filter_map(|name| {
            let place = name.strip_prefix(UNIFIED)?.strip_suffix("-utilization")?;
            claude_window(headers, place)
        });
        let codex: Vec<_> = stated.take(MAX_WINDOWS).collect();
        let is_codex = !codex.is_empty();
        let mut windows = if is_codex { codex } else { unified.take(MAX_WINDOWS).collect() };
        windows.sort_by(|a, b| (&a.limit, a.minutes).cmp(&(&b.limit, b.minutes)));
        windows.dedup_by(|a, b| (&a.limit, a.minutes) == (&b.limit, b.minutes));
        (!windows.is_empty()).then(|| Self {
            source: if is_codex { "chatgpt" } else { "claude" }.to_owned(),
            account: String::new(),
            is_refused: text(headers, &format!("{UNIFIED}status")) == Some("rejected"),
            windows,
        })
    }

    /// Returns the time for which calls in the background pause: until the last window with at least `percent`
    /// used resets. The pause is short if the provider refuses requests. `None` if neither holds. Limits of one
    /// model do not count.
    pub(crate) fn pause(&self, percent: usize, now: u64) -> Option<Duration> {
        let most = u32::try_from(percent).map_or(f64::INFINITY, f64::from);
        let account = self.windows.iter().filter(|window| window.limit.is_empty());
        let full = account.filter(|window| window.used_percent >= most);
        let left = full.map(|window| match window.resets_at {
            Some(at) => Duration::from_secs(at.saturating_sub(now)),
            None => UNSTATED_PAUSE,
        });
        let refused = self.is_refused.then_some(UNSTATED_PAUSE);
        left.chain(refused).max().filter(|_| percent > 0)
    }
}

const UNIFIED: &str = "anthropic-ratelimit-unified-";

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

fn number<T: std::str::FromStr>(headers: &HeaderMap, name: &str) -> Option<T> {
    text(headers, name)?.parse().ok()
}

fn window(limit: &str, minutes: u64, percent: f64, resets_at: Option<u64>) -> Option<QuotaWindow> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let is_sound = percent.is_finite() && percent >= 0.0 && minutes > 0;
    let is_named = limit.len() <= MAX_NAME && limit.bytes().all(is_plain);
    (is_sound && is_named).then(|| QuotaWindow {
        limit: limit.to_owned(),
        minutes,
        used_percent: percent,
        resets_at,
        without_percent: None,
        first: None,
    })
}

/// Reads a window of `ChatGPT`'s backend at `place`: `primary`, `secondary`, or one of them after the name of a
/// limit of its own. Either place can carry a window of any length; the length 0 marks an empty place.
fn codex_window(headers: &HeaderMap, place: &str, now: u64) -> Option<QuotaWindow> {
    let limit = ["primary", "secondary"].iter().find_map(|own| place.strip_suffix(own))?;
    let field = |of: &str| format!("x-codex-{place}-{of}");
    let after = || {
        let seconds: u64 = number(headers, &field("reset-after-seconds"))?;
        now.checked_add(seconds)
    };
    window(
        limit.trim_end_matches('-'),
        number(headers, &field("window-minutes"))?,
        number(headers, &field("used-percent"))?,
        number(headers, &field("reset-at")).or_else(after),
    )
}

/// Reads a window of Anthropic's API, which names it by its length: `5h`, `7d`, or `7d_NAME` for a limit of its
/// own. The share is a fraction.
fn claude_window(headers: &HeaderMap, place: &str) -> Option<QuotaWindow> {
    let (length, limit) = place.split_once('_').unwrap_or((place, ""));
    let unit = match length.bytes().last()? {
        b'm' => 1,
        b'h' => 60,
        b'd' => DAY_MINUTES,
        _ => return None,
    };
    let count: u64 = length.get(..length.len() - 1)?.parse().ok()?;
    let fraction: f64 = number(headers, &format!("{UNIFIED}{place}-utilization"))?;
    let resets_at = number(headers, &format!("{UNIFIED}{place}-reset"));
    window(limit, count.checked_mul(unit)?, fraction * 100.0, resets_at)
}

/// The quota of the accounts that replies stated last.
#[derive(Debug, Default)]
pub(crate) struct Quotas(Mutex<VecDeque<(ScopeTag, Quota)>>);

impl Quotas {
    /// Keeps what a reply states about the account `of`. `tokens` are those of all chats so far, as received and
    /// as forwarded.
    pub(crate) fn record(&self, of: ScopeTag, mut quota: Quota, tokens: [u64; 2]) {
        let mut accounts = self.0.lock();
        let place = accounts.iter().position(|(account, _)| *account == of);
        let before = place.and_then(|place| accounts.remove(place));
        for window in &mut quota.windows {
            let same =
                |old: &&QuotaWindow| old.minutes == window.minutes && old.limit == window.limit;
            let old = before.as_ref().and_then(|(_, quota)| quota.windows.iter().find(same));
            // A window that has begun anew has a smaller share.
            let first = old.filter(|old| old.used_percent <= window.used_percent);
            let first = first.and_then(|old| old.first);
            let (share, [received, sent]) =
                *window.first.insert(first.unwrap_or((window.used_percent, tokens)));
            let [received, sent] =
                [tokens[0].saturating_sub(received), tokens[1].saturating_sub(sent)];
            if received > sent && sent > 0 && window.used_percent > share {
                #[expect(clippy::cast_precision_loss, reason = "an estimate")]
                let factor = received as f64 / sent as f64;
                window.without_percent = Some(share + (window.used_percent - share) * factor);
            }
        }
        let [a, b, c, d, ..] = of.0;
        quota.account = format!("{:08x}", u32::from_be_bytes([a, b, c, d]));
        accounts.truncate(MAX_ACCOUNTS - 1);
        accounts.push_front((of, quota));
    }

    pub(crate) fn all(&self) -> Vec<Quota> {
        self.0.lock().iter().map(|(_, quota)| quota.clone()).collect()
    }

    /// Returns the largest used share of each label's windows, over all accounts. Limits of one model do not count.
    pub(crate) fn used(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let all = self.all();
        WINDOW_LABELS.into_iter().map(move |label| {
            let windows = all.iter().flat_map(|quota| &quota.windows);
            let of_label = windows.filter(|it| it.limit.is_empty() && it.label() == label);
            let shares = of_label.map(|window| window.used_percent / 100.0);
            (label, shares.fold(0.0, f64::max))
        })
    }
}

impl QuotaWindow {
    fn label(&self) -> &'static str {
        match self.minutes {
            300 => "5h",
            10_080 => "7d",
            _ => "other",
        }
    }
}
