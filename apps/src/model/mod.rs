//! `isochron model`: what points say about a device's speed.

mod figure;
mod report;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use isochron::output::PartialFile;
use isochron_hierarchy::model::{Fit, PiecewiseFpm, Point, SpeedModel};

use self::report::Report;
use crate::failure::Failure;
use crate::plot::{svg, terminal};
use crate::points::{failed, read};

/// What to show.
#[derive(Args)]
pub struct Arguments {
    /// Points files: lines `d t [reps [ci]]`, units, seconds, repetitions, half-width of the
    /// confidence interval
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Sizes to tell speed and time at, in units [default: the measured sizes]
    #[arg(long, value_delimiter = ',', num_args = 1.., value_name = "D",
        value_parser = clap::value_parser!(u64).range(1..))]
    at: Vec<u64>,
    /// Models to make: cpm, piecewise-speed, piecewise-time, akima, raw-piecewise [default: all]
    #[arg(long, value_delimiter = ',', num_args = 1.., value_name = "FIT")]
    fit: Vec<Fit>,
    /// Draw speed against size in the terminal
    #[arg(long)]
    plot: bool,
    /// File for a plot of speed against size (SVG)
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Draw time against size as well, with --plot or --svg
    #[arg(long)]
    time: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "plot")]
    json: bool,
}

/// A file's points and what is made of them.
struct Device {
    file: String,
    points: Vec<Point>,
    /// As the shape restriction sees them.
    measured: PiecewiseFpm,
    fits: Vec<(Fit, Box<dyn SpeedModel>)>,
    /// Where speeds and times are wanted, ascending, once each.
    sizes: Vec<u64>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.time && !arguments.plot && arguments.svg.is_none() {
        return Err(Failure::input("--time: goes with --plot or --svg"));
    }
    let files = arguments.files.iter();
    let devices: Vec<Device> = files
        .map(|path| Device::read(path, arguments))
        .collect::<Result<_, _>>()?;
    if let Some(path) = &arguments.svg {
        let plots: Vec<_> = devices
            .iter()
            .flat_map(|device| figure::plots(device, arguments.time))
            .collect();
        write(path, &svg(&plots))?;
    }
    if arguments.json {
        let report = Report::of(&devices);
        println!("{}", serde_json::to_string(&report).map_err(Failure::run)?);
        return Ok(());
    }
    for (index, device) in devices.iter().enumerate() {
        if index > 0 {
            println!();
        }
        report::print(device);
        if arguments.plot {
            for plot in figure::plots(device, arguments.time) {
                print!("\n{}", terminal(&plot));
            }
        }
    }
    Ok(())
}

impl Device {
    fn read(path: &Path, arguments: &Arguments) -> Result<Self, Failure> {
        let points = read(path)?.points;
        let wanted = if arguments.fit.is_empty() {
            &Fit::ALL[..]
        } else {
            &arguments.fit
        };
        let model = |&fit: &Fit| Ok((fit, fit.model(&points)?));
        let fits: Result<Vec<_>, _> = wanted.iter().map(model).collect();
        let mut sizes: Vec<u64> = if arguments.at.is_empty() {
            points.iter().map(|point| point.d).collect()
        } else {
            arguments.at.clone()
        };
        sizes.sort_unstable();
        sizes.dedup();
        let unusable = |error| failed(path, error);
        Ok(Self {
            file: path.display().to_string(),
            fits: fits.map_err(unusable)?,
            measured: PiecewiseFpm::from_points(points.clone()).map_err(unusable)?,
            points,
            sizes,
        })
    }
}

/// Writes a file that has its name only when it is complete.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let mut partial = PartialFile::create(path)?;
    let written = partial.file().write_all(text.as_bytes());
    written.map_err(|error| Failure::run(format!("cannot write {}: {error}", path.display())))?;
    Ok(partial.publish()?)
}
