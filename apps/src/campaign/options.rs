//! The command line of `isochron campaign`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::numbers::parse_whole;

/// The subcommands.
#[derive(Subcommand)]
pub enum CampaignCommand {
    /// Check a campaign file, list its points and commands, and predict their time
    Plan(FileArguments),
    /// Measure a campaign, or go on where an earlier run was stopped or killed
    Run(RunArguments),
    /// Show what a campaign has done and what is left, also while it runs
    Status(StatusArguments),
    /// Write report.md, points.csv and report.html into the folder of a campaign
    Report(ReportArguments),
    /// Compare a campaign with a baseline: environments, then each contender at each point
    Compare(CompareArguments),
    /// Print a job script for Slurm, in whose jobs the campaign goes on until it ends
    Script(ScriptArguments),
}

/// A campaign file to look at.
#[derive(Args)]
pub struct FileArguments {
    #[command(flatten)]
    pub place: PlaceArguments,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A campaign to measure.
#[derive(Args)]
pub struct RunArguments {
    #[command(flatten)]
    pub place: PlaceArguments,
    /// Only the points that need this number of nodes; engines for several numbers may run at the same time
    #[arg(long, value_name = "N", value_parser = parse_whole::<u32, 1>)]
    pub nodes: Option<u32>,
    /// End with status 3 if a contender was given up at a point, since it failed
    #[arg(long)]
    pub check: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A campaign whose job script is printed.
#[derive(Args)]
pub struct ScriptArguments {
    #[command(flatten)]
    pub place: PlaceArguments,
    /// Options of sbatch for every job, such as --partition=gpu --time=2:00:00
    #[arg(last = true, value_name = "OPTION")]
    pub options: Vec<String>,
}

/// A campaign file, and the folder of what it measures.
#[derive(Args)]
pub struct PlaceArguments {
    /// Campaign file, in TOML
    pub file: PathBuf,
    /// Folder of the measurements [default: the name of FILE without its extension, or with .results if it has none, in the current
    /// folder]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl PlaceArguments {
    /// Returns the folder of the measurements.
    pub fn find_folder(&self) -> PathBuf {
        let own = || {
            let name = PathBuf::from(self.file.file_name().unwrap_or_default());
            let extension = if name.extension().is_some() { "" } else { "results" };
            name.with_extension(extension)
        };
        self.dir.clone().unwrap_or_else(own)
    }
}

/// The folder of a campaign whose status is shown.
#[derive(Args)]
pub struct StatusArguments {
    #[command(flatten)]
    pub folder: FolderArguments,
    /// Show each change until the campaign's engine has ended
    #[arg(long, conflicts_with = "json")]
    pub follow: bool,
}

/// The folder of a campaign whose report is written.
#[derive(Args)]
pub struct ReportArguments {
    #[command(flatten)]
    pub folder: FolderArguments,
    /// End with status 3 if a goal is missed
    #[arg(long)]
    pub check: bool,
}

/// The folder of a campaign.
#[derive(Args)]
pub struct FolderArguments {
    /// Folder of a campaign
    pub dir: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The folders of two or more campaigns.
#[derive(Args)]
pub struct CompareArguments {
    /// Folders of campaigns: the last one is compared with the others, whose median is the baseline
    #[arg(num_args = 2.., required = true, value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// End with status 3 if a contender is slower or fails
    #[arg(long)]
    pub check: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
