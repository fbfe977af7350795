//! Runs of a loaded plan that take much longer than it predicts.

use crate::plan::Plan;
use isochron_hierarchy::printable::show_path;

/// Least ratio of measured to predicted seconds that is worth a notice. On a host with three times as many busy threads as
/// cores, runs beyond [`LEAST_S`] took up to 2.5 times their prediction.
const SURPRISING: f64 = 5.0;

/// Least difference in seconds that is worth one: a process takes about as long to begin and end.
const LEAST_S: f64 = 0.1;

/// Compares the seconds of a multiplication with the prediction of its plan, if that was loaded. Returns the words about a
/// run that took much longer: its hosts are busier or slower than those that the plan was made on.
pub(crate) fn describe_overrun(plan: &Plan, wall_s: f64) -> Option<String> {
    let file = show_path(plan.file()?);
    let candidates = &plan.decision().candidates;
    let chosen = candidates.iter().find(|candidate| candidate.way == plan.way());
    let predicted_s = chosen.map(|chosen| chosen.wall_s).or(plan.predicted_s())?;
    is_surprising(predicted_s, wall_s).then(|| {
        format!(
            "the plan in {file} predicts {}, and the multiplication took {}, {:.0} times as long: devices or links are busier \
             or slower than when it was made; make a new plan if that lasts",
            show_seconds(predicted_s),
            show_seconds(wall_s),
            wall_s / predicted_s
        )
    })
}

fn show_seconds(seconds: f64) -> String {
    if seconds < 0.1 { format!("{:.3} ms", 1e3 * seconds) } else { format!("{seconds:.3} s") }
}

fn is_surprising(predicted_s: f64, wall_s: f64) -> bool {
    predicted_s > 0.0 && wall_s > SURPRISING * predicted_s && wall_s > predicted_s + LEAST_S
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_runs_of_long_predictions_are_surprising() {
        for (predicted_s, wall_s, expected) in [
            (1.0, 10.0, true),
            (1.0, 5.1, true),
            (1.0, 4.9, false),
            (1.0, 0.1, false),
            (0.001, 0.09, false),
            (0.001, 0.2, true),
            (0.0, 1.0, false),
            (f64::NAN, 1.0, false),
        ] {
            assert_eq!(is_surprising(predicted_s, wall_s), expected, "{predicted_s} {wall_s}");
        }
    }
}
