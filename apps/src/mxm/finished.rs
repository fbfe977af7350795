//! A finished multiplication, whose report is written and printed after the end of MPI.

use isochron_core::internal::output::PartialFile;
use isochron_core::multiply::Plan;
use isochron_core::session::Report;

use super::account::Stopwatch;
use super::options::MxmArguments;
use super::text;
use crate::failure::Failure;
use crate::lines::output_width;
use crate::output;

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
    /// Closes the time account, writes the report and prints it.
    pub fn publish(mut self) -> Result<(), Failure> {
        self.report.account = Some(self.watch.close());
        if let Some(file) = self.file {
            output::fill_json(file, &self.report)?;
        }
        let (arguments, report) = (self.arguments, &self.report);
        if arguments.json {
            output::print(&output::json_lines(report)?)
        } else if arguments.quiet {
            output::print(&text::format_line(report))
        } else {
            let layout = self.plan.layout();
            output::print(&text::format_report(report, layout, output_width()))
        }
    }
}
