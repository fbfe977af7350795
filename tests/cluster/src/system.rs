//! The system calls that have no safe wrapper: leaving namespaces, and TAP devices.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;
use rustix::ioctl::{Updater, ioctl, opcode};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Moves this process into new namespaces.
///
/// # Errors
/// Returns the system's error.
pub(crate) fn leave_namespaces(which: UnshareFlags) -> io::Result<()> {
    if which.contains(UnshareFlags::FILES) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: only FILES can take descriptors from under another thread, and it is refused above.
    unsafe { unshare_unsafe(which) }.map_err(io::Error::from)
}

/// `struct ifreq` of the kernel, as far as TUNSETIFF reads it.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; 16],
    flags: i16,
    rest: [u8; 22],
}

/// A device for Ethernet frames.
const IFF_TAP: i16 = 0x0002;
/// Frames without a header of the driver's.
const IFF_NO_PI: i16 = 0x1000;
/// `_IOW('T', 202, int)`.
const TUNSETIFF: rustix::ioctl::Opcode = opcode::write::<i32>(b'T', 202);

/// Makes a TAP device in this process's network: a read returns a frame that was sent through it, a write lets it
/// receive one. It is gone when the file is closed. Without a frame, reading fails at once.
///
/// # Errors
/// Returns the system's error.
pub(crate) fn make_tap(name: &str) -> io::Result<File> {
    let mut request = InterfaceRequest { name: [0; 16], flags: IFF_TAP | IFF_NO_PI, rest: [0; 22] };
    // The last byte ends the name.
    if name.is_empty() || name.len() >= request.name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open("/dev/net/tun")?;
    // SAFETY: TUNSETIFF reads and writes one `struct ifreq`, which `InterfaceRequest` is in size and layout.
    unsafe {
        let update = Updater::<'_, TUNSETIFF, InterfaceRequest>::new(&mut request);
        ioctl(&file, update)?;
    }
    Ok(file)
}
