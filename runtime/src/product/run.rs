//! The run of a product: the places of its matrices, their moves, and the multiplication.

use std::sync::Arc;

use isochron_devices::ViewMut;

use super::director::Director;
use super::factors::{CHere, FactorsHere, MatrixPlace, PlacedProduct};
use super::memory::RunMemory;
use super::mover::MatrixMover;
use super::summa::FactorSource;
use super::{Element, Factors, Product, ProductRun, Scalars, Target};
use crate::comm::{Comm, EnteredCall, add_setting, agree, enter_call, hash_arguments};
use crate::error::Error;
use crate::matrix::redistribute::Moved;
use crate::plan::{A, B, Plan};
use crate::session::Session;

impl<T: Element> Product<T> {
    /// Runs the product as [`run`](Self::run) does, with a division that `director` changes, if there is one.
    pub(super) fn run_with<'m>(
        &mut self,
        session: &mut Session,
        scalars: Scalars<T>,
        factors: Factors<'m, T>,
        c: Target<'m, T>,
        director: Option<&mut dyn Director>,
    ) -> Result<ProductRun, Error> {
        let _log = session.begin_log();
        let comm = Arc::clone(session.comm());
        self.plan.check_ranks(comm.size())?;
        let places = [factors.place(A), factors.place(B), c.place()];
        let prepared = self.prepare_run(session, factors, c);
        let (_call, placed) = self.enter(comm.as_ref(), scalars, places, prepared)?;
        self.multiply(session, scalars, placed, director)
    }

    /// Checks the memory of this rank, and makes memory that is missing. Returns A and B in the order of the plan's problem, and C,
    /// on this rank alone.
    fn prepare_run<'m>(
        &mut self,
        session: &mut Session,
        factors: Factors<'m, T>,
        c: Target<'m, T>,
    ) -> Result<PlacedProduct<'m, T>, Error> {
        let rank = session.comm().rank();
        let placed = PlacedProduct {
            factors: self.place_factors(factors, rank)?,
            c: self.place_c(c, rank)?,
        };
        T::renew(&mut self.memory, session.team(), &self.plan, rank)?;
        Ok(placed)
    }

    /// Enters the run, if all ranks have the same product, scalars and places of matrices, and none has failed to prepare it.
    fn enter<'c, 'm>(
        &self,
        comm: &'c dyn Comm,
        scalars: Scalars<T>,
        places: [&'static str; 3],
        prepared: Result<PlacedProduct<'m, T>, Error>,
    ) -> Result<(EnteredCall<'c>, PlacedProduct<'m, T>), Error> {
        let mut arguments = scalars.describe();
        add_setting(&mut arguments, "places of A, B and C", &places);
        let run = if self.has_run { "a later one" } else { "the first" };
        add_setting(&mut arguments, "run", &run);
        let number = hash_arguments(&(self.number, &arguments));
        let describe = || {
            arguments.extend(self.arguments.clone());
            arguments
        };
        enter_call(comm, "multiplying", number, describe, prepared)
    }

    /// Brings A and B to their places in the plan, multiplies, and brings C back.
    fn multiply(
        &mut self,
        session: &mut Session,
        scalars: Scalars<T>,
        placed: PlacedProduct<'_, T>,
        director: Option<&mut dyn Director>,
    ) -> Result<ProductRun, Error> {
        let comm = Arc::clone(session.comm());
        let is_transposed = self.is_transposed();
        let mut mover = MatrixMover {
            comm: comm.as_ref(),
            buffers: &mut self.buffers,
            moved: Moved::default(),
        };
        let mut in_place = [true, true, placed.c.is_here()];
        let [room_a, room_b, room_c] = &mut self.rooms;
        let [moves_a, moves_b, moves_c, returns_c] = &mut self.moves;
        let [of_a, of_b, of_c] = &self.planned;
        let (a, b);
        let source = match placed.factors {
            FactorsHere::Made(make) => FactorSource::Made(make),
            FactorsHere::Whole([placed_a, placed_b]) => {
                (in_place[A], in_place[B]) = (placed_a.is_here(), placed_b.is_here());
                let is_read = scalars.alpha != T::ZERO;
                a = mover.bring(placed_a, &self.on[A], of_a, room_a, moves_a, is_read)?;
                b = mover.bring(placed_b, &self.on[B], of_b, room_b, moves_b, is_read)?;
                FactorSource::Held(&a, &b)
            }
        };
        let mut run = RunSetup {
            plan: &self.plan,
            scalars,
            source,
            memory: &mut self.memory,
            // Moving a matrix lets ranks begin at different times.
            is_in_step: in_place == [true; 3],
            has_run: std::mem::replace(&mut self.has_run, true),
            leaves_c: self.config.leaves_c,
            // A borrow as long as the others of the set-up.
            director: director.map(|director| director as &mut dyn Director),
        };
        let execution = match placed.c {
            MatrixPlace::Here(CHere::Matrix(c)) => session.run_product(run, c)?,
            MatrixPlace::Here(CHere::Lent(mut c)) => {
                run.leaves_c = false;
                let execution = session.run_product(run, &mut c)?;
                c.return_to_lender();
                execution
            }
            MatrixPlace::Elsewhere(pieces) => {
                run.leaves_c = false;
                // After a failure C may be anywhere, so the room is dropped and the next run makes another.
                let mut room = match room_c.take() {
                    Some(room) => room,
                    None => agree(comm.as_ref(), session.make_zeros(&self.plan))?,
                };
                if scalars.beta != T::ZERO {
                    let shown = pieces.iter().map(ViewMut::rb).collect();
                    mover.gather(&self.on[2], shown, of_c, &mut room, moves_c)?;
                }
                let execution = session.run_product(run, &mut room)?;
                mover.scatter(of_c, &room, &self.on[2], pieces, returns_c)?;
                *room_c = Some(room);
                execution
            }
        };
        if is_transposed {
            in_place.swap(A, B);
        }
        Ok(ProductRun { execution, moved: mover.moved, in_place })
    }
}

/// A run of a product whose ranks have agreed on plan, scalars and memory.
pub(crate) struct RunSetup<'r, 'm, T: 'static> {
    pub plan: &'r Plan,
    pub scalars: Scalars<T>,
    pub source: FactorSource<'r, 'm, T>,
    pub memory: &'r mut RunMemory<T>,
    /// `true` if the ranks have just agreed, and need not wait for each other.
    pub is_in_step: bool,
    /// `true` if the product has run before.
    pub has_run: bool,
    /// C may stay where its last step was computed.
    pub leaves_c: bool,
    /// The director of a test. Without one, the run learns if the plan leaves decisions to it.
    pub director: Option<&'r mut dyn Director>,
}
