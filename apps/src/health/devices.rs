//! The devices of the job at work for their check.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use isochron_core::Error;
use isochron_core::comm::{Comm, agree};
use isochron_core::internal::{
    MeasureRounds, describe_devices, expect_alone, find_histories, keep_samples, prepare_updates,
};
use isochron_core::plan::Problem;
use isochron_core::session::Session;
use isochron_core::store::{KeySource, KeyedWork, KnownModel};
use isochron_devices::measure::{ProductCount, UpdateOperands, count_wrong_products};
use isochron_devices::{
    Depth, DeviceClock, DeviceError, DeviceKind, ElementType, MeasureConfig, measure_team,
};
use isochron_hierarchy::health::{CheckedDevice, DeviceRound, Health, ROUNDS, RoundRequest};
use isochron_hierarchy::model::{Fit, Point};
use isochron_hierarchy::printable::show_name;
use isochron_hierarchy::times::{Measurement, QUANTILE, Sample, Series, find_median};

use super::sizes::{
    LargestSides, SIZES, SLOWER, UpdateShape, count_repetitions, find_side, is_sampled,
    judge_class_s, limit_update_s, shape_updates,
};
use crate::failure::Failure;
use crate::lines::count;
use crate::measure::list_turns;

/// Block size of the problems whose updates are measured: that of a large one.
const BLOCK: usize = 128;

/// An update that takes this multiple of the longest one is not measured, and counts as one that takes so long.
const HOPELESS: f64 = 16.0;

/// Repetitions of an update before the side of a class is doubled. The fastest one counts: a disturbed one would end the search at
/// sizes for which the model store has no times.
const SIDE_REPETITIONS: usize = 3;

/// Products of whole numbers of each device: with 99.9 % they show one wrong product of ten thousand.
const PRODUCTS: u64 = 70_000;

/// Ratio of sizes up to which the model store tells the time of one by the nearest that was measured.
const NEAR: f64 = 1.5;

/// A device of the job.
pub struct JobDevice {
    pub rank: usize,
    pub source: KeySource,
    /// The model of its class, by its index.
    class: usize,
    /// Its stored times, on the head rank.
    pub history: Option<KnownModel>,
}

/// All devices of the job, and those of this rank at work.
pub struct HealthDevices {
    session: Session,
    operands: UpdateOperands,
    work: KeyedWork,
    config: MeasureConfig,
    pub devices: Vec<JobDevice>,
    /// The models of the classes.
    classes: Vec<String>,
    /// The largest side of each class.
    sides: Vec<usize>,
    /// The device of this rank that is measured alone in each turn.
    turns: Vec<Option<usize>>,
    /// `true` if there is a device with its own memory.
    has_transfers: bool,
    /// The end of the seconds for the check: no measurement begins later.
    deadline: Instant,
    /// The device that took longest while sizes were chosen, if that is far longer than others of its class.
    slowest: Option<usize>,
    /// `true` once the seconds were over before a measurement began.
    is_cut: bool,
    /// The reason why a device of this rank computes no longer.
    failures: Vec<Option<String>>,
    /// The repetitions of each of this rank's devices, by size.
    kept: Vec<Vec<Option<Series>>>,
    /// The rounds of all devices.
    pub rounds: Vec<Vec<Option<DeviceRound>>>,
}

/// Returns the model of a device: devices of equal models are expected to be equally fast. A slowed device is compared with
/// others, because its pace stands for a fault.
fn name_model(source: &KeySource) -> String {
    let device = &source.device;
    let cores = if device.kind == DeviceKind::Cpu {
        format!(", {}", count(device.cores.len() as u64, "core"))
    } else {
        String::new()
    };
    let clock = match device.clock {
        DeviceClock::Cores | DeviceClock::Accelerator => "",
        DeviceClock::Slowed => ", slowed down",
        DeviceClock::Prescribed => ", by points",
    };
    format!("{}{cores}, {}{clock}", source.class, device.blas)
}

