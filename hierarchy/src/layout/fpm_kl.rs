//! Columns by speed functions of height and width.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::arrangement::{check_nodes, place};
use super::repair::{repair_within, time_or_never};
use super::{Layout, LayoutError, Rect};
use crate::model::{SpeedModel, Surface};
use crate::partition::{Partition, PartitionError, apportion, even, gpa};

/// A speed function of two sizes, the height and the width of a rectangle: a surface over both.
pub trait SpeedSurface {
    /// The section at `width` columns of blocks, `width ≥ 1`: a model of which the units are rows of
    /// blocks, so that its time at `m` is that of `m × width` blocks.
    fn section(&self, width: u64) -> Box<dyn SpeedModel + '_>;
}

impl SpeedSurface for Surface {
    /// The section [at that width](Surface::at_width).
    ///
    /// # Panics
    /// If `width` is 0.
    fn section(&self, width: u64) -> Box<dyn SpeedModel + '_> {
        match self.at_width(width as f64) {
            Ok(section) => Box::new(section),
            Err(error) => panic!("a section at width {width}: {error}"),
        }
    }
}

/// When [`fpm_kl()`] stops.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FpmKlConfig {
    /// The relative difference between the largest and the smallest time that counts as balanced.
    pub epsilon: f64,
    /// Divisions computed at most; at least one is.
    pub max_iterations: u32,
}

impl Default for FpmKlConfig {
    /// 5 %, 20 iterations.
    fn default() -> Self {
        Self {
            epsilon: 0.05,
            max_iterations: 20,
        }
    }
}

/// Where [`fpm_kl()`] ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FpmKl {
    /// The layout with the smallest largest time of all that were computed.
    pub layout: Layout,
    /// Seconds of each node by its model; 0 for a node without blocks.
    pub times_s: Vec<f64>,
    /// `max |t_i - t_j| / t_i` over the nodes with blocks.
    pub imbalance: f64,
    /// Divisions that were computed.
    pub iterations: u32,
    /// Whether the iteration found an imbalance of at most `epsilon`. Single blocks that move afterwards
    /// make the largest time fall, and may make the smallest one fall more.
    pub converged: bool,
}

