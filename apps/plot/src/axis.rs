//! Axes with round numbers.

/// A number of an axis: its position as a fraction of the axis, and its text.
pub type Tick = (f64, String);

/// The most numbers of a linear axis, 0 not counted.
const NUMBERS: f64 = 6.0;

/// A linear axis from 0, with numbers at multiples of `factor · 10^power`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinearAxis {
    factor: u32,
    power: i32,
    /// Numbers besides 0.
    count: u32,
    /// The numbers are written in units of ten to this power.
    exponent: i32,
}

impl LinearAxis {
    /// Makes the axis that reaches `largest`, or 1 without a positive number.
    pub fn to(largest: f64) -> Self {
        let end = if largest > 0.0 && largest.is_finite() { largest } else { 1.0 };
        let (factor, power) = round_step(end / NUMBERS);
        // A step that is off by rounding must not cost a number more.
        let count = (end / scale(factor, power) - 1e-9).ceil() as u32;
        let digits = power + f64::from(count * factor).log10().floor() as i32;
        let exponent = if (-2..5).contains(&digits) { 0 } else { digits.div_euclid(3) * 3 };
        Self { factor, power, count, exponent }
    }

    /// Returns the position of `value` from 0 at the beginning to 1 at the end, which larger values share.
    pub fn fraction(&self, value: f64) -> f64 {
        (value / scale(self.count * self.factor, self.power)).clamp(0.0, 1.0)
    }

    /// Returns the round numbers with their text, from 0 to the end.
    pub fn numbers(&self) -> Vec<(f64, String)> {
        let written = self.power - self.exponent;
        let decimals = (-written).max(0) as usize;
        (0..=self.count)
            .map(|i| i * self.factor)
            .map(|multiple| {
                let text = format!("{:.decimals$}", scale(multiple, written));
                (scale(multiple, self.power), text)
            })
            .collect()
    }

    /// Returns the round numbers with their positions.
    pub(crate) fn ticks(&self) -> Vec<Tick> {
        self.numbers().into_iter().map(|(value, text)| (self.fraction(value), text)).collect()
    }

    /// Returns `name` with the power of ten that the numbers leave out.
    pub fn title(&self, name: &str) -> String {
        match self.exponent {
            0 => name.to_owned(),
            exponent => format!("{name} × 1e{exponent}"),
        }
    }
}

/// Returns the least step of 1, 2 or 5 times a power of ten that is at least `least`.
fn round_step(least: f64) -> (u32, i32) {
    let power = least.log10().floor() as i32;
    [(1, power), (2, power), (5, power)]
        .into_iter()
        .find(|&(factor, power)| scale(factor, power) >= least)
        .unwrap_or((1, power + 1))
}

/// Returns `factor · 10^power`, exactly for powers from 0 on.
fn scale(factor: u32, power: i32) -> f64 {
    let ten = 10f64.powi(power.abs());
    if power < 0 { f64::from(factor) / ten } else { f64::from(factor) * ten }
}

/// A logarithmic axis of whole decades.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogAxis {
    low: i32,
    high: i32,
}

impl LogAxis {
    /// Makes the axis that has all positive `values`, from 1 to 10 without any.
    pub fn covering(values: impl Iterator<Item = f64> + Clone) -> Self {
        let least = values.clone().fold(f64::INFINITY, f64::min);
        let most = values.fold(0.0, f64::max);
        if least > most {
            return Self { low: 0, high: 1 };
        }
        let low = least.log10().floor() as i32;
        Self { low, high: (most.log10().ceil() as i32).max(low + 1) }
    }

    /// Returns the position of `value` from 0 at the first decade to 1 at the last.
    pub fn fraction(&self, value: f64) -> f64 {
        (value.log10() - f64::from(self.low)) / f64::from(self.high - self.low)
    }

    /// Returns the powers of ten with their positions.
    pub fn ticks(&self) -> Vec<Tick> {
        let decades = self.low..=self.high;
        decades.map(|decade| (self.fraction(10_f64.powi(decade)), decade_text(decade))).collect()
    }
}

fn decade_text(decade: i32) -> String {
    match decade {
        -3..=5 => 10_f64.powi(decade).to_string(),
        _ => format!("1e{decade}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(largest: f64) -> Vec<String> {
        LinearAxis::to(largest).numbers().into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn numbers_are_round_and_reach_the_largest() {
        assert_eq!(texts(9.3), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(texts(0.5), ["0.0", "0.1", "0.2", "0.3", "0.4", "0.5"]);
        assert_eq!(texts(2.2e6), ["0.0", "0.5", "1.0", "1.5", "2.0", "2.5"]);
        assert_eq!(LinearAxis::to(2.2e6).title("speed"), "speed × 1e6");
        assert_eq!(LinearAxis::to(2.2e4).title("speed"), "speed");
        assert_eq!(texts(4e-5), ["0", "10", "20", "30", "40"]);
        assert_eq!(LinearAxis::to(4e-5).title("time"), "time × 1e-6");
        assert_eq!(texts(f64::NAN).len(), 6);
        for largest in [1e-100, 3e-7, 0.99, 1.0, 7.1, 1e5, 6e99] {
            let axis = LinearAxis::to(largest);
            let numbers = axis.numbers();
            assert!((3..=7).contains(&numbers.len()), "{axis:?}");
            let end = numbers[numbers.len() - 1].0;
            assert!(end >= largest * (1.0 - 1e-8) && end < 1.5 * largest, "{axis:?}");
        }
    }

    #[test]
    fn values_lie_where_their_logarithm_does() {
        let axis = LogAxis::covering([0.02, 5.0].into_iter());
        assert_eq!(axis, LogAxis { low: -2, high: 1 });
        assert!((axis.fraction(0.1) - 1.0 / 3.0).abs() < 1e-9);
        let none = LogAxis::covering(std::iter::empty());
        assert_eq!(none, LogAxis { low: 0, high: 1 });
        let numbers: Vec<String> = none.ticks().into_iter().map(|n| n.1).collect();
        assert_eq!(numbers, ["1", "10"]);
    }
}
