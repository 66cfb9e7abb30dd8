//! One value of a `usage` object, whatever it turns out to be.

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// What a value tells: nothing where it is neither a number nor an object that has some.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UsageValue {
    /// It, if it is a number.
    pub(super) number: Option<f64>,
    /// It, if it is a whole number and not below zero.
    pub(super) integer: Option<u64>,
    /// Whether it is `true`.
    pub(super) is_true: bool,
    /// Its `cached_tokens`, if it is an object.
    pub(super) cached_tokens: Option<u32>,
    /// Its `cache_write_tokens`.
    pub(super) cache_write_tokens: Option<u32>,
    /// Its `total_cost`.
    pub(super) total_cost: Option<f64>,
    /// Its `upstream_inference_cost`.
    pub(super) upstream_cost: Option<f64>,
}

impl UsageValue {
    /// It, if it is a count of tokens: all that is larger is as good as the largest.
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

    /// Less than nothing: what is not is visited as a `u64`.
    fn visit_i64<E>(self, _: i64) -> Result<UsageValue, E> {
        Ok(UsageValue::default())
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "dollars, where nobody charges 2⁵³ of them"
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
                    told.cached_tokens = map.next_value::<UsageValue>()?.tokens()
                }
                DetailKey::CacheWriteTokens => {
                    told.cache_write_tokens = map.next_value::<UsageValue>()?.tokens()
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
