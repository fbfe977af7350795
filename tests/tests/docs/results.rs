//! Tables of results, made from the samples that the campaigns keep.

use serde_json::Value;

use crate::generated::number;
use crate::pages::read;

/// Ratios of one comparison, one a round, or their median with the smallest and the largest.
struct Spread {
    median: f64,
    min: f64,
    max: f64,
}

impl Spread {
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
            median: number(value, "/median"),
            min: number(value, "/min"),
            max: number(value, "/max"),
        }
    }

    fn text(&self) -> String {
        let Self { median, min, max } = self;
        format!("{median:.2} ({min:.2} to {max:.2})")
    }
}

/// Reads the samples of a campaign.
fn load(name: &str) -> Value {
    let text = read(format!("bench/results/{name}.json"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().expect("a list").iter()
}

/// Returns `true` if a record has these values.
fn has(record: &Value, values: &[(&str, Value)]) -> bool {
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
        let mut samples: Vec<&Value> = list(results, "samples")
            .filter(|sample| has(sample, &self.samples))
            .collect();
        samples.sort_by_key(|sample| sample["round"].as_u64());
        let part = f64::from(u8::from(with_measuring));
        samples
            .iter()
            .map(|sample| number(sample, self.product_s) + part * number(sample, self.measuring_s))
            .collect()
    }
}

/// Returns a row: how many times as long the other one takes.
fn compare(text: &str, command: &str, results: &Value, [other, ours]: [&Side; 2]) -> String {
    let [alone, counted] = [false, true].map(|with_measuring| {
        let seconds = [other, ours].map(|side| side.seconds(results, with_measuring));
        let pairs = seconds[0].iter().zip(&seconds[1]);
        Spread::of(pairs.map(|(other, ours)| other / ours).collect()).text()
    });
    format!("| {text} | {alone} | {counted} | `cargo xtask bench {command}` |\n")
}

fn strategy(name: &'static str) -> Side<'static> {
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
pub fn summary() -> String {
    let mut table = "| on | against | its time / ours | with our measuring | reproduce |\n\
                     |---|---|---|---|---|\n"
        .to_owned();
    table += &compare(
        "4 paced nodes, 2 : 4 : 8 : 8 | an even split",
        "balance",
        &load("balance"),
        [&strategy("homogeneous"), &strategy("fpm")],
    );
    table += &compare(
        "4 hosts, 1 : 2 : 4 : 8 | ScaLAPACK, even grid",
        "peers --only unlike",
        &load("peers-unlike"),
        [&on_unlike_hosts("even grid"), &on_unlike_hosts("ours")],
    );
    table += &compare(
        "4 alike ranks | ScaLAPACK, its best grid",
        "peers --only alike",
        &load("peers-alike"),
        [&on_alike_ranks("pdgemm"), &on_alike_ranks("ours")],
    );
    table
}

/// Returns the table of all campaigns.
pub fn campaigns() -> String {
    let rows = [
        balance(),
        hybrid(),
        update(),
        neighbours(),
        algorithms(),
        alike(),
        unlike(),
        overlap(),
        growth(),
    ];
    let head = "| campaign | figure | found | goals met |\n|---|---|---|---|\n";
    head.to_owned() + &rows.concat()
}

fn row(page: &str, figure: &str, found: &str, met: &str) -> String {
    format!("| [{page}](results/{page}.md) | {figure} | {found} | {met} |\n")
}

/// Returns how many of the verdicts are good: `3 of 4`.
fn verdicts<'a>(records: impl Iterator<Item = &'a Value>, key: &str) -> String {
    let all: Vec<bool> = records.filter_map(|record| record[key].as_bool()).collect();
    let met = all.iter().filter(|met| **met).count();
    format!("{met} of {}", all.len())
}

/// Returns the record of a list that has these values.
fn find<'a>(results: &'a Value, key: &str, values: &[(&str, Value)]) -> &'a Value {
    list(results, key)
        .find(|record| has(record, values))
        .unwrap_or_else(|| panic!("no {values:?} in {key}"))
}

