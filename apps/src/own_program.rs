//! The file that starts this program.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

/// Returns the file that starts this program.
///
/// # Errors
/// Fails if the system does not tell it.
pub fn find_own_program() -> io::Result<PathBuf> {
    locate(env::var_os("ISOCHRON_BUNDLE"))
}

/// Returns the script of a `bundle`, whose program is started by a loader: the system would name that.
fn locate(bundle: Option<OsString>) -> io::Result<PathBuf> {
    match bundle {
        Some(bundle) => Ok(PathBuf::from(bundle).join("bin/isochron")),
        None => env::current_exe(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_program_of_a_bundle_is_its_script() {
        let bundled = locate(Some("/b".into())).expect("a path");
        assert_eq!(bundled, Path::new("/b/bin/isochron"));
        let own = locate(None).expect("a path");
        assert!(own.is_file(), "{}", own.display());
    }
}
