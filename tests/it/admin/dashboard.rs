//! The bundled dashboard and the alerting rules query only metrics and labels that exist.

/// Returns the metric names in a query: words with longhaul's prefix or that of processes.
fn metrics_in(query: &str) -> Vec<&str> {
    let words = query.split(|letter: char| letter != '_' && !letter.is_ascii_alphanumeric());
    let ours = |word: &&str| word.starts_with("longhaul_") || word.starts_with("process_");
    words.filter(ours).collect()
}

/// Returns the `label="value"` pairs of a query, except those with a dashboard variable.
fn pairs_in(query: &str) -> Vec<(&str, &str)> {
    let inside = query.split('{').skip(1);
    let inside = inside.filter_map(|rest| Some(rest.split_once('}')?.0));
    inside
        .flat_map(|pairs| pairs.split(','))
        .filter_map(|pair| {
            let (label, value) = pair.split_once('=')?;
            let value = value.trim_start_matches('~').trim_matches('"');
            Some((label.trim_end_matches('!'), value))
        })
        .filter(|(_, value)| !value.starts_with('$'))
        .collect()
}

const DOCS: &str = include_str!("../../../docs/reference/metrics.md");

/// Returns the row of a metric in the documented table.
fn row(name: &str) -> Option<&'static str> {
    DOCS.lines().find(|line| line.starts_with(&format!("| `{name}` |")))
}

/// Checks the metrics and labels of a query. Returns the rows of its metrics.
#[track_caller]
fn check(query: &str) -> Vec<&'static str> {
    let mut rows = Vec::new();
    for name in metrics_in(query) {
        let histogram =
            ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
        let found = histogram.and_then(row).or_else(|| row(name));
        let found = found.unwrap_or_else(|| panic!("no metric is called {name}: {query}"));
        for (label, values) in pairs_in(query) {
            // The scrape sets this label.
            if label == "job" {
                assert!(DOCS.contains(&format!("job_name: {values}\n")), "{query}");
                continue;
            }
            for value in values.split('|') {
                let told = found.contains(&format!("`{label}`")) && found.contains(value);
                assert!(told, "{label}={value} is none of {name}'s: {query}");
            }
        }
        let by = query.split("by (").skip(1);
        let by = by.filter_map(|rest| Some(rest.split_once(')')?.0));
        for label in by.flat_map(|labels| labels.split(", ")) {
            let told = label == "le" || found.contains(&format!("`{label}`"));
            assert!(told, "{label} is no label of {name}: {query}");
        }
        rows.push(found);
    }
    rows
}

#[test]
fn dashboard_queries_use_only_existing_metrics_and_labels() {
    let dashboard = include_str!("../../../config/grafana/longhaul.json");
    let dashboard: serde_json::Value = serde_json::from_str(dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array());
    let queries: Vec<&str> =
        targets.flatten().map(|target| target["expr"].as_str().unwrap()).collect();
    assert!(queries.len() > 20, "the panels were found");
    let shown: Vec<&str> = queries.into_iter().flat_map(check).collect();
    let all = DOCS.lines().filter(|line| line.starts_with("| `"));
    let hidden: Vec<&str> = all.filter(|line| !shown.contains(line)).collect();
    assert!(hidden.is_empty(), "no panel shows {hidden:?}");
    let mut ids: Vec<&serde_json::Value> = panels.iter().map(|panel| &panel["id"]).collect();
    ids.dedup();
    assert_eq!(ids.len(), panels.len(), "each panel has an id of its own");
}

#[test]
fn alerting_rules_use_only_existing_metrics_and_labels() {
    let rules = include_str!("../../../config/prometheus/alerts.yaml");
    let queries: Vec<&str> =
        rules.lines().filter_map(|line| line.trim_start().strip_prefix("expr: ")).collect();
    assert_eq!(queries.len(), rules.matches("- alert: ").count());
    for query in queries {
        assert!(!check(query).is_empty(), "{query}");
    }
}
