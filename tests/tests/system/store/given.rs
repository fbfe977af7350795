//! Full models that are given by hand, by `--models`.

use super::*;

/// Writes models of the devices: the second is three times as slow as the first, and the third as slow as the second.
fn write_models(folder: &Folder) {
    fs::create_dir(folder.path("models")).expect("a new folder");
    let header = "# block: 8\n# element: f64\n# kernel: gemm";
    for (name, factor) in [("rank0-a-together", 1.0), ("rank0-b-alone", 3.0), ("rank1-gemm", 3.0)] {
        let points = [(1, 0.001), (64, 0.064)].map(|(d, t_s)| format!("{d} {}", factor * t_s));
        folder
            .write(&format!("models/{name}.points"), &format!("{header}\n{}\n", points.join("\n")));
    }
}

#[test]
fn models_given_by_hand_replace_measuring() {
    for mpi in libraries() {
        let folder = make_folder();
        write_models(&folder);
        let given = format!("--store none --models {}", folder.path("models"));
        for strategy in ["adaptive", "fpm", "fpm --fit akima --partitioner npa", "single-cpm"] {
            let report = multiply(&mpi, &folder, &format!("{given} --strategy {strategy}"));
            assert_eq!(list_known(&report), [KnownFrom::Models; 3], "{strategy}");
            assert_eq!(count_measurements(&report), 0, "{strategy}");
            check_division(&report);
        }
        let options = format!("{} {given}", SLOW.replace(" --json", ""));
        let told = run(command(&mpi, &folder, &options), HANGS).success();
        assert!(told.contains("3 known from given models"), "{told}");
    }
}

#[test]
fn models_that_were_measured_are_given_as_they_are() {
    for mpi in libraries() {
        let folder = make_folder();
        let models = folder.path("models");
        let line = "measure mxm --block 8 --panel 16 --to 64 --points 2 --max-reps 2";
        let platform = folder.path("slow.toml");
        mpi.run_line(2, &format!("{line} --out {models} --platform {platform}")).success();
        let report = multiply(&mpi, &folder, &format!("--store none --models {models}"));
        assert_eq!(list_known(&report), [KnownFrom::Models; 3]);
        check_division(&report);
    }
}

#[test]
fn hpopta_divides_columns_by_measured_times_of_any_shape() {
    let hpopta = "--store none --strategy fpm --partitioner hpopta";
    // The command that measures 8 columns of 8 blocks.
    let missing =
        "`isochron measure mxm --block 8 --height 8 --from 8 --to 64 --points 8 --out DIR`";
    for mpi in libraries() {
        let folder = make_folder();
        check_refusal(&mpi, &folder, hpopta, missing);
        fs::create_dir(folder.path("models")).expect("a new folder");
        let given = format!("{hpopta} --models {}", folder.path("models"));
        for (name, times) in [
            ("rank0-a-together", "8 1\n9 0.1\n16 9\n24 2\n32 1 3 9\n"),
            ("rank0-b-alone", "8 1\n16 2.1\n24 9\n"),
            ("rank1-gemm", "8 9\n24 2.2\n"),
        ] {
            folder.write(&format!("models/{name}.points"), &format!("# block: 8\n{times}"));
        }
        let report = multiply(&mpi, &folder, &given);
        assert_eq!(list_units(&report), [24.0, 16.0, 24.0]);
        assert_eq!(report.nodes[1].part.row, 0, "columns");
        let predicted_s = report.balance.expect("a balance").predicted_s.expect("a prediction");
        assert!((predicted_s / (32.0 * 2.2) - 1.0).abs() < 1e-9, "{predicted_s}");
        let columns = "--block 8 --panel 8 --height 8 --from 8 --to 64 --points 8 --max-reps 2";
        let (models, platform) = (folder.path("columns"), folder.path("slow.toml"));
        let line = format!("measure mxm {columns} --out {models} --platform {platform}");
        mpi.run_line(2, &line).success();
        let report = multiply(&mpi, &folder, &format!("{hpopta} --models {models}"));
        assert_eq!(list_known(&report), [KnownFrom::Models; 3]);
        check_division(&report);
    }
}

/// Checks that the options are refused with a message that has this part.
fn check_refusal(mpi: &Mpi, folder: &Folder, options: &str, part: &str) {
    let told = run(command(mpi, folder, &format!("{SLOW} {options}")), HANGS).failure(2);
    assert!(told.contains(part), "{options}: {told}");
}

#[test]
fn models_that_cannot_be_used_are_named_on_all_ranks() {
    for mpi in libraries() {
        let folder = make_folder();
        write_models(&folder);
        let models = folder.path("models");
        for (options, part) in [
            ("--models /not/there", "/not/there"),
            ("--models Cargo.toml", "Cargo.toml: is not a folder: full models"),
            (&format!("--models {models} --strategy homogeneous"), "not of homogeneous"),
            (&format!("--models {models} --type f32"), "rank0-a-together.points"),
        ] {
            check_refusal(&mpi, &folder, options, part);
        }
        folder.write("models/rank1-gemm.points", "# block: 8\n# kernel: jacobi\n1 1\n");
        let given = format!("--models {models}");
        check_refusal(&mpi, &folder, &given, "kernel jacobi");
        folder.write("models/rank1-gemm.points", "# block: 8\nx\n");
        check_refusal(&mpi, &folder, &given, "rank1-gemm.points");
        fs::remove_file(folder.path("models/rank1-gemm.points")).expect("removable");
        check_refusal(&mpi, &folder, &given, "device c of rank 1");
    }
}
