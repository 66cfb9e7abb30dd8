//! What a command hears of signals: what it would hear without a proxy.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::redis_server::signal;

/// Counts interrupts until it is told to end.
const COUNTS: &str = "\
n=0; trap 'n=$((n+1)); echo heard' INT; trap 'echo total $n; exit' TERM; echo ready $PPID; \
while :; do sleep 0.05; done";

#[test]
fn what_is_ignored_is_ignored_by_the_command_too() {
    let ours = env!("CARGO_BIN_EXE_longhaul");
    let line = format!(
        "trap '' HUP QUIT; exec {ours} run --upstream http://127.0.0.1:9 -- \
         grep SigIgn /proc/self/status"
    );
    let output = Command::new("sh").args(["-c", &line]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let ignored = said.trim().strip_prefix("SigIgn:\t").unwrap();
    let ignored = u64::from_str_radix(ignored, 16).unwrap();
    let is_ignored = |signal: u32| (ignored >> (signal - 1)) & 1 == 1;
    let [hang_up, quit, terminate] = [1, 3, 15].map(is_ignored);
    assert!(hang_up && quit && !terminate, "{said}");
}

/// A terminal in which a line of shell runs.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    shows: BufReader<ChildStdout>,
}

impl Terminal {
    fn with(line: &str) -> Self {
        // Whoever runs the tests may ignore what is typed.
        let mut script = Command::new("env");
        script.args(["--default-signal=INT", "script", "--quiet"]);
        script.args(["--command", line, "/dev/null"]);
        script.env("SHELL", "/bin/sh");
        let child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.unwrap();
        Self {
            keys: child.stdin.take().unwrap(),
            shows: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    fn press(&mut self, key: u8) {
        self.keys.write_all(&[key]).unwrap();
    }

    /// What stands behind this word in the next line that has it.
    fn shows(&mut self, word: &str) -> String {
        let mut all = String::new();
        loop {
            let from = all.len();
            let read = self.shows.read_line(&mut all).unwrap();
            assert!(read > 0, "{word:?} is not in: {all}");
            if let Some(rest) = all[from..].split_once(word) {
                return rest.1.trim().to_owned();
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Both fail only for a process that is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_terminals_interrupt_is_heard_once_wherever_the_streams_lead() {
    let ours = env!("CARGO_BIN_EXE_longhaul");
    // The terminal is none of its streams.
    let line = format!(
        "{ours} run --upstream http://127.0.0.1:9 -- sh -c '{}' </dev/null 2>/dev/null \
         | sh -c \"trap '' INT; cat\"",
        COUNTS.replace('\'', r"'\''")
    );
    let mut terminal = Terminal::with(&line);
    let longhaul = terminal.shows("ready").parse().unwrap();
    // Two that come at once may be heard as one: what it passes on is to come later.
    signal(longhaul, "STOP");
    terminal.press(0x03);
    terminal.shows("heard");
    signal(longhaul, "CONT");
    signal(longhaul, "TERM");
    assert_eq!(terminal.shows("total"), "1");
}

#[test]
fn an_interrupt_that_no_terminal_sends_is_passed_on() {
    let ours = env!("CARGO_BIN_EXE_longhaul");
    // Behind the shell, which alone hears what is typed.
    let line = format!(
        "set -m; {ours} run --upstream http://127.0.0.1:9 -- sh -c '{}' 2>/dev/null & wait",
        COUNTS.replace('\'', r"'\''")
    );
    let mut terminal = Terminal::with(&line);
    let longhaul = terminal.shows("ready").parse().unwrap();
    signal(longhaul, "INT");
    signal(longhaul, "TERM");
    assert_eq!(terminal.shows("total"), "1");
}
