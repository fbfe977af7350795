//! `isochron models`: models in files and in the model store, shown, listed and tidied.

mod diff;
mod edit;
mod list;
mod show;
mod verify;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use isochron_core::Error;
use isochron_core::store::{
    FoundSegment, Identity, STORE_VARIABLE, StoreFolder, StoreKey, StorePlaces, StoredModels,
    StoredRun, read_clock_s,
};
use isochron_hierarchy::model::Point;
use serde::Serialize;
use serde_json::Value;

use crate::failure::Failure;
use crate::output::{self, Answer};
use diff::ModelDifference;
use edit::StoreChange;
use list::ModelList;
use verify::StoreCheck;

/// Version of the documents.
const SCHEMA: u32 = 1;

/// The subcommands.
#[derive(Subcommand)]
pub enum ModelsCommand {
    /// List the models and the folders of the store
    List(FormArguments),
    /// Show speeds and times of points files, surface files and stored models, and of the models made from them
    Show(show::ShowArguments),
    /// Compare the keys of two models, and their times at similar sizes
    Diff(TwoModels),
    /// Remove runs by age or by model, and files that killed jobs left behind
    Prune(PruneArguments),
    /// Merge all segments of the user's folder into one
    Compact(FormArguments),
    /// Write all models to a file that another store can import
    Export(FileArguments),
    /// Add the models of an exported file to the store
    Import(FileArguments),
    /// Check all segments; the exit status is 1 if any is broken, or a folder of ISOCHRON_STORE does not exist
    Verify(FormArguments),
}

#[derive(Args)]
pub struct FormArguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
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
#[group(required = true, multiple = true, args = ["older_than", "model"])]
pub struct PruneArguments {
    /// Remove runs that are older than this number of days
    #[arg(long, value_name = "DAYS", value_parser = crate::numbers::parse_whole::<u64, 0>)]
    older_than: Option<u64>,
    /// Remove all runs of this model, named as `isochron models list` shows it
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    #[command(flatten)]
    form: FormArguments,
}

#[derive(Args)]
pub struct FileArguments {
    /// File of the exported models
    file: PathBuf,
    #[command(flatten)]
    form: FormArguments,
}

impl FormArguments {
    /// Answers by a document as JSON, or as `format` writes it for people.
    fn answer<D: Serialize>(
        &self,
        document: &D,
        format: impl FnOnce(&D) -> String,
    ) -> Result<Answer, Failure> {
        Answer::new(self.json, document, format)
    }
}

/// Reads the times of named models of devices or kernels, all for the same work. Their unit is an element of C, or a unit of
/// the kernel.
pub fn read_alike(names: &[PathBuf]) -> Result<Vec<Vec<Point>>, Failure> {
    let models = Folders::find()?.read()?;
    let keys = names.iter().map(|name| find_key(&models, &name_path(name)));
    let keys: Vec<StoreKey> = keys.collect::<Result<_, _>>()?;
    check_alike(&keys)?;
    let now_s = read_clock_s();
    let known = keys.iter().map(|key| models.find(key, now_s));
    Ok(known
        .map(|known| known.map_or_else(Vec::new, |known| known.points))
        .collect())
}

/// Refuses models whose units are not the same work.
fn check_alike(keys: &[StoreKey]) -> Result<(), Failure> {
    for key in keys {
        if !matches!(key.identity, Identity::Device(_) | Identity::Kernel(_)) {
            let model = describe_model(key);
            let reason =
                format!("{model} is neither of a device nor of a kernel: units go to these alone");
            return Err(Failure::input(reason));
        }
    }
    for pair in keys.windows(2) {
        let [one, other] = [&pair[0], &pair[1]].map(|key| key.identity.describe_work());
        if one != other {
            return Err(Failure::input(format!(
                "{} and {} are of unlike work: kernel, element type and width must be equal",
                describe_model(&pair[0]),
                describe_model(&pair[1])
            )));
        }
    }
    Ok(())
}

fn describe_model(key: &StoreKey) -> String {
    format!("model {} ({})", key.name(), key.identity.describe_work())
}

