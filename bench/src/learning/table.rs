//! The tables of the page, and the goals.

use super::contender::LearningContender;
use super::instance::Setting;
use super::record::{InstanceKind, LearningResults, LearningSample};
use crate::markdown::format_table;
use crate::results::{CampaignResults, ResultsPage};

impl LearningResults {
    /// Finds the results of a contender on the instances of a kind.
    pub fn find(
        &self,
        kind: InstanceKind,
        contender: LearningContender,
    ) -> Option<&LearningSample> {
        let mut samples = self.samples.iter();
        samples.find(|sample| sample.kind() == kind && sample.contender == contender)
    }

    /// Returns the lines of a setting, those without samples left out.
    fn make_rows(&self, setting: Setting) -> Vec<[String; COLUMNS.len()]> {
        let mut rows = Vec::new();
        for kind in InstanceKind::list_all()
            .into_iter()
            .filter(|kind| kind.setting == setting)
        {
            let found = LearningContender::ALL.map(|contender| self.find(kind, contender));
            let Some(sample) = found.iter().flatten().next() else {
                continue;
            };
            let mut cells = vec![
                kind.nodes.to_string(),
                kind.steps.to_string(),
                sample.over_ideal.len().to_string(),
            ];
            cells.extend(found.map(|sample| sample.map_or_else(String::new, LearningSample::text)));
            rows.extend(<[String; COLUMNS.len()]>::try_from(cells));
        }
        rows
    }

    /// Formats the tables of all settings that have samples.
    pub fn format_settings(&self) -> String {
        let mut text = String::new();
        for setting in Setting::ALL {
            let rows = self.make_rows(setting);
            if !rows.is_empty() {
                let table = format_table(COLUMNS, rows);
                text += &format!("\n`{setting}`: {}.\n\n{table}", setting.describe());
            }
        }
        text
    }
}

const COLUMNS: [&str; 7] = [
    "nodes:",
    "steps:",
    "instances:",
    "paper",
    "fpm before",
    "fpm",
    "adaptive",
];

impl CampaignResults for LearningResults {
    const PAGE: ResultsPage = ResultsPage { name: "learning" };

    fn format_tables(&self) -> anyhow::Result<String> {
        let origin = &self.origin;
        let goals = format_table(["goal", "found", "met"], self.check_goals());
        Ok(format!(
            "Simulated by `{}` on one core ({}); every instance's ratio in [`bench/results/learning.json`](learning.json).\n\n\
             {goals}\n\
             The tables have mean / ninth decile / worst of the instances.\n{}",
            origin.command,
            origin.machine.cpu.as_deref().unwrap_or("unknown"),
            self.format_settings(),
        ))
    }
}
