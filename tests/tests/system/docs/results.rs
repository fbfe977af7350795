//! Tables of results, made from the samples and the pages of the campaigns.

use isochron_campaign::{GoalOutcome, GoalRow, Parameter, Report};

use super::pages::{find_root, read_file};

/// Reads the report of a published campaign.
fn read_report(name: &str) -> Report {
    let folder = find_root().join("bench/results").join(name);
    Report::read(&folder).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the rows of a goal at the points with these parameters.
fn list_goals<'r>(report: &'r Report, name: &str, parameters: &[(&str, i64)]) -> Vec<&'r GoalRow> {
    let rows = report.goals.iter().filter(|row| {
        row.goal.starts_with(name)
            && parameters.iter().all(|(parameter, value)| {
                row.parameters.get(*parameter) == Some(&Parameter::Whole(*value))
            })
    });
    rows.collect()
}

/// Writes the median of a figure with its interval.
fn format_figure(row: &GoalRow) -> String {
    let figure = row.ratio.expect("a figure");
    let [median, low, high] = [Some(figure.median), figure.low, figure.high]
        .map(|number| format!("{:.2}", number.expect("an interval")));
    format!("{median} ({low} to {high})")
}

/// Returns a row of the summary: how many times as long the other one takes, without our measuring and with it.
fn compare_times(text: &str, campaign: &str, goals: [&str; 2], at: &[(&str, i64)]) -> String {
    let report = read_report(campaign);
    let [alone, counted] = goals.map(|goal| match &list_goals(&report, goal, at)[..] {
        [row] => format_figure(row),
        rows => panic!("{campaign} has {} goals `{goal}`", rows.len()),
    });
    format!("| {text} | {alone} | {counted} | `cargo xtask bench {campaign}` |\n")
}

/// Returns the table of the project's README.
pub fn summary_table() -> String {
    let mut table = "| on | against | its time / ours | with our measuring | reproduce |\n\
                     |---|---|---|---|---|\n"
        .to_owned();
    table += &compare_times(
        "4 paced nodes, 2 : 4 : 8 : 8 | an even split",
        "balance",
        [
            "an even split's time / adaptive's",
            "an even split's total / adaptive's",
        ],
        &[],
    );
    table += &compare_times(
        "4 hosts, 1 : 2 : 4 : 8 | ScaLAPACK, even grid",
        "peers-unlike",
        [
            "ScaLAPACK on an even grid / our time without the measuring",
            "ScaLAPACK on an even grid / our total",
        ],
        &[("size", 8192)],
    );
    table += &compare_times(
        "4 alike ranks | ScaLAPACK, its best grid",
        "peers-alike",
        [
            "our speed / ScaLAPACK's, OpenBLAS",
            "ScaLAPACK's time / ours with the measuring, OpenBLAS",
        ],
        &[("m", 8192), ("ranks", 4)],
    );
    table
}

/// Returns the row of a campaign: the figures of its first goal, and the verdicts on all goals. Returns nothing before it was
/// measured.
fn campaign_row(name: &str) -> String {
    if !find_root().join("bench/results").join(name).exists() {
        return String::new();
    }
    let report = read_report(name);
    let Some(first) = report.goals.first() else {
        return format!("| [{name}](results/{name}/report.md) |  |  |  |\n");
    };
    let figure = [" at least ", " at most "]
        .iter()
        .find_map(|bound| first.goal.rsplit_once(bound))
        .map_or(first.goal.as_str(), |(figure, _)| figure);
    let rows = list_goals(&report, figure, &[]);
    let medians: Vec<f64> = rows
        .iter()
        .filter_map(|row| row.ratio.map(|ratio| ratio.median))
        .collect();
    let found = if let [row] = rows[..] {
        format_figure(row)
    } else {
        let [least, most] =
            [f64::min, f64::max].map(|choose| medians.iter().copied().reduce(choose));
        format!(
            "{:.2} to {:.2}",
            least.expect("a figure"),
            most.expect("a figure")
        )
    };
    let count = |outcome| {
        let goals = report.goals.iter().filter(|row| row.outcome == outcome);
        goals.count()
    };
    let mut met = format!("{} of {}", count(GoalOutcome::Met), report.goals.len());
    if count(GoalOutcome::Unclear) > 0 {
        met += &format!(", {} unclear", count(GoalOutcome::Unclear));
    }
    format!("| [{name}](results/{name}/report.md) | {figure} | {found} | {met} |\n")
}

/// Returns the table of all campaigns.
pub fn campaign_table() -> String {
    let rows = [
        campaign_row("balance"),
        campaign_row("hybrid"),
        campaign_row("measure"),
        campaign_row("update"),
        campaign_row("neighbours"),
        campaign_row("algorithms"),
        campaign_row("learning"),
        campaign_row("prepared"),
        campaign_row("stencil"),
        campaign_row("silence"),
        thesis_row(),
        hpopta_row(),
        jacobi_row(),
        campaign_row("peers-alike"),
        campaign_row("peers-price"),
        campaign_row("peers-unlike"),
        campaign_row("peers-drift"),
        campaign_row("peers-overlap"),
        campaign_row("peers-growth"),
        campaign_row("peers-small"),
        campaign_row("volume"),
    ];
    "| campaign | figure | found | goals met |\n|---|---|---|---|\n".to_owned() + &rows.concat()
}

