//! Matrices of every element type on the command line: computed, checked, kept in files, and refused where types do not fit.

use isochron::report::Report;
use isochron_devices::{DeviceKind, ElementType};
use isochron_tests::emulator::run_emulated;
use isochron_tests::launch::{Mpi, Outcome, SOON, libraries, open_mpi, run};

use crate::command::Folder;

const INPUT: i32 = 2;

#[test]
fn every_type_is_multiplied_exactly() {
    for mpi in libraries() {
        for element in ElementType::ALL {
            let line = format!(
                "mxm --size 150 --block 16 --op-a c --op-b t --beta -3 --verify exact --json --type {element}"
            );
            let report: Report = serde_json::from_str(&mpi.run_line(3, &line).success()).unwrap();
            assert_eq!((report.element, report.verified), (element, Some(true)));
        }
    }
}

/// On a GPU with memory for C and on one that C streams through.
#[test]
fn every_type_is_multiplied_on_gpus() {
    let mpi = open_mpi();
    for (element, memory) in ElementType::ALL
        .into_iter()
        .flat_map(|element| ["16M", "64K"].map(|memory| (element, memory)))
    {
        let line =
            format!("mxm --size 200 --block 20 --split c --verify exact --json --type {element}");
        let text = run_emulated(&mpi, 2, &line, &[("DEVICES", "2"), ("MEMORY", memory)]).success();
        let report: Report = serde_json::from_str(&text).unwrap();
        assert_eq!((report.element, report.verified), (element, Some(true)));
        let devices = report.nodes.iter().flat_map(|node| &node.devices);
        assert_eq!(devices.filter(|device| device.kind == DeviceKind::Cuda).count(), 2);
    }
}

fn multiply(mpi: &Mpi, words: &str) -> Outcome {
    mpi.run_line(2, &format!("mxm --size 60 --block 8 --verify exact --json {words}"))
}

#[test]
fn factors_are_complex_where_the_elements_are() {
    let mpi = open_mpi();
    for factors in ["--alpha 2-3i --beta -1i", "--alpha=-i --beta 4", "--alpha -2"] {
        let text = multiply(&mpi, &format!("--type c64 {factors}")).success();
        let report: Report = serde_json::from_str(&text).unwrap();
        assert_eq!(report.verified, Some(true), "{factors}");
    }
    for (words, message) in [
        ("--alpha 2i", "matrices of f64 have real factors"),
        ("--type f32 --beta 1+1i", "use --type c32 or c64"),
        ("--alpha x", "a complex one"),
        ("--alpha NaN", "alpha = NaN: a factor must be a finite number"),
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
    let mpi = open_mpi();
    let folder = Folder::new();
    for (line, element) in [
        ("--size 40 --type f32 --out @single.npy", ElementType::F32),
        ("--size 40 --type c32 --out @complex.npy", ElementType::C32),
        ("--a @single.npy --b @single.npy", ElementType::F32),
        ("--a @single.npy --b @complex.npy --out @both.mtx", ElementType::C32),
        ("--a @single.npy --b @both.mtx", ElementType::C64),
        ("--a @single.npy --b @single.npy --type f64", ElementType::F64),
    ] {
        let words = folder.words(&format!("mxm --block 8 --json {line}"));
        let report: Report = serde_json::from_str(&mpi.isochron(2, &words).success()).unwrap();
        assert_eq!(report.element, element, "{line}");
    }
    let words = folder.words("mxm --a @single.npy --b @complex.npy --type f64");
    let stderr = run(mpi.command(2, &mpi.isochron, &words), SOON).failure(INPUT);
    assert!(stderr.contains("complex.npy: holds complex numbers, and f64 has none"), "{stderr}");
}
