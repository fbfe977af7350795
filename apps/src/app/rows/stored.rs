//! Times of the model store, in place of measurements.

use isochron_core::internal::KnownTimes;
use isochron_core::plan::KnownFrom;
use isochron_core::prelude::*;
use isochron_hierarchy::model::{Point, SurfacePoint};

use crate::measure::{
    CampaignSizes, FileKind, FullModels, MeasuredPart, PointsFiles, flatten_point, widen_point,
};

/// The sizes that earlier jobs have timed on every rank, among those that are needed.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredSizes {
    /// The points of each size, by rank.
    sizes: Vec<Vec<Point>>,
    /// `true` for each rank whose times a measurement has to scale.
    to_scale: Vec<bool>,
}

impl StoredSizes {
    /// Chooses the sizes that are `needed` and `known` on every rank.
    pub fn new(known: &[KnownTimes], needed: &[u64]) -> Self {
        let of_ranks = needed.iter().filter_map(|&size| {
            known
                .iter()
                .map(|kernel| find_size(&kernel.points, size))
                .collect::<Option<Vec<Point>>>()
        });
        let sizes = if known.is_empty() { Vec::new() } else { of_ranks.collect() };
        let to_scale = known.iter().map(|kernel| kernel.from != KnownFrom::Store);
        Self { sizes, to_scale: to_scale.collect() }
    }

    /// Returns the number of sizes.
    pub fn count(&self) -> usize {
        self.sizes.len()
    }

    /// Returns `true` if there are times that a measurement has to scale.
    pub fn is_to_scale(&self) -> bool {
        !self.sizes.is_empty() && self.to_scale.contains(&true)
    }

    /// Measures one of the sizes if times are to be scaled, and scales them. If it takes too long there, or no size has a
    /// time on every rank, nothing is left.
    ///
    /// # Errors
    /// The errors of the campaign.
    ///
    /// # Collective
    /// All ranks.
    pub fn check(
        mut self,
        campaign: &mut FullModels<'_>,
        parts: &[MeasuredPart],
    ) -> Result<Self, Error> {
        if !self.is_to_scale() {
            return Ok(self);
        }
        let Some(probe) = self.choose_probe() else {
            self.sizes.clear();
            return Ok(self);
        };
        let size = self.sizes[probe][0].d;
        campaign.sizes = CampaignSizes::Listed(vec![size]);
        let files = match campaign.comm.rank() {
            0 => Some(PointsFiles::open(None, FileKind::Points, parts)?),
            _ => None,
        };
        campaign.run(files)?;
        let measured = campaign.points.iter().flat_map(|(_, points)| points);
        let measured: Vec<Option<Point>> =
            measured.map(|point| point.as_ref().map(flatten_point)).collect();
        self.scale(probe, &measured);
        Ok(self)
    }

    /// Chooses the size to measure, by its index: the middle one of those that took no rank too long.
    fn choose_probe(&self) -> Option<usize> {
        let timed = self
            .sizes
            .iter()
            .enumerate()
            .filter(|(_, points)| points.iter().all(|point| point.reps > 0));
        let timed: Vec<usize> = timed.map(|(index, _)| index).collect();
        timed.get(timed.len() / 2).copied()
    }

    /// Scales the times so that they agree with those measured at the size of this index.
    fn scale(&mut self, probe: usize, measured: &[Option<Point>]) {
        let stored = self.sizes[probe].iter().zip(measured);
        let factors = stored.map(|(stored, measured)| {
            Some(measured.filter(|point| point.reps > 0)?.t_s / stored.t_s)
        });
        let Some(factors) = factors.collect::<Option<Vec<f64>>>() else {
            self.sizes.clear();
            return;
        };
        for points in &mut self.sizes {
            for ((point, factor), _) in points
                .iter_mut()
                .zip(&factors)
                .zip(&self.to_scale)
                .filter(|(_, to_scale)| **to_scale)
            {
                point.t_s *= factor;
                point.ci_s *= factor;
            }
        }
        for (point, measured) in self.sizes[probe].iter_mut().zip(measured) {
            *point = measured.unwrap_or(*point);
        }
    }

