//! `isochron models`: the model store, listed and tidied.

mod edit;
mod show;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use isochron::store::{FoundSegment, StoreFolder, StoreKey, StorePlaces, StoredModels, StoredRun};

use crate::failure::Failure;

/// The subcommands.
#[derive(Subcommand)]
pub enum ModelsCommand {
    /// List the models, one of each device and work, with the folders of the store
    List,
    /// Show a model: its key, its runs and its times
    Show(OneModel),
    /// Compare two models: where their keys differ, and their times at the nearest sizes
    Diff(TwoModels),
    /// Remove runs, and what killed writers have left
    Prune(PruneArguments),
    /// Merge all segments of the user's folder into one
    Compact,
    /// Write all models to a file, which another store can import
    Export(FileArguments),
    /// Add the models of an exported file
    Import(FileArguments),
    /// Check every segment; the exit status is 1 if one is broken
    Verify,
}

#[derive(Args)]
pub struct OneModel {
    /// Name of the model, as in the list
    model: String,
}

#[derive(Args)]
pub struct TwoModels {
    /// Name of the first model
    first: String,
    /// Name of the second model
    second: String,
}

#[derive(Args)]
#[group(required = true, multiple = true)]
pub struct PruneArguments {
    /// Remove runs that are older than a number of days
    #[arg(long, value_name = "DAYS", value_parser = crate::numbers::parse_whole::<u64, 0>)]
    older_than: Option<u64>,
    /// Remove the runs of a model
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
}

#[derive(Args)]
pub struct FileArguments {
    /// The file
    file: PathBuf,
}

/// Runs the command.
pub fn run(command: &ModelsCommand) -> Result<String, Failure> {
    let folders = Folders::find()?;
    match command {
        ModelsCommand::List => show::list(&folders),
        ModelsCommand::Show(arguments) => show::show(&folders, &arguments.model),
        ModelsCommand::Diff(arguments) => {
            show::compare(&folders, &arguments.first, &arguments.second)
        }
        ModelsCommand::Prune(arguments) => {
            edit::prune(&folders, arguments.older_than, arguments.model.as_deref())
        }
        ModelsCommand::Compact => edit::compact(&folders),
        ModelsCommand::Export(arguments) => edit::export(&folders, &arguments.file),
        ModelsCommand::Import(arguments) => edit::import(&folders, &arguments.file),
        ModelsCommand::Verify => show::verify(&folders),
    }
}

/// The folders of the store, the user's first.
struct Folders {
    all: Vec<StoreFolder>,
}

impl Folders {
    fn find() -> Result<Self, Failure> {
        let places = StorePlaces::find();
        let places = places.ok_or_else(|| {
            Failure::input("there is no store: ISOCHRON_STORE is empty, or there is no home folder")
        })?;
        let sites = places.sites.into_iter();
        let mut all = vec![StoreFolder::new(places.user, true)];
        all.extend(sites.map(|site| StoreFolder::new(site, false)));
        Ok(Self { all })
    }

    fn user(&self) -> &StoreFolder {
        &self.all[0]
    }

    /// Reads the segments of all folders.
    fn find_segments(&self) -> Result<Vec<FoundSegment>, Failure> {
        let mut found = Vec::new();
        for folder in &self.all {
            found.extend(find_segments(folder)?);
        }
        Ok(found)
    }

    /// Reads the models of all folders, as a run does.
    fn read(&self) -> Result<StoredModels, Failure> {
        let segments = self.find_segments()?.into_iter();
        Ok(StoredModels::merge(
            segments.filter_map(|segment| segment.runs.ok()).flatten(),
        ))
    }
}

fn find_segments(folder: &StoreFolder) -> Result<Vec<FoundSegment>, Failure> {
    folder
        .find_all()
        .map_err(|error| Failure::of_file(folder.root(), error))
}

/// Returns the key of a model by its name, or by the first digits of it.
fn find_key(models: &StoredModels, name: &str) -> Result<StoreKey, Failure> {
    let mut keys: Vec<&StoreKey> = models.runs().map(|run| &run.key).collect();
    keys.retain(|key| !name.is_empty() && key.name().starts_with(name));
    keys.sort();
    keys.dedup();
    match keys.as_slice() {
        [key] => Ok((*key).clone()),
        [] => Err(Failure::input(format!(
            "there is no model {name}: `isochron models list` has their names"
        ))),
        several => Err(Failure::input(format!(
            "{name} names {} models",
            several.len()
        ))),
    }
}

/// Returns the runs of a model.
fn list_runs<'m>(models: &'m StoredModels, key: &StoreKey) -> Vec<&'m StoredRun> {
    models.runs().filter(|run| run.key == *key).collect()
}

fn name_path(path: &Path) -> String {
    path.display().to_string()
}
