//! Pieces of a message: what the user says and what the user shows.

use super::super::{Piece, pieces};
use proptest::prelude::*;

/// Sentence that stands beside a paste.
const RULE: &str = "Never retry more than three times, and log each failure.";

fn said(text: &str) -> String {
    let said = pieces(text).into_iter().filter_map(|piece| match piece {
        Piece::Said(text) => Some(text),
        Piece::Shown(_) => None,
    });
    said.collect()
}

fn repeat(line: impl Fn(usize) -> String) -> String {
    (0..12).map(line).collect::<Vec<_>>().join("\n")
}

/// Returns pastes with words of a rule inside, which no rule may come from.
fn pastes() -> Vec<String> {
    let line = |n: usize| {
        format!("2026-03-0{}T04:0{}:17.{n}Z INFO  pool  id={n} must=never", n % 9 + 1, n % 10)
    };
    let frame = |n: usize| {
        format!(
            "  File \"/srv/app/x{n}.py\", line {n}, in run\n    return self.must_never(key={n})"
        )
    };
    let syslog = |n: usize| {
        format!("Mar 0{} 04:0{}:17 web-{n} kernel: disk must never fill up", n % 9 + 1, n % 10)
    };
    let fixed = [
        "def load(path):\n    \"\"\"Loads it. The caller must never pass None.\"\"\"\n    with open(path) as f:\n        \
         data = f.read()\n    # Always strip the end\n    if not data:\n        raise ValueError(\"never\")\n    \
         text = data.strip()\n    print(text)",
        "@@ -1,5 +1,5 @@\n fn main() {\n-    let a = 1;\n+    let a = 2;\n     run(a);\n }\n+// You must always call it\n\
         +fn run(a: u8) {\n+    never(a);\n+}",
        "{\n  \"a\": [\n    1,\n    {\n      \"name\": \"you must never do it\"\n    }\n  ],\n  \"b\": {\n    \"c\": 2\n  }\n}",
        "npm ERR! code ERESOLVE\nnpm ERR! unable to resolve\nnpm ERR! \nnpm ERR! While resolving: web@1.0.0\n\
         npm ERR! Found: react@18.2.0\nnpm ERR! node_modules/react\nnpm ERR! You must always pass --force\n\
         npm ERR! Fix the upstream dependency conflict\nnpm ERR! See the log",
        "<ul class=\"never\">\n  <li>You must never do it</li>\n  <li>Two</li>\n  <li>Three</li>\n  <li>Four</li>\n  \
         <li>Five</li>\n  <li>Six</li>\n</ul>",
        "Usage: foo [OPTIONS] <FILE>\n\nOptions:\n  -f, --force       Never ask before overwriting\n  -v, --verbose     \
         Print more\n      --only <X>    Only run these tests\n  -q, --quiet       Do not print\n  -h, --help        \
         Print help\n  -V, --version     Print it\n  -o, --out <PATH>  Write the output there",
    ];
    let mut pastes: Vec<String> = fixed.into_iter().map(str::to_owned).collect();
    pastes.push(repeat(line));
    pastes.push(repeat(frame));
    pastes.push(repeat(syslog));
    pastes.push(repeat(|n| format!("{n},must,2026-01-{n:02},never,1{n}.5")));
    pastes.push(repeat(|n| format!("| {n} | must always | never |")));
    pastes.push(repeat(|n| format!("> Line {n} of the mail says that you must never answer.")));
    pastes.push(repeat(|n| format!("\tat com.example.Must.never(Must.java:{n})")));
    pastes.push(repeat(|n| format!("KEY_{n}=must-never-{n}")));
    pastes
}

#[test]
fn a_paste_is_shown_and_the_words_beside_are_said() {
    for paste in pastes() {
        let messages = [
            format!("{paste}\n\n{RULE}"),
            format!("{RULE}\n\n{paste}"),
            format!("{paste}\n{RULE}"),
            format!("Look at this:\n{paste}\n\n{RULE}\n\n{paste}"),
            format!("```text\n{paste}\n```\n{RULE}"),
        ];
        for message in messages {
            let said = said(&message);
            assert!(said.contains(RULE), "hidden in {message}");
            let rest = said.replace(RULE, "").to_lowercase();
            assert!(!rest.contains("must") && !rest.contains("never"), "{rest}");
        }
    }
}

