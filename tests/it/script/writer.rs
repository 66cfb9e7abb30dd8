//! Writes a conversation as JSON text, as oddly as its style requires.

use super::{Asks, Case, LONE, Said, Shape, Step, Turn};
use proptest::sample::Index;
use std::fmt::Write;

/// Renders the body of a case.
pub(crate) fn render(case: &Case) -> String {
    Writer::new(case).body(case)
}

/// Like [`render`], but repeats a significant member in one object, possibly with another spelling.
pub(crate) fn render_doubled(case: &Case, object: Index) -> String {
    let mut counting = Writer::new(case);
    counting.body(case);
    let mut writer = Writer::new(case);
    writer.doubled = Some(object.index(counting.objects));
    writer.body(case)
}

struct Writer {
    state: u64,
    odd: bool,
    scale: usize,
    ids: usize,
    messages: Vec<String>,
    /// Objects with significant members so far.
    objects: usize,
    /// Index of the object that repeats a member.
    doubled: Option<usize>,
}

impl Writer {
    fn new(case: &Case) -> Self {
        Self {
            state: case.style,
            odd: !case.style.is_multiple_of(3),
            scale: case.scale,
            ids: 0,
            messages: Vec::new(),
            objects: 0,
            doubled: None,
        }
    }

    fn body(&mut self, case: &Case) -> String {
        for turn in &case.turns {
            match turn {
                Turn::Says(role, said) => self.says(role, said),
                Turn::Step(step) => self.step(step),
            }
        }
        let messages = std::mem::take(&mut self.messages);
        let messages = self.array(&messages);
        let mut members = vec![("model", "\"gpt\"".to_owned()), ("messages", messages)];
        if self.chance(3) {
            members.push(("stream", "true".to_owned()));
            members.push(("tools", r#"[{"type":"function","name":"ü"}]"#.to_owned()));
            members.push(("max_tokens", "512".to_owned()));
        }
        self.object(members)
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed ^ (mixed >> 31)
    }

    /// Returns true once in `times`, and never in a plain style.
    fn chance(&mut self, times: u64) -> bool {
        let drawn = self.next();
        self.odd && drawn.is_multiple_of(times)
    }

    fn space(&mut self) -> &'static str {
        const SPACES: [&str; 4] = [" ", "\n", "\r\n\t", "   "];
        if self.chance(3) { SPACES[(self.next() % 4) as usize] } else { "" }
    }

    fn string(&mut self, text: &str) -> String {
        let mut out = String::from("\"");
        let dense = self.chance(4);
        for letter in text.chars() {
            let escape = dense && self.next().is_multiple_of(8);
            match letter {
                _ if letter == LONE[0] => out.push_str("\\ud83d"),
                _ if letter == LONE[1] => out.push_str("\\uDE00"),
                '"' | '\\' => out.extend(['\\', letter]),
                '\n' if !escape => out.push_str("\\n"),
                '/' if escape => out.push_str("\\/"),
                _ if escape || letter < ' ' => {
                    for unit in letter.encode_utf16(&mut [0; 2]) {
                        let _ = write!(out, "\\u{unit:04x}");
                    }
                }
                _ => out.push(letter),
            }
        }
        out + "\""
    }

    fn object(&mut self, mut members: Vec<(&str, String)>) -> String {
        if self.doubled == Some(self.objects) {
            // Tool schemas may appear under two names, and their sizes are added.
            let once = members.iter().filter(|(key, _)| *key != "tools");
            let once: Vec<_> = once.cloned().collect();
            let drawn = usize::try_from(self.next() % once.len() as u64).unwrap();
            members.push(once[drawn].clone());
        }
        self.objects += 1;
        if self.chance(4) {
            let value = r#"{"content":[1e5,-0.0,{"role":null}],"messages":"\ud800"}"#;
            members.push(("x_more", value.to_owned()));
            members.push(("x_more", "[[],{}]".to_owned()));
        }
        if self.chance(2) {
            let length = members.len() as u64;
            let by = usize::try_from(self.next() % length).unwrap();
            members.rotate_left(by);
        }
        let members: Vec<String> = members
            .into_iter()
            .map(|(key, value)| {
                let key = self.string(key);
                let (before, after) = (self.space(), self.space());
                format!("{key}{before}:{after}{value}")
            })
            .collect();
        self.between('{', &members, '}')
    }

    fn array(&mut self, elements: &[String]) -> String {
        self.between('[', elements, ']')
    }

    fn between(&mut self, open: char, inner: &[String], close: char) -> String {
        let mut out = String::from(open);
        for (at, element) in inner.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            out.push_str(self.space());
            out.push_str(element);
            out.push_str(self.space());
        }
        out.push(close);
        out
    }

