//! Wrong input ends soon, on all ranks, with one clear message and its exit status.

use std::path::Path;

use isochron_tests::launch::{SOON, libraries, run};

use crate::command::Folder;

const MARKET: &str = "%%MatrixMarket matrix array real general\n";

/// Writes a square `.npy` file with these bytes of elements.
fn write_npy(folder: &Folder, name: &str, kind: &str, size: usize, elements: &[u8]) {
    let shape = format!("({size}, {size})");
    let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let length = u16::try_from(header.len()).expect("short").to_le_bytes();
    let bytes = [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), elements].concat();
    std::fs::write(folder.path(name), bytes).expect("a writable folder");
}

/// Makes the files that the lines name.
fn make_files() -> Folder {
    let folder = Folder::new();
    for (rows, cols) in [(2, 2), (2, 3), (3, 2), (3, 3), (4, 2)] {
        let text = format!("{MARKET}{rows} {cols}\n{}", "1\n".repeat(rows * cols));
        folder.write(&format!("{rows}x{cols}.mtx"), &text);
    }
    folder.write("short.mtx", &format!("{MARKET}2 2\n1\n2\n3\n"));
    folder.write("halves.mtx", &format!("{MARKET}2 2\n{}", "0.5\n".repeat(4)));
    write_npy(&folder, "short.npy", "<f8", 2, &[0; 31]);
    write_npy(&folder, "large.npy", "<u8", 1, &(1_u64 << 60).to_le_bytes());
    folder.write("few.toml", "schema = 1\n[[node]]\n[[node]]\n");
    folder.write("unknown.toml", "schema = 1\n[[node]]\nspeed = 3\n[[node]]\n[[node]]\n");
    folder
}

#[test]
fn wrong_input_is_told_once_and_leaves_no_output() {
    let folder = make_files();
    for (line, message) in [
        ("", "isochron: no size: give --size, or"),
        ("--sise 64", "unexpected argument"),
        ("--size 64 --strategy best", "expected one of homogeneous"),
        ("--size 64 --block 0", "block = 0"),
        ("--size 64 --max-iterations 0", "a whole number from 1 to"),
        ("--size 64 --strategy homogeneous --fit akima", "fit = akima: an option of strategy fpm"),
        ("--size 4000000", "MiB: the plan needs"),
        ("--a @missing.npy --b @2x2.mtx --out @out.npy", "missing.npy"),
        ("--a @short.mtx --b @2x2.mtx --out @out.npy", "truncated: 3 elements of 4"),
        ("--a @short.npy --b @2x2.mtx --out @out.npy", "truncated: 31 bytes"),
        ("--a @2x3.mtx --b @4x2.mtx", "shapes do not multiply"),
        ("--a @2x3.mtx --b @3x2.mtx --c @3x3.mtx", "A*B is 2×2"),
        ("--a @halves.mtx --b @2x2.mtx --out @out.npy --verify exact", "needs whole numbers"),
        ("--a @large.npy --b @large.npy --verify exact", "beyond the whole numbers that f64 holds"),
        ("--size 64 --platform @unknown.toml", "unknown field `speed`"),
        ("--size 64 --platform @few.toml", "describes 2 nodes, but there are 3 ranks"),
        ("--size 64 --platform @missing.toml", "missing.toml"),
        ("--size 64 --out @no-such-folder/out.npy", "there is no folder"),
        ("--size 64 --out @out.xyz", ".npy (NumPy) or .mtx"),
    ] {
        for mpi in libraries() {
            let words = folder.words(&format!("mxm {line}"));
            let told = run(mpi.command(3, &mpi.isochron, &words), SOON).failure(2);
            assert_eq!(told.matches(message).count(), 1, "{}: {line}: {told}", mpi.name);
            for out in ["out.npy", "out.xyz"] {
                assert!(!Path::new(&folder.path(out)).exists(), "{line}");
            }
        }
    }
}
