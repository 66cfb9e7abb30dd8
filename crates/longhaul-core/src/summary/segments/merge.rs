//! Merge of segments by rule, which ranks the contents of all segments together.

use crate::identifiers::merge_indexes;
use crate::policy::KeptText;
use crate::policy::segments::LooseSegment;
use crate::summary::agreements::merge_agreements;
use crate::summary::digest::{OPEN_TURN_HEADING, SECTION_GAP, append_section};
use crate::summary::file_activity::FileActivity;
use crate::summary::instructions::merge_instructions;
use crate::summary::plan;
use crate::summary::sections::{
    GENERATED_HEADINGS, Section, drop_finished_items, join, join_escaped,
};
use crate::summary::segments::HEADING_TOKENS;
use crate::summary::steps::ROOT_PREFIX;
use crate::summary::user_messages::{FirstRequest, merge_user_messages};
use crate::text::wording;
use crate::units::tokens::Tokens;

/// Largest share of agreements and rules in a merged segment, in percent.
const AGREEMENTS_PERCENT: u32 = 30;
/// Shares of what agreements and rules leave, in percent.
const PROSE_PERCENT: u32 = 29;
const USER_PERCENT: u32 = 38;
const FILES_PERCENT: u32 = 6;
const INDEX_PERCENT: u32 = 27;

/// A segment, split at the headings of the sections that longhaul generates.
#[derive(Debug, Default)]
struct Sections<'t> {
    prose: &'t str,
    instructions: &'t str,
    user_messages: &'t str,
    agreements: &'t str,
    files: &'t str,
    index: &'t str,
}

impl<'t> Sections<'t> {
    /// Splits the text of a segment. Foreign lines never begin with a heading: they are indented.
    fn split(segment: &'t str) -> Self {
        let heading = wording::segment_heading_of(segment);
        let mut prose = segment.strip_prefix(heading).unwrap_or(segment);
        let mut bodies = [""; GENERATED_HEADINGS.len()];
        // Sections come in this order, so each ends where a later one begins.
        for (body, heading) in bodies.iter_mut().zip(GENERATED_HEADINGS).rev() {
            if let Some((before, behind)) = split_at_line(prose, heading) {
                (prose, *body) = (before, behind);
            }
        }
        let [instructions, user_messages, agreements, files, index] = bodies;
        Self { prose, instructions, user_messages, agreements, files, index }
    }
}

/// Splits `text` around its first line that is `line`.
fn split_at_line<'t>(text: &'t str, line: &str) -> Option<(&'t str, &'t str)> {
    let mut around = text.match_indices(line).filter_map(|(at, _)| {
        let (before, found) = text.split_at_checked(at)?;
        Some((before, found.get(line.len()..)?))
    });
    around.find(|(before, behind)| {
        let begins = before.is_empty() || before.ends_with('\n');
        begins && (behind.is_empty() || behind.starts_with('\n'))
    })
}

/// Merges `segments`, oldest first, into one of at most `room` tokens plus the requests. `requests` is the
/// room of whole requests of the user. Of the kept texts, those in `kept` stay.
pub(super) fn merge(
    segments: &[LooseSegment],
    kept: &[KeptText],
    (requests, room): (Tokens, Tokens),
    first: FirstRequest,
) -> LooseSegment {
    let split: Vec<Sections<'_>> = segments.iter().map(|it| Sections::split(&it.text)).collect();
    let bodies = |of: for<'s> fn(&Sections<'s>) -> &'s str| -> Vec<&str> {
        split.iter().map(|it| of(it).trim_end()).collect()
    };
    let whole = room - HEADING_TOKENS;
    let agreements_room = whole.percent(AGREEMENTS_PERCENT) - SECTION_GAP;
    let agreements = merge_agreements(&bodies(|it| it.agreements), kept, agreements_room);
    let room = whole - Tokens::estimate_text(&agreements) - SECTION_GAP;
    let mut text = merge_prose(&split, room.percent(PROSE_PERCENT) - SECTION_GAP);
    let mut user_room = room.percent(USER_PERCENT) - SECTION_GAP;
    let instructions = merge_instructions(&bodies(|it| it.instructions), user_room.divided_by(2));
    if !instructions.is_empty() {
        user_room -= Tokens::estimate_text(&instructions) + SECTION_GAP + SECTION_GAP;
    }
    append_section(&mut text, &instructions);
    let user_messages =
        merge_user_messages(&bodies(|it| it.user_messages), user_room, requests, first);
    append_section(&mut text, &user_messages);
    append_section(&mut text, &agreements);
    let files = FileActivity::from_sections(&bodies(|it| it.files));
    append_section(&mut text, &files.render(room.percent(FILES_PERCENT) - SECTION_GAP));
    let words = split.iter().map(|it| [it.user_messages, it.prose, it.index]);
    let words: Vec<[&str; 3]> = words.collect();
    // Room of the requests: the size of the user messages beyond their share.
    let beyond = Tokens::estimate_text(&user_messages) - user_room;
    let left = whole + beyond - Tokens::estimate_text(&text) - SECTION_GAP - SECTION_GAP;
    let index = merge_indexes(&words, &text, left.min(room.percent(INDEX_PERCENT)));
    append_section(&mut text, &index);
    let count = segments.iter().map(|it| it.compactions).sum::<u32>();
    let first = wording::segment_ordinal(segments.first().map_or("", |it| &it.text));
    LooseSegment {
        text: format!("{}\n{text}", wording::segment_heading(first, first + count - 1)),
        until: segments.last().map_or(0, |it| it.until),
        compactions: count,
    }
}

