//! Surfaces: sections of given widths, as tables, as JSON and as plots.

use std::path::Path;

use isochron_hierarchy::model::{Polyline, SpeedModel, Surface, SurfacePoint};
use serde::Serialize;

use super::figure::{among, speed_mark, time_mark};
use super::report::short;
use super::wanted_or_measured;
use crate::failure::Failure;
use crate::plot::{Curve, Mark, Plot};
use crate::points::failed;
use crate::table::Table;

/// A surface and its sections.
pub struct Sections {
    file: String,
    surface: Surface,
    sections: Vec<Section>,
    /// Heights at which speeds and times are wanted, ascending, once each.
    heights: Vec<u64>,
}

/// A surface at one width.
struct Section {
    width: u64,
    /// Rows per second.
    model: Polyline,
}

/// A surface as JSON.
#[derive(Serialize)]
pub struct Report<'a> {
    file: &'a str,
    /// Whether every measured height was measured at every measured width.
    grid: bool,
    points: Vec<Measured>,
    sections: Vec<Told>,
}

#[derive(Serialize)]
struct Measured {
    #[serde(flatten)]
    point: SurfacePoint,
    speed: f64,
}

#[derive(Serialize)]
struct Told {
    n: u64,
    at: Vec<Value>,
}

/// What a section says about a height.
#[derive(Serialize)]
struct Value {
    m: u64,
    speed: f64,
    time_s: f64,
}

impl Section {
    /// Blocks per second.
    fn speed(&self, m: f64) -> f64 {
        self.model.speed(m) * self.width as f64
    }

    fn time_s(&self, m: f64) -> f64 {
        self.model.time_s(m)
    }
}

impl Sections {
    pub fn new(
        path: &Path,
        surface: Surface,
        heights: &[u64],
        widths: &[u64],
    ) -> Result<Self, Failure> {
        let points = surface.points();
        let section = |width: u64| {
            let model = surface.at_width(width as f64);
            let model = model.map_err(|error| failed(path, error))?;
            Ok::<_, Failure>(Section { width, model })
        };
        let widths = wanted_or_measured(widths, points.iter().map(|point| point.n));
        Ok(Self {
            file: path.display().to_string(),
            sections: widths.into_iter().map(section).collect::<Result<_, _>>()?,
            heights: wanted_or_measured(heights, points.iter().map(|point| point.m)),
            surface,
        })
    }

    pub fn report(&self) -> Report<'_> {
        let measured = |&point: &SurfacePoint| Measured {
            point,
            speed: point.speed(),
        };
        let told = |section: &Section| Told {
            n: section.width,
            at: self
                .heights
                .iter()
                .map(|&m| Value {
                    m,
                    speed: section.speed(m as f64),
                    time_s: section.time_s(m as f64),
                })
                .collect(),
        };
        Report {
            file: &self.file,
            grid: self.surface.is_grid(),
            points: self.surface.points().iter().map(measured).collect(),
            sections: self.sections.iter().map(told).collect(),
        }
    }

    /// The points, and what the sections say.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n{}\n", self.file, self.points());
        if !self.surface.is_grid() {
            text += "not every height was measured at every width: elsewhere the speed is a mean of the \
                     measured ones, the near ones counting most\n\n";
        }
        let speeds = self.values(Section::speed);
        let times = self.values(Section::time_s);
        text + &format!("speed, units/s\n{speeds}\ntime, s\n{times}")
    }

    fn points(&self) -> Table {
        let mut table = Table::new(0, &["m", "n", "time s", "reps", "ci s", "units/s"]);
        for point in self.surface.points() {
            table.row(vec![
                point.m.to_string(),
                point.n.to_string(),
                short(point.t_s),
                point.reps.to_string(),
                short(point.ci_s),
                short(point.speed()),
            ]);
        }
        table
    }

    /// A line for each height and a column for each width.
    fn values(&self, number: fn(&Section, f64) -> f64) -> Table {
        let names: Vec<String> = self.sections.iter().map(name).collect();
        let names = names.iter().map(String::as_str);
        let mut table = Table::new(0, &std::iter::once("m").chain(names).collect::<Vec<_>>());
        for &m in &self.heights {
            let sections = self.sections.iter();
            let numbers = sections.map(|section| short(number(section, m as f64)));
            table.row(std::iter::once(m.to_string()).chain(numbers).collect());
        }
        table
    }

    /// Speed against height, and if asked for time against height.
    pub fn plots(&self, time: bool) -> Vec<Plot> {
        let mut plots = vec![self.plot("speed, units/s", Section::speed, speed_mark)];
        if time {
            plots.push(self.plot("time, s", Section::time_s, time_mark));
        }
        plots
    }

    fn plot(
        &self,
        y_name: &'static str,
        value: fn(&Section, f64) -> f64,
        mark: fn(f64, f64, f64, f64) -> Mark,
    ) -> Plot {
        let points = self.surface.points();
        let measured = points.iter().map(|point| point.m);
        let places = among(measured.chain(self.heights.iter().copied()));
        let curve = |(index, section)| {
            let (symbol, color, dashed) = look(index);
            Curve {
                name: name(section),
                symbol,
                color,
                dashed,
                points: places.iter().map(|&m| (m, value(section, m))).collect(),
            }
        };
        let drawn = |point: &&SurfacePoint| self.sections.iter().any(|s| s.width == point.n);
        let mark = |point: &SurfacePoint| {
            let (m, n) = (point.m as f64, point.n as f64);
            mark(m, m * n, point.t_s, point.ci_s)
        };
        Plot {
            title: self.file.clone(),
            x_name: "height, blocks",
            y_name,
            curves: self.sections.iter().enumerate().map(curve).collect(),
            marks: points.iter().filter(drawn).map(mark).collect(),
        }
    }
}

fn name(section: &Section) -> String {
    format!("n = {}", section.width)
}

/// Character, colour (of a palette that the colour-blind can tell apart) and whether the line is
/// interrupted: from the second round on, which then has the same characters.
fn look(index: usize) -> (char, &'static str, bool) {
    const LOOKS: [(char, &str); 7] = [
        ('*', "#0072b2"),
        ('+', "#009e73"),
        ('~', "#d55e00"),
        ('.', "#cc79a7"),
        ('x', "#e69f00"),
        ('#', "#56b4e9"),
        ('-', "#999999"),
    ];
    let (symbol, color) = LOOKS[index % LOOKS.len()];
    (symbol, color, index >= LOOKS.len())
}