fn balance() -> String {
    let results = load("balance");
    let [paced, cliff] = ["emulated-4", "emulated-memory-cliff"].map(|platform| {
        let wanted = [
            ("platform", platform.into()),
            ("strategy", "homogeneous".into()),
        ];
        Spread::read(&find(&results, "summary", &wanted)["wall_over_fpm"]).text()
    });
    row(
        "balance",
        "even split / balanced, wall time",
        &format!("{paced} on paced nodes, {cliff} with a memory cliff"),
        &verdicts(list(&results, "goals"), "met"),
    )
}

fn hybrid() -> String {
    let results = load("hybrid");
    row(
        "hybrid",
        "even split / balanced, wall time",
        &Spread::read(&results["summary"]["even_over_fpm"]).text(),
        &verdicts(std::iter::once(&results["summary"]), "met"),
    )
}

/// Returns the smallest and the largest median of a list: `0.93 to 1.06`.
fn range(results: &Value, key: &str, ratio: &str) -> String {
    let medians: Vec<f64> = list(results, key)
        .filter_map(|record| record.pointer(ratio)?.as_f64())
        .collect();
    let Spread { min, max, .. } = Spread::of(medians);
    format!("{min:.2} to {max:.2}")
}

fn update() -> String {
    let results = load("update");
    row(
        "update",
        "our speed / the library's own threads",
        &range(&results, "summary", "/ratio/median"),
        &verdicts(list(&results, "summary"), "met"),
    )
}

fn neighbours() -> String {
    let results = load("neighbours");
    row(
        "neighbours",
        "speed next to a neighbour / alone",
        &range(&results, "summary", "/ratio/median"),
        "",
    )
}

fn algorithms() -> String {
    let results = load("algorithms");
    let gpa = list(&results, "goals").find(|goal| goal["goal"].as_str().is_some_and(is_of_gpa));
    row(
        "algorithms",
        "seconds to divide work over 100,000 devices (GPA)",
        &format!("{:.3}", number(gpa.expect("a goal of gpa"), "/found")),
        &verdicts(list(&results, "goals"), "met"),
    )
}

fn is_of_gpa(goal: &str) -> bool {
    goal.starts_with("gpa of 100000:")
}

fn alike() -> String {
    let results = load("peers-alike");
    row(
        "peers-alike",
        "our speed / the fastest of ScaLAPACK and StarPU",
        &range(&results, "best", "/ratio/median"),
        &verdicts(list(&results, "best"), "met"),
    )
}

fn unlike() -> String {
    let results = load("peers-unlike");
    let setting = ("setting", Value::from("1 : 2 : 4 : 8, larger"));
    let [even, many] = ["even grid", "many ranks"].map(|who| {
        let wanted = [setting.clone(), ("who", who.into())];
        Spread::read(&find(&results, "summary", &wanted)["ratio"]).text()
    });
    row(
        "peers-unlike",
        "ScaLAPACK / ours, wall time, hosts 1 : 2 : 4 : 8",
        &format!("{even} on an even grid, {many} with many ranks"),
        &verdicts(list(&results, "summary"), "met"),
    )
}

fn overlap() -> String {
    let results = load("peers-overlap");
    let largest = list(&results, "summary").last().expect("sizes");
    let percent = 100.0 * number(largest, "/hidden/median");
    let goals = list(&results, "summary");
    row(
        "peers-overlap",
        "communication hidden behind arithmetic, 1 Gbit/s",
        &format!("{percent:.0} % at {}", largest["size"]),
        &verdicts(goals, "met_wall"),
    )
}

fn growth() -> String {
    let results = load("peers-growth");
    let most = list(&results, "summary").last().expect("hosts");
    row(
        "peers-growth",
        "our speed / ScaLAPACK's on 4 hosts, 1 Gbit/s",
        &Spread::read(&most["ratio"]).text(),
        "",
    )
}
