//! `isochron models`: the model store, listed and tidied.

mod edit;
mod show;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use isochron_core::store::{
    FoundSegment, StoreFolder, StoreKey, StorePlaces, StoredModels, StoredRun, read_clock_s,
};
use isochron_hierarchy::model::Point;
use serde::Serialize;

use crate::failure::Failure;
use crate::output;
use show::{ModelDifference, ModelList, ShownModel};

/// The subcommands.
#[derive(Subcommand)]
pub enum ModelsCommand {
    /// List the models and the folders of the store
    List(FormArguments),
    /// Show the key, the runs and the times of a model
    Show(OneModel),
    /// Compare the keys of two models, and their times at similar sizes
    Diff(TwoModels),
    /// Remove runs by age or by model, and files that killed jobs left behind
    Prune(PruneArguments),
    /// Merge all segments of the user's folder into one
    Compact,
    /// Write all models to a file that another store can import
    Export(FileArguments),
    /// Add the models of an exported file to the store
    Import(FileArguments),
    /// Check all segments; the exit status is 1 if any is broken
    Verify,
}

#[derive(Args)]
pub struct FormArguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct OneModel {
    /// Name of the model, as `isochron models list` shows it, or its first digits
    model: String,
    #[command(flatten)]
    form: FormArguments,
}

#[derive(Args)]
pub struct TwoModels {
    /// Name of the first model, as `isochron models list` shows it, or its first digits
    first: String,
    /// Name of the second model
    second: String,
    #[command(flatten)]
    form: FormArguments,
}

#[derive(Args)]
#[group(required = true, multiple = true)]
pub struct PruneArguments {
    /// Remove runs that are older than this number of days
    #[arg(long, value_name = "DAYS", value_parser = crate::numbers::parse_whole::<u64, 0>)]
    older_than: Option<u64>,
    /// Remove all runs of this model, named as `isochron models list` shows it
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
}

#[derive(Args)]
pub struct FileArguments {
    /// File of the exported models
    file: PathBuf,
}

impl FormArguments {
    /// Writes a document as JSON, or as `format` does for people.
    fn write<D: Serialize>(
        &self,
        document: &D,
        format: impl FnOnce(&D) -> String,
    ) -> Result<String, Failure> {
        match self.json {
            true => output::json_line(document),
            false => Ok(format(document)),
        }
    }
}

/// Reads the times of a named model. Its unit is an element of C.
pub fn read_stored(name: &str) -> Result<Vec<Point>, Failure> {
    let models = Folders::find()?.read()?;
    let known = models.find(&find_key(&models, name)?, read_clock_s());
    Ok(known.map_or_else(Vec::new, |known| known.points))
}

/// Runs the command.
pub fn run(command: &ModelsCommand) -> Result<String, Failure> {
    let folders = Folders::find()?;
    match command {
        ModelsCommand::List(form) => {
            let list = ModelList::read(&folders)?;
            form.write(&list, ModelList::format)
        }
        ModelsCommand::Show(arguments) => {
            let model = ShownModel::read(&folders, &arguments.model)?;
            arguments.form.write(&model, ShownModel::format)
        }
        ModelsCommand::Diff(arguments) => {
            let names = [&*arguments.first, &*arguments.second];
            let difference = ModelDifference::read(&folders, names)?;
            arguments.form.write(&difference, ModelDifference::format)
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
