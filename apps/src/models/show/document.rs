//! Measured times and models as JSON. Lists are made as they are written: files may have millions of points.

use std::cell::Cell;
use std::io::{self, Write};

use isochron_hierarchy::model::{Fit, Flag, Point, Surface};
use serde::{Serialize, Serializer};

use super::stored::StoredModel;
use super::{ModelKey, ModelSource, ShownModel};
use crate::documents::FormatVersion;
use crate::points::MeasuredFile;

/// The models of files and of the store.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub(crate) struct ModelsDocument<'a> {
    /// Version of the format.
    schema: FormatVersion<1>,
    /// The files and stored models, in order.
    models: Vec<ShownDocument<'a>>,
}

/// One file or stored model.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(untagged)]
enum ShownDocument<'a> {
    Points(PointsDocument<'a>),
    Surface(SurfaceDocument<'a>),
    Stored(StoredDocument<'a>),
}

/// A points file.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct PointsDocument<'a> {
    /// A points file.
    file: &'a str,
    /// Its points.
    points: MadeList<'a, ShownPoint>,
    /// Points that contradict their neighbours.
    flags: &'a [Flag],
    /// The models.
    fits: MadeList<'a, FittedDocument<'a>>,
}

/// A surface file.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct SurfaceDocument<'a> {
    /// A surface file.
    file: String,
    /// `true` if every measured height was measured at every measured width.
    grid: bool,
    /// Its measured rectangles.
    points: MadeList<'a, ShownRectangle>,
    /// Sections at given widths.
    sections: MadeList<'a, SectionDocument<'a>>,
}

/// A stored model.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct StoredDocument<'a> {
    /// A model of the store.
    stored: &'a StoredModel,
    /// Its times by size: a unit is an element of C, a byte of a message, or a unit of a kernel; the seconds are the median
    /// of the runs' medians.
    points: MadeList<'a, ShownPoint>,
    /// Points that contradict their neighbours.
    flags: &'a [Flag],
    /// The models.
    fits: MadeList<'a, FittedDocument<'a>>,
}

/// A measured time.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct ShownPoint {
    /// Units of the point.
    d: u64,
    /// Seconds of the point.
    t_s: f64,
    /// Repetitions of the point.
    reps: u32,
    /// Half-width of the confidence interval, in seconds.
    ci_s: f64,
    /// Units per second of the point.
    speed: f64,
}

/// A measured time of a rectangle.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct ShownRectangle {
    /// Height in blocks.
    m: u64,
    /// Width in blocks.
    n: u64,
    /// Seconds of the rectangle.
    t_s: f64,
    /// Repetitions of the rectangle.
    reps: u32,
    /// Half-width of its confidence interval, in seconds.
    ci_s: f64,
    /// Blocks per second of the rectangle.
    speed: f64,
}

/// A model of points.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct FittedDocument<'a> {
    /// The fit.
    fit: Fit,
    /// Values of the model.
    at: MadeList<'a, FittedValue>,
}

/// The speed and the time of a model at a size.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct FittedValue {
    /// Size in units.
    d: u64,
    /// Units per second at this size.
    speed: f64,
    /// Seconds of this size.
    time_s: f64,
}

/// A section of a surface.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct SectionDocument<'a> {
    /// Width of the section, in blocks.
    n: u64,
    /// Values of the section.
    at: MadeList<'a, SectionValue>,
}

/// The speed and the time of a section at a height.
#[derive(Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
struct SectionValue {
    /// Height of the section's rectangle, in blocks.
    m: u64,
    /// Units per second at this size.
    speed: f64,
    /// Seconds of this size.
    time_s: f64,
}

/// A list whose items are made as they are written, once.
struct MadeList<'a, T>(Cell<Option<MadeItems<'a, T>>>);

type MadeItems<'a, T> = Box<dyn Iterator<Item = T> + 'a>;

impl<'a, T> MadeList<'a, T> {
    fn new(items: impl Iterator<Item = T> + 'a) -> Self {
        Self(Cell::new(Some(Box::new(items))))
    }
}

impl<T: Serialize> Serialize for MadeList<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.take().into_iter().flatten())
    }
}

#[cfg(feature = "schemars")]
impl<T: schemars::JsonSchema> schemars::JsonSchema for MadeList<'_, T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        <[T]>::schema_name()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        <[T]>::json_schema(generator)
    }
}

/// Writes all models for scripts, as one line.
pub(super) fn write_json(models: &[ShownModel], out: &mut dyn Write) -> io::Result<()> {
    let document = ModelsDocument {
        schema: FormatVersion,
        models: models.iter().map(ShownDocument::new).collect(),
    };
    serde_json::to_writer(&mut *out, &document)?;
    writeln!(out)
}

impl<'a> ShownDocument<'a> {
    fn new(shown: &'a ShownModel) -> Self {
        let flags = shown.flags.as_deref().unwrap_or_default();
        match (&shown.measured, &shown.source) {
            (MeasuredFile::Points(points), ModelSource::File(file)) => {
                Self::Points(PointsDocument {
                    file,
                    points: list_points(points),
                    flags,
                    fits: shown.list_fits(),
                })
            }
            (MeasuredFile::Points(points), ModelSource::Stored(stored)) => {
                Self::Stored(StoredDocument {
                    stored,
                    points: list_points(points),
                    flags,
                    fits: shown.list_fits(),
                })
            }
            (MeasuredFile::Surface(surface), _) => Self::Surface(SurfaceDocument {
                file: shown.describe(),
                grid: surface.is_grid(),
                points: list_rectangles(surface),
                sections: shown.list_sections(),
            }),
        }
    }
}

fn list_points(points: &[Point]) -> MadeList<'_, ShownPoint> {
    MadeList::new(points.iter().map(|point| ShownPoint {
        d: point.d,
        t_s: point.t_s,
        reps: point.reps,
        ci_s: point.ci_s,
        speed: point.speed(),
    }))
}

fn list_rectangles(surface: &Surface) -> MadeList<'_, ShownRectangle> {
    MadeList::new(surface.points().iter().map(|point| ShownRectangle {
        m: point.m,
        n: point.n,
        t_s: point.t_s,
        reps: point.reps,
        ci_s: point.ci_s,
        speed: point.speed(),
    }))
}

impl ShownModel {
    /// Lists the models of points, each made when it is written.
    fn list_fits(&self) -> MadeList<'_, FittedDocument<'_>> {
        MadeList::new(self.keys.iter().filter_map(|&key| {
            let ModelKey::Fit(fit) = key else {
                return None;
            };
            let model = self.make_model(key);
            let at = MadeList::new(self.sizes().map(move |d| FittedValue {
                d,
                speed: model.speed(d as f64),
                time_s: model.time_s(d as f64),
            }));
            Some(FittedDocument { fit, at })
        }))
    }

    /// Lists the sections of a surface, each made when it is written.
    fn list_sections(&self) -> MadeList<'_, SectionDocument<'_>> {
        MadeList::new(self.keys.iter().filter_map(|&key| {
            let ModelKey::N(n) = key else {
                return None;
            };
            let model = self.make_model(key);
            let at = MadeList::new(self.sizes().map(move |m| SectionValue {
                m,
                speed: model.speed(m as f64),
                time_s: model.time_s(m as f64),
            }));
            Some(SectionDocument { n, at })
        }))
    }
}
