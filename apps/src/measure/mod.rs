//! `isochron measure`: full models of any kernel, or of the devices of multiplications, on all ranks at once.

mod device_parts;
mod devices;
mod effort;
mod files;
mod full_models;
mod kernel;
mod options;
mod part;
mod remaining;
pub(crate) mod report;
mod sizes;

pub use device_parts::list_turns;
pub use effort::Effort;
pub use files::{FileKind, PointsFiles};
pub use full_models::FullModels;
pub use kernel::serve_if_asked;
pub use options::{KernelArguments, OpenKernel, WIDTH};
pub use part::{MeasuredPart, flatten_point, make_point, widen_point};

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::{Arg, Args};
use isochron_core::Error;
use isochron_core::comm::{Comm, agree};
use isochron_core::internal::output::{PartialFile, check_distinct};
use isochron_devices::MeasureConfig;
use isochron_hierarchy::model::{ModelSizes, SizeRule, SurfaceSizes};
use isochron_plot::draw_plots;

use crate::documents::FormatVersion;
use crate::failure::Failure;
use crate::lines::{count, output_width};
use crate::measuring::{MeasuringArguments, show_default};
use crate::numbers::{parse_positive, parse_whole};
use crate::output::{self, Answer, name_path};
use crate::watch::WatchArguments;
use devices::DeviceArguments;
use kernel::MXM;
use options::name_kernels;
use part::{OpenWork, Size};
use report::{MeasureDocument, MeasuredModelDocument};
pub use sizes::CampaignSizes;

/// The repetitions of a measurement by default.
pub const DEFAULTS: MeasureConfig = MeasureConfig {
    confidence: 0.95,
    precision: 0.025,
    min_reps: 3,
    max_reps: 100,
    max_seconds: 10.0,
};

/// Default block size of the kernel `mxm`.
const DEFAULT_BLOCK: usize = 128;
/// Largest size, and largest side of a surface, if none is asked for.
const DEFAULT_SIZE: u64 = 1024;
const DEFAULT_SIDE: u64 = 32;

/// The kernel, the sizes and the files to write.
#[derive(Args)]
#[command(mut_args(|argument| show_default(name_mxm(argument), &DEFAULTS)))]
pub struct MeasureArguments {
    #[command(flatten)]
    kernel: KernelArguments,
    /// Smallest size in units of the kernel; of a surface, the smallest height and width
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_whole::<u64, 1>)]
    from: u64,
    /// Largest size [default: 1024, and 32 for the sides of a surface]
    #[arg(long, value_name = "N", value_parser = parse_whole::<u64, 1>)]
    to: Option<u64>,
    /// Number of sizes, evenly from the smallest to the largest; of a surface, of heights and of widths
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = parse_whole::<usize, 1>)]
    points: usize,
    /// Choose the sizes while measuring: steps double where times follow a line, and sizes off the line get
    /// more neighbours
    #[arg(long, conflicts_with = "points")]
    adaptive: bool,
    /// First and smallest step of --adaptive [default: a hundredth of the range]
    #[arg(long, value_name = "N", requires = "adaptive", value_parser = parse_whole::<u64, 1>)]
    step: Option<u64>,
    /// Largest deviation from the line that --adaptive accepts, as a fraction of the time
    #[arg(long, value_name = "PART", default_value_t = 0.02, value_parser = parse_positive, requires = "adaptive")]
    tolerance: f64,
    #[command(flatten)]
    devices: DeviceArguments,
    #[command(flatten)]
    measuring: MeasuringArguments,
    /// Seconds for all measurements. Time that small sizes leave goes to larger ones, and the limit of a measurement is
    /// its part of them
    #[arg(long, value_name = "S", value_parser = parse_positive, help_heading = "Measuring")]
    budget: Option<f64>,
    /// Folder for points files, written after every size: KERNEL.points, or rankR-KERNEL.points of several
    /// ranks. With mxm, NAME-alone.points of a device that is alone on its host or measured alone, else
    /// NAME-together.points; surfaces end in .surface. The same command continues the files that are there
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    out: Option<PathBuf>,
    /// File for a plot of speed against size of all models together (SVG)
    #[arg(long, value_name = "FILE", conflicts_with = "surface", help_heading = "Output")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    pub watch: WatchArguments,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Adds the kernel mxm to the help of options that it has in common with others.
