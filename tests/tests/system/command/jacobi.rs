//! `isochron app jacobi`: results, divisions by prescribed times, files and mistakes, under both MPI libraries.

use isochron_tests::launch::{Mpi, SOON, libraries, run};
use serde_json::Value;

use super::{Folder, isochron, json, total};

/// Runs the command on ranks with the words of `line`; returns its document.
fn solve(mpi: &Mpi, ranks: usize, line: &str) -> Value {
    let words: Vec<&str> =
        ["app", "jacobi"].into_iter().chain(line.split_whitespace()).chain(["--json"]).collect();
    json(&mpi.isochron(ranks, &words).success())
}

/// Writes a platform with a node for each list of points: pairs of units of 8×8 elements and seconds.
fn write_points_platform(folder: &Folder, nodes: &[&[(u64, f64)]]) -> String {
    let mut text = "schema = 1\n".to_owned();
    for (rank, points) in nodes.iter().enumerate() {
        let lines = points.iter().map(|(d, t_s)| format!("{d} {t_s}\n"));
        let lines: String = lines.collect();
        folder.write(&format!("node{rank}.points"), &format!("# block: 8\n{lines}"));
        text += &format!("[[node]]\n[[node.device]]\ncores = 1\npoints = \"node{rank}.points\"\n");
    }
    folder.write("nodes.toml", &text)
}

/// Seconds of a node of constant speed.
fn make_points(unit_s: f64) -> [(u64, f64); 2] {
    [(1, unit_s), (1000, 1000.0 * unit_s)]
}

const STRATEGIES: [&str; 4] =
    ["--strategy cpm", "--strategy fpm", "--strategy fpm --partitioner npa", "--strategy adaptive"];

#[test]
fn iterates_have_the_same_bits_in_any_division() {
    let folder = Folder::new();
    let [fast, slow] = [1e-4, 4e-4].map(make_points);
    let platform = write_points_platform(&folder, &[&fast, &slow, &fast, &slow]);
    let system = "--size 61 --seed 7 --tolerance 0 --max-iterations 25 --verify solution";
    let [mpi, _] = libraries();
    let alone = solve(&mpi, 1, &format!("{system} --strategy even --out {}", folder.path("x.npy")));
    let bits = std::fs::read(folder.path("x.npy")).expect("a solution");
    for mpi in libraries() {
        for (ranks, strategy) in [3, 2, 3, 4].into_iter().zip(STRATEGIES) {
            let out = folder.path(&format!("{}-{ranks}.npy", mpi.name));
            let line = format!("{system} {strategy} --platform {platform} --out {out}");
            let found = solve(&mpi, ranks, &line);
            assert_eq!(found["checksum"], alone["checksum"], "{found}");
            assert_eq!(found["residual"], alone["residual"], "{found}");
            assert_eq!(std::fs::read(&out).expect("a solution"), bits, "{line}");
            assert!(found["moved"].as_u64() > Some(0), "{line}: {found}");
            for sweep in found["history"].as_array().expect("iterations") {
                assert_eq!(total(&sweep["rows"]), 61, "{found}");
            }
        }
    }
}

#[test]
fn a_hidden_slow_rank_gets_fewer_rows_by_every_strategy() {
    let folder = Folder::new();
    let [fast, slow] = [1e-4, 4e-4].map(make_points);
    let platform = write_points_platform(&folder, &[&fast, &fast, &slow]);
    let line = format!("--size 90 --tolerance 0 --max-iterations 40 --platform {platform}");
    for mpi in libraries() {
        for strategy in mpi.take_turns(STRATEGIES) {
            let found = solve(&mpi, 3, &format!("{line} {strategy}"));
            let history = found["history"].as_array().expect("iterations");
            assert_eq!((history.len(), total(&history[0]["rows"])), (40, 90));
            let moves: Vec<usize> = (1..)
                .zip(history)
                .filter(|(_, sweep)| sweep["moved"] != 0)
                .map(|(iteration, _)| iteration)
                .collect();
            assert!((1..=5).contains(&moves.len()), "{strategy}: {moves:?}");
            assert!(moves[0] <= 20, "{strategy}: {moves:?}");
            // The last rank is four times slower: 40, 40 and 10 rows take the same time.
            let rows = history[39]["rows"].as_array().expect("rows");
            let rows: Vec<u64> = rows.iter().filter_map(Value::as_u64).collect();
            let far = rows.iter().zip([40, 40, 10]).map(|(&rows, fair)| rows.abs_diff(fair));
            assert!(far.max() <= Some(2), "{strategy}: {rows:?}");
        }
    }
}

