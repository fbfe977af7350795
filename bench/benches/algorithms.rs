//! Speed and growth of the algorithms on one core: `cargo bench -p isochron-bench`, or with a name behind it
//! (`-- gpa`) one of them. The campaign `cargo xtask bench algorithms` times the same instances.

#![allow(clippy::expect_used, reason = "a bench that cannot go on panics")]

use std::cell::LazyCell;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion};
use isochron_bench::Algorithm;

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    for algorithm in Algorithm::ALL {
        let mut group = criterion.benchmark_group(algorithm.name());
        for &size in algorithm.sizes() {
            // Made only if the command line asks for it.
            let instance = LazyCell::new(|| algorithm.instance(size).expect("an instance"));
            group.bench_function(BenchmarkId::from_parameter(size), |bencher| {
                bencher.iter(|| instance.solve().expect("a solution"));
            });
        }
        group.finish();
    }
    criterion.final_summary();
}
