//! The libraries that programs and plugins need, as the loader finds them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::files::file_name;
use crate::machine;
use crate::mpi::MpiInstallation;

/// Libraries that belong to the C library, by the start of their names.
const GLIBC: &[&str] = &[
    "ld-linux",
    "libBrokenLocale.so",
    "libanl.so",
    "libc.so",
    "libc_malloc_debug.so",
    "libdl.so",
    "libm.so",
    "libmvec.so",
    "libnsl.so",
    "libnss_",
    "libpthread.so",
    "libresolv.so",
    "librt.so",
    "libthread_db.so",
    "libutil.so",
];

/// Returns `true` if a library belongs to the C library, and must come with its loader.
pub fn is_of_the_c_library(name: &str) -> bool {
    GLIBC.iter().any(|start| name.starts_with(start))
}

/// The libraries that a program, a library or a plugin needs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The paths at which the loader finds them.
    pub found: Vec<PathBuf>,
    /// The names of libraries that it does not find.
    pub missing: Vec<String>,
}

impl Needs {
    /// Asks the loader about one file. Scripts and texts need nothing.
    pub fn of(file: &Path, mpi: &MpiInstallation) -> Result<Self> {
        let mut ldd = Command::new("ldd");
        // An MPI library outside the system's folders is found as when ranks are started here.
        mpi.apply(&mut ldd);
        let output = ldd.arg(file).stdin(Stdio::null()).output();
        let output = output.context("ldd was not found")?;
        Ok(Self::read(&String::from_utf8_lossy(&output.stdout)))
    }

    /// Reads what ldd prints: `name => path (address)`, `name => not found`, or `path (address)` for the loader.
    fn read(told: &str) -> Self {
        let mut needs = Self::default();
        for line in told.lines().map(str::trim) {
            if let Some(name) = line.strip_suffix("=> not found") {
                needs.missing.push(name.trim().to_owned());
            } else if let Some((library, version)) = other_version(line) {
                needs.missing.push(format!("{library} of version {version}"));
            } else if let Some((path, _)) = line.rsplit_once(" (0x") {
                let path = path.rsplit("=> ").next().unwrap_or_default();
                if path.starts_with('/') {
                    needs.found.push(PathBuf::from(path));
                }
            }
        }
        needs
    }
}

/// Returns the library and the version in `file: library: version `X' not found (required by user)`.
fn other_version(line: &str) -> Option<(String, &str)> {
    let (before, after) = line.split_once(": version `")?;
    let (version, _) = after.split_once("' not found")?;
    let library = before.rsplit(": ").next()?;
    Some((file_name(Path::new(library)), version))
}

/// Lists the libraries that these files need; of several with one name, that of the first file.
///
/// # Errors
/// Fails if a library is not found; the message names it and the file that needs it.
pub fn needed_by(files: &[PathBuf], mpi: &MpiInstallation) -> Result<Vec<PathBuf>> {
    let mut names = BTreeSet::new();
    let mut needed = Vec::new();
    for file in files {
        let needs = Needs::of(file, mpi)?;
        if !needs.missing.is_empty() {
            bail!(
                "{}, which {} needs, was not found: install it, or put its folder on LD_LIBRARY_PATH",
                needs.missing.join(" and "),
                file_name(file)
            );
        }
        let found = needs.found.into_iter();
        needed.extend(found.filter(|path| names.insert(file_name(path))));
    }
    Ok(needed)
}

/// Returns the path of a library in the loader's list, as `ldconfig -p` prints it.
pub fn path_of(name: &str, listed: &str) -> Option<PathBuf> {
    let mut lines = listed.lines().map(str::trim);
    // On machines that run programs of two architectures the line says which.
    let other = if cfg!(target_arch = "x86_64") { "(libc6)" } else { "(nothing)" };
    lines
        .find(|line| {
            let mut words = line.split_whitespace();
            words.next() == Some(name) && words.next() != Some(other)
        })?
        .split("=> ")
        .nth(1)
        .map(PathBuf::from)
}

/// Returns the version of the C library here, such as `2.36`.
pub fn glibc_version() -> Result<String> {
    let told = machine::read_output("getconf", &["GNU_LIBC_VERSION"]);
    told.as_deref()
        .and_then(|told| told.trim().strip_prefix("glibc "))
        .map(str::to_owned)
        .context("bundles are made on Linux with the GNU C library")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_read_from_what_the_loader_says() {
        let told = "\tlinux-vdso.so.1 (0x00007f0cd957b000)\n\
                    \tlibmpi.so.40 => /lib/libmpi.so.40 (0x00007f0cd8de1000)\n\
                    \tlibx.so.3 => not found\n\
                    /b/plugin.so: /lib/liby.so.1: version `Y_1.9' not found (required by /b/plugin.so)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f0cd957d000)\n";
        let needs = Needs::read(told);
        let found: Vec<_> = needs.found.iter().map(|path| path.display()).collect();
        let found: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, ["/lib/libmpi.so.40", "/lib64/ld-linux-x86-64.so.2"]);
        assert_eq!(needs.missing, ["libx.so.3", "liby.so.1 of version Y_1.9"]);
        assert_eq!(Needs::read("\tstatically linked\n"), Needs::default());
    }

    #[test]
    fn a_library_is_found_by_its_whole_name() {
        let listed = "2 libs found\n\tlibopenblas.so (libc6,x86-64) => /a\n\tlibopenblas.so.0 (libc6,x86-64) => /b\n";
        assert_eq!(path_of("libopenblas.so.0", listed), Some("/b".into()));
        assert_eq!(path_of("libmkl_rt.so.2", listed), None);
    }

    #[test]
    fn the_c_library_is_more_than_one_file() {
        for name in ["libc.so.6", "ld-linux-x86-64.so.2", "libm.so.6", "libnss_files.so.2"] {
            assert!(is_of_the_c_library(name), "{name}");
        }
        for name in ["libcuda.so.1", "libcrypt.so.1", "libmpi.so.40"] {
            assert!(!is_of_the_c_library(name), "{name}");
        }
    }
}
