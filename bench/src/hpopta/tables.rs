//! The tables of the page.

use super::HpoptaResults;
use super::samples::{Application, DividedRuns, MeanInterval, RowDivision, SizeSamples};
use crate::markdown::{format_table, yes_or_no};
use crate::results::Origin;

/// The figures with what they show.
const FIGURES: &str = "\
**1** The speeds of all ranks over their rows, measured at once, of the largest sizes.\n\n\
![Speed functions](hpopta-1.svg)\n\n\
**2** DGEMV: the predicted and the actual time of HPOPTA's division, and the times of other divisions over it.\n\n\
![Times of DGEMV](hpopta-2.svg)\n\n\
**3** FFT: the same.\n\n\
![Times of FFT](hpopta-3.svg)\n";

impl HpoptaResults {
    /// Formats the goals, the figures and the tables.
    pub fn format_page(&self) -> anyhow::Result<String> {
        let Origin {
            command, machine, ..
        } = &self.origin;
        let origin = format!(
            "Measured by `{command}` with {} ranks on {} cores ({}); mean ± half-width of its confidence interval at 95 % \
             over the rounds, raw samples in [`hpopta.json`](hpopta.json).",
            self.ranks,
            machine.cores,
            machine.cpu.as_deref().unwrap_or("unknown"),
        );
        let (dgemv, fft) = (
            self.list_samples(Application::Dgemv),
            self.list_samples(Application::Fft2d),
        );
        let goals = fft.iter().map(|samples| check_goal(samples));
        let goals = format_table(["goal", "found", "met"], goals);
        let tables = [dgemv, fft].map(|samples| format_times(&samples));
        Ok(format!(
            "{origin}\n\n{goals}\n{FIGURES}\n{}",
            tables.join("\n")
        ))
    }
}

/// Compares the runs of HPOPTA's division with those of the balanced one.
fn check_goal(samples: &SizeSamples) -> [String; 3] {
    let both = [RowDivision::Hpopta, RowDivision::Balanced];
    let balanced = samples.summarize(RowDivision::Balanced, DividedRuns::wall_s);
    let difference = samples.compare(both, DividedRuns::wall_s);
    let percent = 100.0 / balanced.mean_s;
    let (found, most) = (percent * difference.mean_s, percent * difference.ci_s);
    [
        format!(
            "{} of {}: HPOPTA's run is slower than the balanced one by, %, at most {most:.1}",
            samples.application.name(),
            samples.size
        ),
        format!("{found:.1}"),
        yes_or_no(found <= most),
    ]
}

/// Formats the divisions and their times, a row for each size.
fn format_times(samples: &[&SizeSamples]) -> String {
    let name = samples
        .first()
        .map_or("", |samples| samples.application.name());
    let size = format!("{name}, n");
    format_table(
        [
            size.as_str(),
            "rows by HPOPTA",
            "balanced rows",
            "predicted ms",
            "actual ms",
            "actual / predicted",
            "balanced, actual ms",
            "even, actual ms",
            "HPOPTA with messages, ms",
            "balanced with messages, ms",
            "even with messages, ms",
        ],
        samples.iter().map(|samples| format_row(samples)),
    )
}

fn format_row(samples: &SizeSamples) -> [String; 11] {
    let all = [
        RowDivision::Hpopta,
        RowDivision::Balanced,
        RowDivision::Even,
    ];
    let actual = all.map(|division| samples.summarize(division, DividedRuns::actual_s));
    let walls = all.map(|division| samples.summarize(division, DividedRuns::wall_s));
    let predicted_s = samples.predict(RowDivision::Hpopta);
    [
        samples.size.to_string(),
        samples.format_rows(RowDivision::Hpopta),
        samples.format_rows(RowDivision::Balanced),
        format!("{:.3}", 1e3 * predicted_s),
        format_mean(actual[0]),
        format!("{:.2}", actual[0].mean_s / predicted_s),
        format_mean(actual[1]),
        format_mean(actual[2]),
        format_mean(walls[0]),
        format_mean(walls[1]),
        format_mean(walls[2]),
    ]
}

fn format_mean(time: MeanInterval) -> String {
    format!("{:.3} ± {:.3}", 1e3 * time.mean_s, 1e3 * time.ci_s)
}
