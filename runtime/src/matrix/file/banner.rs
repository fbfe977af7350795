//! The first line of a Matrix Market file: what its lines hold, and what elements they stand for.

use isochron_devices::{ElementType, Scalar};
use num_complex::Complex64;
use strum::{Display, EnumString};

use super::losses::Losses;

/// Kind of the numbers of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Display, EnumString)]
#[strum(serialize_all = "kebab-case")]
pub(super) enum Field {
    /// Real numbers; `double` in older files.
    #[strum(serialize = "real", serialize = "double")]
    Real,
    /// Integers; `unsigned-integer` as SciPy writes them.
    #[strum(serialize = "integer", serialize = "unsigned-integer")]
    Integer,
    /// Pairs of a real and an imaginary part.
    Complex,
    /// Nothing: an element that is named is 1.
    Pattern,
}

/// The elements that follow from those across the diagonal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Display, EnumString)]
#[strum(serialize_all = "kebab-case")]
pub(super) enum Symmetry {
    /// None.
    General,
    /// Equal ones.
    Symmetric,
    /// Negated ones; the diagonal is zero.
    SkewSymmetric,
    /// Conjugated ones; the diagonal is real.
    Hermitian,
}

/// The first line of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MarketBanner {
    /// `true` if every line has its row and its column, and elements without a line are 0.
    pub is_coordinate: bool,
    pub field: Field,
    pub symmetry: Symmetry,
}

impl MarketBanner {
    /// Parses the first line of a file.
    ///
    /// # Errors
    /// Returns the reason why it cannot be read.
    ///
    /// # References
    /// Boisvert, Pozo and Remington, "The Matrix Market exchange formats: initial design", NISTIR 5935, 1996.
    pub fn parse(line: &str) -> Result<Self, String> {
        let lower = line.to_lowercase();
        let words: Vec<&str> = lower.split_whitespace().collect();
        let ["%%matrixmarket", ref words @ ..] = words[..] else {
            return Err("not a Matrix Market file (no %%MatrixMarket)".to_owned());
        };
        let ["matrix", format @ ("array" | "coordinate"), field, symmetry] = *words else {
            return Err(format!(
                "`{}`; wanted `%%MatrixMarket matrix`, then array or coordinate, a kind of numbers, and a symmetry",
                line.trim()
            ));
        };
        let banner = Self {
            is_coordinate: format == "coordinate",
            field: (field.parse()).map_err(|_| {
                format!("`{field}`; wanted real, integer, unsigned-integer, complex or pattern")
            })?,
            symmetry: (symmetry.parse()).map_err(|_| {
                format!("`{symmetry}`; wanted general, symmetric, skew-symmetric or hermitian")
            })?,
        };
        banner.check()?;
        Ok(banner)
    }

    /// Refuses combinations that the format does not have.
    fn check(self) -> Result<(), String> {
        let has_sign = !matches!(self.symmetry, Symmetry::General | Symmetry::Symmetric);
        if self.field == Field::Pattern && !self.is_coordinate {
            return Err("`array pattern`; a pattern is coordinate".to_owned());
        }
        if self.field == Field::Pattern && has_sign {
            let symmetry = self.symmetry;
            return Err(format!("`pattern {symmetry}`; a pattern is general or symmetric"));
        }
        Ok(())
    }

    /// Returns the smallest type that holds all numbers.
    pub fn element(self) -> ElementType {
        match self.field {
            Field::Complex => ElementType::C64,
            Field::Real | Field::Integer | Field::Pattern => ElementType::F64,
        }
    }

    /// Returns the number of words of an element, its row and column left out.
    pub fn count_words(self) -> usize {
        match self.field {
            Field::Pattern => 0,
            Field::Real | Field::Integer => 1,
            Field::Complex => 2,
        }
    }

    /// Returns the number of elements that an `array` of this many rows and columns tells.
    pub fn count_elements(self, rows: usize, cols: usize) -> Option<usize> {
        let diagonal = match self.symmetry {
            Symmetry::General => return rows.checked_mul(cols),
            Symmetry::SkewSymmetric => 0,
            Symmetry::Symmetric | Symmetry::Hermitian => rows,
        };
        Some(rows.checked_mul(rows.saturating_sub(1))? / 2 + diagonal)
    }

    /// Refuses a matrix with a symmetry that is not square.
    pub fn check_shape(self, rows: usize, cols: usize) -> Result<(), String> {
        if self.symmetry == Symmetry::General || rows == cols {
            return Ok(());
        }
        Err(format!("a {} matrix is square, not {rows}×{cols}", self.symmetry))
    }

    /// Refuses an element of the diagonal that the symmetry does not allow.
    pub fn check_diagonal(self, value: Complex64) -> Result<(), String> {
        match self.symmetry {
            Symmetry::SkewSymmetric if value != Complex64::ZERO => {
                Err("the diagonal of a skew-symmetric matrix is zero".to_owned())
            }
            Symmetry::Hermitian if value.im != 0.0 => {
                Err("the diagonal of a hermitian matrix is real".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Returns the element across the diagonal.
    pub fn mirror(self, value: Complex64) -> Complex64 {
        match self.symmetry {
            Symmetry::General | Symmetry::Symmetric => value,
            Symmetry::SkewSymmetric => -value,
            Symmetry::Hermitian => value.conj(),
        }
    }

    /// Parses an element for a matrix of `T` from its words.
    ///
    /// # Errors
    /// Returns the reason why it cannot be read.
    pub fn parse_element<T: Scalar>(
        self,
        words: &[&str],
        losses: &mut Losses,
    ) -> Result<Complex64, String> {
        match (self.field, words) {
            (Field::Pattern, []) => Ok(Complex64::ONE),
            (Field::Real, [number]) => Ok(parse_number(number)?.into()),
            (Field::Integer, [number]) => {
                if let Ok(integer) = number.parse() {
                    losses.note_integer::<T>(integer);
                }
                Ok(parse_number(number)?.into())
            }
            (Field::Complex, [re, im]) => Ok(Complex64::new(parse_number(re)?, parse_number(im)?)),
            (Field::Complex, _) => {
                Err(format!("`{}` is not a real and an imaginary part", words.join(" ")))
            }
            _ => Err(format!("`{}` is not a number", words.join(" "))),
        }
    }
}

/// Parses a number, also with Fortran's letter of double precision before its exponent.
fn parse_number(word: &str) -> Result<f64, String> {
    word.parse()
        .or_else(|_| word.replace(['d', 'D'], "e").parse())
        .map_err(|_| format!("`{word}` is not a number"))
}
