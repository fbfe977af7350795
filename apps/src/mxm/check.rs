//! The check of the result.

use isochron_core::Error;
use isochron_core::comm::Comm;
use isochron_core::matrix::{Matrix, Operand};
use isochron_core::product::Scalars;
use isochron_core::report::VerifyReport;
use isochron_core::verify::{Exact, Probe, Recall};
use isochron_devices::Scalar;

use super::options::{MxmArguments, Verify};

/// A check of the result that has begun.
pub(super) enum Check<T> {
    None,
    Probe(Box<Probe<T>>),
    Exact(Exact<T>),
}

impl<T: Scalar> Check<T> {
    /// Begins the check that `--verify` asks for. A and B are given if they are whole.
    pub(super) fn begin(
        comm: &dyn Comm,
        arguments: &MxmArguments,
        scalars: Scalars<T>,
        c: &Matrix<T>,
        factors: Option<[Operand<'_, T>; 2]>,
    ) -> Result<Self, Error> {
        let seed = arguments.seed;
        Ok(match arguments.verify {
            Verify::None => Check::None,
            Verify::Probe => Check::Probe(Box::new(Probe::begin(comm, scalars, c, factors, seed)?)),
            Verify::Exact => Check::Exact(Exact::begin(comm, scalars, c, seed)?),
        })
    }

    /// Adds A and B, or a part of k of them.
    pub(super) fn add(
        &mut self,
        comm: &dyn Comm,
        operands: [Operand<'_, T>; 2],
    ) -> Result<(), Error> {
        match self {
            Check::None => {}
            Check::Probe(probe) => probe.add(comm, operands)?,
            Check::Exact(exact) => exact.add(comm, operands)?,
        }
        Ok(())
    }

    /// Ends the check, with [`Verdict::passed`]; `None` if none was asked for. `again` makes the matrices that the result has come from.
    pub(super) fn finish(
        self,
        comm: &dyn Comm,
        c: &Matrix<T>,
        again: &mut dyn Recall<T>,
    ) -> Result<Option<(VerifyReport, Option<bool>)>, Error> {
        let (method, verdict) = match self {
            Check::None => return Ok(None),
            Check::Probe(probe) => ("probe", probe.finish(comm, c, Some(again))?),
            Check::Exact(exact) => ("exact", exact.finish(comm, c)?),
        };
        let report = VerifyReport {
            method: method.to_string(),
            residual: Some(verdict.residual).filter(|residual| residual.is_finite()),
            finds: verdict.finds.filter(|finds| finds.is_finite()),
            doubt: verdict.doubt,
        };
        Ok(Some((report, verdict.passed)))
    }
}
