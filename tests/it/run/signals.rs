//! What a command hears of signals: what it would hear without a proxy.

use std::process::Command;

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
