//! Every source file is part of a build. The compiler ignores a file that no module names, and its
//! tests never run.

use std::path::{Path, PathBuf};

use super::{File, sources};

/// Whether `file` looks in `folder` for its modules. The candidates are:
///
/// - the folder with the file's own name
/// - a folder below that, for the modules of an inline module
/// - the file's own folder and those below it, if the file is the root of a crate or is named by a
///   `path` attribute
fn looks_in(file: &File, folder: &Path, by_path: &[String]) -> bool {
    let path = Path::new(&file.path);
    let name = path.file_name().unwrap().to_str().unwrap();
    let beside = ["main.rs", "lib.rs"].contains(&name)
        || by_path.iter().any(|line| line.contains(&format!("/{name}\"")));
    let own: PathBuf = path.with_extension("");
    let beside = path.parent().filter(|_| beside);
    let below = |place: &Path| place == folder || folder.parent() == Some(place);
    below(&own) || beside.is_some_and(below)
}

#[test]
fn every_source_file_is_declared_as_a_module() {
    let sources = sources();
    let lines = sources.iter().flat_map(|file| file.text.lines());
    let by_path: Vec<String> =
        lines.filter(|line| line.starts_with("#[path = ")).map(str::to_owned).collect();
    let is_named = |file: &File| {
        let path = Path::new(&file.path);
        let (folder, name) = (path.parent().unwrap(), path.file_stem().unwrap());
        let named = format!("mod {};", name.to_str().unwrap());
        let names = |other: &File| other.text.lines().any(|line| line.ends_with(&named));
        let mut named_in = sources.iter().filter(|other| looks_in(other, folder, &by_path));
        named_in.any(names)
    };
    let roots = ["src/lib.rs", "src/main.rs", "tests/it/main.rs", "tests/ignored.rs"];
    let is_root = |path: &str| roots.iter().any(|root| path.ends_with(root));
    let modules = sources.iter().filter(|file| !is_root(&file.path));
    let alone: Vec<&str> = modules.filter(|file| !is_named(file)).map(|file| &*file.path).collect();
    assert_eq!(alone, [""; 0]);
}
