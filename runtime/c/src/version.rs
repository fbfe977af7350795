//! The version of the interface.

use std::ffi::c_int;

use crate::pointers;
use crate::status::call;

/// Major version of the interface. A program can call a library with the same major version as its header and the same
/// or a higher minor version. isochron_abi returns both.
pub const ISOCHRON_ABI_MAJOR: c_int = 0;
/// Minor version of the interface. It grows with every added call, setting, constant and struct.
pub const ISOCHRON_ABI_MINOR: c_int = 9;

/// Writes the version of the interface that the library has.
///
/// # Safety
/// `major` and `minor` are null, or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_abi(major: *mut c_int, minor: *mut c_int) -> c_int {
    call(|| {
        // SAFETY: as the caller says.
        unsafe {
            pointers::clear(minor, 0);
            pointers::write(major, "major", ISOCHRON_ABI_MAJOR)?;
            pointers::write(minor, "minor", ISOCHRON_ABI_MINOR)
        }
    })
}
