//! Measuring the devices of a node together.

use super::deadline::{Reach, find_reaches};
use super::{InStep, MeasureConfig, Measurement, repeat_until_confident};
use crate::memory::memory_available_bytes;
use crate::team::DeviceTeam;
use crate::worker::{Depth, JobShape, UpdateTime};
use crate::{DeviceError, Element, View, ViewMut, leading_dimension, try_reserve_matrix};
use num_complex::Complex64;

/// The operands of a measured update. Kept from one measurement to the next, so that most measurements find their
/// memory in place.
#[derive(Debug)]
pub struct UpdateOperands<T = f64> {
    rows: usize,
    cols: usize,
    k: usize,
    a: Vec<T>,
    b: Vec<T>,
    c: Vec<T>,
}

impl<T> Default for UpdateOperands<T> {
    /// None yet.
    fn default() -> Self {
        Self {
            rows: 0,
            cols: 0,
            k: 0,
            a: Vec::new(),
            b: Vec::new(),
            c: Vec::new(),
        }
    }
}

/// Measures the update of `rows × slices[i]` with inner dimension `k = depth.k_max` on every device, all at the same time,
/// as part of a job of this depth.
///
/// Every element of the operands is written before, so that no page fault is timed; an update of a few columns of each
/// device warms the devices up; then whole-team updates are repeated as [`repeat_until_confident`] says. A device with 0 columns
/// is not measured: its [`Measurement`] is the default, all zero. `in_step` decides about every repetition, as there; it
/// is asked about the first one after warming up.
///
/// A slice that would take a device more than twice `max_seconds` is not measured: its measurement is a
/// [bound](Measurement::lower_bound). This is found out by parts of it, each 4 times as wide as the last, and only where the
/// time of the first columns gives rise to it; a wider part is run when the narrower ones say that the whole is feasible. The
/// other devices are then measured beside the last part of that slice. When all slices are so, there is no repetition,
/// and `in_step` is not asked.
///
/// Where devices gather, a repetition is as many updates as [belong together](DeviceTeam::updates_per_visit), and its time
/// their mean. What the beginning and the end of the job took, once, is spread over the updates of a whole job,
/// `t = t_update + (t_begin + t_finish)·k / k_total`: a GPU that keeps C has to copy it there and back, which may
/// take longer than the arithmetic. Nothing is added where nobody knows how long the job will be
/// ([`Depth::endless`]): then it is the time of an update in the middle of a long one. Memory is
/// [taken](DeviceTeam::reserve) before, and not timed.
///
/// # Errors
/// [`DeviceError::Memory`] when the operands and what the devices need do not fit into the memory that is left, before any
/// of it is taken; [`DeviceError::Measure`] for a
/// configuration out of range; [`DeviceError::Slices`]; the errors of the devices.
///
/// # References
/// Clarke's thesis, section 3.1.4 (the computational kernel, and measuring cores that share memory together);
/// Khaleghzadeh et al., supplement of the HPOPTA paper, section 1.
pub fn measure_team<T: Element>(
    team: &mut DeviceTeam,
    rows: usize,
    slices: &[usize],
    depth: Depth,
    config: &MeasureConfig,
    operands: &mut UpdateOperands<T>,
    in_step: &mut InStep<'_>,
) -> Result<Vec<Measurement>, DeviceError> {
    config.validate()?;
    let held = team.memory_held();
    let cols = slices.iter().sum();
    let job = JobShape::of::<T>((rows, cols), depth);
    let mut devices = team.memory_needed(&job, slices)?;
    let left = operands
        .left_beside(rows, cols, depth.k_max)
        .saturating_add(held);
    if devices > left {
        // Those that gather in host memory make do with less.
        team.limit_memory(left / slices.len().max(1) as u64);
        devices = team.memory_needed(&job, slices)?;
    }
    operands.prepare_beside(rows, cols, depth.k_max, devices.saturating_sub(held))?;
    let few: Vec<usize> = slices
        .iter()
        .map(|&columns| columns.min(WARM_UP_COLUMNS))
        .collect();
    let mut part = |widths: &[usize]| operands.run_job(team, widths, depth);
    let warm_s = part(&few)?;
    let reaches = find_reaches(slices, warm_s, few, config.max_seconds, &mut part)?;
    let measured: Vec<usize> = (0..slices.len())
        .filter(|&i| slices[i] > 0 && reaches[i].bound_s.is_none())
        .collect();
    let mut measurements: Vec<Measurement> = reaches.iter().map(bound_of).collect();
    if measured.is_empty() {
        return Ok(measurements);
    }
    let columns: Vec<usize> = reaches.iter().map(|reach| reach.columns).collect();
    // A job as long as one repetition, after which devices count from 0 again: each repetition is whole visits.
    let job = job.with_cols(columns.iter().sum());
    let visited = team.updates_per_visit(&job, &columns)?;
    let period = Depth::of(depth.k_max, visited);
    let repetition = JobShape {
        depth: period,
        ..job
    };
    team.reserve(&repetition, &columns)?;
    let begun = team.begin(operands.first_columns(&columns), &columns, period)?;
    // Where memory was refused, the tiles are smaller than they were to be.
    let together = team.updates_per_visit(&repetition, &columns)?;
    let together = if visited.is_multiple_of(together) {
        together
    } else {
        visited
    };
    if team.copies_ahead() {
        // Nobody has announced its panels, so it is not like the others.
        operands.run_update(team, &columns, together)?;
    }
    let mut sample = || {
        let times = operands.run_update(team, &columns, together)?;
        Ok(measured.iter().map(|&i| times[i]).collect())
    };
    let found = repeat_until_confident(measured.len(), config, &mut sample, in_step)?;
    let ended = team.finish(operands.first_columns(&columns), &columns)?;
    for (i, measurement) in measured.into_iter().zip(found) {
        measurements[i] = measurement.in_job([begun[i], ended[i]], together, depth);
    }
    Ok(measurements)
}

