//! Columns by speed functions of height and width.
//!
//! # Deviations
//!
//! * **end of FPM-KL**: the thesis iterates until the times are balanced (5.1.3). Here the iteration
//!   also ends when widths come back or after `max_iterations`, because widths may never settle: step 3
//!   takes speeds for constants. The result is the division of the smallest largest time.
//! * **widths in FPM-KL**: the thesis leaves rounding open (5.1.3). Here [`apportion()`] makes whole
//!   blocks of widths, because a matrix consists of blocks. A column of width 0 has the speeds of width
//!   1, by which it can come back.
//! * **grid of FPM-KL**: the thesis takes a grid (5.1.3). Here columns may hold unlike numbers of nodes,
//!   because a prime number of nodes makes no grid but a single row or column. A node in no column gets
//!   nothing.
//! * **repair after FPM-KL**: the thesis ends with the iteration (5.1.3). Here single rows and columns
//!   of blocks then leave the slowest node, because rounding ignores the cost of a block.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::arrangement::{check_nodes, place};
use super::repair::{repair_within, time_or_never};
use super::{Layout, LayoutError};
use crate::model::{SpeedModel, Surface};
use crate::partition::{Partition, PartitionError, apportion, even, gpa, imbalance};

/// A speed function of the height and the width of a rectangle: a surface over both.
pub trait SpeedSurface {
    /// Returns the section at `width` columns of blocks, `width ≥ 1`.
    ///
    /// The section is a model with rows of blocks as units: its time at `m` is the time of `m × width`
    /// blocks.
    fn section(&self, width: u64) -> Box<dyn SpeedModel + '_>;
}

impl SpeedSurface for Surface {
    /// Returns the section [at that width](Surface::at_width).
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

/// The conditions that end [`fpm_kl()`].
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
        Self { epsilon: 0.05, max_iterations: 20 }
    }
}

/// The result of [`fpm_kl()`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FpmKl {
    /// The layout with the smallest largest time of all that were computed.
    pub layout: Layout,
    /// Seconds of each node by its model; 0 for a node without blocks.
    pub times_s: Vec<f64>,
    /// The [`imbalance`] of these times.
    pub imbalance: f64,
    /// Divisions that were computed.
    pub iterations: u32,
    /// `true` if the iteration found an imbalance of at most `epsilon`. Single blocks that move
    /// afterwards reduce the largest time, and may reduce the smallest one more.
    pub converged: bool,
}

/// Divides a matrix of `rows × cols` blocks over nodes in a grid by speed functions of height and width
/// (FPM-KL). `columns` go from left to right, each with its nodes from top to bottom.
///
/// All columns start equally wide. In each iteration
/// 1. The sections of the surfaces at a column's width are one-dimensional models. By these [`gpa()`]
///    divides the rows among the column's nodes.
/// 2. If the times of all nodes differ by at most `epsilon`, that is the solution.
/// 3. Otherwise each column gets a width in proportion to the sum of its nodes' speeds,
///    `Σ_i m_i · n / t_i` blocks per second.
///
/// At the end single rows and columns of blocks move away from the slowest node while that reduces the
/// largest time, as by [`repair()`](super::repair()), in at most `4 p` steps for `p` nodes.
///
/// # Errors
/// Returns [`LayoutError::NoSuchNode`], [`LayoutError::Repeated`]; [`LayoutError::NoArea`] if there are blocks and no
/// nodes in the columns; [`LayoutError::Partition`] for a section that is empty or whose time does not grow;
/// [`LayoutError::NoNodes`], [`LayoutError::TooLarge`].
///
/// # Example
/// ```
/// use isochron_hierarchy::layout::{FpmKlConfig, SpeedSurface, fpm_kl};
/// use isochron_hierarchy::model::{Cpm, SpeedModel};
///
/// /// The same speed in blocks per second at every height and width.
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
    let nodes = surfaces.len();
    check_nodes(columns, nodes)?;
    let columns: Vec<Vec<usize>> = columns.iter().filter(|c| !c.is_empty()).cloned().collect();
    if columns.is_empty() && nodes > 0 && rows > 0 && cols > 0 {
        return Err(LayoutError::NoArea { rows, cols });
    }
    let mut widths = even(columns.len(), cols);
    let heights: Vec<Vec<u64>> = columns.iter().map(|c| even(c.len(), rows)).collect();
    // Also checks that there are nodes, and that the blocks can be counted in 63 bits.
    let first = Layout::new(rows, cols, place(&columns, &widths, &heights, nodes))?;
    let divider = ColumnDivider { surfaces, columns: &columns, rows };
    let mut best = FpmKl {
        times_s: vec![0.0; nodes],
        layout: first,
        imbalance: 0.0,
        iterations: 0,
        converged: true,
    };
    if rows == 0 || cols == 0 {
        return Ok(best);
    }
    let mut least_s = f64::INFINITY;
    let mut seen = HashSet::new();
    for iteration in 1..=config.max_iterations.max(1) {
        let divided = divider.divide(&widths)?;
        let apart = imbalance(&divided.times_s);
        let largest_s = largest_of(&divided.times_s);
        best.iterations = iteration;
        if iteration == 1 || largest_s < least_s {
            least_s = largest_s;
            let rects = place(&columns, &widths, &divided.heights, nodes);
            best.layout = Layout::new(rows, cols, rects)?;
            best.imbalance = apart;
            best.converged = apart <= config.epsilon;
            best.times_s = divided.times_s;
        }
        let next = apportion(cols, &divided.speeds);
        if apart <= config.epsilon || !seen.insert(widths) || seen.contains(&next) {
            break;
        }
        widths = next;
    }
    divider.repair(&mut best)?;
    Ok(best)
}

