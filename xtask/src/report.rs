//! The reports that the demo compares.

use serde::Deserialize;

/// The first keys of the JSON document that `isochron mxm --report` writes.
#[derive(Deserialize)]
pub struct DemoReport {
    /// The strategy that divided the work.
    pub strategy: String,
    /// Duration of the multiplication alone, in seconds.
    pub wall_s: f64,
    /// Duration of measuring and partitioning, in seconds.
    pub balance_s: f64,
    /// Work over the sum of the speeds that the devices showed, in seconds.
    pub ideal_s: f64,
    /// Speed of the whole, in 10⁹ operations per second.
    pub gflops: f64,
    /// `max |t_i - t_j| / t_i` over the busy times.
    pub imbalance: f64,
    /// `true` if the result was found right; `None` if it was not checked.
    pub verified: Option<bool>,
}

impl DemoReport {
    /// Returns the cells of its column in the comparison.
    fn cells(&self) -> [String; 7] {
        let verified = match self.verified {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "not done",
        };
        [
            self.strategy.clone(),
            format!("{:.3} s", self.wall_s),
            format!("{:.3} s", self.balance_s),
            format!("{:.3} s", self.ideal_s),
            format!("{:.1}", self.gflops),
            format!("{:.0} %", 100.0 * self.imbalance),
            verified.to_owned(),
        ]
    }
}

/// Returns a table of two reports, and the gain of balancing.
pub fn compare(even: &DemoReport, balanced: &DemoReport) -> String {
    let rows: String = [
        "",
        "multiplication",
        "measuring and partitioning",
        "ideal at the speeds shown",
        "Gflop/s",
        "imbalance of busy times",
        "result verified",
    ]
    .iter()
    .zip(even.cells().iter().zip(balanced.cells()))
    .map(|(name, (left, right))| format!("{name:<28}{left:>14}{right:>14}\n"))
    .collect();
    let alone = describe_ratio(even.wall_s, balanced.wall_s);
    let whole = describe_ratio(even.wall_s + even.balance_s, balanced.wall_s + balanced.balance_s);
    rows + &format!("balanced, it is {alone}; with the measuring, {whole}\n")
}

fn describe_ratio(before_s: f64, after_s: f64) -> String {
    if before_s >= after_s {
        format!("{:.2} times as fast", before_s / after_s)
    } else {
        format!("{:.2} times slower", after_s / before_s)
    }
}
