//! A cross-check by NumPy: it writes the operands, `isochron` multiplies them, NumPy reads the result.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

use std::path::Path;
use std::process::Command;

use isochron_tests::launch::{HANGS, Mpi, cluster_configs, libraries, python, run};

const WRITE: &str = "
import sys, numpy
folder = sys.argv[1]
random = numpy.random.default_rng(7)
numpy.save(folder + '/a.npy', random.standard_normal((211, 173)))                        # C order
numpy.save(folder + '/b.npy', numpy.asfortranarray(random.standard_normal((173, 307))))  # Fortran order
numpy.save(folder + '/c.npy', random.standard_normal((211, 307)).astype('>f4'))          # big-endian singles
";

const COMPARE: &str = "
import sys, numpy
folder, alpha, beta = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
a, b, c = (numpy.load(folder + '/' + name + '.npy').astype('f8') for name in 'abc')
found = numpy.load(folder + '/found.npy')
expected = alpha * (a @ b) + beta * c
gauge = abs(alpha) * (abs(a) @ abs(b)) + abs(beta) * abs(c)
assert found.dtype == numpy.float64 and found.shape == expected.shape, (found.dtype, found.shape)
# Both products err by at most k+2 roundings of the gauge.
ratio = (abs(found - expected) / gauge).max() / (2 * (a.shape[1] + 2) * 2.0**-53)
assert ratio <= 1, ratio
print('within', ratio, 'of the bound')
";

fn script(source: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(python());
    command.arg("-c").arg(source).args(arguments);
    run(command, HANGS).success()
}

fn multiply_and_compare(mpi: &Mpi, folder: &Path, alpha: &str, beta: &str) {
    let file = |name: &str| folder.join(name).to_str().expect("a name").to_string();
    let platform = cluster_configs()
        .join("emulated-4.toml")
        .to_str()
        .expect("a name")
        .to_string();
    let found = file("found.npy");
    let (a, b, c) = (file("a.npy"), file("b.npy"), file("c.npy"));
    let mut arguments = vec![
        "mxm", "--a", &a, "--b", &b, "--out", &found, "--block", "16",
    ];
    arguments.extend(["--alpha", alpha, "--beta", beta, "--platform", &platform]);
    if beta != "0" {
        arguments.extend(["--c", &c]);
    }
    mpi.isochron(4, &arguments).success();
    script(COMPARE, &[folder.to_str().expect("a name"), alpha, beta]);
}

#[test]
fn numpy_agrees_with_the_product_of_its_files() {
    for mpi in libraries() {
        let folder = tempfile::tempdir().expect("a folder");
        script(WRITE, &[folder.path().to_str().expect("a name")]);
        multiply_and_compare(&mpi, folder.path(), "1", "0");
        multiply_and_compare(&mpi, folder.path(), "-0.5", "2");
    }
}
