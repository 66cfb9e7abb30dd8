//! What a provider counted for one request, in whatever shape it reports it.

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Tokens of one request and its reply, as the provider counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The whole prompt, what came from a cache or went into one included.
    pub input: u32,
    /// What was generated, thinking included; `None` where that is not said.
    pub output: Option<u32>,
    /// What of the prompt was read from a cache; `None` where that is not said.
    pub cached: Option<u32>,
}

/// A `usage` object, by the names of all that report one.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Reported {
    prompt_tokens: Told,
    input_tokens: Told,
    completion_tokens: Told,
    output_tokens: Told,
    total_tokens: Told,
    cache_read_input_tokens: Told,
    cache_creation_input_tokens: Told,
    prompt_tokens_details: Told,
    input_tokens_details: Told,
    /// Of Moonshot.
    cached_tokens: Told,
    /// Of `DeepSeek`.
    prompt_cache_hit_tokens: Told,
}

/// The `timings` of llama.cpp.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Timings {
    #[serde(rename = "cache_n")]
    cache: Told,
    #[serde(rename = "prompt_n")]
    prompt: Told,
    #[serde(rename = "predicted_n")]
    predicted: Told,
}

impl Usage {
    /// Reads a `usage` object; `None` where it does not count the prompt.
    ///
    /// Three conventions are in use. Where the prompt is `prompt_tokens`, or `input_tokens` of
    /// the Responses API, it includes the cache. `input_tokens` of Anthropic leaves it out:
    /// `cache_read_input_tokens` and `cache_creation_input_tokens` stand beside it, and the sum of
    /// the three is the prompt. Gateways mix the names, and then the total tells, or that a part
    /// is larger than the whole.
    #[expect(clippy::needless_pass_by_value, reason = "it is read for this alone")]
    pub fn of_reported(usage: Reported) -> Option<Self> {
        let open = usage.prompt_tokens.count;
        let named = open.or(usage.input_tokens.count)?;
        let output = usage.completion_tokens.count.or(usage.output_tokens.count);
        let total = usage.total_tokens.count;
        let beside = usage.cache_read_input_tokens.count;
        let written = usage.cache_creation_input_tokens.count.unwrap_or(0);
        let cached = usage.cached_within().or(beside);
        let cache = cached.unwrap_or(0).saturating_add(written);
        let sum = named.saturating_add(cache);
        let stands_apart = if open.is_none() {
            beside.is_some() || written > 0
        } else {
            let tells = total
                .is_some_and(|total| cache > 0 && total == sum.saturating_add(output.unwrap_or(0)));
            tells || cache > named
        };
        let input = if stands_apart { sum } else { named };
        // Some count thinking in the total alone: Gemini, xAI.
        let hidden = total.map(|total| total.saturating_sub(input));
        Some(Self {
            input,
            output: output.map(|output| output.max(hidden.unwrap_or(0))),
            cached,
        })
    }

    /// Reads `timings`, which llama.cpp gives with every reply: the part of the prompt that was
    /// evaluated, and the part that was not. Older ones leave the second out, and then the prompt
    /// is not known.
    #[expect(clippy::needless_pass_by_value, reason = "it is read for this alone")]
    pub fn of_timings(timings: Timings) -> Option<Self> {
        let cached = timings.cache.count?;
        Some(Self {
            input: timings.prompt.count?.saturating_add(cached),
            output: timings.predicted.count,
            cached: Some(cached),
        })
    }
}

impl Reported {
    /// What is said to have come from a cache by those that count it within the prompt.
    fn cached_within(&self) -> Option<u32> {
        self.prompt_tokens_details
            .cached
            .or(self.input_tokens_details.cached)
            .or(self.cached_tokens.count)
            .or(self.prompt_cache_hit_tokens.count)
    }
}

/// What a value tells, whatever it is: nothing where it is neither a count nor the details of one.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// It, if it is a whole number.
    count: Option<u32>,
    /// Its `cached_tokens`, if it is an object.
    cached: Option<u32>,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Detail {
    CachedTokens,
    #[serde(other)]
    Other,
}

