//! Rule files, and the root of the workspace.

use super::rows;
use memchr::memmem;
use std::sync::LazyLock;

/// Names and places of rule files, and folders whose files make no rules.
const RULE_FILES: &str = include_str!("rule_files.txt");

/// Maximum bytes of a path.
const MAX_PATH: usize = 4_096;

/// Maximum folders above a rule file if the workspace is not known: `/Users/user/code/team/project/sub`.
const MAX_FOLDERS: usize = 6;

/// Returns the texts of a list in `rule_files.txt`.
fn listed(list: &str) -> impl Iterator<Item = &str> {
    static ROWS: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
        let rows = RULE_FILES.lines().filter(|line| !line.starts_with('#'));
        rows.filter_map(|row| row.split_once('\t')).collect()
    });
    ROWS.iter().filter(move |row| row.0 == list).map(|row| row.1)
}

/// Returns the label of a rule file at the root of the workspace or above: the path from the root on, or `path`.
///
/// `None` for other files, for rule files in other folders, and for folders of packages and builds.
/// `more_names` are names, or paths from the root. A relative path is taken from the root. Without a root, a
/// relative path must be a root's. An absolute one may lie at most [`MAX_FOLDERS`] deep, outside folders that
/// usually lie within a repository.
pub(crate) fn rule_file<'p>(
    path: &'p str,
    workspace: Option<&str>,
    more_names: &[String],
) -> Option<&'p str> {
    let path = path.trim();
    let is_absolute = is_absolute(path);
    let root = segments(workspace.unwrap_or_default(), Vec::new())?;
    let from = if is_absolute { Vec::new() } else { root.clone() };
    let file = segments(path, from)?;
    let names = listed("name").chain(listed("place")).chain(more_names.iter().map(String::as_str));
    let folders = names.filter_map(|place| folder_of(&file, place)).min_by_key(|it| it.len())?;
    // The user's own folder is above all.
    let is_above = folders == ["~"]
        || root.len() >= folders.len() && folders.iter().zip(&root).all(|(a, b)| same(a, b));
    let counts = if workspace.is_some() || !is_absolute {
        is_above
    } else {
        let excluded =
            |folder: &&str| listed("foreign").chain(listed("inner")).any(|it| same(it, folder));
        folders.len() <= MAX_FOLDERS && !folders.iter().any(excluded)
    };
    let label = workspace.and_then(|root| below(path, root)).unwrap_or(path);
    counts.then_some(label)
}

/// Whether a path begins at a root, a drive or the user's home.
pub(super) fn is_absolute(path: &str) -> bool {
    let drive = path.get(1..3).is_some_and(|it| it == ":/" || it == ":\\");
    drive || path.starts_with(['/', '\\', '~'])
}

/// Returns the segments of a path that begins in the folder `from`. `None` if the path is too long or leads out.
fn segments<'p>(path: &'p str, from: Vec<&'p str>) -> Option<Vec<&'p str>> {
    let mut segments = from;
    for segment in Some(path).filter(|it| it.len() <= MAX_PATH)?.split(['/', '\\']) {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()?),
            _ => segments.push(segment),
        }
    }
    Some(segments)
}

/// Returns the folder of `file` if the file's path ends with `place`, whose last segment may begin with `*`.
fn folder_of<'f>(file: &'f [&'f str], place: &str) -> Option<&'f [&'f str]> {
    let place: Vec<&str> = place.split(['/', '\\']).collect();
    let (folder, end) = file.split_at_checked(file.len().checked_sub(place.len())?)?;
    let matches = |(segment, pattern): (&&str, &&str)| match pattern.strip_prefix('*') {
        Some(ending) => segment.to_ascii_lowercase().ends_with(ending),
        None => same(segment, pattern),
    };
    end.iter().zip(&place).all(matches).then_some(folder)
}

/// Whether two segments are the same on a file system that ignores case. `/d/code` and `D:\code` are one folder.
fn same(one: &str, other: &str) -> bool {
    one.trim_end_matches(':').eq_ignore_ascii_case(other.trim_end_matches(':'))
}

/// Returns the rest of `path` below `root`, if the path spells the root in the same way.
fn below<'p>(path: &'p str, root: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(root.trim_end_matches(['/', '\\']))?;
    rest.strip_prefix(['/', '\\'])
}

/// Returns the root of the workspace, as a client states it in instructions or in the first user message.
pub(crate) fn workspace(instructions: &str) -> Option<&str> {
    rows("workspace").iter().find_map(|row| {
        let starts = memmem::find_iter(instructions.as_bytes(), row.words.as_bytes());
        starts.map(|at| at + row.words.len()).find_map(|at| {
            let rest = instructions.get(at..instructions.floor_char_boundary(at + MAX_PATH))?;
            let line = rest.trim_start().split('\n').next()?;
            let before = instructions.get(..at - row.words.len())?;
            let before = before.trim_end_matches([' ', '\t', '-', '*', '#']);
            (before.is_empty() || before.ends_with('\n')).then_some(())?;
            let end = if row.end.is_empty() { line.len() } else { line.find(&row.end)? };
            let path = line.get(..end)?.trim().trim_matches(['`', '"', '\'']);
            is_absolute(path).then_some(path)
        })
    })
}
