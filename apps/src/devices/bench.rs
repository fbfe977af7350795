//! `isochron devices bench`: speed over sizes, alone and together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::{Args, ValueHint};
use isochron_core::Error;
use isochron_core::comm::{Comm, agree};
use isochron_core::internal::output::{DOCUMENT_BYTES, PartialFile, check_distinct};
use isochron_core::session::{Session, SessionBuilder};
use isochron_devices::blas::BlasChoice;
use isochron_devices::{ElementType, MeasureConfig};
use isochron_plot::draw_plots;
use num_complex::{Complex32, Complex64};

use super::measured::{JobMeasurements, MEASUREMENT_NAMES, MeasurePlan};
use super::points;
use super::report;
use super::schedule::{RankDevices, gather_names};
use super::sizes::SizeArguments;
use crate::choices::NodeArguments;
use crate::failure::Failure;
use crate::lines::output_width;
use crate::measuring::{MeasuringArguments, show_default};
use crate::named_values::{name_all, name_blas};
use crate::numbers::{parse_positive, parse_whole};
use crate::output::{self, name_path};

/// The repetitions of a measurement by default; its part of the budget limits the seconds.
const DEFAULTS: MeasureConfig = MeasureConfig {
    confidence: 0.95,
    precision: 0.025,
    min_reps: 5,
    max_reps: 1000,
    max_seconds: f64::INFINITY,
};

/// The sizes to measure, and the files to write.
#[derive(Args)]
#[command(mut_args(|argument| show_default(argument, &DEFAULTS)))]
pub struct BenchArguments {
    #[command(flatten)]
    sizes: SizeArguments,
    /// Block size b: the inner dimension of the update
    #[arg(long, default_value_t = 128, value_parser = parse_whole::<usize, 0>)]
    block: usize,
    #[command(flatten)]
    node: NodeArguments,
    /// BLAS of the CPU devices: auto, embedded, openblas, mkl, blis or a library's path
    #[arg(long, default_value_t = BlasChoice::default())]
    #[arg(value_parser = name_blas(), hide_possible_values = true, value_hint = ValueHint::AnyPath)]
    blas: BlasChoice,
    /// Type of the elements: f32, f64, c32 or c64 (complex numbers in single and double precision)
    #[arg(long = "type", value_name = "TYPE", default_value_t = ElementType::default())]
    #[arg(value_parser = name_all::<ElementType>(), hide_possible_values = true)]
    element: ElementType,
    /// Seconds for the whole run. Time that small sizes leave goes to larger ones
    #[arg(
        long,
        value_name = "S",
        default_value_t = 40.0,
        value_parser = parse_positive,
        help_heading = "Measuring"
    )]
    budget: f64,
    /// Measure for hours, as in the literature: at least 10000 repetitions up to n = 1024, 100 up to 5120
    /// and 5 beyond. A measurement ends after ten times as many, or after an hour
    #[arg(long, conflicts_with = "budget", help_heading = "Measuring")]
    thorough: bool,
    #[command(flatten)]
    measuring: MeasuringArguments,
    /// Folder for points files: NAME-alone.points and NAME-together.points of each device; with several
    /// ranks rankR-NAME-alone.points
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    out: Option<PathBuf>,
    /// File for a plot of speed against size (SVG)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    svg: Option<PathBuf>,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Runs the command on every rank; the head rank writes the files and prints.
pub fn run(comm: &Arc<dyn Comm>, arguments: &BenchArguments) -> Result<(), Failure> {
    let start = Instant::now();
    let sizes = arguments.sizes.list(arguments.block)?;
    let budget_s = arguments.budget_s();
    for &n in &sizes {
        arguments
            .config(n, budget_s)
            .validate()
            .map_err(Failure::input)?;
    }
    let session = &mut arguments.set_up_session().build(Arc::clone(comm))?;
    let comm = comm.as_ref();
    let devices = gather_names(comm, session.devices())?;
    let files = match comm.rank() {
        0 => arguments.create_files(&devices).map(Some),
        _ => Ok(None),
    };
    let files = agree(comm, files)?;
    let plan = MeasurePlan {
        devices: &devices,
        sizes: &sizes,
        block: arguments.block,
        config: &|n, limit_s| arguments.config(n, limit_s),
        budget_s,
        start,
    };
    let measured = arguments.measure_devices(session, &plan)?;
    files.map_or(Ok(()), |files| arguments.write_results(files, &measured))
}

/// The files that the head rank has created for its results.
struct OutputFiles {
    /// The points files, by their names.
    points: BTreeMap<String, PartialFile>,
    plot: Option<PartialFile>,
}

impl BenchArguments {
    /// Returns the seconds for all measurements; infinite with `--thorough`.
    fn budget_s(&self) -> f64 {
        if self.thorough {
            f64::INFINITY
        } else {
            self.budget
        }
    }

    /// Returns the repetitions of the update of size `n`, which may take `limit_s` seconds.
    fn config(&self, n: usize, limit_s: f64) -> MeasureConfig {
        self.measuring.apply_to(if self.thorough {
            MeasureConfig::thorough(n)
        } else {
            MeasureConfig {
                max_seconds: limit_s,
                ..DEFAULTS
            }
        })
    }

    fn set_up_session(&self) -> SessionBuilder {
        self.node.set_up_session().blas(self.blas.clone())
    }

