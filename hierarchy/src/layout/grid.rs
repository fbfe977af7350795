//! Layouts in a given grid.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::areas::check_areas;
use super::{
    FpmKl, FpmKlConfig, Layout, LayoutError, Method, SpeedSurface, arrange, arrange_in, fpm_kl,
    rearrange_in_groups,
};
use crate::model::SpeedModel;

/// Rows and columns of nodes, `2x3` in text: three columns of two nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Grid {
    /// Nodes of each column.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
}

impl Grid {
    /// Returns the columns of nodes, from left to right and top to bottom: the nodes by falling area along the rows.
    ///
    /// # Errors
    /// Returns [`LayoutError::OtherGrid`] unless the grid has one place for each node.
    ///
    /// # References
    /// Alonso, Reddy and Lastovetsky 2009, section 4.1.2.
    pub fn columns(self, areas: &[f64]) -> Result<Vec<Vec<usize>>, LayoutError> {
        let nodes = areas.len();
        if self.rows.checked_mul(self.cols) != Some(nodes) {
            return Err(LayoutError::OtherGrid { grid: self, nodes });
        }
        let mut order: Vec<usize> = (0..nodes).collect();
        order.sort_by(|&a, &b| areas[b].total_cmp(&areas[a]));
        Ok((0..self.cols)
            .map(|col| order.iter().skip(col).step_by(self.cols).copied().collect())
            .collect())
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.rows, self.cols)
    }
}

impl FromStr for Grid {
    type Err = LayoutError;

    fn from_str(text: &str) -> Result<Self, LayoutError> {
        let sides = text.split_once(['x', '×']).map(|(rows, cols)| (rows.parse(), cols.parse()));
        match sides {
            Some((Ok(rows), Ok(cols))) if rows > 0 && cols > 0 => Ok(Self { rows, cols }),
            _ => Err(LayoutError::NoGrid(text.to_owned())),
        }
    }
}

/// Method that turns areas into rectangles, and its grid if one is given. In text it is `br`, or `kl in 2x3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(with = "String"))]
#[serde(into = "String", try_from = "String")]
pub struct Arrangement {
    /// The method.
    pub method: Method,
    /// The grid; `None` if the method chooses the columns.
    pub grid: Option<Grid>,
}

impl From<Method> for Arrangement {
    fn from(method: Method) -> Self {
        Self { method, grid: None }
    }
}

impl fmt::Display for Arrangement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.grid {
            None => self.method.fmt(f),
            Some(grid) => write!(f, "{} in {grid}", self.method),
        }
    }
}

impl From<Arrangement> for String {
    fn from(arrangement: Arrangement) -> Self {
        arrangement.to_string()
    }
}

impl TryFrom<String> for Arrangement {
    type Error = LayoutError;

    fn try_from(text: String) -> Result<Self, LayoutError> {
        Ok(match text.split_once(" in ") {
            None => Self::from(text.parse::<Method>()?),
            Some((method, grid)) => Self { method: method.parse()?, grid: Some(grid.parse()?) },
        })
    }
}

impl Arrangement {
    /// Checks that the grid fits this number of nodes.
    ///
    /// # Errors
    /// Returns [`LayoutError::OtherGrid`] unless the grid has one place for each node, and [`LayoutError::OwnColumns`] for
    /// a method that takes no grid.
    pub fn check(self, nodes: usize) -> Result<(), LayoutError> {
        let Some(grid) = self.grid else {
            return Ok(());
        };
        if !self.method.takes_columns() {
            return Err(LayoutError::OwnColumns { method: self.method });
        }
        grid.columns(&vec![1.0; nodes]).map(drop)
    }

    /// Arranges areas over `rows × cols` blocks, as [`arrange()`] does, in the [columns](Grid::columns) of the grid if there is
    /// one. A node of area 0 gets few blocks or none there.
    ///
    /// # Errors
    /// Returns the errors of [`arrange()`]; with a grid those of [`check`](Self::check).
    pub fn arrange(self, areas: &[f64], rows: u64, cols: u64) -> Result<Layout, LayoutError> {
        match self.grid {
            None => arrange(self.method, areas, rows, cols),
            Some(grid) => self.arrange_columns(&grid.columns(areas)?, areas, rows, cols),
        }
    }

