//! A lenient reader for one value of a `usage` object, whatever its JSON type.

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// A value of a `usage` object. Empty unless the value is a number, `true`, or an object with a
/// known key.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UsageValue {
    /// The value, if it is a number.
    pub(super) number: Option<f64>,
    /// The value, if it is a non-negative integer.
    pub(super) integer: Option<u64>,
    /// Whether the value is `true`.
    pub(super) is_true: bool,
    /// `cached_tokens`, if the value is an object.
    pub(super) cached_tokens: Option<u32>,
    /// `cache_write_tokens`, if the value is an object.
    pub(super) cache_write_tokens: Option<u32>,
    /// `total_cost`, if the value is an object.
    pub(super) total_cost: Option<f64>,
    /// `upstream_inference_cost`, if the value is an object.
    pub(super) upstream_cost: Option<f64>,
}

impl UsageValue {
    /// Returns the value as a count of tokens, saturating at `u32::MAX`; `None` if it is not an
    /// integer.
    pub(super) fn tokens(self) -> Option<u32> {
        let whole = self.integer?;
        Some(u32::try_from(whole).unwrap_or(u32::MAX))
    }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum DetailKey {
    CachedTokens,
    CacheWriteTokens,
    TotalCost,
    UpstreamInferenceCost,
    #[serde(other)]
    Other,
}

impl<'de> Deserialize<'de> for UsageValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UsageValueVisitor)
    }
}

struct UsageValueVisitor;

impl<'de> Visitor<'de> for UsageValueVisitor {
    type Value = UsageValue;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<UsageValue, E> {
        Ok(UsageValue::default())
    }

    fn visit_bool<E>(self, yes: bool) -> Result<UsageValue, E> {
        Ok(UsageValue {
            is_true: yes,
            ..UsageValue::default()
        })
    }

    /// Handles negative integers only: serde passes the others to `visit_u64`.
    fn visit_i64<E>(self, _: i64) -> Result<UsageValue, E> {
        Ok(UsageValue::default())
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "dollars: no request costs 2⁵³ of them"
    )]
    fn visit_u64<E>(self, value: u64) -> Result<UsageValue, E> {
        Ok(UsageValue {
            number: Some(value as f64),
            integer: Some(value),
            ..UsageValue::default()
        })
    }

    fn visit_f64<E>(self, value: f64) -> Result<UsageValue, E> {
        Ok(UsageValue {
            number: Some(value),
            ..UsageValue::default()
        })
    }

    fn visit_str<E>(self, _: &str) -> Result<UsageValue, E> {
        Ok(UsageValue::default())
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<UsageValue, S::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(UsageValue::default())
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<UsageValue, M::Error> {
        let mut told = UsageValue::default();
        while let Some(key) = map.next_key()? {
            match key {
                DetailKey::CachedTokens => {
                    told.cached_tokens = map.next_value::<UsageValue>()?.tokens();
                }
                DetailKey::CacheWriteTokens => {
                    told.cache_write_tokens = map.next_value::<UsageValue>()?.tokens();
                }
                DetailKey::TotalCost => told.total_cost = map.next_value::<UsageValue>()?.number,
                DetailKey::UpstreamInferenceCost => {
                    told.upstream_cost = map.next_value::<UsageValue>()?.number;
                }
                DetailKey::Other => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(told)
    }
}
