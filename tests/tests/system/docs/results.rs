//! Tables of results, made from the samples that the campaigns keep.

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

    fn read(value: &Value) -> Self {
        Self {
            median: read_number(value, "/median"),
            min: read_number(value, "/min"),
            max: read_number(value, "/max"),
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
        [&strategy_side("homogeneous"), &strategy_side("fpm")],
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
        update_row(),
        neighbours_row(),
        algorithms_row(),
        alike_row(),
        unlike_row(),
        overlap_row(),
        growth_row(),
    ];
    let head = "| campaign | figure | found | goals met |\n|---|---|---|---|\n";
    head.to_owned() + &rows.concat()
}

fn format_row(page: &str, figure: &str, found: &str, met: &str) -> String {
    format!("| [{page}](results/{page}.md) | {figure} | {found} | {met} |\n")
}

/// Returns how many of the verdicts are good: `3 of 4`.
fn count_verdicts<'a>(records: impl Iterator<Item = &'a Value>, key: &str) -> String {
    let all: Vec<bool> = records.filter_map(|record| record[key].as_bool()).collect();
    let met = all.iter().filter(|met| **met).count();
    format!("{met} of {}", all.len())
}

/// Returns the record of a list that has these values.
fn find_record<'a>(results: &'a Value, key: &str, values: &[(&str, Value)]) -> &'a Value {
    list_records(results, key)
        .find(|record| has_values(record, values))
        .unwrap_or_else(|| panic!("no {values:?} in {key}"))
}

fn balance_row() -> String {
    let results = load_samples("balance");
    let [paced, cliff] = ["emulated-4", "emulated-memory-cliff"].map(|platform| {
        let wanted = [
            ("platform", platform.into()),
            ("strategy", "homogeneous".into()),
        ];
        RatioSpread::read(&find_record(&results, "summary", &wanted)["wall_over_fpm"]).text()
    });
    format_row(
        "balance",
        "even split / balanced, wall time",
        &format!("{paced} on paced nodes, {cliff} with a memory cliff"),
        &count_verdicts(list_records(&results, "goals"), "met"),
    )
}

fn hybrid_row() -> String {
    let results = load_samples("hybrid");
    format_row(
        "hybrid",
        "even split / balanced, wall time",
        &RatioSpread::read(&results["summary"]["even_over_fpm"]).text(),
        &count_verdicts(std::iter::once(&results["summary"]), "met"),
    )
}

/// Returns the smallest and the largest median of a list: `0.93 to 1.06`.
fn range_of_medians(results: &Value, key: &str, ratio: &str) -> String {
    let medians: Vec<f64> = list_records(results, key)
        .filter_map(|record| record.pointer(ratio)?.as_f64())
        .collect();
    let RatioSpread { min, max, .. } = RatioSpread::of(medians);
    format!("{min:.2} to {max:.2}")
}

fn update_row() -> String {
    let results = load_samples("update");
    format_row(
        "update",
        "our speed / the library's own threads",
        &range_of_medians(&results, "summary", "/ratio/median"),
        &count_verdicts(list_records(&results, "summary"), "met"),
    )
}

fn neighbours_row() -> String {
    let results = load_samples("neighbours");
    format_row(
        "neighbours",
        "speed next to a neighbour / alone",
        &range_of_medians(&results, "summary", "/ratio/median"),
        "",
    )
}

fn algorithms_row() -> String {
    let results = load_samples("algorithms");
    let gpa =
        list_records(&results, "goals").find(|goal| goal["goal"].as_str().is_some_and(is_of_gpa));
    format_row(
        "algorithms",
        "seconds to divide work over 100,000 devices (GPA)",
        &format!("{:.3}", read_number(gpa.expect("a goal of gpa"), "/found")),
        &count_verdicts(list_records(&results, "goals"), "met"),
    )
}

fn is_of_gpa(goal: &str) -> bool {
    goal.starts_with("gpa of 100000:")
}

fn alike_row() -> String {
    let results = load_samples("peers-alike");
    format_row(
        "peers-alike",
        "our speed / the fastest of ScaLAPACK and StarPU",
        &range_of_medians(&results, "best", "/ratio/median"),
        &count_verdicts(list_records(&results, "best"), "met"),
    )
}

fn unlike_row() -> String {
    let results = load_samples("peers-unlike");
    let setting = ("setting", Value::from("1 : 2 : 4 : 8, larger"));
    let [even, many] = ["even grid", "many ranks"].map(|who| {
        let wanted = [setting.clone(), ("who", who.into())];
        RatioSpread::read(&find_record(&results, "summary", &wanted)["ratio"]).text()
    });
    format_row(
        "peers-unlike",
        "ScaLAPACK / ours, wall time, hosts 1 : 2 : 4 : 8",
        &format!("{even} on an even grid, {many} with many ranks"),
        &count_verdicts(list_records(&results, "summary"), "met"),
    )
}

fn overlap_row() -> String {
    let results = load_samples("peers-overlap");
    let largest = list_records(&results, "summary").last().expect("sizes");
    let percent = 100.0 * read_number(largest, "/hidden/median");
    let goals = list_records(&results, "summary");
    format_row(
        "peers-overlap",
        "communication hidden behind arithmetic, 1 Gbit/s",
        &format!("{percent:.0} % at {}", largest["size"]),
        &count_verdicts(goals, "met_wall"),
    )
}

fn growth_row() -> String {
    let results = load_samples("peers-growth");
    let most = list_records(&results, "summary").last().expect("hosts");
    format_row(
        "peers-growth",
        "our speed / ScaLAPACK's on 4 hosts, 1 Gbit/s",
        &RatioSpread::read(&most["ratio"]).text(),
        "",
    )
}
