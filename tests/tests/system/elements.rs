//! Matrices of every element type on the command line: computed, checked, kept in files, and refused where types do not fit.

use isochron::plan::Plan;
use isochron::report::Report;
use isochron_devices::{DeviceKind, ElementType};
use isochron_tests::emulator::emulate;
use isochron_tests::launch::{HANGS, Mpi, Outcome, SOON, libraries, run};

const INPUT: i32 = 2;

#[test]
fn every_type_is_multiplied_exactly() {
    for mpi in libraries() {
        for element in ElementType::ALL {
            let words: Vec<&str> = "mxm --size 150 --block 16 --op-a c --op-b t --beta -3 --verify exact --json --type".split(' ').chain([element.into()]).collect();
            let report: Report = serde_json::from_str(&mpi.isochron(3, &words).success()).unwrap();
            assert_eq!((report.element, report.verified), (element, Some(true)));
        }
    }
}

/// On a GPU with memory for C and on one that C streams through.
#[test]
fn every_type_is_multiplied_on_gpus() {
    let [mpi, _] = libraries();
    for (element, memory) in ElementType::ALL
        .into_iter()
        .flat_map(|element| ["16M", "64K"].map(|memory| (element, memory)))
    {
        let folder = tempfile::tempdir().unwrap();
        let words: Vec<&str> = "mxm --size 200 --block 20 --split c --verify exact --json --type"
            .split(' ')
            .chain([element.into()])
            .collect();
        let mut command = mpi.command(2, &mpi.isochron, &words);
        emulate(&mut command, folder.path());
        command
            .env("ISOCHRON_CUDA_EMULATOR_DEVICES", "2")
            .env("ISOCHRON_CUDA_EMULATOR_MEMORY", memory);
        let report: Report = serde_json::from_str(&run(command, HANGS).success()).unwrap();
        assert_eq!((report.element, report.verified), (element, Some(true)));
        let gpus = report
            .nodes
            .iter()
            .flat_map(|node| &node.devices)
            .filter(|device| device.kind == DeviceKind::Cuda);
        assert_eq!(gpus.count(), 2);
    }
}

fn multiply(mpi: &Mpi, words: &str) -> Outcome {
    let line = format!("mxm --size 60 --block 8 --verify exact --json {words}");
    let words: Vec<&str> = line.split(' ').collect();
    mpi.isochron(2, &words)
}

#[test]
fn factors_are_complex_where_the_elements_are() {
    let [mpi, _] = libraries();
    for factors in ["--alpha 2-3i --beta -1i", "--alpha=-i --beta 4", "--alpha -2"] {
        let text = multiply(&mpi, &format!("--type c64 {factors}")).success();
        let report: Report = serde_json::from_str(&text).unwrap();
        assert_eq!(report.verified, Some(true), "{factors}");
    }
    for (words, message) in [
        ("--alpha 2i", "matrices of f64 have real factors"),
        ("--type f32 --beta 1+1i", "use --type c32 or c64"),
        ("--alpha x", "invalid"),
        ("--type c64 --alpha infi", "a factor must be a finite number"),
        ("--type f32 --alpha 1e300", "numbers of f32 do not reach so far"),
        ("--type c32 --beta 1e-60", "numbers of c32 do not reach so far"),
        ("--type f16", "use f32, f64, c32 or c64"),
    ] {
        let stderr = multiply(&mpi, words).failure(INPUT);
        assert!(stderr.contains(message), "{words}: {stderr}");
    }
}

#[test]
fn files_say_which_type_it_is() {
    let [mpi, _] = libraries();
    let folder = tempfile::tempdir().unwrap();
    let [single, complex, text] = ["single.npy", "complex.npy", "both.mtx"]
        .map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    let cases: [(&[&str], ElementType); 6] = [
        (&["--size", "40", "--type", "f32", "--out", &single], ElementType::F32),
        (&["--size", "40", "--type", "c32", "--out", &complex], ElementType::C32),
        (&["--a", &single, "--b", &single], ElementType::F32),
        (&["--a", &single, "--b", &complex, "--out", &text], ElementType::C32),
        (&["--a", &single, "--b", &text], ElementType::C64),
        (&["--a", &single, "--b", &single, "--type", "f64"], ElementType::F64),
    ];
    for (words, element) in cases {
        let all = [&["mxm", "--block", "8", "--json"], words].concat();
        let report: Report = serde_json::from_str(&mpi.isochron(2, &all).success()).unwrap();
        assert_eq!(report.element, element, "{words:?}");
    }
    let words = ["mxm", "--a", &single, "--b", &complex, "--type", "f64"];
    let stderr = run(mpi.command(2, &mpi.isochron, &words), SOON).failure(INPUT);
    assert!(stderr.contains("complex.npy: holds complex numbers, and f64 has none"), "{stderr}");
}

#[test]
fn a_plan_is_for_one_type() {
    let [mpi, _] = libraries();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.json");
    let path = path.to_str().unwrap();
    let words: Vec<&str> = "mxm --size 80 --block 8 --type c32 --plan --json --save-plan"
        .split(' ')
        .chain([path])
        .collect();
    let document: Plan = serde_json::from_str(&mpi.isochron(2, &words).success()).unwrap();
    assert_eq!(document.problem().element(), ElementType::C32);
    let words = ["mxm", "--load-plan", path, "--json", "--verify", "exact"];
    let report: Report = serde_json::from_str(&mpi.isochron(2, &words).success()).unwrap();
    assert_eq!((report.element, report.verified), (ElementType::C32, Some(true)));
    let words = ["mxm", "--load-plan", path, "--type", "f64"];
    let stderr = mpi.isochron(2, &words).failure(INPUT);
    assert!(stderr.contains("it is for matrices of c32"), "{stderr}");
}