/// Runs the command.
pub fn run(command: &ModelsCommand) -> Result<Answer, Failure> {
    match command {
        ModelsCommand::List(form) => {
            let list = ModelList::read(&Folders::find()?)?;
            form.answer(&list, ModelList::format)
        }
        ModelsCommand::Show(arguments) => show::run(arguments),
        ModelsCommand::Diff(arguments) => {
            let names = [&*arguments.first, &*arguments.second];
            let difference = ModelDifference::read(&Folders::find()?, names)?;
            arguments.form.answer(&difference, ModelDifference::format)
        }
        ModelsCommand::Prune(arguments) => {
            let (older_than, model) = (arguments.older_than, arguments.model.as_deref());
            let change = edit::prune(&Folders::find()?, older_than, model)?;
            arguments.form.answer(&change, StoreChange::format)
        }
        ModelsCommand::Compact(form) => {
            let change = edit::compact(&Folders::find()?)?;
            form.answer(&change, StoreChange::format)
        }
        ModelsCommand::Export(arguments) => {
            let change = edit::export(&Folders::find()?, &arguments.file)?;
            arguments.form.answer(&change, StoreChange::format)
        }
        ModelsCommand::Import(arguments) => {
            let change = edit::import(&Folders::find()?, &arguments.file)?;
            arguments.form.answer(&change, StoreChange::format)
        }
        ModelsCommand::Verify(form) => {
            let check = StoreCheck::read(&Folders::find()?)?;
            check.answer(form.json)
        }
    }
}

/// The folders of the store, the user's first.
struct Folders {
    all: Vec<StoreFolder>,
    /// `true` if the user has named them.
    are_named: bool,
}

impl Folders {
    fn find() -> Result<Self, Failure> {
        let places = StorePlaces::find()
            .map_err(|reason| Failure::input(format!("there is no store: {reason}")))?;
        let sites = places.sites.into_iter();
        let mut all = vec![StoreFolder::new(places.user, true)];
        all.extend(sites.map(|site| StoreFolder::new(site, false)));
        Ok(Self {
            all,
            are_named: std::env::var_os(STORE_VARIABLE).is_some(),
        })
    }

    fn user(&self) -> &StoreFolder {
        &self.all[0]
    }

    /// Lists the folders that the user has named and that do not exist.
    fn list_missing(&self) -> Vec<String> {
        self.all
            .iter()
            .filter(|_| self.are_named)
            .filter(|folder| !folder.root().exists())
            .map(|folder| name_path(folder.root()))
            .collect()
    }

    /// Says on standard error which folders that the user has named do not exist.
    fn note_missing(&self) {
        for folder in self.list_missing() {
            output::note(&format!("{folder} does not exist"));
        }
    }

    /// Reads the segments of each folder. Names on standard error the files that it cannot read.
    fn find_segments(&self) -> Result<Vec<Vec<FoundSegment>>, Failure> {
        self.all.iter().map(find_segments).collect()
    }

    /// Reads the models of all folders, as a run does. Names on standard error the files that it cannot read.
    fn read(&self) -> Result<StoredModels, Failure> {
        Ok(merge(&self.find_segments()?.concat()))
    }
}

/// Reads the segments of a folder. Names on standard error the files that it cannot read.
fn find_segments(folder: &StoreFolder) -> Result<Vec<FoundSegment>, Failure> {
    let found = folder
        .find_all()
        .map_err(|error| Failure::of_file(folder.root(), blame_variable(&error)))?;
    let unread = found.iter().filter_map(|segment| {
        let reason = segment.runs.as_ref().err()?;
        Some(format!(
            "{} is not read: {reason}",
            name_path(&segment.path)
        ))
    });
    for word in folder.name_newer().into_iter().chain(unread) {
        output::note(&word);
    }
    Ok(found)
}

/// Adds to an error about a folder of the store that the user has named it, if so.
fn blame_variable(error: &std::io::Error) -> String {
    match std::env::var_os(STORE_VARIABLE) {
        Some(_) => format!("{error}: change {STORE_VARIABLE}, which names it"),
        None => error.to_string(),
    }
}

/// Merges the runs of whole segments.
fn merge(segments: &[FoundSegment]) -> StoredModels {
    let runs = segments
        .iter()
        .filter_map(|segment| segment.runs.as_ref().ok());
    StoredModels::merge(runs.flatten().cloned())
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
        several => {
            let names: Vec<String> = several.iter().map(|key| key.name()).collect();
            Err(Failure::input(format!(
                "{name} names {} models: {}",
                names.len(),
                names.join(", ")
            )))
        }
    }
}

/// Returns the runs of a model.
fn list_runs<'m>(models: &'m StoredModels, key: &StoreKey) -> Vec<&'m StoredRun> {
    models.runs().filter(|run| run.key == *key).collect()
}

/// Lists the fields of a part of a key, by name; those that the system does not tell are empty.
fn list_fields(part: &impl Serialize) -> Vec<(String, String)> {
    let Ok(Value::Object(fields)) = serde_json::to_value(part) else {
        return Vec::new();
    };
    fields
        .into_iter()
        .map(|(name, value)| (name, format_value(&value)))
        .collect()
}

fn format_value(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(values) if values.is_empty() => "none".to_owned(),
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(format_value).collect();
            values.join("; ")
        }
        other => other.to_string(),
    }
}

fn name_path(path: &Path) -> String {
    path.display().to_string()
}

impl Failure {
    /// Makes a failure to write the store.
    fn of_store(error: Error) -> Self {
        Self::run(error)
    }
}
