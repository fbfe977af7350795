//! Seconds of a prepared product, call by call: `mpirun -n 2 prepared 2048 10 planned`.
//!
//! The matrices lie as the plan has them (`planned`), or in 64×64 blocks dealt out to one row of ranks (`cyclic`). Rank 0
//! prints the seconds of the calls and of the multiplications in them as JSON.
#![allow(clippy::print_stdout, reason = "its output")]
use std::error::Error;
use std::time::Instant;

use isochron::prelude::*;

/// Prepares the product. Returns it with the places of A, B and C.
fn prepare(
    session: &mut Session,
    size: usize,
    layout: &str,
) -> Result<(Gemm<f64>, [Distribution; 3]), Box<dyn Error>> {
    let ranks = session.comm().size();
    if layout == "cyclic" {
        let blocks = BlockCyclic::new(size, size, 64, 64);
        let on = Distribution::block_cyclic(&blocks, ProcessGrid::by_rows(1, ranks), ranks)?;
        let on = [on.clone(), on.clone(), on];
        let product = session.prepare_gemm(on.each_ref(), &GemmConfig::default())?;
        return Ok((product, on));
    }
    let problem = Problem::new(size, size, size, GemmConfig::default().block)?;
    let plan = session.plan(problem, &BalanceConfig::default())?;
    let parts = |spread: Spread| {
        let regions: Vec<Region> = (0..ranks).map(|rank| spread.part(rank)).collect();
        Distribution::of_regions(size, size, &regions)
    };
    let on = [parts(plan.a())?, parts(plan.b())?, parts(plan.c())?];
    let product = session.prepare_planned(plan, on.each_ref())?;
    Ok((product, on))
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [size, runs, layout] = &arguments[..] else {
        return Err("give the size, the number of calls, and planned or cyclic".into());
    };
    let mut session = Session::builder().build(connect()?)?;
    let rank = session.comm().rank();
    let (mut product, on) = prepare(&mut session, size.parse()?, layout)?;
    let shapes = on.each_ref().map(|on| on.local_shapes(rank));
    let sizes = shapes.map(|shapes| shapes.first().copied().unwrap_or((0, 0)));
    let [a, b, mut c] = sizes.map(|(rows, cols)| vec![1.0; rows * cols]);
    let [lda, ldb, ldc] = sizes.map(|(rows, _)| rows.max(1));
    let (mut calls_s, mut multiplications_s) = (Vec::new(), Vec::new());
    for _ in 0..runs.parse()? {
        session.comm().barrier()?;
        let start = Instant::now();
        let (a, b) = ((&a, lda), (&b, ldb));
        let run = product.run(&mut session, Scalars::PRODUCT, a, b, (&mut c, ldc))?;
        session.comm().barrier()?;
        calls_s.push(start.elapsed().as_secs_f64());
        multiplications_s.push(run.execution.wall_s);
    }
    if rank == 0 {
        println!("{{\"calls_s\": {calls_s:?}, \"multiplications_s\": {multiplications_s:?}}}");
    }
    Ok(())
}
