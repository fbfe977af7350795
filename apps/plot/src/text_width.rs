//! The width of text.

/// Widths of the characters from space to tilde in DejaVu Sans, in thousandths of the font's size. Of the fonts that usually
/// stand for `sans-serif` it is the widest.
const WIDTHS: [u16; 95] = [
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636,
    636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632,
    575, 775, 752, 295, 295, 656, 557, 863, 748, 787, 603, 787, 695, 635, 611, 732, 684, 989, 685,
    611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579,
    278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838,
];

/// Width of any other character: none of Latin or Greek, and no sign of mathematics, is wider.
const OTHER: u16 = 1000;

/// Returns the width of a line of text in pixels, with a font of `font_size` pixels.
pub fn measure_text(text: &str, font_size: u32) -> f64 {
    let widths = text.chars().map(|letter| {
        let place = u32::from(letter).checked_sub(u32::from(' '));
        let width = place.and_then(|place| WIDTHS.get(place as usize));
        f64::from(*width.unwrap_or(&OTHER))
    });
    f64::from(font_size) * widths.sum::<f64>() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_as_wide_as_its_letters() {
        assert_eq!(measure_text("", 13), 0.0);
        assert_eq!(measure_text("i m~", 1000), 278.0 + 318.0 + 974.0 + 838.0);
        assert_eq!(measure_text("α\u{1f600}", 10), 20.0);
    }
}
