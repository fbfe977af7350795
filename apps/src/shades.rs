//! Relative speeds in tables, the darker the slower.

/// Least speeds, relative to those of the class, with the shade of each; below them the speed is shown in the last one.
const SHADES: [(f64, char); 4] = [(0.95, ' '), (0.85, '░'), (0.7, '▒'), (0.5, '▓')];
const DARKEST: char = '█';

/// Shows a relative speed in percent, with its shade.
pub fn show_speed(speed: Option<f64>) -> String {
    let Some(speed) = speed else {
        return "- ".to_owned();
    };
    let shade = SHADES.iter().find(|(least, _)| speed >= *least);
    let shade = shade.map_or(DARKEST, |(_, shade)| *shade);
    format!("{:.0}{shade}", 100.0 * speed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slower_is_darker() {
        let shown = [1.04, 0.96, 0.9, 0.8, 0.6, 0.2].map(|speed| show_speed(Some(speed)));
        assert_eq!(shown, ["104 ", "96 ", "90░", "80▒", "60▓", "20█"]);
        assert_eq!(show_speed(None), "- ");
    }
}
