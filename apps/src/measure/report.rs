//! The points of a campaign as tables and as JSON.

use std::fmt::Write as _;

use isochron_hierarchy::model::Point;
use serde::Serialize;

use super::files::RankPoints;
use crate::lines::wrap;
use crate::table::TextTable;

/// The result of a campaign.
#[derive(Serialize)]
pub struct MeasureDocument {
    pub schema: u32,
    /// The kernel's name, or its library.
    pub kernel: String,
    /// The options that decide on times and on their precision.
    pub measured_with: String,
    /// Number of sizes that an earlier command had measured.
    pub resumed: usize,
    pub ranks: Vec<RankDocument>,
}

/// The points of one rank.
#[derive(Serialize)]
pub struct RankDocument {
    pub rank: usize,
    pub host: String,
    /// The core that it is bound to.
    pub core: Option<u32>,
    /// Its points file.
    pub file: Option<String>,
    pub points: Vec<MeasuredPoint>,
}

/// A point with its speed.
#[derive(Serialize)]
pub struct MeasuredPoint {
    #[serde(flatten)]
    point: Point,
    /// `d / t`, units a second; an upper bound where `reps` is 0.
    units_per_s: f64,
    /// The kernel's own work `C(d) / t`, a second.
    work_per_s: f64,
}

impl RankDocument {
    /// Adds this rank's part of all points; `work` is that of each size.
    pub fn add_points(&mut self, points: &[(u64, RankPoints)], work: &[f64]) {
        for ((d, points), work) in points.iter().zip(work) {
            self.points
                .extend(points[self.rank].map(|point| MeasuredPoint {
                    point,
                    units_per_s: *d as f64 / point.t_s,
                    work_per_s: work / point.t_s,
                }));
        }
    }
}

impl MeasureDocument {
    /// Formats the text for people. Prose has at most `width` characters a line.
    pub fn format(&self, width: usize) -> String {
        let mut text = wrap(
            &format!("kernel {}: {}", self.kernel, self.measured_with),
            width,
        );
        for rank in &self.ranks {
            let place = rank
                .core
                .map_or("not bound".to_owned(), |core| format!("core {core}"));
            let mut above = format!("rank {} on {}, {place}", rank.rank, rank.host);
            if let Some(file) = &rank.file {
                above += &format!("\n{file}");
            }
            // Writing to a String cannot fail.
            let _ = write!(text, "\n{}{}", wrap(&above, width), rank.make_table());
        }
        if self.resumed > 0 {
            let resumed = format!("\n{} sizes were measured before and kept", self.resumed);
            text += &wrap(&resumed, width);
        }
        text
    }
}

impl RankDocument {
    fn make_table(&self) -> TextTable {
        let mut table = TextTable::new(0, "units|s|± %|reps|units/s|10⁹/s");
        for MeasuredPoint {
            point,
            units_per_s,
            work_per_s,
        } in &self.points
        {
            let bound = ["", "<"][usize::from(point.reps == 0)];
            let least = [">", ""][usize::from(point.reps > 0)];
            table.add_row([
                point.d.to_string(),
                format!("{least}{:.3e}", point.t_s),
                format!("{:.1}", 100.0 * point.ci_s / point.t_s),
                point.reps.to_string(),
                format!("{bound}{units_per_s:.4e}"),
                format!("{bound}{:.3}", work_per_s / 1e9),
            ]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_marked_and_the_text_fits() {
        let mut rank = RankDocument {
            rank: 1,
            host: "vm".to_owned(),
            core: Some(3),
            file: Some("points/rank1-gemm.points".to_owned()),
            points: Vec::new(),
        };
        let points = [(4, 3), (8, 0)].map(|(d, reps)| {
            let point = Point {
                d,
                t_s: 0.5,
                reps,
                ci_s: 0.005,
            };
            (d, vec![None, Some(point)])
        });
        rank.add_points(&points, &[2e9, 4e9]);
        let document = MeasureDocument {
            schema: 1,
            kernel: "gemm".to_owned(),
            measured_with: "block 32, 3 to 100 repetitions".to_owned(),
            resumed: 1,
            ranks: vec![rank],
        };
        let text = document.format(80);
        for part in [
            "rank 1 on vm, core 3",
            "8.0000e0",
            ">5.000e-1",
            "<8.000",
            "1 sizes were",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
    }
}
