//! `isochron campaign`: any programs measured against each other, with `isochron-campaign`.

mod compare;
mod options;
mod plan;
mod report;
mod run;
mod script;
mod status;

use isochron_campaign::CampaignError;
pub use options::CampaignCommand;

use crate::failure::Failure;
use crate::output::Answer;

/// Runs a subcommand.
pub fn run(command: &CampaignCommand) -> Result<Answer, Failure> {
    match command {
        CampaignCommand::Plan(arguments) => plan::run(arguments),
        CampaignCommand::Run(arguments) => run::run(arguments),
        CampaignCommand::Status(arguments) => status::run(arguments),
        CampaignCommand::Report(arguments) => report::run(arguments),
        CampaignCommand::Compare(arguments) => compare::run(arguments),
        CampaignCommand::Script(arguments) => script::run(arguments),
    }
}

impl From<CampaignError> for Failure {
    fn from(error: CampaignError) -> Self {
        if error.is_of_input() {
            Self::input(error)
        } else {
            Self::run(error)
        }
    }
}

/// Writes a time in the units that suit it.
fn describe_time(time_s: f64) -> String {
    if time_s < 120.0 {
        format!("{time_s:.0} s")
    } else if time_s < 7200.0 {
        format!("{:.0} min", time_s / 60.0)
    } else {
        format!("{:.1} h", time_s / 3600.0)
    }
}

/// Writes bytes in the units that suit them.
fn describe_bytes(bytes: u64) -> String {
    let bytes = bytes as f64;
    if bytes < 1e6 {
        format!("{:.0} kB", bytes / 1e3)
    } else if bytes < 1e9 {
        format!("{:.0} MB", bytes / 1e6)
    } else {
        format!("{:.1} GB", bytes / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units_that_suit_them() {
        let bytes = [0, 1500, 999_000, 2_000_000, 12_340_000_000].map(describe_bytes);
        assert_eq!(bytes, ["0 kB", "2 kB", "999 kB", "2 MB", "12.3 GB"]);
    }

    #[test]
    fn times_have_units_that_suit_them() {
        let times = [0.4, 119.0, 120.0, 7199.0, 9000.0].map(describe_time);
        assert_eq!(times, ["0 s", "119 s", "2 min", "120 min", "2.5 h"]);
    }
}
