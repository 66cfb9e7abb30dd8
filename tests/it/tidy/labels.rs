//! Some test covers every reason for passing a request on untouched or unserved.

use super::{File, sources};
use longhaul_core::dialect::bypass::Bypass;

/// Returns the test code: the files of this binary, and the test modules of the library.
fn tests() -> Vec<String> {
    let own = |file: &File| file.path.starts_with("tests/it/tidy");
    let test = |file: &File| {
        if file.path.starts_with("tests/") || file.path.contains("/tests") {
            return Some(file.text.clone());
        }
        let (_, tests) = file.text.split_once("#[cfg(test)]\nmod tests {")?;
        Some(tests.to_owned())
    };
    let sources = sources();
    sources.iter().filter(|file| !own(file)).filter_map(test).collect()
}

/// Returns the codes of the faults. `Fault` is private to the crate, so they are read from the
/// entries in the source.
fn faults() -> Vec<String> {
    let sources = sources();
    let errors = sources.iter().find(|file| file.path == "src/error.rs");
    let text = &errors.expect("src/error.rs has the faults").text;
    let (_, table) = text.split_once("\nfaults! {\n").expect("the table");
    let (table, _) = table.split_once("\n}\n").expect("its end");
    let codes = table.split(" = \"").skip(1);
    let codes = codes.filter_map(|rest| rest.split_once('"'));
    codes.map(|(code, _)| code.to_owned()).collect()
}

#[test]
fn every_bypass_reason_is_covered_by_a_test() {
    let tests = tests();
    for bypass in Bypass::ALL {
        let (label, variant) = (format!("\"{}\"", bypass.label()), format!("Bypass::{bypass:?}"));
        let met = |test: &String| test.contains(&label) || test.contains(&variant);
        assert!(tests.iter().any(met), "no test meets {bypass:?}");
    }
}

#[test]
fn every_fault_is_covered_by_a_test() {
    let (faults, tests) = (faults(), tests());
    assert!(faults.len() >= 10, "the table was read: {faults:?}");
    for code in faults {
        let quoted = format!("\"{code}\"");
        let met = tests.iter().any(|test| test.contains(&quoted));
        assert!(met, "no test meets the fault {code}");
    }
}
