//! Structs of a C program, which may be those of an older header.
//!
//! A struct begins with its size. A later version of the interface may append fields, and never changes or removes one. A
//! program that was compiled with an older header passes a shorter struct: the fields that it lacks are 0, which stands for
//! their default. A struct that is longer than the library's is refused, since the library would ignore what it says.

use std::mem::MaybeUninit;
use std::ptr;

use crate::pointers;
use crate::status::CallFailure;

/// A struct of the interface.
///
/// # Safety
/// It has the layout of C, begins with its size as an `i64`, and is valid if all its bytes are 0. The sizes ascend, and the
/// last one is that of the struct.
pub(crate) unsafe trait SizedStruct: Copy {
    /// The name in C.
    const NAME: &'static str;
    /// The size in each version of the interface that has added fields.
    const SIZES: &'static [usize];
}

/// Reads a struct. The fields that an older version lacks are 0.
///
/// # Safety
/// `from` is null, or points to a struct of as many bytes as its first field says.
pub(crate) unsafe fn read_struct<T: SizedStruct>(
    from: *const T,
    name: &str,
) -> Result<T, CallFailure> {
    // SAFETY: null, or a size comes first, as the caller says.
    let bytes = unsafe { read_size(from, name)? };
    // SAFETY: as the caller says, these bytes can be read; they are at most those of the struct.
    Ok(unsafe { copy_struct(from, bytes) })
}

/// Reads structs that lie one after the other. All have the size of the first.
///
/// # Safety
/// `from` is null, or points to `length` structs as [`read_struct`] takes them.
pub(crate) unsafe fn read_structs<T: SizedStruct>(
    from: *const T,
    length: usize,
    name: &str,
) -> Result<Vec<T>, CallFailure> {
    if length == 0 {
        return Ok(Vec::new());
    }
    let first_name = format!("{name}[0]");
    // SAFETY: there is a first one, as the caller says.
    let bytes = unsafe { read_size(from, &first_name)? };
    // SAFETY: as many bytes, as the caller says.
    unsafe { pointers::read_slice(from.cast::<i64>(), length.saturating_mul(bytes / 8), name)? };
    let mut structs = pointers::reserve(length, "structs of the program")?;
    for index in 0..length {
        let name = format!("{name}[{index}]");
        // SAFETY: within the structs of the caller, each of which has the size of the first.
        let next = unsafe { from.byte_add(index * bytes) };
        // SAFETY: as above.
        let found = unsafe { read_size(next, &name)? };
        if found != bytes {
            let reason = format!("{found}, and that of {first_name} is {bytes}");
            return Err(refuse_size(&name, reason));
        }
        // SAFETY: as above.
        structs.push(unsafe { copy_struct(next, bytes) });
    }
    Ok(structs)
}

/// Writes an answer into a struct of the program: the fields that its version has. Its size stays.
///
/// # Safety
/// `to` is null, or points to a struct that may be written, of as many bytes as its first field says.
pub(crate) unsafe fn write_struct<T: SizedStruct>(
    to: *mut T,
    name: &str,
    answer: &T,
) -> Result<(), CallFailure> {
    // SAFETY: null, or a size comes first, as the caller says.
    let bytes = unsafe { read_size(to, name)? };
    let (from, to) = (ptr::from_ref(answer).cast::<u8>(), to.cast::<u8>());
    let fields = size_of::<i64>()..bytes;
    // SAFETY: the caller's struct has these bytes, which are at most those of the answer.
    unsafe { ptr::copy_nonoverlapping(from.add(fields.start), to.add(fields.start), fields.len()) };
    Ok(())
}

/// Reads the size of a struct, and checks that some version of the interface has it.
///
/// # Safety
/// `from` is null, or begins with a size.
unsafe fn read_size<T: SizedStruct>(from: *const T, name: &str) -> Result<usize, CallFailure> {
    // SAFETY: as the caller says.
    let found = unsafe { pointers::read(from.cast::<i64>(), name)? };
    let bytes = usize::try_from(found).unwrap_or(0);
    let (kind, wanted) = (T::NAME, size_of::<T>());
    if T::SIZES.contains(&bytes) {
        return Ok(bytes);
    }
    let mut reason = format!("{found}, and sizeof({kind}) of this library is {wanted}");
    if bytes > wanted {
        reason += ": the program needs a newer library";
    }
    Err(refuse_size(name, reason))
}

fn refuse_size(name: &str, reason: String) -> CallFailure {
    CallFailure::argument(&format!("{name}.struct_size"), reason)
}

