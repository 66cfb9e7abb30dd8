//! Command line options.

use crate::sessions::Part;
use longhaul_core::policy::Profile;

/// Parsed command line options.
pub(crate) struct Options {
    /// Sessions to measure.
    pub(crate) part: Part,
    /// Profiles with their names.
    pub(crate) profiles: Vec<(&'static str, Profile)>,
    /// Reports to print.
    pub(crate) windows: bool,
    pub(crate) hundred: bool,
    pub(crate) work: bool,
}

impl Options {
    /// Reads the arguments of this process:
    ///
    /// - `--windows` or `--hundred` prints one of the reports;
    /// - `--work` prints the third, which needs valgrind;
    /// - `--build` or `--judge` takes one part of the sessions;
    /// - `--auto` or `--frugal` takes one profile.
    pub(crate) fn read() -> Self {
        let flags: Vec<String> = std::env::args().skip(1).collect();
        let has = |flag: &str| flags.iter().any(|it| it == flag);
        let mut profiles = vec![("auto", Profile::Auto), ("frugal", Profile::Frugal)];
        if has("--auto") || has("--frugal") {
            profiles.retain(|(name, _)| has(&format!("--{name}")));
        }
        Self {
            part: match (has("--build"), has("--judge")) {
                (true, false) => Part::Build,
                (false, true) => Part::Judge,
                (_, _) => Part::All,
            },
            profiles,
            windows: !has("--hundred") && !has("--work"),
            hundred: !has("--windows") && !has("--work"),
            work: has("--work"),
        }
    }
}