    /// Returns the members that represent a content.
    fn content(&mut self, said: &Said) -> Vec<(&'static str, String)> {
        let text = said.text.repeat(self.scale);
        let value = match said.shape {
            Shape::EmptyParts => "[]".to_owned(),
            Shape::Missing => return Vec::new(),
            Shape::Null => "null".to_owned(),
            Shape::Parts { marks, image } => {
                let half = text.len() / 2;
                let half = (0..=half).rev().find(|&at| text.is_char_boundary(at));
                let (one, two) = text.split_at(half.unwrap_or(0));
                let mut parts = Vec::new();
                for (at, text) in [one, two].into_iter().enumerate() {
                    let text = self.string(text);
                    let mut part = vec![("type", "\"text\"".to_owned()), ("text", text)];
                    if marks {
                        let mark = format!(r#"{{"type": "ephemeral" ,"n":{at}}}"#);
                        part.push(("cache_control", mark));
                    }
                    parts.push(self.object(part));
                }
                if image {
                    let url = r#"{"type":"image_url","image_url":{"url":"data:,"}}"#;
                    parts.push(url.to_owned());
                    parts.push(r#"{"type":"audio","cache_control":null,"text":"no"}"#.into());
                }
                self.array(&parts)
            }
            Shape::Text => self.string(&text),
        };
        vec![("content", value)]
    }

    fn says(&mut self, role: &str, said: &Said) {
        let mut members = vec![("role", self.string(role))];
        members.extend(self.content(said));
        let message = self.object(members);
        self.messages.push(message);
    }

    fn step(&mut self, step: &Step) {
        let (role, calls_key) = match step.asks {
            Asks::Legacy => ("assistant", "function_call"),
            Asks::Modern | Asks::Reusing => ("assistant", "tool_calls"),
            Asks::Stranger => ("critic", "tool_calls"),
        };
        if matches!(step.asks, Asks::Reusing) {
            self.ids = self.ids.saturating_sub(2);
        }
        let first = self.ids;
        // The legacy format has a single call.
        let most = match step.asks {
            Asks::Legacy => 1,
            Asks::Modern | Asks::Reusing | Asks::Stranger => step.calls.len(),
        };
        let mut calls = Vec::new();
        for (tool, arguments) in &step.calls[..most] {
            let function = vec![("name", self.string(tool)), ("arguments", self.string(arguments))];
            if matches!(step.asks, Asks::Legacy) {
                calls.push(self.object(function));
                continue;
            }
            let id = format!("call_{}", self.ids);
            let function = self.object(function);
            let id = self.string(&id);
            let mut call = vec![("id", id), ("function", function)];
            if self.chance(5) {
                call.push(("name", "\"beside\"".to_owned()));
            }
            calls.push(self.object(call));
            self.ids += 1;
        }
        let calls = match step.asks {
            Asks::Legacy => calls.swap_remove(0),
            Asks::Modern | Asks::Reusing | Asks::Stranger => self.array(&calls),
        };
        let members =
            vec![("role", self.string(role)), ("content", "null".to_owned()), (calls_key, calls)];
        let message = self.object(members);
        self.messages.push(message);
        for (call, said) in &step.answers {
            self.answer(step, first + call, said);
        }
    }

    fn answer(&mut self, step: &Step, id: usize, said: &Said) {
        let mut members = if matches!(step.asks, Asks::Legacy) {
            let name = self.string(step.calls[0].0);
            vec![("role", self.string("function")), ("name", name)]
        } else {
            let id = self.string(&format!("call_{id}"));
            vec![("role", self.string("tool")), ("tool_call_id", id)]
        };
        members.extend(self.content(said));
        let message = self.object(members);
        self.messages.push(message);
    }
}
