//! Plots and pictures of the `isochron` command and of the benchmark campaigns.
//!
//! * [`Plot`]: curves and measurements on linear axes, as SVG ([`draw_plots`]) or in characters ([`draw_in_terminal`]);
//! * [`draw_log_log`]: [`Series`] of points on logarithmic axes;
//! * [`draw_bars`]: groups of bars in [`BarPanel`]s;
//! * [`Timeline`]: bars in lanes over time;
//! * [`Svg`]: the elements that all of them are made of, for other pictures.
//!
//! The crate knows nothing of devices, models or reports, and depends on nothing.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod area;
mod axis;
mod bars;
pub mod color;
mod log_log;
mod plots;
mod svg;
mod terminal;
mod timeline;

pub use axis::LinearAxis;
pub use bars::{Bar, BarPanel, draw_bars};
pub use log_log::{Series, draw_log_log};
pub use plots::{Curve, Mark, Plot, draw_plots};
pub use svg::{Anchor, Svg};
pub use terminal::draw_in_terminal;
pub use timeline::{Lane, LaneBar, Timeline};
