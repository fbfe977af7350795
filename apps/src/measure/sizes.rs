//! The sizes of a campaign, on a line or on a surface.

use isochron_hierarchy::model::{ModelSizes, SurfaceSizes};

use super::files::PartPoints;
use super::part::{Size, flatten_point};

/// The machine that names the next size.
pub enum CampaignSizes {
    /// Of models in one dimension.
    Line(ModelSizes),
    /// Of models in one dimension, these sizes that are left, ascending.
    Listed(Vec<u64>),
    /// Of surfaces.
    Surface(SurfaceSizes),
}

impl CampaignSizes {
    /// Returns the size to measure next; `None` at the end.
    pub fn next_size(&self) -> Option<Size> {
        match self {
            Self::Line(sizes) => sizes.next_size().map(|d| (d, 1)),
            Self::Listed(left) => left.first().map(|&d| (d, 1)),
            Self::Surface(sizes) => sizes.next_size(),
        }
    }

    /// Takes in the points of all parts at a size, without a point or with a bound for those to which it is hopeless.
    pub fn observe(&mut self, size: Size, points: &PartPoints) {
        let known = points.iter().map(|point| point.filter(|point| point.reps > 0));
        match self {
            Self::Line(sizes) => {
                let known = known.map(|point| point.as_ref().map(flatten_point));
                sizes.observe(size.0, &known.collect::<Vec<_>>());
            }
            Self::Listed(left) => {
                let is_hopeless = known.into_iter().all(|point| point.is_none());
                left.retain(|&d| d != size.0 && !(is_hopeless && d > size.0));
            }
            Self::Surface(sizes) => {
                let possible = known.map(|point| point.is_some());
                sizes.observe(size, &possible.collect::<Vec<_>>());
            }
        }
    }

    /// Returns the sizes that are likely to be measured still; at least one before the end.
    pub fn list_left(&self) -> Vec<Size> {
        match self {
            Self::Line(sizes) => widen_sizes(&sizes.list_left()),
            Self::Listed(left) => widen_sizes(left),
            Self::Surface(sizes) => sizes.list_left(),
        }
    }
}

/// Returns sizes in one dimension as those of a surface of width 1.
fn widen_sizes(sizes: &[u64]) -> Vec<Size> {
    sizes.iter().map(|&d| (d, 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use isochron_hierarchy::model::SurfacePoint;

    #[test]
    fn listed_sizes_end_where_they_are_hopeless_to_all() {
        let mut sizes = CampaignSizes::Listed(vec![2, 4, 6]);
        let point = |reps| Some(SurfacePoint { m: 2, n: 1, t_s: 1.0, reps, ci_s: 0.0 });
        sizes.observe((2, 1), &vec![point(0), point(3)]);
        assert_eq!((sizes.next_size(), sizes.list_left().len()), (Some((4, 1)), 2));
        sizes.observe((4, 1), &vec![None, point(0)]);
        assert_eq!((sizes.next_size(), sizes.list_left().len()), (None, 0));
    }
}
