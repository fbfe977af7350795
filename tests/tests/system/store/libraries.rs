//! The choice of `--blas auto`, which the store keeps.

use isochron::store::LibraryIdentity;

use super::*;

/// Multiplies in the usual size with the BLAS that `--blas auto` takes.
fn multiply_by_auto(mpi: &Mpi, folder: &Folder, options: &str) -> Report {
    let mut command = command(mpi, folder, &format!("{SLOW} {options}"));
    command.env("ISOCHRON_BLAS", "");
    read_report(run(command, HANGS))
}

/// Returns the origin of each node's choice of a BLAS.
fn list_choices(report: &Report) -> Vec<Option<KnownFrom>> {
    report.nodes.iter().map(|node| node.blas_known).collect()
}

/// Changes the stored times of libraries, each with its key.
fn change_libraries(folder: &Folder, change: fn(&mut LibraryIdentity, &mut Vec<Series>)) {
    change_runs(folder, |run| {
        if let Identity::Library(library) = &mut run.key.identity {
            change(library, &mut run.samples);
        }
    });
}

fn count_library_runs(folder: &Folder) -> usize {
    read_runs(folder)
        .iter()
        .map(|run| &run.key.identity)
        .filter(|identity| matches!(identity, Identity::Library(_)))
        .count()
}

#[test]
fn auto_takes_the_library_of_the_first_run_without_measuring() {
    for mpi in libraries() {
        let folder = make_folder();
        let first = multiply_by_auto(&mpi, &folder, "");
        assert_eq!(list_choices(&first), [Some(KnownFrom::Fresh); 2]);
        let stored = count_library_runs(&folder);
        assert!(stored > 0);
        // Times by which another run would choose the embedded library.
        change_libraries(&folder, |library, samples| {
            let is_embedded = library.library.contains("embedded");
            samples[0].seconds = vec![if is_embedded { 1e-6 } else { 1.0 }];
        });
        for (options, chosen) in [
            ("", Some(KnownFrom::Store)),
            ("--store read", Some(KnownFrom::Store)),
            ("--store none", Some(KnownFrom::Fresh)),
            ("--blas embedded", None),
        ] {
            let later = multiply_by_auto(&mpi, &folder, options);
            assert_eq!(list_choices(&later), [chosen; 2], "{options}");
            assert_eq!(count_library_runs(&folder), stored, "{options}");
            let mut devices = later.nodes.iter().flat_map(|node| &node.devices);
            assert!(
                options == "--store none" || devices.all(|device| device.blas.contains("embedded"))
            );
        }
        let last = multiply_by_auto(&mpi, &folder, "");
        assert_eq!(list_known(&last), [KnownFrom::Store; 3]);
        let listed = models(&folder, "store", "list").success();
        assert!(listed.contains(" chosen "), "{listed}");
    }
}

#[test]
fn a_library_that_is_gone_is_told_and_another_one_chosen() {
    let mpi = open_mpi();
    let folder = make_folder();
    multiply_by_auto(&mpi, &folder, "");
    change_libraries(&folder, |library, _| {
        library.libraries.push("Gone 1.0 (gone.so)".to_owned());
    });
    let anew = multiply_by_auto(&mpi, &folder, "");
    assert_eq!(list_choices(&anew), [Some(KnownFrom::Fresh); 2]);
    let notices = list_notices(&anew);
    let word = "the BLAS is chosen anew: Gone 1.0 (gone.so) is gone";
    let told = notices.iter().filter(|notice| **notice == word).count();
    assert_eq!(told, 1, "{notices:?}");
    let later = multiply_by_auto(&mpi, &folder, "");
    assert_eq!(list_choices(&later), [Some(KnownFrom::Store); 2]);
    assert!(!list_notices(&later).iter().any(|notice| *notice == word));
}
