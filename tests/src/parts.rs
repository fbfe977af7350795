//! A and B in parts of k, each made in its turn and held no longer. Functions are as in [`cases`](crate::cases).

use std::sync::Arc;

use isochron::Error;
use isochron::comm::Comm;
use isochron::matrix::{Generator, Matrix, Op, Spread};
use isochron::plan::{PartOfK, Plan, Problem};
use isochron::product::{Element, MakePart, Scalars};
use isochron::product::{Factors, RunConfig};
use isochron::session::Session;
use isochron_devices::Scalar;
use num_complex::Complex64;

use crate::cases::{Case, SEEDS, assert_counted, integers, open, plan_on_nth, scale};
use crate::covering::{Coverage, LIBRARIES};
use crate::disturbed::{DeviceCall, failing_team};

const SCALARS: Scalars<Complex64> = scale(Complex64::new(2.0, 1.0), Complex64::new(-1.0, 0.0));

const OPS: [[Op; 2]; 4] = [[Op::N, Op::N], [Op::T, Op::C], [Op::C, Op::N], [Op::N, Op::T]];

/// Numbers of parts, of which there are 9 at most.
const K_PARTS: [usize; 4] = [1, 2, 4, 100];

/// A part of a factor, so that the operation on the whole factor has the generator's elements.
pub(crate) fn make<T: Element>(
    comm: &dyn Comm,
    spread: Spread,
    op: Op,
    seed: u64,
) -> Result<Matrix<T>, Error> {
    let generator: Generator = integers(seed);
    let mut matrix = Matrix::zeros(spread, comm.rank())?;
    matrix.fill(|row, col| match op {
        Op::N => generator.element(row, col),
        Op::T => generator.element(col, row),
        Op::C => generator.element::<T>(col, row).conj(),
    });
    Ok(matrix)
}

/// Plans on the layout of this number, with A and B in `k_parts` parts of k.
fn plan(comm: &dyn Comm, ops: [Op; 2], layout: usize, k_parts: usize) -> Plan {
    let problem = Problem::new(37, 41, 53, 4).unwrap().with_panel(6).unwrap();
    let problem = problem.with_element(Complex64::TYPE).with_ops(ops);
    plan_on_nth(comm, problem, layout).with_k_parts(k_parts).unwrap()
}

/// Multiplies with several operations on all layouts, in one part, some, and one for each step. Every element is right,
/// A and B are made once, and no more of them is held than the plan says.
pub fn in_parts(shared: &Arc<dyn Comm>, coverage: Coverage) -> usize {
    let comm = shared.as_ref();
    let mut session = open(shared);
    let levels = [OPS.len(), 4, K_PARTS.len(), LIBRARIES.len()];
    let rows = coverage.rows_of_library(comm, levels);
    for &[ops, layout, k_parts, _] in &rows {
        let (ops, k_parts) = (OPS[ops], K_PARTS[k_parts]);
        let plan = plan(comm, ops, layout, k_parts);
        assert_eq!(plan.k_parts(), k_parts.min(9));
        let mut case: Case<Complex64> = Case::new(comm, plan, integers);
        let check = case.exact_check(comm, SCALARS, 4);
        let (mut next, mut elements) = (0, [0, 0]);
        let mut parts = |part: &PartOfK| {
            assert_eq!(part.first(), next, "parts come one after the other");
            next += part.plan().problem().k();
            let factors =
                (make(comm, part.a(), ops[0], SEEDS[0])?, make(comm, part.b(), ops[1], SEEDS[1])?);
            elements[0] += factors.0.part().len() as u64;
            elements[1] += factors.1.part().len() as u64;
            Ok(factors)
        };
        let plan = &case.plan;
        let mut product = session.prepare(plan, RunConfig::default()).unwrap();
        let factors = Factors::made(&mut parts);
        let run = product.run(&mut session, SCALARS, factors, &mut case.c);
        let execution = run.unwrap().execution;
        assert_counted(comm, plan, &execution);
        comm.sum_u64(&mut elements).unwrap();
        assert_eq!((next, elements), (53, [37 * 53, 53 * 41]));
        case.assert_reference(SCALARS, comm);
        let verdict = check.finish(comm, &case.c).unwrap();
        assert_eq!(verdict.passed, Some(true), "{}", case.label(comm));
    }
    rows.len()
}

/// Returns the message of a multiplication that fails.
fn failure(
    session: &mut Session,
    case: &mut Case<Complex64>,
    parts: &mut MakePart<'_, Complex64>,
) -> String {
    let mut product = session.prepare(&case.plan, RunConfig::default()).unwrap();
    let factors = Factors::made(parts);
    let run = product.run(session, SCALARS, factors, &mut case.c);
    run.unwrap_err().to_string()
}

/// A part that one rank cannot make is an error of all of them, and so is one that is not what the plan says; the next
/// multiplication is right.
pub fn parts_that_fail(shared: &Arc<dyn Comm>) -> usize {
    let comm = shared.as_ref();
    let last = comm.size() - 1;
    for is_wrong in [false, true] {
        let mut case: Case<Complex64> = Case::new(comm, plan(comm, [Op::N; 2], 0, 3), integers);
        let mut made = 0;
        let mut parts = |part: &PartOfK| {
            made += 1;
            let b = make(comm, part.b(), Op::N, SEEDS[1])?;
            if made == 2 && comm.rank() == last {
                if is_wrong {
                    return Ok((make(comm, part.b(), Op::N, SEEDS[0])?, b));
                }
                return Err(Error::output("a part", "the part is lost"));
            }
            Ok((make(comm, part.a(), Op::N, SEEDS[0])?, b))
        };
        let mut session = open(shared);
        let text = failure(&mut session, &mut case, &mut parts);
        let expected = if is_wrong { "matrix A is not spread" } else { "the part is lost" };
        assert!(text.contains(expected), "{text}");
        assert_eq!(made, 2);
        let whole = case.plan.clone().with_k_parts(1).unwrap();
        let mut case: Case<Complex64> = Case::new(comm, whole, integers);
        case.multiply(&mut session, SCALARS);
        case.assert_reference(SCALARS, comm);
    }
    2
}

/// A device of one rank fails in the second part: all ranks leave with its name, and no further part is made.
pub fn devices_that_fail_in_a_part(shared: &Arc<dyn Comm>) -> usize {
    let comm = shared.as_ref();
    let mut case: Case<Complex64> = Case::new(comm, plan(comm, [Op::N; 2], 0, 3), integers);
    let mut made = 0;
    let mut parts = |part: &PartOfK| {
        made += 1;
        Ok((make(comm, part.a(), Op::N, SEEDS[0])?, make(comm, part.b(), Op::N, SEEDS[1])?))
    };
    // Of nine steps the fourth to the sixth are in the second part.
    let mut session =
        Session::of_team(Arc::clone(shared), failing_team(comm, DeviceCall::Update(4)));
    let text = failure(&mut session, &mut case, &mut parts);
    assert!(text.contains("second") && text.contains("made to fail"), "{text}");
    assert_eq!(made, 2);
    1
}
