//! Ranks that call with other arguments than the others.

use std::sync::Arc;

use isochron::comm::{Comm, LocalComm, share_outcome};
use isochron::matrix::redistribute::RedistributeConfig;
use isochron::matrix::{Generator, Matrix, Spread, Stored};
use isochron::plan::{Plan, Problem};
use isochron::product::Scalars;
use isochron::product::{Factors, Product, RunConfig};
use isochron::rebalance::measure_move_unit_s;
use isochron::report::Report;
use isochron::session::Session;
use isochron::verify::Probe;
use isochron::{Error, ErrorClass};
use isochron_devices::MeasureConfig;
use isochron_hierarchy::balance::BalanceConfig;

use super::{OwnMpi, SCALARS, open_session, unmeasured};

/// Expects the same refusal on every rank, with these words.
fn assert_refused<T>(refused: Result<T, Error>, parts: &[&str]) {
    let error = refused.err().expect("a refusal");
    assert_eq!(error.class(), ErrorClass::Input, "{error}");
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_in_words(&text);
}

/// Checks that a text is in words of all languages: it has no marks of Rust's, and no numbers by which values are compared.
fn assert_in_words(text: &str) {
    let mark = ["{", "::", "\u{1f}", "Some(", "None"].into_iter().find(|mark| text.contains(mark));
    let mut words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    let hash = words.find(|word| word.len() >= 8 && word.chars().all(|c| c.is_ascii_hexdigit()));
    assert!(mark.is_none() && hash.is_none(), "{mark:?} {hash:?}: {text}");
}

/// Ranks that call with other arguments than the others are told so, with the argument, and none waits. The session can be
/// used afterwards.
pub(super) fn compare_arguments() {
    let mpi = OwnMpi::funneled();
    let comm = mpi.adopt().unwrap();
    let odd = usize::from(mpi.rank == 1);
    let others = if mpi.size == 2 { "rank 0" } else { "ranks 0, 2" };
    let mut session = open_session(&comm);
    let problem = |m| Problem::new(m, 40, 48, 8).unwrap();
    let text = format!("planning: m is 32 on {others}, 33 on rank 1");
    let refused = session.plan(problem(32 + odd), &unmeasured());
    assert_refused(refused, &[text.as_str()]);
    let config = BalanceConfig { max_iterations: 5 + odd as u32, ..unmeasured() };
    let refused = session.plan(problem(32), &config);
    assert_refused(refused, &["planning: max_iterations is 5", "6 on rank 1"]);
    let measure = MeasureConfig { min_reps: 3 + odd as u32, ..MeasureConfig::default() };
    let refused = Session::builder().measure(measure).build(Arc::clone(&comm));
    assert_refused(refused, &["opening a session: min_reps is 3", "4 on rank 1"]);

    let plans = [32, 24].map(|m| session.plan(problem(m), &unmeasured()).unwrap());
    compare_multiplications(comm.as_ref(), &mut session, &plans, odd);
    refuse_foreign_plan(&mut session, &plans[0]);
    compare_low_calls(comm.as_ref(), odd);
    let unlike = match odd {
        1 => session.save_models(),
        _ => session.adopt(plans[0].clone()).map(|_| ()),
    };
    assert_refused(unlike, &["the call is adopting a plan on", "saving models on rank 1"]);
    mpi.meet();
    drop(session);
    drop(comm);
    mpi.finalize();
}

