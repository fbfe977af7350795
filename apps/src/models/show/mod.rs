//! `isochron models show`: speeds and times of points files, surface files and stored models, and of the models made from
//! them.

pub(crate) mod document;
mod figure;
mod report;
mod stored;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::slice;

use clap::Args;
use isochron_core::internal::output::check_distinct;
use isochron_hierarchy::model::{Fit, Flag, ModelError, Point, SpeedModel, Surface};
use isochron_plot::{draw_in_terminal, draw_plots};
use strum::VariantArray as _;

use super::folders::{Folders, find_key};
use crate::failure::Failure;
use crate::named_values::name_all;
use crate::numbers::parse_whole;
use crate::output::{self, Answer, AnswerForm, name_path};
use crate::points::{MeasuredFile, read_measured};
use figure::make_plots;
use stored::StoredModel;

/// The models to show, and the form.
#[derive(Args)]
pub struct ShowArguments {
    /// Points files, surface files, and stored models by their names. Points files have lines `d t [reps [ci]]`:
    /// units, seconds, repetitions, half-width of the confidence interval. Surface files have the first line
    /// `# format: isochron-surface 1`, then lines `m n t [reps [ci]]` for m rows and n columns of blocks. Names, or
    /// their first digits, are those of `isochron models list`. If there is a file of a name, it is shown
    #[arg(required = true, value_name = "FILE|NAME")]
    names: Vec<PathBuf>,
    /// Sizes in units, or heights of surfaces, to show speed and time at [default: the measured ones]
    #[arg(long, value_delimiter = ',', num_args = 1.., value_name = "D",
        value_parser = parse_whole::<u64, 1>)]
    at: Vec<u64>,
    /// Widths of surfaces to show speed and time at [default: the measured ones]
    #[arg(long, value_delimiter = ',', num_args = 1.., value_name = "N",
        value_parser = parse_whole::<u64, 1>)]
    width: Vec<u64>,
    /// Models to make: cpm, piecewise-speed, piecewise-time, akima, raw-piecewise [default: all, and piecewise-speed in
    /// plots]
    #[arg(long, value_delimiter = ',', num_args = 1.., value_name = "FIT")]
    #[arg(value_parser = name_all::<Fit>(), hide_possible_values = true)]
    fit: Vec<Fit>,
    /// Print the repetitions of every run of a stored model too, in seconds
    #[arg(long)]
    runs: bool,
    /// Draw speed against size in the terminal
    #[arg(long)]
    plot: bool,
    /// File for a plot of speed against size of all models together (SVG)
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Draw time against size too, with --plot or --svg
    #[arg(long)]
    time: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "plot")]
    json: bool,
}

/// Measured times and the models to make from them, one at a time: files may have millions of points. Models are functions
/// of one size: of units, or of a surface's height in blocks.
struct ShownModel {
    source: ModelSource,
    labels: &'static SizeLabels,
    measured: MeasuredFile,
    /// Of points: the sizes that contradict their neighbours.
    flags: Option<Vec<Flag>>,
    keys: Vec<ModelKey>,
    /// The models to draw. All fits of a device lie over each other: by default it is the one that divides work.
    drawn: Vec<ModelKey>,
    /// The sizes to show, ascending, once each. If there are none, those of all points are shown.
    wanted: Vec<u64>,
}

/// The origin of measured times.
enum ModelSource {
    File(String),
    Stored(Box<StoredModel>),
}

/// The words for the size that models are functions of.
struct SizeLabels {
    size: &'static str,
    axis: &'static str,
}

/// A measured time with its speed in units per second.
struct MeasuredTime {
    size: TimedSize,
    t_s: f64,
    reps: u32,
    ci_s: f64,
    speed: f64,
}

/// The size of a measured time.
#[derive(Clone, Copy)]
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
#[derive(Clone, Copy, PartialEq)]
enum ModelKey {
    Fit(Fit),
    N(u64),
}