fn format_row(page: &str, figure: &str, found: &str, met: &str) -> String {
    format!("| [{page}](results/{page}.md) | {figure} | {found} | {met} |\n")
}

/// A table on a campaign's page.
struct ResultsTable<'a> {
    names: Vec<&'a str>,
    lines: Vec<Vec<&'a str>>,
}

impl<'a> ResultsTable<'a> {
    /// Reads the last table of a page that has a column of this name.
    fn find(page: &'a str, name: &str) -> Self {
        page.split("\n\n")
            .filter(|block| block.starts_with("| "))
            .map(|block| {
                let lines = block.lines().filter(|line| line.starts_with("| "));
                let mut lines: Vec<Vec<&str>> = lines.map(split_cells).collect();
                Self {
                    names: lines.remove(0),
                    lines,
                }
            })
            .filter(|table| table.names.contains(&name))
            .last()
            .unwrap_or_else(|| panic!("no table has a column {name}"))
    }

    /// Returns the cells of the `nth` column of this name.
    fn cells(&self, name: &str, nth: usize) -> Vec<&'a str> {
        let mut places = (0..self.names.len()).filter(|&at| self.names[at] == name);
        let at = places.nth(nth).expect("a column");
        self.lines.iter().map(|line| line[at]).collect()
    }

    /// Returns how many of the verdicts in the `nth` column `met` are good: `3 of 4`.
    fn count_verdicts(&self, nth: usize) -> String {
        format_verdicts(self.cells("met", nth))
    }

    /// Returns the smallest and the largest median of a column, as they stand there: `0.93 to 1.06`.
    fn range_of_medians(&self, name: &str) -> String {
        let cells = self.cells(name, 0).into_iter();
        let medians: Vec<f64> = cells.map(read_median).collect();
        let [least, most] =
            [f64::min, f64::max].map(|choose| medians.iter().copied().reduce(choose));
        format!("{} to {}", least.expect("a row"), most.expect("a row"))
    }
}

/// Returns how many verdicts are good: `3 of 4`.
fn format_verdicts(mut verdicts: Vec<&str>) -> String {
    verdicts.retain(|verdict| !verdict.is_empty());
    let met = verdicts.iter().filter(|verdict| **verdict == "yes").count();
    format!("{met} of {}", verdicts.len())
}

fn split_cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

/// Reads the median in a cell: the number before its unit or its range.
fn read_median(cell: &str) -> f64 {
    let (number, _) = cell.split_once(' ').unwrap_or((cell, ""));
    number
        .parse()
        .unwrap_or_else(|_| panic!("`{cell}` has no median"))
}

fn read_page(name: &str) -> String {
    read_file(format!("bench/results/{name}.md"))
}

/// Returns nothing before the campaign was measured.
fn thesis_row() -> String {
    let page = read_page("thesis-3");
    if !page.contains("| goal |") {
        return String::new();
    }
    let warm = "cost of a warm store, %";
    let warm = ResultsTable::find(&page, warm).range_of_medians(warm);
    let verdicts = ["goal", "goal with a warm store"]
        .map(|name| ResultsTable::find(&page, name))
        .each_ref()
        .map(|table| table.cells("met", 0));
    let partial = "cost of partial FPM, %";
    let partial = ResultsTable::find(&page, partial).range_of_medians(partial);
    format_row(
        "thesis-3",
        "measuring and partitioning, % of the multiplication, with a warm store",
        &format!("{warm}, and {partial} by partial models"),
        &format_verdicts(verdicts.concat()),
    )
}

fn hpopta_row() -> String {
    let page = read_page("hpopta");
    if !page.contains("Measured by") {
        return String::new();
    }
    let figure = "actual / predicted";
    format_row(
        "hpopta",
        "actual / predicted time of HPOPTA's division of an FFT",
        &ResultsTable::find(&page, figure).range_of_medians(figure),
        &ResultsTable::find(&page, "goal").count_verdicts(0),
    )
}

/// Returns nothing before the campaign was measured.
fn jacobi_row() -> String {
    let page = read_page("thesis-jacobi");
    if !page.contains("Measured by") {
        return String::new();
    }
    let [fpm, cpm] = ["FPM (NPA), even / it", "CPM, even / it"]
        .map(|name| ResultsTable::find(&page, name).range_of_medians(name));
    format_row(
        "thesis-jacobi",
        "even split / balanced by partial models, Jacobi's method, moving counted",
        &format!("{fpm}, and {cpm} by constant speeds"),
        "",
    )
}
