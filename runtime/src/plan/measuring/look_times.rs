//! The measurements of a look, which all ranks make in step.

use std::time::{Duration, Instant};

use isochron_devices::{Depth, JobShape, Scalar};
use isochron_hierarchy::times::{Measurement, Sample};

use super::look::{Asked, DeviceClass, Looking};
use super::ranks::Ranks;
use crate::comm::{MeasureRounds, agree, share_outcome};
use crate::error::Error;
use crate::plan::host_memory;
use crate::store::KnownTimes;

/// Time up to which a look is repeated: one alone may be off by more than a whole block column of many layouts.
const SHORT_LOOK: Duration = Duration::from_millis(30);

/// Repetitions of a short look.
const REPETITIONS: u32 = 3;

/// Parts of an update's depth that show whether a device's speed has fallen.
const SHALLOW: [usize; 2] = [64, 32];

/// Returns the columns of the devices for which this holds, and 0 for the others.
fn select_columns(columns: &[u64], is_selected: impl Fn(usize) -> bool) -> Vec<u64> {
    columns
        .iter()
        .enumerate()
        .map(|(device, &columns)| if is_selected(device) { columns } else { 0 })
        .collect()
}

/// Returns the seconds of a node for an element, with all of its devices at work, from the sample of each; 0 if none has a
/// time.
fn find_unit_s(devices: &[Sample]) -> f64 {
    let speed: f64 = devices
        .iter()
        .filter(|sample| sample.seconds > 0.0)
        .map(|sample| sample.units as f64 / sample.seconds)
        .sum();
    if speed > 0.0 { 1.0 / speed } else { 0.0 }
}

