//! Parsers for setting values: from text to a typed value, or a message that states what was
//! expected. Also the form of the values of each type.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

use super::base_url::BaseUrl;
use super::choices::{ChoiceSetting, SummaryModel};
use super::locations::{CallerIdentity, ProxyUrl, StoreLocation};
use super::raw_value::RawValue;
use super::redact::without_credentials;
use super::setting::Kind;
use longhaul_core::cost::caps::Cap;
use longhaul_core::cost::pricing::Price;
use longhaul_core::overflow::ClassifierRules;
use longhaul_core::policy::ThresholdSetting;
use longhaul_core::units::tokens::Tokens;

/// Parses one of the words of `C`, ignoring case.
pub(super) fn choice<C: ChoiceSetting>(raw: &RawValue) -> Result<C, String> {
    let text = single_text(raw)?;
    let found = C::ALL.iter().find(|(word, _)| word.eq_ignore_ascii_case(text.trim()));
    found
        .map(|(_, choice)| *choice)
        .ok_or_else(|| mismatch(text, &format!("one of {}", C::words().join(", "))))
}

/// Parses a socket address. `localhost`, and a port without a host, mean 127.0.0.1.
pub(super) fn address(raw: &RawValue) -> Result<SocketAddr, String> {
    let text = single_text(raw)?;
    let place = text.trim();
    let port = ["localhost:", ":"].iter().find_map(|host| place.strip_prefix(host));
    let address = match port.unwrap_or(place).parse::<u16>() {
        Ok(port) => Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        Err(_) => place.parse().ok(),
    };
    let wanted = "an IP address and a port, like 127.0.0.1:8484, or a port";
    address.ok_or_else(|| mismatch(text, wanted))
}

pub(super) fn address_or_off(raw: &RawValue) -> Result<Option<SocketAddr>, String> {
    let text = single_text(raw)?;
    if text.trim().eq_ignore_ascii_case("off") {
        return Ok(None);
    }
    let wanted = "off, or an IP address and a port, like 127.0.0.1:8485, or a port";
    address(raw).map(Some).map_err(|_| mismatch(text, wanted))
}

pub(super) fn integer<const MIN: u32, const MAX: u32>(raw: &RawValue) -> Result<u32, String> {
    let text = single_text(raw)?;
    let number = text.replace('_', "").parse().ok();
    number
        .filter(|number| (MIN..=MAX).contains(number))
        .ok_or_else(|| mismatch(text, &format!("a whole number from {MIN} to {MAX}")))
}

pub(super) fn count<const MIN: u32, const MAX: u32>(raw: &RawValue) -> Result<usize, String> {
    integer::<MIN, MAX>(raw).map(|number| number as usize)
}

/// Parses a path; empty is `None`.
pub(super) fn optional_path(raw: &RawValue) -> Result<Option<PathBuf>, String> {
    let text = single_text(raw)?;
    Ok((!text.is_empty()).then(|| PathBuf::from(text)))
}

pub(super) fn base_url(raw: &RawValue) -> Result<BaseUrl, String> {
    BaseUrl::parse(single_text(raw)?)
}

pub(super) fn proxy_url(raw: &RawValue) -> Result<ProxyUrl, String> {
    ProxyUrl::parse(single_text(raw)?)
}

/// Parses the store's location. Errors never include the text, which may contain a password.
pub(super) fn store_location(raw: &RawValue) -> Result<StoreLocation, String> {
    StoreLocation::parse(single_text(raw)?).map_err(str::to_owned)
}

/// Parses how longhaul distinguishes callers.
pub(super) fn scope_by(raw: &RawValue) -> Result<CallerIdentity, String> {
    let text = single_text(raw)?.trim();
    if text.eq_ignore_ascii_case("credentials") {
        return Ok(CallerIdentity::Credentials);
    }
    text.strip_prefix("header:")
        .and_then(|name| name.trim().parse().ok())
        .map(CallerIdentity::Header)
        .ok_or_else(|| mismatch(text, "credentials or header:NAME"))
}

pub(super) fn text(raw: &RawValue) -> Result<String, String> {
    single_text(raw).map(str::to_owned)
}

/// Parses a switch, ignoring case: `1/true/yes/on`, or `0/false/no/off` and the empty text.
pub(super) fn switch(raw: &RawValue) -> Result<bool, String> {
    let text = single_text(raw)?;
    match text.trim().to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" | "" => Ok(false),
        _ => Err(mismatch(text, "1, true, yes or on, or 0, false, no or off")),
    }
}

