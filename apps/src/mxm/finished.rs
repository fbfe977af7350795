//! A finished multiplication, whose report is written and printed after the end of MPI.

use isochron_core::internal::output::PartialFile;
use isochron_core::plan::Plan;
use isochron_core::report::Report;

use super::account::Stopwatch;
use super::options::MxmArguments;
use super::text;
use crate::failure::Failure;
use crate::lines::output_width;
use crate::output::{self, Answer};

/// What a multiplication leaves to the head rank.
pub enum MxmEnding<'a> {
    /// A plan, or a result that did not pass its check.
    Answer(Answer),
    /// A report that is printed after the end of MPI.
    Run(Box<FinishedRun<'a>>),
}

/// The report of a multiplication on the head rank, with its time account still open.
pub struct FinishedRun<'a> {
    pub(super) arguments: &'a MxmArguments,
    pub(super) plan: Plan,
    pub(super) report: Report,
    /// The file for the report.
    pub(super) file: Option<PartialFile>,
    pub(super) watch: Stopwatch<'static>,
}

impl FinishedRun<'_> {
    /// Closes the time account, writes the report and answers by it.
    pub fn close(mut self) -> Result<Answer, Failure> {
        self.report.account = Some(self.watch.close());
        if let Some(file) = self.file {
            output::fill_json(file, &self.report)?;
        }
        let arguments = self.arguments;
        Answer::in_lines(arguments.json, &self.report, |report| {
            if arguments.quiet {
                text::format_line(report)
            } else {
                text::format_report(report, self.plan.layout(), output_width())
            }
        })
    }
}
