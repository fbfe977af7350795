//! Seconds of a prepared product, call by call: `mpirun -n 2 prepared 2048 10 planned f64`.
//!
//! The matrices lie as the plan has them (`planned`), or as ScaLAPACK may have them (`cyclic`): in 64×64 blocks dealt out to one
//! row of ranks from the last one on, with lines longer than needed. Rank 0 prints the seconds of the calls and of
//! the multiplications in them as JSON.
#![allow(clippy::print_stdout, reason = "its output")]
use std::error::Error;
use std::time::Instant;

use isochron::prelude::*;

/// Prepares the product. Returns it with the places of A, B and C.
fn prepare<T: Element>(
    session: &mut Session,
    size: usize,
    layout: &str,
) -> Result<(Product<T>, [Distribution; 3]), Box<dyn Error>> {
    let ranks = session.comm().size();
    if layout == "cyclic" {
        let blocks = BlockCyclic::new(size, size, 64, 64).with_sources(0, ranks - 1);
        let on = Distribution::block_cyclic(&blocks, ProcessGrid::by_rows(1, ranks), ranks)?;
        let on = [on.clone(), on.clone(), on];
        let product = session.prepare(on.each_ref(), RunConfig::default())?;
        return Ok((product, on));
    }
    let block = Problem::choose_block(size, size, ranks);
    let problem = Problem::new(size, size, size, block)?.with_element(T::TYPE);
    let plan = session.plan(problem, &BalanceConfig::default())?;
    let on = [plan.a(), plan.b(), plan.c()].map(Distribution::from);
    Ok((session.prepare(plan, RunConfig::default())?, on))
}

fn run<T: Element>(size: usize, runs: usize, layout: &str) -> Result<(), Box<dyn Error>> {
    let mut session = Session::builder().element(T::TYPE).build(connect()?)?;
    let rank = session.comm().rank();
    let (mut product, on) = prepare::<T>(&mut session, size, layout)?;
    let shapes = on.each_ref().map(|on| on.local_shapes(rank));
    let sizes = shapes.map(|shapes| shapes.first().copied().unwrap_or((0, 0)));
    let lds = sizes.map(|(rows, _)| rows + 8);
    let memory = |side: usize| vec![T::ONE; lds[side] * sizes[side].1];
    let (a, b, mut c) = (memory(0), memory(1), memory(2));
    let (mut calls_s, mut multiplications_s) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        session.comm().barrier()?;
        let start = Instant::now();
        let factors = Factors::of((&a, lds[0]), (&b, lds[1]));
        let run = product.run(&mut session, Scalars::PRODUCT, factors, (&mut c, lds[2]))?;
        session.comm().barrier()?;
        calls_s.push(start.elapsed().as_secs_f64());
        multiplications_s.push(run.execution.wall_s);
    }
    if rank == 0 {
        println!("{{\"calls_s\": {calls_s:?}, \"multiplications_s\": {multiplications_s:?}}}");
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [size, runs, layout, element] = &arguments[..] else {
        return Err("give the size, the number of calls, planned or cyclic, and the type".into());
    };
    let (size, runs) = (size.parse()?, runs.parse()?);
    match element.parse()? {
        ElementType::F32 => run::<f32>(size, runs, layout),
        ElementType::F64 => run::<f64>(size, runs, layout),
        ElementType::C32 => run::<Complex32>(size, runs, layout),
        ElementType::C64 => run::<Complex64>(size, runs, layout),
    }
}