/// Divides a matrix of `rows × cols` blocks over nodes in a grid, `columns` from left to right, each
/// with its nodes from top to bottom, by speed functions of height and width (FPM-KL).
///
/// All columns start equally wide. In each iteration
/// 1. the sections of the surfaces at a column's width are one-dimensional models, by which [`gpa()`]
///    divides the rows among the column's nodes;
/// 2. if the times of all nodes differ by at most `epsilon`, that is the solution;
/// 3. otherwise the columns become as wide as is in proportion to the sums of the speeds that their
///    nodes showed, `Σ_i m_i · n / t_i` blocks per second.
///
/// Deviations from the thesis:
/// * the third step takes speeds for constants, so that the widths may never settle. The iteration
///   also ends when widths come back, or after `max_iterations`, and the division of the smallest
///   largest time is the result, not the last one.
/// * widths are whole blocks, rounded by [`apportion()`]. A column that gets none has its models' speeds
///   at a width of one, by which it can come back.
/// * the columns may hold unlike numbers of nodes. A node in no column gets nothing.
/// * at the end, single rows and columns of blocks move away from the slowest node while that makes the
///   largest time fall, as by [`repair()`](super::repair()), at most four for each node.
///
/// # Errors
/// [`LayoutError::NoSuchNode`], [`LayoutError::Repeated`]; [`LayoutError::NoArea`] if there are blocks
/// and no nodes in the columns; [`LayoutError::Partition`] for a section that is empty or whose time
/// does not grow; [`LayoutError::NoNodes`], [`LayoutError::TooLarge`].
///
/// # Example
/// ```
/// use isochron_hierarchy::layout::{FpmKlConfig, SpeedSurface, fpm_kl};
/// use isochron_hierarchy::model::{Cpm, SpeedModel};
///
/// /// As many blocks per second at every height and width.
/// struct Flat(f64);
///
/// impl SpeedSurface for Flat {
///     fn section(&self, width: u64) -> Box<dyn SpeedModel + '_> {
///         Box::new(Cpm { speed: self.0 / width as f64 })
///     }
/// }
///
/// let (slow, fast) = (Flat(10.0), Flat(30.0));
/// let surfaces: [&dyn SpeedSurface; 4] = [&slow, &slow, &fast, &fast];
/// let columns = [vec![0, 1], vec![2, 3]];
/// let found = fpm_kl(&surfaces, &columns, 8, 8, &FpmKlConfig::default())?;
/// assert_eq!(found.layout.areas(), [8, 8, 24, 24]);
/// assert!(found.converged && found.iterations == 2);
/// # Ok::<(), isochron_hierarchy::layout::LayoutError>(())
/// ```
///
/// # References
/// Clarke's thesis, section 5.1.3.
pub fn fpm_kl(
    surfaces: &[&dyn SpeedSurface],
    columns: &[Vec<usize>],
    rows: u64,
    cols: u64,
    config: &FpmKlConfig,
) -> Result<FpmKl, LayoutError> {
    check_nodes(columns, surfaces.len())?;
    let columns: Vec<Vec<usize>> = columns.iter().filter(|c| !c.is_empty()).cloned().collect();
    // Also says whether there are nodes, and countably many blocks.
    let first = first_layout(&columns, surfaces.len(), rows, cols)?;
    let problem = Problem {
        surfaces,
        columns: &columns,
        rows,
    };
    let mut best = FpmKl {
        times_s: vec![0.0; surfaces.len()],
        layout: first,
        imbalance: 0.0,
        iterations: 0,
        converged: true,
    };
    if rows == 0 || cols == 0 {
        return Ok(best);
    }
    let mut least_s = f64::INFINITY;
    let mut widths = even(columns.len(), cols);
    let mut seen = HashSet::new();
    for iteration in 1..=config.max_iterations.max(1) {
        let division = problem.divide(&widths)?;
        let imbalance = imbalance(&division.times_s);
        let largest_s = largest(&division.times_s);
        best.iterations = iteration;
        if iteration == 1 || largest_s < least_s {
            least_s = largest_s;
            let mut rects = vec![Rect::default(); surfaces.len()];
            place(&columns, &widths, &division.heights, &mut rects);
            best.layout = Layout::new(rows, cols, rects)?;
            best.imbalance = imbalance;
            best.converged = imbalance <= config.epsilon;
            best.times_s = division.times_s;
        }
        let next = apportion(cols, &division.speeds);
        if imbalance <= config.epsilon || !seen.insert(widths) || seen.contains(&next) {
            break;
        }
        widths = next;
    }
    problem.repair(&mut best)?;
    Ok(best)
}

/// What is divided.
struct Problem<'a> {
    surfaces: &'a [&'a dyn SpeedSurface],
    /// None of them empty.
    columns: &'a [Vec<usize>],
    rows: u64,
}

/// The best heights for given widths.
struct Division {
    /// Heights of each column's nodes.
    heights: Vec<Vec<u64>>,
    /// Times of all nodes.
    times_s: Vec<f64>,
    /// Blocks per second of each column.
    speeds: Vec<f64>,
}