impl Measurement {
    /// What was found of updates, `together` a repetition, as part of a job that began and ended in these times.
    fn in_job(self, ends: [UpdateTime; 2], together: usize, depth: Depth) -> Self {
        let ends_s: f64 = ends.iter().map(|time| time.busy_s).sum();
        let part_s = ends_s * depth.part_of_update();
        Self {
            t_s: self.t_s + part_s,
            fastest_s: self.fastest_s + part_s,
            cost_s: self.cost_s * together as f64 + ends_s,
            ..self
        }
    }
}

/// What is known of a device that is not measured.
fn bound_of(reach: &Reach) -> Measurement {
    reach
        .bound_s
        .map_or_else(Measurement::default, Measurement::lower_bound)
}

/// Columns of each device in the update that warms it up.
const WARM_UP_COLUMNS: usize = 32;

impl<T: Element> UpdateOperands<T> {
    /// Bytes that updates of `rows × cols` with inner dimension `k` need beyond what is allocated already; the largest
    /// number when they are beyond counting.
    pub fn missing_bytes(&self, rows: usize, cols: usize, k: usize) -> u64 {
        let held = [&self.a, &self.b, &self.c].map(Vec::capacity);
        let missing = |(needed, held): (u128, usize)| needed.saturating_sub(held as u128);
        let elements = operand_lengths::<T>(rows, cols, k)
            .into_iter()
            .zip(held)
            .map(missing);
        let elements = elements.fold(0, u128::saturating_add);
        let bytes = elements.saturating_mul(size_of::<T>() as u128);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Bytes of host memory that are left beside the operands of such updates; nothing where these do not fit.
    fn left_beside(&self, rows: usize, cols: usize, k: usize) -> u64 {
        let available = memory_available_bytes().unwrap_or(isize::MAX as u64);
        available.saturating_sub(self.missing_bytes(rows, cols, k))
    }

    /// Allocates and writes the operands for updates of `rows × cols` with inner dimension `k`. [`measure_team`] does
    /// so itself; nodes that measure side by side do it before they start together, since writing matrices disturbs
    /// the others' measurements.
    ///
    /// # Errors
    /// [`DeviceError::Memory`] when they do not fit into the memory that is left.
    pub fn prepare(&mut self, rows: usize, cols: usize, k: usize) -> Result<(), DeviceError> {
        self.prepare_beside(rows, cols, k, 0)
    }

    /// The same, where devices will need so many bytes too.
    fn prepare_beside(
        &mut self,
        rows: usize,
        cols: usize,
        k: usize,
        devices: u64,
    ) -> Result<(), DeviceError> {
        let needed = self.missing_bytes(rows, cols, k).saturating_add(devices);
        // Asking the allocator is not enough: Linux promises memory that it does not have.
        let available = memory_available_bytes().unwrap_or(isize::MAX as u64);
        if needed > available {
            return Err(memory_error(needed, needed - available));
        }
        let operands = [&mut self.a, &mut self.b, &mut self.c];
        for (values, count) in operands
            .into_iter()
            .zip(operand_lengths::<T>(rows, cols, k))
        {
            // A length beyond counting is beyond memory, which was just found out.
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            fill_operand(values, count).ok_or_else(|| memory_error(needed, needed))?;
        }
        (self.rows, self.cols, self.k) = (rows, cols, k);
        Ok(())
    }

    /// The first columns of C, as many as the slices have together.
    fn first_columns(&mut self, slices: &[usize]) -> ViewMut<'_, T> {
        let ld = leading_dimension::<T>(self.rows);
        ViewMut::new(&mut self.c, self.rows, slices.iter().sum(), ld)
    }

