//! Tips for words of other tools: where longhaul has what the word names.

use clap::Error;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};

/// Words of other tools, between spaces, and after a tab what to do in longhaul.
const ELSEWHERE: &str = include_str!("tips.tsv");

/// Adds the tip for the unknown word of `error`, if there is one.
pub(super) fn add_tip(error: &mut Error) {
    let word = [ContextKind::InvalidSubcommand, ContextKind::InvalidArg]
        .into_iter()
        .find_map(|kind| {
            let ContextValue::String(word) = error.get(kind)? else {
                return None;
            };
            Some(word.clone())
        });
    let Some(word) = word else { return };
    let mut rows = ELSEWHERE.lines().filter_map(|line| line.split_once('\t'));
    if let Some((_, tip)) = rows.find(|(words, _)| words.split(' ').any(|known| known == word)) {
        let tips = vec![StyledStr::from(tip)];
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
}