impl Problem<'_> {
    /// Step 1, and the speeds of step 3.
    fn divide(&self, widths: &[u64]) -> Result<Division, LayoutError> {
        let mut division = Division {
            heights: Vec::with_capacity(widths.len()),
            times_s: vec![0.0; self.surfaces.len()],
            speeds: Vec::with_capacity(widths.len()),
        };
        for (column, &width) in self.columns.iter().zip(widths) {
            let slice = width.max(1);
            let Partition { units, times_s } = self.divide_column(column, slice)?;
            let speed = |(&m, &t_s): (&u64, &f64)| match m {
                0 => 0.0,
                _ => m as f64 * slice as f64 / t_s,
            };
            division
                .speeds
                .push(units.iter().zip(&times_s).map(speed).sum());
            if width > 0 {
                for (&node, t_s) in column.iter().zip(times_s) {
                    division.times_s[node] = t_s;
                }
            }
            division.heights.push(units);
        }
        Ok(division)
    }

    /// Moves single blocks if that makes the largest time fall.
    fn repair(&self, found: &mut FpmKl) -> Result<(), LayoutError> {
        let sections: RefCell<HashMap<(usize, u64), Box<dyn SpeedModel + '_>>> = RefCell::default();
        let time_s = |node: usize, rows: u64, cols: u64| {
            let mut sections = sections.borrow_mut();
            let section = sections
                .entry((node, cols))
                .or_insert_with(|| self.surfaces[node].section(cols));
            time_or_never(section.time_s(rows as f64))
        };
        let layout = repair_within(&found.layout, &time_s, 4 * self.surfaces.len())?;
        let rects = layout.rects().iter().enumerate();
        let times = rects.map(|(node, rect)| match rect.is_empty() {
            true => 0.0,
            false => time_s(node, rect.rows, rect.cols),
        });
        let times_s: Vec<f64> = times.collect();
        if largest(&times_s) < largest(&found.times_s) {
            found.imbalance = imbalance(&times_s);
            found.times_s = times_s;
            found.layout = layout;
        }
        Ok(())
    }

    fn divide_column(&self, column: &[usize], width: u64) -> Result<Partition, LayoutError> {
        let sections: Vec<_> = column
            .iter()
            .map(|&node| self.surfaces[node].section(width))
            .collect();
        let models: Vec<&dyn SpeedModel> = sections.iter().map(|section| &**section).collect();
        gpa(&models, self.rows).map_err(|error| match error {
            PartitionError::InvalidModel { index, d, time_s } => PartitionError::InvalidModel {
                index: column[index],
                d,
                time_s,
            }
            .into(),
            error => error.into(),
        })
    }
}

/// A layout of equally wide columns of equally high nodes.
fn first_layout(
    columns: &[Vec<usize>],
    nodes: usize,
    rows: u64,
    cols: u64,
) -> Result<Layout, LayoutError> {
    if columns.is_empty() && nodes > 0 && rows > 0 && cols > 0 {
        return Err(LayoutError::NoArea { rows, cols });
    }
    let heights: Vec<Vec<u64>> = columns.iter().map(|c| even(c.len(), rows)).collect();
    let mut rects = vec![Rect::default(); nodes];
    place(columns, &even(columns.len(), cols), &heights, &mut rects);
    Layout::new(rows, cols, rects)
}

fn largest(times_s: &[f64]) -> f64 {
    times_s.iter().copied().fold(0.0, f64::max)
}

