//! Flags for settings: each command has the flags of the settings it reads.

use super::{check_refused, setting, stdout};

const ALL: [&str; 10] = [
    "--admin",
    "--config",
    "--env-file",
    "--listen",
    "--mode",
    "--profile",
    "--store",
    "--summary-model",
    "--upstream",
    "--window",
];

#[test]
fn help_of_a_command_lists_only_the_flags_it_reads() {
    let check = |command: &[&str], expect: &[&str]| {
        let help = stdout(&[command, &["--help"]].concat(), &[]);
        let options = help.split_once("\nOptions:\n").unwrap().1;
        let options: Vec<&str> = options.split_whitespace().collect();
        let named: Vec<&str> = ALL.into_iter().filter(|flag| options.contains(flag)).collect();
        assert_eq!(named, expect, "{command:?}: {help}");
    };
    let without = |flags: &[&str]| -> Vec<&str> {
        ALL.into_iter().filter(|flag| !flags.contains(flag)).collect()
    };
    check(&[], &ALL);
    check(&["serve"], &ALL);
    check(&["check"], &ALL);
    check(&["run"], &ALL);
    check(&["compact"], &without(&["--admin", "--listen"]));
    check(&["explain"], &without(&["--listen", "--store"]));
    check(&["health"], &["--admin", "--config", "--env-file"]);
    check(&["store"], &["--config", "--env-file", "--store"]);
    check(&["store", "stats"], &["--config", "--env-file", "--store"]);
    check(&["connect", "pi"], &["--config", "--env-file", "--listen"]);
    check(&["doctor"], &ALL);
    check(&["init"], &without(&["--config", "--env-file"]));
    // Flags of `demo` itself, with their own meaning.
    check(&["demo"], &["--summary-model", "--window"]);
    for command in ["completions", "defaults", "man"] {
        check(&[command], &[]);
    }
}

#[test]
fn rejects_a_flag_that_would_have_no_effect() {
    check_refused(&["man", "--listen", "nonsense"], &[], &["--listen"]);
    check_refused(&["compact", "--admin", "127.0.0.1:5"], &[], &["--admin"]);
    for command in ["completions", "defaults", "demo", "man"] {
        let before = ["--window", "nonsense", command, "bash"];
        let arguments = if command == "completions" { &before[..] } else { &before[..3] };
        check_refused(arguments, &[], &["--window", command]);
    }
}

#[test]
fn flag_works_before_and_after_the_command() {
    let before = stdout(&["--window", "64000", "check"], &[]);
    assert!(before.starts_with("window = 64000 "), "what is set comes first: {before}");
    assert!(before.contains("# flag --window") && before.contains("\n# set: 1, "), "{before}");
    let line = setting("window", &["--window", "64000"], &[]);
    assert_eq!(line, "window = 64000 # flag --window");
    let store = ["store", "--store", "memory", "list"];
    check_refused(&store, &[], &["memory"]);
}

#[test]
fn words_of_other_tools_are_refused_with_what_longhaul_has_for_them() {
    for (line, tip) in [
        ("ui", "longhaul dashboard --open"),
        ("serve --open", "longhaul dashboard --open"),
        ("status", "longhaul top"),
        ("stauts", "longhaul top"),
        ("logs", "longhaul explain --last"),
        ("lgos", "longhaul explain --last"),
        ("stop", "SIGTERM"),
        ("start", "`longhaul` alone starts the proxy"),
        ("config", "`longhaul check` shows every setting"),
        ("version", "`longhaul --version`"),
        ("--port 9000", "--listen :PORT"),
        ("--prot 9000", "--listen :PORT"),
        ("-p 9000", "--listen :PORT"),
        ("--log-level debug", "LONGHAUL_LOG_LEVEL"),
        ("init --yse", "longhaul init --upstream"),
        ("--recall url", "--recall=url"),
        ("--recall mpc", "--recall=mcp"),
        ("--recall off", "--recall=off"),
        ("wrap aider", "longhaul run -- COMMAND"),
        ("unwrap", "unset the base URL"),
        ("perf", "longhaul explain --replay FOLDER"),
        ("savings", "longhaul explain --replay FOLDER"),
        ("update", "install the new version"),
        ("upgrade", "install the new version"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        check_refused(&words, &[], &["tip:", tip]);
    }
    // `mcp` is a command too.
    check_refused(&["--recall", "mcp"], &[], &["or write --recall=mcp"]);
    // Misspelt words of longhaul's own.
    check_refused(&["check", "--jsn"], &[], &["a similar argument exists: '--json'"]);
    check_refused(&["dashbord"], &[], &["'dashboard'"]);
}

#[cfg(unix)]
#[test]
fn a_flag_behind_the_command_of_run_is_the_command_s_own() {
    let printed = stdout(&["run", "/bin/echo", "--upstream", "X", "--prot"], &[]);
    assert_eq!(printed, "--upstream X --prot\n");
}
