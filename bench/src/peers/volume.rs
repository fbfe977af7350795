//! The volume that layouts predict for numbers of nodes that no machine at hand has.

use anyhow::Context as _;
use isochron_bench::instances;
use isochron_hierarchy::layout::{Method, arrange};
use serde_json::{Value, json};

use crate::plot::{Line, log_log};
use crate::results::{list, number};

const NODES: [usize; 6] = [16, 64, 256, 1024, 4096, 10_000];
/// Blocks of C that a node has on average, and their side in elements.
const BLOCKS_EACH: f64 = 4096.0;
const BLOCK: u64 = 128;
const METHODS: [Method; 3] = [Method::Br, Method::Recursive, Method::Cartesian];

/// Bytes that an average node receives in `C (m×m) = A·B`, by nodes and method, and what no layout goes below. Speeds
/// differ by a factor of up to 100, and memory grows with the nodes.
///
/// Every node needs as many elements of A and B for each of k as its half-perimeter is long, and holds all of A and B
/// together once: `k·(Σ half-perimeters - (m + n))` elements travel.
pub fn predicted() -> anyhow::Result<Vec<Value>> {
    let mut rows = Vec::new();
    for nodes in NODES {
        let side = (BLOCKS_EACH * nodes as f64).sqrt().round() as u64;
        let areas = instances::areas(nodes);
        let elements = side * BLOCK;
        let bytes_each = |half_perimeters: f64| {
            let lines = (half_perimeters - 2.0 * side as f64) * BLOCK as f64;
            8.0 * lines * elements as f64 / nodes as f64
        };
        let mut bound = f64::INFINITY;
        let mut row = json!({ "nodes": nodes, "size": elements });
        for method in METHODS {
            let layout = arrange(method, &areas, side, side).context(method.name())?;
            if method == Method::Br {
                bound = layout.lower_bound();
            }
            row[method.name()] = json!(bytes_each(layout.half_perimeter_sum() as f64));
        }
        // Slices of the whole height are as wide together as the matrix.
        row["slices"] = json!(bytes_each(((nodes + 1) as u64 * side) as f64));
        row["bound"] = json!(bytes_each(bound));
        rows.push(row);
    }
    Ok(rows)
}

/// The columns of [`predicted`], with their names for people.
pub const COLUMNS: [(&str, &str); 5] = [
    ("br", "columns (br)"),
    ("recursive", "recursive cuts"),
    ("cartesian", "grid"),
    ("slices", "slices"),
    ("bound", "lower bound"),
];

/// Bytes against nodes, of every column.
pub fn plot(results: &Value) -> String {
    let line = |(key, name): (&str, &str)| {
        let point = |row: &Value| (number(row, "/nodes"), number(row, &format!("/{key}")) / 1e9);
        Line {
            name: name.to_owned(),
            points: list(results, "predicted").map(point).collect(),
        }
    };
    log_log(
        "Predicted volume",
        "nodes",
        "GB that a node receives on average",
        &COLUMNS.map(line),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_lie_between_the_bound_and_slices() -> anyhow::Result<()> {
        let rows = predicted()?;
        assert_eq!(rows.len(), NODES.len());
        for row in rows {
            let of = |key: &str| number(&row, &format!("/{key}"));
            assert!(of("bound") <= of("br") && of("br") < of("slices"), "{row}");
            assert!(of("br") / of("bound") < 1.1, "{row}");
        }
        Ok(())
    }
}
