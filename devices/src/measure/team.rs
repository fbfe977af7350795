//! Measuring the devices of a node together.

use super::deadline::find_reaches;
use super::operands::UpdateOperands;
use super::repeat::repeat_until_confident;
use super::{InStep, MeasureConfig};
use crate::contract::{
    Depth, DeviceError, JobShape, Scalar, UpdateTime, View, ViewMut, leading_dimension,
};
use crate::team::DeviceTeam;
use isochron_hierarchy::times::{Measurement, Sample};

/// Measures the update of `rows × slices[i]` with inner dimension `k = depth.k_max` on every device, all at the same
/// time, as part of a job of this depth.
///
/// First every element of the operands is written, so that no page fault is timed. An update of a few columns warms the
/// devices up. Then updates of the whole team are repeated until every mean has the precision of `config`. A device
/// with 0 columns is not measured, and its [`Measurement`] is the default, all zero. The units are elements of C. `in_step` decides on every
/// repetition, the first one included, after warming up.
///
/// A slice that would take a device more than twice `max_seconds` gets a [bound](Measurement::at_least). If the time
/// of its first columns raises that doubt, parts of it are run, each 4 times as wide as the last. The other devices are
/// then measured while this one updates its last part. If all slices are so slow, nothing is repeated and `in_step` is
/// not asked.
///
/// If devices gather panels, a repetition is as many updates as [belong together](DeviceTeam::updates_per_visit), and
/// its time is their mean. The beginning and the end of the job are timed once and spread over the updates of a whole
/// job: `t = t_update + (t_begin + t_finish)·k / k_total`. For a GPU that keeps C they are copies, which may take
/// longer than the arithmetic. For a job of unknown length ([`Depth::endless`]) nothing is added: the time is that of
/// an update in the middle of a long job. Memory is [taken](DeviceTeam::reserve) before, and not timed.
///
/// # Deviations
/// * **Kernel**: the paper measures the rank-`b` update of the run (thesis, section 3.1.4). Here it is the update of a
///   panel, whose width is not the block size, because a division needs relative speeds only. If the fewest repetitions
///   would cost more than 3.5 % of a k of few panels, the measured panel is narrower. It has at least 128 columns, or
///   all of the panel, since an update of fewer is bound by the memory of C.
/// * **Repetitions**: the papers repeat until the mean is precise, at least 3 times (thesis, section 3.1.4), to 2.5 %
///   at 95 % (supplement of the HPOPTA paper, section 1). Here the same, but each measurement costs at most 3.5 % of
///   the run's steps, and never fewer than 3 repetitions, because balancing has to win back its cost within one run. In
///   short runs this limit decides, and not the precision. `isochron measure mxm --thorough` repeats as often as the
///   supplement, for models that are kept.
/// * **Panels while measuring**: the paper's kernel is one iteration with its communication replaced by a copy (thesis,
///   section 3.1.4). Here each update announces the next one's panels, so a GPU always copies them while it computes,
///   because a model has no communication. In the run a GPU copies ahead only the panels that came in time. Uncovered
///   communication shows as `exposed_s` in the report, and a copy that it delays belongs to the time of its update.
/// * **C on a GPU**: the paper's times of the kernel include all transfers to and from the GPU (thesis, section 5.2.3).
///   Here C is copied once before the first and once after the last update, and the time of these copies is spread over
///   the run's updates, because a run copies C only once too. `isochron measure mxm` knows no run and leaves it out.
///
/// # Errors
/// Returns [`DeviceError::Memory`] if the operands and the devices' own needs do not fit into the free memory, before
/// any of it is taken; [`DeviceError::Measure`] for a configuration out of range; [`DeviceError::Slices`]; the errors
/// of the devices.
///
/// # References
/// Clarke's thesis, section 3.1.4 (the computational kernel, and measuring cores that share memory together);
/// Khaleghzadeh et al., supplement of the HPOPTA paper, section 1.
pub fn measure_team<T: Scalar>(
    team: &mut DeviceTeam,
    rows: usize,
    slices: &[usize],
    depth: Depth,
    config: &MeasureConfig,
    operands: &mut UpdateOperands<T>,
    in_step: &mut InStep<'_>,
) -> Result<Vec<Measurement>, DeviceError> {
    config.validate()?;
    let job = JobShape::of::<T>(rows, slices.iter().sum(), depth);
    operands.prepare_with_devices(team, &job, slices)?;
    let few: Vec<usize> = slices.iter().map(|&columns| columns.min(WARM_UP_COLUMNS)).collect();
    let reaches = find_reaches(slices, few, config.max_seconds, &mut |widths| {
        operands.run_job(team, widths, depth)
    })?;
    // The measurements of devices that are not measured.
    let mut measurements: Vec<Measurement> = reaches
        .iter()
        .zip(slices)
        .map(|(reach, &columns)| {
            let units = (rows * columns) as u64;
            reach
                .bound_s
                .map_or_else(Measurement::default, |bound_s| Measurement::at_least(units, bound_s))
        })
        .collect();
    let measured: Vec<usize> =
        (0..slices.len()).filter(|&i| slices[i] > 0 && reaches[i].bound_s.is_none()).collect();
    if !measured.is_empty() {
        let columns: Vec<usize> = reaches.iter().map(|reach| reach.columns).collect();
        let found = operands.measure_columns(team, &columns, &measured, depth, config, in_step)?;
        for (i, measurement) in measured.into_iter().zip(found) {
            measurements[i] = measurement;
        }
    }
    Ok(measurements)
}

