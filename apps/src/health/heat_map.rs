//! The speeds of the devices of a model over the sizes, as text.

use super::document::{CheckedDeviceDocument, CheckedSizeDocument};
use crate::lines::wrap;
use crate::table::TextTable;

/// Least speeds, relative to those of the class, with the shade of each; below them the speed is shown in the last one.
const SHADES: [(f64, char); 4] = [(0.95, ' '), (0.85, '░'), (0.7, '▒'), (0.5, '▓')];
const DARKEST: char = '█';

/// Formats a heat map of devices over sizes: speeds in percent of the class, the darker the slower. A device has further lines
/// for the speeds while its neighbours were idle, and for those of copies, if they were measured.
pub fn format_heat_map(model: &str, devices: &[&CheckedDeviceDocument], width: usize) -> String {
    let sizes = devices.iter().flat_map(|device| device.sizes.iter());
    if sizes.clone().all(|size| size.speed.is_none()) {
        return String::new();
    }
    let title = format!("speed in % of {model}, by elements of C");
    let units = devices[0].sizes.iter().map(|size| format!("|{}", show_units(size.units)));
    let mut table = TextTable::new(3, &format!("host|device|pass{}", units.collect::<String>()));
    for device in devices {
        let mut add_row = |pass: &str, speed: fn(&CheckedSizeDocument) -> Option<f64>| {
            let speeds: Vec<Option<f64>> = device.sizes.iter().map(speed).collect();
            if speeds.iter().any(Option::is_some) {
                let names = [&device.host, &device.device, pass].map(str::to_owned);
                table.add_row(names.into_iter().chain(speeds.into_iter().map(show_speed)));
            }
        };
        add_row("together", |size| size.speed);
        add_row("alone", |size| size.alone);
        add_row("copies", |size| size.transfers);
    }
    format!("{}{table}", wrap(&title, width))
}

/// Shows a relative speed in percent, with its shade.
fn show_speed(speed: Option<f64>) -> String {
    let Some(speed) = speed else {
        return "- ".to_owned();
    };
    let shade = SHADES.iter().find(|(least, _)| speed >= *least);
    let shade = shade.map_or(DARKEST, |(_, shade)| *shade);
    format!("{:.0}{shade}", 100.0 * speed)
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
    fn slower_is_darker() {
        let shown = [1.04, 0.96, 0.9, 0.8, 0.6, 0.2].map(|speed| show_speed(Some(speed)));
        assert_eq!(shown, ["104 ", "96 ", "90░", "80▒", "60▓", "20█"]);
        assert_eq!(show_speed(None), "- ");
        assert_eq!([9_999, 44_100, 268_000_000].map(show_units), ["9999", "44k", "268M"]);
    }
}
