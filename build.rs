//! Build script: hands the commit and its date to release builds, for `longhaul --version`.
//!
//! A debug build names no commit, so that a commit does not compile the program once more. A build
//! without a repository, such as an image's, takes `LONGHAUL_COMMIT` and `LONGHAUL_COMMIT_DATE`.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    for (name, arguments) in [
        ("LONGHAUL_COMMIT", ["rev-parse", "--short=12", "HEAD"].as_slice()),
        ("LONGHAUL_COMMIT_DATE", &["show", "--no-patch", "--format=%cs", "HEAD"]),
    ] {
        println!("cargo:rerun-if-env-changed={name}");
        let given = std::env::var(name).ok().filter(|value| !value.is_empty());
        let value = given.or_else(|| if is_release { git(arguments) } else { None });
        println!("cargo:rustc-env={name}={}", value.unwrap_or_default());
    }
    let moves_with = ["HEAD", "logs/HEAD"].map(|path| git(&["rev-parse", "--git-path", path]));
    for path in moves_with.into_iter().flatten().filter(|_| is_release) {
        println!("cargo:rerun-if-changed={path}");
    }
}

/// Returns the output of a git command. `None` without git, or outside a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
