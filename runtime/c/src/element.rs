//! Types of elements.

use std::ffi::c_int;

use isochron::prelude::ElementType;

use crate::status::CallFailure;

/// Elements are `float`.
pub const ISOCHRON_F32: c_int = 0;
/// Elements are `double`.
pub const ISOCHRON_F64: c_int = 1;
/// Elements are `float complex`: two `float`.
pub const ISOCHRON_C32: c_int = 2;
/// Elements are `double complex`: two `double`.
pub const ISOCHRON_C64: c_int = 3;

/// Reads the type of the elements.
pub(crate) fn read_type(element: c_int) -> Result<ElementType, CallFailure> {
    match element {
        ISOCHRON_F32 => Ok(ElementType::F32),
        ISOCHRON_F64 => Ok(ElementType::F64),
        ISOCHRON_C32 => Ok(ElementType::C32),
        ISOCHRON_C64 => Ok(ElementType::C64),
        other => {
            let reason = format!("{other} is none of ISOCHRON_F32, F64, C32 and C64");
            Err(CallFailure::argument("type", reason))
        }
    }
}
