//! Unknown names, and the known names that they resemble.

use std::collections::BTreeMap;
use std::fmt::Display;

use super::raw_value::Origin;
use super::setting::Setting;
use super::settings::{ALL_SETTINGS, UPSTREAM_BASE};
use crate::error::Problem;

const PREFIX: &str = "LONGHAUL_";
/// Prefix of the switches that keep the names of the original systems.
const SWITCH_PREFIX: &str = "DISABLE_";
/// Variable with the path of the configuration file; not itself a setting.
pub(crate) const CONFIG_VARIABLE: &str = "LONGHAUL_CONFIG";

/// Returns the variables that each switch one feature off.
pub(crate) fn disabling_variables() -> impl Iterator<Item = &'static str> {
    let short = ALL_SETTINGS.iter().filter_map(|entry| entry.short_env);
    short.filter(|name| name.starts_with(SWITCH_PREFIX))
}

/// Builds the problem for a key that no setting has; `all` are the candidates to suggest.
pub(super) fn unknown_key(
    key: &str,
    origin: &Origin,
    all: impl Iterator<Item = &'static str>,
) -> Problem {
    let mut settings = ALL_SETTINGS.iter();
    let meant = match key {
        "upstream.url" | "upstream.base_url" => UPSTREAM_BASE.key,
        // A flag may be shorter than its setting's key.
        _ => settings
            .find(|entry| entry.flag.is_some_and(|flag| flag.name == key))
            .map_or(key, |entry| entry.key),
    };
    unknown_name(origin, key, nearest_name(meant, all))
}

/// Builds the problem for a name from `place`; `near` is the known name that it resembles.
fn unknown_name(place: impl Display, name: &str, near: Option<&str>) -> Problem {
    let advice = match near {
        Some(near) => format!("did you mean {near}?"),
        None => "`longhaul defaults` lists them".to_owned(),
    };
    Problem::Setting(format!("{place}: no setting is called {name}; {advice}"))
}

/// Returns the entry of `all` that differs from `name` by at most one letter, or by two swapped ones. A name
/// further off means something else.
fn nearest_name<'n>(name: &str, mut all: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    all.find(|known| strsim::osa_distance(known, name) <= 1)
}

/// Returns a problem for each variable that looks like a setting but is unknown. Another program
/// may own such a variable, so these problems never prevent a start.
pub(crate) fn unknown_variables(env: &BTreeMap<String, String>) -> Vec<Problem> {
    let short = ALL_SETTINGS.iter().filter_map(|entry| entry.short_env);
    let short = short.filter(|name| name.starts_with(PREFIX) || name.starts_with(SWITCH_PREFIX));
    let mut known: Vec<String> = short.map(str::to_owned).collect();
    known.extend(ALL_SETTINGS.iter().map(Setting::long_env));
    known.push(CONFIG_VARIABLE.to_owned());
    let switches = || known.iter().filter(|name| name.starts_with(SWITCH_PREFIX));
    let strange = env.keys().filter(|name| !known.contains(name));
    let warnings = strange.filter_map(|name| {
        let near = match name.strip_prefix(PREFIX) {
            Some(own) if is_kubernetes_service(own) => return None,
            Some(own) => nearest_variable(own, &known),
            // A name further off belongs to another program.
            None => Some(nearest_name(name, switches().map(String::as_str))?),
        };
        Some(unknown_name("the environment", name, near))
    });
    warnings.collect()
}

/// Whether Kubernetes sets the variable for a service whose name begins with longhaul:
/// `LONGHAUL_SERVICE_HOST`, `LONGHAUL_PORT_8484_TCP`, `LONGHAUL_ADMIN_SERVICE_PORT`.
fn is_kubernetes_service(own: &str) -> bool {
    own.split('_').any(|word| word == "SERVICE" || word == "PORT")
}

/// Returns the known variable that `LONGHAUL_` followed by `own` resembles.
fn nearest_variable<'k>(own: &str, known: &'k [String]) -> Option<&'k str> {
    let rest = |name: &'k String| name.strip_prefix(PREFIX).unwrap_or(name);
    let near = nearest_name(own, known.iter().map(rest))?;
    let mut known = known.iter();
    known.find(|name| rest(name) == near).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, expect: Option<&str>) {
        let env = BTreeMap::from([(name.to_owned(), "1".to_owned())]);
        let warnings: Vec<String> =
            unknown_variables(&env).iter().map(Problem::to_string).collect();
        match expect {
            None => assert!(warnings.is_empty(), "{warnings:?}"),
            Some(words) => {
                assert!(warnings.len() == 1 && warnings[0].ends_with(words), "{warnings:?}");
            }
        }
    }

    #[test]
    fn suggests_the_setting_for_a_misspelt_variable() {
        check(
            "LONGHAUL_WINDOWS",
            Some("no setting is called LONGHAUL_WINDOWS; did you mean LONGHAUL_WINDOW?"),
        );
        check("LONGHAUL_FOO", Some("`longhaul defaults` lists them"));
        check("LONGHAUL_DISABLE_PRUNE", Some("did you mean DISABLE_PRUNE?"));
        check("DISABLE_PRUN", Some("did you mean DISABLE_PRUNE?"));
        check("DISABLE_AUTO_COMPACT", Some("did you mean DISABLE_AUTOCOMPACT?"));
        check("LONGHAUL_UPSTREM", Some("did you mean LONGHAUL_UPSTREAM?"));
    }

    #[test]
    fn suggests_a_key_that_is_near_or_that_a_flag_sets() {
        for (key, near) in [
            ("upstream", Some("upstream.base")),
            ("upstream.url", Some("upstream.base")),
            ("store", Some("store.at")),
            ("summary_model", Some("summary.model")),
            ("widnow", Some("window")),
            ("compact.summary", None),
            ("store.url", None),
            ("modell", None),
        ] {
            let all = ALL_SETTINGS.iter().map(|entry| entry.key);
            let problem = unknown_key(key, &Origin::Default, all).to_string();
            let advice = near.map(|near| format!("did you mean {near}?"));
            let advice = advice.as_deref().unwrap_or("`longhaul defaults` lists them");
            assert!(problem.ends_with(advice), "{problem}");
        }
    }

    #[test]
    fn known_and_foreign_variables_yield_no_suggestion() {
        for entry in ALL_SETTINGS {
            check(&entry.long_env(), None);
            entry.short_env.into_iter().for_each(|name| check(name, None));
        }
        for name in [
            "LONGHAUL_CONFIG",
            "LONGHAUL_SERVICE_HOST",
            "LONGHAUL_SERVICE_PORT_ADMIN",
            "LONGHAUL_PORT",
            "LONGHAUL_PORT_8484_TCP_ADDR",
            "LONGHAUL_ADMIN_SERVICE_HOST",
            "DISABLE_TELEMETRY",
            "DISABLE_AUTO_UPDATE",
            "OPENAI_API_KEY",
        ] {
            check(name, None);
        }
    }
}