/// Turns repetitions of updates, `together` of them in each, into those of updates in a job. `ends` are the times
/// of the job's beginning and end.
///
/// Without a repetition there is no update to spread the ends over: their part alone is no time of one.
fn put_in_job(
    measured: Measurement,
    ends: [UpdateTime; 2],
    together: usize,
    depth: Depth,
) -> Measurement {
    if measured.repetitions_s.is_empty() {
        return measured;
    }
    let ends_s: f64 = ends.iter().map(|time| time.busy_s).sum();
    let part_s = ends_s * depth.part_of_update();
    Measurement {
        sample: Sample {
            seconds: measured.sample.seconds + part_s,
            cost_s: measured.sample.cost_s * together as f64 + ends_s,
            ..measured.sample
        },
        repetitions_s: measured.repetitions_s.into_iter().map(|time_s| time_s + part_s).collect(),
        ..measured
    }
}

/// Columns of each device in the update that warms it up.
const WARM_UP_COLUMNS: usize = 32;

impl<T: Scalar> UpdateOperands<T> {
    /// Repeats updates of `columns` and returns the measurement of each device in `measured`, in that order.
    fn measure_columns(
        &mut self,
        team: &mut DeviceTeam,
        columns: &[usize],
        measured: &[usize],
        depth: Depth,
        config: &MeasureConfig,
        in_step: &mut InStep<'_>,
    ) -> Result<Vec<Measurement>, DeviceError> {
        let job = JobShape::of::<T>(self.rows, columns.iter().sum(), depth);
        // The job is as long as one repetition, after which devices count from 0 again: each repetition is whole visits.
        let visited = team.updates_per_visit(&job, columns)?;
        let repetition = JobShape { depth: Depth::of(depth.k_max, visited), ..job };
        team.reserve(&repetition, columns)?;
        let begun = team.begin(self.first_columns(columns), columns, repetition.depth)?;
        // If memory was refused, the tiles are smaller than planned.
        let possible = team.updates_per_visit(&repetition, columns)?;
        let together = if visited.is_multiple_of(possible) { possible } else { visited };
        if team.copies_ahead() {
            // No update has announced the panels of the first one, so it takes longer than the others.
            self.run_update(team, columns, together)?;
        }
        let units: Vec<u64> = measured.iter().map(|&i| (self.rows * columns[i]) as u64).collect();
        let found = repeat_until_confident(
            &units,
            config,
            &mut || {
                let times = self.run_update(team, columns, together)?;
                Ok(measured.iter().map(|&i| times[i]).collect())
            },
            in_step,
        )?;
        let ended = team.finish(self.first_columns(columns), columns)?;
        Ok(measured
            .iter()
            .zip(found)
            .map(|(&i, found)| put_in_job(found, [begun[i], ended[i]], together, depth))
            .collect())
    }

