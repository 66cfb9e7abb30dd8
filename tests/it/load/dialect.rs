//! The three APIs: a third of the agents speaks each.

/// An API for chats.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Dialect {
    ChatCompletions,
    Messages,
    Responses,
}

impl Dialect {
    const ALL: [Self; 3] = [Self::ChatCompletions, Self::Messages, Self::Responses];

    /// Returns the API of an agent.
    pub(crate) fn of_agent(name: usize) -> Self {
        Self::ALL[name % Self::ALL.len()]
    }

    /// Returns the API of a request, given its head.
    pub(crate) fn of_head(head: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| head.contains(dialect.path()))
    }

    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::ChatCompletions => "/v1/chat/completions",
            Self::Messages => "/v1/messages",
            Self::Responses => "/v1/responses",
        }
    }

    /// Builds a request body of user messages with an answer between each two.
    pub(crate) fn body(self, turns: &[String], answer: &str) -> String {
        let user = |text: &String| format!(r#"{{"role":"user","content":"{text}"}}"#);
        let turns: Vec<String> = turns.iter().map(user).collect();
        let said = format!(r#",{{"role":"assistant","content":"{answer}"}},"#);
        let turns = turns.join(&said);
        match self {
            Self::ChatCompletions => {
                format!(r#"{{"model":"m","stream":true,"messages":[{turns}]}}"#)
            }
            Self::Messages => {
                format!(r#"{{"model":"m","stream":true,"max_tokens":64,"messages":[{turns}]}}"#)
            }
            Self::Responses => {
                format!(r#"{{"model":"m","stream":true,"store":false,"input":[{turns}]}}"#)
            }
        }
    }

    /// Returns the events before the first text of a reply.
    pub(crate) fn opening(self) -> &'static str {
        match self {
            Self::ChatCompletions => "",
            Self::Messages => concat!(
                "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",",
                "\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],",
                "\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n",
                "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,",
                "\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
            ),
            Self::Responses => concat!(
                "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,",
                "\"response\":{\"id\":\"resp_1\",\"status\":\"in_progress\",\"output\":[]}}\n\n",
                "event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\",",
                "\"sequence_number\":1,\"output_index\":0,\"item\":{\"id\":\"msg_1\",\"type\":\"message\",",
                "\"role\":\"assistant\",\"content\":[]}}\n\n",
            ),
        }
    }

    /// Returns an event with a piece of the reply's text.
    pub(crate) fn event(self, text: &str) -> String {
        match self {
            Self::ChatCompletions => {
                format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n")
            }
            Self::Messages => format!(
                "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\
                 \"delta\":{{\"type\":\"text_delta\",\"text\":\"{text}\"}}}}\n\n"
            ),
            Self::Responses => format!(
                "event: response.output_text.delta\ndata: {{\"type\":\"response.output_text.delta\",\
                 \"sequence_number\":2,\"output_index\":0,\"content_index\":0,\"item_id\":\"msg_1\",\
                 \"delta\":\"{text}\"}}\n\n"
            ),
        }
    }

    /// Returns an event with sizes that nothing has, and the words of a refusal.
    pub(crate) fn lie(self) -> &'static str {
        match self {
            Self::ChatCompletions => concat!(
                "data: {\"choices\":[{\"delta\":{\"content\":\"maximum context length is 9 tokens\"}}],",
                "\"usage\":{\"prompt_tokens\":4294967295,\"completion_tokens\":4294967295}}\n\n",
            ),
            Self::Messages => concat!(
                "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":",
                "null},\"usage\":{\"input_tokens\":4294967295,\"output_tokens\":4294967295}}\n\n",
            ),
            Self::Responses => concat!(
                "event: response.in_progress\ndata: {\"type\":\"response.in_progress\",",
                "\"sequence_number\":3,\"response\":{\"id\":\"resp_1\",\"status\":\"in_progress\",",
                "\"output\":[],\"usage\":{\"input_tokens\":4294967295,\"output_tokens\":4294967295}}}\n\n",
            ),
        }
    }

    /// Returns the events that end a reply.
    pub(crate) fn closing(self) -> &'static str {
        match self {
            Self::ChatCompletions => "data: [DONE]\n\n",
            Self::Messages => concat!(
                "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":",
                "\"end_turn\"},\"usage\":{\"output_tokens\":20}}\n\n",
                "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
            ),
            Self::Responses => concat!(
                "event: response.completed\ndata: {\"type\":\"response.completed\",",
                "\"sequence_number\":3,\"response\":{\"id\":\"resp_1\",\"status\":\"completed\",",
                "\"output\":[],\"usage\":{\"input_tokens\":1,\"output_tokens\":20}}}\n\n",
            ),
        }
    }
}