/// Joins the sections of the same heading, and shortens them to `budget`. Finished items go first, then
/// every other older line of the largest section. Each line that stays is whole.
fn merge_prose(segments: &[Sections<'_>], budget: Tokens) -> String {
    let mut merged: Vec<Section<'_>> = Vec::new();
    for section in segments.iter().flat_map(|it| Section::parse(it.prose)) {
        if section.is_blank() {
            continue;
        }
        // A turn that was open then is over, or goes on in a later segment.
        let heading =
            if section.heading == OPEN_TURN_HEADING { PROGRESS_HEADING } else { section.heading };
        let found = merged.iter().position(|it| it.heading == heading);
        let at = found.unwrap_or_else(|| {
            merged.push(Section { heading, lines: Vec::new() });
            merged.len() - 1
        });
        if let Some(own) = merged.get_mut(at) {
            if heading == plan::HEADING {
                own.lines.clear();
            }
            let mut is_code = false;
            for line in section.lines {
                let is_fence = line.trim_start().starts_with("```");
                is_code ^= is_fence;
                // Lines of code may repeat, every block needs its end, and every path its root.
                let may_repeat = is_code || is_fence || line.starts_with(ROOT_PREFIX);
                if !line.trim().is_empty() && (may_repeat || !own.lines.contains(&line)) {
                    own.lines.push(line);
                }
            }
        }
    }
    drop_finished_items(&mut merged, budget);
    let is_within = |text: &String| text.chars().count() <= budget.to_chars();
    let mut sections = merged;
    loop {
        // Escapes only add to the text.
        let fitting = is_within(&join(&sections)).then(|| join_escaped(&sections));
        if let Some(text) = fitting.filter(is_within) {
            return text;
        }
        let chars = |it: &Section<'_>| it.lines.iter().map(|line| line.len()).sum::<usize>();
        let sizes = sections.iter().map(chars).enumerate();
        let Some((largest, _)) = sizes.max_by_key(|(_, size)| *size) else {
            return String::new();
        };
        match sections.get_mut(largest) {
            Some(section) if section.lines.len() > 1 => thin_out(&mut section.lines),
            Some(_) | None => drop(sections.remove(largest)),
        }
    }
}

/// Heading of a digest's steps.
const PROGRESS_HEADING: &str = "## Progress";

/// Drops every other line of the older two thirds, at least one, and the roots that no line needs any more.
fn thin_out(lines: &mut Vec<&str>) {
    let (before, older) = (lines.len(), (lines.len() * 2).div_ceil(3));
    let is_root = |line: &str| line.starts_with(ROOT_PREFIX);
    let mut at = 0;
    lines.retain(|line| {
        at += 1;
        let is_frame = line.starts_with('#') || is_root(line);
        at > older || at % 2 == 0 || is_frame
    });
    let (thinned, mut next) = (lines.clone(), 0);
    lines.retain(|line| {
        next += 1;
        !is_root(line) || thinned.get(next).is_some_and(|next| !is_root(next))
    });
    if lines.len() == before {
        lines.remove(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{CompactionSettings, Policy};
    use crate::summary::agreements;

    const OLDER: &str = "# Part 1\n## Goal\nport the parser\n\n## Progress\n### Steps\n- read the lexer\n\n\
         ## What the User Said\n\n[User]: port it\n\n  ## Identifiers\n\n## Files Touched\n### Modified\n- src/lexer.rs\n\n\
         ## Identifiers\nNamed by the user: FACT-83412\nNamed in the conversation: ZK-4417-QP";
    const NEWER: &str = "# Part 2\n## Turn So Far\n- wrote the parser\n\n\
         ## What the User Said\n\n[User]: now test it\n\n## Identifiers\nNamed in the conversation: KX-40917-LM";

    fn merged(texts: [&str; 2], room: u32, extent: FirstRequest) -> LooseSegment {
        let segments =
            texts.map(|text| LooseSegment { text: text.to_owned(), until: 9, compactions: 1 });
        let budgets = Policy::new(&CompactionSettings::default(), Tokens::new(32_000)).budgets;
        let room = Tokens::new(room);
        let merged = merge(&segments, &[], (budgets.requests, room), extent);
        assert!(Tokens::estimate_text(&merged.text) <= room, "{}", merged.text);
        merged
    }

    #[test]
    fn sections_are_joined_under_one_heading_each() {
        let merged = merged([OLDER, NEWER], 2_000, FirstRequest::Included);
        assert_eq!((merged.until, merged.compactions), (9, 2));
        let expect = "# Part 1 to 2\n## Goal\nport the parser\n\n\
            ## Progress\n### Steps\n- read the lexer\n- wrote the parser\n\n\
            ## What the User Said\n\n[User]: port it\n\n  ## Identifiers\n\n[User]: now test it\n\n\
            ## Files Touched\n### Modified\n- src/lexer.rs\n\n\
            ## Identifiers\nNamed by the user: FACT-83412\nNamed in the conversation: ZK-4417-QP KX-40917-LM";
        assert_eq!(merged.text, expect);
    }

    #[test]
    fn with_little_room_facts_and_files_stay_beside_whole_steps() {
        let steps: Vec<String> =
            (0..100).map(|at| format!("- wrote the part {at} of it")).collect();
        let root = format!("{ROOT_PREFIX}/home/dev/shop/\n");
        let step = "- read the lexer";
        let older = OLDER.replacen(step, &(root.clone() + &steps.join("\n")), 1);
        let merged = merged([&older, NEWER], 450, FirstRequest::Elsewhere).text;
        for kept in ["FACT-83412", "ZK-4417-QP", "- src/lexer.rs", &root] {
            assert!(merged.contains(kept), "{merged}");
        }
        let listed = merged.lines().filter(|line| line.starts_with("- wrote the part"));
        let listed: Vec<&str> = listed.collect();
        assert!((10..100).contains(&listed.len()), "{merged}");
        assert_eq!(listed.last(), Some(&"- wrote the part 99 of it"));
        assert!(listed.iter().all(|line| steps.iter().any(|step| step == line)));
    }

    #[test]
    fn the_index_keeps_its_room_next_to_full_sections() {
        let lines = |line: &str| {
            let numbered: Vec<String> = (0..99).map(|at| format!("{line} {at}.\n\n")).collect();
            numbered.concat()
        };
        let rules = lines("[Rules of AGENTS.md]: Never edit the generated file");
        let older = OLDER
            .replacen("- read the lexer", &lines("- read the part").replace("\n\n", "\n"), 1)
            .replacen("[User]: port it\n\n", &lines("[User]: Port the part"), 1)
            .replacen("## Files", &format!("{}\n\n{rules}## Files", agreements::HEADING), 1);
        let merged = merged([&older, NEWER], 900, FirstRequest::Elsewhere).text;
        for kept in ["generated file 9", "FACT-83412", "ZK-4417-QP", "KX-40917-LM"] {
            assert!(merged.contains(kept), "{merged}");
        }
    }

    #[test]
    fn each_line_stays_below_the_root_of_its_paths() {
        let section = |root: &str, step: usize| {
            let steps = (step..step + 20).map(|at| format!("- Read(src/file{at}.rs)\n"));
            format!("## Progress\n### Steps\n{ROOT_PREFIX}{root}\n{}", steps.collect::<String>())
        };
        let texts = [section("/home/a", 10), section("/home/b", 30), section("/home/a", 50)];
        let of = |prose| Sections { prose, ..Sections::default() };
        for tokens in 20..500 {
            let segments: Vec<_> = texts.iter().map(|text| of(text)).collect();
            let text = merge_prose(&segments, Tokens::new(tokens));
            let mut root = None;
            for line in text.lines() {
                if let Some(stated) = line.strip_prefix(ROOT_PREFIX) {
                    assert!(root.is_none_or(|(_, is_used)| is_used), "{text}");
                    root = Some((stated, false));
                } else if let Some(path) = line.strip_prefix("- Read(src/file") {
                    let is_second = path.starts_with(['3', '4']);
                    let expect = if is_second { "/home/b" } else { "/home/a" };
                    assert_eq!(root.map(|(root, _)| root), Some(expect), "{text}");
                    root = Some((expect, true));
                }
            }
            assert!(root.is_none_or(|(_, is_used)| is_used), "{text}");
        }
    }

    #[test]
    fn prose_is_shortened_until_it_fits() {
        let words = "word ".repeat(30);
        let lines: Vec<String> = (0..200).map(|at| format!("- step {at} {words}")).collect();
        let lines = lines.join("\n");
        let prose = format!("## Goal\nship it\n\n## Progress\n### Steps\n{lines}");
        let sections = Sections::split(&prose);
        for tokens in [0, 1, 5, 50, 300, 2_000] {
            let text =
                merge_prose(&[Sections::default(), Sections { ..sections }], Tokens::new(tokens));
            assert!(text.chars().count() <= Tokens::new(tokens).to_chars(), "{tokens}: {text}");
            assert_eq!(text.contains("- step 199"), tokens >= 50, "{tokens}: {text}");
        }
    }
}
