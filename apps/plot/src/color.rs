//! Colours that most eyes tell apart: the palette of Okabe and Ito without its yellow, and a grey.

/// Blue.
pub const BLUE: &str = "#0072b2";
/// Vermilion.
pub const VERMILION: &str = "#d55e00";
/// Bluish green.
pub const GREEN: &str = "#009e73";
/// Reddish purple.
pub const PURPLE: &str = "#cc79a7";
/// Sky blue.
pub const SKY: &str = "#56b4e9";
/// Orange.
pub const ORANGE: &str = "#e69f00";
/// Grey, for references such as a constant or a peak.
pub const GREY: &str = "#999999";

/// Number of series whose colours differ.
pub const N_SERIES: usize = PALETTE.len();

/// The colours of series that have none of their own, in order.
const PALETTE: [&str; 7] = [BLUE, VERMILION, GREEN, PURPLE, SKY, ORANGE, "#000000"];

/// Returns the colour of series `index`; the colours repeat.
pub fn of_series(index: usize) -> &'static str {
    PALETTE[index % PALETTE.len()]
}