impl<'de> Deserialize<'de> for Told {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Told;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("any value")
            }

            fn visit_unit<E>(self) -> Result<Told, E> {
                Ok(Told::default())
            }

            fn visit_bool<E>(self, _: bool) -> Result<Told, E> {
                Ok(Told::default())
            }

            fn visit_i64<E>(self, _: i64) -> Result<Told, E> {
                Ok(Told::default())
            }

            fn visit_u64<E>(self, value: u64) -> Result<Told, E> {
                Ok(Told {
                    count: Some(u32::try_from(value).unwrap_or(u32::MAX)),
                    cached: None,
                })
            }

            fn visit_f64<E>(self, _: f64) -> Result<Told, E> {
                Ok(Told::default())
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
                        Detail::CachedTokens => told.cached = map.next_value::<Told>()?.count,
                        Detail::Other => _ = map.next_value::<IgnoredAny>()?,
                    }
                }
                Ok(told)
            }
        }

        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of_timings(timings: Value) -> Option<Usage> {
        Usage::of_timings(serde_json::from_value(timings).unwrap())
    }

    fn check(usage: &Value, expect: Option<(u32, Option<u32>, Option<u32>)>) {
        let expect = expect.map(|(input, output, cached)| Usage {
            input,
            output,
            cached,
        });
        let reported = serde_json::from_value(usage.clone()).ok();
        assert_eq!(reported.and_then(Usage::of_reported), expect, "{usage}");
    }

    #[test]
    fn a_prompt_by_the_name_of_openai_includes_its_cache() {
        check(
            &json!({"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105,
                "prompt_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 8}}),
            Some((100, Some(5), Some(64))),
        );
        check(
            &json!({"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105,
                "prompt_tokens_details": null}),
            Some((100, Some(5), None)),
        );
        check(
            &json!({"input_tokens": 100, "output_tokens": 5,
                "input_tokens_details": {"cached_tokens": 64}}),
            Some((100, Some(5), Some(64))),
        );
    }

    #[test]
    fn a_prompt_by_the_name_of_anthropic_leaves_its_cache_out() {
        check(
            &json!({"input_tokens": 3, "cache_creation_input_tokens": 40,
                "cache_read_input_tokens": 1_000, "output_tokens": 5}),
            Some((1_043, Some(5), Some(1_000))),
        );
        check(
            &json!({"input_tokens": 30, "output_tokens": 5}),
            Some((30, Some(5), None)),
        );
    }

    #[test]
    fn where_a_gateway_mixes_the_names_the_total_tells() {
        let usage = |prompt: u32, total: u32| {
            json!({"prompt_tokens": prompt, "completion_tokens": 5, "total_tokens": total,
                "cache_read_input_tokens": 1_000, "cache_creation_input_tokens": 40})
        };
        check(&usage(1_043, 1_048), Some((1_043, Some(5), Some(1_000))));
        check(&usage(2_000, 3_045), Some((3_040, Some(5), Some(1_000))));
        check(&usage(3, 8), Some((1_043, Some(5), Some(1_000))));
    }

    #[test]
    fn thinking_that_only_the_total_counts_is_output() {
        check(
            &json!({"prompt_tokens": 10, "completion_tokens": 0, "total_tokens": 42}),
            Some((10, Some(32), None)),
        );
    }

    #[test]
    fn what_counts_no_prompt_is_no_usage() {
        for usage in [
            json!(null),
            json!({}),
            json!({"completion_tokens": 5}),
            json!({"prompt_tokens": "100"}),
            json!({"prompt_tokens": -1}),
        ] {
            check(&usage, None);
        }
    }

    #[test]
    fn counts_past_what_is_counted_here_are_the_most() {
        check(
            &json!({"prompt_tokens": u64::MAX, "completion_tokens": u64::MAX,
                "total_tokens": u64::MAX, "cache_read_input_tokens": u64::MAX}),
            Some((u32::MAX, Some(u32::MAX), Some(u32::MAX))),
        );
    }

    #[test]
    fn the_timings_of_llama_cpp_count_the_prompt_where_they_count_its_cache() {
        let timings = json!({"cache_n": 900, "prompt_n": 100, "prompt_ms": 5.5, "predicted_n": 7});
        let usage = of_timings(timings).unwrap();
        assert_eq!(
            (usage.input, usage.output, usage.cached),
            (1_000, Some(7), Some(900))
        );
        assert_eq!(of_timings(json!({"prompt_n": 100})), None);
    }
}