/// Copies the first bytes of a struct. The others are 0.
///
/// # Safety
/// `from` has these bytes, which are at most those of the struct.
unsafe fn copy_struct<T: SizedStruct>(from: *const T, bytes: usize) -> T {
    let mut copy = MaybeUninit::<T>::zeroed();
    // SAFETY: as the caller says; a struct is valid if its other bytes are 0.
    unsafe {
        ptr::copy_nonoverlapping(from.cast::<u8>(), copy.as_mut_ptr().cast::<u8>(), bytes);
        copy.assume_init()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A struct whose first version had three fields.
    #[derive(Debug, Clone, Copy, PartialEq)]
    #[repr(C)]
    struct Grown {
        struct_size: i64,
        units: i64,
        seconds: f64,
        /// Of the second version.
        added: *const i64,
        /// Of the third version.
        weight: f64,
    }

    // SAFETY: integers, floats and a pointer.
    unsafe impl SizedStruct for Grown {
        const NAME: &'static str = "grown_t";
        const SIZES: &'static [usize] = &[24, 32, 40];
    }

    fn grow(struct_size: i64) -> Grown {
        Grown { struct_size, units: 7, seconds: 0.5, added: ptr::dangling(), weight: 3.0 }
    }

    #[test]
    fn fields_that_an_older_program_lacks_are_0() {
        let whole = grow(40);
        let first = Grown { added: ptr::null(), weight: 0.0, ..grow(24) };
        let second = Grown { weight: 0.0, ..grow(32) };
        for (size, wanted) in [(24, first), (32, second), (40, whole)] {
            // SAFETY: a struct with these bytes.
            let found = unsafe { read_struct(&grow(size), "mine") };
            assert_eq!(found.unwrap(), wanted);
        }
    }

    #[test]
    fn other_sizes_are_refused_and_longer_ones_ask_for_a_newer_library() {
        for size in [0, -1, 8, 25, 28, 41, 48, i64::MAX, i64::MIN] {
            // SAFETY: the struct is not looked at beyond its size.
            let failure = unsafe { read_struct(&grow(size), "mine") }.unwrap_err();
            let text = format!("{failure:?}");
            assert!(text.contains(&format!("mine.struct_size: {size}, ")), "{text}");
            assert_eq!(text.contains("a newer library"), size > 40, "{text}");
        }
        // SAFETY: a null pointer.
        let failure = unsafe { read_struct(ptr::null::<Grown>(), "mine") }.unwrap_err();
        assert!(format!("{failure:?}").contains("null"), "{failure:?}");
    }

    #[test]
    fn an_answer_ends_where_an_older_program_s_struct_ends() {
        let answer = grow(40);
        let before = Grown { units: 0, seconds: 0.0, added: ptr::null(), weight: -1.0, ..grow(0) };
        for size in [24, 32, 40] {
            let mut place = Grown { struct_size: size, ..before };
            // SAFETY: a struct with these bytes.
            unsafe { write_struct(&mut place, "mine", &answer) }.unwrap();
            let wanted = Grown {
                struct_size: size,
                added: if size > 24 { answer.added } else { before.added },
                weight: if size > 32 { answer.weight } else { before.weight },
                ..answer
            };
            assert_eq!(place, wanted);
        }
        let mut longer = Grown { struct_size: 48, ..before };
        // SAFETY: the struct is not looked at beyond its size.
        let refused = unsafe { write_struct(&mut longer, "mine", &answer) };
        assert!(format!("{refused:?}").contains("a newer library"));
        assert_eq!(longer.units, 0);
    }

    #[test]
    fn structs_of_an_older_program_lie_closer_to_each_other() {
        let numbers = [24, 1, 0, 24, 2, 0, 24, 3, 0_i64];
        // SAFETY: three structs of the first version.
        let found = unsafe { read_structs(numbers.as_ptr().cast::<Grown>(), 3, "devices") };
        let found = found.unwrap();
        assert!(found.iter().map(|grown| grown.units).eq(1..=3), "{found:?}");
        assert!(found.iter().all(|grown| grown.added.is_null() && grown.weight == 0.0));
        let numbers = [24, 1, 0, 32, 2, 0, 0_i64];
        // SAFETY: a struct of the first version and one of the second.
        let found = unsafe { read_structs(numbers.as_ptr().cast::<Grown>(), 2, "devices") };
        let text = format!("{:?}", found.unwrap_err());
        assert!(text.contains("devices[1].struct_size: 32"), "{text}");
        // SAFETY: no struct.
        let none = unsafe { read_structs(ptr::null::<Grown>(), 0, "devices") };
        assert!(none.unwrap().is_empty());
    }
}