/// The largest relative difference between two times of nodes with work.
fn imbalance(times_s: &[f64]) -> f64 {
    let busy = || times_s.iter().copied().filter(|&t_s| t_s > 0.0);
    let (least, largest) = (busy().fold(f64::INFINITY, f64::min), largest(times_s));
    if largest > 0.0 {
        (largest - least) / least
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Cpm, PiecewiseFpm, Point};

    /// A speed in blocks per second that falls to a twentieth for blocks beyond `memory`.
    struct Paging {
        speed: f64,
        memory: f64,
    }

    impl SpeedSurface for Paging {
        fn section(&self, width: u64) -> Box<dyn SpeedModel + '_> {
            let mut model = PiecewiseFpm::new();
            for m in (1..=40).map(|i| i * i) {
                let blocks = (m * width) as f64;
                let t_s = blocks / self.speed + (blocks - self.memory).max(0.0) * 20.0 / self.speed;
                model
                    .add(Point {
                        d: m,
                        t_s,
                        reps: 1,
                        ci_s: 0.0,
                    })
                    .expect("valid");
            }
            Box::new(model)
        }
    }

    #[test]
    fn columns_are_as_wide_as_memory_allows() {
        let small = Paging {
            speed: 100.0,
            memory: 3000.0,
        };
        let large = Paging {
            speed: 100.0,
            memory: 1e9,
        };
        let surfaces: [&dyn SpeedSurface; 4] = [&small, &small, &large, &large];
        let columns = [vec![0, 1], vec![2, 3]];
        let config = FpmKlConfig {
            max_iterations: 50,
            ..FpmKlConfig::default()
        };
        let found = fpm_kl(&surfaces, &columns, 200, 200, &config).expect("valid");
        let even = fpm_kl(
            &surfaces,
            &columns,
            200,
            200,
            &FpmKlConfig {
                max_iterations: 1,
                ..config
            },
        );
        let even = even.expect("valid");
        // As even as the few blocks that move afterwards leave it.
        assert!(even.layout.areas()[0] > 8000, "{even:?}");
        let faster = largest(&found.times_s) < 0.5 * largest(&even.times_s);
        assert!(faster, "{found:?}");
        assert!(found.layout.areas()[0] < 5000, "{found:?}");
    }

    #[test]
    fn rounding_is_repaired() {
        // The iteration jumps between columns of 2 and of 5 for the first node, whose memory holds 4.
        let small = Paging {
            speed: 100.0,
            memory: 40.0,
        };
        let large = Paging {
            speed: 70.0,
            memory: 1e9,
        };
        let surfaces: [&dyn SpeedSurface; 2] = [&small, &large];
        let columns = [vec![0], vec![1]];
        let found = fpm_kl(&surfaces, &columns, 10, 9, &FpmKlConfig::default()).expect("valid");
        let time_s =
            |node: usize, rows: u64, cols: u64| surfaces[node].section(cols).time_s(rows as f64);
        let repaired = crate::layout::repair(&found.layout, &time_s).expect("valid");
        assert_eq!(repaired.areas(), found.layout.areas());
        assert_eq!(found.layout.areas(), [40, 50]);
        let expected = [time_s(0, 10, 4), time_s(1, 10, 5)];
        assert_eq!(found.times_s, expected);
    }

    #[test]
    fn impossible_requests_are_refused() {
        struct Constant(f64);
        impl SpeedSurface for Constant {
            fn section(&self, width: u64) -> Box<dyn SpeedModel + '_> {
                Box::new(Cpm {
                    speed: self.0 / width as f64,
                })
            }
        }
        let (good, bad) = (Constant(1.0), Constant(f64::NAN));
        let config = FpmKlConfig::default();
        let divide = |surfaces: &[&dyn SpeedSurface], columns: &[Vec<usize>]| {
            fpm_kl(surfaces, columns, 4, 4, &config)
        };
        assert_eq!(
            divide(&[], &[]),
            Err(LayoutError::NoNodes { rows: 4, cols: 4 })
        );
        assert_eq!(
            divide(&[&good], &[vec![]]),
            Err(LayoutError::NoArea { rows: 4, cols: 4 })
        );
        assert_eq!(
            divide(&[&good], &[vec![1]]),
            Err(LayoutError::NoSuchNode { index: 1, nodes: 1 })
        );
        assert!(matches!(
            divide(&[&good, &good, &bad], &[vec![0], vec![1, 2]]),
            Err(LayoutError::Partition(PartitionError::InvalidModel {
                index: 2,
                ..
            }))
        ));
        // More columns than blocks: some have no width, and all rows of theirs are empty.
        let columns: Vec<Vec<usize>> = (0..6).map(|node| vec![node]).collect();
        let found = divide(&[&good as &dyn SpeedSurface; 6], &columns).expect("valid");
        assert_eq!(found.layout.areas(), [4, 4, 4, 4, 0, 0]);
        assert!(found.converged);
        assert_eq!(
            fpm_kl(&[&good], &[vec![0]], 0, 4, &config).map(|f| f.converged),
            Ok(true)
        );
    }

    #[test]
    fn measured_surfaces_have_sections() {
        use crate::model::SurfacePoint;
        let flat = |speed: f64| {
            let point = |m: u64, n: u64| SurfacePoint {
                m,
                n,
                t_s: (m * n) as f64 / speed,
                reps: 1,
                ci_s: 0.0,
            };
            Surface::from_points(vec![point(4, 4), point(8, 4), point(4, 8), point(8, 8)])
                .expect("valid")
        };
        let (slow, fast) = (flat(10.0), flat(30.0));
        assert_eq!(slow.section(5).time_s(6.0), 3.0);
        let surfaces: [&dyn SpeedSurface; 4] = [&slow, &slow, &fast, &fast];
        let columns = [vec![0, 1], vec![2, 3]];
        let found = fpm_kl(&surfaces, &columns, 8, 8, &FpmKlConfig::default()).expect("valid");
        assert_eq!(found.layout.areas(), [8, 8, 24, 24]);
        assert!(found.converged);
    }
}
