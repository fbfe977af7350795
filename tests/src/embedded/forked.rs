//! A forked child of a rank, which has copies of the rank's values.

use std::sync::Arc;

use isochron::Error;
use isochron::comm::mpi::MpiComm;
use isochron::comm::{Comm, LocalComm, Message, Transfer, connect};
use isochron::matrix::{Distribution, Generator, Matrix};
use isochron::plan::Problem;
use isochron::product::{Factors, Product, RunConfig};
use isochron::rebalance::{
    LoopPart, RebalanceConfig, Rebalancer, UnitArray, UnitMemory, measure_move_unit_s,
};
use isochron::session::Session;
use isochron_devices::{BlasChoice, Grouping, MeasureConfig, Node};

use super::{OwnMpi, SCALARS, multiply_ones, open_session, unmeasured};

/// What a rank has made before it forks.
struct Made {
    comm: Arc<dyn Comm>,
    session: Session,
    product: Product<f64>,
    balancer: Rebalancer,
}

impl Made {
    fn new(comm: Arc<dyn Comm>) -> Self {
        let mut session = open_session(&comm);
        let plan = session.plan(Problem::new(32, 32, 32, 8).unwrap(), &unmeasured()).unwrap();
        let product = session.prepare(plan, RunConfig::default()).unwrap();
        let config = RebalanceConfig::default();
        let balancer = Rebalancer::new(Arc::clone(&comm), 60, &config, LoopPart::default());
        Self { comm, session, product, balancer: balancer.unwrap() }
    }
}

/// A forked child of a rank is refused each call, whether there are other ranks or not. Nothing of the rank is lost when the
/// child ends and drops its copies. It can use devices by values of its own.
pub(super) fn refuse_forked_children() {
    let mpi = OwnMpi::funneled();
    for comm in [mpi.adopt().unwrap(), Arc::new(LocalComm::new())] {
        let mut made = Made::new(comm);
        let mut node = Node::discover(Grouping::Node, &BlasChoice::Embedded).unwrap();
        let world = mpi.world;
        made = run_forked(made, move |made| {
            // SAFETY: a communicator of the parent, which is looked at only.
            let adopted = unsafe { MpiComm::adopt_raw(world) };
            assert_forked(adopted.map(|_| ()));
            assert_forked(connect().map(|_| ()));
            let config = MeasureConfig::default();
            let measured = node.measure::<f64>(8, 8, &[8], &config);
            assert_forked(measured.map(|_| ()).map_err(Error::from));
            refuse_each_call(made);
            multiply_ones(&mut open_session(&(Arc::new(LocalComm::new()) as Arc<dyn Comm>)));
        });
        multiply_ones(&mut made.session);
        made.balancer.balance().unwrap();
        made.comm.barrier().unwrap();
    }
    mpi.meet();
    mpi.finalize();
}

/// Expects the refusal of a forked child.
fn assert_forked(outcome: Result<(), Error>) {
    let text = outcome.expect_err("a refusal").to_string();
    assert!(text.contains("is a forked child of process"), "{text}");
}

fn refuse_each_call(made: Made) {
    let Made { comm, mut session, mut product, mut balancer } = made;
    refuse_messages(comm.as_ref());
    let refuse = |outcome: Result<(), Error>| assert_forked(outcome);
    let (plan, runs) = (product.plan().clone(), RunConfig::default());
    let on = Distribution::on_one(8, 8, 0, comm.size()).unwrap();
    refuse(session.plan(*plan.problem(), &unmeasured()).map(|_| ()));
    refuse(session.prepare::<f64>([&on; 3], runs).map(|_| ()));
    refuse(session.prepare::<f64>(&plan, runs).map(|_| ()));
    refuse(product.zeros(&mut session).map(|_| ()));
    refuse(session.adopt(plan.clone()).map(|_| ()));
    refuse(session.save_models());
    let generate =
        |spread| Matrix::generate(spread, comm.rank(), Generator::Uniform { seed: 1 }).unwrap();
    let (a, b, mut c) = (generate(plan.a()), generate(plan.b()), generate(plan.c()));
    let run = product.run(&mut session, SCALARS, Factors::of(&a, &b), &mut c);
    refuse(run.map(|_| ()));
    let builder = Session::builder().blas(BlasChoice::Embedded);
    refuse(builder.build(Arc::clone(&comm)).map(|_| ()));
    // Most calls of `balance` send no message.
    balancer.begin();
    balancer.end();
    refuse(balancer.balance().map(|_| ()));
    refuse(balancer.observe(1.0).map(|_| ()));
    refuse(balancer.report().map(|_| ()));
    refuse(balancer.state().map(|_| ()));
    let rows = vec![0.0; balancer.units()[comm.rank()] as usize];
    let mut moved = rows.clone();
    let memory = UnitMemory::Apart { from: &rows[..], to: &mut moved[..] };
    refuse(balancer.migrate_memory(1, memory));
    refuse(balancer.migrate_blocks(&mut vec![vec![0.0]; rows.len()]));
    let array = UnitArray::<f64>::zeros(comm.as_ref(), balancer.units(), 1);
    refuse(array.map(|_| ()));
    let config = RebalanceConfig::default();
    let again = Rebalancer::new(Arc::clone(&comm), 60, &config, LoopPart::default());
    refuse(again.map(|_| ()));
    refuse(Rebalancer::restore(Arc::clone(&comm), b"{}").map(|_| ()));
    refuse(measure_move_unit_s(comm.as_ref(), 8).map(|_| ()));
    comm.abandon("a child tells the other ranks nothing");
}

fn refuse_messages(comm: &dyn Comm) {
    assert_forked(comm.barrier());
    assert_forked(comm.broadcast(0, &mut vec![1]));
    assert_forked(comm.all_gather(&[1]).map(|_| ()));
    assert_forked(comm.sum_f64(&mut [1.0]));
    assert_forked(comm.sum_u64(&mut [1]));
    let other = (comm.rank() + 1) % comm.size();
    let message = [Message::plain(other, 0, 0..1)];
    let started = Transfer::start(comm, vec![vec![0_u8]], &message, &[]);
    assert_forked(started.map(|_| ()));
}

/// Runs `work` in a forked child, with its copy of `made`, and returns the parent's.
fn run_forked<T>(made: T, work: impl FnOnce(T)) -> T {
    // SAFETY: the child uses no locks that threads of the parent may hold: these wait for work.
    match unsafe { libc::fork() } {
        -1 => panic!("no child: {}", std::io::Error::last_os_error()),
        0 => {
            // SAFETY: a child that waits is ended.
            unsafe { libc::alarm(60) };
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(made)));
            // SAFETY: the handlers at the end of the process are the parent's.
            unsafe { libc::_exit(i32::from(outcome.is_err())) }
        }
        child => {
            let mut status = -1;
            // SAFETY: a child of this process, and a place for its status.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0, "the child has failed, or has waited for ever");
            made
        }
    }
}
