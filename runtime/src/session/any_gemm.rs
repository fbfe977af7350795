//! Products whose element type is known at run time only.

use isochron_devices::ElementType;
use num_complex::{Complex32, Complex64};

use super::{Gemm, GemmConfig, Session};
use crate::error::Error;
use crate::matrix::Distribution;
use crate::multiply::{Element, Plan};

/// A [`Gemm`] of elements whose type is known at run time only, as in an interface to another language.
///
/// ```
/// use isochron::prelude::*;
///
/// let mut session = Session::builder().build(LocalComm::new())?;
/// let square = Distribution::on_one(2, 2, 0, 1)?;
/// let on = [&square; 3];
/// let element: ElementType = "f32".parse().map_err(Error::Settings)?; // of a file or of a command line, for example
/// let mut product = session.prepare_any_gemm(element, on, &GemmConfig::default())?;
/// assert_eq!(product.element(), ElementType::F32);
/// if let AnyGemm::F32(gemm) = &mut product {
///     let (a, b, mut c) = ([1_f32, 3.0, 2.0, 4.0], [5_f32, 7.0, 6.0, 8.0], [0_f32; 4]);
///     gemm.run(&mut session, Scalars::PRODUCT, (&a, 2), (&b, 2), (&mut c, 2))?;
///     assert_eq!(c, [19.0, 43.0, 22.0, 50.0]);
/// }
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub enum AnyGemm {
    /// Elements of [`ElementType::F32`].
    F32(Gemm<f32>),
    /// Elements of [`ElementType::F64`].
    F64(Gemm<f64>),
    /// Elements of [`ElementType::C32`].
    C32(Gemm<Complex32>),
    /// Elements of [`ElementType::C64`].
    C64(Gemm<Complex64>),
}

/// Work with a product that is written once for all types of elements. [`AnyGemm::apply`] does it.
pub trait GemmWork {
    /// The result of the work.
    type Output;

    /// Does the work with a product of one type.
    fn apply_to<T: Element>(self, gemm: &mut Gemm<T>) -> Self::Output;
}

impl AnyGemm {
    /// Returns the type of the elements.
    pub fn element(&self) -> ElementType {
        match self {
            Self::F32(_) => ElementType::F32,
            Self::F64(_) => ElementType::F64,
            Self::C32(_) => ElementType::C32,
            Self::C64(_) => ElementType::C64,
        }
    }

    /// Returns the plan, as [`Gemm::plan`] does.
    pub fn plan(&self) -> &Plan {
        match self {
            Self::F32(gemm) => gemm.plan(),
            Self::F64(gemm) => gemm.plan(),
            Self::C32(gemm) => gemm.plan(),
            Self::C64(gemm) => gemm.plan(),
        }
    }

    /// Does work with the product.
    pub fn apply<W: GemmWork>(&mut self, work: W) -> W::Output {
        match self {
            Self::F32(gemm) => work.apply_to(gemm),
            Self::F64(gemm) => work.apply_to(gemm),
            Self::C32(gemm) => work.apply_to(gemm),
            Self::C64(gemm) => work.apply_to(gemm),
        }
    }
}

impl Session {
    /// Plans a product of elements of a type that is known at run time only. Otherwise as
    /// [`prepare_gemm`](Self::prepare_gemm).
    ///
    /// # Errors
    /// As [`prepare_gemm`](Self::prepare_gemm).
    ///
    /// # Collective
    /// All ranks, with the same arguments.
    pub fn prepare_any_gemm(
        &mut self,
        element: ElementType,
        on: [&Distribution; 3],
        config: &GemmConfig,
    ) -> Result<AnyGemm, Error> {
        Ok(match element {
            ElementType::F32 => AnyGemm::F32(self.prepare_gemm(on, config)?),
            ElementType::F64 => AnyGemm::F64(self.prepare_gemm(on, config)?),
            ElementType::C32 => AnyGemm::C32(self.prepare_gemm(on, config)?),
            ElementType::C64 => AnyGemm::C64(self.prepare_gemm(on, config)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::LocalComm;
    use crate::multiply::Scalars;

    /// Multiplies a number by another one.
    struct Times<'s>(&'s mut Session, [f64; 2]);

    impl GemmWork for Times<'_> {
        type Output = (ElementType, Complex64);

        fn apply_to<T: Element>(self, gemm: &mut Gemm<T>) -> Self::Output {
            let [a, b] = self.1.map(|value| [T::of(Complex64::new(0.0, value))]);
            let mut c = [T::ZERO];
            let scalars = Scalars::PRODUCT;
            let run = gemm.run(self.0, scalars, (&a, 1), (&b, 1), (&mut c, 1));
            assert_eq!(run.unwrap().in_place, [true; 3]);
            (T::TYPE, c[0].value())
        }
    }

    #[test]
    fn each_type_multiplies_its_own_elements() {
        let mut session = Session::builder().build(LocalComm::new()).unwrap();
        let on = Distribution::on_one(1, 1, 0, 1).unwrap();
        for element in ElementType::ALL {
            let config = GemmConfig::default();
            let mut product = session.prepare_any_gemm(element, [&on; 3], &config);
            let product = product.as_mut().unwrap();
            assert_eq!(product.element(), element);
            assert_eq!(product.plan().problem().element(), element);
            // Real elements have no imaginary part.
            let wanted = if element.is_complex() { -6.0 } else { 0.0 };
            let done = product.apply(Times(&mut session, [2.0, 3.0]));
            assert_eq!(done, (element, Complex64::new(wanted, 0.0)));
        }
    }
}
