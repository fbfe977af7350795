//! Numbers on the command line, with messages that tell their ranges.

use num_complex::Complex64;

/// Parses a whole number from `LEAST` to the largest of its type.
///
/// # Errors
/// Names the range of a number that is not in it.
pub fn parse_whole<N: TryFrom<u64>, const LEAST: u64>(text: &str) -> Result<N, String> {
    let number = text.parse().ok().filter(|&number| number >= LEAST);
    number.and_then(|number| N::try_from(number).ok()).ok_or_else(|| {
        let most = u64::MAX >> (u64::BITS as usize - 8 * size_of::<N>());
        format!("expected a whole number from {LEAST} to {most}")
    })
}

/// Parses a number above 0.
///
/// # Errors
/// Names the range of a number that is not in it.
pub fn parse_positive(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|&number| number > 0.0);
    number.ok_or_else(|| "expected a number above 0".to_owned())
}

/// Parses a number, or a complex one such as `2-0.5i`.
///
/// # Errors
/// Names the forms that a number has.
pub fn parse_complex(text: &str) -> Result<Complex64, String> {
    let number = text.parse();
    number.map_err(|_| "expected a number, or a complex one such as 2-0.5i".to_owned())
}

/// Parses a number of any sign.
///
/// # Errors
/// Names the form that a number has.
pub fn parse_number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| "expected a number".to_owned())
}

/// Parses a number between 0 and 1.
///
/// # Errors
/// Names the range of a number that is not in it.
pub fn parse_part(text: &str) -> Result<f64, String> {
    parse_positive(text)
        .ok()
        .filter(|&part| part < 1.0)
        .ok_or_else(|| "expected a number between 0 and 1".to_owned())
}
