//! Token usage of one request, read from every shape in which providers report it.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json::lenient::{Lenient, parse};
use crate::units::usd::Usd;

/// Tokens of one request and its reply, in the provider's tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The whole prompt, including tokens read from or written to a cache.
    pub input: u32,
    /// Generated tokens, including reasoning; `None` if not reported.
    pub output: Option<u32>,
    /// Prompt tokens read from a cache; `None` if not reported.
    pub cached: Option<u32>,
    /// Prompt tokens written to a cache; 0 if not reported.
    pub written: u32,
    /// Part of `written` that the cache keeps for an hour; 0 if not reported.
    pub written_for_hour: u32,
    /// Total cost of the request; `None` if not reported.
    pub cost: Option<Usd>,
}

impl Usage {
    /// Returns the tokens of input and output.
    pub fn total(&self) -> u64 {
        u64::from(self.input) + u64::from(self.output.unwrap_or(0))
    }

    /// Whether the prompt is counted. Some servers count it in the first event alone.
    pub(crate) fn counts_prompt(&self) -> bool {
        self.input > 0
    }

    pub(crate) fn without_output(self) -> Self {
        Self { output: None, ..self }
    }

    /// Returns the usage with the prompt of an earlier report, if this one does not count it.
    #[must_use]
    pub fn completed_by(self, earlier: Option<Self>) -> Self {
        match earlier {
            Some(earlier) if !self.counts_prompt() => Self {
                output: self.output.or(earlier.output),
                cost: self.cost.or(earlier.cost),
                ..earlier
            },
            // The last event of a stream counts the writes without their lifetimes.
            Some(earlier) => Self {
                written_for_hour: self.written_for_hour.max(earlier.written_for_hour),
                ..self
            },
            None => self,
        }
    }
}

/// A `usage` object, with the keys of all known providers.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct UsageObject<'a> {
    pub(super) prompt_tokens: TokenCount,
    input_tokens: TokenCount,
    pub(super) completion_tokens: TokenCount,
    output_tokens: TokenCount,
    total_tokens: TokenCount,
    cache_read_input_tokens: TokenCount,
    cache_creation_input_tokens: TokenCount,
    /// Anthropic.
    cache_creation: Lenient<WritesByLifetime>,
    prompt_tokens_details: Lenient<TokenDetails>,
    input_tokens_details: Lenient<TokenDetails>,
    /// Moonshot.
    cached_tokens: TokenCount,
    /// `DeepSeek`.
    prompt_cache_hit_tokens: TokenCount,
    #[serde(borrow)]
    cost: Option<&'a RawValue>,
    cost_details: Lenient<CostDetails>,
    is_byok: Lenient<bool>,
    /// xAI.
    cost_in_usd_ticks: Option<Lenient<u64>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TokenDetails {
    cached_tokens: TokenCount,
    cache_write_tokens: TokenCount,
}

/// Tokens written to a cache, by the time that the cache keeps them.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WritesByLifetime {
    ephemeral_1h_input_tokens: TokenCount,
}

/// The details of a cost, or a cost that is an object.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CostDetails {
    total_cost: Lenient<f64>,
    upstream_inference_cost: Lenient<f64>,
}

/// The `timings` object of llama.cpp.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct LlamaCppTimings {
    #[serde(rename = "cache_n")]
    cache: TokenCount,
    #[serde(rename = "prompt_n")]
    prompt: TokenCount,
    #[serde(rename = "predicted_n")]
    predicted: TokenCount,
}

type TokenCount = Lenient<u64>;

impl TokenCount {
    /// Returns the number of tokens, saturating at `u32::MAX`.
    pub(super) fn tokens(self) -> Option<u32> {
        let count = self.0?;
        Some(u32::try_from(count).unwrap_or(u32::MAX))
    }
}

