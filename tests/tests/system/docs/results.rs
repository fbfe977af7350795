//! Tables of results, made from the reports of the campaigns.

use isochron_campaign::{CampaignReport, GoalOutcome, GoalRow, Parameter};

use super::pages::find_root;

/// Reads the report of a published campaign.
fn read_report(name: &str) -> CampaignReport {
    let folder = find_root().join("bench/results").join(name);
    CampaignReport::read(&folder).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the rows of a goal at the points with these parameters.
fn list_goals<'r>(
    report: &'r CampaignReport,
    name: &str,
    parameters: &[(&str, i64)],
) -> Vec<&'r GoalRow> {
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
        ["an even split's time / adaptive's", "an even split's total / adaptive's"],
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
    let medians: Vec<f64> =
        rows.iter().filter_map(|row| row.ratio.map(|ratio| ratio.median)).collect();
    let found = if let [row] = rows[..] {
        format_figure(row)
    } else {
        let [least, most] =
            [f64::min, f64::max].map(|choose| medians.iter().copied().reduce(choose));
        format!("{:.2} to {:.2}", least.expect("a figure"), most.expect("a figure"))
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
    let names = "\
        balance hybrid measure update neighbours algorithms learning prepared stencil silence \
        health thesis-3 thesis-4 warm-store thesis-jacobi thesis-speedup hpopta peers-alike \
        peers-price peers-unlike peers-drift peers-overlap peers-growth peers-small volume nominal \
        grid5000 \
        gpu-link gpu-updates gpu-memory gpu-devices gpu-ranks gpu-models";
    let rows: String = names.split_whitespace().map(campaign_row).collect();
    "| campaign | figure | found | goals met |\n|---|---|---|---|\n".to_owned() + &rows
}
