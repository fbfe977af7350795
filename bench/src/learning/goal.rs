//! The goals of the contender that learns while it runs.

use super::contender::LearningContender;
use super::decision::{DEVICES, NODES};
use super::instance::Setting;
use super::record::{InstanceKind, LearningResults, LearningSample};
use crate::markdown::yes_or_no;

/// The means that a first sketch of learning in the run reached, without rounding to blocks.
const SKETCH: [(InstanceKind, f64); 10] = [
    (kind(Setting::Unlike, 8, 30), 1.135),
    (kind(Setting::Unlike, 8, 150), 1.047),
    (kind(Setting::Unlike, 8, 1000), 1.028),
    (kind(Setting::StartUp, 8, 30), 1.150),
    (kind(Setting::StartUp, 8, 150), 1.043),
    (kind(Setting::StartUp, 8, 1000), 1.018),
    (kind(Setting::Cliff, 8, 30), 1.41),
    (kind(Setting::Cliff, 8, 150), 1.090),
    (kind(Setting::Cliff, 8, 1000), 1.028),
    (kind(Setting::Alike, 16, 30), 1.028),
];

/// The largest means of many alike nodes. The even split in whole blocks takes 1.008 itself, and a look of a sixteenth 0.002
/// of 30 steps.
const MANY_ALIKE: [(InstanceKind, f64); 3] = [
    (kind(Setting::Alike, 90, 30), 1.011),
    (kind(Setting::Alike, 90, 150), 1.01),
    (kind(Setting::Alike, 90, 1000), 1.01),
];

/// Numbers of nodes, and of steps, of the goals of the worst instance.
const WORST_NODES: [usize; 3] = [4, 8, 16];
const WORST_STEPS: u64 = 150;

/// The largest seconds of a decision on a large cluster.
const DECISION_S: f64 = 0.05;

const fn kind(setting: Setting, nodes: usize, steps: u64) -> InstanceKind {
    InstanceKind {
        setting,
        nodes,
        steps,
    }
}

/// Returns the largest ratio that any instance of a setting may have.
fn limit_worst(setting: Setting) -> f64 {
    match setting {
        Setting::Cliff => 1.25,
        _ => 1.10,
    }
}

impl LearningResults {
    /// Returns a line for each goal: the limit, the figure, and yes or no.
    pub fn check_goals(&self) -> Vec<[String; 3]> {
        let mut rows = Vec::new();
        for (kind, most) in SKETCH.into_iter().chain(MANY_ALIKE) {
            let found = self
                .find(kind, LearningContender::Adaptive)
                .map(LearningSample::mean);
            let InstanceKind {
                setting,
                nodes,
                steps,
            } = kind;
            let goal = format!("{nodes} nodes, {setting}, {steps} steps: mean at most {most:.3}");
            rows.push(check_goal(goal, found, most));
        }
        rows.extend(Setting::ALL.map(|setting| self.check_worst(setting)));
        rows.push(self.check_decision());
        rows
    }

    /// Returns the line of the worst instances of a setting.
    fn check_worst(&self, setting: Setting) -> [String; 3] {
        let found = WORST_NODES
            .into_iter()
            .filter_map(|nodes| {
                self.find(
                    kind(setting, nodes, WORST_STEPS),
                    LearningContender::Adaptive,
                )
            })
            .map(LearningSample::worst)
            .reduce(f64::max);
        let most = limit_worst(setting);
        let goal =
            format!("4, 8 and 16 nodes, {setting}, {WORST_STEPS} steps: worst at most {most:.2}");
        check_goal(goal, found, most)
    }

    /// Returns the line of the time of a decision.
    fn check_decision(&self) -> [String; 3] {
        let found_s = self.decisions_s.iter().copied().fold(f64::NAN, f64::max);
        let most_ms = 1e3 * DECISION_S;
        [
            format!("{NODES} nodes of {DEVICES} devices: a decision takes at most {most_ms} ms"),
            format!("{:.0} ms, the longest", 1e3 * found_s),
            yes_or_no(found_s <= DECISION_S),
        ]
    }
}

fn check_goal(goal: String, found: Option<f64>, most: f64) -> [String; 3] {
    let text = found.map_or_else(String::new, |found| format!("{found:.3}"));
    let met = found.map_or_else(String::new, |found| yes_or_no(found <= most));
    [goal, text, met]
}