/// Divides the rows of given columns among their nodes.
struct ColumnDivider<'a> {
    surfaces: &'a [&'a dyn SpeedSurface],
    /// No one is empty.
    columns: &'a [Vec<usize>],
    rows: u64,
}

/// The best heights for given widths.
struct DividedColumns {
    /// Heights of each column's nodes.
    heights: Vec<Vec<u64>>,
    /// Times of all nodes.
    times_s: Vec<f64>,
    /// Blocks per second of each column.
    speeds: Vec<f64>,
}

impl ColumnDivider<'_> {
    /// Does step 1, and computes the speeds of step 3.
    fn divide(&self, widths: &[u64]) -> Result<DividedColumns, LayoutError> {
        let mut divided = DividedColumns {
            heights: Vec::with_capacity(widths.len()),
            times_s: vec![0.0; self.surfaces.len()],
            speeds: Vec::with_capacity(widths.len()),
        };
        for (column, &width) in self.columns.iter().zip(widths) {
            let slice = width.max(1);
            let Partition { units, times_s } = self.divide_column(column, slice)?;
            let speeds = units
                .iter()
                .zip(&times_s)
                .filter(|(m, _)| **m > 0)
                .map(|(&m, &t_s)| m as f64 * slice as f64 / t_s);
            divided.speeds.push(speeds.sum());
            if width > 0 {
                for (&node, t_s) in column.iter().zip(times_s) {
                    divided.times_s[node] = t_s;
                }
            }
            divided.heights.push(units);
        }
        Ok(divided)
    }

    /// Moves single blocks if that reduces the largest time.
    fn repair(&self, found: &mut FpmKl) -> Result<(), LayoutError> {
        let sections = RefCell::new(HashMap::new());
        let layout = repair_within(
            &found.layout,
            &|node, rows, cols| self.section_time_s(&sections, node, rows, cols),
            4 * self.surfaces.len(),
        )?;
        let times = layout.rects().iter().enumerate().map(|(node, rect)| {
            if rect.is_empty() {
                0.0
            } else {
                self.section_time_s(&sections, node, rect.rows, rect.cols)
            }
        });
        let times_s: Vec<f64> = times.collect();
        if largest_of(&times_s) < largest_of(&found.times_s) {
            found.imbalance = imbalance(&times_s);
            found.times_s = times_s;
            found.layout = layout;
        }
        Ok(())
    }

    /// Returns a node's time for `rows × cols` blocks, by sections that are kept.
    fn section_time_s<'s>(
        &'s self,
        sections: &RefCell<KeptSections<'s>>,
        node: usize,
        rows: u64,
        cols: u64,
    ) -> f64 {
        let mut sections = sections.borrow_mut();
        let section =
            sections.entry((node, cols)).or_insert_with(|| self.surfaces[node].section(cols));
        time_or_never(section.time_s(rows as f64))
    }

    fn divide_column(&self, column: &[usize], width: u64) -> Result<Partition, LayoutError> {
        let sections: Vec<_> =
            (column.iter()).map(|&node| self.surfaces[node].section(width)).collect();
        let models: Vec<&dyn SpeedModel> = sections.iter().map(|section| &**section).collect();
        gpa(&models, self.rows).map_err(|mut error| {
            if let PartitionError::InvalidModel { index, .. } = &mut error {
                *index = column[*index];
            }
            error.into()
        })
    }
}

/// Sections by node and width.
type KeptSections<'s> = HashMap<(usize, u64), Box<dyn SpeedModel + 's>>;