#[test]
fn prose_and_lists_in_any_script_are_said() {
    let items = [
        "- Never touch the folder vendor without asking me",
        "1. Никогда не удаляй файлы без спроса",
        "2. 不要修改 vendor 目录下的文件，提交前先问我。",
        "- コミットする前に必ずテストを実行してください。",
        "- لا تعدل الملفات بدون إذن مني",
        "- हमेशा टेस्ट चलाओ और बिना पूछे कुछ मत बदलो",
        "- ห้ามแก้ไขไฟล์โดยไม่ถามก่อน",
        "- Use `foo_bar()` instead of `bar::baz` in `src/lib.rs`",
        "- src/generated/",
        "Do not rename a file",
        "tabs only",
        "A paragraph of one line, in which the user explains at length why the importer is slow and what to do.",
    ];
    for item in items {
        let text = vec![item; 20].join("\n");
        assert_eq!(pieces(&text), [Piece::Said(&text)]);
    }
}

#[test]
fn a_short_quotation_or_snippet_is_said() {
    let text = "> Shall I drop the table?\n\nNo.\n\nlet a = 1;\nlet b = 2;\n\nis enough.";
    assert_eq!(pieces(text), [Piece::Said(text)]);
}

#[test]
fn answers_between_quoted_lines_are_said() {
    let pair = "> Shall I drop the old table of the tenants?\nNever drop a table.\n> And the index?\nkeep it\n";
    assert_eq!(said(&pair.repeat(6)).matches("Never drop a table.\n").count(), 6);
    assert_eq!(said(&pair.repeat(6)).matches("keep it\n").count(), 6);
}

#[test]
fn a_long_line_of_data_is_shown() {
    let text = format!("Here it is:\n{{\"a\":[{}]}}\n", "1234,".repeat(150));
    let shown = text.strip_prefix("Here it is:\n").unwrap();
    assert_eq!(pieces(&text), [Piece::Said("Here it is:\n"), Piece::Shown(shown)]);
}

#[test]
fn fences_open_and_close_where_people_write_them() {
    let fenced = |text: &'static str| said(text);
    assert_eq!(fenced("a\n```\nb\n```\nc"), "a\nc");
    assert_eq!(fenced("a\n~~~ rust\nb\n```\n~~~\nc"), "a\nc");
    assert_eq!(fenced("a\n````\nb\n```\nc\n````\nd"), "a\nd");
    assert_eq!(fenced("the log:```\nb\n```\nc"), "the log:c");
    assert_eq!(fenced("a\n```\nb```\nc"), "a\nc");
    assert_eq!(fenced("a\n```\nb\n``` never push\nc"), "a\n never push\nc");
    assert_eq!(fenced("the sign ``` opens a block\nb"), "the sign ``` opens a block\nb");
    assert_eq!(fenced("use ```a``` here\nb"), "use ```a``` here\nb");
    assert_eq!(fenced("a\n```\nb\nc"), "a\n");
}

#[test]
fn hostile_texts_come_back_whole() {
    let units = [
        "```\n", "` ", "|", "> a\n", "a(", "{\nfoo\n", "\r", ": :", "- ", "\u{301}", "1. ",
        "error: ",
    ];
    for unit in units {
        let text = unit.repeat(50_000);
        let length: usize = pieces(&text).iter().map(length).sum();
        assert_eq!(length, text.len());
    }
}

fn length(piece: &Piece<'_>) -> usize {
    match piece {
        Piece::Said(text) | Piece::Shown(text) => text.len(),
    }
}

proptest! {
    #[test]
    fn the_pieces_together_are_the_text(
        lines in prop::collection::vec("(```|~~~|> |  |\\{|- |[a-z]{1,5} |[0-9:;|=(]){0,8}\r?", 0..40)
    ) {
        let text = lines.join("\n");
        let together: String = pieces(&text)
            .into_iter()
            .map(|piece| match piece {
                Piece::Said(text) | Piece::Shown(text) => text,
            })
            .collect();
        prop_assert_eq!(together, text);
    }
}