fn name_mxm(mut argument: Arg) -> Arg {
    if argument.get_id() == "kernel" {
        argument = argument.value_parser(name_kernels(&[MXM]));
    }
    let help = match argument.get_id().as_str() {
        "kernel" => {
            "Kernel: mxm (the update of a multiplication, on every device), gemm, jacobi, dgemv, fft, naive-gemm, \
             or the path of a shared library with a kernel; of several kernels in a library, FILE:NAME"
        }
        "block" => {
            "Block size of mxm, gemm and naive-gemm: a unit is the update of a block of C [default: 32, and 128 for mxm]"
        }
        "store" => {
            "Use of the model store: none, read (mxm takes the BLAS that an earlier run chose for --blas auto), or \
             read-write (this run's times are added too). Every size is measured again"
        }
        "blas" => {
            "BLAS of mxm and gemm: auto, embedded, openblas, mkl, blis or a library's path [default: auto]"
        }
        _ => return argument,
    };
    argument.help(help)
}

/// Runs the command on every rank; the head rank writes the files and has an answer.
pub fn run(comm: &Arc<dyn Comm>, arguments: &MeasureArguments) -> Result<Option<Answer>, Failure> {
    let begun = Instant::now();
    let config = arguments.make_config();
    config.validate().map_err(Failure::input)?;
    arguments.check_kernel()?;
    let sizes = arguments.make_sizes()?;
    let OpenWork { work, parts, measured_with, turns } = arguments.open_work(comm, &config)?;
    let comm = comm.as_ref();
    let files = agree(comm, arguments.open_files(comm, &parts))?;
    let svg = agree(comm, arguments.create_svg(files.as_ref(), &parts))?;
    let resumed = files.as_ref().map_or(0, |files| files.sizes().count());
    let names = files.as_ref().map(PointsFiles::list_paths);
    let mut campaign = FullModels {
        comm,
        work,
        config,
        effort: arguments.choose_effort(begun, turns),
        sizes,
        own: find_own(&parts, comm.rank()),
        points: Vec::new(),
        lacking: vec![Vec::new(); parts.len()],
    };
    campaign.run(files)?;
    let mut notices = comm.gather(&campaign.work.end(comm)?)?.concat();
    notices.extend(list_lacking(&parts, &campaign.lacking));
    let document = MeasureDocument {
        schema: FormatVersion,
        kernel: arguments.kernel.kernel.clone(),
        measured_with,
        resumed,
        notices: BTreeSet::from_iter(notices).into_iter().collect(),
        ranks: list_models(&mut campaign, &parts, names.unwrap_or_default())?,
    };
    if comm.rank() > 0 {
        return Ok(None);
    }
    if let Some(file) = svg {
        file.fill(&draw_plots(&[document.make_plot()]))?;
    }
    let format = |document: &MeasureDocument| document.format(output_width());
    Answer::new(arguments.json, &document, format).map(Some)
}

/// Returns the parts of a rank, among all.
fn find_own(parts: &[MeasuredPart], rank: usize) -> Range<usize> {
    let [first, end] = [rank, rank + 1].map(|rank| parts.partition_point(|part| part.rank < rank));
    first..end
}

impl MeasureArguments {
    /// Refuses options of another kernel.
    fn check_kernel(&self) -> Result<(), Failure> {
        let is_mxm = self.kernel.kernel == MXM;
        let of_kernels = [(self.kernel.isolate, "--isolate"), (self.kernel.unbound, "--unbound")]
            .into_iter()
            .find(|(is_given, _)| *is_given);
        match (is_mxm, self.devices.name_given(), of_kernels) {
            (false, Some(option), _) => {
                let message = format!("{option}: goes with the kernel mxm alone");
                Err(Failure::input(message))
            }
            (true, _, Some((_, option))) => {
                let message = format!("{option}: does not go with mxm, which runs on devices");
                Err(Failure::input(message))
            }
            _ => self.kernel.check_options(),
        }
    }

    /// Returns the settings of all measurements.
    fn make_config(&self) -> MeasureConfig {
        self.measuring.apply_to(MeasureConfig {
            max_seconds: match self.budget {
                _ if self.devices.thorough => MeasureConfig::thorough(1).max_seconds,
                Some(budget_s) => budget_s,
                None => DEFAULTS.max_seconds,
            },
            ..DEFAULTS
        })
    }