    /// A short job, of as few updates as make sense; returns the busy times of the devices in one of them.
    fn run_job(
        &mut self,
        team: &mut DeviceTeam,
        slices: &[usize],
        depth: Depth,
    ) -> Result<Vec<f64>, DeviceError> {
        team.begin(self.first_columns(slices), slices, depth)?;
        let job = JobShape::of::<T>((self.rows, slices.iter().sum()), depth);
        let together = team.updates_per_visit(&job, slices)?;
        let times = self.run_update(team, slices, together)?;
        team.finish(self.first_columns(slices), slices)?;
        Ok(times)
    }

    /// One update of all devices, or the mean of those that belong together; returns their busy times.
    fn run_update(
        &mut self,
        team: &mut DeviceTeam,
        slices: &[usize],
        together: usize,
    ) -> Result<Vec<f64>, DeviceError> {
        let (rows, cols) = (self.rows, slices.iter().sum());
        let a = View::new(&self.a, rows, self.k, rows.max(1));
        let b = View::new(&self.b, self.k, cols, self.k.max(1));
        let mut c = ViewMut::new(&mut self.c, rows, cols, leading_dimension::<T>(rows));
        let mut means_s = vec![0.0; slices.len()];
        let share = team.share_of_time();
        for _ in 0..together {
            let times = team.update(
                T::ONE,
                (a, b),
                Some((a, b)),
                c.reborrow(),
                slices,
                &mut || false,
            )?;
            let times = times.iter().zip(team.infos());
            for (mean_s, (time, device)) in means_s.iter_mut().zip(times) {
                *mean_s += time.sustained_s(device.clock, share) / together as f64;
            }
        }
        Ok(means_s)
    }
}

/// Elements of A, B and C.
fn operand_lengths<T>(rows: usize, cols: usize, k: usize) -> [u128; 3] {
    let ld = leading_dimension::<T>(rows) as u128;
    let [rows, cols, k] = [rows as u128, cols as u128, k as u128];
    [rows * k, k * cols, ld * cols]
}