    /// Arranges other areas in a layout's place: in its columns if there is a grid, or by its areas if a node without blocks has
    /// lost its place there; without a grid as [`rearrange_in_groups()`] does.
    ///
    /// # Errors
    /// Returns the errors of [`rearrange_in_groups()`], and of [`arrange`](Self::arrange).
    pub fn rearrange(
        self,
        current: &Layout,
        groups: &[&[usize]],
        areas: &[f64],
    ) -> Result<Layout, LayoutError> {
        match self.find_columns(current)?.filter(|_| self.grid.is_some()) {
            Some(columns) => self.arrange_columns(&columns, areas, current.rows(), current.cols()),
            None => rearrange_in_groups(current, self.method, groups, areas),
        }
    }

    /// Returns the columns of a layout; in a grid, where a node without blocks has lost its place, those of its areas.
    fn find_columns(self, layout: &Layout) -> Result<Option<Vec<Vec<usize>>>, LayoutError> {
        let columns = layout.columns();
        let Some(grid) = self.grid else {
            return Ok(columns);
        };
        let is_whole = |columns: &Vec<Vec<usize>>| {
            columns.len() == grid.cols && columns.iter().all(|column| column.len() == grid.rows)
        };
        let areas: Vec<f64> = layout.areas().into_iter().map(|area| area as f64).collect();
        columns.filter(is_whole).map_or_else(|| grid.columns(&areas), Ok).map(Some)
    }

    fn arrange_columns(
        self,
        columns: &[Vec<usize>],
        areas: &[f64],
        rows: u64,
        cols: u64,
    ) -> Result<Layout, LayoutError> {
        check_areas(areas)?;
        let least = NEXT_TO_NOTHING * areas.iter().sum::<f64>();
        let areas: Vec<f64> = areas.iter().map(|area| area.max(least)).collect();
        Ok(arrange_in(self.method, columns, &areas, rows, cols)?.forget_empty_places())
    }

    /// Divides `rows × cols` blocks by models of the area with [`fpm_kl()`], if that is the method: in the columns of `current`.
    /// `None` with another method, or if the layout has no columns.
    ///
    /// # Errors
    /// Returns the errors of [`fpm_kl()`].
    pub fn divide_sides(
        self,
        current: &Layout,
        models: &[&dyn SpeedModel],
        config: &FpmKlConfig,
    ) -> Result<Option<FpmKl>, LayoutError> {
        if self.method != Method::FpmKl {
            return Ok(None);
        }
        let Some(columns) = self.find_columns(current)? else {
            return Ok(None);
        };
        let surfaces: Vec<AreaSurface<'_>> =
            models.iter().map(|&model| AreaSurface(model)).collect();
        let surfaces: Vec<&dyn SpeedSurface> =
            surfaces.iter().map(|surface| surface as _).collect();
        fpm_kl(&surfaces, &columns, current.rows(), current.cols(), config).map(Some)
    }
}

/// Part of all areas that a node without area counts with: a cartesian grid has a row and a column for every node.
const NEXT_TO_NOTHING: f64 = 1e-9;

/// A surface whose speed depends on the area alone.
struct AreaSurface<'m>(&'m dyn SpeedModel);

impl SpeedSurface for AreaSurface<'_> {
    fn section(&self, width: u64) -> Box<dyn SpeedModel + '_> {
        Box::new(AreaSection { model: self.0, width: width as f64 })
    }
}

/// A model of the area with rows of `width` blocks as units.
#[derive(Debug)]
struct AreaSection<'m> {
    model: &'m dyn SpeedModel,
    width: f64,
}

