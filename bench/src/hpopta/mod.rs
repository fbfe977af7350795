//! Figures 1 to 3 of the HPOPTA paper's supplement, measured here: speed functions of DGEMV and FFT, and the actual times
//! of HPOPTA's divisions against the predicted ones, with balanced and even divisions beside them.
//!
//! # References
//! Khaleghzadeh, Reddy and Lastovetsky, supplement of the HPOPTA paper, sections 2 and 4.

mod figures;
mod samples;
mod tables;

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::launch::MxmLauncher;
use crate::results::{CampaignResults, Origin, ResultsPage, write_file};
use samples::{Application, Effort, SizeSamples};

/// The size of the campaign.
#[derive(clap::Args)]
pub struct HpoptaArguments {
    /// Ranks, each on a core of its own
    #[arg(long, default_value_t = 2)]
    ranks: usize,
    /// Rounds; in each, all divisions of a size run in turn
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Sizes of DGEMV
    #[arg(long, value_delimiter = ',', default_values_t = [1024, 2048, 3072, 4096, 5120, 6144])]
    dgemv: Vec<usize>,
    /// Sizes of FFT
    #[arg(long, value_delimiter = ',', default_values_t = [512, 768, 1000, 1024, 1280, 1536, 1792, 2048])]
    fft: Vec<usize>,
    /// Try tiny sizes; the results are printed and not kept
    #[arg(long)]
    quick: bool,
    /// Only make the figures and the tables from the samples that are kept
    #[arg(long)]
    table_only: bool,
}

/// The file of results.
#[derive(Serialize, Deserialize)]
pub struct HpoptaResults {
    #[serde(flatten)]
    origin: Origin,
    ranks: usize,
    sizes: Vec<SizeSamples>,
}

/// Runs the campaign, or makes its figures and its tables only.
pub fn run(arguments: &HpoptaArguments) -> anyhow::Result<()> {
    if arguments.quick {
        return measure(arguments)?.try_out();
    }
    let fresh = (!arguments.table_only).then(|| measure(arguments));
    HpoptaResults::publish(fresh.transpose()?)
}

fn measure(arguments: &HpoptaArguments) -> anyhow::Result<HpoptaResults> {
    let HpoptaArguments { ranks, rounds, .. } = *arguments;
    let [dgemv, fft] = [&arguments.dgemv, &arguments.fft].map(|sizes| {
        if arguments.quick {
            vec![48, 64]
        } else {
            sizes.clone()
        }
    });
    let command = format!(
        "cargo xtask reproduce hpopta --ranks {ranks} --rounds {rounds} --dgemv {} --fft {}",
        join_sizes(&dgemv),
        join_sizes(&fft)
    );
    let effort = if arguments.quick {
        Effort::quick(ranks)
    } else {
        Effort::full(ranks, rounds)
    };
    let launcher = MxmLauncher::from_environment()?;
    let mut sizes = Vec::new();
    for (application, list) in [(Application::Dgemv, dgemv), (Application::Fft2d, fft)] {
        for size in list {
            sizes.push(SizeSamples::measure(&launcher, &effort, application, size)?);
        }
    }
    Ok(HpoptaResults {
        origin: Origin::new(command),
        ranks,
        sizes,
    })
}

fn join_sizes(sizes: &[usize]) -> String {
    let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
    sizes.join(",")
}

impl HpoptaResults {
    /// Returns the samples of an application, ascending in size.
    fn list_samples(&self, application: Application) -> Vec<&SizeSamples> {
        let samples = self.sizes.iter();
        let mut samples: Vec<&SizeSamples> = samples
            .filter(|samples| samples.application == application)
            .collect();
        samples.sort_by_key(|samples| samples.size);
        samples
    }
}

impl CampaignResults for HpoptaResults {
    const PAGE: ResultsPage = ResultsPage { name: "hpopta" };

    fn format_tables(&self) -> anyhow::Result<String> {
        self.format_page()
    }

    fn write_plot(&self, folder: &Path) -> anyhow::Result<()> {
        for (number, svg) in (1..).zip(self.draw_figures()) {
            write_file(&folder.join(format!("hpopta-{number}.svg")), &svg)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::samples::make_samples;
    use super::*;
    use crate::results::Origin;

    fn make_results() -> HpoptaResults {
        HpoptaResults {
            origin: Origin::new("a command".to_owned()),
            ranks: 2,
            sizes: [
                (Application::Fft2d, 128),
                (Application::Fft2d, 64),
                (Application::Dgemv, 64),
            ]
            .map(|(application, size)| make_samples(application, size))
            .into(),
        }
    }

    #[test]
    fn every_figure_is_drawn_from_the_samples() {
        let figures = make_results().draw_figures();
        let [functions, dgemv, fft] = &figures[..] else {
            panic!("three figures, and not {}", figures.len());
        };
        assert_eq!(functions.matches("speed, GFLOP/s").count(), 2);
        for part in ["DGEMV, n = 64", "FFT, n = 128", "rank 1"] {
            assert!(functions.contains(part), "{part} in {functions}");
        }
        for figure in [dgemv, fft] {
            for part in ["predicted", "actual", "balanced / HPOPTA"] {
                assert!(figure.contains(part), "{part} in {figure}");
            }
        }
    }

    #[test]
    fn a_slower_hpopta_is_a_goal_that_is_not_met() -> anyhow::Result<()> {
        let mut results = make_results();
        let text = results.format_tables()?;
        for part in [
            "| FFT of 64: HPOPTA's run is slower than the balanced one by, %, at most 0.5 | -20.0 | yes |",
            "| 64 | 48 + 16 | 32 + 32 |",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        for run in &mut results.sizes[1].runs {
            run.slow_down(2.0);
        }
        let text = results.format_tables()?;
        assert!(text.contains("| 60.0 | no |"), "{text}");
        Ok(())
    }
}
