//! Campaigns: any programs measured against each other over combinations of parameters.
//!
//! A [`Campaign`] is read from a TOML file. [`run`] measures it into a folder, and goes on where an earlier run was stopped,
//! killed or out of disk. What it measures next is a pure function of what it has measured, so the same folder and file lead
//! to the same repetitions.
//!
//! * Rounds: in each, every contender runs every point once, in an order drawn from the seed. Ratios are taken within a
//!   round, so that slow changes of the machine cancel out.
//! * A point ends when the intervals of its ratios are narrow enough, or after the most rounds, or when the time of the
//!   campaign is used up.
//! * [`CampaignPlan`] tells what a run would do, [`CampaignStatus`] what one has done, [`CampaignReport`] what it has found, and
//!   [`CampaignComparison`] how two campaigns differ.
//!
//! # Examples
//! ```
//! use std::sync::atomic::AtomicBool;
//!
//! use isochron_campaign::{Campaign, Report, run};
//!
//! let folder = tempfile::tempdir()?;
//! let file = folder.path().join("sleep.toml");
//! std::fs::write(&file, r#"
//!     name = "two sleepers"
//!     [sweep]
//!     seconds = [0.01, 0.02]
//!     [[contender]]
//!     name = "sleep"
//!     command = "sleep {seconds}"
//!     [[contender]]
//!     name = "shell"
//!     command = "sh -c 'sleep {seconds}'"
//!     [repeat]
//!     max = 3
//! "#)?;
//! let campaign = Campaign::read(&file)?;
//! let results = folder.path().join("results");
//! let status = run(&campaign, &results, &[], &AtomicBool::new(false), &mut |_| {})?;
//! assert_eq!(status.points_ended, 2);
//! assert_eq!(Report::read(&results)?.rows.len(), 4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod compare;
mod disturbance;
mod environment;
mod error;
mod expression;
mod file;
mod folder;
mod gpus;
mod history;
mod plan;
mod point;
mod process;
mod processes;
mod processors;
mod reading;
mod record;
mod report;
mod run;
mod schedule;
mod script;
mod statistics;
mod status;
mod template;

pub use compare::{CampaignComparison, ComparedPoint, Difference, MOST_ROUNDS, PointVerdict};
pub use environment::describe_host;
pub use error::CampaignError;
pub use file::{Better, Campaign, CampaignGoal, CommandLine, Contender, Repeat};
pub use folder::{FILE, Holder, POINTS};
pub use plan::{CampaignPlan, PlannedCommand, PlannedDisk, PlannedPart};
pub use point::{CampaignPoint, Parameter, Parameters, describe_parameters};
pub use process::FOLDER_VARIABLE;
pub use record::{Repetition, Status};
pub use report::{
    CampaignReport, ContenderStanding, GoalOutcome, GoalRow, ReportRow, format_number,
};
pub use run::{CampaignProgress, run, run_nodes};
pub use schedule::PointEnd;
pub use script::JobScript;
pub use statistics::MedianInterval;
pub use status::{CampaignStatus, Failed, Forecast, State};
