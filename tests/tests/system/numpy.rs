//! A cross-check by NumPy: it writes the operands, `isochron` multiplies them, NumPy reads the result.

use std::path::Path;
use std::process::Command;

use isochron_tests::launch::{HANGS, Mpi, cluster_configs, is_whole, libraries, python, run};

const WRITE: &str = "
import sys, numpy
folder, kind = sys.argv[1], numpy.dtype(sys.argv[2])
random = numpy.random.default_rng(7)
def normal(*shape):
    parts = random.standard_normal(shape + (2,))
    return (parts[..., 0] + 1j * parts[..., 1] if kind.kind == 'c' else parts[..., 0]).astype(kind)
numpy.save(folder + '/a.npy', normal(211, 173))                                   # C order
numpy.save(folder + '/b.npy', numpy.asfortranarray(normal(173, 307)))             # Fortran order
numpy.save(folder + '/c.npy', random.standard_normal((211, 307)).astype('>f4'))   # big-endian singles
";

const COMPARE: &str = "
import sys, numpy
folder, kind, alpha, beta = sys.argv[1], numpy.dtype(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
wide = 'c16' if kind.kind == 'c' else 'f8'
a, b, c = (numpy.load(folder + '/' + name + '.npy').astype(wide) for name in 'abc')
found = numpy.load(folder + '/found.npy')
expected = alpha * (a @ b) + beta * c
gauge = abs(alpha) * (abs(a) @ abs(b)) + abs(beta) * abs(c)
assert found.dtype == kind and found.shape == expected.shape, (found.dtype, found.shape)
# Both products err by at most k+2 roundings of the gauge, a few times as many where they are complex.
rounding = numpy.finfo(kind).eps / 2 * (4 if kind.kind == 'c' else 1)
ratio = (abs(found - expected) / gauge).max() / (2 * (a.shape[1] + 2) * rounding)
assert ratio <= 1, ratio
print('within', ratio, 'of the bound')
";

fn script(source: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(python());
    command.arg("-c").arg(source).args(arguments);
    run(command, HANGS).success()
}

fn multiply_and_compare(mpi: &Mpi, folder: &Path, kind: &str, (alpha, beta): (&str, &str)) {
    let [a, b, c, found] = ["a.npy", "b.npy", "c.npy", "found.npy"]
        .map(|name| folder.join(name).to_str().expect("a name").to_string());
    let platform = cluster_configs().join("emulated-4.toml").to_str().expect("a name").to_string();
    let c = if beta == "0" { String::new() } else { format!("--c {c}") };
    let line = format!("mxm --a {a} --b {b} {c} --out {found} --block 16 --platform {platform}");
    mpi.run_line(4, &format!("{line} --alpha {alpha} --beta {beta}")).success();
    let folder = folder.to_str().expect("a name");
    script(COMPARE, &[folder, kind, alpha, beta]);
}

/// By default each type is compared once, with each library and with both pairs of factors; all combinations with
/// `cargo xtask test --all`.
#[test]
fn numpy_agrees_with_the_product_of_its_files() {
    let libraries = libraries();
    for (number, kind) in ["f4", "f8", "c8", "c16"].into_iter().enumerate() {
        let folder = tempfile::tempdir().expect("a folder");
        script(WRITE, &[folder.path().to_str().expect("a name"), kind]);
        for (library, mpi) in libraries.iter().enumerate() {
            for (place, factors) in [("1", "0"), ("-0.5", "2")].into_iter().enumerate() {
                if is_whole() || (library, place) == (number % 2, number / 2) {
                    multiply_and_compare(mpi, folder.path(), kind, factors);
                }
            }
        }
    }
}