fn memory_error(needed_bytes: u64, missing_bytes: u64) -> DeviceError {
    DeviceError::Memory {
        needed_bytes,
        missing_bytes,
    }
}

/// What element `at` is.
fn element_at<T: Element>(at: usize) -> T {
    T::of(Complex64::new((at % 16 + 1) as f64 / 32.0, 0.0))
}

/// Ordinary numbers between 1/32 and 1/2: sums of their products stay far from overflow, and none is denormal, which
/// some processors compute a hundred times slower. What was written stays, so that a smaller update costs nothing.
/// `None` when there is no memory for them.
fn fill_operand<T: Element>(values: &mut Vec<T>, count: usize) -> Option<()> {
    let Some(more) = count.checked_sub(values.len()).filter(|&more| more > 0) else {
        return Some(());
    };
    try_reserve_matrix(values, more).ok()?;
    values.extend((values.len()..count).map(element_at::<T>));
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DeviceClock;
    use crate::measure::repeat_alone;
    use crate::recorded::RecordedWorker;
    use crate::worker::{DeviceInfo, DeviceKind, JobNeeds, Updates, Worker};
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
        let found = measure_team(
            &mut team,
            16,
            &[8, 0, 4],
            Depth::endless(4),
            &config,
            &mut UpdateOperands::<f64>::default(),
            &mut repeat_alone,
        )
        .unwrap();
        // 16 × 8 and 16 × 4 with b = 4 are 8 and 4 units.
        assert_eq!((found[0].t_s, found[2].t_s), (2.0, 1.0));
        assert_eq!(found[1], Measurement::default());
        assert!(found[0].is_precise() && found[2].is_precise());
    }

    /// A device that computes for 5 ms an update, and can do so in 12.5 ms of every 100 ms.
    struct Throttled(DeviceInfo, u32);

    impl Worker for Throttled {
        fn info(&self) -> &DeviceInfo {
            &self.0
        }

        fn job_needs(&self, _: &JobShape) -> JobNeeds {
            JobNeeds::default()
        }
    }

    impl<T: Element> Updates<T> for Throttled {
        fn begin(&mut self, _c: ViewMut<'_, T>, _depth: Depth) -> Result<UpdateTime, DeviceError> {
            Ok(UpdateTime::default())
        }

        fn update(
            &mut self,
            _alpha: T,
            _a: View<'_, T>,
            _b: View<'_, T>,
            _c: ViewMut<'_, T>,
        ) -> Result<UpdateTime, DeviceError> {
            self.1 += 1;
            let busy_s = if self.1.is_multiple_of(5) || self.1.is_multiple_of(3) {
                0.0925
            } else {
                0.005
            };
            Ok(UpdateTime {
                busy_s,
                cpu_s: 0.005,
            })
        }

        fn finish(&mut self, _c: ViewMut<'_, T>) -> Result<UpdateTime, DeviceError> {
            Ok(UpdateTime::default())
        }
    }

    /// What is measured of that device where its thread can run for this part of the time.
    fn throttled_s(clock: DeviceClock, share: f64) -> f64 {
        let info = DeviceInfo {
            name: "throttled".to_owned(),
            kind: DeviceKind::Cpu,
            blas: "none".to_owned(),
            paced: None,
            clock,
            cores: vec![0],
            pinned: false,
            bus_id: None,
        };
        let mut team = DeviceTeam::new(vec![Box::new(Throttled(info, 0))]).unwrap();
        team.set_share_of_time(share);
        let found = measure_team(
            &mut team,
            8,
            &[8],
            Depth::endless(4),
            &MeasureConfig::default(),
            &mut UpdateOperands::<f64>::default(),
            &mut repeat_alone,
        );
        found.unwrap()[0].t_s
    }

    #[test]
    fn under_a_quota_an_update_takes_what_many_of_them_take() {
        assert!((throttled_s(DeviceClock::Cores, 0.125) - 0.04).abs() < 1e-12);
        // By the clock on the wall, as ever.
        let wall_s = throttled_s(DeviceClock::Cores, 1.0);
        assert!((0.005..=0.0925).contains(&wall_s) && (wall_s - 0.04).abs() > 1e-6);
        // No quota changes a prescribed time.
        assert_eq!(throttled_s(DeviceClock::Prescribed, 0.125), wall_s);
    }

    #[test]
    fn a_hopeless_device_is_bounded_and_the_others_are_measured_beside_it() {
        // 16 × 4096 with b = 4 are 4096 units: 1 s for the fast device, 4096 s for the slow one.
        let workers = vec![recorded("fast", 4096, 1.0), recorded("slow", 1, 1.0)];
        let mut team = DeviceTeam::new(workers).unwrap();
        let config = MeasureConfig::default();
        let mut measure = |slices: &[usize], asked: &mut u32| {
            let mut operands = UpdateOperands::<f64>::default();
            let mut in_step = |needed: bool| {
                *asked += 1;
                needed
            };
            measure_team(
                &mut team,
                16,
                slices,
                Depth::endless(4),
                &config,
                &mut operands,
                &mut in_step,
            )
            .unwrap()
        };
        let mut asked = 0;
        let found = measure(&[4096, 4096], &mut asked);
        assert_eq!((found[0].t_s, found[0].is_bound(), asked), (1.0, false, 4));
        // The first 32 columns took 32 s: the whole takes at least that.
        assert_eq!(found[1], Measurement::lower_bound(32.0));
        let mut asked = 0;
        let found = measure(&[0, 4096], &mut asked);
        assert_eq!(
            found,
            [Measurement::default(), Measurement::lower_bound(32.0)]
        );
        assert_eq!(asked, 0, "there is nothing to repeat");
    }

    #[test]
    fn an_impossible_size_is_refused_with_what_is_missing() {
        let mut team = DeviceTeam::new(vec![recorded("a", 1, 1.0)]).unwrap();
        let huge = 1 << 30;
        let config = MeasureConfig::default();
        let error = measure_team(
            &mut team,
            huge,
            &[huge],
            Depth::endless(64),
            &config,
            &mut UpdateOperands::<f64>::default(),
            &mut repeat_alone,
        )
        .unwrap_err();
        let DeviceError::Memory {
            needed_bytes,
            missing_bytes,
        } = error
        else {
            panic!("{error}");
        };
        let ld = leading_dimension::<f64>(huge) as u64;
        assert_eq!(needed_bytes, 8 * (ld * huge as u64 + 2 * (1 << 36)));
        assert!(missing_bytes > needed_bytes / 2 && missing_bytes < needed_bytes);
    }

    #[test]
    fn sizes_beyond_counting_saturate() {
        let most = usize::MAX;
        assert_eq!(
            UpdateOperands::<f64>::default().missing_bytes(most, most, most),
            u64::MAX
        );
    }

    #[test]
    fn what_is_held_is_not_missing() {
        let mut operands = UpdateOperands::<f64>::default();
        operands.prepare(100, 50, 10).unwrap();
        assert_eq!(operands.missing_bytes(100, 50, 10), 0);
        // A large C is of no use to A.
        assert_eq!(
            operands.missing_bytes(200, 25, 10),
            8 * (200 * 10 - 100 * 10)
        );
        operands.prepare(100, 20, 10).unwrap();
        assert_eq!(
            operands.c.len(),
            100 * 50,
            "a smaller update keeps what there is"
        );
    }

    #[test]
    fn fill_is_neither_zero_nor_denormal() {
        let mut values: Vec<f64> = Vec::new();
        fill_operand(&mut values, 100).unwrap();
        assert!(values.iter().all(|v| v.is_normal()));
        assert!(fill_operand::<f64>(&mut Vec::new(), usize::MAX / 4).is_none());
    }
}
