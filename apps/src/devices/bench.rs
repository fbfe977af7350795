//! `isochron devices bench`: speed over sizes, alone and together.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

use clap::Args;
use isochron::comm::LocalComm;
use isochron::output::PartialFile;
use isochron::session::{Session, SessionConfig};
use isochron_devices::blas::BlasChoice;
use isochron_devices::{ElementType, Grouping, MeasureConfig};
use num_complex::{Complex32, Complex64};

use super::measured::{self, Measured};
use super::points;
use super::report;
use super::sizes::Sizes;
use crate::failure::Failure;
use crate::measuring::Measuring;
use crate::output;
use crate::plot::svg;

/// What to measure, and where to put it.
///
/// Without other words a measurement is repeated as in the literature on performance models: at least 10000 times up
/// to n = 1024, 100 times up to 5120 and 5 times beyond, until the mean is known to 2.5 % with 95 % confidence.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    sizes: Sizes,
    /// Block size b: the inner dimension of the update
    #[arg(long, default_value_t = 128)]
    block: usize,
    /// Platform file whose first node's devices to measure; without one, those of this host
    #[arg(long, value_name = "FILE")]
    platform: Option<PathBuf>,
    /// Cores that form one device: auto (by NUMA domain and kind), package, numa, kind or node; in place
    /// of what the platform file says
    #[arg(long)]
    group: Option<Grouping>,
    /// BLAS of the CPU devices: auto, embedded, openblas, mkl, blis or a library's path
    #[arg(long, default_value_t = BlasChoice::default())]
    blas: BlasChoice,
    /// Type of the elements: f32, f64, c32 or c64 (complex numbers in single and double precision)
    #[arg(long = "type", value_name = "TYPE", default_value_t = ElementType::default())]
    element: ElementType,
    #[command(flatten)]
    measuring: Measuring,
    /// Folder for points files: NAME-alone.points and NAME-together.points of each device
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    out: Option<PathBuf>,
    /// File for a plot of speed against size (SVG)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    svg: Option<PathBuf>,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<String, Failure> {
    let sizes = arguments.sizes.list(arguments.block)?;
    let config = |n: usize| arguments.measuring.or(MeasureConfig::thorough(n));
    for &n in &sizes {
        config(n).validate().map_err(Failure::input)?;
    }
    // What cannot be written should be known before the work.
    if let Some(folder) = &arguments.out {
        std::fs::create_dir_all(folder)
            .map_err(|error| Failure::run(format!("cannot make {}: {error}", folder.display())))?;
    }
    let plot = arguments
        .svg
        .as_deref()
        .map(PartialFile::create)
        .transpose()?;
    let measured = measure(arguments, &sizes, &config)?;
    if let Some(folder) = &arguments.out {
        for (name, text) in points::files(&measured, arguments.block) {
            output::file(&folder.join(&name), &text)?;
        }
    }
    if let (Some(partial), Some(path)) = (plot, &arguments.svg) {
        output::fill(partial, path, &svg(&report::plots(&measured)))?;
    }
    if arguments.json {
        output::json(&report::document(&measured, arguments.block))
    } else {
        Ok(report::text(&measured, arguments.block))
    }
}

fn measure(
    arguments: &Arguments,
    sizes: &[usize],
    config: &dyn Fn(usize) -> MeasureConfig,
) -> Result<Measured, Failure> {
    let comm = LocalComm::new();
    let session = SessionConfig {
        platform: arguments.platform.clone(),
        grouping: arguments.group,
        blas: arguments.blas.clone(),
        ..Default::default()
    };
    let mut session = Session::new(&comm, &session)?;
    let mut progress = |what: &str| {
        if std::io::stderr().is_terminal() {
            // To the start of the line, which is cleared: progress is no part of what is left to read.
            let _ = write!(std::io::stderr(), "\r\x1b[Kmeasuring {what}");
        }
    };
    let team = session.team();
    let block = arguments.block;
    let found = match arguments.element {
        ElementType::F32 => measured::measure::<f32>(team, sizes, block, config, &mut progress),
        ElementType::F64 => measured::measure::<f64>(team, sizes, block, config, &mut progress),
        ElementType::C32 => {
            measured::measure::<Complex32>(team, sizes, block, config, &mut progress)
        }
        ElementType::C64 => {
            measured::measure::<Complex64>(team, sizes, block, config, &mut progress)
        }
    };
    if std::io::stderr().is_terminal() {
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
    Ok(found.map_err(isochron::Error::from)?)
}
