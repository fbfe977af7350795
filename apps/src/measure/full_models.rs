//! A campaign: size after size, measured by all ranks at once.

use std::ops::Range;
use std::time::Instant;

use isochron_core::Error;
use isochron_core::comm::{Comm, agree};
use isochron_devices::MeasureConfig;
use isochron_hierarchy::model::SurfacePoint;
use serde::{Deserialize, Serialize};

use super::effort::Effort;
use super::files::{PartPoints, PointsFiles};
use super::part::{MeasuredWork, PartEnd, PartUnits, Size, make_point};
use super::remaining::{RemainingTime, weigh_size};
use super::sizes::CampaignSizes;
use crate::lines::count;
use crate::terminal_line::{TerminalLine, describe_interval};

/// The measurements of all parts.
pub struct FullModels<'a> {
    pub comm: &'a dyn Comm,
    pub work: Box<dyn MeasuredWork + 'a>,
    pub config: MeasureConfig,
    pub effort: Effort,
    pub sizes: CampaignSizes,
    /// The parts of this rank, among all.
    pub own: Range<usize>,
    /// The points of all parts, the same on all ranks.
    pub points: Vec<(Size, PartPoints)>,
    /// For each part, the sizes for which it found no memory; the same on all ranks.
    pub lacking: Vec<Vec<Size>>,
}

/// The end of a part at a size, as all ranks know it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
enum SizeEnd {
    Point(SurfacePoint),
    NoMemory,
    NotRun,
    /// The part was a load for its neighbours.
    Load,
}