/// Runs the command.
pub fn run(arguments: &ShowArguments) -> Result<Answer, Failure> {
    if arguments.time && !arguments.plot && arguments.svg.is_none() {
        return Err(Failure::input("--time: goes with --plot or --svg"));
    }
    let names = arguments.names.iter().map(PathBuf::as_path);
    let (files, stored): (Vec<&Path>, Vec<&Path>) = names.partition(|name| is_file(name));
    if arguments.runs && stored.is_empty() {
        let reason = "--runs: goes with models of the store, and these are files";
        return Err(Failure::input(reason));
    }
    let inputs = files.iter().map(|path| ("FILE", *path));
    check_distinct(inputs, name_path("--svg", &arguments.svg))?;
    let svg = output::create_file(arguments.svg.as_deref())?;
    let mut stored = read_stored(&stored)?.into_iter();
    let mut models = Vec::new();
    for name in &arguments.names {
        let (source, measured) = if is_file(name) {
            let file = name.display().to_string();
            (ModelSource::File(file), read_measured(name)?)
        } else {
            // There is one for each name that is no file.
            let Some((model, points)) = stored.next() else {
                continue;
            };
            let source = ModelSource::Stored(Box::new(model));
            (source, MeasuredFile::Points(points))
        };
        models.push(ShownModel::new(name, source, measured, arguments)?);
    }
    if let Some(file) = svg {
        file.fill(&draw_plots(&make_plots(&models, arguments.time)))?;
    }
    if arguments.json {
        return Ok(Answer::written(AnswerForm::Document, move |out| {
            document::write_json(&models, out)
        }));
    }
    let form = TextForm::of(arguments);
    let escaped = if form.with_plot { AnswerForm::Plot } else { AnswerForm::Text };
    Ok(Answer::written(escaped, move |out| write_texts(&models, form, out)))
}

/// The parts of a text.
#[derive(Clone, Copy)]
struct TextForm {
    with_repetitions: bool,
    with_plot: bool,
    with_time: bool,
}

impl TextForm {
    fn of(arguments: &ShowArguments) -> Self {
        Self {
            with_repetitions: arguments.runs,
            with_plot: arguments.plot,
            with_time: arguments.time,
        }
    }
}

/// Returns `true` if a name is that of a file, readable or not.
fn is_file(name: &Path) -> bool {
    std::fs::symlink_metadata(name).is_ok()
}

/// Reads models of the store with their times.
fn read_stored(names: &[&Path]) -> Result<Vec<(StoredModel, Vec<Point>)>, Failure> {
    let Some(first) = names.first() else {
        return Ok(Vec::new());
    };
    let folders = Folders::find().map_err(|failure| blame_name(first, &failure))?;
    folders.note_missing();
    let models = folders.read()?;
    let found = names.iter().map(|name| {
        let key = find_key(&models, &name.to_string_lossy());
        let key = key.map_err(|failure| blame_name(name, &failure))?;
        Ok(StoredModel::find(&models, &key))
    });
    found.collect()
}

/// Adds to the reason why there is no stored model of a name that there is no file either.
fn blame_name(name: &Path, failure: &Failure) -> Failure {
    let reason = format!("there is no such file, and {}", failure.message);
    Failure::of_file(name, reason)
}

fn write_texts(models: &[ShownModel], form: TextForm, out: &mut dyn Write) -> io::Result<()> {
    for (index, model) in models.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        model.write_text(form.with_repetitions, out)?;
        if form.with_plot {
            for plot in make_plots(slice::from_ref(model), form.with_time) {
                write!(out, "\n{}", draw_in_terminal(&plot))?;
            }
        }
    }
    Ok(())
}

impl ShownModel {
    fn new(
        path: &Path,
        source: ModelSource,
        measured: MeasuredFile,
        arguments: &ShowArguments,
    ) -> Result<Self, Failure> {
        let ShowArguments { width, fit, .. } = arguments;
        let models = match measured {
            MeasuredFile::Points(_) if !width.is_empty() => {
                let reason = "--width: goes with surface files, and these are points";
                return Err(Failure::of_file(path, reason));
            }
            MeasuredFile::Points(points) => Self::of_points(source, points, arguments),
            MeasuredFile::Surface(_) if !fit.is_empty() => {
                let reason = "--fit: does not go with surfaces, which are linear between points";
                return Err(Failure::of_file(path, reason));
            }
            MeasuredFile::Surface(surface) => Self::of_surface(source, surface, arguments),
        };
        models.map_err(|error| Failure::of_file(path, error))
    }

