//! The line of one request, for people.

use std::time::Duration;

use super::super::words::words_for;
use super::{BOLD, CYAN, DIM, EventFields, GREEN, Line, PLAIN, RED, SHOWN_DIGITS, YELLOW};
use longhaul_console::amounts::{percent, short_duration, short_tokens, short_usd};
use longhaul_core::units::usd::Usd;

pub(super) struct RequestLine<'f> {
    fields: &'f EventFields,
    actions: Vec<&'f str>,
}

impl<'f> RequestLine<'f> {
    pub(super) fn new(fields: &'f EventFields) -> Self {
        let actions = fields.text("action").unwrap_or_default().split(", ");
        Self { fields, actions: actions.filter(|action| !action.is_empty()).collect() }
    }

    pub(super) fn write(&self, line: &mut Line) {
        let fields = self.fields;
        if let Some(model) = fields.text("model") {
            let model = if model.is_empty() { "no model" } else { model };
            line.push(model, CYAN);
            let id = fields.text("conversation").unwrap_or("-");
            line.push(id.get(..SHOWN_DIGITS).unwrap_or(id), DIM);
            let has_acted = !self.actions.is_empty();
            line.push(&self.done(), if has_acted { BOLD } else { PLAIN });
        } else {
            let path = fields.text("path").unwrap_or_default();
            let method = fields.text("method").unwrap_or_default();
            line.push(&format!("{method} {path}"), PLAIN);
            line.push(&self.bypass(), PLAIN);
        }
        let cached = fields.number("cached_tokens").zip(fields.number("counted_tokens"));
        if let Some(share) = cached.and_then(|(part, all)| percent(part, all)) {
            line.push(&format!("cache {share}%"), PLAIN);
        }
        let cost = fields.text("cost_nano_usd").and_then(|cost| cost.parse().ok());
        if let Some(cost) = cost {
            line.push(&short_usd(Usd::from_nanos(cost)), PLAIN);
        }
        self.write_end(line);
    }

    /// Describes what was done and the sizes before and after.
    fn done(&self) -> String {
        let fields = self.fields;
        let tokens = |name| fields.number(name).map_or_else(String::new, short_tokens);
        let (before, after) = (tokens("tokens_before"), tokens("tokens_after"));
        let mut parts = Vec::new();
        if let Some(refused) = fields.number("refused_tokens") {
            let limit = fields.number("refused_limit");
            let limit = limit.map(|limit| format!(" (window {})", short_tokens(limit)));
            let refused = short_tokens(refused);
            parts.push(format!("refused at {refused}{}", limit.unwrap_or_default()));
        }
        let done = self.actions.iter().filter_map(|act| self.words(act));
        let mut done: Vec<String> = done.collect();
        if fields.number("tokens_before") == fields.number("tokens_after") {
            done.push(format!("{before} tokens"));
        } else {
            done.push(format!("{before} → {after}"));
        }
        if self.actions.contains(&"retry") {
            done.push("sent again".into());
        }
        parts.push(done.join(", "));
        let words = parts.join(" → ");
        match self.bypass() {
            bypass if bypass.is_empty() => words,
            bypass => format!("{words}, {bypass}"),
        }
    }

    /// Describes one action; `None` for an action that the sizes or the end describe.
    fn words(&self, action: &str) -> Option<String> {
        Some(match action {
            "prune" => {
                let cleared = self.fields.number("pruned").unwrap_or(0);
                let results = if cleared == 1 { "result" } else { "results" };
                format!("cleared {cleared} {results}")
            }
            "retry" => return None,
            other => words_for("action", other).to_owned(),
        })
    }

    /// Names the reason why a request was not read, unless there was simply nothing to do.
    fn bypass(&self) -> String {
        match self.fields.text("bypass") {
            None | Some("nothing") => String::new(),
            Some(reason) => format!("not changed: {}", words_for("bypass", reason)),
        }
    }

    /// Appends status, duration and an unusual end.
    fn write_end(&self, line: &mut Line) {
        let status = self.fields.number("status");
        let style = match status {
            Some(..400) => GREEN,
            Some(400..500) => YELLOW,
            Some(_) | None => RED,
        };
        let status = status.map_or_else(|| "no answer".to_owned(), |status| status.to_string());
        line.push(&status, style);
        for name in ["fault", "error"] {
            line.push(self.fields.text(name).unwrap_or_default(), style);
        }
        let took = self.fields.number("duration_ms").unwrap_or(0);
        line.push(&short_duration(Duration::from_millis(took)), PLAIN);
        match self.fields.text("ended") {
            None | Some("complete") => {}
            Some(ended) => line.push(words_for("ended", ended), YELLOW),
        }
    }
}
