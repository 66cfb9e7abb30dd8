//! Tests of the list of settings.

use super::super::raw_value::RawValue;
use super::*;

#[test]
fn every_default_is_a_value_its_own_reader_accepts() {
    for entry in ALL_SETTINGS {
        let default = RawValue::Text(entry.default.into());
        assert_eq!((entry.parse)(&default), Ok(()), "{}", entry.key);
    }
}

#[test]
fn keys_and_environment_names_are_distinct() {
    let mut names: Vec<String> = ALL_SETTINGS.iter().flat_map(Setting::env_names).collect();
    let all = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all);
}

#[test]
fn settings_of_one_section_are_adjacent() {
    let mut sections: Vec<&str> =
        ALL_SETTINGS.iter().map(|entry| entry.key.split_once('.').map_or("", |(s, _)| s)).collect();
    sections.dedup();
    let runs = sections.len();
    sections.sort_unstable();
    sections.dedup();
    assert_eq!(sections.len(), runs);
    assert!(
        !ALL_SETTINGS[0].key.contains('.'),
        "a key without a section must precede the first one"
    );
}
