//! `isochron layout`: a matrix in zones, by areas or by models.

mod measured;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use isochron_hierarchy::layout::{Layout, Method, Rect, Zones, arrange, columns};
use isochron_hierarchy::model::Fit;
use serde::Serialize;

use crate::failure::Failure;
use crate::table::Table;

/// What to arrange.
#[derive(Args)]
pub struct Arguments {
    /// Relative areas, one a node
    #[arg(
        value_name = "AREA",
        required_unless_present = "models",
        conflicts_with = "models"
    )]
    areas: Vec<f64>,
    /// Files with a model of each node in place of areas: points files (lines `d t [reps [ci]]`, d in
    /// blocks), for fpm-kl surface files (first line `# format: isochron-surface 1`, then lines
    /// `m n t [reps [ci]]`: seconds for m rows and n columns of blocks)
    #[arg(long, num_args = 1.., value_name = "FILE")]
    models: Vec<PathBuf>,
    /// How [default: br, with --models fpm-br]
    #[arg(long, value_enum)]
    method: Option<How>,
    /// Model made of the points: cpm, piecewise-speed, piecewise-time, akima or raw-piecewise
    /// [default: piecewise-speed]
    #[arg(long)]
    fit: Option<Fit>,
    /// Rows of the matrix, in blocks
    #[arg(long, default_value_t = 64)]
    rows: u64,
    /// Columns of the matrix, in blocks
    #[arg(long, default_value_t = 64)]
    cols: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum How {
    /// Columns of equally many nodes as they come
    Kl,
    /// Columns of the least sum of half-perimeters
    Br,
    /// A grid, by approximate areas
    Cartesian,
    /// Rectangles by recursive cuts
    Recursive,
    /// Rectangles and L-shaped zones
    Corner,
    /// Horizontal slices
    RowSlices,
    /// Vertical slices
    ColumnSlices,
    /// By models of the area (1.5D): equal times, arranged as br
    FpmBr,
    /// By models of height and width, in columns
    FpmKl,
}

impl How {
    /// The method that arranges the areas; `None` for fpm-kl, which makes its own.
    fn of_areas(self) -> Option<Method> {
        match self {
            Self::Kl => Some(Method::Kl),
            Self::Br | Self::FpmBr => Some(Method::Br),
            Self::Cartesian => Some(Method::Cartesian),
            Self::Recursive => Some(Method::Recursive),
            Self::Corner => Some(Method::Corner),
            Self::RowSlices => Some(Method::RowSlices),
            Self::ColumnSlices => Some(Method::ColumnSlices),
            Self::FpmKl => None,
        }
    }
}

/// Zones, and what they were made from.
struct Arranged {
    zones: Zones,
    /// The areas asked for.
    areas: Vec<f64>,
    times: Option<Times>,
}

/// What the models say about zones made from them.
#[derive(Serialize)]
struct Times {
    times_s: Vec<f64>,
    max_time_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    imbalance: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    converged: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    iterations: Option<u32>,
}

#[derive(Serialize)]
struct Answer<'a> {
    rows: u64,
    cols: u64,
    /// Of zones that are all rectangles only, as are their half-perimeters.
    #[serde(skip_serializing_if = "Option::is_none")]
    rects: Option<&'a [Rect]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    half_perimeters: Option<u64>,
    lower_bound: f64,
    method: How,
    zones: &'a [Vec<Rect>],
    cost: u64,
    #[serde(flatten)]
    times: Option<&'a Times>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let by_models = !arguments.models.is_empty();
    let default = if by_models { How::FpmBr } else { How::Br };
    let method = arguments.method.unwrap_or(default);
    let arranged = if by_models {
        measured::arranged(arguments, method)?
    } else {
        by_areas(arguments, method)?
    };
    let lower_bound = columns::lower_bound(&arranged.areas, arguments.rows, arguments.cols);
    if arguments.json {
        return print_json(method, &arranged, lower_bound);
    }
    let zones = &arranged.zones;
    println!("{}", zones.picture(40));
    println!("{}", table(&arranged));
    let cost = zones.cost();
    println!("sum of half-perimeters {cost} blocks; squares of such areas have {lower_bound:.1}");
    if let Some(times) = &arranged.times {
        println!("longest {:.6} s", times.max_time_s);
        if let (Some(imbalance), Some(iterations)) = (times.imbalance, times.iterations) {
            let imbalance = 100.0 * imbalance;
            println!("imbalance {imbalance:.1} % after {iterations} iterations");
        }
    }
    Ok(())
}

fn by_areas(arguments: &Arguments, method: How) -> Result<Arranged, Failure> {
    let (areas, rows, cols) = (&arguments.areas, arguments.rows, arguments.cols);
    if method == How::FpmBr || method == How::FpmKl {
        return Err(Failure::input(
            "--method: fpm-br and fpm-kl need models of the nodes; give --models in place of areas",
        ));
    }
    if arguments.fit.is_some() {
        return Err(Failure::input("--fit: goes with --models"));
    }
    let by = method.of_areas().unwrap_or_default();
    let zones = arrange(by, areas, rows, cols);
    Ok(Arranged {
        zones: zones.map_err(Failure::input)?,
        areas: areas.clone(),
        times: None,
    })
}

fn print_json(method: How, arranged: &Arranged, lower_bound: f64) -> Result<(), Failure> {
    let zones = &arranged.zones;
    let layout = Layout::try_from(zones.clone()).ok();
    let answer = Answer {
        rows: zones.rows(),
        cols: zones.cols(),
        rects: layout.as_ref().map(Layout::rects),
        half_perimeters: layout.as_ref().map(Layout::half_perimeter_sum),
        lower_bound,
        method,
        zones: zones.zones(),
        cost: zones.cost(),
        times: arranged.times.as_ref(),
    };
    println!("{}", serde_json::to_string(&answer).map_err(Failure::run)?);
    Ok(())
}

/// A line for each rectangle; an L has two, and a node without blocks an empty one.
fn table(arranged: &Arranged) -> Table {
    let mut heading = vec!["node", "area", "row", "col", "rows", "cols", "blocks"];
    if arranged.times.is_some() {
        heading.push("time s");
    }
    let mut table = Table::new(0, &heading);
    let nodes = arranged.zones.zones().iter().zip(&arranged.areas);
    for (node, (zone, area)) in nodes.enumerate() {
        let nothing = [Rect::default()];
        let rects: &[Rect] = if zone.is_empty() { &nothing } else { zone };
        for rect in rects {
            let &Rect {
                row,
                col,
                rows,
                cols,
            } = rect;
            let numbers = [row, col, rows, cols, rect.area()].map(|number| number.to_string());
            let mut cells = vec![node.to_string(), area.to_string()];
            cells.extend(numbers);
            if let Some(times) = &arranged.times {
                cells.push(format!("{:.6}", times.times_s[node]));
            }
            table.row(cells);
        }
    }
    table
}
