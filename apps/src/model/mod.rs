//! `isochron model`: what points say about a device's speed.

mod figure;
mod report;
mod sections;

use std::path::{Path, PathBuf};

use clap::Args;
use isochron_hierarchy::model::{Fit, PiecewiseFpm, Point, SpeedModel};
use serde::Serialize;

use self::sections::Sections;
use crate::failure::Failure;
use crate::output;
use crate::plot::{Plot, svg, terminal};
use crate::points::{Measured, failed, measured};

/// What to show.
#[derive(Args)]
pub struct Arguments {
    /// Points files: lines `d t [reps [ci]]`, units, seconds, repetitions, half-width of the
    /// confidence interval; or surface files: first line `# format: isochron-surface 1`, then lines
    /// `m n t [reps [ci]]` for m rows and n columns of blocks
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Sizes to tell speed and time at, in units, of surfaces heights [default: the measured ones]
    #[arg(long, value_delimiter = ',', num_args = 1.., value_name = "D",
        value_parser = clap::value_parser!(u64).range(1..))]
    at: Vec<u64>,
    /// Widths of surfaces to tell speed and time at [default: the measured ones]
    #[arg(long, value_delimiter = ',', num_args = 1.., value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..))]
    width: Vec<u64>,
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

/// A file, and what is made of it.
enum Model {
    Device(Device),
    Sections(Sections),
}

/// All files as JSON.
#[derive(Serialize)]
struct Report<'a> {
    models: Vec<Told<'a>>,
}

/// One file as JSON.
#[derive(Serialize)]
#[serde(untagged)]
enum Told<'a> {
    Device(report::Model),
    Sections(sections::Report<'a>),
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

/// Runs the command; what it prints.
pub fn run(arguments: &Arguments) -> Result<String, Failure> {
    if arguments.time && !arguments.plot && arguments.svg.is_none() {
        return Err(Failure::input("--time: goes with --plot or --svg"));
    }
    let files = arguments.files.iter();
    let models: Vec<Model> = files
        .map(|path| Model::read(path, arguments))
        .collect::<Result<_, _>>()?;
    if let Some(path) = &arguments.svg {
        let plots = models.iter().flat_map(|model| model.plots(arguments.time));
        output::file(path, &svg(&plots.collect::<Vec<_>>()))?;
    }
    if arguments.json {
        let models = models.iter().map(Model::told).collect();
        return output::json(&Report { models });
    }
    let text = |model: &Model| {
        let mut text = model.text();
        if arguments.plot {
            for plot in model.plots(arguments.time) {
                text += &format!("\n{}", terminal(&plot));
            }
        }
        text
    };
    Ok(models.iter().map(text).collect::<Vec<_>>().join("\n"))
}

impl Model {
    fn read(path: &Path, arguments: &Arguments) -> Result<Self, Failure> {
        match measured(path)? {
            Measured::Points(_) if !arguments.width.is_empty() => Err(failed(
                path,
                "--width: goes with surface files, and these are points",
            )),
            Measured::Points(points) => Device::new(path, points, arguments).map(Self::Device),
            Measured::Surface(_) if !arguments.fit.is_empty() => Err(failed(
                path,
                "--fit: does not go with surfaces, which are linear between points",
            )),
            Measured::Surface(surface) => {
                let Arguments { at, width, .. } = arguments;
                Sections::new(path, surface, at, width).map(Self::Sections)
            }
        }
    }

    fn plots(&self, time: bool) -> Vec<Plot> {
        match self {
            Self::Device(device) => figure::plots(device, time),
            Self::Sections(sections) => sections.plots(time),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Device(device) => report::text(device),
            Self::Sections(sections) => sections.text(),
        }
    }

    fn told(&self) -> Told<'_> {
        match self {
            Self::Device(device) => Told::Device(report::Model::of(device)),
            Self::Sections(sections) => Told::Sections(sections.report()),
        }
    }
}

impl Device {
    fn new(path: &Path, points: Vec<Point>, arguments: &Arguments) -> Result<Self, Failure> {
        let mut wanted = arguments.fit.clone();
        if wanted.is_empty() {
            wanted.extend(Fit::ALL);
        }
        let unusable = |error| failed(path, error);
        let mut fits: Vec<(Fit, Box<dyn SpeedModel>)> = Vec::new();
        for fit in wanted {
            if fits.iter().all(|(known, _)| *known != fit) {
                fits.push((fit, fit.model(&points).map_err(unusable)?));
            }
        }
        Ok(Self {
            file: path.display().to_string(),
            fits,
            measured: PiecewiseFpm::from_points(points.clone()).map_err(unusable)?,
            sizes: wanted_or_measured(&arguments.at, points.iter().map(|point| point.d)),
            points,
        })
    }
}

/// `wanted`, or without any the measured ones, ascending and once each.
fn wanted_or_measured(wanted: &[u64], measured: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut sizes: Vec<u64> = match wanted {
        [] => measured.collect(),
        _ => wanted.to_vec(),
    };
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}
