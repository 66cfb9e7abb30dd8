//! The trace destination, from the OpenTelemetry environment variables
//! (<https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/>).
//!
//! They are not longhaul settings: operators set them for all their programs. So an unsupported
//! value does not prevent the start; longhaul logs it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use http::Uri;

use crate::config::uri_origin;

/// Reason given by builds without trace export.
pub(super) const NOT_BUILT: &str =
    "OTEL_EXPORTER_OTLP_ENDPOINT is set, and this build was made without the feature otlp";
/// The only supported transport.
const PROTOCOL: &str = "http/protobuf";
/// The only supported exporter.
const EXPORTER: &str = "otlp";
/// Default timeout of one export, from the specification.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// Trace export requested by the environment.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum TraceDestination {
    Collector(Collector),
    /// Traces are requested, but cannot be exported for this reason.
    Unusable(String),
    Disabled,
}

#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Collector {
    /// URL of the export requests.
    pub(super) endpoint: Uri,
    /// PEM certificates trusted in addition to the system's.
    pub(super) ca_file: Option<PathBuf>,
    pub(super) timeout: Duration,
}

impl Collector {
    /// Returns scheme, host and port. The path and user of an endpoint may be secrets.
    pub(crate) fn origin(&self) -> String {
        uri_origin(&self.endpoint)
    }
}

impl TraceDestination {
    /// Parses the variables for this build.
    pub(crate) fn from_env(env: &BTreeMap<String, String>) -> Self {
        let wanted = parse_env(env);
        if cfg!(not(feature = "otlp")) && matches!(wanted, Self::Collector(_)) {
            return Self::Unusable(NOT_BUILT.to_owned());
        }
        wanted
    }
}

/// Parses the variables for a build with trace export.
fn parse_env(env: &BTreeMap<String, String>) -> TraceDestination {
    let variable = |name: &str| {
        let value = env.get(name).map(|value| value.trim());
        value.filter(|value| !value.is_empty())
    };
    let of_traces = |name: &str| {
        let own = variable(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}"));
        own.or_else(|| variable(&format!("OTEL_EXPORTER_OTLP_{name}")))
    };
    if variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return TraceDestination::Disabled;
    }
    let endpoint = match (
        variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
        variable("OTEL_EXPORTER_OTLP_ENDPOINT"),
    ) {
        (Some(own), _) => own.to_owned(),
        (None, Some(all)) => format!("{}/v1/traces", all.trim_end_matches('/')),
        (None, None) => return TraceDestination::Disabled,
    };
    match variable("OTEL_TRACES_EXPORTER") {
        Some("none") => return TraceDestination::Disabled,
        Some(list) if !list.split(',').any(|one| one.trim() == EXPORTER) => {
            return TraceDestination::Unusable(format!(
                "OTEL_TRACES_EXPORTER does not name {EXPORTER}, the only supported exporter"
            ));
        }
        Some(_) | None => {}
    }
    if of_traces("PROTOCOL").is_some_and(|protocol| protocol != PROTOCOL) {
        return TraceDestination::Unusable(format!(
            "OTEL_EXPORTER_OTLP_PROTOCOL names another protocol than {PROTOCOL}; use {PROTOCOL}, which \
             collectors serve at port 4318"
        ));
    }
    let usable =
        |uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some();
    let Some(endpoint) = endpoint.parse().ok().filter(usable) else {
        return TraceDestination::Unusable(
            "OTEL_EXPORTER_OTLP_ENDPOINT is not a URL that begins with http:// or https://"
                .to_owned(),
        );
    };
    let milliseconds = of_traces("TIMEOUT").and_then(|value| value.parse().ok());
    TraceDestination::Collector(Collector {
        endpoint,
        ca_file: of_traces("CERTIFICATE").map(PathBuf::from),
        timeout: milliseconds.map_or(DEFAULT_TIMEOUT, Duration::from_millis),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> TraceDestination {
        let pairs = variables.iter();
        parse_env(&pairs.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    /// Checks the URL of the export requests.
    fn check(variables: &[(&str, &str)], expect: &str) {
        let TraceDestination::Collector(collector) = of(variables) else {
            panic!("{variables:?}");
        };
        assert_eq!(collector.endpoint, *expect, "{variables:?}");
    }

    const ALL: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
    const OWN: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";

    #[test]
    fn general_endpoint_gets_the_traces_path_appended() {
        check(&[(ALL, "http://c:4318")], "http://c:4318/v1/traces");
        check(&[(ALL, "http://c:4318/")], "http://c:4318/v1/traces");
        check(&[(ALL, "https://c/otlp")], "https://c/otlp/v1/traces");
    }

    #[test]
    fn traces_endpoint_is_used_unchanged() {
        check(&[(OWN, "http://c:4318/x"), (ALL, "http://d")], "http://c:4318/x");
    }

    #[test]
    fn tracing_is_disabled_without_an_endpoint() {
        assert_eq!(of(&[]), TraceDestination::Disabled);
        assert_eq!(of(&[(ALL, ""), ("OTEL_SERVICE_NAME", "x")]), TraceDestination::Disabled);
    }

    #[test]
    fn sdk_or_exporter_switch_disables_tracing() {
        for off in [("OTEL_SDK_DISABLED", "TRUE"), ("OTEL_TRACES_EXPORTER", "none")] {
            assert_eq!(of(&[(ALL, "http://c"), off]), TraceDestination::Disabled, "{off:?}");
        }
        check(&[(ALL, "http://c"), ("OTEL_SDK_DISABLED", "false")], "http://c/v1/traces");
        check(
            &[(ALL, "http://c"), ("OTEL_TRACES_EXPORTER", "console, otlp")],
            "http://c/v1/traces",
        );
    }

    #[test]
    fn unusable_setting_is_reported_without_its_value() {
        for (name, value) in [
            (ALL, "c:4318/secret"),
            (ALL, "grpc://secret"),
            (ALL, "not a url secret"),
            ("OTEL_TRACES_EXPORTER", "secret"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
        ] {
            let mut env = vec![(ALL, "http://c")];
            env.retain(|(other, _)| *other != name);
            env.push((name, value));
            let TraceDestination::Unusable(why) = of(&env) else {
                panic!("{name}={value}");
            };
            assert!(!why.contains("secret"), "{why}");
        }
    }

    #[test]
    fn an_endpoint_is_shown_without_its_path_and_user() {
        let TraceDestination::Collector(collector) = of(&[(ALL, "https://user:word@c:1/path")])
        else {
            panic!();
        };
        assert_eq!(collector.origin(), "https://c:1");
    }

    #[cfg(not(feature = "otlp"))]
    #[test]
    fn build_without_tracing_reports_the_missing_feature() {
        let env = BTreeMap::from([(ALL.to_owned(), "http://c".to_owned())]);
        let TraceDestination::Unusable(why) = TraceDestination::from_env(&env) else {
            panic!();
        };
        assert!(why.contains("feature otlp"), "{why}");
    }
}