    /// Runs a job of as few updates as make sense, and returns the busy times of the devices in one of them.
    fn run_job(
        &mut self,
        team: &mut DeviceTeam,
        slices: &[usize],
        depth: Depth,
    ) -> Result<Vec<f64>, DeviceError> {
        team.begin(self.first_columns(slices), slices, depth)?;
        let job = JobShape::of::<T>(self.rows, slices.iter().sum(), depth);
        let together = team.updates_per_visit(&job, slices)?;
        let times = self.run_update(team, slices, together)?;
        team.finish(self.first_columns(slices), slices)?;
        Ok(times)
    }

    /// Runs `together` updates on all devices, and returns each device's mean busy time in seconds.
    fn run_update(
        &mut self,
        team: &mut DeviceTeam,
        slices: &[usize],
        together: usize,
    ) -> Result<Vec<f64>, DeviceError> {
        let (rows, cols) = (self.rows, slices.iter().sum());
        let a = View::new(self.a.elements(), rows, self.k, rows.max(1));
        let b = View::new(self.b.elements(), self.k, cols, self.k.max(1));
        let mut c = ViewMut::new(self.c.elements_mut(), rows, cols, leading_dimension::<T>(rows));
        let mut means_s = vec![0.0; slices.len()];
        let share = team.share_of_time();
        for _ in 0..together {
            let times =
                team.update(T::ONE, (a, b), Some((a, b)), c.reborrow(), slices, &mut || false)?;
            let devices = times.iter().zip(team.infos());
            for (mean_s, (time, device)) in means_s.iter_mut().zip(devices) {
                *mean_s += time.sustained_s(device.clock, share) / together as f64;
            }
        }
        Ok(means_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{DeviceClock, DeviceInfo, DeviceKind, PanelPair, Updates, Worker};
    use crate::measure::repeat_alone;
    use crate::paced::RecordedWorker;
    use isochron_hierarchy::model::{PiecewiseFpm, Point};

    fn recorded(name: &str, d: u64, t_s: f64) -> Box<dyn Worker> {
        let point = Point { d, t_s, reps: 1, ci_s: 0.0 };
        let model = PiecewiseFpm::from_points(vec![point]).unwrap();
        Box::new(RecordedWorker::new(name, DeviceKind::Cpu, model, 4).unwrap())
    }

    #[test]
    fn recorded_devices_measure_as_recorded() {
        let workers = vec![recorded("a", 8, 2.0), recorded("idle", 8, 1.0), recorded("b", 2, 0.5)];
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
        assert_eq!((found[0].sample.seconds, found[2].sample.seconds), (2.0, 1.0));
        assert_eq!(found[1], Measurement::default());
        assert!(found[0].is_precise() && found[2].is_precise());
    }

    #[test]
    fn the_beginning_of_a_job_alone_is_no_time_of_an_update() {
        assert_eq!(repeat_at_most(0), Measurement::default());
        let found = repeat_at_most(1);
        assert_eq!(found.repetitions_s, [found.sample.seconds]);
        assert!(found.sample.reps == 1 && found.sample.seconds > 0.005);
    }

    /// Measures an update of a job of 100 by this number of repetitions.
    fn repeat_at_most(most: usize) -> Measurement {
        let mut team = DeviceTeam::new(vec![throttled(DeviceClock::Cores)]).unwrap();
        let mut asked = 0;
        let found = measure_team(
            &mut team,
            8,
            &[8],
            Depth::of(4, 100),
            &MeasureConfig::default(),
            &mut UpdateOperands::<f64>::default(),
            &mut |_needed| {
                asked += 1;
                asked <= most
            },
        );
        found.unwrap().remove(0)
    }

    fn throttled(clock: DeviceClock) -> Box<dyn Worker> {
        let info =
            DeviceInfo { cores: vec![0], ..DeviceInfo::new("throttled", DeviceKind::Cpu, clock) };
        Box::new(Throttled(info, 0))
    }

    /// A device that begins a job in 5 µs, computes for 5 ms an update, and can do so in 12.5 ms of every 100 ms.
    struct Throttled(DeviceInfo, u32);

    impl Worker for Throttled {
        fn info(&self) -> &DeviceInfo {
            &self.0
        }
    }

    impl<T: Scalar> Updates<T> for Throttled {
        fn begin(&mut self, _c: ViewMut<'_, T>, _depth: Depth) -> Result<UpdateTime, DeviceError> {
            Ok(UpdateTime { busy_s: 5e-6, cpu_s: 0.0 })
        }

        fn update_ahead(
            &mut self,
            _alpha: T,
            _panels: PanelPair<'_, T>,
            _next: Option<PanelPair<'_, T>>,
            _c: ViewMut<'_, T>,
        ) -> Result<UpdateTime, DeviceError> {
            self.1 += 1;
            let busy_s =
                if self.1.is_multiple_of(5) || self.1.is_multiple_of(3) { 0.0925 } else { 0.005 };
            Ok(UpdateTime { busy_s, cpu_s: 0.005 })
        }

        fn finish(&mut self, _c: ViewMut<'_, T>) -> Result<UpdateTime, DeviceError> {
            Ok(UpdateTime::default())
        }
    }

    /// Measures that device with a thread that can run for this part of the time.
    fn throttled_s(clock: DeviceClock, share: f64) -> f64 {
        let mut team = DeviceTeam::new(vec![throttled(clock)]).unwrap();
        team.set_share_of_time(share);
        measure_team(
            &mut team,
            8,
            &[8],
            Depth::endless(4),
            &MeasureConfig::default(),
            &mut UpdateOperands::<f64>::default(),
            &mut repeat_alone,
        )
        .unwrap()[0]
            .sample
            .seconds
    }

    #[test]
    fn under_a_quota_an_update_takes_what_many_of_them_take() {
        assert!((throttled_s(DeviceClock::Cores, 0.125) - 0.04).abs() < 1e-12);
        // Without a quota wall time counts.
        let wall_s = throttled_s(DeviceClock::Cores, 1.0);
        assert!((0.005..=0.0925).contains(&wall_s) && (wall_s - 0.04).abs() > 1e-6);
        // No quota changes a prescribed time.
        assert_eq!(throttled_s(DeviceClock::Prescribed, 0.125), wall_s);
    }

    /// Measures slices, and counts how often another repetition was decided on.
    fn measure_counted(team: &mut DeviceTeam, slices: &[usize]) -> (Vec<Measurement>, u32) {
        let mut asked = 0;
        let found = measure_team(
            team,
            16,
            slices,
            Depth::endless(4),
            &MeasureConfig::default(),
            &mut UpdateOperands::<f64>::default(),
            &mut |needed| {
                asked += 1;
                needed
            },
        );
        (found.unwrap(), asked)
    }

    #[test]
    fn a_hopeless_device_is_bounded_and_the_others_are_measured_with_it() {
        // 16 × 4096 with b = 4 are 4096 units: 1 s for the fast device, 4096 s for the slow one.
        let workers = vec![recorded("fast", 4096, 1.0), recorded("slow", 1, 1.0)];
        let mut team = DeviceTeam::new(workers).unwrap();
        let (found, asked) = measure_counted(&mut team, &[4096, 4096]);
        let first = found[0].sample;
        assert_eq!((first.seconds, first.is_bound(), asked), (1.0, false, 4));
        // The first 32 columns took 32 s: the whole takes at least that.
        let slow = Measurement::at_least(16 * 4096, 32.0);
        assert_eq!(found[1], slow);
        let (found, asked) = measure_counted(&mut team, &[0, 4096]);
        assert_eq!(found, [Measurement::default(), slow]);
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
        let DeviceError::Memory { needed_bytes, missing_bytes } = error else {
            panic!("{error}");
        };
        let ld = leading_dimension::<f64>(huge) as u64;
        assert_eq!(needed_bytes, 8 * (ld * huge as u64 + 2 * (1 << 36)));
        assert!(missing_bytes > needed_bytes / 2 && missing_bytes < needed_bytes);
    }
}