impl<T: Scalar> Ranks<'_, T> {
    /// Takes a short look at the devices of all ranks. `known` holds, on the head rank, the knowledge of each device.
    /// Returns the look on the head rank.
    ///
    /// # Collective
    /// All ranks.
    pub(super) fn look_at_all(&mut self, known: &[KnownTimes]) -> Result<Option<Looking>, Error> {
        let comm = self.comm;
        let likely_cores = self.team.likely_cores();
        let mine: Vec<DeviceClass> = self
            .team
            .infos()
            .iter()
            .zip(likely_cores)
            .map(|(info, likely_cores)| DeviceClass::of(info, likely_cores))
            .collect();
        let classes = comm.gather(&mine)?;
        let head = (comm.rank() == 0).then(|| Looking::new(&self.task, &classes, known));
        let mut head = agree(comm, head.transpose())?;
        loop {
            let request = head.as_mut().map(Looking::request);
            let Some(asked) = share_outcome(comm, 0, request)? else {
                return Ok(head);
            };
            let may_fall = asked.iter().flatten().any(|asked| asked.limit_s.is_some());
            let seen = comm.gather(&self.look(&asked[comm.rank()], may_fall)?)?;
            let unit_s: Vec<f64> = seen.iter().map(|node| find_unit_s(node)).collect();
            self.note_measured(&unit_s, None);
            let observed = head.as_mut().map_or(Ok(()), |head| head.observe(&seen));
            agree(comm, observed)?;
        }
    }

    /// Measures each device once or twice, all at the same time, on about as many elements of C as asked. Returns the
    /// samples of the elements with the shorter seconds, since disturbances only lengthen times. If speeds `may_fall`, shallow updates
    /// find the devices whose speed has fallen first, at a part of the cost.
    ///
    /// # Collective
    /// All ranks, each with the requests for its own devices; `may_fall` must be equal.
    fn look(&mut self, asked: &[Asked], may_fall: bool) -> Result<Vec<Sample>, Error> {
        self.note_iteration();
        let rows = self.find_look_rows(asked.iter().map(|asked| asked.units).sum());
        let columns: Vec<u64> = (asked.iter())
            .map(|asked| match asked.units {
                0 => 0,
                units => (units / rows as u64).max(1),
            })
            .collect();
        let times_s = if may_fall {
            self.measure_with_care(rows, &columns, asked)?
        } else {
            self.measure_in_step(rows, self.depth(false), &columns, REPETITIONS)?
        };
        Ok(columns
            .into_iter()
            .zip(times_s)
            .map(|(columns, time_s)| Sample::measured(columns * rows as u64, time_s, 1, 0.0))
            .collect())
    }

    /// Measures each device once, those whose speed has fallen beyond their limits at a part of the cost. Returns the
    /// seconds.
    ///
    /// An update takes a time for each element of C, and a time for each of these and each row of B. So two updates
    /// with few rows of B tell what one with all rows takes, or less if it is bound by the memory of C. All devices
    /// with a limit do the first, and those that were slow the second, while the other nodes measure the whole.
    ///
    /// # Collective
    /// All ranks.
    fn measure_with_care(
        &mut self,
        rows: usize,
        columns: &[u64],
        asked: &[Asked],
    ) -> Result<Vec<f64>, Error> {
        let whole = self.depth(false);
        let depths = SHALLOW.map(|part| Depth { k_max: whole.k_max.div_ceil(part), ..whole });
        let limited = select_columns(columns, |device| asked[device].limit_s.is_some());
        let first_s = self.measure_in_step(rows, depths[0], &limited, 1)?;
        let scale = whole.k_max as f64 / depths[0].k_max as f64;
        let slow =
            select_columns(&limited, |device| asked[device].is_beyond(scale * first_s[device]));
        if slow.iter().all(|&columns| columns == 0) {
            let times_s = self.measure_in_step(rows, whole, columns, 1)?;
            // Other ranks may have slow devices.
            self.measure_in_step(rows, whole, &slow, 1)?;
            return Ok(times_s);
        }
        let second_s = self.measure_in_step(rows, depths[1], &slow, 1)?;
        let more = (whole.k_max - depths[1].k_max) as f64
            / (depths[1].k_max - depths[0].k_max).max(1) as f64;
        let fallen_s: Vec<f64> = (first_s.iter().zip(&second_s))
            .map(|(first_s, second_s)| second_s + more * (second_s - first_s).max(0.0))
            .collect();
        let fallen = select_columns(&slow, |device| asked[device].is_beyond(fallen_s[device]));
        let healthy = select_columns(columns, |device| fallen[device] == 0);
        let whole_s = self.measure_in_step(rows, whole, &healthy, 1)?;
        Ok((0..columns.len())
            .map(|device| match fallen[device] {
                0 => whole_s[device],
                _ => fallen_s[device],
            })
            .collect())
    }

    /// Measures updates of this depth on each device's columns, all at the same time, up to `most` times as long as
    /// that is short for some of them. Returns the shorter seconds.
    ///
    /// # Collective
    /// All ranks.
    fn measure_in_step(
        &mut self,
        rows: usize,
        depth: Depth,
        columns: &[u64],
        most: u32,
    ) -> Result<Vec<f64>, Error> {
        let slices: Vec<usize> = columns.iter().map(|&columns| columns as usize).collect();
        let job = JobShape::of::<T>(rows, slices.iter().sum(), depth);
        host_memory::prepare_operands(self.comm, self.team, &mut self.operands, &job, &slices)?;
        let mut rounds = MeasureRounds::new(self.comm);
        let (mut asked, mut begin) = (0, Instant::now());
        let outcome = self.repeat_updates(rows, depth, columns, &mut |_needed| {
            let is_needed = asked == 0 || (asked < most && begin.elapsed() < SHORT_LOOK);
            asked += 1;
            let is_asked = rounds.ask_for_round(is_needed);
            begin = Instant::now();
            is_asked
        });
        while rounds.ask_for_round(false) {}
        let measured = agree(self.comm, outcome)?;
        Ok(measured.iter().map(Measurement::fastest_s).collect())
    }

    /// Returns the rows of C for a look at this number of elements: a quarter of this node's part in an even layout, or
    /// more if C has too few columns for that.
    fn find_look_rows(&self, elements: u64) -> usize {
        let problem = &self.task.problem;
        let (rows, cols) = problem.c_blocks();
        let even = vec![1.0; self.task.cluster.nodes];
        let rect = (self.task.config.layout.arrange(&even, rows, cols))
            .ok()
            .and_then(|layout| layout.rects().get(self.comm.rank()).copied());
        let rows = rect.filter(|rect| !rect.is_empty()).map_or(rows, |rect| rect.rows);
        let (rows, _) = problem.size_in_elements(rows, cols);
        let least = (elements as usize).div_ceil(problem.n().max(1));
        rows.div_ceil(4).max(least).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::LocalComm;
    use crate::plan::Problem;
    use crate::plan::measuring::task::PlanningTask;
    use isochron_devices::{
        DeviceClock, DeviceError, DeviceInfo, DeviceKind, DeviceTeam, MeasureConfig, PanelPair,
        UpdateTime, Updates, ViewMut, Worker,
    };
    use isochron_hierarchy::balance::{BalanceConfig, Strategy};
    use std::sync::{Arc, Mutex};

    /// A device whose update takes `unit_s` for each element of C and row of B, and `memory_s` for each element, both
    /// 50 times as long for more than 2048 elements. It counts its seconds.
    #[derive(Clone)]
    struct Falling {
        info: DeviceInfo,
        unit_s: f64,
        memory_s: f64,
        spent_s: Arc<Mutex<f64>>,
    }

    impl Worker for Falling {
        fn info(&self) -> &DeviceInfo {
            &self.info
        }
    }

    impl<T: Scalar> Updates<T> for Falling {
        fn begin(&mut self, _c: ViewMut<'_, T>, _depth: Depth) -> Result<UpdateTime, DeviceError> {
            Ok(UpdateTime::default())
        }

        fn update_ahead(
            &mut self,
            _alpha: T,
            (a, _): PanelPair<'_, T>,
            _next: Option<PanelPair<'_, T>>,
            c: ViewMut<'_, T>,
        ) -> Result<UpdateTime, DeviceError> {
            let elements = c.rows() * c.cols();
            let slower = if elements > 2048 { 50.0 } else { 1.0 };
            let of_element_s = self.memory_s + self.unit_s * a.cols() as f64;
            let busy_s = slower * elements as f64 * of_element_s;
            *self.spent_s.lock().unwrap() += busy_s;
            Ok(UpdateTime { busy_s, cpu_s: 0.0 })
        }

        fn finish(&mut self, _c: ViewMut<'_, T>) -> Result<UpdateTime, DeviceError> {
            Ok(UpdateTime::default())
        }
    }

    /// Measures `units` elements with 64 rows of B. Returns the seconds found and spent.
    fn look(unit_s: f64, memory_s: f64, units: u64, limit_s: Option<f64>) -> [f64; 2] {
        let device = Falling {
            info: DeviceInfo::new("falling", DeviceKind::Cpu, DeviceClock::Prescribed),
            unit_s,
            memory_s,
            spent_s: Arc::default(),
        };
        let mut team = DeviceTeam::new(vec![Box::new(device.clone())]).unwrap();
        let comm = LocalComm::new();
        let measure = MeasureConfig::default();
        let problem = Problem::new(128, 128, 64, 1).unwrap();
        let config = BalanceConfig::default();
        let mut task = PlanningTask::new(&comm, &team, problem, config, measure).unwrap();
        task.kernel_width = 64;
        (task.config.strategy, task.config.steps) = (Strategy::Adaptive, 0);
        let mut measurer: Ranks<'_, f64> =
            Ranks::new(&comm, &mut team, None, measure, task, Default::default());
        let asked = [Asked { units, limit_s }];
        let seen = measurer.look(&asked, limit_s.is_some()).unwrap();
        assert_eq!(seen[0].units, units);
        let spent_s = *device.spent_s.lock().unwrap();
        [seen[0].seconds, spent_s]
    }

    #[test]
    fn a_node_is_as_fast_as_its_devices_together() {
        let devices = [(100, 1.0), (300, 1.0), (0, 0.0)];
        let devices = devices.map(|(units, seconds)| Sample::measured(units, seconds, 1, 0.0));
        assert_eq!(find_unit_s(&devices), 1.0 / 400.0);
        assert_eq!(find_unit_s(&[Sample::default()]), 0.0);
    }

    #[test]
    fn a_fall_is_seen_at_a_part_of_its_cost() {
        let expected_s = 4096.0 * 64.0 * 1e-9;
        let [fallen_s, spent_s] = look(1e-9, 0.0, 4096, Some(3.0 * expected_s));
        assert!((fallen_s / (50.0 * expected_s) - 1.0).abs() < 1e-9);
        assert!(spent_s < 0.1 * fallen_s, "{spent_s} of {fallen_s}");
    }

    #[test]
    fn a_device_that_has_not_fallen_is_measured_as_a_whole() {
        let expected_s = 2048.0 * 64.0 * 1e-9;
        // A tenth of an update is bound by the memory of C.
        for memory_s in [0.0, 6.4e-9] {
            let [seen_s, spent_s] = look(1e-9, memory_s, 2048, Some(3.0 * expected_s));
            let whole_s = expected_s + 2048.0 * memory_s;
            assert!((seen_s / whole_s - 1.0).abs() < 1e-9, "{seen_s} {whole_s}");
            assert!(spent_s > whole_s);
        }
    }

    #[test]
    fn a_fall_of_the_memory_alone_is_not_taken_for_one_of_the_arithmetic() {
        // The memory of C alone takes 5 times as long as the arithmetic was expected to take.
        let expected_s = 4096.0 * 64.0 * 1e-11;
        let memory_s = 5.0 * expected_s / 4096.0 / 50.0;
        let [seen_s, _] = look(1e-11, memory_s, 4096, Some(3.0 * expected_s));
        let whole_s = 50.0 * 4096.0 * (memory_s + 64.0 * 1e-11);
        assert!((seen_s / whole_s - 1.0).abs() < 1e-9, "{seen_s} {whole_s}");
    }

    #[test]
    fn a_device_without_a_limit_is_measured_at_once() {
        let [seen_s, spent_s] = look(1e-9, 0.0, 4096, None);
        assert!(spent_s >= seen_s);
    }
}
