//! Knowledge of a node's devices that outlives one IDPA.

use serde::{Deserialize, Serialize};

use super::{BalanceConfig, BalanceStep, Idpa};
use crate::model::Point;

/// Knowledge of a node's devices, for a sub-matrix of any height: measured points, one unit of which is one
/// matrix element, and the speeds at the last slices.
///
/// INPA calls IDPA for another sub-matrix in every iteration. A device's time hardly depends on the shape of
/// its slice, so a slice of another height counts with its area.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DeviceModels {
    /// Speed of each device in elements per second at its last slice; 0 if it is not known.
    pub speeds: Vec<f64>,
    /// Every measured point of each device.
    pub(super) points: Vec<Vec<Point>>,
}

impl DeviceModels {
    /// Makes models of `n_devices` devices of which nothing is known.
    pub fn unknown(n_devices: usize) -> Self {
        Self { speeds: vec![0.0; n_devices], points: vec![Vec::new(); n_devices] }
    }

    /// Makes models of devices of which only relative speeds are known; a speed of 0 is unknown.
    pub fn from_speeds(speeds: &[f64]) -> Self {
        Self { speeds: speeds.to_vec(), points: vec![Vec::new(); speeds.len()] }
    }

    /// Makes models of devices of which these points are known, one unit of which is one matrix element. The speed is
    /// that of the largest measured size.
    pub fn from_points(points: Vec<Vec<Point>>) -> Self {
        let measured = points
            .iter()
            .map(|points| points.iter().filter(|point| point.reps > 0).max_by_key(|point| point.d));
        Self { speeds: measured.map(|point| point.map_or(0.0, Point::speed)).collect(), points }
    }

    /// Returns the number of devices.
    pub fn n_devices(&self) -> usize {
        self.speeds.len()
    }

    /// Divides `columns` matrix columns of `rows` rows by what is known, without a measurement.
    pub fn divide(&self, config: BalanceConfig, rows: u64, columns: u64) -> Vec<u64> {
        match Idpa::new(config, self.n_devices(), rows, columns, Some(self)).step() {
            BalanceStep::Measure(slices) => slices,
            BalanceStep::Done(balance) => balance.slices,
        }
    }

    /// Returns the points of a device in columns of `rows` rows. A point of less than half a column says
    /// too little about whole ones.
    pub(super) fn points_of_height(&self, device: usize, rows: u64) -> Vec<Point> {
        let height = rows.max(1) as f64;
        (self.points[device].iter())
            .filter_map(|point| {
                let columns = point.d as f64 / height;
                let whole = columns.round();
                let scale = whole / columns;
                (whole >= 1.0).then_some(Point {
                    d: whole as u64,
                    t_s: point.t_s * scale,
                    ci_s: point.ci_s * scale,
                    ..*point
                })
            })
            .collect()
    }

    /// Adds the point of a device's slice, which replaces a point of the same slice if `again`.
    pub(super) fn learn(&mut self, device: usize, point: Point, again: bool) {
        let known = &mut self.points[device];
        if again && let Some(last) = known.iter().rposition(|old| old.d == point.d) {
            known.remove(last);
        }
        known.push(point);
        if point.reps > 0 {
            self.speeds[device] = point.speed();
        }
    }
}