/// Parses the summary model: `own`, `provider`, `none`, or a model's name.
pub(super) fn summary_model(raw: &RawValue) -> Result<SummaryModel, String> {
    let text = single_text(raw)?.trim();
    match text.to_ascii_lowercase().as_str() {
        "" => Err(mismatch(text, "own, provider, none or the name of a model")),
        "none" => Ok(SummaryModel::Disabled),
        "own" => Ok(SummaryModel::SameAsConversation),
        "provider" => Ok(SummaryModel::Provider),
        _ => Ok(SummaryModel::Named(text.to_owned())),
    }
}

/// Parses a list of texts, separated by commas if given as one text.
pub(super) fn text_list(raw: &RawValue) -> Result<Vec<String>, String> {
    let items = list_items(raw, ',');
    let has_empty = matches!(raw, RawValue::List(_)) && items.iter().any(String::is_empty);
    if has_empty { Err("found an empty text in a list".into()) } else { Ok(items) }
}

/// Returns the items of a list, separated by `separator` if given as one text. `[]` is the empty list, as in the
/// file.
fn list_items(raw: &RawValue, separator: char) -> Vec<String> {
    match raw {
        RawValue::List(items) => items.clone(),
        RawValue::Text(text) if text.trim() == "[]" => Vec::new(),
        RawValue::Text(text) => {
            let items = text.split(separator).map(str::trim);
            items.filter(|item| !item.is_empty()).map(str::to_owned).collect()
        }
    }
}

/// Parses a list of networks, such as `10.0.0.0/8`. An address is a network of its own.
pub(super) fn networks(raw: &RawValue) -> Result<Vec<IpNet>, String> {
    let network = |text: String| {
        let address = || text.parse().ok().map(|address: IpAddr| IpNet::from(address));
        let network = text.parse().ok().or_else(address);
        network.ok_or_else(|| "expected addresses or networks like 10.0.0.0/8".to_owned())
    };
    text_list(raw)?.into_iter().map(network).collect()
}

/// Builds the classifier's rules with additional patterns. As one text, patterns are separated by
/// newlines, because they may contain commas.
pub(super) fn overflow_patterns(raw: &RawValue) -> Result<ClassifierRules, String> {
    ClassifierRules::with_patterns(&list_items(raw, '\n'))
}

/// Builds the parser of a setting that may stay open: a blank value is `None`.
macro_rules! optional {
    ($read:expr) => {
        |raw| $crate::config::parse::none_if_blank(raw, $read)
    };
}

pub(super) use optional;

pub(super) fn none_if_blank<T>(
    raw: &RawValue,
    read: fn(&RawValue) -> Result<T, String>,
) -> Result<Option<T>, String> {
    match raw {
        RawValue::Text(text) if text.trim().is_empty() => Ok(None),
        RawValue::List(_) | RawValue::Text(_) => read(raw).map(Some),
    }
}

pub(super) fn single_text(raw: &RawValue) -> Result<&str, String> {
    match raw {
        RawValue::List(_) => Err("found a list, expected one value".into()),
        RawValue::Text(text) => Ok(text),
    }
}

/// The text may be a URL meant for another setting, with a password.
pub(super) fn mismatch(found: &str, wanted: &str) -> String {
    format!("found `{}`, expected {wanted}", without_credentials(found))
}

/// A type of setting values.
pub(crate) trait HasKind {
    const KIND: Kind;
}

/// An empty text leaves the setting open.
impl<T: HasKind> HasKind for Option<T> {
    const KIND: Kind = T::KIND;
}

impl<C: ChoiceSetting> HasKind for C {
    const KIND: Kind = Kind::Choice(C::words);
}

macro_rules! kinds {
    ($($kind:ident: $($of:ty),+;)+) => {
        $($(impl HasKind for $of {
            const KIND: Kind = Kind::$kind;
        })+)+
    };
}