/// Seconds of a node that pages behind 40 units: with the fourth power of the size.
fn make_cliff(unit_s: f64) -> Vec<(u64, f64)> {
    let paged = (1..=16)
        .map(|step| 40 + 8 * step)
        .map(|d| (d, d as f64 * unit_s * (d as f64 / 40.0).powi(4)));
    [1, 20, 40].map(|d| (d, d as f64 * unit_s)).into_iter().chain(paged).collect()
}

/// Returns the seconds of the slowest rank in each iteration.
fn list_longest(found: &Value) -> Vec<f64> {
    let times = found["history"]
        .as_array()
        .expect("iterations")
        .iter()
        .filter_map(|sweep| sweep["times_s"].as_array());
    times.map(|times| times.iter().filter_map(Value::as_f64).fold(0.0, f64::max)).collect()
}

#[test]
fn at_a_memory_cliff_constant_speeds_swing_and_speed_functions_settle() {
    let folder = Folder::new();
    let (cliff, fast, slow) = (make_cliff(5e-5), make_points(1e-4), make_points(1.5e-4));
    let platform = write_points_platform(&folder, &[&cliff, &fast, &slow]);
    // 144 units in all: with 48 of them the first rank pages.
    let line = format!("--size 96 --tolerance 0 --max-iterations 16 --platform {platform}");
    for mpi in libraries() {
        let swinging = solve(&mpi, 3, &format!("{line} --strategy cpm"));
        let last = &swinging["history"].as_array().expect("iterations")[8..15];
        assert!(last.iter().all(|sweep| sweep["moved"].as_u64() > Some(9)), "{swinging}");
        let swinging = list_longest(&swinging);
        for partitioner in mpi.take_turns(["gpa", "npa"]) {
            let settled = format!("{line} --strategy fpm --partitioner {partitioner}");
            let settled = solve(&mpi, 3, &settled);
            let last = &settled["history"].as_array().expect("iterations")[12..];
            assert!(last.iter().all(|sweep| sweep["moved"] == 0), "{settled}");
            let settled = list_longest(&settled);
            // All three are equal at about 50 units of the first one.
            assert!(settled[15] < 0.007, "{settled:?}");
            assert!(settled[8..].iter().sum::<f64>() < 0.5 * swinging[8..].iter().sum::<f64>());
        }
    }
}

#[test]
fn systems_of_files_are_solved() {
    let folder = Folder::new();
    let market = "%%MatrixMarket matrix coordinate real symmetric\n3 3 5\n1 1 4\n2 2 4\n3 3 4\n2 1 1\n3 2 1\n";
    let sparse = folder.write("sparse.mtx", market);
    let dense = "%%MatrixMarket matrix array real general\n3 3\n4\n1\n0\n1\n4\n1\n0\n1\n4\n";
    let dense = folder.write("dense.mtx", dense);
    let right = "%%MatrixMarket matrix array real general\n3 1\n6\n12\n14\n";
    let right = folder.write("right.mtx", right);
    for mpi in libraries() {
        let out = folder.path("x.mtx");
        let mut checksums = Vec::new();
        for a in [&sparse, &dense] {
            let found = solve(&mpi, 3, &format!("--a {a} --b {right} --out {out}"));
            assert_eq!((&found["converged"], &found["verified"]), (&true.into(), &true.into()));
            assert_eq!(found["dominance"], 2.0);
            checksums.push(found["checksum"].clone());
            let text = std::fs::read_to_string(&out).expect("a solution");
            let far = text
                .lines()
                .skip(2)
                .map(|line| line.parse::<f64>().expect("a number"))
                .zip([1.0, 2.0, 3.0])
                .map(|(x, known)| (x - known).abs());
            assert!(far.fold(0.0, f64::max) < 1e-9, "{text}");
        }
        assert_eq!(checksums[0], checksums[1]);
        // Without a right side, the solution is known.
        let found = solve(&mpi, 2, &format!("--a {sparse} --verify solution"));
        assert!(found["error"].as_f64() < Some(1e-9), "{found}");
    }
}

