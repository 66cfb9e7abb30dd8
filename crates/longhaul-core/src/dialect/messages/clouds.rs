//! Paths of clouds, which name the model in place of the body.

use std::sync::LazyLock;

use serde_json::json;

use crate::conversation::PathParams;
use crate::dialect::percent_decoded;

const PATHS: &str = include_str!("cloud_paths.tsv");
/// Key of the API's version in a body whose path names the model.
pub(in crate::dialect) const VERSION_KEY: &str = "anthropic_version";

/// A path, taken apart by a row of the table.
#[derive(Clone, Copy, Debug)]
pub(in crate::dialect) struct CloudPath<'p> {
    /// Part before the tenant, or before the end if there is no tenant.
    pub(in crate::dialect) folder: &'p str,
    tenant: &'p str,
    /// Part before the model.
    before: &'p str,
    /// Model, percent-encoded. Empty if the body names the model.
    model: &'p str,
    row: Row,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    purpose: &'static str,
    /// Texts of the end before and after the model.
    end: (&'static str, &'static str),
    error: &'static str,
    tenant: Option<&'static str>,
}

/// Every request is compared with the rows, so they are read once.
static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let rows = PATHS.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let mut columns = line.split('\t');
        let (purpose, end) = (columns.next()?, columns.next()?);
        let end = end.split_once("{model}").unwrap_or(("", end));
        Some(Row { purpose, end, error: columns.next()?, tenant: columns.next() })
    });
    rows.collect()
});

impl<'p> CloudPath<'p> {
    /// Takes a path apart. Returns `None` for a path of no cloud.
    pub(in crate::dialect) fn parse(path: &'p str) -> Option<Self> {
        ROWS.iter().find_map(|&row| {
            let rest = path.strip_suffix(row.end.1)?;
            let has_model = !row.end.0.is_empty();
            let at = if has_model { rest.rfind('/')? + 1 } else { rest.len() };
            let (before, model) = rest.split_at(at);
            let rest = before.strip_suffix(row.end.0).filter(|_| model.is_empty() != has_model)?;
            let split = row.tenant.and_then(|mark| rest.rsplit_once(mark));
            let (folder, tenant) = split.unwrap_or((rest, ""));
            let tenant = tenant.split('/').next().unwrap_or_default();
            Some(Self { folder, tenant, before, model, row })
        })
    }

    /// Whether a request to the path counts tokens.
    pub(in crate::dialect) fn counts(self) -> bool {
        self.row.purpose == "count"
    }

    pub(in crate::dialect) fn params(self) -> PathParams {
        PathParams {
            // A plus sign in a path stands for itself.
            model: percent_decoded(&self.model.replace('+', "%2B")),
            streams: self.row.purpose == "stream",
            tenant: self.tenant.to_owned(),
        }
    }

    /// Returns the path for a whole reply of the same model, or of `other`.
    pub(in crate::dialect) fn for_answer(self, other: Option<&str>) -> Option<String> {
        let same_place = |row: &&Row| row.purpose == "answer" && row.end.0 == self.row.end.0;
        let other = other.map(|name| name.replace('%', "%25").replace('/', "%2F"));
        let model = other.as_deref().unwrap_or(self.model);
        Some([self.before, model, ROWS.iter().find(same_place)?.end.1].concat())
    }

    /// Formats an error of longhaul itself. Returns `None` if the cloud's errors are those of the API.
    pub(in crate::dialect) fn error_body(self, code: &str, message: &str) -> Option<Vec<u8>> {
        let error = || json!({self.row.error: message, "code": code}).to_string();
        (self.row.error != "-").then(|| error().into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOGLE: &str = "/v1/projects/p/locations/global/publishers/anthropic/models/";

    #[test]
    fn a_path_states_folder_tenant_model_and_purpose() {
        let parts = |path: &str| {
            let path = CloudPath::parse(path)?;
            let PathParams { model, streams, tenant } = path.params();
            Some((path.folder.to_owned(), tenant, model, (streams, path.counts())))
        };
        let found = |folder: &str, tenant: &str, model: &str, purpose| {
            Some((folder.to_owned(), tenant.to_owned(), model.to_owned(), purpose))
        };
        let (answer, stream, count) = ((false, false), (true, false), (false, true));
        let models = "projects/p/locations/global/publishers/anthropic/models";
        let dated = "claude-haiku-4-5@20251001";
        for (path, expect) in [
            (format!("/v1/{models}/m:rawPredict"), found("/v1", "p", "m", answer)),
            (format!("/v1/{models}/m+x:rawPredict"), found("/v1", "p", "m+x", answer)),
            (format!("/v1beta1/{models}/m:streamRawPredict"), found("/v1beta1", "p", "m", stream)),
            (format!("/{models}/{dated}:rawPredict"), found("", "p", dated, answer)),
            (
                format!("/a/b/v1/{models}/a%40b%3A1:rawPredict"),
                found("/a/b/v1", "p", "a@b:1", answer),
            ),
            (format!("/v1/{models}/count-tokens:rawPredict"), found("/v1", "p", "", count)),
            ("/x/publishers/anthropic/models/m:rawPredict".into(), found("/x", "", "m", answer)),
            (
                "/model/us.anthropic.c-v1%3A0/invoke".into(),
                found("", "", "us.anthropic.c-v1:0", answer),
            ),
            (
                "/aws/model/arn%3Aaws%2Fx/invoke-with-response-stream".into(),
                found("/aws", "", "arn:aws/x", stream),
            ),
            ("/model//invoke".into(), None),
            ("/model/m/converse".into(), None),
            (format!("/v1/{models}/:rawPredict"), None),
            (format!("/v1/{models}/a/b:rawPredict"), None),
            (format!("/v1/{models}/m:predict"), None),
            ("/v1/projects/p/publishers/google/models/m:rawPredict".into(), None),
            ("/v1/messages".into(), None),
        ] {
            assert_eq!(parts(&path), expect, "{path}");
        }
    }

    #[test]
    fn own_calls_ask_for_a_whole_reply_of_any_model() {
        let stream = format!("{GOOGLE}m@1:streamRawPredict");
        let path = CloudPath::parse(&stream).unwrap();
        assert_eq!(path.for_answer(None), Some(format!("{GOOGLE}m@1:rawPredict")));
        assert_eq!(path.for_answer(Some("n/o")), Some(format!("{GOOGLE}n%2Fo:rawPredict")));
    }
}
