//! An axis with round numbers.

/// An axis from 0, with numbers at multiples of `factor · 10^power`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Axis {
    factor: u32,
    power: i32,
    /// Numbers besides 0.
    count: u32,
    /// The numbers are written in units of ten to this power.
    exponent: i32,
}

/// How many numbers an axis has at most, 0 not among them.
const NUMBERS: f64 = 6.0;

impl Axis {
    /// An axis on which `largest` has a place.
    pub fn to(largest: f64) -> Self {
        let largest = if largest > 0.0 && largest.is_finite() {
            largest
        } else {
            1.0
        };
        let least = largest / NUMBERS;
        let power = least.log10().floor() as i32;
        let steps = [(1, power), (2, power), (5, power)];
        let enough = |&(factor, power): &(u32, i32)| scaled(factor, power) >= least;
        let (factor, power) = steps.into_iter().find(enough).unwrap_or((1, power + 1));
        // A step that is off by rounding must not cost a number more.
        let count = (largest / scaled(factor, power) - 1e-9).ceil() as u32;
        let digits = power + f64::from(count * factor).log10().floor() as i32;
        let exponent = if (-2..5).contains(&digits) {
            0
        } else {
            digits.div_euclid(3) * 3
        };
        Self {
            factor,
            power,
            count,
            exponent,
        }
    }

    /// Where `value` lies, from 0 at the beginning to 1 at the end; what lies beyond is moved to the end.
    pub fn part(&self, value: f64) -> f64 {
        (value / scaled(self.count * self.factor, self.power)).clamp(0.0, 1.0)
    }

    /// The round numbers and how they are written, from 0 to the end.
    pub fn numbers(&self) -> Vec<(f64, String)> {
        let written = self.power - self.exponent;
        let decimals = (-written).max(0) as usize;
        let number = |i| {
            let text = format!("{:.decimals$}", scaled(i * self.factor, written));
            (scaled(i * self.factor, self.power), text)
        };
        (0..=self.count).map(number).collect()
    }

    /// `name` with the power that the numbers leave out.
    pub fn title(&self, name: &str) -> String {
        match self.exponent {
            0 => name.to_owned(),
            exponent => format!("{name} × 1e{exponent}"),
        }
    }
}

/// `factor · 10^power`, exact where that is possible: negative powers of ten are not.
fn scaled(factor: u32, power: i32) -> f64 {
    let ten = 10f64.powi(power.abs());
    if power < 0 {
        f64::from(factor) / ten
    } else {
        f64::from(factor) * ten
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_round_and_reach_the_largest() {
        let written = |largest| -> Vec<String> {
            let numbers = Axis::to(largest).numbers();
            numbers.into_iter().map(|(_, text)| text).collect()
        };
        assert_eq!(written(9.3), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(written(0.5), ["0.0", "0.1", "0.2", "0.3", "0.4", "0.5"]);
        assert_eq!(written(2.2e6), ["0.0", "0.5", "1.0", "1.5", "2.0", "2.5"]);
        assert_eq!(Axis::to(2.2e6).title("speed"), "speed × 1e6");
        assert_eq!(Axis::to(2.2e4).title("speed"), "speed");
        assert_eq!(written(4e-5), ["0", "10", "20", "30", "40"]);
        assert_eq!(Axis::to(4e-5).title("time"), "time × 1e-6");
        assert_eq!(written(f64::NAN).len(), 6);
        for largest in [1e-100, 3e-7, 0.99, 1.0, 7.1, 1e5, 6e99] {
            let axis = Axis::to(largest);
            let numbers = axis.numbers();
            assert!((3..=7).contains(&numbers.len()), "{axis:?}");
            let end = numbers[numbers.len() - 1].0;
            assert!(
                end >= largest * (1.0 - 1e-8) && end < 1.5 * largest,
                "{axis:?}"
            );
        }
    }
}
