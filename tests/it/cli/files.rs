//! Files that settings come from: where longhaul finds them, and which one counts.

use std::fs;
use std::path::Path;
use std::process::Output;

use super::command;

/// Runs the program in `folder`.
fn run_in(folder: &Path, arguments: &[&str], env: &[(&str, &str)]) -> Output {
    command(arguments, env).current_dir(folder).output().unwrap()
}

/// Returns the line of the setting `window` that `check` prints.
fn window_line(folder: &Path, arguments: &[&str], env: &[(&str, &str)]) -> String {
    let output = run_in(folder, &[&["check"], arguments].concat(), env);
    assert!(output.status.success(), "{output:?}");
    let page = String::from_utf8(output.stdout).unwrap();
    let line = page.lines().find(|line| line.starts_with("window "));
    line.unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_file_is_found_in_the_working_folder_and_then_in_the_users_own() {
    let [here, home] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let home_path = home.path().to_str().unwrap();
    let env = [("HOME", home_path)];
    assert_eq!(window_line(here.path(), &[], &env), "window = \"\" # default");

    let own = home.path().join(".config/longhaul/longhaul.toml");
    fs::create_dir_all(own.parent().unwrap()).unwrap();
    fs::write(&own, "window = 11_000\n").unwrap();
    let expect = format!("window = 11000 # file {}:1", own.display());
    assert_eq!(window_line(here.path(), &[], &env).replace('_', ""), expect);

    fs::write(here.path().join("longhaul.toml"), "window = '12k'\n").unwrap();
    let expect = "window = \"12k\" # file longhaul.toml:1";
    assert_eq!(window_line(here.path(), &[], &env), expect);
    // No file at all.
    let line = window_line(here.path(), &["--config", ""], &env);
    assert_eq!(line, "window = \"\" # default");
    let none = [("HOME", home_path), ("LONGHAUL_CONFIG", "")];
    assert_eq!(window_line(here.path(), &[], &none), "window = \"\" # default");
}

#[cfg(unix)]
#[test]
fn the_command_of_run_is_not_served_by_a_file_of_the_working_folder() {
    let [here, home] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    fs::write(here.path().join("longhaul.toml"), "nonsense = 1\n").unwrap();
    let env = [("HOME", home.path().to_str().unwrap()), ("PATH", "/usr/bin:/bin")];
    let output = run_in(here.path(), &["run", "--", "true"], &env);
    assert!(output.status.success(), "{output:?}");
    // The same file stops every other command.
    assert_eq!(run_in(here.path(), &["check"], &env).status.code(), Some(64));
}

#[test]
fn a_file_of_variables_counts_as_the_environment_and_below_it() {
    let here = tempfile::tempdir().unwrap();
    let file = here.path().join("agent.env");
    fs::write(&file, "# ours\nexport LONGHAUL_WINDOW='13k'\n\nLONGHAUL_MODE=shadow\n").unwrap();
    let named = ["--env-file", "agent.env"];
    let expect = "window = \"13k\" # env LONGHAUL_WINDOW";
    assert_eq!(window_line(here.path(), &named, &[]), expect);
    let set = [("LONGHAUL_WINDOW", "14000")];
    let expect = "window = 14000 # env LONGHAUL_WINDOW";
    assert_eq!(window_line(here.path(), &named, &set), expect);

    fs::write(&file, "LONGHAUL_WINDOW=13k\nsk-hunter2 \"\n").unwrap();
    let output = run_in(here.path(), &["check", "--env-file", "agent.env"], &[]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(64), "{said}");
    assert!(said.contains("agent.env") && said.contains("NAME=VALUE"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
    let output = run_in(here.path(), &["check", "--env-file", "missing.env"], &[]);
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8(output.stderr).unwrap().contains("missing.env"));
}

#[test]
fn init_writes_a_file_that_is_found_and_no_file_twice() {
    let [here, home] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let env = [("HOME", home.path().to_str().unwrap())];
    let arguments = ["init", "--upstream", "openrouter.ai/api/v1", "--window", "32k"];
    let output = run_in(here.path(), &arguments, &env);
    assert!(output.status.success(), "{output:?}");
    let own = home.path().join(".config/longhaul/longhaul.toml");
    let text = fs::read_to_string(&own).unwrap();
    let lines = text.lines().filter(|line| line.contains(" = "));
    let (others, settings): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.starts_with("# "));
    assert_eq!(settings, ["window = \"32k\"", "base = \"openrouter.ai/api/v1\""], "{text}");
    // What people change first stands there as a comment, and counts without its mark.
    assert_eq!(others.len(), 8, "{text}");
    let file = here.path().join("all.toml");
    fs::write(
        &file,
        others.iter().map(|line| line.replacen("# ", "", 1) + "\n").collect::<String>(),
    )
    .unwrap();
    let output = run_in(here.path(), &["check", "--config", "all.toml"], &[]);
    assert!(output.status.success(), "{output:?}");
    assert!(window_line(here.path(), &[], &env).starts_with("window = \"32k\" # file "));

    let again = run_in(here.path(), &arguments, &env);
    assert_eq!(again.status.code(), Some(64));
    assert!(String::from_utf8(again.stderr).unwrap().contains("exists already"));
    assert_eq!(fs::read_to_string(&own).unwrap(), text);
    let wrong = run_in(here.path(), &["init", "--window", "many", "x.toml"], &env);
    assert_eq!(wrong.status.code(), Some(64));
    assert!(!here.path().join("x.toml").exists());
}

#[test]
fn a_file_of_the_working_folder_gets_no_key_unless_it_is_named() {
    let here = tempfile::tempdir().unwrap();
    let file = "[upstream]\nbase = 'http://127.0.0.1:1/v1'\n";
    fs::write(here.path().join("longhaul.toml"), file).unwrap();
    let env = [("OPENAI_API_KEY", "sk-hunter2"), ("LONGHAUL_UPSTREAM_API_KEY", "sk-hunter3")];
    let note = "not used: LONGHAUL_UPSTREAM_API_KEY, OPENAI_API_KEY";
    let arguments = ["check", "--model", "m", "--ask"];
    let output = run_in(here.path(), &arguments, &env);
    assert!(String::from_utf8(output.stderr).unwrap().contains(note));
    let named = [&arguments[..], &["--config", "longhaul.toml"]].concat();
    let output = run_in(here.path(), &named, &env);
    assert!(!String::from_utf8(output.stderr).unwrap().contains(note));
}

#[test]
fn a_file_of_the_working_folder_may_name_no_key() {
    let here = tempfile::tempdir().unwrap();
    let path = here.path().join("longhaul.toml");
    for (line, code) in [("api_key_file = 'key'", 64), ("api_key_file = ''", 0)] {
        fs::write(&path, format!("[upstream]\nbase = 'http://127.0.0.1:1/v1'\n{line}\n")).unwrap();
        fs::write(here.path().join("key"), "sk-hunter2").unwrap();
        let output = run_in(here.path(), &["check"], &[]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{line}: {said}");
        assert_eq!(said.contains("--config longhaul.toml"), code == 64, "{said}");
    }
}