fn largest_of(times_s: &[f64]) -> f64 {
    times_s.iter().copied().fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Cpm, PiecewiseFpm, Point, SurfacePoint};

    /// A speed in blocks per second that falls to about a twentieth for blocks beyond `memory`.
    struct PagingSurface {
        speed: f64,
        memory: f64,
    }

    impl SpeedSurface for PagingSurface {
        fn section(&self, width: u64) -> Box<dyn SpeedModel + '_> {
            let mut model = PiecewiseFpm::new();
            for m in (1..=40).map(|i| i * i) {
                let blocks = (m * width) as f64;
                let t_s = blocks / self.speed + (blocks - self.memory).max(0.0) * 20.0 / self.speed;
                model.add(Point { d: m, t_s, reps: 1, ci_s: 0.0 }).expect("valid");
            }
            Box::new(model)
        }
    }

    #[test]
    fn columns_are_as_wide_as_memory_allows() {
        let small = PagingSurface { speed: 100.0, memory: 3000.0 };
        let large = PagingSurface { speed: 100.0, memory: 1e9 };
        let surfaces: [&dyn SpeedSurface; 4] = [&small, &small, &large, &large];
        let columns = [vec![0, 1], vec![2, 3]];
        let config = FpmKlConfig { max_iterations: 50, ..FpmKlConfig::default() };
        let found = fpm_kl(&surfaces, &columns, 200, 200, &config).expect("valid");
        let even =
            fpm_kl(&surfaces, &columns, 200, 200, &FpmKlConfig { max_iterations: 1, ..config });
        let even = even.expect("valid");
        // Nearly even: a few blocks move afterwards.
        assert!(even.layout.areas()[0] > 8000, "{even:?}");
        let found_s = largest_of(&found.times_s);
        assert!(found_s < 0.5 * largest_of(&even.times_s), "{found:?}");
        assert!(found.layout.areas()[0] < 5000, "{found:?}");
    }

    #[test]
    fn rounding_is_repaired() {
        // The iteration jumps between columns of 2 and of 5 for the first node, whose memory holds 4.
        let small = PagingSurface { speed: 100.0, memory: 40.0 };
        let large = PagingSurface { speed: 70.0, memory: 1e9 };
        let surfaces: [&dyn SpeedSurface; 2] = [&small, &large];
        let columns = [vec![0], vec![1]];
        let found = fpm_kl(&surfaces, &columns, 10, 9, &FpmKlConfig::default()).expect("valid");
        let repaired = crate::layout::repair(&found.layout, &|node, rows, cols| {
            surfaces[node].section(cols).time_s(rows as f64)
        })
        .expect("valid");
        assert_eq!(repaired.areas(), found.layout.areas());
        assert_eq!(found.layout.areas(), [40, 50]);
        let expected = [small.section(4), large.section(5)].map(|section| section.time_s(10.0));
        assert_eq!(found.times_s, expected);
    }

    /// The same speed in blocks per second at every height and width.
    struct ConstantSurface(f64);

    impl SpeedSurface for ConstantSurface {
        fn section(&self, width: u64) -> Box<dyn SpeedModel + '_> {
            Box::new(Cpm { speed: self.0 / width as f64 })
        }
    }

    fn divide(
        surfaces: &[&dyn SpeedSurface],
        columns: &[Vec<usize>],
    ) -> Result<FpmKl, LayoutError> {
        fpm_kl(surfaces, columns, 4, 4, &FpmKlConfig::default())
    }

    #[test]
    fn impossible_requests_are_refused() {
        let (good, bad) = (ConstantSurface(1.0), ConstantSurface(f64::NAN));
        assert_eq!(divide(&[], &[]), Err(LayoutError::NoNodes { rows: 4, cols: 4 }));
        assert_eq!(divide(&[&good], &[vec![]]), Err(LayoutError::NoArea { rows: 4, cols: 4 }));
        assert_eq!(
            divide(&[&good], &[vec![1]]),
            Err(LayoutError::NoSuchNode { index: 1, nodes: 1 })
        );
        assert!(matches!(
            divide(&[&good, &good, &bad], &[vec![0], vec![1, 2]]),
            Err(LayoutError::Partition(PartitionError::InvalidModel { index: 2, .. }))
        ));
        // More columns than blocks: some have no width, so their nodes get no blocks.
        let columns: Vec<Vec<usize>> = (0..6).map(|node| vec![node]).collect();
        let found = divide(&[&good as &dyn SpeedSurface; 6], &columns).expect("valid");
        assert_eq!(found.layout.areas(), [4, 4, 4, 4, 0, 0]);
        assert!(found.converged);
        assert_eq!(
            fpm_kl(&[&good], &[vec![0]], 0, 4, &FpmKlConfig::default()).map(|f| f.converged),
            Ok(true)
        );
    }

    /// A surface of constant speed, by four points.
    fn flat_surface(speed: f64) -> Surface {
        let points = [(4, 4), (8, 4), (4, 8), (8, 8)].map(|(m, n)| SurfacePoint {
            m,
            n,
            t_s: (m * n) as f64 / speed,
            reps: 1,
            ci_s: 0.0,
        });
        Surface::from_points(points.to_vec()).expect("valid")
    }

    #[test]
    fn measured_surfaces_have_sections() {
        let (slow, fast) = (flat_surface(10.0), flat_surface(30.0));
        assert_eq!(slow.section(5).time_s(6.0), 3.0);
        let surfaces: [&dyn SpeedSurface; 4] = [&slow, &slow, &fast, &fast];
        let columns = [vec![0, 1], vec![2, 3]];
        let found = fpm_kl(&surfaces, &columns, 8, 8, &FpmKlConfig::default()).expect("valid");
        assert_eq!(found.layout.areas(), [8, 8, 24, 24]);
        assert!(found.converged);
    }
}
