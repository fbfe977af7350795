//! The devices of a node while the planner asks about parts of C.

use std::collections::HashMap;

use super::Division;
use crate::balance::{BalanceConfig, DeviceBalance, DeviceModels, Extent, Idpa};
use crate::layout::Rect;
use crate::model::Point;
use crate::partition::apportion;
use crate::problem::Problem;

/// The devices of a node, among which IDPA divides each part of C that the planner asks about. What one part teaches of them serves
/// the next.
#[derive(Debug)]
pub struct NodeDevices {
    config: BalanceConfig,
    n_devices: usize,
    /// Knowledge of the devices on parts of C.
    of_c: KnownParts,
    /// Knowledge of the devices on all of C, with a share of k.
    of_k: KnownParts,
}

/// The parts that were balanced, and the models that they made.
#[derive(Debug, Default)]
struct KnownParts {
    found: HashMap<Extent, DeviceBalance>,
    known: Option<DeviceModels>,
}

impl NodeDevices {
    /// Begins without knowledge of the devices.
    pub fn new(config: BalanceConfig, n_devices: usize) -> Self {
        Self { config, n_devices, of_c: KnownParts::default(), of_k: KnownParts::default() }
    }

    /// Begins with these points of each device, one unit of which is one element of C.
    pub fn with_points(mut self, points: Vec<Vec<Point>>) -> Self {
        let known = DeviceModels::from_points(points);
        for memory in [&mut self.of_c, &mut self.of_k] {
            memory.known = Some(known.clone());
        }
        self
    }

    fn memory(&self, along_k: bool) -> &KnownParts {
        if along_k { &self.of_k } else { &self.of_c }
    }

    /// Begins to balance the devices on a part of C of `rows × cols` elements.
    pub fn begin(&self, rows: usize, cols: usize, along_k: bool) -> Idpa {
        let columns = if rows == 0 { 0 } else { cols as u64 };
        let known = self.memory(along_k).known.as_ref();
        let config = self.config.for_devices();
        Idpa::new(config, self.n_devices, rows as u64, columns, known)
    }

    /// Keeps the balance of a part for the next ones, and for the division of its columns.
    pub fn keep(&mut self, part: Extent, along_k: bool, balance: DeviceBalance) {
        let memory = if along_k { &mut self.of_k } else { &mut self.of_c };
        memory.known = Some(balance.models.clone());
        memory.found.insert(part, balance);
    }

    /// Divides the columns of a part of `rows × cols` elements by what is known of the devices; evenly if nothing is.
    pub fn slice_columns(&self, rows: usize, cols: usize, along_k: bool) -> Vec<usize> {
        match &self.memory(along_k).known {
            Some(models) => models
                .divide(self.config, rows as u64, cols as u64)
                .into_iter()
                .map(|columns| columns as usize)
                .collect(),
            None => apportion_columns(cols, &vec![1.0; self.n_devices]),
        }
    }

    /// Divides the columns of the part of node `rank`: as balanced, or by the devices' models if a part of this size was not.
    pub fn slice_part(&self, problem: &Problem, division: &Division, rank: usize) -> Vec<usize> {
        let Division::C(layout) = division else {
            let has_work = division.shares().is_some_and(|shares| shares[rank] > 0);
            let cols = if has_work { problem.n() } else { 0 };
            return self.slice_columns(problem.m(), cols, true);
        };
        let rect = &layout.rects()[rank];
        let (rows, cols) = cut(problem, rect);
        match self.of_c.found.get(&Extent::from(rect)) {
            // The slices keep their proportions if the last block column is cut short.
            Some(found) => {
                let balanced: Vec<f64> = found.slices.iter().map(|&cols| cols as f64).collect();
                apportion_columns(cols, &balanced)
            }
            None => self.slice_columns(rows, cols, false),
        }
    }
}

/// Returns the rows of a node's part in elements.
pub fn count_rows(problem: &Problem, division: &Division, rank: usize) -> usize {
    match division {
        Division::C(layout) => cut(problem, &layout.rects()[rank]).0,
        Division::K { .. } => problem.m(),
    }
}

/// Returns the height and the width of a rectangle of C in elements.
fn cut(problem: &Problem, rect: &Rect) -> (usize, usize) {
    let (top, left) = problem.size_in_elements(rect.row, rect.col);
    let (bottom, right) = problem.size_in_elements(rect.row + rect.rows, rect.col + rect.cols);
    (bottom - top, right - left)
}

/// Divides columns in proportion to these weights.
pub fn apportion_columns(columns: usize, weights: &[f64]) -> Vec<usize> {
    apportion(columns as u64, weights).into_iter().map(|columns| columns as usize).collect()
}