    fn of_points(
        source: ModelSource,
        points: Vec<Point>,
        given: &ShowArguments,
    ) -> Result<Self, ModelError> {
        let wanted = match &given.fit[..] {
            // A stored model may have bounds alone.
            _ if points.is_empty() => &[],
            [] => Fit::VARIANTS,
            fits => fits,
        };
        let flags = match &points[..] {
            [] => Vec::new(),
            points => Flag::find(points)?,
        };
        let mut keys: Vec<ModelKey> = Vec::new();
        for key in wanted.iter().copied().map(ModelKey::Fit) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        Ok(Self {
            source,
            labels: &SizeLabels { size: "d", axis: "size, units" },
            flags: Some(flags),
            drawn: match &given.fit[..] {
                [] if !points.is_empty() => vec![ModelKey::Fit(Fit::default())],
                _ => keys.clone(),
            },
            keys,
            wanted: choose_sizes(&given.at, []),
            measured: MeasuredFile::Points(points),
        })
    }

    /// Cuts a surface at the given widths, or at the measured ones.
    fn of_surface(
        source: ModelSource,
        surface: Surface,
        given: &ShowArguments,
    ) -> Result<Self, ModelError> {
        let points = surface.points().iter();
        let widths = choose_sizes(&given.width, points.clone().map(|point| point.n));
        let heights = choose_sizes(&given.at, points.map(|point| point.m));
        let mut keys = Vec::new();
        for width in widths {
            surface.at_width(width as f64)?;
            keys.push(ModelKey::N(width));
        }
        Ok(Self {
            source,
            labels: &SizeLabels { size: "m", axis: "height, blocks" },
            flags: None,
            drawn: keys.clone(),
            keys,
            wanted: heights,
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
            (MeasuredFile::Surface(surface), ModelKey::N(width)) => {
                surface.at_width(width as f64).map(|model| Box::new(model) as _)
            }
            _ => unreachable!("points have fits, and surfaces have sections"),
        };
        // The points and the widths were checked in `of_points` and `of_surface`.
        let model = made.unwrap_or_else(|error| panic!("a model of valid points: {error}"));
        NamedModel { key, model }
    }

    /// Returns the name of a file without its folder, or of a stored model.
    fn name(&self) -> String {
        match &self.source {
            ModelSource::File(file) => Path::new(file)
                .file_stem()
                .map_or_else(|| file.clone(), |name| name.to_string_lossy().into_owned()),
            ModelSource::Stored(model) => model.describe(),
        }
    }

    /// Returns the name, for a heading.
    fn describe(&self) -> String {
        match &self.source {
            ModelSource::File(file) => file.clone(),
            ModelSource::Stored(model) => model.describe(),
        }
    }

    /// Returns for a surface whether every measured height was measured at every measured width.
    fn grid(&self) -> Option<bool> {
        match &self.measured {
            MeasuredFile::Points(_) => None,
            MeasuredFile::Surface(surface) => Some(surface.is_grid()),
        }
    }

    /// Returns the sizes to show, ascending, once each. Those of points are not kept: a file may have millions.
    fn sizes(&self) -> Box<dyn Iterator<Item = u64> + '_> {
        match &self.measured {
            // Points ascend.
            MeasuredFile::Points(points) if self.wanted.is_empty() => {
                Box::new(points.chunk_by(|a, b| a.d == b.d).map(|same| same[0].d))
            }
            _ => Box::new(self.wanted.iter().copied()),
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
                    size: TimedSize::Blocks { m: point.m, n: point.n },
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
fn choose_sizes(wanted: &[u64], measured: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let mut sizes: Vec<u64> = match wanted {
        [] => measured.into_iter().collect(),
        _ => wanted.to_vec(),
    };
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}
