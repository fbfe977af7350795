//! Job scripts for Slurm.

use std::path::Path;

use isochron_base::printable::escape;
use minijinja::{Environment, context};

use crate::error::CampaignError;
use crate::file::{Campaign, quote};

/// The script, whose values are filled in.
const TEMPLATE: &str = include_str!("script.sh");

/// A job script for `sbatch` that runs a campaign, and goes on with it in job after job until it ends.
///
/// All elements of a job array have the same number of nodes. So the script, run by a shell, submits itself once for each number
/// of nodes that points need, and each job measures the points that need as many nodes as it has.
#[derive(Debug)]
pub struct JobScript<'s> {
    /// The campaign.
    pub campaign: &'s Campaign,
    /// Its file.
    pub file: &'s Path,
    /// Folder of the measurements.
    pub folder: &'s Path,
    /// The `isochron` command.
    pub program: &'s Path,
    /// Words with options of `sbatch` for every job. A colon is between the parts of a heterogeneous job.
    pub options: &'s [String],
}

impl JobScript<'_> {
    /// Returns the text of the script.
    ///
    /// # Errors
    /// Returns [`CampaignError::File`] for a path or an option that no script can hold, and for a heterogeneous job of a campaign that
    /// says how many nodes points need.
    pub fn format(&self) -> Result<String, CampaignError> {
        if let Some(option) = self.options.iter().find(|option| option.contains(['\n', '\r'])) {
            let reason = format!("`{}` is no option of a job: a line ends in it", escape(option));
            return Err(CampaignError::file(self.file, reason));
        }
        let nodes = self.campaign.list_nodes();
        let parts: Vec<String> = self.options.split(|word| word == ":").map(join_options).collect();
        if parts.len() > 1 && !nodes.is_empty() {
            let reason = "`nodes` does not say how many nodes each part of a heterogeneous job (`:`) has: remove it, or leave the \
                          parts out and give them to `sbatch` with the script";
            return Err(CampaignError::file(self.file, reason));
        }
        if parts.len() > 1 && parts.iter().any(String::is_empty) {
            let reason = "a part of a heterogeneous job is empty: `:` stands between two parts";
            return Err(CampaignError::file(self.file, reason));
        }
        let listed: Vec<String> = nodes.iter().map(u32::to_string).collect();
        let values = context! {
            name => escape(&self.campaign.name),
            job => name_job(&self.campaign.name),
            options => parts.join("\n#SBATCH hetjob\n#SBATCH "),
            nodes => listed.join(" "),
            fewest => nodes.first(),
            file => quote_path(self.file)?,
            folder => quote_path(self.folder)?,
            program => quote_path(self.program)?,
        };
        // The template is a part of this program. Rendering takes its last line break away.
        Environment::new()
            .render_str(TEMPLATE, values)
            .map(|text| text + "\n")
            .map_err(|error| CampaignError::file(self.file, error))
    }
}

/// Returns the name of the job: that of the campaign, of letters, digits and hyphens.
fn name_job(campaign: &str) -> String {
    let words = campaign.split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    if words.is_empty() {
        return "campaign".to_owned();
    }
    words.join("-")
}

fn join_options(words: &[String]) -> String {
    words.iter().map(|word| quote_option(word)).collect::<Vec<_>>().join(" ")
}

/// Quotes a word for a line of options, in which only spaces, quotation marks and the sign of comments stand for something.
fn quote_option(word: &str) -> String {
    let is_plain = |c: char| !c.is_whitespace() && !"'\"\\#".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) { word.to_owned() } else { quote(word) }
}

fn quote_path(path: &Path) -> Result<String, CampaignError> {
    path.to_str()
        .map(quote)
        .ok_or_else(|| CampaignError::file(path, "is no text, which a script could hold"))
}

#[cfg(test)]
mod tests;
