//! Measured times of a C program.

use crate::pointers::{self, to_size};
use crate::status::CallFailure;
use crate::structs::{SizedStruct, read_struct};

/// The measured times of a device, or of a rank's work in a loop. Set struct_size to sizeof(isochron_times_t), and all
/// unused fields to 0. Later versions may append fields. They accept this struct as it is, and take the missing fields
/// as 0.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct TimesTable {
    /// Bytes of this struct.
    pub struct_size: i64,
    /// Number of points.
    pub n_points: i64,
    /// Units of each point, in any order.
    pub units: *const i64,
    /// Seconds of each point.
    pub seconds: *const f64,
    /// The most units to give; 0 for no limit.
    pub max_units: i64,
}

// SAFETY: integers and pointers, with the size first.
unsafe impl SizedStruct for TimesTable {
    const NAME: &'static str = "isochron_times_t";
    const SIZES: &'static [usize] = &[size_of::<Self>()];
}

/// Points of a program, and the most units.
pub(crate) struct GivenTimes {
    pub points: Vec<(u64, f64)>,
    pub max_units: Option<u64>,
}

impl TimesTable {
    /// Reads times of a program.
    ///
    /// # Safety
    /// `times` is null, or points to a struct of as many bytes as its first field says, whose arrays are null or have
    /// `n_points` numbers.
    pub(crate) unsafe fn read(times: *const Self, name: &str) -> Result<GivenTimes, CallFailure> {
        // SAFETY: as the caller says.
        unsafe { read_struct(times, name)?.read_points(name) }
    }

    /// Reads the points.
    ///
    /// # Safety
    /// The arrays are null or have `n_points` numbers.
    pub(crate) unsafe fn read_points(&self, name: &str) -> Result<GivenTimes, CallFailure> {
        let field = |field: &str| format!("{name}.{field}");
        let n_points = to_size(self.n_points, &field("n_points"))?;
        let mut points = pointers::reserve(n_points, "points of the program")?;
        // SAFETY: as many numbers, as the caller says.
        let (units, seconds) = unsafe {
            (
                pointers::read_slice(self.units, n_points, &field("units"))?,
                pointers::read_slice(self.seconds, n_points, &field("seconds"))?,
            )
        };
        for (&units, &seconds) in units.iter().zip(seconds) {
            points.push((to_size(units, &field("units"))? as u64, seconds));
        }
        let max_units = to_size(self.max_units, &field("max_units"))? as u64;
        Ok(GivenTimes { points, max_units: (max_units > 0).then_some(max_units) })
    }
}
