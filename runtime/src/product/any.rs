//! Products whose element type is known at run time only, as in an interface to another language.

use isochron_devices::ElementType;
use num_complex::{Complex32, Complex64};

use super::{Product, ProductOf, RunConfig};
use crate::error::Error;
use crate::plan::Plan;
use crate::product::Element;
use crate::session::Session;

/// A [`Product`] of elements whose type is known at run time only.
#[derive(Debug)]
pub enum AnyProduct {
    /// Elements of [`ElementType::F32`].
    F32(Product<f32>),
    /// Elements of [`ElementType::F64`].
    F64(Product<f64>),
    /// Elements of [`ElementType::C32`].
    C32(Product<Complex32>),
    /// Elements of [`ElementType::C64`].
    C64(Product<Complex64>),
}

/// Work with a product that is written once for all types of elements. [`AnyProduct::apply`] does it.
pub trait ProductWork {
    /// The result of the work.
    type Output;

    /// Does the work with a product of one type.
    fn apply_to<T: Element>(self, product: &mut Product<T>) -> Self::Output;
}

impl AnyProduct {
    /// Prepares a product of elements of this type, as [`Session::prepare`] does.
    ///
    /// # Errors
    /// Returns the errors of [`Session::prepare`].
    ///
    /// # Collective
    /// All ranks, with the same arguments.
    pub fn prepare<'p>(
        session: &mut Session,
        element: ElementType,
        of: impl Into<ProductOf<'p>>,
    ) -> Result<Self, Error> {
        let (of, config) = (of.into(), RunConfig::default());
        Ok(match element {
            ElementType::F32 => Self::F32(session.prepare(of, config)?),
            ElementType::F64 => Self::F64(session.prepare(of, config)?),
            ElementType::C32 => Self::C32(session.prepare(of, config)?),
            ElementType::C64 => Self::C64(session.prepare(of, config)?),
        })
    }

    /// Returns the plan, as [`Product::plan`] does.
    pub fn plan(&self) -> &Plan {
        match self {
            Self::F32(product) => product.plan(),
            Self::F64(product) => product.plan(),
            Self::C32(product) => product.plan(),
            Self::C64(product) => product.plan(),
        }
    }

    /// Does work with the product.
    pub fn apply<W: ProductWork>(&mut self, work: W) -> W::Output {
        match self {
            Self::F32(product) => work.apply_to(product),
            Self::F64(product) => work.apply_to(product),
            Self::C32(product) => work.apply_to(product),
            Self::C64(product) => work.apply_to(product),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::LocalComm;
    use crate::matrix::Distribution;
    use crate::product::{Factors, Scalars};

    /// Multiplies a number by another one.
    struct Times<'s>(&'s mut Session, [f64; 2]);

    impl ProductWork for Times<'_> {
        type Output = (ElementType, Complex64);

        fn apply_to<T: Element>(self, product: &mut Product<T>) -> Self::Output {
            let [a, b] = self.1.map(|value| [T::of(Complex64::new(0.0, value))]);
            let mut c = [T::ZERO];
            let factors = Factors::of((&a, 1), (&b, 1));
            let run = product.run(self.0, Scalars::PRODUCT, factors, (&mut c, 1));
            assert_eq!(run.unwrap().in_place, [true; 3]);
            (T::TYPE, c[0].value())
        }
    }

    #[test]
    fn each_type_multiplies_its_own_elements() {
        let mut session = Session::builder().build(LocalComm::new()).unwrap();
        let on = Distribution::on_one(1, 1, 0, 1).unwrap();
        for element in ElementType::ALL {
            let mut product = AnyProduct::prepare(&mut session, element, [&on; 3]).unwrap();
            assert_eq!(product.plan().problem().element(), element);
            // Real elements have no imaginary part.
            let wanted = if element.is_complex() { -6.0 } else { 0.0 };
            let done = product.apply(Times(&mut session, [2.0, 3.0]));
            assert_eq!(done, (element, Complex64::new(wanted, 0.0)));
        }
    }
}
