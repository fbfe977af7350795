//! The types of matrix elements.

use crate::{Blas, Updates, View, ViewMut, Worker};
use num_complex::{Complex32, Complex64};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, Mul, Sub};
use std::str::FromStr;

/// The name of an element type, in Rust and in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ElementType {
    /// Real numbers in single precision.
    F32,
    /// Real numbers in double precision.
    #[default]
    F64,
    /// Complex numbers in single precision.
    C32,
    /// Complex numbers in double precision.
    C64,
}

impl ElementType {
    /// Every type.
    pub const ALL: [Self; 4] = [Self::F32, Self::F64, Self::C32, Self::C64];

    /// Returns `true` for complex numbers.
    pub fn is_complex(self) -> bool {
        matches!(self, Self::C32 | Self::C64)
    }

    /// Returns the bytes of an element.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F64 | Self::C32 => 8,
            Self::C64 => 16,
        }
    }

    /// Returns the real operations of one multiplication with addition: 2, or 8 for complex numbers.
    pub fn flop(self) -> f64 {
        if self.is_complex() { 8.0 } else { 2.0 }
    }

    /// Returns the smallest type that holds all numbers of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let complex = self.is_complex() || other.is_complex();
        let double = [self, other]
            .iter()
            .any(|kind| matches!(kind, Self::F64 | Self::C64));
        match (complex, double) {
            (false, false) => Self::F32,
            (false, true) => Self::F64,
            (true, false) => Self::C32,
            (true, true) => Self::C64,
        }
    }

    /// Returns its name: `f32`, `f64`, `c32` or `c64`.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::C32 => "c32",
            Self::C64 => "c64",
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for ElementType {
    type Err = String;

    /// Reads a [`name`](Self::name).
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| format!("unknown element type `{text}`: use f32, f64, c32 or c64"))
    }
}

/// A type of elements: `f32`, `f64`, and complex numbers of them.
///
/// Every pattern of bits is a value of such a type, so any initialised memory can be read as elements and sent in messages.
/// All bits zero are the number 0.
pub trait Element:
    bytemuck::Pod
    + PartialEq
    + Send
    + Sync
    + fmt::Debug
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + sealed::Sealed
{
    /// The name of the type.
    const TYPE: ElementType;
    /// The number 0.
    const ZERO: Self;
    /// The number 1.
    const ONE: Self;
    /// The distance from 1 to the next larger real number of its precision.
    const EPSILON: f64;
    /// The smallest positive normal number of its precision.
    const SMALLEST_NORMAL: f64;

    /// Returns the element nearest to `value`; of a real type, nearest to its real part.
    fn of(value: Complex64) -> Self;

    /// Returns its exact value.
    fn value(self) -> Complex64;

    /// Returns its complex conjugate, which for a real number is the number.
    fn conj(self) -> Self;

    /// Computes `C += alpha·A·B` with the function of `blas` for this type.
    ///
    /// # Panics
    /// If the shapes do not match.
    fn gemm(
        blas: &dyn Blas,
        alpha: Self,
        a: View<'_, Self>,
        b: View<'_, Self>,
        c: ViewMut<'_, Self>,
    );

    /// Selects the arithmetic of a device with elements of this type.
    fn updates(worker: &mut dyn Worker) -> &mut dyn Updates<Self>;
}

mod sealed {
    /// Only the types that this module names are elements.
    pub trait Sealed {}
}

macro_rules! element {
    ($element:ty, $type:ident, $real:ty, $gemm:ident, $of:expr, $value:expr, $conj:expr) => {
        impl sealed::Sealed for $element {}

        impl Element for $element {
            const TYPE: ElementType = ElementType::$type;
            const ZERO: Self = $of(Complex64::new(0.0, 0.0));
            const ONE: Self = $of(Complex64::new(1.0, 0.0));
            const EPSILON: f64 = <$real>::EPSILON as f64;
            const SMALLEST_NORMAL: f64 = <$real>::MIN_POSITIVE as f64;

            fn of(value: Complex64) -> Self {
                $of(value)
            }

            fn value(self) -> Complex64 {
                $value(self)
            }

            fn conj(self) -> Self {
                $conj(self)
            }

            fn gemm(
                blas: &dyn Blas,
                alpha: Self,
                a: View<'_, Self>,
                b: View<'_, Self>,
                c: ViewMut<'_, Self>,
            ) {
                blas.$gemm(alpha, a, b, c);
            }

            fn updates(worker: &mut dyn Worker) -> &mut dyn Updates<Self> {
                worker
            }
        }
    };
}

const fn real_32(value: Complex64) -> f32 {
    value.re as f32
}

const fn real_64(value: Complex64) -> f64 {
    value.re
}

const fn complex_32(value: Complex64) -> Complex32 {
    Complex32::new(value.re as f32, value.im as f32)
}

const fn complex_64(value: Complex64) -> Complex64 {
    value
}

element!(
    f32,
    F32,
    f32,
    sgemm,
    real_32,
    |x| Complex64::new(f64::from(x), 0.0),
    |x| x
);
element!(
    f64,
    F64,
    f64,
    dgemm,
    real_64,
    |x| Complex64::new(x, 0.0),
    |x| x
);
element!(
    Complex32,
    C32,
    f32,
    cgemm,
    complex_32,
    |x: Complex32| Complex64::new(f64::from(x.re), f64::from(x.im)),
    |x: Complex32| Complex32::new(x.re, -x.im)
);
element!(
    Complex64,
    C64,
    f64,
    zgemm,
    complex_64,
    |x| x,
    |x: Complex64| Complex64::new(x.re, -x.im)
);

#[cfg(test)]
mod tests {
    use super::*;

    fn keeps_its_value<T: Element>(value: Complex64) {
        let element = T::of(value);
        assert_eq!(element.value(), value);
        assert_eq!(element.conj().value(), value.conj());
        assert_eq!(element * T::ONE + T::ZERO, element);
        let zeros = vec![0u8; size_of::<T>()];
        assert_eq!(bytemuck::pod_read_unaligned::<T>(&zeros), T::ZERO);
        assert_eq!(
            (T::TYPE.bytes(), T::TYPE.is_complex()),
            (size_of::<T>(), T::of(Complex64::I) != T::ZERO)
        );
        let next = T::of(Complex64::new(1.0 + T::EPSILON, 0.0));
        let between = T::of(Complex64::new(1.0 + T::EPSILON / 4.0, 0.0));
        assert!(next != T::ONE && between == T::ONE);
    }

    #[test]
    fn elements_are_numbers() {
        keeps_its_value::<f32>(Complex64::new(-2.5, 0.0));
        keeps_its_value::<f64>(Complex64::new(1e300, 0.0));
        keeps_its_value::<Complex32>(Complex64::new(3.0, -0.5));
        keeps_its_value::<Complex64>(Complex64::new(1e-200, 7.0));
    }

    #[test]
    fn the_smallest_type_of_both_is_found() {
        use ElementType::{C32, C64, F32, F64};
        let cases = [
            (F32, F64, F64),
            (F32, C32, C32),
            (F64, C32, C64),
            (C64, F32, C64),
        ];
        for (one, other, both) in cases {
            assert_eq!([one.and(other), other.and(one)], [both; 2]);
            assert_eq!(one.and(one), one);
        }
    }

    #[test]
    fn types_are_read_by_their_names() {
        for kind in ElementType::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
            assert_eq!(kind.flop() == 8.0, kind.name().starts_with('c'));
        }
        assert!("double".parse::<ElementType>().unwrap_err().contains("c64"));
    }
}
