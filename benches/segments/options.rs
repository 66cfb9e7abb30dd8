//! Command line options.

use crate::sessions::Part;
use longhaul_core::policy::Profile;

/// Parsed command line options.
pub(crate) struct Options {
    /// Sessions to measure.
    pub(crate) part: Part,
    /// Profiles with their names.
    pub(crate) profiles: Vec<(&'static str, Profile)>,
    pub(crate) detail: Detail,
    /// Reports to print.
    pub(crate) windows: bool,
    pub(crate) hundred: bool,
    pub(crate) work: bool,
}

/// Detail of a run of a hundred windows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Detail {
    /// Every cache rule.
    Full,
    /// The rules of clients without cache marks, and the lost facts on which numbers may be chosen.
    Building,
    /// As [`Detail::Building`], but only the last request is sent, to a program that has seen none.
    End,
}

impl Options {
    /// Reads the arguments of this process:
    ///
    /// - `--windows` or `--hundred` prints one of the reports;
    /// - `--work` prints the third, which needs valgrind;
    /// - `--build` or `--judge` takes one part of the sessions;
    /// - `--auto` or `--frugal` takes one profile;
    /// - `--lost` lists the lost facts, and leaves out the rule of marks;
    /// - `--end` sends only the last request of a hundred windows.
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
            detail: match (has("--end"), has("--lost")) {
                (true, _) => Detail::End,
                (false, true) => Detail::Building,
                (false, false) => Detail::Full,
            },
            windows: !has("--hundred") && !has("--work"),
            hundred: !has("--windows") && !has("--work"),
            work: has("--work"),
        }
    }
}
