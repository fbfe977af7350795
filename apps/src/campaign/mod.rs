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
pub use run::describe_if_asked;

use crate::failure::Failure;
use crate::output::Answer;

/// The exit status of an answer that says that something failed, went slower or was missed, for `--check`.
const BAD: u8 = 3;

impl Answer {
    /// Ends the command with its own status after an answer that is bad.
    fn checked(self, is_bad: bool) -> Self {
        if !is_bad {
            return self;
        }
        let message = String::new();
        self.with_failure(Failure { message, status: BAD })
    }
}

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
        if error.is_of_input() { Self::input(error) } else { Self::run(error) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_that_suit_them() {
        let times = [0.4, 119.0, 120.0, 7199.0, 9000.0].map(describe_time);
        assert_eq!(times, ["0 s", "119 s", "2 min", "120 min", "2.5 h"]);
    }
}