impl HealthDevices {
    /// Finds the devices of all ranks, and the sizes for a check of these seconds.
    ///
    /// # Errors
    /// Every rank fails if any does.
    ///
    /// # Collective
    /// All ranks.
    pub fn open(session: Session, comm: &dyn Comm, seconds: f64) -> Result<Self, Failure> {
        let budget = Duration::try_from_secs_f64(seconds).map_err(Failure::input)?;
        let deadline = Instant::now().checked_add(budget);
        let deadline = deadline.ok_or_else(|| Failure::input("--seconds: that is too long"))?;
        let ranks = comm.gather(&describe_devices(&session))?;
        let mut classes: Vec<String> = ranks.iter().flatten().map(name_model).collect();
        classes.sort_unstable();
        classes.dedup();
        let work = KeyedWork {
            element: ElementType::F64,
            width: Problem::new(BLOCK, BLOCK, BLOCK, BLOCK)?.learning_panel(),
        };
        let histories = find_histories(&session, work);
        let mut histories = histories.into_iter().chain(std::iter::repeat(None));
        let all = ranks
            .into_iter()
            .enumerate()
            .flat_map(|(rank, sources)| sources.into_iter().map(move |source| (rank, source)));
        let devices: Vec<JobDevice> = all
            .map(|(rank, source)| JobDevice {
                rank,
                class: classes.partition_point(|class| *class < name_model(&source)),
                source,
                history: histories.next().flatten(),
            })
            .collect();
        if devices.is_empty() {
            return Err(Failure::input("there are no devices to check"));
        }
        let places = devices.iter().map(|device| (device.rank, device.source.place.as_str()));
        let turns = list_turns(places, comm.rank());
        let limit_s = limit_update_s(seconds, ROUNDS, turns.len());
        let own = session.devices().len();
        let mut opened = Self {
            session,
            operands: UpdateOperands::default(),
            work,
            config: MeasureConfig {
                max_seconds: HOPELESS * limit_s,
                max_reps: u32::MAX,
                ..MeasureConfig::default()
            },
            sides: Vec::new(),
            turns,
            has_transfers: devices.iter().any(|device| device.source.device.kind.has_own_memory()),
            deadline,
            slowest: None,
            is_cut: false,
            failures: vec![None; own],
            kept: vec![vec![None; SIZES]; own],
            rounds: Vec::new(),
            classes,
            devices,
        };
        opened.find_sides(comm, limit_s)?;
        Ok(opened)
    }

