//! Measuring the devices of a node together.

use super::{MeasureConfig, Measurement, repeat_until_confident};
use crate::memory::memory_available_bytes;
use crate::team::DeviceTeam;
use crate::{DeviceError, View, ViewMut};

/// Measures the update of `rows × slices[i]` with inner dimension `k` on every device, all at the same time.
///
/// The operands are allocated once and every element is written, so that no page fault is timed; a thin update warms
/// the devices up; then whole-team updates are repeated as [`repeat_until_confident`] says. A device with 0 columns
/// is not measured: its [`Measurement`] is the default, all zero. `meanwhile` is called as by [`DeviceTeam::update`].
///
/// # Errors
/// [`DeviceError::Memory`] when the operands do not fit into the memory that is left; [`DeviceError::Measure`] for a
/// configuration out of range; [`DeviceError::Slices`]; the errors of the devices.
///
/// # References
/// Clarke's thesis, section 3.1.4 (the computational kernel, and measuring cores that share memory together);
/// Khaleghzadeh et al., supplement of the HPOPTA paper, section 1.
pub fn measure_team(
    team: &mut DeviceTeam,
    rows: usize,
    slices: &[usize],
    k: usize,
    config: &MeasureConfig,
    meanwhile: &mut dyn FnMut(),
) -> Result<Vec<Measurement>, DeviceError> {
    config.validate()?;
    let mut operands = Operands::new(rows, slices.iter().sum(), k)?;
    team.begin(operands.c(), slices, k)?;
    let thin = k.min(1);
    operands.update(team, slices, thin, meanwhile)?;
    let active: Vec<usize> = (0..slices.len()).filter(|&i| slices[i] > 0).collect();
    let found = repeat_until_confident(active.len(), config, &mut || {
        let times = operands.update(team, slices, k, meanwhile)?;
        Ok(active.iter().map(|&i| times[i]).collect())
    })?;
    team.finish(operands.c(), slices)?;
    let mut measurements = vec![Measurement::default(); slices.len()];
    for (i, measurement) in active.into_iter().zip(found) {
        measurements[i] = measurement;
    }
    Ok(measurements)
}

/// A, B and C of the update that is measured.
struct Operands {
    rows: usize,
    cols: usize,
    k: usize,
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
}

impl Operands {
    fn new(rows: usize, cols: usize, k: usize) -> Result<Self, DeviceError> {
        let needed = needed_bytes(rows, cols, k);
        // Asking the allocator is not enough: Linux promises memory that it does not have.
        let available = memory_available_bytes().unwrap_or(isize::MAX as u64);
        if needed > available {
            return Err(missing(needed, needed - available));
        }
        let filled = |count: usize| filled(count).ok_or_else(|| missing(needed, needed));
        Ok(Self {
            rows,
            cols,
            k,
            a: filled(rows * k)?,
            b: filled(k * cols)?,
            c: filled(rows * cols)?,
        })
    }

    fn c(&mut self) -> ViewMut<'_, f64> {
        ViewMut::new(&mut self.c, self.rows, self.cols, self.rows.max(1))
    }

    /// One update of all devices with the first `k` columns of A; returns their busy times.
    fn update(
        &mut self,
        team: &mut DeviceTeam,
        slices: &[usize],
        k: usize,
        meanwhile: &mut dyn FnMut(),
    ) -> Result<Vec<f64>, DeviceError> {
        let (rows, cols) = (self.rows, self.cols);
        let a = View::new(&self.a, rows, self.k, rows.max(1)).columns(0..k);
        let b = View::new(&self.b, self.k, cols, self.k.max(1)).block(0..k, 0..cols);
        let c = ViewMut::new(&mut self.c, rows, cols, rows.max(1));
        let times = team.update(1.0, a, b, c, slices, meanwhile)?;
        Ok(times.iter().map(|time| time.busy_s).collect())
    }
}

/// Bytes of A, B and C; the largest number when they are beyond counting.
fn needed_bytes(rows: usize, cols: usize, k: usize) -> u64 {
    let [rows, cols, k] = [rows as u128, cols as u128, k as u128];
    let elements = (rows * k)
        .saturating_add(k * cols)
        .saturating_add(rows * cols);
    let bytes = elements.saturating_mul(8);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

fn missing(needed_bytes: u64, missing_bytes: u64) -> DeviceError {
    DeviceError::Memory {
        needed_bytes,
        missing_bytes,
    }
}

/// Ordinary numbers between 1/32 and 1/2: sums of their products stay far from overflow, and none is denormal, which
/// some processors compute a hundred times slower. `None` when there is no memory for them.
fn filled(count: usize) -> Option<Vec<f64>> {
    let mut values = Vec::new();
    values.try_reserve_exact(count).ok()?;
    values.extend((0..count).map(|at| (at % 16 + 1) as f64 / 32.0));
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded::RecordedWorker;
    use crate::worker::{DeviceKind, Worker};
    use isochron_hierarchy::model::{PiecewiseFpm, Point};

    fn recorded(name: &str, d: u64, t_s: f64) -> Box<dyn Worker> {
        let point = Point {
            d,
            t_s,
            reps: 1,
            ci_s: 0.0,
        };
        let model = PiecewiseFpm::from_points(vec![point]).unwrap();
        Box::new(RecordedWorker::new(name, DeviceKind::Cpu, model, 4).unwrap())
    }

    #[test]
    fn recorded_devices_measure_as_recorded() {
        let workers = vec![
            recorded("a", 8, 2.0),
            recorded("idle", 8, 1.0),
            recorded("b", 2, 0.5),
        ];
        let mut team = DeviceTeam::new(workers).unwrap();
        let config = MeasureConfig::default();
        let found = measure_team(&mut team, 16, &[8, 0, 4], 4, &config, &mut || {}).unwrap();
        // 16 × 8 and 16 × 4 with b = 4 are 8 and 4 units.
        assert_eq!((found[0].t_s, found[2].t_s), (2.0, 1.0));
        assert_eq!(found[1], Measurement::default());
        assert!(found[0].reached && found[2].reached);
    }

    #[test]
    fn an_impossible_size_is_refused_with_what_is_missing() {
        let mut team = DeviceTeam::new(vec![recorded("a", 1, 1.0)]).unwrap();
        let huge = 1 << 30;
        let config = MeasureConfig::default();
        let error = measure_team(&mut team, huge, &[huge], 64, &config, &mut || {}).unwrap_err();
        let DeviceError::Memory {
            needed_bytes,
            missing_bytes,
        } = error
        else {
            panic!("{error}");
        };
        assert_eq!(needed_bytes, 8 * ((1 << 60) + 2 * (1 << 36)));
        assert!(missing_bytes > needed_bytes / 2 && missing_bytes < needed_bytes);
    }

    #[test]
    fn sizes_beyond_counting_saturate() {
        assert_eq!(needed_bytes(usize::MAX, usize::MAX, usize::MAX), u64::MAX);
    }

    #[test]
    fn fill_is_neither_zero_nor_denormal() {
        let values = filled(100).unwrap();
        assert!(values.iter().all(|v| v.is_normal()));
        assert!(filled(usize::MAX / 4).is_none());
    }
}
