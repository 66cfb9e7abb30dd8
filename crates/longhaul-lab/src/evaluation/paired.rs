//! Statistics of paired outcomes: each request was answered with the changed history and, as a control,
//! with the unchanged history a second time.
//!
//! - A share has Wilson's score interval (Journal of the American Statistical Association 22, 1927).
//! - The difference of two shares over the same requests has Newcombe's interval, method 10 (Statistics in
//!   Medicine 17, 1998, 2635–2650). The interval stays within ±1, is defined without any disagreement, and
//!   covers well from about ten pairs on, unlike the normal interval.
//! - The test for a difference is `McNemar`'s, exact (Psychometrika 12, 1947).
//!
//! All of them are closed formulas, so equal outcomes give equal figures on every machine.

#[cfg(test)]
mod tests;

use serde::Serialize;

/// The 97.5th percentile of the standard normal distribution, for intervals of 95%.
pub(super) const Z: f64 = 1.959_963_984_540_054;

/// The loss of agreement that an evaluation should be able to exclude: ten percentage points.
pub(crate) const MARGIN: f64 = 0.1;

/// Minimum pairs for a conclusion. Below, the intervals are too rough.
pub(crate) const MIN_PAIRS: u32 = 10;

/// Pairs by their two outcomes: whether the step agrees with the original step.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub(crate) struct PairedCounts {
    /// Both agree.
    pub(crate) both: u32,
    /// Only the step with the changed history agrees.
    pub(crate) only_treatment: u32,
    /// Only the control agrees.
    pub(crate) only_control: u32,
    /// Neither agrees.
    pub(crate) neither: u32,
}

/// A share with its interval of 95%.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[expect(clippy::struct_field_names, reason = "the names in the report for programs")]
pub(crate) struct Share {
    /// The share, from 0 to 1.
    pub(crate) share: f64,
    /// Lower end of the interval.
    pub(crate) low: f64,
    /// Upper end of the interval.
    pub(crate) high: f64,
}

/// The comparison of both outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct PairedResult {
    /// Number of pairs.
    pub(crate) pairs: u32,
    /// Agreement with the changed history.
    pub(crate) treatment: Share,
    /// Agreement of the control.
    pub(crate) control: Share,
    /// Agreement with the changed history minus that of the control, from -1 to 1.
    pub(crate) difference: Share,
    /// Probability of a difference at least this large by chance, two-sided.
    pub(crate) p_value: f64,
    /// The conclusion.
    pub(crate) conclusion: Conclusion,
}

/// The conclusion that the pairs allow.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub(crate) enum Conclusion {
    /// The changed history agrees less often than the control.
    Loss,
    /// A loss of [`MARGIN`] or more is excluded.
    NoLargeLoss,
    /// Neither is certain.
    TooFew {
        /// Pairs that would probably allow a conclusion.
        pairs_needed: u32,
    },
}

impl PairedCounts {
    /// Adds a pair.
    pub(crate) fn add(&mut self, treatment_agrees: bool, control_agrees: bool) {
        let cell = match (treatment_agrees, control_agrees) {
            (true, true) => &mut self.both,
            (true, false) => &mut self.only_treatment,
            (false, true) => &mut self.only_control,
            (false, false) => &mut self.neither,
        };
        *cell += 1;
    }

    /// Returns the number of pairs.
    pub(crate) fn pairs(self) -> u32 {
        self.both + self.only_treatment + self.only_control + self.neither
    }

    /// Computes shares, intervals and conclusion. Returns `None` without pairs.
    pub(crate) fn result(self) -> Option<PairedResult> {
        let pairs = self.pairs();
        if pairs == 0 {
            return None;
        }
        let treatment = Share::wilson(self.both + self.only_treatment, pairs);
        let control = Share::wilson(self.both + self.only_control, pairs);
        let difference = self.difference(treatment, control);
        Some(PairedResult {
            pairs,
            treatment,
            control,
            difference,
            p_value: self.p_value(),
            conclusion: self.conclusion(difference),
        })
    }

