//! `isochron measure`: full models of any kernel, on all ranks at once.

mod campaign;
mod files;
mod kernel;
mod options;
mod report;

pub use campaign::{make_point, measure_in_step};
pub use files::PointsFiles;
pub use kernel::serve_if_asked;
pub use options::{KernelArguments, OpenKernel, RankPlace};

use std::path::PathBuf;

use clap::Args;
use isochron::Error;
use isochron::comm::{Comm, agree};
use isochron_devices::MeasureConfig;
use isochron_hierarchy::model::{ModelSizes, SizeRule};

use crate::failure::Failure;
use crate::lines::output_width;
use crate::measuring::{MeasuringArguments, show_default};
use crate::numbers::{parse_positive, parse_whole};
use crate::output;
use campaign::Campaign;
use report::{MeasureDocument, RankDocument};

/// The repetitions of a measurement by default.
pub const DEFAULTS: MeasureConfig = MeasureConfig {
    confidence: 0.95,
    precision: 0.025,
    min_reps: 3,
    max_reps: 100,
    max_seconds: 10.0,
};

/// The kernel, the sizes and the files to write.
#[derive(Args)]
#[command(mut_args(|argument| show_default(argument, &DEFAULTS)))]
pub struct MeasureArguments {
    #[command(flatten)]
    kernel: KernelArguments,
    /// Smallest size in units of the kernel
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_whole::<u64, 1>)]
    from: u64,
    /// Largest size
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = parse_whole::<u64, 1>)]
    to: u64,
    /// Number of sizes, evenly from the smallest to the largest
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = parse_whole::<usize, 1>)]
    points: usize,
    /// Choose the sizes by the times: the step doubles where they follow a line, and sizes off the line
    /// between their neighbours get more neighbours
    #[arg(long, conflicts_with = "points")]
    adaptive: bool,
    /// First and smallest step of --adaptive [default: a hundredth of the range]
    #[arg(long, value_name = "N", requires = "adaptive", value_parser = parse_whole::<u64, 1>)]
    step: Option<u64>,
    /// Part of a time by which --adaptive lets it differ from the line
    #[arg(long, value_name = "PART", default_value_t = 0.02, value_parser = parse_positive)]
    tolerance: f64,
    #[command(flatten)]
    measuring: MeasuringArguments,
    /// Folder for points files, written after every size: KERNEL.points, or rankR-KERNEL.points of several
    /// ranks. The same command goes on with those that are there
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    out: Option<PathBuf>,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Runs the command on every rank; the head rank writes the files and prints.
pub fn run(comm: &dyn Comm, arguments: &MeasureArguments) -> Result<(), Failure> {
    let config = arguments.measuring.apply_to(DEFAULTS);
    config.validate().map_err(Failure::input)?;
    let sizes = arguments.make_sizes()?;
    let kernel = arguments.kernel.open(comm, &config)?;
    let files = agree(comm, arguments.open_files(comm, &kernel))?;
    let resumed = files.as_ref().map_or(0, |files| files.sizes().count());
    let names = list_paths(files.as_ref(), comm.size());
    let OpenKernel {
        run,
        places,
        measured_with,
        ..
    } = kernel;
    let mut campaign = Campaign {
        comm,
        kernel: run,
        config,
        sizes,
        points: Vec::new(),
    };
    campaign.run(files)?;
    let document = MeasureDocument {
        schema: 1,
        kernel: arguments.kernel.kernel.clone(),
        measured_with,
        resumed,
        ranks: list_ranks(&mut campaign, &places, names)?,
    };
    if comm.rank() > 0 {
        return Ok(());
    }
    output::print(&match arguments.json {
        true => output::json_line(&document)?,
        false => document.format(output_width()),
    })
}

impl MeasureArguments {
    fn make_sizes(&self) -> Result<ModelSizes, Failure> {
        let Self { from, to, .. } = *self;
        if from > to {
            let message = format!("--from {from} --to {to}: no sizes");
            return Err(Failure::input(message));
        }
        let rule = match self.adaptive {
            true => SizeRule::Adaptive {
                step: self.step.unwrap_or(((to - from) / 100).max(1)),
                tolerance: self.tolerance,
            },
            false => SizeRule::Even(self.points),
        };
        Ok(ModelSizes::new((from, to), rule))
    }

    /// Opens the points files on the head rank.
    fn open_files(
        &self,
        comm: &dyn Comm,
        kernel: &OpenKernel,
    ) -> Result<Option<PointsFiles>, Error> {
        if comm.rank() > 0 {
            return Ok(None);
        }
        let (stem, headers) = (
            self.kernel.name_files(),
            kernel.list_headers(&self.kernel.kernel),
        );
        let mut files = PointsFiles::open(self.out.as_deref(), &stem, headers)?;
        files.drop_unfinished();
        Ok(Some(files))
    }
}

/// Returns the path of each rank's points file.
pub fn list_paths(files: Option<&PointsFiles>, ranks: usize) -> Vec<Option<String>> {
    let paths = (0..ranks).map(|rank| Some(files?.path(rank)?.display().to_string()));
    paths.collect()
}

fn list_ranks(
    campaign: &mut Campaign<'_>,
    places: &[RankPlace],
    names: Vec<Option<String>>,
) -> Result<Vec<RankDocument>, Error> {
    let work = campaign.points.iter();
    let work = work.map(|&(d, _)| campaign.kernel.complexity(d));
    let work: Result<Vec<f64>, _> = work.collect();
    let work = agree(campaign.comm, work.map_err(Error::from))?;
    let ranks = places.iter().zip(names).enumerate();
    let documents = ranks.map(|(rank, ((host, core), file))| {
        let mut document = RankDocument {
            rank,
            host: host.clone(),
            core: *core,
            file,
            points: Vec::new(),
        };
        document.add_points(&campaign.points, &work);
        document
    });
    Ok(documents.collect())
}
