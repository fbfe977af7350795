//! Hosts that see different files under one name, and files that change while they are read: the result is that of the first
//! rank's file, or an error.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use isochron::report::Report;
use isochron_tests::launch::{
    HANGS, Mpi, Outcome, Running, native_libraries, open_mpi, processes, run,
};

use crate::command::{Folder, compile, run_limited};

const INPUT: i32 = 2;

/// Numbers of rows of A and C, of columns of B and C, and of columns of A. Every file is larger than any sample of it.
const M: usize = 300;
const N: usize = 100;
const K: usize = 400;

/// A script that starts each rank in one of two folders, as on two hosts with file systems of their own.
const OWN_FOLDERS: &str =
    "cd \"$(dirname \"$0\")/r$((${OMPI_COMM_WORLD_RANK:-$PMI_RANK} % 2))\" && exec \"$@\"\n";

/// A matrix of small whole numbers, by rows or by columns.
#[derive(Clone, PartialEq)]
struct WholeMatrix {
    rows: usize,
    cols: usize,
    is_by_columns: bool,
    numbers: Vec<f64>,
}

impl WholeMatrix {
    fn new(rows: usize, cols: usize, seed: usize) -> Self {
        let number = |n: usize| ((n + seed) * 7919 % 1009 % 13) as f64 - 6.0;
        Self { rows, cols, is_by_columns: false, numbers: (0..rows * cols).map(number).collect() }
    }

    fn at(&self, row: usize, col: usize) -> f64 {
        self.numbers[if self.is_by_columns { col * self.rows + row } else { row * self.cols + col }]
    }

    fn write(&self, path: &str) {
        let order = if self.is_by_columns { "True" } else { "False" };
        let header = format!(
            "{{'descr': '<f8', 'fortran_order': {order}, 'shape': ({}, {}), }}\n",
            self.rows, self.cols
        );
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend(u16::try_from(header.len()).expect("short").to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(self.numbers.iter().flat_map(|number| number.to_le_bytes()));
        fs::write(path, bytes).expect("a file");
    }

    /// Reads a file that the command has written: by columns.
    fn read(path: &str, rows: usize, cols: usize) -> Self {
        let bytes = fs::read(path).expect("a result");
        let elements = bytes[bytes.len() - 8 * rows * cols..].chunks_exact(8);
        let number = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().expect("8 bytes"));
        Self { rows, cols, is_by_columns: true, numbers: elements.map(number).collect() }
    }

    /// Asserts that this is `A*B + C`.
    fn assert_product(&self, [a, b, c]: &[Self; 3], what: &str) {
        for row in 0..M {
            for col in 0..N {
                let sum: f64 = (0..K).map(|k| a.at(row, k) * b.at(k, col)).sum();
                let expected = sum + c.at(row, col);
                assert_eq!(self.at(row, col), expected, "{what}: ({row}, {col})");
            }
        }
    }
}

/// The files of the first rank.
fn make_matrices() -> [WholeMatrix; 3] {
    let shapes = [(M, K), (K, N), (M, N)];
    let mut seed = 0;
    shapes.map(|(rows, cols)| {
        seed += 1;
        WholeMatrix::new(rows, cols, seed)
    })
}

