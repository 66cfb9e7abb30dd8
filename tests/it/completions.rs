//! Shell completions and man pages of the command line.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

fn longhaul(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command.args(arguments).env_clear().output().unwrap()
}

fn stdout(arguments: &[&str]) -> String {
    let output = longhaul(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the commands that the help lists.
fn commands() -> Vec<String> {
    let help = stdout(&["--help"]);
    let listed = help.split_once("\nCommands:\n").unwrap().1;
    let lines = listed.lines().take_while(|line| line.starts_with("  "));
    let names = lines.map(|line| line.split_whitespace().next().unwrap().to_owned());
    let names: Vec<String> = names.collect();
    assert!(names.iter().any(|name| name == "serve"), "{names:?}");
    names
}

/// Returns the long flags named in a help text or a page.
fn flags(text: &str) -> Vec<&str> {
    let letter = |c: char| c.is_ascii_lowercase() || c == '-';
    let starts = text.split_whitespace().filter_map(|word| {
        let name = word.strip_prefix("--")?;
        Some(name.split(|c| !letter(c)).next().unwrap_or_default())
    });
    let mut found: Vec<&str> = starts.filter(|name| !name.is_empty()).collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[test]
fn bash_completion_script_is_valid_and_lists_every_command_and_flag() {
    let script = stdout(&["completions", "bash"]);
    let mut bash = Command::new("bash")
        .arg("-n")
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = bash.stdin.take().unwrap();
    input.write_all(script.as_bytes()).unwrap();
    drop(input);
    let read = bash.wait_with_output().unwrap();
    assert!(read.status.success() && read.stderr.is_empty(), "{read:?}");

    let words: Vec<&str> = script.split([' ', '"', '\n', ')']).collect();
    for command in commands() {
        assert!(words.contains(&command.as_str()), "no {command}: {script}");
    }
    let help = stdout(&["--help"]);
    for flag in flags(&help) {
        let flag = format!("--{flag}");
        assert!(words.contains(&flag.as_str()), "no {flag}: {script}");
    }
}

#[test]
fn completion_script_of_every_shell_lists_every_command() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = stdout(&["completions", shell]);
        for command in commands() {
            assert!(script.contains(&command), "{shell}: no {command}");
        }
    }
}

#[test]
fn every_command_has_a_manual_page_with_its_flags() {
    let check = |arguments: &[&str], help: &str| {
        let page = stdout(&[&["man"], arguments].concat());
        assert!(page.contains("\n.TH longhaul"), "{page}");
        let plain = page.replace("\\-", "-").replace("\\fB", "");
        let named = flags(&plain);
        for flag in flags(help) {
            assert!(named.contains(&flag), "{arguments:?}: no {flag} in {plain}");
        }
    };
    let help = stdout(&["--help"]);
    let options = help.split_once("\nOptions:\n").unwrap().1;
    let options = options.split_once("\n\n").map_or(options, |(all, _)| all);
    check(&[], options);
    for command in commands() {
        if command != "help" {
            check(&[&command], &stdout(&[&command, "--help"]));
        }
    }
}

#[test]
fn every_referenced_manual_page_prints_by_name_and_by_words() {
    let mut pages = vec![stdout(&["man"])];
    let mut met = Vec::new();
    while let Some(page) = pages.pop() {
        let plain = page.replace("\\-", "-");
        let named = plain.lines().filter_map(|line| line.strip_suffix("(1)"));
        for name in named.filter_map(|name| name.strip_prefix("longhaul-")) {
            let page = stdout(&["man", name]);
            assert!(page.contains(&format!("\n.TH longhaul-{name} 1")), "{page}");
            let words: Vec<_> = name.split('-').collect();
            assert_eq!(stdout(&[&["man"], &*words].concat()), page);
            assert_eq!(stdout(&["man", &words.join(" ")]), page);
            met.push(name.to_owned());
            pages.push(page);
        }
    }
    assert!(met.contains(&"store-stats".to_owned()), "{met:?}");
}

#[test]
fn rejects_an_unknown_shell_or_command() {
    for (arguments, words) in [
        (["completions", "tcsh"], "powershell"),
        (["man", "sreve"], "no command longhaul sreve"),
        (["man", "store-stast"], "no command longhaul store stast"),
    ] {
        let output = longhaul(&arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(64), "{said}");
        assert!(said.contains(words), "{said}");
    }
}