impl UsageObject<'_> {
    /// Returns the usage; `None` if the object does not count the prompt.
    ///
    /// Three conventions are in use:
    ///
    /// - `prompt_tokens` includes the cache.
    /// - `input_tokens` of the Responses API includes the cache.
    /// - `input_tokens` of Anthropic excludes the cache: the prompt is the sum of `input_tokens`,
    ///   `cache_read_input_tokens` and `cache_creation_input_tokens`.
    ///
    /// Gateways mix the names. The cache is then excluded if the total shows it, or if the cached
    /// part is larger than the reported prompt.
    pub(super) fn usage(&self) -> Option<Usage> {
        let open = self.prompt_tokens.tokens();
        let named = open.or_else(|| self.input_tokens.tokens())?;
        let output = self.output();
        let total = self.total_tokens.tokens();
        let cache_read = self.cache_read_input_tokens.tokens();
        let written = self.cache_creation_input_tokens.tokens().unwrap_or(0);
        let cached = self.cached_within_prompt().or(cache_read);
        let cache = cached.unwrap_or(0).saturating_add(written);
        let sum = named.saturating_add(cache);
        let cache_excluded = if open.is_none() {
            cache_read.is_some() || written > 0
        } else {
            let total_includes_cache = total == Some(sum.saturating_add(output.unwrap_or(0)));
            total_includes_cache || cache > named
        };
        let input = if cache_excluded { sum } else { named };
        // Gemini and xAI count reasoning tokens in the total alone.
        let hidden = total.map(|total| total.saturating_sub(input));
        let lifetimes = self.cache_creation.0.as_ref();
        let written_for_hour = lifetimes.and_then(|it| it.ephemeral_1h_input_tokens.tokens());
        let cache_written = self.details().find_map(|details| details.cache_write_tokens.tokens());
        Some(Usage {
            input,
            output: output.map(|output| output.max(hidden.unwrap_or(0))),
            cached,
            written: cache_written.unwrap_or(written),
            written_for_hour: written_for_hour.unwrap_or(0),
            cost: self.reported_cost(),
        })
    }

    /// Returns the generated tokens, without those that only a total counts.
    pub(super) fn output(&self) -> Option<u32> {
        let output = self.completion_tokens.tokens();
        output.or_else(|| self.output_tokens.tokens())
    }

    /// Returns the cached tokens reported by providers that count them within the prompt.
    fn cached_within_prompt(&self) -> Option<u32> {
        self.details()
            .find_map(|details| details.cached_tokens.tokens())
            .or_else(|| self.cached_tokens.tokens())
            .or_else(|| self.prompt_cache_hit_tokens.tokens())
    }

    fn details(&self) -> impl Iterator<Item = &TokenDetails> {
        self.prompt_tokens_details.0.iter().chain(&self.input_tokens_details.0)
    }

    /// Returns the cost that the provider reports, in dollars.
    ///
    /// - `OpenRouter` reports it as `cost`. With the caller's own key (`is_byok`), `cost` is only
    ///   its fee, and the upstream's price is in `cost_details`.
    /// - Perplexity reports the sum within an object.
    /// - xAI counts ticks.
    fn reported_cost(&self) -> Option<Usd> {
        if let Some(ticks) = self.cost_in_usd_ticks {
            return ticks.0.and_then(Usd::from_ticks);
        }
        let cost = self.cost?;
        let within = || parse::<CostDetails>(cost)?.total_cost.0;
        let fee = Usd::from_dollars(parse(cost).or_else(within)?)?;
        if self.is_byok.0 == Some(true) {
            let upstream = self.cost_details.0.as_ref()?.upstream_inference_cost.0?;
            return Some(fee + Usd::from_dollars(upstream)?);
        }
        Some(fee)
    }
}