impl SpeedModel for AreaSection<'_> {
    fn speed(&self, d: f64) -> f64 {
        self.model.speed(d * self.width) / self.width
    }

    fn time_s(&self, d: f64) -> f64 {
        self.model.time_s(d * self.width)
    }

    fn speed_derivative(&self, d: f64) -> f64 {
        self.model.speed_derivative(d * self.width)
    }

    fn units_within(&self, t_s: f64) -> f64 {
        self.model.units_within(t_s) / self.width
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Cpm, Knot, Polyline};

    fn arrangement(text: &str) -> Result<Arrangement, LayoutError> {
        text.to_owned().try_into()
    }

    #[test]
    fn text_reads_back_and_nonsense_is_refused() {
        for text in ["br", "kl in 2x3", "fpm-kl in 1x4", "cartesian-sums in 3x1"] {
            assert_eq!(arrangement(text).expect("a name").to_string(), text);
        }
        assert_eq!("2×3".parse(), Ok(Grid { rows: 2, cols: 3 }));
        for text in ["2", "0x3", "2x", "x", "-1x2", "2x3x4", "ax2"] {
            assert_eq!(text.parse::<Grid>(), Err(LayoutError::NoGrid(text.to_owned())));
        }
    }

    #[test]
    fn nodes_stand_by_falling_area_along_the_rows_and_stay() {
        let kl = arrangement("kl in 2x2").expect("a name");
        let first = kl.arrange(&[1.0, 4.0, 2.0, 3.0], 20, 20).expect("fits");
        assert_eq!(first.columns(), Some(vec![vec![1, 2], vec![3, 0]]));
        let next = kl.rearrange(&first, &[], &[4.0, 1.0, 3.0, 2.0]).expect("fits");
        assert_eq!(next.columns(), first.columns());
        // Columns of 8 and 12 of 20; heights of 5 and 15, of 6 and 14.
        assert_eq!(next.areas(), [168, 40, 120, 72]);
    }

    #[test]
    fn every_method_with_a_grid_tiles_whatever_the_areas() {
        for method in ["kl", "cartesian", "cartesian-sums", "fpm-kl"] {
            let chosen = arrangement(&format!("{method} in 2x3")).expect("a name");
            for areas in [[1.0; 6], [0.0, 5.0, 0.0, 1.0, 0.0, 2.0], [0.0, 0.0, 0.0, 0.0, 0.0, 1.0]]
            {
                let layout = chosen.arrange(&areas, 7, 11).expect("fits");
                let again = chosen.rearrange(&layout, &[], &[3.0, 1.0, 1.0, 0.0, 1.0, 1.0]);
                assert_eq!(again.expect("fits").areas().iter().sum::<u64>(), 77);
            }
        }
    }

    #[test]
    fn a_grid_that_does_not_fit_is_refused() {
        let refused = arrangement("kl in 2x3").expect("a name").check(4).expect_err("six places");
        assert_eq!(refused.to_string(), "a grid of 2x3 has 6 places, and there are 4 nodes");
        let refused = arrangement("br in 2x2").expect("a name").check(4).expect_err("own columns");
        assert_eq!(refused, LayoutError::OwnColumns { method: Method::Br });
        assert_eq!(arrangement("br").expect("a name").check(4), Ok(()));
    }

    #[test]
    fn heights_and_widths_follow_models_of_the_area() {
        let pages = [(1.0, 30.0), (40.0, 30.0), (50.0, 3.0)].map(|(d, speed)| Knot { d, speed });
        let pages = Polyline::from_knots(pages.to_vec()).expect("a line");
        let (slow, fast) = (Cpm { speed: 10.0 }, Cpm { speed: 30.0 });
        let models: [&dyn SpeedModel; 4] = [&slow, &fast, &slow, &pages];
        let chosen = arrangement("fpm-kl in 2x2").expect("a name");
        let first = chosen.arrange(&[1.0, 3.0, 1.0, 3.0], 16, 16).expect("fits");
        let divide = |text: &str| {
            let chosen = arrangement(text).expect("a name");
            chosen.divide_sides(&first, &models, &FpmKlConfig::default()).expect("models")
        };
        let found = divide("fpm-kl in 2x2").expect("a division");
        let times_s = first.areas().into_iter().zip(models);
        let first_s = times_s.map(|(d, model)| model.time_s(d as f64)).fold(0.0, f64::max);
        let longest_s = found.times_s.iter().copied().fold(0.0, f64::max);
        assert!(longest_s < 0.5 * first_s, "{first_s} {found:?}");
        assert_eq!(found.layout.areas().iter().sum::<u64>(), 256);
        assert_eq!(divide("kl in 2x2"), None);
    }
}
