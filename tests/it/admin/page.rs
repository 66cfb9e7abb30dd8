//! The metrics page, parsed with a third-party parser.

use std::net::SocketAddr;
use std::time::Duration;

use prometheus_parse::{Sample, Scrape, Value};
use tokio::time::{sleep, timeout};

use super::{body, get};

/// A generous limit that only bounds a hang.
const PATIENCE: Duration = Duration::from_secs(30);
/// Delay between two reads of the page.
const LOOK: Duration = Duration::from_millis(10);

/// A metrics page, parsed with a third-party parser.
pub(super) struct Metrics(Scrape);

impl Metrics {
    pub(super) async fn of(admin: SocketAddr) -> Self {
        let answer = get(admin, "/metrics").await;
        let page = body(&answer, "200");
        assert!(answer.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"));
        let lines = page.lines().map(|line| Ok(line.to_owned()));
        let scrape = Scrape::parse(lines).unwrap();
        let samples = page.lines().filter(|line| !line.starts_with('#')).count();
        let read: usize = scrape.samples.iter().map(lines_of).sum();
        assert_eq!(read, samples, "a line was not understood:\n{page}");
        Self(scrape)
    }

    /// Returns the value of a metric with exactly these labels.
    #[track_caller]
    pub(super) fn number(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        match self.sample(name, labels).value {
            Value::Counter(number) | Value::Gauge(number) | Value::Untyped(number) => number,
            Value::Histogram(_) | Value::Summary(_) => panic!("{name} is no number"),
        }
    }

    #[track_caller]
    fn sample(&self, name: &str, labels: &[(&str, &str)]) -> &Sample {
        let fits = |sample: &&Sample| {
            sample.metric == name
                && sample.labels.len() == labels.len()
                && labels.iter().all(|(label, value)| sample.labels.get(label) == Some(*value))
        };
        let mut found = self.0.samples.iter().filter(fits);
        let sample = found.next();
        assert!(found.next().is_none(), "{name} {labels:?} is there twice");
        sample.unwrap_or_else(|| panic!("{name} {labels:?} is not there"))
    }

    /// Returns the count of a histogram; its buckets must ascend to that count.
    #[track_caller]
    pub(super) fn counted(&self, name: &str) -> f64 {
        let Value::Histogram(buckets) = &self.sample(name, &[]).value else {
            panic!("{name} is no histogram");
        };
        assert!(buckets.is_sorted_by(|one, next| {
            one.less_than < next.less_than && one.count <= next.count
        }));
        let last = buckets.last().unwrap();
        assert!(last.less_than.is_infinite());
        assert!((last.count - self.number(&format!("{name}_count"), &[])).abs() < 0.5);
        last.count
    }

    #[track_caller]
    pub(super) fn check(&self, name: &str, labels: &[(&str, &str)], expect: u32) {
        let number = self.number(name, labels);
        let off = (number - f64::from(expect)).abs();
        assert!(off < 0.5, "{name} {labels:?}: {number}, not {expect}");
    }
}

/// Waits until the metric with these labels is at least one. The process does not announce it, so
/// the page is polled.
pub(crate) async fn has_counted(admin: SocketAddr, name: &str, labels: &[(&str, &str)]) {
    let counted = async {
        while Metrics::of(admin).await.number(name, labels) < 0.5 {
            sleep(LOOK).await;
        }
    };
    let waited = timeout(PATIENCE, counted).await;
    waited.unwrap_or_else(|_| panic!("{name} {labels:?} stays zero"));
}

/// Number of lines on the page that a sample was parsed from.
fn lines_of(sample: &Sample) -> usize {
    match &sample.value {
        Value::Histogram(buckets) => buckets.len(),
        Value::Counter(_) | Value::Gauge(_) | Value::Untyped(_) => 1,
        Value::Summary(_) => panic!("there is no summary"),
    }
}
