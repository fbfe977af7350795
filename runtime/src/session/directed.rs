//! Multiplications whose parts change in mid-run, within the memory of the hosts.

use isochron_devices::{Element, memory_bounds};

use super::Session;
use super::memory::{MemoryNeed, share_memory};
use crate::comm::Comm;
use crate::error::Error;
use crate::matrix::Matrix;
use crate::multiply::{Directive, Director, Execution, Factors, Plan, Scalars, StepTimes};

/// A director whose changes need the hosts' consent.
struct MemoryKeeper<'d> {
    director: &'d mut dyn Director,
}

impl Director for MemoryKeeper<'_> {
    fn count_first_steps(&mut self) -> usize {
        self.director.count_first_steps()
    }

    fn decide(&mut self, at: &StepTimes<'_>) -> Result<Directive, Error> {
        self.director.decide(at)
    }

    fn check_memory(&mut self, comm: &dyn Comm, bytes: u64) -> Result<(), Error> {
        let need = MemoryNeed {
            bytes,
            ..MemoryNeed::default()
        };
        share_memory(comm, need, &memory_bounds())?;
        self.director.check_memory(comm, bytes)
    }

    fn note_refusal(&mut self, reason: &Error) {
        self.director.note_refusal(reason);
    }
}

impl Session<'_> {
    /// Multiplies as [`multiply`](Self::multiply) and [`multiply_in_parts`](Self::multiply_in_parts) do, with parts that
    /// `director` changes in mid-run. A change for which a host has no memory is refused.
    ///
    /// ```
    /// use isochron::comm::LocalComm;
    /// use isochron::matrix::{Generator, Matrix};
    /// use isochron::multiply::{Directive, Director, Factors, Problem, Scalars, StepTimes};
    /// use isochron::session::{Session, SessionConfig};
    /// use isochron::Error;
    /// use isochron_hierarchy::balance::BalanceConfig;
    ///
    /// /// Gives the last device the first one's columns, and the other way round.
    /// struct Swap;
    /// impl Director for Swap {
    ///     fn count_first_steps(&mut self) -> usize {
    ///         1
    ///     }
    ///     fn decide(&mut self, at: &StepTimes<'_>) -> Result<Directive, Error> {
    ///         let mut next = at.assignment.clone();
    ///         next.slices.iter_mut().for_each(|slices| slices.reverse());
    ///         let steps = at.steps;
    ///         Ok(Directive { change: Some(next), steps })
    ///     }
    /// }
    ///
    /// let comm = LocalComm::new();
    /// let mut session = Session::new(&comm, &SessionConfig::default())?;
    /// let problem = Problem::new(96, 80, 160, 16)?.with_panel(16)?;
    /// let plan = session.plan(problem, &BalanceConfig::default())?;
    /// let a = Matrix::generate(plan.a(), 0, Generator::Uniform { seed: 1 })?;
    /// let b = Matrix::generate(plan.b(), 0, Generator::Uniform { seed: 2 })?;
    /// let mut c = session.zeros(&plan)?;
    /// let scalars = Scalars { alpha: 1.0, beta: 0.0 };
    /// let factors = Factors::Held((&a, &b));
    /// let execution = session.multiply_directed(&plan, scalars, factors, &mut c, &mut Swap)?;
    /// assert!(execution.changes.len() <= 1);
    /// # Ok::<(), isochron::Error>(())
    /// ```
    ///
    /// # Errors
    /// As those; and those of the director.
    ///
    /// # Collective
    /// All ranks, with the same plan and scalars.
    pub fn multiply_directed<T: Element>(
        &mut self,
        plan: &Plan,
        scalars: Scalars<T>,
        factors: Factors<'_, '_, T>,
        c: &mut Matrix<T>,
        director: &mut dyn Director,
    ) -> Result<Execution, Error> {
        let mut keeper = MemoryKeeper { director };
        self.multiplication(plan)
            .with_director(&mut keeper)
            .run(scalars, factors, c)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::LocalComm;

    /// Has all memory, and changes nothing.
    struct Still;

    impl Director for Still {
        fn count_first_steps(&mut self) -> usize {
            1
        }

        fn decide(&mut self, _at: &StepTimes<'_>) -> Result<Directive, Error> {
            Err(Error::Shape("nothing is decided".to_owned()))
        }
    }

    #[test]
    fn a_change_that_no_host_has_memory_for_is_refused() {
        let comm = LocalComm::new();
        let mut keeper = MemoryKeeper {
            director: &mut Still,
        };
        assert!(keeper.check_memory(&comm, 1).is_ok());
        let refused = keeper.check_memory(&comm, u64::MAX / 2);
        assert!(
            memory_bounds().is_empty() || matches!(refused, Err(Error::Memory { .. })),
            "{refused:?}"
        );
    }
}
