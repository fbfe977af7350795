//! How fast copies between host and GPU are: of pinned memory, which is what the link carries, and of ordinary matrices, with
//! the copy on the host that they need.

use super::check::Outcome;
use super::engine::Engine;
use super::speed::{PROBE_SLOT_BYTES, numbers};
use super::staging::Place;
use super::stream::MatrixCopy;
use crate::{DeviceError, View, ViewMut};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Columns of the matrix that is copied: as the panels of a multiplication it is longer than it is wide, and a slot of
/// pinned memory holds many of its columns.
const COLUMNS: usize = 2048;

/// What copies of so many bytes took, each in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Transfers {
    /// Bytes of each copy.
    pub bytes: u64,
    /// From pinned memory to the GPU, alone.
    pub up_s: f64,
    /// From the GPU to pinned memory, alone.
    pub down_s: f64,
    /// Both at the same time, until the longer one was done.
    pub both_s: f64,
    /// From an ordinary matrix to the GPU, through the slots of pinned memory that jobs use.
    pub staged_up_s: f64,
    /// The same from the GPU to an ordinary matrix.
    pub staged_down_s: f64,
}

impl Engine {
    /// Times copies of about `bytes` bytes; a job under way is abandoned. `None` where the limits have no room for two such
    /// matrices on the GPU and two in pinned memory.
    ///
    /// # Errors
    /// [`DeviceError::Cuda`] when a call fails.
    pub fn transfers(&mut self, bytes: u64) -> Result<Option<Transfers>, DeviceError> {
        self.abandon()?;
        let column = usize::try_from(bytes).unwrap_or(usize::MAX) / COLUMNS;
        let rows = (column / size_of::<f64>()).max(1);
        let whole = (rows * COLUMNS * size_of::<f64>()) as u64;
        if 2 * whole > self.limits.device_bytes || 2 * whole > self.limits.host_bytes {
            return Ok(None);
        }
        self.guarded(|engine| engine.time_transfers(rows, whole))
            .map(Some)
    }

    fn time_transfers(&mut self, rows: usize, whole: u64) -> Outcome<Transfers> {
        let (device, start) = self.hold(2 * whole, 2 * whole)?;
        let pitch = rows * size_of::<f64>();
        // The first half of the memory goes up, the second half comes down.
        let copy = |to_host: bool| {
            let half = u64::from(to_host) * whole;
            MatrixCopy {
                host: start.as_ptr().wrapping_add(half as usize),
                host_pitch: pitch,
                device: device + half,
                device_pitch: pitch,
                width: pitch,
                height: COLUMNS,
                to_host,
            }
        };
        let pinned = |up: bool, down: bool| -> Outcome<f64> {
            let begin = Instant::now();
            // SAFETY: both halves are held until nothing is under way, the host end is pinned, and nobody uses it meanwhile.
            unsafe {
                if up {
                    self.lanes.upload.copy(&copy(false))?;
                }
                if down {
                    self.lanes.download.copy(&copy(true))?;
                }
            }
            self.lanes.upload.synchronize()?;
            self.lanes.download.synchronize()?;
            Ok(begin.elapsed().as_secs_f64())
        };
        let (up_s, down_s, both_s) = (
            pinned(true, false)?,
            pinned(false, true)?,
            pinned(true, true)?,
        );
        let slot = PROBE_SLOT_BYTES.min(pitch * COLUMNS);
        // SAFETY: the pinned memory has room for two slots, and is held until the next job places its own; nothing is under
        // way.
        unsafe { self.staging.place(start, slot) };
        let mut values = numbers::<f64>(rows * COLUMNS);
        let place = Place {
            address: device,
            ld: rows,
        };
        let begin = Instant::now();
        let from = View::new(&values, rows, COLUMNS, rows);
        self.staging.upload(&self.lanes.upload, from, place)?;
        self.lanes.upload.synchronize()?;
        let staged_up_s = begin.elapsed().as_secs_f64();
        let begin = Instant::now();
        let to = ViewMut::new(&mut values, rows, COLUMNS, rows);
        self.staging.download(&self.lanes.download, place, to)?;
        let staged_down_s = begin.elapsed().as_secs_f64();
        Ok(Transfers {
            bytes: whole,
            up_s,
            down_s,
            both_s,
            staged_up_s,
            staged_down_s,
        })
    }
}
