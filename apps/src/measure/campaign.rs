//! A campaign: size after size, measured by all ranks at once.

use std::time::Instant;

use isochron::Error;
use isochron::comm::{Comm, MeasureRounds, agree};
use isochron_devices::kernel::KernelRun;
use isochron_devices::measure::measure_kernel;
use isochron_devices::{MeasureConfig, Measurement};
use isochron_hierarchy::model::{ModelSizes, Point};

use super::files::{PointsFiles, RankPoints};
use crate::terminal_line::TerminalLine;

/// The measurements of a kernel on all ranks.
pub struct Campaign<'a> {
    pub comm: &'a dyn Comm,
    pub kernel: Box<dyn KernelRun>,
    pub config: MeasureConfig,
    pub sizes: ModelSizes,
    /// The points of every rank, the same on all ranks.
    pub points: Vec<(u64, RankPoints)>,
}

impl Campaign<'_> {
    /// Takes the points of an earlier command, then measures size after size until the model is complete. `files` are those
    /// of the head rank.
    ///
    /// # Errors
    /// On every rank, when any rank fails: those of the kernel and of the files.
    ///
    /// # Collective
    /// All ranks.
    pub fn run(&mut self, mut files: Option<PointsFiles>) -> Result<(), Error> {
        let earlier = files.as_ref().map(|files| files.sizes().collect());
        self.points = self.comm.share(0, earlier)?;
        for (d, points) in &self.points {
            self.sizes.observe(*d, &drop_bounds(points));
        }
        let progress = TerminalLine::of_rank(self.comm.rank() == 0);
        let mut last = (Instant::now(), None);
        while let Some(d) = self.sizes.next_size() {
            progress.show(&self.describe_progress(d, last.1));
            let points = self.measure_size(d)?;
            let written = files.as_mut().map_or(Ok(()), |files| files.add(&points));
            agree(self.comm, written)?;
            self.sizes.observe(d, &drop_bounds(&points));
            self.points.push((d, points));
            last = (Instant::now(), Some(last.0.elapsed().as_secs_f64()));
        }
        self.points.sort_by_key(|(d, _)| *d);
        Ok(())
    }

    /// Measures a size on all ranks in step. A rank to which a smaller size was hopeless runs the largest size that was not,
    /// as a load for its neighbours, and has no point.
    fn measure_size(&mut self, d: u64) -> Result<RankPoints, Error> {
        let hopeless = self.find_hopeless().is_some_and(|limit| limit < d);
        let own = if hopeless { self.find_load() } else { d };
        let kernel = self.kernel.as_mut();
        let found = measure_in_step(self.comm, kernel, own, &self.config, hopeless)?;
        let point = (!hopeless).then(|| make_point(d, &found));
        self.comm.gather(&point)
    }

    /// Returns the smallest size that was hopeless to this rank.
    fn find_hopeless(&self) -> Option<u64> {
        let own = self.own_points();
        own.filter(|point| point.reps == 0)
            .map(|point| point.d)
            .min()
    }

    /// Returns the largest size that this rank has measured, below all that were hopeless; 0 if there is none.
    fn find_load(&self) -> u64 {
        let limit = self.find_hopeless().unwrap_or(u64::MAX);
        let below = self.own_points().filter(|point| point.d < limit);
        below.map(|point| point.d).max().unwrap_or(0)
    }

    fn own_points(&self) -> impl Iterator<Item = Point> {
        let rank = self.comm.rank();
        self.points
            .iter()
            .filter_map(move |(_, points)| points[rank])
    }

    /// Describes the progress in less than 80 characters; `last_s` are the seconds of the last size.
    fn describe_progress(&self, d: u64, last_s: Option<f64>) -> String {
        let done = self.points.len();
        let all = done + self.sizes.estimate_left();
        let mut text = format!("measuring {d} units: {done} of about {all} points");
        let last = self.points.last().filter(|_| last_s.is_some());
        let last = last.and_then(|(_, points)| widest_interval(points));
        if let (Some(part), Some(last_s)) = (last, last_s) {
            let (percent, confidence) = (100.0 * part, 100.0 * self.config.confidence);
            let left_s = last_s * self.sizes.estimate_left() as f64;
            text += &format!(", ±{percent:.1} % at {confidence:.0} %, about {left_s:.0} s left");
        }
        text
    }
}

/// Measures `d` units of this rank's kernel while all ranks do the same, in step. A rank that `is_load` repeats as long as
/// the others need it to.
///
/// # Errors
/// On every rank, when any rank fails: those of [`measure_kernel`].
///
/// # Collective
/// All ranks.
pub fn measure_in_step(
    comm: &dyn Comm,
    kernel: &mut dyn KernelRun,
    d: u64,
    config: &MeasureConfig,
    is_load: bool,
) -> Result<Measurement, Error> {
    let mut rounds = MeasureRounds::new(comm);
    let found = measure_kernel(kernel, d, config, &mut |needed| {
        rounds.ask_for_round(needed && !is_load)
    });
    // A rank that has ended, or that failed, takes part too.
    while rounds.ask_for_round(false) {}
    agree(comm, found.map_err(Error::from))
}

/// Returns the largest half-width of the ranks' confidence intervals, as a part of the time.
fn widest_interval(points: &RankPoints) -> Option<f64> {
    let points = points.iter().flatten().filter(|point| point.reps > 0);
    points.map(|point| point.ci_s / point.t_s).reduce(f64::max)
}

/// Makes the point of a measurement: with 0 repetitions if it is a bound.
pub fn make_point(d: u64, found: &Measurement) -> Point {
    Point {
        d,
        t_s: found.t_s,
        reps: found.reps,
        ci_s: found.ci_s,
    }
}

/// Returns the points that are no bounds.
fn drop_bounds(points: &RankPoints) -> RankPoints {
    let points = points.iter();
    points
        .map(|point| point.filter(|point| point.reps > 0))
        .collect()
}