    /// Creates the files for these devices' results before the work, so that a file that cannot be written costs none.
    fn create_files(&self, devices: &[RankDevices]) -> Result<OutputFiles, Error> {
        let mut names = Vec::new();
        if let Some(folder) = &self.out {
            output::make_folder(folder)?;
            names = list_points_files(devices);
        }
        let folder = self.out.as_deref().unwrap_or(Path::new(""));
        let paths: Vec<PathBuf> = names.iter().map(|(_, name)| folder.join(name)).collect();
        let outputs = names
            .iter()
            .map(|(option, _)| option.as_str())
            .zip(paths.iter().map(PathBuf::as_path));
        let outputs = outputs.chain(name_path(("--svg", &self.svg)));
        check_distinct(name_path(("--platform", &self.node.platform)), outputs)?;
        let mut points = BTreeMap::new();
        for ((_, name), path) in names.into_iter().zip(&paths) {
            points.insert(name, PartialFile::create(path, DOCUMENT_BYTES)?);
        }
        let plot = output::create_file(self.svg.as_deref())?;
        Ok(OutputFiles { points, plot })
    }

    fn measure_devices(
        &self,
        session: &mut Session,
        plan: &MeasurePlan<'_>,
    ) -> Result<JobMeasurements, Error> {
        match self.element {
            ElementType::F32 => plan.measure::<f32>(session),
            ElementType::F64 => plan.measure::<f64>(session),
            ElementType::C32 => plan.measure::<Complex32>(session),
            ElementType::C64 => plan.measure::<Complex64>(session),
        }
    }

    /// Writes the files and prints the table or the document.
    fn write_results(
        &self,
        mut files: OutputFiles,
        measured: &JobMeasurements,
    ) -> Result<(), Failure> {
        for (name, text) in points::make_files(measured, self.block) {
            if let Some(file) = files.points.remove(&name) {
                file.fill(&text)?;
            }
        }
        if let Some(file) = files.plot {
            file.fill(&draw_plots(&report::make_plots(measured)))?;
        }
        let text = if self.json {
            output::json_line(&report::make_document(measured, self.block))?
        } else {
            report::format_text(measured, self.block, output_width())
        };
        output::print(&text)
    }
}

/// Lists the points files of all ranks' devices, each with the words for it in an error message.
fn list_points_files(ranks: &[RankDevices]) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for (rank, (host, names)) in ranks.iter().enumerate() {
        let on_host: usize = ranks
            .iter()
            .filter(|(other, _)| other == host)
            .map(|(_, names)| names.len())
            .sum();
        for (number, name) in names.iter().enumerate() {
            let option = match ranks.len() {
                1 => format!("--out (device {number})"),
                _ => format!("--out (rank {rank}, device {number})"),
            };
            for word in &MEASUREMENT_NAMES[..on_host.min(2)] {
                let file = points::name_file(ranks.len(), rank, name, word);
                files.push((option.clone(), file));
            }
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        bench: BenchArguments,
    }

    fn parse(line: &str) -> BenchArguments {
        let words = ["bench"].into_iter().chain(line.split_whitespace());
        Line::try_parse_from(words).expect("a command line").bench
    }

    #[test]
    fn a_measurement_has_its_part_of_the_budget_unless_options_say_otherwise() {
        let default = parse("");
        assert_eq!(default.budget_s(), 40.0);
        let config = default.config(64, 2.5);
        assert_eq!((config.min_reps, config.max_reps), (5, 1000));
        assert_eq!((config.max_seconds, config.precision), (2.5, 0.025));
        assert_eq!(parse("--max-seconds 7").config(64, 2.5).max_seconds, 7.0);
        for line in ["--budget 0", "--budget nan"] {
            let words = ["bench"].into_iter().chain(line.split_whitespace());
            let refused = Line::try_parse_from(words).map(|_| ()).unwrap_err();
            assert!(
                refused.to_string().contains("expected a number above 0"),
                "{line}"
            );
        }
    }

    #[test]
    fn thorough_measurements_are_those_of_the_literature() {
        let thorough = parse("--thorough");
        assert_eq!(thorough.budget_s(), f64::INFINITY);
        for n in [1024, 5120, 9000] {
            assert_eq!(
                thorough.config(n, f64::INFINITY),
                MeasureConfig::thorough(n)
            );
        }
        let words = ["bench", "--thorough", "--budget", "3"];
        assert!(Line::try_parse_from(words).is_err());
    }

    fn list_names(ranks: &[RankDevices]) -> Vec<String> {
        list_points_files(ranks)
            .into_iter()
            .map(|(_, name)| name)
            .collect()
    }

    #[test]
    fn every_rank_has_points_files_and_those_of_a_host_with_one_device_are_alone() {
        let ranks = [("a", 1), ("b", 1), ("a", 1)];
        let ranks = ranks.map(|(host, n)| (host.to_owned(), vec!["c/0".to_owned(); n]));
        assert_eq!(list_names(&ranks[..1]), ["c_0-alone.points"]);
        assert_eq!(
            list_names(&ranks),
            [
                "rank0-c_0-alone.points",
                "rank0-c_0-together.points",
                "rank1-c_0-alone.points",
                "rank2-c_0-alone.points",
                "rank2-c_0-together.points",
            ]
        );
    }
}