/// A difference by its name, and the change that makes it.
type Difference = (&'static str, fn(&mut WholeMatrix));

/// Ways in which the second rank's file differs.
const DIFFERENCES: [Difference; 5] = [
    ("one element", |own| {
        let middle = own.numbers.len() * 23 / 64;
        own.numbers[middle] += 1.0;
    }),
    ("one row", |own| {
        let first = own.rows * 23 / 64 * own.cols;
        own.numbers[first..first + own.cols].fill(9.0);
    }),
    ("the last page", |own| {
        let first = own.numbers.len() - 512;
        own.numbers[first..].fill(9.0);
    }),
    ("the other order", |own| own.is_by_columns = true),
    ("the shape", |own| *own = WholeMatrix::new(own.rows, own.cols + 1, 9)),
];

/// Makes folders of two hosts with the same files.
fn make_folder() -> (Folder, [WholeMatrix; 3]) {
    let folder = Folder::new();
    folder.write("rank.sh", OWN_FOLDERS);
    let matrices = make_matrices();
    for rank in ["r0", "r1"] {
        fs::create_dir(folder.path(rank)).expect("a folder");
        for (matrix, name) in matrices.iter().zip(["A", "B", "C"]) {
            matrix.write(&folder.path(&format!("{rank}/{name}.npy")));
        }
    }
    (folder, matrices)
}

/// Runs the command on ranks of which every second one is in another folder.
fn run_apart(mpi: &Mpi, ranks: usize, folder: &Folder, line: &str) -> Outcome {
    let script = folder.path("rank.sh");
    let program = mpi.isochron.to_str().expect("a name");
    let words = [&*script, program].into_iter().chain(line.split(' '));
    run(mpi.command(ranks, Path::new("sh"), &words.collect::<Vec<_>>()), HANGS)
}

const MULTIPLY: &str = "mxm --a A.npy --b B.npy --c C.npy --store none --json";

fn multiply_apart(mpi: &Mpi, ranks: usize, folder: &Folder, more: &str) -> Report {
    let stdout = run_apart(mpi, ranks, folder, &format!("{MULTIPLY} {more}")).success();
    let report: Report = serde_json::from_str(&stdout).expect("a report");
    assert_eq!(report.verified, Some(true));
    report
}

/// Makes a plan with several parts of k.
fn plan_parts(folder: &Folder, ranks: usize) -> String {
    let path = folder.path("plan.json");
    let line = format!(
        "mxm --m {M} --n {N} --k {K} --plan --strategy homogeneous --split c --block 32 --panel 32 --store none --save-plan {path}"
    );
    run_apart(&open_mpi(), ranks, folder, &line).success();
    let text = fs::read_to_string(&path).expect("a plan");
    let more = text.replace("\"k_parts\": 1", "\"k_parts\": 3");
    assert_ne!(more, text);
    fs::write(&path, more).expect("a plan");
    path
}

#[test]
fn hosts_with_different_matrices_get_the_product_of_the_first() {
    // Two ranks share each host's file.
    const RANKS: usize = 4;
    let (folder, matrices) = make_folder();
    let in_parts = format!("--load-plan {}", plan_parts(&folder, RANKS));
    let whole = "--strategy homogeneous";
    let names = ["A", "B", "C"];
    let cases = (0..names.len() * DIFFERENCES.len()).map(|case| (case % 3, case / 3));
    for mpi in native_libraries() {
        for (which, difference) in mpi.take_turns(cases.clone()) {
            let (what, change) = DIFFERENCES[difference];
            let (name, mut own) = (names[which], matrices[which].clone());
            change(&mut own);
            let path = folder.path(&format!("r1/{name}.npy"));
            own.write(&path);
            for how in [whole, &in_parts] {
                let what = format!("{what} of {name}, {how}");
                let how = format!("{how} --out D.npy");
                let report = multiply_apart(&mpi, RANKS, &folder, &how);
                WholeMatrix::read(&folder.path("r0/D.npy"), M, N).assert_product(&matrices, &what);
                let told: Vec<_> = report
                    .notices
                    .iter()
                    .filter(|notice| notice.contains("another file"))
                    .collect();
                let begin = format!("{name}.npy: rank 1 on ");
                assert!(
                    told.len() == 1 && told[0].starts_with(&begin) && told[0].contains("1 more"),
                    "{what}: {told:?}"
                );
            }
            matrices[which].write(&path);
        }
    }
}

#[test]
fn each_rank_reads_its_part_of_its_hosts_copy() {
    let (folder, matrices) = make_folder();
    let mpi = open_mpi();
    for how in ["--strategy homogeneous", &format!("--load-plan {}", plan_parts(&folder, 4))] {
        let report = multiply_apart(&mpi, 4, &folder, how);
        let notices = report.notices;
        assert!(!notices.iter().any(|notice| notice.contains(".npy")), "{notices:?}");
        assert_eq!(report.redistribution.messages, 0, "{how}");
        multiply_apart(&mpi, 4, &folder, &format!("{how} --out D.npy"));
        WholeMatrix::read(&folder.path("r0/D.npy"), M, N).assert_product(&matrices, how);
    }
    // Ranks without a file get their parts from the first one.
    fs::remove_file(folder.path("r1/B.npy")).expect("a file");
    let report = multiply_apart(&mpi, 4, &folder, "--strategy homogeneous");
    assert!(report.redistribution.messages > 0);
}

#[test]
fn hosts_with_different_small_files_use_those_of_the_first() {
    let (folder, matrices) = make_folder();
    let points = "# block: 32\n# kernel: gemm\n1 0.001\n64 0.064\n";
    let platform = "schema = 1\n[[node]]\n[[node.device]]\nname = \"a\"\ncores = 1\n";
    let platform = format!("{platform}{}", platform.replace("schema = 1\n", ""));
    for (rank, is_first) in [("r0", true), ("r1", false)] {
        fs::create_dir(folder.path(&format!("{rank}/models"))).expect("a folder");
        let text = |text: &str| {
            if is_first { text.to_owned() } else { "1 1\n".to_owned() }
        };
        folder.write(&format!("{rank}/p.toml"), &text(&platform));
        for name in ["rank0-a-alone", "rank1-a-alone"] {
            folder.write(&format!("{rank}/models/{name}.points"), &text(points));
        }
    }
    let [mpi, other] = native_libraries();
    let learning = "--platform p.toml --block 32 --save-plan plan.json";
    multiply_apart(&mpi, 2, &folder, learning);
    folder.write("r1/plan.json", "{}");
    for (mpi, how) in [
        (&mpi, "--platform p.toml --models models"),
        (&other, "--platform p.toml --load-plan plan.json"),
    ] {
        multiply_apart(mpi, 2, &folder, &format!("{how} --out D.npy"));
        WholeMatrix::read(&folder.path("r0/D.npy"), M, N).assert_product(&matrices, how);
    }
}

#[test]
fn hosts_with_different_kernels_are_named() {
    let (folder, _) = make_folder();
    let one = compile(&folder, "one", "while (d > 0) d--;");
    let other = compile(&folder, "other", "while (d > 1) d--;");
    for (library, rank) in [(&one, "r0"), (&other, "r1")] {
        fs::copy(library, folder.path(&format!("{rank}/k.so"))).expect("a copy");
    }
    let line = "balance ./k.so --units 64 --store none --min-reps 2 --max-reps 3";
    let [mpi, mpich] = native_libraries();
    let refused = run_apart(&mpi, 2, &folder, line).failure(INPUT);
    let reason = "./k.so: rank 1 on";
    assert!(refused.contains(reason) && refused.contains("than rank 0 on"), "{refused}");
    fs::copy(&one, folder.path("r1/k.so")).expect("a copy");
    run_apart(&mpich, 2, &folder, line).success();
}

/// Writes another element in place.
fn rewrite(path: &str) {
    let file = fs::File::options().read(true).write(true).open(path).expect("a file");
    let metadata = file.metadata().expect("its times");
    let mut element = [0; 8];
    let place = metadata.len() / 2 / 8 * 8 + 3;
    file.read_exact_at(&mut element, place).expect("an element");
    element[0] ^= 1;
    file.write_all_at(&element, place).expect("an element");
}

/// Counts the descriptors of a process that stand for a file.
fn count_open(process: u32, path: &str) -> usize {
    let files = fs::read_dir(format!("/proc/{process}/fd"));
    files
        .into_iter()
        .flatten()
        .flatten()
        .filter(|file| fs::read_link(file.path()).is_ok_and(|link| link == Path::new(path)))
        .count()
}

/// Multiplies on two ranks, and makes a change once all have opened the matrices. Waits for the text of the platform then.
fn multiply_and_change(
    mpi: &Mpi,
    folder: &Folder,
    out: &str,
    how: &str,
    change: impl FnOnce(),
) -> Outcome {
    let pipe = folder.path("pipe");
    let program = mpi.isochron.to_str().expect("a name");
    let sh = folder.path("rank.sh");
    let line = format!(
        "{sh} {program} mxm --a A.npy --b B.npy --out {out} --platform /dev/fd/3 --store none {how}"
    );
    let words: Vec<&str> = line.split_whitespace().collect();
    // The head rank opens the platform once all have opened the matrices, and waits for its text.
    let waiting = fs::File::options().read(true).write(true).open(&pipe).expect("a pipe");
    let running = Running::start(mpi.command(2, Path::new("sh"), &words));
    let begun = Instant::now();
    let reads = |process: &u32| count_open(*process, &pipe) > 1;
    while !processes(&mpi.isochron, out).iter().any(reads) {
        assert!(begun.elapsed() < HANGS, "the platform is not opened");
        std::thread::park_timeout(Duration::from_millis(5));
    }
    change();
    fs::write(&pipe, "schema = 1\n[[node]]\n[[node]]\n").expect("a pipe");
    drop(waiting);
    running.wait(HANGS)
}

#[test]
fn a_matrix_rewritten_during_the_run_is_no_input() {
    let (folder, matrices) = make_folder();
    folder.make_pipe("pipe");
    let out = folder.path("out.npy");
    let in_parts = format!("--load-plan {}", plan_parts(&folder, 2));
    let apart = OWN_FOLDERS.replace("\"$@\"", "\"$@\" 3< ../pipe");
    // In one folder each rank reads its part.
    let together = apart.replace("${OMPI_COMM_WORLD_RANK:-$PMI_RANK}", "0");
    for mpi in native_libraries() {
        let ways = [
            (&together, "r0", ""),
            (&together, "r0", &*in_parts),
            (&apart, "r0", ""),
            (&apart, "r1", ""),
        ];
        for (script, whose, how) in mpi.take_turns(ways) {
            folder.write("rank.sh", script);
            for rank in ["r0", "r1"] {
                matrices[0].write(&folder.path(&format!("{rank}/A.npy")));
            }
            let rewritten = || rewrite(&folder.path(&format!("{whose}/A.npy")));
            let told = multiply_and_change(&mpi, &folder, &out, how, rewritten).failure(INPUT);
            let reason = "A.npy: changed while it was read";
            assert!(told.contains(reason), "{}, {whose}, {how}: {told}", mpi.name);
            assert!(!Path::new(&out).exists(), "{told}");
        }
    }
}

#[test]
fn a_header_takes_no_memory_that_the_file_lacks() {
    let folder = Folder::new();
    let shape = "{'descr': '<f8', 'fortran_order': False, 'shape': (1073741824, 1073741824), }";
    let long = [b"\x93NUMPY\x02\x00", &[0xff; 4][..], shape.as_bytes()].concat();
    let large = [b"\x93NUMPY\x01\x00", &[shape.len() as u8, 0][..], shape.as_bytes()].concat();
    let market = "%%MatrixMarket matrix coordinate real general\n";
    for (name, bytes) in [
        ("long.npy", long),
        ("large.npy", large),
        (
            "array.mtx",
            format!("{}999999 999999\n1\n", market.replace("coordinate", "array")).into(),
        ),
        ("sparse.mtx", format!("{market}999999 999999 99999999999\n1 1 1\n").into()),
    ] {
        fs::write(folder.path(name), bytes).expect("a file");
        let path = folder.path(name);
        let told = run_limited(2048, &format!("mxm --a {path} --b {path}")).failure(INPUT);
        assert!(told.contains(name) && told.contains("truncated"), "{told}");
    }
}
