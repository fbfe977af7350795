//! The types of matrix elements.

use crate::{Blas, BlasGemm, Updates, Worker};
use num_complex::{Complex32, Complex64, ComplexFloat};
use num_traits::{ConstOne, ConstZero};
use serde::{Deserialize, Serialize};
use std::fmt;
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

/// The name of an element type, in Rust and in files: `f32`, `f64`, `c32` or `c64`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
#[derive(Display, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase", parse_err_ty = String, parse_err_fn = unknown_type)]
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

fn unknown_type(text: &str) -> String {
    format!("unknown element type `{text}`: use f32, f64, c32 or c64")
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
        match (self, other) {
            (Self::F64, Self::C32) | (Self::C32, Self::F64) => Self::C64,
            // Of any other two the later one holds both.
            _ => self.max(other),
        }
    }
}

/// A type of elements: `f32`, `f64`, and complex numbers of them. [`ConstZero`] and [`ConstOne`] give their 0 and 1.
///
/// Every pattern of bits is a value of such a type, so any initialised memory can be read as elements and sent in
/// messages. All bits zero are the number 0.
pub trait Scalar:
    bytemuck::Pod
    + ComplexFloat<Real: Into<f64>>
    + ConstZero
    + ConstOne
    + Default
    + Send
    + Sync
    + fmt::Debug
    + sealed::Sealed
{
    /// The name of the type.
    const TYPE: ElementType;
    /// The distance from 1 to the next larger real number of its precision.
    const EPSILON: f64;
    /// The smallest positive normal number of its precision.
    const SMALLEST_NORMAL: f64;

    /// Returns the element nearest to `value`; of a real type, nearest to its real part.
    fn of(value: Complex64) -> Self;

    /// Returns its exact value.
    fn value(self) -> Complex64 {
        Complex64::new(self.re().into(), self.im().into())
    }

    /// Selects the multiplication of `blas` for this type.
    fn select_gemm(blas: &dyn Blas) -> &dyn BlasGemm<Self>;

    /// Selects the arithmetic of a device with elements of this type.
    fn updates(worker: &mut dyn Worker) -> &mut dyn Updates<Self>;
}

mod sealed {
    /// Only the types that this module names are elements: their [`TYPE`](super::Scalar::TYPE) selects foreign
    /// functions.
    pub trait Sealed {}
}

macro_rules! element {
    ($element:ty, $type:ident, $real:ty, |$value:ident| $of:expr) => {
        impl sealed::Sealed for $element {}

        impl Scalar for $element {
            const TYPE: ElementType = ElementType::$type;
            const EPSILON: f64 = <$real>::EPSILON as f64;
            const SMALLEST_NORMAL: f64 = <$real>::MIN_POSITIVE as f64;

            fn of($value: Complex64) -> Self {
                $of
            }

            fn select_gemm(blas: &dyn Blas) -> &dyn BlasGemm<Self> {
                blas
            }

            fn updates(worker: &mut dyn Worker) -> &mut dyn Updates<Self> {
                worker
            }
        }
    };
}

element!(f32, F32, f32, |value| value.re as f32);
element!(f64, F64, f64, |value| value.re);
element!(Complex32, C32, f32, |value| Complex32::new(
    value.re as f32,
    value.im as f32
));
element!(Complex64, C64, f64, |value| value);

#[cfg(test)]
mod tests {
    use super::*;

    fn keeps_its_value<T: Scalar>(value: Complex64) {
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
            assert_eq!(kind.flop() == 8.0, kind.to_string().starts_with('c'));
        }
        assert!("double".parse::<ElementType>().unwrap_err().contains("c64"));
    }
}