#[test]
fn a_vector_of_numpy_is_a_right_side() {
    let folder = Folder::new();
    let a = folder
        .write("a.mtx", "%%MatrixMarket matrix coordinate integer general\n2 2 2\n1 1 2\n2 2 8\n");
    let header = format!("{:117}\n", "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }");
    let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    bytes.extend(header.bytes());
    bytes.extend([4_i32, 4].iter().flat_map(|number| number.to_le_bytes()));
    let b = folder.path("b.npy");
    std::fs::write(&b, bytes).expect("a writable folder");
    for mpi in libraries() {
        let out = folder.path("x.mtx");
        let found = solve(&mpi, 2, &format!("--a {a} --b {b} --out {out}"));
        assert_eq!((&found["dominance"], &found["residual"]), (&Value::Null, &0.0.into()));
        let text = std::fs::read_to_string(&out).expect("a solution");
        assert!(text.ends_with("2 1\n2e0\n5e-1\n"), "{text}");
    }
}

/// Runs each line on 3 ranks and expects its exit status and its message, once.
#[test]
fn ranks_without_rows_wait() {
    let lines: Vec<String> = (1..=3)
        .flat_map(|size| {
            STRATEGIES.map(|strategy| format!("--size {size} --verify solution {strategy}"))
        })
        .collect();
    for mpi in libraries() {
        for line in mpi.take_turns(&lines) {
            let found = solve(&mpi, 4, line);
            assert_eq!(found["verified"], true, "{line}: {found}");
            assert_eq!(found["converged"], true, "{line}: {found}");
        }
    }
}

fn refuse_all(cases: &[(&str, i32, &str)]) {
    for mpi in libraries() {
        for (line, status, message) in mpi.take_turns(cases) {
            let words: Vec<&str> = ["app", "jacobi"].into_iter().chain(line.split(' ')).collect();
            let stderr = run(mpi.command(3, &mpi.isochron, &words), SOON).failure(*status);
            let shown = stderr.matches(message).count();
            assert_eq!(shown, 1, "{}: {message:?} once in {stderr}", mpi.name);
        }
    }
}

#[test]
fn systems_that_cannot_be_solved_are_explained_on_all_ranks() {
    let folder = Folder::new();
    let files = [
        ("wide", "3 4 1\n1 1 1\n"),
        ("empty", "0 0 0\n"),
        ("zero", "4 4 3\n1 1 1\n2 2 1\n4 4 1\n"),
        ("nan", "3 3 3\n1 1 1\n2 2 nan\n3 3 1\n"),
        ("cut", "3 3 3\n1 1 1.2345678\n2 2 1\n"),
        ("whole", "3 3 3\n1 1 1\n2 2 1\n3 3 1\n"),
    ];
    let [wide, empty, zero, nan, cut, whole] = files.map(|(name, lines)| {
        let text = format!("%%MatrixMarket matrix coordinate real general\n{lines}");
        format!("--a {}", folder.write(&format!("{name}.mtx"), &text))
    });
    let b = |name| format!("{whole} --b {}", folder.path(name));
    refuse_all(&[
        (&wide, 2, "wide.mtx: holds a 3×4 matrix, and A is square"),
        (&empty, 2, "empty.mtx: holds a 0×0 matrix"),
        (&zero, 2, "A = 0 in row 2 and column 2 (counted from 0)"),
        (&nan, 2, "the first is NaN in row 1, column 1"),
        (&cut, 2, "truncated: 2 elements of 3"),
        (&b("wide.mtx"), 2, "holds a 3×4 matrix, wanted 3×1"),
        (&(b("whole.mtx") + " --verify solution"), 2, "is not known"),
        ("--a missing.mtx", 2, "missing.mtx"),
        ("--tolerance 0", 2, "<--size <N>|--a <FILE>>\n\nUsage"),
        ("--a a.mtx --dominance 2", 2, "'--a <FILE>' cannot be used with '--dominance <FACTOR>'"),
        ("--size 40 --dominance 0.5", 1, "Jacobi's method diverges: after "),
        ("--size 40 --dominance 0.5 --max-iterations 3", 1, "A is not diagonally dominant, in row"),
    ]);
}