kinds! {
    Switch: bool;
    // An address may be a port.
    Integer: u32, u64, usize, Duration, SocketAddr, Tokens;
    Number: Price, ThresholdSetting;
    List: ClassifierRules, Vec<IpNet>, Vec<String>;
    Text: BaseUrl, CallerIdentity, Cap, PathBuf, ProxyUrl, StoreLocation, String,
        SummaryModel;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Http2;

    #[expect(clippy::needless_pass_by_value, reason = "reads better at its calls")]
    fn check<T: PartialEq + std::fmt::Debug>(
        read: fn(&RawValue) -> Result<T, String>,
        input: &str,
        expect: Option<T>,
    ) {
        assert_eq!(read(&RawValue::Text(input.into())).ok(), expect, "{input:?}");
    }

    #[test]
    fn error_for_a_misplaced_url_hides_its_password() {
        for text in [
            address(&RawValue::Text("redis://u:hunter2@h".into())).unwrap_err(),
            choice::<Http2>(&RawValue::Text("http://u:hunter2@h".into())).unwrap_err(),
        ] {
            assert!(text.contains("://…@h") && !text.contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn addresses_are_an_ip_or_localhost_and_a_port() {
        check(address, "127.0.0.1:0", Some(([127, 0, 0, 1], 0).into()));
        check(address, "localhost:8484", Some(([127, 0, 0, 1], 8484).into()));
        check(address, "[::1]:80", "[::1]:80".parse().ok());
        check(address, ":8484", Some(([127, 0, 0, 1], 8484).into()));
        check(address, " 8484 ", Some(([127, 0, 0, 1], 8484).into()));
        check(address, "127.0.0.1", None);
        check(address, ":65536", None);
        check(address, "localhost:", None);
        check(address, "", None);
    }

    #[test]
    fn optional_listener_is_an_address_or_off() {
        let here = ([127, 0, 0, 1], 8485).into();
        check(address_or_off, "localhost:8485", Some(Some(here)));
        check(address_or_off, ":8485", Some(Some(here)));
        check(address_or_off, "OFF", Some(None));
        check(address_or_off, "", None);
        check(address_or_off, "none", None);
    }

    #[test]
    fn integers_keep_to_their_range() {
        check(integer::<1, 100_000>, "16_384", Some(16_384));
        check(integer::<1, 10>, "0", None);
        check(integer::<1, 10>, "11", None);
    }

    #[test]
    fn switches_accept_only_the_known_words_for_on_and_off() {
        for word in ["1", "true", "YES", "On"] {
            check(switch, word, Some(true));
        }
        for word in ["0", "False", "no", "off", ""] {
            check(switch, word, Some(false));
        }
        check(switch, "maybe", None);
    }

    #[test]
    fn empty_optional_value_is_none() {
        check(optional!(integer::<0, 9>), " ", Some(None));
        check(optional!(integer::<0, 9>), "none", None);
        check(optional!(choice::<Http2>), "", Some(None));
        check(optional!(choice::<Http2>), "AUTO", Some(Some(Http2::Auto)));
        check(optional!(choice::<Http2>), "maybe", None);
    }

    #[test]
    fn summary_model_is_own_none_or_a_name() {
        check(summary_model, "own", Some(SummaryModel::SameAsConversation));
        check(summary_model, "provider", Some(SummaryModel::Provider));
        check(summary_model, "None", Some(SummaryModel::Disabled));
        let named = SummaryModel::Named("z-ai/GLM-4.6".into());
        check(summary_model, "z-ai/GLM-4.6", Some(named));
        check(summary_model, "", None);
    }

    #[test]
    fn overflow_patterns_are_one_per_line_and_each_is_compiled() {
        check(|raw| overflow_patterns(raw).map(drop), "a{1,3}, b\r\n\n [0-9] of \n", Some(()));
        check(|raw| overflow_patterns(raw).map(drop), "[]", Some(()));
        check(|raw| overflow_patterns(raw).map(drop), "", Some(()));
        let refused = overflow_patterns(&RawValue::Text("a\n\nb(".into())).unwrap_err();
        assert_eq!(refused, "pattern 2: unclosed group");
        let list = RawValue::List(vec!["a\nb".into(), "(?<x>c)".into()]);
        assert!(
            overflow_patterns(&list).unwrap_err().starts_with("pattern 2: found the group `x`")
        );
    }

    #[test]
    fn lists_split_at_commas() {
        check(text_list, "a, b,,c", Some(vec!["a".into(), "b".into(), "c".into()]));
        check(text_list, "", Some(Vec::new()));
        check(text_list, "[]", Some(Vec::new()));
    }
}
