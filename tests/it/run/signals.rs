//! Signals that a command receives: they must equal those it would receive without a proxy.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::redis_server::signal;

/// A shell command that counts interrupts until it is terminated.
const COUNTS: &str = "\
n=0; trap 'n=$((n+1)); echo heard' INT; trap 'echo total $n; exit' TERM; echo ready $PPID; \
while :; do sleep 0.05; done";

#[test]
fn command_inherits_ignored_signals() {
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

/// A terminal that runs a shell command.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    shows: BufReader<ChildStdout>,
}

impl Terminal {
    fn with(line: &str) -> Self {
        // The parent of the tests may ignore SIGINT, so it is reset.
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

    /// Returns the rest of the next line after this word.
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
        // Both calls fail only if the process is already gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "needs script, of util-linux, and a pseudo-terminal"]
fn terminal_interrupt_reaches_the_command_once_with_redirected_streams() {
    let ours = env!("CARGO_BIN_EXE_longhaul");
    // All of the command's streams lead elsewhere, not to the terminal.
    let line = format!(
        "{ours} run --upstream http://127.0.0.1:9 -- sh -c '{}' </dev/null 2>/dev/null \
         | sh -c \"trap '' INT; cat\"",
        COUNTS.replace('\'', r"'\''")
    );
    let mut terminal = Terminal::with(&line);
    let longhaul = terminal.shows("ready").parse().unwrap();
    // Two simultaneous interrupts may merge into one, so longhaul is suspended to delay its own.
    signal(longhaul, "STOP");
    terminal.press(0x03);
    terminal.shows("heard");
    signal(longhaul, "CONT");
    signal(longhaul, "TERM");
    assert_eq!(terminal.shows("total"), "1");
}

#[test]
#[ignore = "needs script, of util-linux, and a pseudo-terminal"]
fn forwards_an_interrupt_that_is_not_from_the_terminal() {
    let ours = env!("CARGO_BIN_EXE_longhaul");
    // Runs as a background job, so that only the shell receives typed interrupts.
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