/// A plan of another number of ranks, which all ranks give, and factors of another product are refused.
fn refuse_foreign_plan(session: &mut Session, own: &Plan) {
    let comm = Arc::clone(session.comm());
    let alone: Arc<dyn Comm> = Arc::new(LocalComm::new());
    let problem = Problem::new(32, 40, 48, 8).unwrap();
    let plan = open_session(&alone).plan(problem, &unmeasured()).unwrap();
    let plan = comm.share(0, (comm.rank() == 0).then_some(plan)).unwrap();
    let words = ["spread over 1 ranks", "by"];
    assert_refused(prepare(session, &plan), &words);
    assert_refused(session.adopt(plan.clone()), &["plan"]);
    let generate = |plan: &Plan, side: fn(&Plan) -> Spread| {
        let spread = side(plan);
        Matrix::generate(spread, comm.rank(), Generator::Uniform { seed: 1 }).unwrap()
    };
    let (a, b) = (generate(own, Plan::a), generate(own, Plan::b));
    let mut product = prepare(session, own).unwrap();
    let mut c = product.zeros(session).unwrap();
    let run = product.run(session, SCALARS, Factors::of(&a, &b), &mut c);
    let execution = run.unwrap().execution;
    assert_refused(Report::gather(session, &plan, &execution, None), &words);
    let mut probe = Probe::begin(comm.as_ref(), SCALARS, &c, None, 7).unwrap();
    let [wrong_a, wrong_b] = own.operands(&a, &b);
    let swapped = [wrong_b, wrong_a];
    assert_refused(probe.add(comm.as_ref(), swapped), &["op(A) is 48×40"]);
}

fn prepare(session: &mut Session, plan: &Plan) -> Result<Product<f64>, Error> {
    session.prepare(plan, RunConfig::default())
}

fn compare_multiplications(comm: &dyn Comm, session: &mut Session, plans: &[Plan; 2], odd: usize) {
    let plan = &plans[0];
    let generate =
        |spread| Matrix::generate(spread, comm.rank(), Generator::Uniform { seed: 1 }).unwrap();
    let (a, b) = (generate(plan.a()), generate(plan.b()));
    let words = ["plan is a plan on", "another plan on rank 1", "m is 32 on", "24 on rank 1"];
    assert_refused(prepare(session, &plans[odd]), &words);
    let mut products = [0, 1].map(|index| prepare(session, &plans[index]).unwrap());
    let mut c = products[0].zeros(session).unwrap();
    let alpha = 1.0 + odd as f64;
    let scalars = Scalars { alpha, beta: 0.0 };
    let refused = products[0].run(session, scalars, Factors::of(&a, &b), &mut c);
    assert_refused(refused, &["multiplying: alpha is 1 on", "2 on rank 1"]);
    let refused = products[odd].run(session, SCALARS, Factors::of(&a, &b), &mut c);
    assert_refused(refused, &words);
    let refused = Probe::begin(comm, SCALARS, &c, None, 7 + odd as u64);
    assert_refused(refused, &["beginning a check: seed is", "on rank 1"]);
    let size = comm.size();
    let to = Spread::on_one(32, 40, odd, size).unwrap();
    assert_refused(
        c.redistribute(comm, to),
        &[
            "redistributing: target is a distribution of 32×40 on",
            "another distribution of 32×40 on rank 1",
        ],
    );
    let config = RedistributeConfig { limit_bytes: 1000 + odd, ..RedistributeConfig::default() };
    let source = Stored::by_columns(&[], 32);
    let refused = Matrix::<f64>::from_spread(comm, c.spread(), source, plan.c(), &config);
    assert_refused(refused, &["limit_bytes is 1000 on", "1001 on rank 1"]);
    // All is as before.
    let factors = Factors::of(&a, &b);
    products[0].run(session, SCALARS, factors, &mut c).unwrap();
}

fn compare_low_calls(comm: &dyn Comm, odd: usize) {
    let refused = comm.broadcast(odd, &mut vec![1]);
    assert_refused(refused, &["root is 0 on", "1 on rank 1"]);
    assert_refused(comm.share(odd, Some(3)), &["root is 0 on"]);
    let values = "number of values is 2 on";
    assert_refused(comm.sum_u64(&mut vec![1; 2 + odd]), &[values, "3 on rank 1"]);
    assert_refused(comm.sum_f64(&mut vec![1.0; 2 + odd]), &[values]);
    // Arguments that all ranks give alike, and wrong.
    let none = "root = 99: the ranks are 0 to";
    assert_refused(comm.broadcast(99, &mut vec![1]), &[none]);
    assert_refused(comm.share(99, Some(3)), &[none]);
    assert_refused(comm.share::<u32>(99, None), &[none]);
    assert_refused(share_outcome(comm, 99, Some(Ok(3))), &[none]);
    // A unit that no memory holds is not sent.
    assert!(measure_move_unit_s(comm, usize::MAX / 2).unwrap() > 0.0);
    comm.barrier().unwrap();
}