impl FullModels<'_> {
    /// Takes the points of an earlier command, then measures size after size until the models are complete. `files` are
    /// those of the head rank.
    ///
    /// # Errors
    /// On every rank, returns the errors of the work and of the files.
    ///
    /// # Collective
    /// All ranks.
    pub fn run(&mut self, mut files: Option<PointsFiles>) -> Result<(), Error> {
        let earlier = files.as_ref().map(|files| (files.sizes().collect(), files.list_lacking()));
        (self.points, self.lacking) = self.comm.share(0, earlier)?;
        for (size, points) in &self.points {
            self.sizes.observe(*size, points);
        }
        let progress = TerminalLine::of_rank(self.comm.rank() == 0);
        let mut remaining = RemainingTime::new(self.config.max_seconds);
        while let Some(size) = self.sizes.next_size() {
            if progress.is_shown() {
                let left_s = self.estimate_left(&remaining);
                progress.show(&self.describe_progress(size, left_s));
            }
            let begun = Instant::now();
            let points = self.measure_size(size)?;
            // Before the files: the same command goes on after the last size in them.
            self.work.save(self.comm)?;
            let written = files.as_mut().map_or(Ok(()), |files| files.add(&points, &self.lacking));
            agree(self.comm, written)?;
            self.sizes.observe(size, &points);
            if progress.is_shown() {
                let runs_s =
                    points.iter().flatten().filter(|point| point.reps > 0).map(|point| point.t_s);
                let wall_s = begun.elapsed().as_secs_f64();
                remaining.observe(self.weigh(size), runs_s, wall_s);
            }
            self.points.push((size, points));
        }
        self.points.sort_by_key(|(size, _)| *size);
        Ok(())
    }

    /// Measures a size on all ranks in step. A part to which a smaller size was hopeless, or that found no memory for
    /// it, runs the largest size that was not, as a load for its neighbours, and has no point.
    fn measure_size(&mut self, size: Size) -> Result<PartPoints, Error> {
        loop {
            let units = (0..self.lacking.len()).map(|part| self.find_units(part, size));
            let units: Vec<PartUnits> = units.collect();
            if units.iter().all(|units| units.is_load) {
                return Ok(vec![None; units.len()]);
            }
            let ends = self.try_size(size, &units[self.own.clone()])?;
            for (lacking, end) in self.lacking.iter_mut().zip(&ends) {
                if *end == SizeEnd::NoMemory {
                    lacking.push(size);
                }
            }
            // Parts that were not run, because others lack memory, are measured next to smaller loads.
            if !ends.contains(&SizeEnd::NotRun) {
                let points = ends.into_iter().map(|end| match end {
                    SizeEnd::Point(point) => Some(point),
                    _ => None,
                });
                return Ok(points.collect());
            }
        }
    }

    /// Measures a size once; returns the end of every part.
    fn try_size(&mut self, size: Size, own: &[PartUnits]) -> Result<Vec<SizeEnd>, Error> {
        let left = self.sizes.list_left().len();
        let config = self.effort.choose(self.config, size, left);
        let found = self.work.measure(self.comm, size, own, &config)?;
        let mut reason = None;
        let ends = own.iter().zip(found).map(|(units, end)| match end {
            _ if units.is_load => SizeEnd::Load,
            PartEnd::Measured(found) => SizeEnd::Point(make_point(size, &found)),
            PartEnd::NotRun => SizeEnd::NotRun,
            PartEnd::NoMemory(error) => {
                reason = reason.take().or(error);
                SizeEnd::NoMemory
            }
        });
        let ends: Vec<SizeEnd> = ends.collect();
        let all = self.comm.gather(&ends)?.concat();
        let is_measured = all.iter().any(|end| matches!(end, SizeEnd::Point(_) | SizeEnd::NotRun));
        let is_known =
            self.points.iter().flat_map(|(_, points)| points).into_iter().any(Option::is_some);
        match reason.filter(|_| !is_measured && !is_known) {
            Some(error) => agree(self.comm, Err(error)),
            None if !is_measured && !is_known => agree(self.comm, Ok(all)),
            None => Ok(all),
        }
    }

    /// Returns the units of a part while a size is measured.
    fn find_units(&self, part: usize, size: Size) -> PartUnits {
        let bounds = self.list_points(part).filter(|point| point.reps == 0);
        let is_load = bounds
            .map(|point| (point.m, point.n))
            .chain(self.lacking[part].iter().copied())
            .any(|(m, n)| m <= size.0 && n <= size.1);
        let largest = self
            .list_points(part)
            .filter(|point| point.reps > 0)
            .map(|point| point.m.saturating_mul(point.n))
            .max();
        PartUnits {
            units: if is_load { largest.unwrap_or(0) } else { size.0.saturating_mul(size.1) },
            is_load,
        }
    }

    fn list_points(&self, part: usize) -> impl Iterator<Item = SurfacePoint> {
        let points = self.points.iter();
        points.filter_map(move |(_, points)| points[part])
    }

    /// Returns the work of a size, by which the time left is estimated. Without an answer of the kernel's process the size
    /// itself counts.
    fn weigh(&mut self, size: Size) -> f64 {
        let complexity = self.work.complexity(size).unwrap_or(f64::NAN);
        weigh_size(size, complexity)
    }

    /// Estimates the seconds that are left; `None` before this command has measured a size.
    fn estimate_left(&mut self, remaining: &RemainingTime) -> Option<f64> {
        let left = self.sizes.list_left().into_iter();
        let left: Vec<f64> = left.map(|size| self.weigh(size)).collect();
        let estimate_s = remaining.estimate_s(&left)?;
        let left_s = self.effort.left_s().unwrap_or(f64::INFINITY);
        Some(estimate_s.min(left_s))
    }

    /// Describes the progress, the most important first: a narrow terminal cuts the end. `left_s` are the seconds left.
    fn describe_progress(&self, (m, n): Size, left_s: Option<f64>) -> String {
        let left = self.sizes.list_left().len();
        let done = self.points.len();
        let all = count((done + left) as u64, "point");
        let mut text = format!("measuring: {done} of about {all}");
        if let Some(left_s) = left_s {
            text += &format!(", about {left_s:.0} s left");
        }
        let last = self.points.last().and_then(|(_, points)| widest_interval(points));
        if let (Some(part), Some(_)) = (last, left_s) {
            text += &describe_interval(part, self.config.confidence);
        }
        let size = match &self.sizes {
            CampaignSizes::Line(_) => count(m, "unit"),
            CampaignSizes::Surface(_) => format!("{m}×{n} blocks"),
        };
        format!("{text}, now {size}")
    }
}

/// Returns the largest half-width of the parts' confidence intervals, as a part of the time.
fn widest_interval(points: &PartPoints) -> Option<f64> {
    points
        .iter()
        .flatten()
        .filter(|point| point.reps > 0)
        .map(|point| point.ci_s / point.t_s)
        .reduce(f64::max)
}
