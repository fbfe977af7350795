//! `isochron model`: speeds and times of points files and surface files, and of the models made from them.

mod figure;
mod report;
mod sections;

use std::path::{Path, PathBuf};

use clap::Args;
use isochron_hierarchy::model::{Fit, PiecewiseFpm, Point, SpeedModel};
use isochron_plot::{Plot, draw_in_terminal, draw_plots};
use serde::Serialize;

use self::report::PointsDocument;
use self::sections::{Sections, SurfaceDocument};
use crate::failure::Failure;
use crate::output;
use crate::points::{MeasuredFile, read_measured};

/// The files to show, and the form.
#[derive(Args)]
pub struct ModelArguments {
    /// Points files: lines `d t [reps [ci]]`, units, seconds, repetitions, half-width of the
    /// confidence interval; or surface files: first line `# format: isochron-surface 1`, then lines
    /// `m n t [reps [ci]]` for m rows and n columns of blocks
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Sizes in units, or heights of surfaces, to show speed and time at [default: the measured ones]
    #[arg(long, value_delimiter = ',', num_args = 1.., value_name = "D",
        value_parser = clap::value_parser!(u64).range(1..))]
    at: Vec<u64>,
    /// Widths of surfaces to show speed and time at [default: the measured ones]
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
    /// Draw time against size too, with --plot or --svg
    #[arg(long)]
    time: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "plot")]
    json: bool,
}

/// A file with the models made from it.
enum FileModels {
    Points(PointsModels),
    Surface(Sections),
}

/// All files as JSON.
#[derive(Serialize)]
struct ModelsDocument<'a> {
    models: Vec<FileDocument<'a>>,
}

/// One file as JSON.
#[derive(Serialize)]
#[serde(untagged)]
enum FileDocument<'a> {
    Points(PointsDocument),
    Surface(SurfaceDocument<'a>),
}

/// The points of a file with the models made from them.
struct PointsModels {
    file: String,
    points: Vec<Point>,
    /// The points as the shape restriction sees them.
    restricted: PiecewiseFpm,
    fits: Vec<(Fit, Box<dyn SpeedModel>)>,
    /// The sizes to show, ascending, once each.
    sizes: Vec<u64>,
}

/// Runs the command; returns the text that it prints.
pub fn run(arguments: &ModelArguments) -> Result<String, Failure> {
    if arguments.time && !arguments.plot && arguments.svg.is_none() {
        return Err(Failure::input("--time: goes with --plot or --svg"));
    }
    let files = arguments.files.iter();
    let models: Vec<FileModels> = files
        .map(|path| FileModels::read(path, arguments))
        .collect::<Result<_, _>>()?;
    if let Some(path) = &arguments.svg {
        let plots = models.iter().flat_map(|model| model.plots(arguments.time));
        output::write_file(path, &draw_plots(&plots.collect::<Vec<_>>()))?;
    }
    if arguments.json {
        let models = models.iter().map(FileModels::document).collect();
        return output::json_line(&ModelsDocument { models });
    }
    let mut texts = Vec::new();
    for model in &models {
        let mut text = model.text();
        if arguments.plot {
            for plot in model.plots(arguments.time) {
                text += &format!("\n{}", draw_in_terminal(&plot));
            }
        }
        texts.push(text);
    }
    Ok(texts.join("\n"))
}

impl FileModels {
    fn read(path: &Path, arguments: &ModelArguments) -> Result<Self, Failure> {
        match read_measured(path)? {
            MeasuredFile::Points(_) if !arguments.width.is_empty() => Err(Failure::of_file(
                path,
                "--width: goes with surface files, and these are points",
            )),
            MeasuredFile::Points(points) => {
                PointsModels::new(path, points, arguments).map(Self::Points)
            }
            MeasuredFile::Surface(_) if !arguments.fit.is_empty() => Err(Failure::of_file(
                path,
                "--fit: does not go with surfaces, which are linear between points",
            )),
            MeasuredFile::Surface(surface) => {
                let ModelArguments { at, width, .. } = arguments;
                Sections::new(path, surface, at, width).map(Self::Surface)
            }
        }
    }

    fn plots(&self, with_time: bool) -> Vec<Plot> {
        match self {
            Self::Points(models) => figure::make_plots(models, with_time),
            Self::Surface(sections) => sections.make_plots(with_time),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Points(models) => report::format_text(models),
            Self::Surface(sections) => sections.format_text(),
        }
    }

    fn document(&self) -> FileDocument<'_> {
        match self {
            Self::Points(models) => FileDocument::Points(PointsDocument::new(models)),
            Self::Surface(sections) => FileDocument::Surface(sections.document()),
        }
    }
}

impl PointsModels {
    fn new(path: &Path, points: Vec<Point>, arguments: &ModelArguments) -> Result<Self, Failure> {
        let wanted: &[Fit] = match &arguments.fit[..] {
            [] => &Fit::ALL,
            given => given,
        };
        let mut fits: Vec<(Fit, Box<dyn SpeedModel>)> = Vec::new();
        for &fit in wanted {
            if fits.iter().all(|(known, _)| *known != fit) {
                let model = fit.model(&points);
                fits.push((fit, model.map_err(|error| Failure::of_file(path, error))?));
            }
        }
        let restricted = PiecewiseFpm::from_points(points.clone());
        Ok(Self {
            file: path.display().to_string(),
            fits,
            restricted: restricted.map_err(|error| Failure::of_file(path, error))?,
            sizes: choose_sizes(&arguments.at, points.iter().map(|point| point.d)),
            points,
        })
    }
}

/// Returns the `wanted` sizes, or the measured ones if none are wanted, ascending and once each.
fn choose_sizes(wanted: &[u64], measured: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut sizes: Vec<u64> = match wanted {
        [] => measured.collect(),
        _ => wanted.to_vec(),
    };
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}
