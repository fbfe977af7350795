//! The sizes of a campaign, on a line or on a surface.

use isochron_hierarchy::model::{ModelSizes, SurfaceSizes};

use super::files::PartPoints;
use super::part::{Size, flatten_point};

/// The machine that names the next size.
pub enum CampaignSizes {
    /// Of models in one dimension.
    Line(ModelSizes),
    /// Of surfaces.
    Surface(SurfaceSizes),
}

impl CampaignSizes {
    /// Returns the size to measure next; `None` at the end.
    pub fn next_size(&self) -> Option<Size> {
        match self {
            Self::Line(sizes) => sizes.next_size().map(|d| (d, 1)),
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
            Self::Surface(sizes) => {
                let possible = known.map(|point| point.is_some());
                sizes.observe(size, &possible.collect::<Vec<_>>());
            }
        }
    }

    /// Returns the sizes that are likely to be measured still; at least one before the end.
    pub fn list_left(&self) -> Vec<Size> {
        match self {
            Self::Line(sizes) => sizes.list_left().into_iter().map(|d| (d, 1)).collect(),
            Self::Surface(sizes) => sizes.list_left(),
        }
    }
}