    /// Returns the repetitions of each size, `turns` measurements one after the other. The command began at `begun`.
    fn choose_effort(&self, begun: Instant, turns: usize) -> Effort {
        match self.budget {
            Some(seconds) => Effort::Budget { seconds, begun, turns },
            None if self.devices.thorough => Effort::Thorough { block: self.block() },
            None => Effort::Same,
        }
    }

    /// Block size of the kernel `mxm`.
    fn block(&self) -> usize {
        self.kernel.block.unwrap_or(DEFAULT_BLOCK)
    }

    fn make_sizes(&self) -> Result<CampaignSizes, Failure> {
        let is_surface = self.devices.surface;
        let default = if is_surface { DEFAULT_SIDE } else { DEFAULT_SIZE };
        let (from, to) = (self.from, self.to.unwrap_or(default));
        if from > to {
            let message = format!("--from {from} is above --to {to}");
            return Err(Failure::input(message));
        }
        let step = self.step.unwrap_or(((to - from) / 100).max(1));
        if is_surface {
            let sizes = SurfaceSizes::new(from..=to, self.points);
            return Ok(CampaignSizes::Surface(sizes));
        }
        let rule = if self.adaptive {
            SizeRule::Adaptive { step, tolerance: self.tolerance }
        } else {
            SizeRule::Even(self.points)
        };
        Ok(CampaignSizes::Line(ModelSizes::new(from..=to, rule)))
    }

    fn open_work(&self, comm: &Arc<dyn Comm>, config: &MeasureConfig) -> Result<OpenWork, Error> {
        if self.kernel.kernel == MXM {
            let block = self.block();
            let library = self.kernel.blas();
            let store = self.kernel.store;
            return self.devices.open(comm, config, block, &library, store);
        }
        let OpenKernel { work, parts, measured_with } =
            self.kernel.open(comm.as_ref(), config, &[MXM])?;
        Ok(OpenWork { work: Box::new(work), parts, measured_with, turns: 1 })
    }

    /// Opens the files on the head rank.
    fn open_files(
        &self,
        comm: &dyn Comm,
        parts: &[MeasuredPart],
    ) -> Result<Option<PointsFiles>, Error> {
        if comm.rank() > 0 {
            return Ok(None);
        }
        let kind = if self.devices.surface { FileKind::Surface } else { FileKind::Points };
        let mut files = PointsFiles::open(self.out.as_deref(), kind, parts)?;
        files.drop_unfinished();
        Ok(Some(files))
    }

    /// Creates the file for the plot on the head rank, which has the points files.
    fn create_svg(
        &self,
        points: Option<&PointsFiles>,
        parts: &[MeasuredPart],
    ) -> Result<Option<PartialFile>, Error> {
        let Some(points) = points else {
            return Ok(None);
        };
        let points = points.list_paths();
        let points = points.iter().zip(parts).filter_map(|(path, part)| {
            let option = format!("--out ({})", part.describe());
            Some((option, Path::new(path.as_ref()?)))
        });
        let points: Vec<(String, &Path)> = points.collect();
        let points = points.iter().map(|(option, path)| (option.as_str(), *path));
        let svg = name_path("--svg", &self.svg);
        check_distinct(self.devices.name_platform(), points.chain(svg))?;
        output::create_file(self.svg.as_deref())
    }
}

/// Returns the notices about parts that found no memory.
fn list_lacking(parts: &[MeasuredPart], lacking: &[Vec<Size>]) -> Vec<String> {
    parts
        .iter()
        .zip(lacking)
        .filter_map(|(part, lacking)| {
            let size = match *lacking.first()? {
                (units, 1) => count(units, "unit"),
                (m, n) => format!("{m}×{n} blocks"),
            };
            Some(format!("{} has no memory for {size}: its model ends below", part.describe()))
        })
        .collect()
}

fn list_models(
    campaign: &mut FullModels<'_>,
    parts: &[MeasuredPart],
    files: Vec<Option<String>>,
) -> Result<Vec<MeasuredModelDocument>, Error> {
    let work = campaign.points.iter().map(|&(size, _)| campaign.work.complexity(size));
    let work = agree(campaign.comm, work.collect::<Result<Vec<f64>, _>>())?;
    let files = files.into_iter().chain(std::iter::repeat(None));
    let documents = parts.iter().zip(files).enumerate();
    Ok(documents
        .map(|(index, (part, file))| {
            MeasuredModelDocument::new(part, file, index, &campaign.points, &work)
        })
        .collect())
}
