//! Requests as comma-separated values (RFC 4180).

use crate::dashboard::dto::ConversationDetails;

const HEADER: &str = "conversation,title,model,agent,caller,request,number,ended_at_ms,duration_ms,\
status,actions,cleared_results,tokens_before,tokens_after,refused_tokens,refused_limit,counted_tokens,\
cached_tokens,cost_nano_usd,fault\r\n";

/// Renders one row for each request.
pub(super) fn csv(conversations: &[ConversationDetails]) -> String {
    let mut page = HEADER.to_owned();
    for whole in conversations {
        let one = &whole.conversation;
        for point in &whole.points {
            let optional =
                |number: Option<u64>| number.map(|it| it.to_string()).unwrap_or_default();
            let cost = point.cost.map(|cost| cost.to_string());
            let fields = [
                one.id.clone(),
                quoted(&one.title),
                quoted(&one.model),
                quoted(&one.agent),
                one.caller.clone(),
                point.id.to_string(),
                point.number.to_string(),
                point.at.to_string(),
                point.duration_ms.to_string(),
                optional(point.status.map(u64::from)),
                quoted(&point.acts.join(" ")),
                point.cleared.to_string(),
                point.before.to_string(),
                point.after.to_string(),
                optional(point.refused),
                optional(point.refused_limit),
                optional(point.prompt_tokens.map(u64::from)),
                optional(point.cached_tokens.map(u64::from)),
                cost.unwrap_or_default(),
                point.fault.unwrap_or_default().to_owned(),
            ];
            page.push_str(&fields.join(","));
            page.push_str("\r\n");
        }
    }
    page
}

/// Quotes a text that a client chose. A leading apostrophe keeps spreadsheets from running it as a
/// formula.
fn quoted(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let guard = if is_formula { "'" } else { "" };
    format!("\"{guard}{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_chose_is_neither_a_field_nor_a_formula() {
        assert_eq!(quoted("a,\"b\"\n"), "\"a,\"\"b\"\"\n\"");
        for formula in ["=1", "+1", "-1", "@a"] {
            assert_eq!(quoted(formula), format!("\"'{formula}\""));
        }
    }
}
