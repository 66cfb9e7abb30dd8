//! Circles of files: files that use each other, directly or through others.
//!
//! Only `use` lines count. A module and its own submodules are one thing, so a use of a submodule does
//! not count.

use std::collections::{BTreeMap, BTreeSet};

use super::{File, files, is_product, product_lines};

/// Maximum files of a circle.
const MAX_FILES: usize = 3;

/// The files that each file uses, by the path of its module.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Returns the path of the module of a file below `root`, with `/` between the names.
fn module<'a>(root: &str, path: &'a str) -> &'a str {
    let path = path.strip_prefix(root).unwrap_or(path);
    path.strip_suffix(".rs").unwrap_or(path)
}

/// Returns the paths that `path`, with braces at its end or none, stands for.
fn expanded(path: &str) -> Vec<String> {
    let Some((before, inner)) = path.split_once('{') else {
        let name = path.split_whitespace().next().unwrap_or_default();
        return vec![name.to_owned()];
    };
    let inner = inner.trim_end().strip_suffix('}').unwrap_or(inner);
    let mut depth = 0;
    let parts = inner.split(|letter| {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        letter == ',' && depth == 0
    });
    let parts = parts.map(str::trim).filter(|part| !part.is_empty());
    parts.flat_map(expanded).map(|rest| format!("{before}{rest}")).collect()
}

/// Returns the paths in the `use` lines of a file, from the root of the crate.
fn used_paths(module: &str, text: &str) -> Vec<String> {
    let code: String = product_lines(text).collect();
    let statements = code.split(';').filter_map(|statement| {
        let (before, path) = statement.split_once("use ")?;
        let line = before.rsplit('\n').next().unwrap_or_default().trim();
        (line.is_empty() || line.starts_with("pub")).then(|| path.to_owned())
    });
    let paths = statements.flat_map(|path| expanded(&path));
    paths
        .filter_map(|path| {
            if let Some(path) = path.strip_prefix("crate::") {
                return Some(path.replace("::", "/"));
            }
            let (mut parent, mut rest) = (module, path.as_str());
            while let Some(shorter) = rest.strip_prefix("super::") {
                parent = parent.rsplit_once('/').map_or("", |(parent, _)| parent);
                rest = shorter;
            }
            let rest = (rest != path).then(|| rest.replace("::", "/"))?;
            Some(format!("{parent}/{rest}"))
        })
        .collect()
}

/// Finds what each file below `root` uses.
fn uses(root: &str, files: &[File]) -> Uses {
    let modules: BTreeSet<&str> = files.iter().map(|file| module(root, &file.path)).collect();
    let used = |file: &File| {
        let user = module(root, &file.path);
        let paths = used_paths(user, &file.text).into_iter();
        let found = paths.filter_map(|path| {
            let mut path = path.trim_start_matches('/');
            while !modules.contains(path) {
                path = path.rsplit_once('/')?.0;
            }
            let is_below = path.strip_prefix(user).is_some_and(|rest| rest.starts_with('/'));
            (path != user && !is_below).then(|| path.to_owned())
        });
        (user.to_owned(), found.collect())
    };
    files.iter().map(used).collect()
}

/// Returns the files that `start` uses, directly or through others.
fn reachable<'a>(uses: &'a Uses, start: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&str> = vec![start];
    while let Some(user) = open.pop() {
        for used in uses.get(user).into_iter().flatten() {
            if found.insert(used.as_str()) {
                open.push(used);
            }
        }
    }
    found
}

/// Returns the circles of more than one file.
fn circles(uses: &Uses) -> BTreeSet<Vec<&str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        uses.keys().map(|file| (file.as_str(), reachable(uses, file))).collect();
    let mut found = BTreeSet::new();
    for (file, used) in &reached {
        let uses_it = |other: &&str| reached.get(other).is_some_and(|back| back.contains(file));
        if used.contains(file) {
            found.insert(used.iter().copied().filter(uses_it).collect());
        }
    }
    found
}

#[test]
fn few_files_use_each_other() {
    for root in ["src/", "crates/longhaul-core/src/"] {
        let mut files = files(root.trim_end_matches('/'));
        files.retain(is_product);
        let uses = uses(root, &files);
        let mut large = circles(&uses);
        large.retain(|circle| circle.len() > MAX_FILES);
        assert!(large.is_empty(), "{root}: {large:#?}");
    }
}

#[test]
fn finds_a_circle_through_every_notation() {
    let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
    let files = [
        file("src/a.rs", "mod one;\nuse one::X;\nuse crate::b::Y;\n"),
        file("src/a/one.rs", "use crate::a::Z;\n"),
        file("src/b.rs", "pub(crate) use crate::{\n    c::{X, d::Y},\n    e,\n};\n"),
        file("src/c.rs", "// use crate::e::X;\n"),
        file("src/c/d.rs", "use super::super::a::X;\n"),
        file("src/e.rs", "#[cfg(test)]\nmod tests {\n    use crate::b::X;\n}\n"),
    ];
    let uses = uses("src/", &files);
    assert_eq!(circles(&uses), [vec!["a", "b", "c/d"]].into());
}
