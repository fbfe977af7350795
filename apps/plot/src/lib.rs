//! Plots and pictures of the `isochron` command and of the benchmark campaigns.
//!
//! * [`Plot`]: curves and measurements on linear axes, as SVG ([`draw_plots`]) or in characters ([`draw_in_terminal`]);
//! * [`draw_log_log`]: [`PlotSeries`] of points on logarithmic axes;
//! * [`draw_bars`]: groups of bars in [`BarPanel`]s;
//! * [`Timeline`]: bars in lanes over time;
//! * [`HeatMap`]: a matrix of values as coloured cells.
//!
//! The crate knows nothing of devices, models or reports. It shares the rule by which names are printed.
//!
//! # Example
//! The speed of a device by its model, with two measurements, as a picture and as text:
//! ```
//! use isochron_plot::{Curve, Mark, Plot, color, draw_in_terminal, draw_plots};
//!
//! let plot = Plot {
//!     title: "cpu0".to_owned(),
//!     x_name: "units",
//!     y_name: "units per second",
//!     curves: vec![Curve {
//!         name: "piecewise".to_owned(),
//!         symbol: '*',
//!         color: color::of_series(0),
//!         dashed: false,
//!         points: vec![(0.0, 90.0), (100.0, 100.0), (400.0, 97.0)],
//!         ..Curve::default()
//!     }],
//!     marks: [(100.0, 1.0), (400.0, 4.1)]
//!         .map(|(units, t_s)| Mark::of_speed(units, units, t_s, 0.05))
//!         .into(),
//! };
//! let text = draw_in_terminal(&plot);
//! assert!(text.contains('*') && text.contains("piecewise"));
//! let svg = draw_plots(&[plot]);
//! assert!(svg.starts_with("<svg") && svg.contains("cpu0"));
//! ```
//!
//! # When to use which
//! | to show | use |
//! |---|---|
//! | a function with its measurements, both axes from 0 | [`Plot`] |
//! | the same without a browser | [`draw_in_terminal`] |
//! | costs over sizes that span decades | [`draw_log_log`] |
//! | a few contestants in several cases, with their spread | [`draw_bars`] |
//! | what each rank or device did when | [`Timeline`] |

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod area;
mod axis;
mod bars;
pub mod color;
mod heat_map;
mod log_log;
mod plots;
mod svg;
mod terminal;
mod text_width;
mod timeline;

pub use bars::{Bar, BarPanel, draw_bars};
pub use heat_map::HeatMap;
pub use log_log::{PlotSeries, draw_log_log};
pub use plots::{Curve, Mark, Plot, draw_plots};
pub use terminal::draw_in_terminal;
pub use timeline::{Lane, LaneBar, Timeline};
