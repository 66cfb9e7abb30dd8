//! Every source file is part of a build: one that no module names is checked by nobody, and a test in it
//! never runs.

use std::path::{Path, PathBuf};

use super::{File, sources};

/// Whether `file` looks in `folder` for modules: that of its own name, the one below for those of an
/// inline module, or the one where it lies itself if it is the root of a crate or was named by its path.
fn looks_in(file: &File, folder: &Path, by_path: &[String]) -> bool {
    let path = Path::new(&file.path);
    let name = path.file_name().unwrap().to_str().unwrap();
    let beside = ["main.rs", "lib.rs"].contains(&name)
        || by_path
            .iter()
            .any(|line| line.contains(&format!("/{name}\"")));
    let own: PathBuf = path.with_extension("");
    own == folder || folder.parent() == Some(&own) || (beside && path.parent() == Some(folder))
}

#[test]
fn every_source_file_is_named_by_a_module() {
    let sources = sources();
    let lines = sources.iter().flat_map(|file| file.text.lines());
    let by_path: Vec<String> = lines
        .filter(|line| line.starts_with("#[path = "))
        .map(str::to_owned)
        .collect();
    let is_named = |file: &File| {
        let path = Path::new(&file.path);
        let (folder, name) = (path.parent().unwrap(), path.file_stem().unwrap());
        let named = format!("mod {};", name.to_str().unwrap());
        let names = |other: &File| other.text.lines().any(|line| line.ends_with(&named));
        let mut named_in = sources
            .iter()
            .filter(|other| looks_in(other, folder, &by_path));
        named_in.any(names)
    };
    let roots = ["src/lib.rs", "src/main.rs", "tests/it/main.rs"];
    let modules = sources.iter().filter(|file| !roots.contains(&&*file.path));
    let alone: Vec<&str> = modules
        .filter(|file| !is_named(file))
        .map(|file| &*file.path)
        .collect();
    assert_eq!(alone, [""; 0]);
}
