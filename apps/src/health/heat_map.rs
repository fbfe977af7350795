//! The speeds of the devices of a model over the sizes, as text.

use crate::lines::wrap;
use crate::shades::show_speed;
use crate::table::TextTable;

/// The speeds of a device over the sizes, relative to those of the class.
pub struct HeatRow {
    /// Host, device and pass.
    pub names: [String; 3],
    pub speeds: Vec<Option<f64>>,
}

/// Formats a heat map of devices over sizes of these elements of C: speeds in percent of the class, the darker the slower.
pub fn format_heat_map(model: &str, units: &[u64], rows: Vec<HeatRow>, width: usize) -> String {
    let title = format!("speed in % of {model}, by elements of C");
    let units = units.iter().map(|&units| format!("|{}", show_units(units)));
    let mut table = TextTable::new(3, &format!("host|device|pass{}", units.collect::<String>()));
    for HeatRow { names, speeds } in rows {
        table.add_row(names.into_iter().chain(speeds.into_iter().map(show_speed)));
    }
    format!("{}{table}", wrap(&title, width))
}

/// Shows a number of elements in few characters.
fn show_units(units: u64) -> String {
    match units {
        0..10_000 => units.to_string(),
        10_000..10_000_000 => format!("{}k", units / 1000),
        _ => format!("{}M", units / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_short() {
        assert_eq!([9_999, 44_100, 268_000_000].map(show_units), ["9999", "44k", "268M"]);
    }
}
