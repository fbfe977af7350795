//! Makes of BLAS libraries. They differ in the memory that they take, and in the way their threads are set.

use std::path::Path;

#[cfg(all(target_os = "linux", target_env = "gnu"))]
use super::elf::{LinkTables, find_beside};
use super::find_file;

/// The make of a library, whatever the name of its file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Make {
    Mkl,
    OpenBlas,
    Blis,
    Other,
}

/// Each make with a part of its files' names, and with a function that no other make has.
const MAKES: [(Make, &str, &str); 3] = [
    (Make::Mkl, "mkl", "MKL_Get_Version_String"),
    (Make::Blis, "blis", "bli_thread_set_num_threads"),
    (Make::OpenBlas, "openblas", "openblas_set_num_threads"),
];

/// Longest chain of libraries that only pass calls on. Debian's `libblas.so.3` of OpenBLAS is one of them.
const MAX_CHAIN: usize = 4;

impl Make {
    /// Tells the make by the functions of a library that is loaded.
    pub fn by_functions(has_function: impl Fn(&str) -> bool) -> Self {
        find_make(|_, function| has_function(function))
    }

    /// Tells the make of the library that the system's loader takes for `file`, without loading it.
    pub fn of(file: &str) -> Self {
        match find_file(file) {
            Some(path) => Self::of_path(&path, MAX_CHAIN),
            None => Self::by_name(Path::new(file)),
        }
    }

    /// Tells the make of a file by its functions, by the libraries to which it passes calls on, or by its name.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn of_path(path: &Path, chain: usize) -> Self {
        let Some(tables) = LinkTables::read(path) else {
            return Self::by_name(path);
        };
        let by_functions = Self::by_functions(|function| tables.has_name(function));
        if by_functions != Self::Other || !tables.has_name("gemm") || chain == 0 {
            return by_functions;
        }
        let folder = path.parent().unwrap_or(Path::new("/"));
        tables
            .needed
            .iter()
            .filter_map(|name| find_beside(folder, name).or_else(|| find_file(name)))
            .map(|needed| Self::of_path(&needed, chain - 1))
            .find(|&make| make != Self::Other)
            .unwrap_or_else(|| Self::by_name(path))
    }

    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    fn of_path(path: &Path, _chain: usize) -> Self {
        Self::by_name(path)
    }

    /// Tells the make by the name of a file, without links to it.
    fn by_name(path: &Path) -> Self {
        let resolved = path.canonicalize();
        let name = resolved.as_deref().unwrap_or(path).file_name();
        let name = name.unwrap_or_default().to_string_lossy();
        find_make(|part, _| name.contains(part))
    }
}

fn find_make(is_of: impl Fn(&str, &str) -> bool) -> Make {
    MAKES
        .into_iter()
        .find(|&(_, name, function)| is_of(name, function))
        .map_or(Make::Other, |(make, _, _)| make)
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;

    #[test]
    fn openblas_is_known_under_any_name() {
        // The machines of the tests have it; others may not.
        let Some(path) = find_file("libopenblas.so.0") else {
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let [link, copy] = ["libmklblas.so", "liblinear.so"].map(|name| folder.path().join(name));
        std::os::unix::fs::symlink(&path, &link).unwrap();
        std::fs::copy(&path, &copy).unwrap();
        let misnamed = folder.path().join("libmklcopy.so");
        std::fs::copy(&path, &misnamed).unwrap();
        for file in [&path, &link, &copy, &misnamed] {
            assert_eq!(Make::of(file.to_str().unwrap()), Make::OpenBlas, "{file:?}");
        }
        assert_eq!(Make::of("libopenblas.so.0"), Make::OpenBlas);
        // Debian's library of this name passes calls on to the one that the system's administrator has chosen.
        let passes_on = path.with_file_name("libblas.so.3");
        if passes_on.exists() {
            assert_eq!(Make::of(passes_on.to_str().unwrap()), Make::OpenBlas);
        }
    }

    #[test]
    fn other_libraries_are_of_no_make() {
        assert_eq!(Make::of("libm.so.6"), Make::Other);
        assert_eq!(Make::of("/nowhere/libfast.so"), Make::Other);
        assert_eq!(Make::of("/nowhere/libmkl_rt.so.2"), Make::Mkl);
        assert_eq!(Make::of("libblis.so.4"), Make::Blis);
    }
}
