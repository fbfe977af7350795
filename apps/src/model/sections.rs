//! Surfaces: sections of given widths, as tables, as JSON and as plots.

use std::path::Path;

use isochron_hierarchy::model::{Polyline, SpeedModel, Surface, SurfacePoint};
use isochron_plot::{Curve, Plot, color};
use serde::Serialize;

use super::choose_sizes;
use super::figure::{MakeMark, curve_places, speed_mark, time_mark};
use super::report::six_digits;
use crate::failure::Failure;
use crate::table::TextTable;

/// A surface and its sections.
pub struct Sections {
    file: String,
    surface: Surface,
    sections: Vec<Section>,
    /// The heights to show, ascending, once each.
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
pub struct SurfaceDocument<'a> {
    file: &'a str,
    /// `true` if every measured height was measured at every measured width.
    grid: bool,
    points: Vec<SurfacePointSpeed>,
    sections: Vec<SectionDocument>,
}

/// A point of a surface with its speed in blocks per second.
#[derive(Serialize)]
struct SurfacePointSpeed {
    #[serde(flatten)]
    point: SurfacePoint,
    speed: f64,
}

/// A section as JSON.
#[derive(Serialize)]
struct SectionDocument {
    n: u64,
    at: Vec<HeightValue>,
}

/// The speed and the time of a section at a height.
#[derive(Serialize)]
struct HeightValue {
    m: u64,
    speed: f64,
    time_s: f64,
}

impl Section {
    fn name(&self) -> String {
        format!("n = {}", self.width)
    }

    /// Returns the speed at height `m` in blocks per second.
    fn speed(&self, m: f64) -> f64 {
        self.model.speed(m) * self.width as f64
    }

    fn time_s(&self, m: f64) -> f64 {
        self.model.time_s(m)
    }

    fn document(&self, heights: &[u64]) -> SectionDocument {
        let values = heights.iter().map(|&m| HeightValue {
            m,
            speed: self.speed(m as f64),
            time_s: self.time_s(m as f64),
        });
        SectionDocument {
            n: self.width,
            at: values.collect(),
        }
    }
}

impl Sections {
    /// Cuts a surface at `widths`, for values at `heights`; without any, at the measured ones.
    ///
    /// # Errors
    /// If the surface has no model at a width.
    pub fn new(
        path: &Path,
        surface: Surface,
        heights: &[u64],
        widths: &[u64],
    ) -> Result<Self, Failure> {
        let points = surface.points();
        let mut sections = Vec::new();
        for width in choose_sizes(widths, points.iter().map(|point| point.n)) {
            let model = surface.at_width(width as f64);
            let model = model.map_err(|error| Failure::of_file(path, error))?;
            sections.push(Section { width, model });
        }
        Ok(Self {
            file: path.display().to_string(),
            sections,
            heights: choose_sizes(heights, points.iter().map(|point| point.m)),
            surface,
        })
    }

    /// Makes the document of the surface.
    pub fn document(&self) -> SurfaceDocument<'_> {
        let points = self.surface.points().iter();
        let sections = self.sections.iter();
        SurfaceDocument {
            file: &self.file,
            grid: self.surface.is_grid(),
            points: points
                .map(|&point| SurfacePointSpeed {
                    point,
                    speed: point.speed(),
                })
                .collect(),
            sections: sections.map(|s| s.document(&self.heights)).collect(),
        }
    }

    /// Formats the points and the values of the sections.
    pub fn format_text(&self) -> String {
        let mut text = format!("{}\n{}\n", self.file, self.point_table());
        if !self.surface.is_grid() {
            text += "not every height was measured at every width: elsewhere the speed is a mean of the \
                     measured ones, the near ones counting most\n\n";
        }
        let speeds = self.value_table(Section::speed);
        let times = self.value_table(Section::time_s);
        text + &format!("speed, units/s\n{speeds}\ntime, s\n{times}")
    }

    fn point_table(&self) -> TextTable {
        let mut table = TextTable::new(0, &["m", "n", "time s", "reps", "ci s", "units/s"]);
        for point in self.surface.points() {
            table.add_row(vec![
                point.m.to_string(),
                point.n.to_string(),
                six_digits(point.t_s),
                point.reps.to_string(),
                six_digits(point.ci_s),
                six_digits(point.speed()),
            ]);
        }
        table
    }

    /// Makes a table with a line for each height and a column for each width.
    fn value_table(&self, value: fn(&Section, f64) -> f64) -> TextTable {
        let names: Vec<String> = self.sections.iter().map(Section::name).collect();
        let mut heading = vec!["m"];
        heading.extend(names.iter().map(String::as_str));
        let mut table = TextTable::new(0, &heading);
        for &m in &self.heights {
            let sections = self.sections.iter();
            let values = sections.map(|section| six_digits(value(section, m as f64)));
            table.add_row(std::iter::once(m.to_string()).chain(values).collect());
        }
        table
    }

    /// Makes the plot of speed against height, and of time against height if asked for.
    pub fn make_plots(&self, with_time: bool) -> Vec<Plot> {
        let mut plots = vec![self.make_plot("speed, units/s", Section::speed, speed_mark)];
        if with_time {
            plots.push(self.make_plot("time, s", Section::time_s, time_mark));
        }
        plots
    }

    fn make_plot(
        &self,
        y_name: &'static str,
        value: fn(&Section, f64) -> f64,
        make_mark: MakeMark,
    ) -> Plot {
        let points = self.surface.points();
        let measured = points.iter().map(|point| point.m);
        let places = curve_places(measured.chain(self.heights.iter().copied()));
        let mut curves = Vec::new();
        for (index, section) in self.sections.iter().enumerate() {
            let (symbol, color, dashed) = curve_style(index);
            curves.push(Curve {
                name: section.name(),
                symbol,
                color,
                dashed,
                points: places.iter().map(|&m| (m, value(section, m))).collect(),
            });
        }
        let drawn = points
            .iter()
            .filter(|point| self.sections.iter().any(|s| s.width == point.n));
        let marks = drawn.map(|point| {
            let units = (point.m * point.n) as f64;
            make_mark(point.m as f64, units, point.t_s, point.ci_s)
        });
        Plot {
            title: self.file.clone(),
            x_name: "height, blocks",
            y_name,
            curves,
            marks: marks.collect(),
        }
    }
}

/// Returns character, colour and whether the line is interrupted.
///
/// From the eighth curve on the characters repeat and the lines are interrupted.
fn curve_style(index: usize) -> (char, &'static str, bool) {
    const STYLES: [(char, &str); 7] = [
        ('*', color::BLUE),
        ('+', color::GREEN),
        ('~', color::VERMILION),
        ('.', color::PURPLE),
        ('x', color::ORANGE),
        ('#', color::SKY),
        ('-', color::GREY),
    ];
    let (symbol, color) = STYLES[index % STYLES.len()];
    (symbol, color, index >= STYLES.len())
}
