//! The settings of products.

use isochron_hierarchy::balance::BalanceConfig;
use isochron_hierarchy::problem::Split;
use serde::Serialize;

use crate::comm::{Settings, add_fields, add_setting};
use crate::error::Error;
use crate::matrix::{Distribution, Op};
use crate::plan::{Plan, check_epsilon, check_widths};

/// The operations of a product, and how it is planned.
#[derive(Debug, Clone, Copy)]
pub struct ProductConfig {
    /// The operations on A and B.
    pub ops: [Op; 2],
    /// Block size `b`; `None` chooses it by [`Problem::choose_block`](crate::plan::Problem::choose_block). The plan may
    /// take a part of it, but no less than 16, so that C is in whole blocks where it lies.
    pub block: Option<usize>,
    /// Width of the panels; `None` leaves it to the plan.
    pub panel: Option<usize>,
    /// The dimension that is divided among the nodes.
    pub split: Split,
    /// The way to a balanced division.
    pub balance: BalanceConfig,
}

impl ProductConfig {
    /// Checks the settings that are wrong for every product.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] for blocks or panels of width 0, and for a tolerance that is not above 0.
    pub fn check(&self) -> Result<(), Error> {
        check_widths(self.block.unwrap_or(1), self.panel)?;
        check_epsilon(self.balance.epsilon)
    }

    /// Returns each setting as text.
    pub(super) fn describe(&self) -> Settings {
        let Self { ops: [a, b], block, panel, split, balance } = self;
        let mut settings = Settings::new();
        add_setting(&mut settings, "ops", &format!("{a}{b}").to_uppercase());
        add_setting(&mut settings, "block", block);
        add_setting(&mut settings, "panel", panel);
        add_setting(&mut settings, "split", &split.to_string());
        add_fields(&mut settings, balance);
        settings
    }
}

impl Default for ProductConfig {
    /// Takes A and B as they are, and leaves the rest to the plan.
    fn default() -> Self {
        Self {
            ops: [Op::N; 2],
            block: None,
            panel: None,
            split: Split::Auto,
            balance: BalanceConfig::default(),
        }
    }
}

/// The settings of the runs of a product, the same on all ranks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct RunConfig {
    /// Leaves a [`Matrix`](crate::matrix::Matrix) C where its last step was computed; [`spread`] names the place. Such a C suits
    /// no further run of the product. Without it, C returns to its place in the plan.
    ///
    /// [`spread`]: crate::matrix::HeldMatrix::spread
    pub leaves_c: bool,
}

/// The origin of a product's plan.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for each product, and it is taken apart at once"
)]
pub enum ProductOf<'p> {
    /// The distributions of the program's matrices A, B and C. Their shapes give m, n and k.
    Matrices([&'p Distribution; 3], ProductConfig),
    /// A plan. The matrices lie where it has them.
    Plan(Plan),
}

impl<'p> From<[&'p Distribution; 3]> for ProductOf<'p> {
    fn from(on: [&'p Distribution; 3]) -> Self {
        Self::Matrices(on, ProductConfig::default())
    }
}

impl<'p> From<([&'p Distribution; 3], ProductConfig)> for ProductOf<'p> {
    fn from((on, config): ([&'p Distribution; 3], ProductConfig)) -> Self {
        Self::Matrices(on, config)
    }
}

impl From<Plan> for ProductOf<'_> {
    fn from(plan: Plan) -> Self {
        Self::Plan(plan)
    }
}

impl From<&Plan> for ProductOf<'_> {
    fn from(plan: &Plan) -> Self {
        Self::Plan(plan.clone())
    }
}