#[test]
fn options_that_make_no_sense_are_explained_on_all_ranks() {
    let folder = Folder::new();
    let few = folder.write("few.toml", "schema = 1\n[[node]]\n");
    let gpu = "schema = 1\n[[node]]\n[[node]]\n[[node.device]]\nkind = \"cuda\"\n[[node]]\n";
    let [few, gpu] = [few, folder.write("gpu.toml", gpu)]
        .map(|platform| format!("--size 9 --platform {platform}"));
    refuse_all(&[
        ("--size 9 --tolerance -1", 2, "expected 0 or a number above 0"),
        ("--size 9 --tolerance inf", 2, "expected 0 or a number above 0"),
        ("--size 0", 2, "expected a whole number from 1"),
        ("--size 9 --max-iterations 0", 2, "expected a whole number from 1"),
        ("--size 9 --strategy best", 2, "invalid value 'best'"),
        ("--size 9 --partitioner best", 2, "unknown partitioner"),
        (
            "--size 9 --partitioner npa",
            2,
            "partitioner = npa: an option of strategy fpm, not of adaptive",
        ),
        (
            "--size 9 --strategy fpm --partitioner hpopta",
            2,
            "partitioner = hpopta: it takes measured times alone",
        ),
        (
            "--size 9 --strategy even --epsilon 0.1",
            2,
            "epsilon = 0.1: an option of strategies cpm and fpm, not of even",
        ),
        (
            "--size 9 --strategy cpm --max-divisions 3",
            2,
            "max-divisions = 3: an option of strategy fpm, not of cpm",
        ),
        ("--size 9 --a a.mtx", 2, "cannot be used with"),
        ("--size 9 --b missing.mtx", 2, "missing.mtx"),
        ("--size 40000000", 2, "MiB: the plan needs"),
        ("--size 9 --out no-such-folder/x.npy", 2, "there is no folder no-such-folder"),
        ("--size 9 --platform no-such.toml", 2, "no-such.toml"),
        (&few, 2, "describes 1 nodes, but there are 3 ranks"),
        (&gpu, 2, "it has a GPU"),
    ]);
}

#[test]
fn the_report_for_people_fits_80_columns() {
    let text = isochron(&["app", "jacobi", "--size", "200", "--verify", "solution"]).success();
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("\nconverged after ") && text.contains("verified, "), "{text}");
    let few = ["app", "jacobi", "--size", "200", "--max-iterations", "2", "--verify", "none"];
    let text = isochron(&few).success();
    assert!(text.contains("not converged after 2 iterations") && text.contains("not verified"));
    let folder = Folder::new();
    let [fast, slow] = [1e-4, 4e-4].map(make_points);
    let platform = write_points_platform(&folder, &[&fast, &slow]);
    let [mpi, _] = libraries();
    let words = ["app", "jacobi", "--size", "64", "--strategy", "cpm", "--platform", &platform];
    let text = mpi.isochron(2, &words).success();
    assert!(text.contains("rows moved") && text.contains("300 %"), "{text}");
    assert!(text.contains("points node1.points"), "{text}");
}
