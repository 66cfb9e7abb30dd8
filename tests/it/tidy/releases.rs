//! Releases: advisories are checked first, an image stands on one digest, and a binary is stripped.

#[test]
fn a_release_checks_advisories_first_and_builds_on_a_digest() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/.github/workflows/release.yml");
    let workflow = std::fs::read_to_string(path).unwrap();
    let (_, jobs) = workflow.split_once("\njobs:\n").unwrap();
    // A job begins with its name, indented by two spaces.
    let mut named: Vec<(&str, String)> = Vec::new();
    for line in jobs.lines() {
        let name = line
            .strip_prefix("  ")
            .and_then(|rest| rest.strip_suffix(':'));
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
            "check" => assert!(job.contains("workflows/ci.yml")),
            "build" => assert!(job.contains("    needs: [version, check]\n")),
            _ => assert!(
                job.contains("    needs: build\n"),
                "{name} waits for no check"
            ),
        }
    }
    let is_image = |(_, job): &&(&str, String)| job.contains("docker buildx build");
    let (_, image) = named.iter().find(is_image).unwrap();
    assert!(image.contains("[[ $base_digest == sha256:* ]]"));
    assert!(image.contains(r#"--build-arg "BASE=$base@$base_digest""#));
    assert!(include_str!("../../../Dockerfile").contains("\nFROM ${BASE}\n"));
}

#[test]
fn the_released_binary_is_stripped_although_its_package_overrides_the_profile() {
    let manifest: toml::Table = include_str!("../../../Cargo.toml").parse().unwrap();
    let dist = &manifest["profile"]["dist"];
    let strip = dist["strip"].as_str();
    assert_eq!(strip, Some("symbols"));
    // Cargo takes `strip` from an override alone, where the package has one.
    let binary = manifest["package"]["name"].as_str().unwrap();
    if let Some(of_the_binary) = dist["package"].get(binary) {
        assert_eq!(
            of_the_binary.get("strip").and_then(toml::Value::as_str),
            strip
        );
    }
}
