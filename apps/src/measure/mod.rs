//! `isochron measure`: full models of any kernel, on all ranks at once.

mod campaign;
mod files;
mod kernel;
mod report;

pub use kernel::serve_if_asked;

use std::path::{Path, PathBuf};

use clap::Args;
use isochron::Error;
use isochron::comm::{Comm, agree};
use isochron::session::bind_rank;
use isochron_devices::blas::BlasChoice;
use isochron_devices::measure::limit_run_s;
use isochron_devices::{MeasureConfig, memory_available_bytes};
use isochron_hierarchy::model::{ModelSizes, SizeRule};
use isochron_kernels::KernelParameters;

use crate::failure::Failure;
use crate::lines::output_width;
use crate::measuring::{MeasuringArguments, show_default};
use crate::numbers::{parse_positive, parse_whole};
use crate::output;
use campaign::Campaign;
use files::{Headers, PointsFiles};
use kernel::KernelChoice;
use report::{MeasureDocument, RankDocument};

/// The repetitions of a measurement by default.
const DEFAULTS: MeasureConfig = MeasureConfig {
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
    /// Kernel: gemm, jacobi, dgemv, fft, naive-gemm, or the path of a shared library with a kernel
    kernel: String,
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
    /// Block size of gemm and naive-gemm: a unit is the update of a block of C
    #[arg(long, value_name = "B", default_value_t = 32, value_parser = parse_whole::<usize, 1>, help_heading = "Kernel")]
    block: usize,
    /// Length of a row of jacobi, dgemv and fft: a unit is a row
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = parse_whole::<usize, 1>, help_heading = "Kernel")]
    width: usize,
    /// BLAS of gemm: auto, embedded, openblas, mkl, blis or a library's path
    #[arg(long, default_value_t = BlasChoice::default(), help_heading = "Kernel")]
    blas: BlasChoice,
    /// Run the kernel in a process of its own: a crash is an error message, and a run that ignores its
    /// interruption is killed
    #[arg(long, help_heading = "Kernel")]
    isolate: bool,
    /// Let the kernel use all cores of its rank, and do not bind it to the first one
    #[arg(long, help_heading = "Kernel")]
    unbound: bool,
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
    let core = match arguments.unbound {
        true => None,
        false => bind_rank(comm)?.map(|core| core.core),
    };
    let choice = arguments.choose_kernel(comm, &config)?;
    let kernel = agree(comm, choice.open(arguments.isolate))?;
    let places = comm.gather(&(comm.host().to_owned(), core))?;
    let measured_with = arguments.describe(&config, &choice);
    let (files, names) = agree(comm, arguments.open_files(comm, &places, &measured_with))?;
    let resumed = files.as_ref().map_or(0, |files| files.sizes().count());
    let mut campaign = Campaign {
        comm,
        kernel,
        config,
        sizes,
        points: Vec::new(),
    };
    campaign.run(files)?;
    let document = MeasureDocument {
        schema: 1,
        kernel: arguments.kernel.clone(),
        measured_with,
        resumed,
        ranks: arguments.list_ranks(&mut campaign, &places, names)?,
    };
    if comm.rank() > 0 {
        return Ok(());
    }
    output::print(&match arguments.json {
        true => output::json_line(&document)?,
        false => document.format(output_width()),
    })
}

/// The host of each rank and the core that it is bound to.
type Places = [(String, Option<u32>)];

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

    /// Describes the kernel, which may take this rank's part of the free memory of its host.
    fn choose_kernel(
        &self,
        comm: &dyn Comm,
        config: &MeasureConfig,
    ) -> Result<KernelChoice, Error> {
        let hosts = comm.gather(&comm.host().to_owned())?;
        let here = hosts.iter().filter(|host| *host == comm.host()).count();
        let free_bytes = memory_available_bytes().unwrap_or(u64::MAX);
        Ok(KernelChoice {
            name: self.kernel.clone(),
            parameters: KernelParameters {
                block: self.block,
                width: self.width,
                memory_bytes: free_bytes / here as u64,
            },
            blas: self.blas.clone(),
            limit_s: limit_run_s(config),
        })
    }

    /// Describes the options that decide on times and on their precision.
    fn describe(&self, config: &MeasureConfig, choice: &KernelChoice) -> String {
        let sizes = match self.kernel.as_str() {
            "gemm" => format!("block {}, BLAS {}, ", self.block, self.blas),
            "naive-gemm" => format!("block {}, ", self.block),
            _ if choice.is_built_in() => format!("width {}, ", self.width),
            _ => String::new(),
        };
        let unbound = ["", ", unbound"][usize::from(self.unbound)];
        let isolated = ["", ", in a process of its own"][usize::from(self.isolate)];
        format!(
            "{sizes}{} to {} repetitions, precision {} at {}, at most {} s{unbound}{isolated}",
            config.min_reps,
            config.max_reps,
            config.precision,
            config.confidence,
            config.max_seconds
        )
    }

    /// Opens the points files on the head rank; returns them and their names.
    fn open_files(
        &self,
        comm: &dyn Comm,
        places: &Places,
        measured_with: &str,
    ) -> Result<(Option<PointsFiles>, Vec<Option<String>>), Error> {
        if comm.rank() > 0 {
            return Ok((None, vec![None; places.len()]));
        }
        let headers = places.iter().enumerate().map(|(rank, (host, core))| {
            let core = core.map_or("not bound".to_owned(), |core| core.to_string());
            let pairs = [
                ("kernel", self.kernel.clone()),
                ("host", host.clone()),
                ("core", core),
                ("rank", format!("{rank} of {}", places.len())),
                ("measured-with", measured_with.to_owned()),
                ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ];
            let pairs =
                pairs.map(|(key, value)| (key.to_owned(), value.replace(['\n', '\r'], " ")));
            Headers::from(pairs)
        });
        let headers: Vec<Headers> = headers.collect();
        let files = PointsFiles::open(self.out.as_deref(), &self.name_files(), headers)?;
        let paths = (0..places.len()).map(|rank| Some(files.path(rank)?.display().to_string()));
        let paths = paths.collect();
        Ok((Some(files), paths))
    }

    /// Returns the kernel's name, or that of its library without folder and ending.
    fn name_files(&self) -> String {
        let stem = Path::new(&self.kernel).file_stem().unwrap_or_default();
        stem.to_string_lossy().into_owned()
    }

    fn list_ranks(
        &self,
        campaign: &mut Campaign<'_>,
        places: &Places,
        names: Vec<Option<String>>,
    ) -> Result<Vec<RankDocument>, Error> {
        let work = campaign
            .points
            .iter()
            .map(|&(d, _)| campaign.kernel.complexity(d));
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
}
