//! `isochron model`: speeds and times of points files and surface files, and of the models made from them.

mod figure;
mod report;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use isochron_core::internal::output::check_distinct;
use isochron_hierarchy::model::{Fit, Flag, ModelError, Point, SpeedModel, Surface};
use isochron_plot::{draw_in_terminal, draw_plots};
use serde::Serialize;
use strum::VariantArray as _;

use crate::failure::Failure;
use crate::named_values::name_all;
use crate::numbers::parse_whole;
use crate::output::{self, name_path};
use crate::points::{MeasuredFile, NameKind};

/// The files to show, and the form.
#[derive(Args)]
pub struct ModelArguments {
    /// Points files: lines `d t [reps [ci]]`, units, seconds, repetitions, half-width of the
    /// confidence interval; or surface files: first line `# format: isochron-surface 1`, then lines
    /// `m n t [reps [ci]]` for m rows and n columns of blocks
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    names: NameKind,
    /// Sizes in units, or heights of surfaces, to show speed and time at [default: the measured ones]
    #[arg(long, value_delimiter = ',', num_args = 1.., value_name = "D",
        value_parser = parse_whole::<u64, 1>)]
    at: Vec<u64>,
    /// Widths of surfaces to show speed and time at [default: the measured ones]
    #[arg(long, value_delimiter = ',', num_args = 1.., value_name = "N",
        value_parser = parse_whole::<u64, 1>)]
    width: Vec<u64>,
    /// Models to make: cpm, piecewise-speed, piecewise-time, akima, raw-piecewise [default: all]
    #[arg(long, value_delimiter = ',', num_args = 1.., value_name = "FIT")]
    #[arg(value_parser = name_all::<Fit>(), hide_possible_values = true)]
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

/// A file and the models to make from it, one at a time: files may have millions of points. Models are functions of one
/// size: of units, or of a surface's height in blocks.
struct FileModels {
    file: String,
    labels: &'static SizeLabels,
    measured: MeasuredFile,
    /// Of points: the sizes that contradict their neighbours.
    flags: Option<Vec<Flag>>,
    keys: Vec<ModelKey>,
    /// The sizes to show, ascending, once each.
    sizes: Vec<u64>,
}

/// The words for the size that models are functions of, and for the models.
struct SizeLabels {
    size: &'static str,
    axis: &'static str,
    models: &'static str,
}

/// A measured time with its speed in units per second.
#[derive(Serialize)]
struct MeasuredTime {
    #[serde(flatten)]
    size: TimedSize,
    t_s: f64,
    reps: u32,
    ci_s: f64,
    speed: f64,
}

/// The size of a measured time.
#[derive(Clone, Copy, Serialize)]
#[serde(untagged)]
enum TimedSize {
    Units { d: u64 },
    Blocks { m: u64, n: u64 },
}

impl TimedSize {
    /// Returns the size that models are functions of.
    fn main(self) -> u64 {
        match self {
            Self::Units { d } => d,
            Self::Blocks { m, .. } => m,
        }
    }

    fn units(self) -> u64 {
        match self {
            Self::Units { d } => d,
            Self::Blocks { m, n } => m * n,
        }
    }
}

struct NamedModel {
    key: ModelKey,
    model: Box<dyn SpeedModel>,
}

/// The fit that made a model of points, or the width of a surface's section.
#[derive(Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum ModelKey {
    Fit(Fit),
    N(u64),
}

/// Runs the command.
pub fn run(arguments: &ModelArguments) -> Result<(), Failure> {
    if arguments.time && !arguments.plot && arguments.svg.is_none() {
        return Err(Failure::input("--time: goes with --plot or --svg"));
    }
    let inputs = arguments.files.iter().filter(|_| !arguments.names.stored);
    let inputs = inputs.map(|path| ("FILE", path.as_path()));
    check_distinct(inputs, name_path(("--svg", &arguments.svg)))?;
    let svg = output::create_file(arguments.svg.as_deref())?;
    let measured = arguments.names.read_measured(&arguments.files)?;
    let models: Vec<FileModels> = arguments
        .files
        .iter()
        .zip(measured)
        .map(|(path, measured)| FileModels::new(path, measured, arguments))
        .collect::<Result<_, _>>()?;
    if let Some(file) = svg {
        let plots = models.iter().flat_map(|model| model.plots(arguments.time));
        file.fill(&draw_plots(&plots.collect::<Vec<_>>()))?;
    }
    output::print_parts(|out| {
        if arguments.json {
            report::write_json(&models, out)
        } else {
            write_texts(&models, arguments, out)
        }
    })
}

fn write_texts(
    models: &[FileModels],
    arguments: &ModelArguments,
    out: &mut dyn Write,
) -> io::Result<()> {
    for (index, model) in models.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        model.write_text(out)?;
        if arguments.plot {
            for plot in model.plots(arguments.time) {
                write!(out, "\n{}", draw_in_terminal(&plot))?;
            }
        }
    }
    Ok(())
}