impl LlamaCppTimings {
    /// Returns the usage, from the evaluated and the cached part of the prompt.
    ///
    /// Returns `None` for older versions, which omit the cached part and so leave the prompt's size
    /// unknown.
    pub(super) fn usage(&self) -> Option<Usage> {
        let cached = self.cache.tokens()?;
        Some(Usage {
            input: self.prompt.tokens()?.saturating_add(cached),
            output: self.predicted.tokens(),
            cached: Some(cached),
            ..Usage::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn the_last_report_of_a_stream_keeps_what_only_the_first_one_said() {
        let first = Usage { input: 43, written: 40, written_for_hour: 30, ..Usage::default() };
        let last = Usage { input: 43, output: Some(5), written: 40, ..Usage::default() };
        let whole = last.completed_by(Some(first));
        assert_eq!((whole.written_for_hour, whole.output), (30, Some(5)));
    }

    fn read(usage: &Value) -> Option<Usage> {
        serde_json::from_str::<UsageObject<'_>>(&usage.to_string()).ok()?.usage()
    }

    fn of_timings(timings: &Value) -> Option<Usage> {
        serde_json::from_str::<LlamaCppTimings>(&timings.to_string()).unwrap().usage()
    }

    fn check(usage: &Value, expect: Option<(u32, Option<u32>, Option<u32>)>) {
        let expect = expect.map(|(input, output, cached)| Usage {
            input,
            output,
            cached,
            ..Usage::default()
        });
        // Other tests cover the cost and cache writes.
        let found = read(usage).map(|usage| Usage { written: 0, cost: None, ..usage });
        assert_eq!(found, expect, "{usage}");
    }

    #[test]
    fn cache_writes_are_read_from_both_usage_formats() {
        let written = |usage: &Value| read(usage).unwrap().written;
        let within = json!({"prompt_tokens": 100,
            "prompt_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 8}});
        let beside = json!({"input_tokens": 3, "cache_creation_input_tokens": 40});
        assert_eq!((written(&within), written(&beside)), (8, 40));
        let lifetimes = json!({"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 30});
        let by_lifetime = json!({"input_tokens": 3, "cache_creation_input_tokens": 40,
            "cache_creation": lifetimes});
        let read = read(&by_lifetime).unwrap();
        assert_eq!((read.written, read.written_for_hour), (40, 30));
    }

    #[test]
    fn cost_is_read_in_every_provider_format() {
        let check = |mut usage: Value, expect: Option<&str>| {
            usage["prompt_tokens"] = json!(100);
            let cost = read(&usage).unwrap().cost.map(|usd| usd.to_string());
            assert_eq!(cost.as_deref(), expect, "{usage}");
        };
        check(json!({"cost": 0.0142}), Some("0.014200000"));
        check(json!({"cost": 0}), Some("0.000000000"));
        let details = json!({"upstream_inference_cost": 19});
        check(json!({"cost": 0.95, "cost_details": details}), Some("0.950000000"));
        check(
            json!({"cost": 0.95, "is_byok": true, "cost_details": details}),
            Some("19.950000000"),
        );
        check(json!({"cost": 0.95, "is_byok": true}), None);
        check(json!({"cost": {"total_cost": 0.006}}), Some("0.006000000"));
        check(json!({"cost_in_usd_ticks": 37_756_000}), Some("0.003775600"));
        for unknown in [json!({}), json!({"cost": null}), json!({"cost": "1"}), json!({"cost": -1})]
        {
            check(unknown, None);
        }
    }

    #[test]
    fn openai_prompt_counts_include_cached_tokens() {
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
        // The whole prompt was cached.
        check(
            &json!({"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 100}}),
            Some((100, None, Some(100))),
        );
    }

    #[test]
    fn anthropic_prompt_counts_exclude_cached_tokens() {
        check(
            &json!({"input_tokens": 3, "cache_creation_input_tokens": 40,
                "cache_read_input_tokens": 1_000, "output_tokens": 5}),
            Some((1_043, Some(5), Some(1_000))),
        );
        check(&json!({"input_tokens": 30, "output_tokens": 5}), Some((30, Some(5), None)));
        check(
            &json!({"input_tokens": 3, "cache_creation_input_tokens": 40}),
            Some((43, None, None)),
        );
    }

    #[test]
    fn total_decides_if_a_gateway_mixes_both_usage_formats() {
        let usage = |prompt: u32, total: u32| {
            json!({"prompt_tokens": prompt, "completion_tokens": 5, "total_tokens": total,
                "cache_read_input_tokens": 1_000, "cache_creation_input_tokens": 40})
        };
        check(&usage(1_043, 1_048), Some((1_043, Some(5), Some(1_000))));
        check(&usage(2_000, 3_045), Some((3_040, Some(5), Some(1_000))));
        check(&usage(3, 8), Some((1_043, Some(5), Some(1_000))));
    }

    #[test]
    fn tokens_counted_only_in_the_total_are_output() {
        check(
            &json!({"prompt_tokens": 10, "completion_tokens": 0, "total_tokens": 42}),
            Some((10, Some(32), None)),
        );
    }

    #[test]
    fn usage_without_a_prompt_count_is_ignored() {
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
    fn counts_saturate_at_u32_max() {
        check(
            &json!({"prompt_tokens": u64::MAX, "completion_tokens": u64::MAX,
                "total_tokens": u64::MAX, "cache_read_input_tokens": u64::MAX}),
            Some((u32::MAX, Some(u32::MAX), Some(u32::MAX))),
        );
    }

    #[test]
    fn llama_cpp_timings_count_the_prompt_only_with_a_cache_count() {
        let timings = json!({"cache_n": 900, "prompt_n": 100, "prompt_ms": 5.5, "predicted_n": 7});
        let usage = of_timings(&timings).unwrap();
        assert_eq!((usage.input, usage.output, usage.cached), (1_000, Some(7), Some(900)));
        assert_eq!(of_timings(&json!({"prompt_n": 100})), None);
    }
}
