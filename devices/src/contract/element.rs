//! The types of matrix elements.

use crate::contract::{Blas, BlasGemm, Updates, Worker};
use isochron_hierarchy::problem::ElementType;
use num_complex::{Complex32, Complex64, ComplexFloat};
use num_traits::{ConstOne, ConstZero};
use std::fmt;

/// Evaluates an expression in which `T` is the type of the elements, known at run time only.
///
/// ```
/// use isochron_devices::{ElementType, with_element};
///
/// assert_eq!(with_element!(ElementType::C64, T => size_of::<T>()), 16);
/// ```
#[macro_export]
macro_rules! with_element {
    ($element:expr, $T:ident => $work:expr) => {
        match $element {
            $crate::ElementType::F32 => {
                type $T = f32;
                $work
            }
            $crate::ElementType::F64 => {
                type $T = f64;
                $work
            }
            $crate::ElementType::C32 => {
                type $T = $crate::num_complex::Complex32;
                $work
            }
            $crate::ElementType::C64 => {
                type $T = $crate::num_complex::Complex64;
                $work
            }
        }
    };
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
element!(Complex32, C32, f32, |value| Complex32::new(value.re as f32, value.im as f32));
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
}