impl FileModels {
    fn new(
        path: &Path,
        measured: MeasuredFile,
        arguments: &ModelArguments,
    ) -> Result<Self, Failure> {
        let ModelArguments { width, fit, .. } = arguments;
        let file = path.display().to_string();
        let models = match measured {
            MeasuredFile::Points(_) if !width.is_empty() => {
                let reason = "--width: goes with surface files, and these are points";
                return Err(Failure::of_file(path, reason));
            }
            MeasuredFile::Points(points) => Self::of_points(file, points, arguments),
            MeasuredFile::Surface(_) if !fit.is_empty() => {
                let reason = "--fit: does not go with surfaces, which are linear between points";
                return Err(Failure::of_file(path, reason));
            }
            MeasuredFile::Surface(surface) => Self::of_surface(file, surface, arguments),
        };
        models.map_err(|error| Failure::of_file(path, error))
    }

    fn of_points(
        file: String,
        points: Vec<Point>,
        given: &ModelArguments,
    ) -> Result<Self, ModelError> {
        let wanted = match &given.fit[..] {
            [] => Fit::VARIANTS,
            fits => fits,
        };
        let flags = Flag::find(&points)?;
        let mut keys: Vec<ModelKey> = Vec::new();
        for key in wanted.iter().copied().map(ModelKey::Fit) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        Ok(Self {
            file,
            labels: &SizeLabels {
                size: "d",
                axis: "size, units",
                models: "fits",
            },
            flags: Some(flags),
            keys,
            sizes: choose_sizes(&given.at, points.iter().map(|point| point.d)),
            measured: MeasuredFile::Points(points),
        })
    }

    /// Cuts a surface at the given widths, or at the measured ones.
    fn of_surface(
        file: String,
        surface: Surface,
        given: &ModelArguments,
    ) -> Result<Self, ModelError> {
        let points = surface.points();
        let mut keys = Vec::new();
        for width in choose_sizes(&given.width, points.iter().map(|point| point.n)) {
            surface.at_width(width as f64)?;
            keys.push(ModelKey::N(width));
        }
        let sizes = choose_sizes(&given.at, points.iter().map(|point| point.m));
        Ok(Self {
            file,
            labels: &SizeLabels {
                size: "m",
                axis: "height, blocks",
                models: "sections",
            },
            flags: None,
            keys,
            sizes,
            measured: MeasuredFile::Surface(surface),
        })
    }

    /// Makes the model of this key.
    ///
    /// # Panics
    /// If it cannot be made, which is known since this value was.
    fn make_model(&self, key: ModelKey) -> NamedModel {
        let made: Result<Box<dyn SpeedModel>, ModelError> = match (&self.measured, key) {
            (MeasuredFile::Points(points), ModelKey::Fit(fit)) => fit.model(points),
            (MeasuredFile::Surface(surface), ModelKey::N(width)) => surface
                .at_width(width as f64)
                .map(|model| Box::new(model) as _),
            _ => unreachable!("points have fits, and surfaces have sections"),
        };
        // The points and the widths were checked in `of_points` and `of_surface`.
        let model = made.unwrap_or_else(|error| panic!("a model of valid points: {error}"));
        NamedModel { key, model }
    }

    /// Returns for a surface whether every measured height was measured at every measured width.
    fn grid(&self) -> Option<bool> {
        match &self.measured {
            MeasuredFile::Points(_) => None,
            MeasuredFile::Surface(surface) => Some(surface.is_grid()),
        }
    }

    /// Calls `visit` with each measured time.
    fn visit_times<E>(
        &self,
        mut visit: impl FnMut(MeasuredTime) -> Result<(), E>,
    ) -> Result<(), E> {
        match &self.measured {
            MeasuredFile::Points(points) => points.iter().try_for_each(|point| {
                visit(MeasuredTime {
                    size: TimedSize::Units { d: point.d },
                    t_s: point.t_s,
                    reps: point.reps,
                    ci_s: point.ci_s,
                    speed: point.speed(),
                })
            }),
            MeasuredFile::Surface(surface) => surface.points().iter().try_for_each(|point| {
                visit(MeasuredTime {
                    size: TimedSize::Blocks {
                        m: point.m,
                        n: point.n,
                    },
                    t_s: point.t_s,
                    reps: point.reps,
                    ci_s: point.ci_s,
                    speed: point.speed(),
                })
            }),
        }
    }
}

impl ModelKey {
    fn name(self) -> String {
        match self {
            Self::Fit(fit) => fit.to_string(),
            Self::N(width) => format!("n = {width}"),
        }
    }
}

impl NamedModel {
    /// Returns the speed in units per second. The model of a section counts rows.
    fn speed(&self, size: f64) -> f64 {
        let speed = self.model.speed(size);
        match self.key {
            ModelKey::Fit(_) => speed,
            ModelKey::N(width) => speed * width as f64,
        }
    }

    fn time_s(&self, size: f64) -> f64 {
        self.model.time_s(size)
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
