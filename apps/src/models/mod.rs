//! `isochron models`: models in files and in the model store, shown, listed and tidied.

pub(crate) mod alike;
pub(crate) mod diff;
pub(crate) mod edit;
mod folders;
pub(crate) mod list;
pub(crate) mod show;
pub(crate) mod verify;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use isochron_core::Error;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::Answer;
use diff::ModelDifference;
use edit::StoreChange;
use folders::Folders;
use list::ModelList;
use verify::StoreCheck;

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
    Export(ModelFileArguments),
    /// Add the models of an exported file to the store
    Import(ModelFileArguments),
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
pub struct ModelFileArguments {
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

impl Failure {
    /// Makes a failure to write the store.
    fn of_store(error: Error) -> Self {
        Self::run(error)
    }
}