    /// Finds the largest sides whose updates take no longer than these seconds, and for which every host has memory.
    fn find_sides(&mut self, comm: &dyn Comm, limit_s: f64) -> Result<(), Error> {
        let mut largest = LargestSides::new(self.classes.len(), limit_s);
        loop {
            self.sides.clone_from(&largest.sides);
            let shape = self.shape(SIZES - 1, comm.rank());
            let depth = Depth::endless(self.work.width);
            match self.measure_together(comm, &shape, depth, SIDE_REPETITIONS) {
                Ok(found) => {
                    let times_s = found.iter().map(|found| find_time_s(found.as_ref()));
                    let all_s = comm.gather(&times_s.collect::<Vec<_>>())?.concat();
                    if !largest.observe(&self.judge_classes(&all_s)) {
                        self.sides.clone_from(&largest.sides);
                        return Ok(());
                    }
                }
                Err(error @ Error::Memory { .. }) if !largest.halve() => return Err(error),
                Err(Error::Memory { .. }) => {
                    self.sides.clone_from(&largest.sides);
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the time of each class by which its side is chosen, and keeps a device that is far slower than its class.
    fn judge_classes(&mut self, all_s: &[Option<f64>]) -> Vec<Option<f64>> {
        let mut most = SLOWER;
        self.slowest = self.slowest.filter(|_| all_s.iter().all(Option::is_none));
        let classes = 0..self.classes.len();
        let times = classes.map(|class| {
            let devices = self.devices.iter().zip(all_s).enumerate();
            let members = devices.filter(|(_, (device, _))| device.class == class);
            let members: Vec<(usize, f64)> =
                members.filter_map(|(index, (_, time_s))| Some((index, (*time_s)?))).collect();
            let times_s: Vec<f64> = members.iter().map(|(_, time_s)| *time_s).collect();
            let (slowest, longest_s) = *members.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
            let usual_s = find_median(&times_s);
            if longest_s > most * usual_s {
                (self.slowest, most) = (Some(slowest), longest_s / usual_s);
            }
            Some(judge_class_s(usual_s, longest_s))
        });
        times.collect()
    }

    /// Returns `true` once the seconds for the check are over.
    pub fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Returns `true` if the seconds were over before a measurement began.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Describes a check that its seconds have cut off.
    pub fn describe_cut(&self, seconds: f64) -> String {
        let slowest = self.slowest.map(|slowest| {
            let JobDevice { rank, source, .. } = &self.devices[slowest];
            let [name, place] = [&source.device.name, &source.place].map(|name| show_name(name));
            format!("; {name} of rank {rank} on {place} takes longest")
        });
        let (done, slowest) =
            (count(self.rounds.len() as u64, "round"), slowest.unwrap_or_default());
        format!(
            "the check was cut off after {seconds} s, in which {done} began{slowest}: give it more --seconds"
        )
    }

    /// Shapes the updates of a rank's devices at a size.
    fn shape(&self, size: usize, rank: usize) -> UpdateShape {
        let side_of = |device: &JobDevice| find_side(self.sides[device.class], size);
        let all: Vec<f64> = self.devices.iter().map(side_of).collect();
        let own = self.devices.iter().filter(|device| device.rank == rank);
        shape_updates(&all, &own.map(side_of).collect::<Vec<f64>>())
    }

    /// Returns the elements of C of a device at a size.
    pub fn count_units(&self, device: usize, size: usize) -> u64 {
        let rank = self.devices[device].rank;
        let first = self.devices.partition_point(|device| device.rank < rank);
        let UpdateShape { rows, columns } = self.shape(size, rank);
        (rows * columns[device - first]) as u64
    }

    /// The model of a device.
    pub fn model(&self, device: usize) -> &str {
        &self.classes[self.devices[device].class]
    }

    /// The work that is timed.
    pub fn work(&self) -> KeyedWork {
        self.work
    }

    /// Lists the devices as a check sees them, on the head rank.
    pub fn list_checked(&self) -> Vec<CheckedDevice> {
        let devices = self.devices.iter().enumerate();
        let checked = devices.map(|(index, device)| CheckedDevice {
            model: self.model(index).to_owned(),
            limits: device.describe_limits(),
            history: self.recall_times(index),
        });
        checked.collect()
    }

    /// Returns the stored times of a device at each size; nothing if it has none near any of them.
    fn recall_times(&self, device: usize) -> Vec<Sample> {
        let Some(known) = &self.devices[device].history else {
            return Vec::new();
        };
        let measured = known.points.iter().filter(|point| point.reps > 0).copied();
        let points: Vec<Point> = measured.collect();
        let sizes = (0..SIZES).map(|size| self.count_units(device, size));
        let times: Vec<Sample> = sizes.map(|units| recall_time(&points, units)).collect();
        let is_known = times.iter().any(|time| time.seconds > 0.0);
        if is_known { times } else { Vec::new() }
    }

    /// Measures a round of all devices; returns and keeps their times.
    ///
    /// # Errors
    /// Every rank fails if any does. A device that fails is no error.
    ///
    /// # Collective
    /// All ranks, with the same request.
    pub fn measure_round(
        &mut self,
        comm: &dyn Comm,
        request: RoundRequest,
    ) -> Result<Vec<Option<DeviceRound>>, Error> {
        let mut own = vec![DeviceRound::default(); self.failures.len()];
        for size in 0..SIZES {
            let shape = self.shape(size, comm.rank());
            let depth = Depth::endless(self.work.width);
            let found = self.measure_together(comm, &shape, depth, count_repetitions(size))?;
            self.keep_repetitions(size, &found);
            let carried = if self.has_transfers && is_sampled(size) {
                let depth = Depth::of(self.work.width, 1);
                self.measure_together(comm, &shape, depth, 2)?
            } else {
                vec![None; own.len()]
            };
            let alone = if request.is_alone && is_sampled(size) && self.turns.len() > 1 {
                self.measure_alone(comm, &shape, count_repetitions(size))?
            } else {
                vec![None; own.len()]
            };
            let devices = own.iter_mut().zip(self.session.devices());
            for (index, (round, info)) in devices.enumerate() {
                let together_s = find_time_s(found[index].as_ref());
                let carried_s = find_time_s(carried[index].as_ref());
                let transfers_s =
                    carried_s.zip(together_s).map(|(all_s, update_s)| all_s - update_s);
                round.together_s.push(together_s);
                round.alone_s.push(find_time_s(alone[index].as_ref()));
                round
                    .transfers_s
                    .push(transfers_s.filter(|&time_s| time_s > 0.0 && info.kind.has_own_memory()));
            }
        }
        let own = own.into_iter().zip(&self.failures);
        let own = own.map(|(round, failure)| failure.is_none().then_some(round));
        let round = comm.gather(&own.collect::<Vec<_>>())?.concat();
        self.rounds.push(round.clone());
        Ok(round)
    }

    /// Measures all devices of the job at once, in step.
    fn measure_together(
        &mut self,
        comm: &dyn Comm,
        shape: &UpdateShape,
        depth: Depth,
        repetitions: usize,
    ) -> Result<Vec<Option<Measurement>>, Error> {
        if self.share_end(comm)? {
            self.is_cut = true;
            return Ok(vec![None; shape.columns.len()]);
        }
        let columns = self.leave_out_failed(&shape.columns);
        prepare_updates(&mut self.session, &mut self.operands, shape.rows, &columns, depth)?;
        let mut rounds = MeasureRounds::new(comm);
        let found = self.repeat(shape.rows, &columns, depth, repetitions, &mut |needed| {
            rounds.ask_for_round(needed)
        });
        // A rank without work, or whose device failed, takes part too.
        while rounds.ask_for_round(false) {}
        agree(comm, found)
    }

    /// Measures one device of each host at a time.
    fn measure_alone(
        &mut self,
        comm: &dyn Comm,
        shape: &UpdateShape,
        repetitions: usize,
    ) -> Result<Vec<Option<Measurement>>, Error> {
        let depth = Depth::endless(self.work.width);
        let mut alone = vec![None; shape.columns.len()];
        for turn in self.turns.clone() {
            if self.share_end(comm)? {
                break;
            }
            let mut columns = self.leave_out_failed(&shape.columns);
            for (device, columns) in columns.iter_mut().enumerate() {
                if Some(device) != turn {
                    *columns = 0;
                }
            }
            prepare_updates(&mut self.session, &mut self.operands, shape.rows, &columns, depth)?;
            expect_alone(&mut self.session, turn);
            let found = self.repeat(shape.rows, &columns, depth, repetitions, &mut |needed| needed);
            expect_alone(&mut self.session, None);
            let mut found = agree(comm, found)?;
            if let Some(device) = turn {
                alone[device] = found[device].take();
            }
        }
        Ok(alone)
    }

    /// Has all devices of the job multiply whole numbers, as often as wanted or for half of the seconds that are left. Returns the
    /// products of all devices. Those by points do not compute as fast as they can, and have none.
    ///
    /// # Errors
    /// Every rank fails if any does. A device that fails is no error.
    ///
    /// # Collective
    /// All ranks.
    pub fn count_products(&mut self, comm: &dyn Comm) -> Result<Vec<ProductCount>, Error> {
        let devices = self.session.devices().iter().zip(&self.failures);
        let works: Vec<bool> = devices
            .map(|(info, failure)| failure.is_none() && info.clock != DeviceClock::Prescribed)
            .collect();
        let end = Instant::now() + self.deadline.saturating_duration_since(Instant::now()) / 2;
        let (counts, ended) =
            count_wrong_products(self.session.team(), &works, PRODUCTS, &mut || {
                Instant::now() >= end
            });
        let ended = match ended {
            Err(DeviceError::Device { device, source }) => {
                self.note_failure(&device, &source.to_string());
                Ok(counts)
            }
            ended => ended.map(|()| counts).map_err(Error::from),
        };
        Ok(comm.gather(&agree(comm, ended)?)?.concat())
    }

    /// The end of the seconds for the check.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns the number of hosts.
    pub fn count_hosts(&self) -> usize {
        self.devices.iter().map(|device| &device.source.place).collect::<BTreeSet<_>>().len()
    }

    /// Returns `true` if each host is a machine of its own, with devices as the others have: hosts that are emulated on one machine
    /// share its cores, and unlike ones are hindered unlike.
    pub fn are_own_and_alike(&self) -> bool {
        let mut hosts: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for device in &self.devices {
            hosts.entry(&device.source.place).or_default().push(device.class);
        }
        let machines =
            self.devices.iter().filter_map(|device| device.source.conditions.machine.as_ref());
        let machines: BTreeSet<&String> = machines.collect();
        let kinds: BTreeSet<&Vec<usize>> = hosts.values().collect();
        machines.len() == hosts.len() && kinds.len() == 1
    }

    /// Does some work while the devices of this rank compute.
    pub fn compute_meanwhile(&mut self, work: &mut dyn FnMut()) {
        let works: Vec<bool> = self.failures.iter().map(Option::is_none).collect();
        let (team, is_done) = (self.session.team(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let mut is_over = || is_done.load(Ordering::Relaxed);
            // A device that fails now has been checked before.
            scope.spawn(move || count_wrong_products(team, &works, u64::MAX, &mut is_over));
            work();
            is_done.store(true, Ordering::Relaxed);
        });
    }

    /// Notes that a device of this rank computes no longer.
    fn note_failure(&mut self, name: &str, reason: &str) {
        let devices = self.session.devices().iter().zip(&mut self.failures);
        let failed = devices.filter(|(info, _)| info.name == name);
        failed.for_each(|(_, failure)| *failure = Some(reason.to_owned()));
    }

    /// Repeats updates of these columns on this rank's devices as often as given, if `in_step` agrees each time. A device that
    /// fails is noted and has no more work.
    fn repeat(
        &mut self,
        rows: usize,
        columns: &[usize],
        depth: Depth,
        repetitions: usize,
        in_step: &mut dyn FnMut(bool) -> bool,
    ) -> Result<Vec<Option<Measurement>>, Error> {
        let deadline = self.deadline;
        let mut asked = 0;
        let found = measure_team(
            self.session.team(),
            rows,
            columns,
            depth,
            &self.config,
            &mut self.operands,
            &mut |_| {
                asked += 1;
                let is_over = asked > 1 && Instant::now() >= deadline;
                in_step(asked <= repetitions && !is_over)
            },
        );
        match found {
            Ok(found) => {
                let found = found.into_iter().zip(columns);
                Ok(found.map(|(found, &columns)| (columns > 0).then_some(found)).collect())
            }
            Err(DeviceError::Device { device, source }) => {
                self.note_failure(&device, &source.to_string());
                Ok(vec![None; columns.len()])
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Shares whether the seconds for the check are over on the head rank.
    ///
    /// # Collective
    /// All ranks.
    fn share_end(&self, comm: &dyn Comm) -> Result<bool, Error> {
        comm.share(0, (comm.rank() == 0).then(|| self.is_over()))
    }

    fn leave_out_failed(&self, columns: &[usize]) -> Vec<usize> {
        let devices = columns.iter().zip(&self.failures);
        let left = devices.map(|(&columns, failure)| if failure.is_some() { 0 } else { columns });
        left.collect()
    }

    /// Keeps the repetitions of a size for the model store.
    fn keep_repetitions(&mut self, size: usize, found: &[Option<Measurement>]) {
        for (kept, found) in self.kept.iter_mut().zip(found) {
            let Some(more) = found.as_ref().and_then(Measurement::to_series) else {
                continue;
            };
            match &mut kept[size] {
                Some(series) if series.at_least == more.at_least => {
                    series.seconds.extend(more.seconds);
                }
                // A bound adds nothing to times.
                Some(_) => {}
                none => *none = Some(more),
            }
        }
    }

    /// Adds the times of devices that are not slow to the model store. The head rank gives the health of each.
    ///
    /// # Collective
    /// All ranks.
    pub fn keep_times(
        &mut self,
        comm: &dyn Comm,
        health: Option<Vec<Health>>,
    ) -> Result<(), Error> {
        let health = comm.share(0, health)?;
        let devices = self.devices.iter().zip(health);
        let own = devices.filter(|(device, _)| device.rank == comm.rank());
        let is_kept = own.map(|(_, health)| matches!(health, Health::Healthy | Health::Unknown));
        let is_kept: Vec<bool> = is_kept.collect();
        for size in 0..SIZES {
            let kept = self.kept.iter().zip(&is_kept);
            let series = kept.map(|(series, &is_kept)| series[size].clone().filter(|_| is_kept));
            keep_samples(&mut self.session, self.work, &series.collect::<Vec<_>>())?;
        }
        self.session.save_models()
    }

    /// Gathers the reasons of all devices that failed.
    ///
    /// # Collective
    /// All ranks.
    pub fn gather_failures(&self, comm: &dyn Comm) -> Result<Vec<Option<String>>, Error> {
        Ok(comm.gather(&self.failures)?.concat())
    }

    /// Gathers the unusual findings of all ranks, each once.
    ///
    /// # Collective
    /// All ranks.
    pub fn gather_notices(&self, comm: &dyn Comm) -> Result<Vec<String>, Error> {
        let mut notices = comm.gather(&self.session.notices().to_vec())?.concat();
        notices.sort_unstable();
        notices.dedup();
        Ok(notices)
    }
}

impl JobDevice {
    /// Describes the limits of its host; nothing without any.
    pub fn describe_limits(&self) -> String {
        let quota = self.source.conditions.quota.as_ref();
        quota.map_or_else(String::new, |quota| format!("CPU quota of {quota} cores"))
    }
}

/// Returns the time of a measurement: that of the fastest repetition, since disturbances only lengthen times.
fn find_time_s(found: Option<&Measurement>) -> Option<f64> {
    let time_s = found?.fastest_s();
    (time_s > 0.0).then_some(time_s)
}

/// Returns the time of a size by measured points, with its error; 0 seconds if no point is near.
fn recall_time(points: &[Point], units: u64) -> Sample {
    let distance = |point: &Point| (point.d as f64 / units as f64).ln().abs();
    let nearest = points.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
    let Some(nearest) = nearest.filter(|point| distance(point) <= NEAR.ln()) else {
        return Sample::predicted(units, 0.0, 0.0);
    };
    let Ok(model) = Fit::RawPiecewise.model(points) else {
        return Sample::predicted(units, 0.0, 0.0);
    };
    let time_s = model.time_s(units as f64);
    let error = nearest.ci_s / (QUANTILE * nearest.t_s);
    Sample::predicted(units, time_s, error * time_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_time_serves_sizes_near_it() {
        let points = [(100, 1.0), (400, 4.4)].map(|(d, t_s)| Point {
            d,
            t_s,
            reps: 3,
            ci_s: 0.05 * QUANTILE * t_s,
        });
        let near = recall_time(&points, 120);
        assert!(near.seconds > 1.1 && near.seconds < 1.3, "{near:?}");
        assert!((near.error_s / near.seconds - 0.05).abs() < 1e-12);
        for units in [50, 200, 800] {
            assert_eq!(recall_time(&points, units).seconds, 0.0, "{units}");
        }
        assert_eq!(recall_time(&[], 100).seconds, 0.0);
    }
}
