//! Names used as values in a request body: roles and part types.

use crate::conversation::{PartKind, Role};

pub(super) fn role_from_name(name: &str) -> Role {
    match name {
        "assistant" => Role::Assistant,
        "developer" => Role::Developer,
        "function" => Role::Function,
        "system" => Role::System,
        "tool" => Role::Tool,
        "user" => Role::User,
        _ => Role::Other,
    }
}

pub(super) fn part_kind_from_type(name: &str) -> PartKind {
    match name {
        "text" => PartKind::Text,
        "image_url" | "image" | "input_image" => PartKind::Image,
        "input_audio" | "audio" | "audio_url" => PartKind::Audio,
        "file" | "input_file" | "document" | "document_url" => PartKind::File,
        "thinking" | "redacted_thinking" => PartKind::Thinking,
        "video_url" | "video" | "input_video" => PartKind::Video,
        _ => PartKind::Other,
    }
}
