//! The check of the result.

use isochron_core::Error;
use isochron_core::comm::Comm;
use isochron_core::matrix::{Matrix, Operand};
use isochron_core::multiply::Scalars;
use isochron_core::session::VerifyReport;
use isochron_core::verify::{Exact, Probe, Verdict};
use isochron_devices::Scalar;

use super::{MxmArguments, Verify};

/// A check of the result that has begun.
pub(super) enum Check<T> {
    None,
    Probe(Probe<T>),
    Exact(Exact<T>),
}

impl<T: Scalar> Check<T> {
    /// Begins the check that `--verify` asks for.
    pub(super) fn begin(
        comm: &dyn Comm,
        arguments: &MxmArguments,
        scalars: Scalars<T>,
        c: &Matrix<T>,
    ) -> Result<Self, Error> {
        Ok(match arguments.verify {
            Verify::None => Check::None,
            Verify::Probe => Check::Probe(Probe::begin(scalars, c, arguments.seed)),
            Verify::Exact => Check::Exact(Exact::begin(comm, scalars, c, arguments.seed)?),
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

    /// Ends the check; `None` if none was asked for.
    pub(super) fn finish(
        self,
        comm: &dyn Comm,
        c: &Matrix<T>,
    ) -> Result<Option<(VerifyReport, bool)>, Error> {
        let (method, Verdict { passed, residual }) = match self {
            Check::None => return Ok(None),
            Check::Probe(probe) => ("probe", probe.finish(comm, c)?),
            Check::Exact(exact) => ("exact", exact.finish(comm, c)?),
        };
        Ok(Some((
            VerifyReport {
                method: method.to_string(),
                residual: residual.is_finite().then_some(residual),
            },
            passed,
        )))
    }
}
