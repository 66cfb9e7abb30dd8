//! Environment variables that contradict each other or only look like settings.

use super::{check_refused, longhaul, setting};

#[test]
fn rejects_two_names_of_one_setting_with_different_values() {
    for [short, long, one, other] in [
        ["DISABLE_PRUNE", "LONGHAUL_PRUNE_DISABLED", "1", "0"],
        ["DISABLE_AUTOCOMPACT", "LONGHAUL_COMPACT_AUTO_DISABLED", "1", ""],
        ["LONGHAUL_UPSTREAM", "LONGHAUL_UPSTREAM_BASE", "http://a", "http://b"],
    ] {
        let both = [(short, one), (long, other)];
        check_refused(&["check"], &both, &[short, long, "one of the two"]);
    }
    let same = [("DISABLE_PRUNE", "1"), ("LONGHAUL_PRUNE_DISABLED", "yes")];
    let line = setting("prune.disabled", &[], &same);
    assert!(line.starts_with("prune.disabled = true"), "{line}");
    let ours = [("HTTPS_PROXY", "http://corp:1"), ("LONGHAUL_PROXY_HTTPS", "http://own:1")];
    let line = setting("proxy.https", &[], &ours);
    assert!(line.contains("own:1"), "{line}");
    let none = [ours[0], ("LONGHAUL_PROXY_HTTPS", "")];
    let line = setting("proxy.https", &[], &none);
    assert!(!line.contains("corp:1"), "{line}");
}

/// A Compose file passes an unset variable as an empty one.
#[test]
fn empty_name_of_a_setting_does_not_conflict_with_the_other_name() {
    let (short, long) = ("LONGHAUL_UPSTREAM", "LONGHAUL_UPSTREAM_BASE");
    for (said, empty) in [(short, long), (long, short)] {
        let both = [(said, "http://a/v1"), (empty, "")];
        let line = setting("upstream.base", &[], &both);
        assert!(line.contains("http://a/v1") && line.contains(said), "{line}");
    }
}

#[test]
fn flag_overrides_two_conflicting_environment_names() {
    let both = [("LONGHAUL_UPSTREAM", "http://a/v1"), ("LONGHAUL_UPSTREAM_BASE", "http://b/v1")];
    let line = setting("upstream.base", &["--upstream", "http://c/v1"], &both);
    assert!(line.contains("http://c/v1"), "{line}");
}

#[test]
fn ignores_empty_variables_of_settings_that_cannot_be_empty() {
    for (key, name) in [
        ("admin.listen", "LONGHAUL_ADMIN"),
        ("limits.drain", "LONGHAUL_LIMITS_DRAIN"),
        ("log.level", "LONGHAUL_LOG_LEVEL"),
        ("mode", "LONGHAUL_MODE"),
        ("store.at", "LONGHAUL_STORE"),
    ] {
        let line = setting(key, &[], &[(name, "")]);
        assert_eq!(line, setting(key, &[], &[]), "{name}");
    }
    let both = [("LONGHAUL_ADMIN", ""), ("LONGHAUL_ADMIN_LISTEN", "off")];
    let line = setting("admin.listen", &[], &both);
    assert!(line.contains("LONGHAUL_ADMIN_LISTEN"), "{line}");
    // An empty upstream is an error: requests meant for another upstream would go to the default
    // one.
    check_refused(&["check"], &[("LONGHAUL_UPSTREAM", "")], &["upstream.base"]);
}

#[test]
fn warns_about_misspelt_setting_variables_and_still_starts() {
    let misspelt = [("LONGHAUL_WINDOWS", "secret"), ("LONGHAUL_PORT", "tcp://x:1")];
    for arguments in
        [&["check"][..], &["run", "--upstream", "http://127.0.0.1:9", "--", "/bin/true"]]
    {
        let output = longhaul(arguments, &misspelt);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        let told = said.lines().filter(|line| line.contains("LONGHAUL_"));
        let words = "longhaul: the environment: no setting is called LONGHAUL_WINDOWS; did you mean \
                     LONGHAUL_WINDOW?";
        assert_eq!(told.collect::<Vec<_>>(), [words]);
        assert!(!said.contains("secret"), "{said}");
    }
}