    /// Adds the points to files that are not written.
    ///
    /// # Errors
    /// The errors of the files.
    pub fn add_to(
        &self,
        files: &mut PointsFiles,
        lacking: &[Vec<(u64, u64)>],
    ) -> Result<(), Error> {
        for points in &self.sizes {
            let points = points.iter().map(|point| Some(widen_point(point)));
            let points: Vec<Option<SurfacePoint>> = points.collect();
            files.add(&points, lacking)?;
        }
        Ok(())
    }
}

/// Returns the point of this size.
fn find_size(points: &[Point], size: u64) -> Option<Point> {
    points.iter().find(|point| point.d == size).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make_known(from: KnownFrom, times: &[(u64, f64)]) -> KnownTimes {
        let points = times.iter().map(|&(d, t_s)| Point { d, t_s, reps: 1, ci_s: 0.0 });
        KnownTimes { points: points.collect(), from }
    }

    fn list_times(stored: &StoredSizes) -> Vec<Vec<f64>> {
        stored.sizes.iter().map(|points| points.iter().map(|point| point.t_s).collect()).collect()
    }

    #[test]
    fn sizes_that_a_rank_lacks_are_measured() {
        let known = [
            make_known(KnownFrom::Store, &[(8, 1.0), (16, 2.0), (24, 3.0)]),
            make_known(KnownFrom::Store, &[(8, 2.0), (24, 5.0), (32, 6.0)]),
        ];
        let stored = StoredSizes::new(&known, &[8, 16, 24, 32]);
        assert_eq!(list_times(&stored), [[1.0, 2.0], [3.0, 5.0]]);
        assert!(!stored.is_to_scale());
        assert_eq!(StoredSizes::new(&[], &[8]).count(), 0);
        let fresh = [known[0].clone(), make_known(KnownFrom::Fresh, &[])];
        let stored = StoredSizes::new(&fresh, &[8]);
        assert!(stored.count() == 0 && !stored.is_to_scale());
    }

    #[test]
    fn times_of_other_conditions_are_scaled_by_a_measured_size() {
        let known = [
            make_known(KnownFrom::Store, &[(8, 1.0), (16, 2.0)]),
            make_known(KnownFrom::StoreAndProbe, &[(8, 1.0), (16, 3.0)]),
        ];
        let stored = StoredSizes::new(&known, &[8, 16]);
        assert!(stored.is_to_scale());
        let measured = make_measured(16, &[2.5, 1.5]);
        let mut scaled = stored.clone();
        scaled.scale(1, &measured);
        assert_eq!(list_times(&scaled), [[1.0, 0.5], [2.5, 1.5]]);
        assert_eq!(stored.choose_probe(), Some(1));
        // A size that takes too long now tells nothing about the others.
        let mut hopeless = stored;
        hopeless.scale(1, &[measured[0], None]);
        assert_eq!(hopeless.count(), 0);
    }

    #[test]
    fn a_size_that_took_a_rank_too_long_is_not_measured_to_scale_the_others() {
        let times: [(u64, f64); 3] = [(8, 1.0), (16, 2.0), (24, 3.0)];
        let mut known =
            [KnownFrom::Store, KnownFrom::StoreAndProbe].map(|from| make_known(from, &times));
        known[1].points[1].reps = 0;
        known[1].points[2].reps = 0;
        let mut stored = StoredSizes::new(&known, &[8, 16, 24]);
        assert_eq!(stored.choose_probe(), Some(0));
        stored.scale(0, &make_measured(8, &[0.5, 0.5]));
        assert_eq!(list_times(&stored), [[0.5, 0.5], [2.0, 1.0], [3.0, 1.5]]);
        known[0].points[0].reps = 0;
        let stored = StoredSizes::new(&known, &[8, 16, 24]);
        assert_eq!(stored.choose_probe(), None);
    }

    /// Returns the measured points of a size, one for each rank.
    fn make_measured(size: u64, times_s: &[f64]) -> Vec<Option<Point>> {
        let points = times_s.iter();
        points.map(|&t_s| make_known(KnownFrom::Fresh, &[(size, t_s)]).points.pop()).collect()
    }
}
