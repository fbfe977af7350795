//! A campaign: size after size, measured by all ranks at once.

use std::ops::Range;
use std::time::Instant;

use isochron_core::Error;
use isochron_core::comm::{Comm, agree};
use isochron_devices::MeasureConfig;
use isochron_hierarchy::model::SurfacePoint;

use super::files::{PartPoints, PointsFiles};
use super::part::{MeasuredWork, PartUnits, Size, make_point};
use super::sizes::CampaignSizes;
use crate::lines::count;
use crate::terminal_line::TerminalLine;

/// The measurements of all parts.
pub struct Campaign<'a> {
    pub comm: &'a dyn Comm,
    pub work: Box<dyn MeasuredWork + 'a>,
    pub config: MeasureConfig,
    pub sizes: CampaignSizes,
    /// The parts of this rank, among all.
    pub own: Range<usize>,
    /// The points of all parts, the same on all ranks.
    pub points: Vec<(Size, PartPoints)>,
}

impl Campaign<'_> {
    /// Takes the points of an earlier command, then measures size after size until the models are complete. `files` are
    /// those of the head rank.
    ///
    /// # Errors
    /// On every rank, when any rank fails: those of the work and of the files.
    ///
    /// # Collective
    /// All ranks.
    pub fn run(&mut self, mut files: Option<PointsFiles>) -> Result<(), Error> {
        let earlier = files.as_ref().map(|files| files.sizes().collect());
        self.points = self.comm.share(0, earlier)?;
        for (size, points) in &self.points {
            self.sizes.observe(*size, points);
        }
        let progress = TerminalLine::of_rank(self.comm.rank() == 0);
        let mut last_s = None;
        while let Some(size) = self.sizes.next_size() {
            progress.show(&self.describe_progress(size, last_s));
            let begun = Instant::now();
            let points = self.measure_size(size)?;
            // Before the files: the same command goes on after the last size in them.
            self.work.save()?;
            let written = files.as_mut().map_or(Ok(()), |files| files.add(&points));
            agree(self.comm, written)?;
            self.sizes.observe(size, &points);
            self.points.push((size, points));
            last_s = Some(begun.elapsed().as_secs_f64());
        }
        self.points.sort_by_key(|(size, _)| *size);
        Ok(())
    }

    /// Measures a size on all ranks in step. A part to which a smaller size was hopeless runs the largest size that was
    /// not, as a load for its neighbours, and has no point.
    fn measure_size(&mut self, size: Size) -> Result<PartPoints, Error> {
        let own: Vec<PartUnits> = self
            .own
            .clone()
            .map(|part| self.find_units(part, size))
            .collect();
        let found = self.work.measure(self.comm, size, &own, &self.config)?;
        let points = own.iter().zip(&found);
        let points = points.map(|(units, found)| (!units.is_load).then(|| make_point(size, found)));
        let points: Vec<Option<SurfacePoint>> = points.collect();
        Ok(self.comm.gather(&points)?.concat())
    }

    /// Returns the units of a part while a size is measured.
    fn find_units(&self, part: usize, size: Size) -> PartUnits {
        let bounds = self.list_points(part).filter(|point| point.reps == 0);
        let is_load = bounds
            .into_iter()
            .any(|point| point.m <= size.0 && point.n <= size.1);
        let known = self.list_points(part).filter(|point| point.reps > 0);
        let largest = known.map(|point| point.m.saturating_mul(point.n)).max();
        PartUnits {
            units: if is_load {
                largest.unwrap_or(0)
            } else {
                size.0.saturating_mul(size.1)
            },
            is_load,
        }
    }

    fn list_points(&self, part: usize) -> impl Iterator<Item = SurfacePoint> {
        let points = self.points.iter();
        points.filter_map(move |(_, points)| points[part])
    }

    /// Describes the progress, the most important first: a narrow terminal cuts the end. `last_s` are the seconds of
    /// the last size.
    fn describe_progress(&self, (m, n): Size, last_s: Option<f64>) -> String {
        let left = self.sizes.estimate_left();
        let done = self.points.len();
        let all = count((done + left) as u64, "point");
        let mut text = format!("measuring: {done} of about {all}");
        if let Some(last_s) = last_s {
            text += &format!(", about {:.0} s left", last_s * left as f64);
        }
        let last = self
            .points
            .last()
            .and_then(|(_, points)| widest_interval(points));
        if let (Some(part), Some(_)) = (last, last_s) {
            let (percent, confidence) = (100.0 * part, 100.0 * self.config.confidence);
            text += &format!(", ±{percent:.1} % at {confidence:.0} %");
        }
        let size = match &self.sizes {
            CampaignSizes::Line(_) | CampaignSizes::Listed(_) => count(m, "unit"),
            CampaignSizes::Surface(_) => format!("{m}×{n} blocks"),
        };
        format!("{text}, now {size}")
    }
}

/// Returns the largest half-width of the parts' confidence intervals, as a part of the time.
fn widest_interval(points: &PartPoints) -> Option<f64> {
    let points = points.iter().flatten().filter(|point| point.reps > 0);
    points.map(|point| point.ci_s / point.t_s).reduce(f64::max)
}
