//! The requests of a session as an agent sends them, with cache marks or without.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Cache marks that an agent sets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Marks {
    None,
    /// On the last instruction and on the last two messages of the user or a tool, like Claude Code.
    Three,
}

/// A session that is sent request by request.
pub(crate) struct Requests {
    /// The body up to the first message.
    head: String,
    /// All messages, each with a comma before it.
    joined: String,
    /// Ends of the messages in `joined`.
    ends: Vec<usize>,
    roles: Vec<String>,
}

#[derive(Deserialize)]
struct Body<'b> {
    #[serde(borrow)]
    messages: Vec<&'b RawValue>,
    #[serde(borrow)]
    tools: Option<&'b RawValue>,
}

#[derive(Deserialize)]
struct Role {
    role: String,
}

impl Requests {
    /// Reads the last body of a session.
    pub(crate) fn read(body: &str) -> Result<Self, serde_json::Error> {
        let body: Body<'_> = serde_json::from_str(body)?;
        let tools = body.tools.map_or("[]", RawValue::get);
        let (mut joined, mut ends, mut roles) = (String::new(), Vec::new(), Vec::new());
        for message in &body.messages {
            joined.push(',');
            joined.push_str(message.get());
            ends.push(joined.len());
            roles.push(serde_json::from_str::<Role>(message.get())?.role);
        }
        Ok(Self {
            head: format!(r#"{{"model":"bench","tools":{tools},"messages":["#),
            joined,
            ends,
            roles,
        })
    }

    /// Returns the body of a request with `count` messages.
    pub(crate) fn body(&self, count: usize, marks: Marks) -> Result<String, serde_json::Error> {
        let mut marked = Vec::new();
        if marks == Marks::Three {
            let roles = self.roles.get(..count).unwrap_or_default();
            let is = |wanted: &[&str], role: &String| wanted.contains(&&**role);
            let head = roles.iter().take_while(|role| is(&["system", "developer"], role));
            marked.extend(head.count().checked_sub(1));
            let tail = roles.iter().enumerate().rev();
            let tail = tail.filter(|(_, role)| is(&["user", "tool"], role));
            marked.extend(tail.take(2).map(|(at, _)| at));
            marked.sort_unstable();
        }
        let mut body = self.head.clone();
        let mut from = 0;
        for at in marked {
            let start = at.checked_sub(1).and_then(|at| self.ends.get(at)).copied();
            let (start, end) = (start.unwrap_or(0), self.ends.get(at).copied().unwrap_or(0));
            body.push_str(self.joined.get(from..start).unwrap_or_default());
            let message = self.joined.get(start + 1..end).unwrap_or_default();
            body.push(',');
            body.push_str(&with_mark(message)?);
            from = end;
        }
        let end = count.checked_sub(1).and_then(|at| self.ends.get(at)).copied();
        body.push_str(self.joined.get(from..end.unwrap_or(0)).unwrap_or_default());
        body.push_str("]}");
        // The comma before the first message.
        body.remove(self.head.len());
        Ok(body)
    }
}

/// Returns a message with a cache mark on its last part.
fn with_mark(message: &str) -> Result<String, serde_json::Error> {
    let mut message: Value = serde_json::from_str(message)?;
    let content = message.get_mut("content").map(Value::take);
    let mut parts = match content {
        Some(Value::Array(parts)) => parts,
        Some(Value::String(text)) => vec![json!({"type": "text", "text": text})],
        _ => return Ok(message.to_string()),
    };
    if let Some(Value::Object(last)) = parts.last_mut() {
        last.insert("cache_control".to_owned(), json!({"type": "ephemeral"}));
    }
    if let Some(content) = message.get_mut("content") {
        *content = Value::Array(parts);
    }
    Ok(message.to_string())
}
