//! Releases: advisories are checked first, an image stands on one digest, and a binary is stripped.

#[test]
fn a_release_checks_advisories_first_and_builds_on_a_digest() {
    let workflow = workflow("release.yml");
    let (_, jobs) = workflow.split_once("\njobs:\n").unwrap();
    // A job begins with its name, indented by two spaces.
    let mut named: Vec<(&str, String)> = Vec::new();
    for line in jobs.lines() {
        let name = line.strip_prefix("  ").and_then(|rest| rest.strip_suffix(':'));
        let name = name.filter(|name| !name.starts_with([' ', '#']));
        if let Some(name) = name {
            named.push((name, String::new()));
        } else if let Some((_, text)) = named.last_mut() {
            text.push_str(line);
            text.push('\n');
        }
    }
    for (name, job) in &named {
        match *name {
            "version" => assert!(job.contains("cargo deny check")),
            // `$/` stands for the repository at the running commit.
            "check" => assert!(job.contains("    uses: $/.github/workflows/ci.yml\n")),
            "bare" => assert!(job.contains("      - run: .ci/run bare\n")),
            "build" => assert!(job.contains("    needs: [version, check, bare]\n")),
            _ => assert!(job.contains("    needs: build\n"), "{name} waits for no check"),
        }
    }
    let is_image = |(_, job): &&(&str, String)| job.contains("docker buildx build");
    let (_, image) = named.iter().find(is_image).unwrap();
    assert!(image.contains("[[ $base_digest == sha256:* ]]"));
    assert!(image.contains(r#"--build-arg "BASE=$base@$base_digest""#));
    assert!(include_str!("../../../Dockerfile").contains("\nFROM ${BASE}\n"));
}

/// Reads a file of the workflows.
fn workflow(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/.github/workflows");
    std::fs::read_to_string(format!("{folder}/{name}")).unwrap()
}

#[test]
fn the_checks_of_a_release_are_all_of_ci_and_pass_over_none() {
    let ci = workflow("ci.yml");
    assert!(ci.contains("\n  workflow_call:\n"));
    // Without a part, the script runs all of them.
    assert!(ci.contains("      - run: .ci/run\n"));
    for lenient in ["continue-on-error", "|| true", "\n    if:", "\n        if:"] {
        assert!(!ci.contains(lenient), "{lenient}");
    }
    let script = include_str!("../../../.ci/run");
    let by_default: Vec<&str> = script
        .lines()
        .filter_map(|line| line.trim().strip_prefix("steps "))
        .flat_map(|steps| steps.split(" >").next().unwrap_or_default().split(' '))
        .filter(|step| step.chars().all(char::is_alphabetic))
        .collect();
    let parts = script.lines().filter_map(|line| {
        let name = line.strip_prefix("check_")?.strip_suffix("() {")?;
        Some(name)
    });
    for part in parts {
        let is_left_out = ["bare", "install", "nightly", "windows"].contains(&part);
        assert_ne!(by_default.contains(&part), is_left_out, "{part}");
    }
    // Under CI, a part whose tools are missing fails.
    let missing =
        script.matches("is not installed").count() + script.matches("are not installed").count();
    let refused = script.matches(r#"[ -z "${CI:-}" ] || return 1"#).count();
    // The licences are checked with the advisories, and Wine by no job.
    assert_eq!(missing - refused, 2);
}

#[test]
fn the_released_binary_is_stripped_although_its_package_overrides_the_profile() {
    let manifest: toml::Table = include_str!("../../../Cargo.toml").parse().unwrap();
    let release = &manifest["profile"]["release"];
    let strip = release["strip"].as_str();
    assert_eq!(strip, Some("symbols"));
    // Cargo takes `strip` from an override alone, where the package has one.
    let binary = manifest["package"]["name"].as_str().unwrap();
    let of_the_binary = &release["package"][binary];
    assert_eq!(of_the_binary.get("strip").and_then(toml::Value::as_str), strip);
    // A package of a release inherits both.
    let dist = &manifest["profile"]["dist"];
    assert_eq!(dist["inherits"].as_str(), Some("release"));
    assert!(dist.get("strip").is_none() && dist.get("package").is_none());
}
