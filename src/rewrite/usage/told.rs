//! One value of a `usage` object, whatever it turns out to be.

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// What a value tells: nothing where it is neither a number nor an object that has some.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    /// It, if it is a number.
    pub(super) number: Option<f64>,
    /// It, if it is a whole number and not below zero.
    pub(super) whole: Option<u64>,
    /// Whether it is `true`.
    pub(super) yes: bool,
    /// Its `cached_tokens`, if it is an object.
    pub(super) cached: Option<u32>,
    /// Its `cache_write_tokens`.
    pub(super) written: Option<u32>,
    /// Its `total_cost`.
    pub(super) total: Option<f64>,
    /// Its `upstream_inference_cost`.
    pub(super) upstream: Option<f64>,
}

impl Told {
    /// It, if it is a count of tokens: all that is larger is as good as the largest.
    pub(super) fn count(self) -> Option<u32> {
        let whole = self.whole?;
        Some(u32::try_from(whole).unwrap_or(u32::MAX))
    }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Detail {
    CachedTokens,
    CacheWriteTokens,
    TotalCost,
    UpstreamInferenceCost,
    #[serde(other)]
    Other,
}

impl<'de> Deserialize<'de> for Told {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Told;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Told, E> {
        Ok(Told::default())
    }

    fn visit_bool<E>(self, yes: bool) -> Result<Told, E> {
        Ok(Told {
            yes,
            ..Told::default()
        })
    }

    /// Less than nothing: what is not is visited as a `u64`.
    fn visit_i64<E>(self, _: i64) -> Result<Told, E> {
        Ok(Told::default())
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "dollars, where nobody charges 2⁵³ of them"
    )]
    fn visit_u64<E>(self, value: u64) -> Result<Told, E> {
        Ok(Told {
            number: Some(value as f64),
            whole: Some(value),
            ..Told::default()
        })
    }

    fn visit_f64<E>(self, value: f64) -> Result<Told, E> {
        Ok(Told {
            number: Some(value),
            ..Told::default()
        })
    }

    fn visit_str<E>(self, _: &str) -> Result<Told, E> {
        Ok(Told::default())
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<Told, S::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Told::default())
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Told, M::Error> {
        let mut told = Told::default();
        while let Some(key) = map.next_key()? {
            match key {
                Detail::CachedTokens => told.cached = map.next_value::<Told>()?.count(),
                Detail::CacheWriteTokens => told.written = map.next_value::<Told>()?.count(),
                Detail::TotalCost => told.total = map.next_value::<Told>()?.number,
                Detail::UpstreamInferenceCost => {
                    told.upstream = map.next_value::<Told>()?.number;
                }
                Detail::Other => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(told)
    }
}
