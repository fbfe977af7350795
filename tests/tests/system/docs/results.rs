//! Tables of results, made from the samples and the pages of the campaigns.

use serde_json::Value;

use super::generated::read_number;
use super::pages::read_file;

/// Ratios of one comparison, one a round, or their median with the smallest and the largest.
struct RatioSpread {
    median: f64,
    min: f64,
    max: f64,
}

impl RatioSpread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let (half, last) = (values.len() / 2, values.len() - 1);
        Self {
            median: (values[half] + values[last - half]) / 2.0,
            min: values[0],
            max: values[last],
        }
    }

    fn text(&self) -> String {
        let Self { median, min, max } = self;
        format!("{median:.2} ({min:.2} to {max:.2})")
    }
}

/// Reads the samples of a campaign.
fn load_samples(name: &str) -> Value {
    let text = read_file(format!("bench/results/{name}.json"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn list_records<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().expect("a list").iter()
}

/// Returns `true` if a record has these values.
fn has_values(record: &Value, values: &[(&str, Value)]) -> bool {
    values.iter().all(|(key, value)| record[*key] == *value)
}

/// One side of a comparison: which samples are its own, and where they hold its seconds.
struct Side<'a> {
    samples: Vec<(&'a str, Value)>,
    product_s: &'a str,
    measuring_s: &'a str,
}

impl Side<'_> {
    /// Returns the seconds of each round, with the measuring before the product or without.
    fn seconds(&self, results: &Value, with_measuring: bool) -> Vec<f64> {
        let mut samples: Vec<&Value> = list_records(results, "samples")
            .filter(|sample| has_values(sample, &self.samples))
            .collect();
        samples.sort_by_key(|sample| sample["round"].as_u64());
        let part = f64::from(u8::from(with_measuring));
        samples
            .iter()
            .map(|sample| {
                read_number(sample, self.product_s) + part * read_number(sample, self.measuring_s)
            })
            .collect()
    }
}

/// Returns a row: how many times as long the other one takes.
fn compare_sides(text: &str, command: &str, results: &Value, [other, ours]: [&Side; 2]) -> String {
    let [alone, counted] = [false, true].map(|with_measuring| {
        let seconds = [other, ours].map(|side| side.seconds(results, with_measuring));
        let pairs = seconds[0].iter().zip(&seconds[1]);
        RatioSpread::of(pairs.map(|(other, ours)| other / ours).collect()).text()
    });
    format!("| {text} | {alone} | {counted} | `cargo xtask bench {command}` |\n")
}

fn strategy_side(name: &'static str) -> Side<'static> {
    Side {
        samples: vec![("platform", "emulated-4".into()), ("strategy", name.into())],
        product_s: "/report/wall_s",
        measuring_s: "/report/balance_s",
    }
}

fn on_unlike_hosts(who: &'static str) -> Side<'static> {
    Side {
        samples: vec![
            ("setting", "1 : 2 : 4 : 8, larger".into()),
            ("who", who.into()),
        ],
        product_s: "/seconds",
        measuring_s: "/measuring_s",
    }
}

fn on_alike_ranks(who: &'static str) -> Side<'static> {
    Side {
        samples: vec![
            ("m", 8192.into()),
            ("n", 8192.into()),
            ("k", 8192.into()),
            ("ranks", 4.into()),
            ("library", "OpenBLAS".into()),
            ("who", who.into()),
        ],
        product_s: "/seconds",
        measuring_s: "/measuring_s",
    }
}

/// Returns the table of the project's README.
pub fn summary_table() -> String {
    let mut table = "| on | against | its time / ours | with our measuring | reproduce |\n\
                     |---|---|---|---|---|\n"
        .to_owned();
    table += &compare_sides(
        "4 paced nodes, 2 : 4 : 8 : 8 | an even split",
        "balance",
        &load_samples("balance"),
        [&strategy_side("homogeneous"), &strategy_side("adaptive")],
    );
    table += &compare_sides(
        "4 hosts, 1 : 2 : 4 : 8 | ScaLAPACK, even grid",
        "peers --only unlike",
        &load_samples("peers-unlike"),
        [&on_unlike_hosts("even grid"), &on_unlike_hosts("ours")],
    );
    table += &compare_sides(
        "4 alike ranks | ScaLAPACK, its best grid",
        "peers --only alike",
        &load_samples("peers-alike"),
        [&on_alike_ranks("pdgemm"), &on_alike_ranks("ours")],
    );
    table
}

/// Returns the table of all campaigns.
pub fn campaign_table() -> String {
    let rows = [
        balance_row(),
        hybrid_row(),
        measure_row(),
        update_row(),
        neighbours_row(),
        algorithms_row(),
        learning_row(),
        prepared_row(),
        stencil_row(),
        silence_row(),
        thesis_row(),
        hpopta_row(),
        jacobi_row(),
        alike_row(),
        price_row(),
        unlike_row(),
        drift_row(),
        overlap_row(),
        growth_row(),
        small_row(),
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

    /// Returns the cell of a column in the line that has the cells `line`.
    fn find_cell(&self, line: &[&str], name: &str) -> &'a str {
        let mut lines = self.lines.iter();
        let at = lines.position(|found| line.iter().all(|cell| found.contains(cell)));
        self.cells(name, 0)[at.unwrap_or_else(|| panic!("no line has {line:?}"))]
    }

    /// Returns how many of the verdicts in the `nth` column `met` are good: `3 of 4`.
    fn count_verdicts(&self, nth: usize) -> String {
        format_verdicts(self.cells("met", nth))
    }

    /// Returns the smallest and the largest median of a column, as they stand there: `0.93 to 1.06`.
    fn range_of_medians(&self, name: &str) -> String {
        let cells = self.cells(name, 0).into_iter();
        let RatioSpread { min, max, .. } = RatioSpread::of(cells.map(read_median).collect());
        format!("{min} to {max}")
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

fn balance_row() -> String {
    let page = read_page("balance");
    let figure = "wall / FPM's wall";
    let [paced, cliff] = ["`emulated-4`, ", "`emulated-memory-cliff`, "].map(|platform| {
        let (_, below) = page.split_once(platform).expect("the platform");
        let (table, _) = below.split_once("\n\n`").unwrap_or((below, ""));
        ResultsTable::find(table, figure).find_cell(&["homogeneous"], figure)
    });
    format_row(
        "balance",
        "even split / balanced, wall time",
        &format!("{paced} on paced nodes, {cliff} with a memory cliff"),
        &ResultsTable::find(&page, "goal").count_verdicts(0),
    )
}

fn hybrid_row() -> String {
    let page = read_page("hybrid");
    let (_, sentence) = page.split_once("The even split takes ").expect("the ratio");
    let (ratio, _) = sentence.split_once(" times").expect("the ratio");
    let met = u8::from(sentence.contains("the goal is met"));
    format_row(
        "hybrid",
        "even split / balanced, wall time",
        ratio,
        &format!("{met} of 1"),
    )
}

/// Returns nothing before the campaign was measured.
fn measure_row() -> String {
    let page = read_page("measure");
    if !page.contains("Measured by") {
        return String::new();
    }
    let table = ResultsTable::find(&page, "points");
    let [gemm, fft] =
        ["gemm", "fft"].map(|kernel| table.find_cell(&[kernel, "chosen from the grid"], "points"));
    format_row(
        "measure",
        "points at adaptive sizes, of the points of a grid",
        &format!("GEMM {gemm}, FFT {fft}"),
        &table.count_verdicts(0),
    )
}

fn update_row() -> String {
    let page = read_page("update");
    let table = ResultsTable::find(&page, "ours / the library's");
    format_row(
        "update",
        "our speed / the library's own threads",
        &table.range_of_medians("ours / the library's"),
        &table.count_verdicts(0),
    )
}

fn neighbours_row() -> String {
    let page = read_page("neighbours");
    let table = ResultsTable::find(&page, "with / alone");
    format_row(
        "neighbours",
        "speed next to a neighbour / alone",
        &table.range_of_medians("with / alone"),
        "",
    )
}

fn algorithms_row() -> String {
    let page = read_page("algorithms");
    let table = ResultsTable::find(&page, "goal");
    let found = table.find_cell(&["gpa of 100000: at most 0.1 s"], "found");
    format_row(
        "algorithms",
        "seconds to divide work over 100,000 devices (GPA)",
        &format!("{:.3}", read_median(found)),
        &table.count_verdicts(0),
    )
}

fn learning_row() -> String {
    let page = read_page("learning");
    let (_, below) = page.split_once("`unlike`: ").expect("the setting");
    let table = ResultsTable::find(
        below.split_once("\n\n`").expect("another setting").0,
        "adaptive",
    );
    let [before, now] = ["fpm before", "adaptive"].map(|name| {
        table
            .find_cell(&["8", "150"], name)
            .split(" / ")
            .next()
            .expect("the mean")
    });
    format_row(
        "learning",
        "(measuring + run) / ideal, 8 unlike nodes, 150 steps",
        &format!("{now}, and {before} where all measuring came before the run"),
        &ResultsTable::find(&page, "goal").count_verdicts(0),
    )
}

/// Returns nothing before the campaign was measured.
fn prepared_row() -> String {
    let page = read_page("prepared");
    if !page.contains("Measured by") {
        return String::new();
    }
    let figure = "call / `mxm`";
    let table = ResultsTable::find(&page, figure);
    let [planned, cyclic] =
        ["planned", "cyclic"].map(|layout| table.find_cell(&["4096", "f64", layout], figure));
    format_row(
        "prepared",
        "a call of a prepared product / the multiplication of `mxm`, 4096",
        &format!("{planned} for matrices as planned, {cyclic} for block-cyclic ones"),
        &ResultsTable::find(&page, "goal").count_verdicts(0),
    )
}

/// Returns nothing before the campaign was measured.
fn stencil_row() -> String {
    let page = read_page("stencil");
    if !page.contains("Measured by") {
        return String::new();
    }
    let [even, balanced] = ["even / ideal", "balanced / ideal"]
        .map(|figure| ResultsTable::find(&page, figure).range_of_medians(figure));
    format_row(
        "stencil",
        "balanced loop / ideal, 3 ranks, one 4 times slower, from four languages",
        &format!("{balanced}, and {even} with even parts"),
        &ResultsTable::find(&page, "goal").count_verdicts(0),
    )
}

/// Returns nothing before the campaign was measured.
fn silence_row() -> String {
    let page = read_page("silence");
    if !page.contains("Measured by") {
        return String::new();
    }
    let (_, sentence) = page.split_once("The line came ").expect("the time");
    let (seconds, _) = sentence.split_once(" s after").expect("the time");
    format_row(
        "silence",
        "seconds from the start of a job to the line about its stopped rank",
        seconds,
        &ResultsTable::find(&page, "goal").count_verdicts(0),
    )
}

fn alike_row() -> String {
    let page = read_page("peers-alike");
    let table = ResultsTable::find(&page, "ours / peer's");
    format_row(
        "peers-alike",
        "our speed / the fastest of ScaLAPACK and StarPU",
        &table.range_of_medians("ours / peer's"),
        &table.count_verdicts(0),
    )
}

/// Returns nothing before the campaign was measured.
fn price_row() -> String {
    let page = read_page("peers-price");
    if !page.contains("Measured by") {
        return String::new();
    }
    let table = ResultsTable::find(&page, "total / even split's");
    format_row(
        "peers-price",
        "our total / an even split's, alike ranks",
        &table.range_of_medians("total / even split's"),
        &table.count_verdicts(0),
    )
}

/// Returns nothing before the campaign was measured.
fn small_row() -> String {
    let page = read_page("peers-small");
    if !page.contains("Measured by") {
        return String::new();
    }
    let calls = ResultsTable::find(&page, "ours / ScaLAPACK's");
    format_row(
        "peers-small",
        "a call of a small product / ScaLAPACK's, two ranks, 64 to 1024",
        &calls.range_of_medians("ours / ScaLAPACK's"),
        &ResultsTable::find(&page, "goal").count_verdicts(0),
    )
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

fn drift_row() -> String {
    let page = read_page("peers-drift");
    if !page.contains("Measured by") {
        return String::new();
    }
    let figure = "total / the oracle's";
    let table = ResultsTable::find(&page, figure);
    let [ours, fpm] = ["ours", "fpm"].map(|who| table.find_cell(&[who], figure));
    format_row(
        "peers-drift",
        "our total / an oracle's, a host four times slower in mid-run",
        &format!("{ours}, {fpm} by `fpm`"),
        &ResultsTable::find(&page, "goal").count_verdicts(0),
    )
}

fn unlike_row() -> String {
    let page = read_page("peers-unlike");
    let table = ResultsTable::find(&page, "total / ours");
    let [even, many] = ["even grid", "many ranks"]
        .map(|who| table.find_cell(&["1 : 2 : 4 : 8, larger", who], "total / ours"));
    format_row(
        "peers-unlike",
        "ScaLAPACK / ours with all measuring, hosts 1 : 2 : 4 : 8",
        &format!("{even} on an even grid, {many} with many ranks"),
        &table.count_verdicts(0),
    )
}

fn overlap_row() -> String {
    let page = read_page("peers-overlap");
    let table = ResultsTable::find(&page, "hidden, %");
    let [hidden, size] = ["hidden, %", "m = n = k"].map(|name| table.cells(name, 0));
    let percent = read_median(hidden.last().expect("sizes"));
    format_row(
        "peers-overlap",
        "communication hidden behind arithmetic, 1 Gbit/s",
        &format!("{percent:.0} % at {}", size.last().expect("sizes")),
        // The second one is the goal of the wall time.
        &table.count_verdicts(1),
    )
}

fn growth_row() -> String {
    let page = read_page("peers-growth");
    let table = ResultsTable::find(&page, "ours / pdgemm");
    format_row(
        "peers-growth",
        "our speed / ScaLAPACK's on 4 hosts, 1 Gbit/s",
        table.cells("ours / pdgemm", 0).last().expect("hosts"),
        "",
    )
}