    /// Returns the difference with the interval of Newcombe's method 10.
    fn difference(self, treatment: Share, control: Share) -> Share {
        let difference = treatment.share - control.share;
        let phi = self.correlation();
        // The distance to the limit that two correlated intervals of these widths combine to.
        let distance = |one: f64, other: f64| {
            let square = one * one - 2.0 * phi * one * other + other * other;
            square.max(0.0).sqrt()
        };
        let down = distance(treatment.share - treatment.low, control.high - control.share);
        let up = distance(treatment.high - treatment.share, control.share - control.low);
        Share {
            share: difference,
            low: (difference - down).max(-1.0),
            high: (difference + up).min(1.0),
        }
    }

    /// Returns the correlation of both outcomes, corrected for continuity as in Newcombe's method 10.
    fn correlation(self) -> f64 {
        let [both, treatment, control, neither] =
            [self.both, self.only_treatment, self.only_control, self.neither].map(f64::from);
        let product =
            (both + treatment) * (control + neither) * (both + control) * (treatment + neither);
        if product <= 0.0 {
            return 0.0;
        }
        let crossed = both * neither - treatment * control;
        let corrected = if crossed > 0.0 {
            (crossed - f64::from(self.pairs()) / 2.0).max(0.0)
        } else {
            crossed
        };
        corrected / product.sqrt()
    }

    /// Returns the two-sided probability of `McNemar`'s exact test.
    fn p_value(self) -> f64 {
        let fewer = self.only_treatment.min(self.only_control);
        let differing = self.only_treatment + self.only_control;
        // Logarithms, since the coefficients of a thousand pairs exceed the range of a number.
        let mut coefficient = 0.0;
        let mut sum = 0.0;
        let half = f64::from(differing) * 0.5_f64.ln();
        for chosen in 0..=fewer {
            if chosen > 0 {
                coefficient += (f64::from(differing - chosen + 1) / f64::from(chosen)).ln();
            }
            sum += (coefficient + half).exp();
        }
        (2.0 * sum).min(1.0)
    }

    fn conclusion(self, difference: Share) -> Conclusion {
        let pairs = self.pairs();
        let is_enough = pairs >= MIN_PAIRS;
        if is_enough && difference.high < 0.0 {
            return Conclusion::Loss;
        }
        if is_enough && difference.low > -MARGIN {
            return Conclusion::NoLargeLoss;
        }
        // The distance that an interval around this difference has to resolve.
        let target = (MARGIN + difference.share).max(-difference.share);
        let differing = f64::from(self.only_treatment + self.only_control) / f64::from(pairs);
        // Without differing pairs, a few may still exist.
        let differing = differing.max(1.0 / f64::from(pairs));
        let needed = differing * (Z / target).powi(2);
        Conclusion::TooFew { pairs_needed: round_up_to_ten(needed).max(pairs + MIN_PAIRS) }
    }
}

/// Rounds a number of pairs up to a multiple of ten. The estimate is not more exact.
fn round_up_to_ten(pairs: f64) -> u32 {
    const MOST: f64 = 1e6;
    let tens = (pairs.min(MOST) / 10.0).ceil();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and a tenth of MOST"
    )]
    let tens = tens.max(0.0) as u32;
    tens * 10
}

impl Share {
    /// Returns `part` of `whole` with Wilson's score interval.
    pub(crate) fn wilson(part: u32, whole: u32) -> Self {
        let (part, whole) = (f64::from(part), f64::from(whole.max(1)));
        let share = part / whole;
        let square = Z * Z;
        let centre = part + square / 2.0;
        let spread = Z * (part * (1.0 - share) + square / 4.0).sqrt();
        Self {
            share,
            low: ((centre - spread) / (whole + square)).max(0.0),
            high: ((centre + spread) / (whole + square)).min(1.0),
        }
    }
}
