//! What devices must not be given.

use std::str::FromStr;

use isochron_hierarchy::partition::Limits;

use crate::failure::Failure;

/// The most units of a device, or `none`.
#[derive(Clone, Copy)]
pub struct Cap(Option<u64>);

impl FromStr for Cap {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(None));
        }
        let cap = text.parse();
        cap.map(|cap| Self(Some(cap)))
            .map_err(|_| "expected a whole number of units, or none".to_owned())
    }
}

/// A size that must not be given out: `DEVICE:SIZE`, or `SIZE` to any device.
#[derive(Clone, Copy)]
pub struct Forbidden {
    device: Option<usize>,
    size: u64,
}

impl FromStr for Forbidden {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (device, size) = match text.split_once(':') {
            Some((device, size)) => (Some(device), size),
            None => (None, text),
        };
        let parse = || {
            let device = device.map(str::parse).transpose().ok()?;
            let size = size.parse().ok().filter(|&size| size > 0)?;
            Some(Self { device, size })
        };
        parse().ok_or_else(|| "expected SIZE or DEVICE:SIZE, whole numbers, SIZE from 1".to_owned())
    }
}

/// The limits of each of `n` devices.
pub fn of_devices(caps: &[Cap], forbidden: &[Forbidden], n: usize) -> Result<Vec<Limits>, Failure> {
    let mut limits = vec![Limits::default(); n];
    match caps {
        [] => {}
        [Cap(cap)] => limits.iter_mut().for_each(|limits| limits.cap = *cap),
        _ if caps.len() == n => {
            for (limits, Cap(cap)) in limits.iter_mut().zip(caps) {
                limits.cap = *cap;
            }
        }
        _ => {
            return Err(Failure::input(format!(
                "--caps: {} caps for {n} devices: give one each, or one for all",
                caps.len()
            )));
        }
    }
    for &Forbidden { device, size } in forbidden {
        let devices = match device {
            None => 0..n,
            Some(device) if device < n => device..device + 1,
            Some(device) => {
                return Err(Failure::input(format!(
                    "--forbid {device}:{size}: there are {n} devices, counted from 0"
                )));
            }
        };
        for limits in &mut limits[devices] {
            limits.forbidden.insert(size);
        }
    }
    Ok(limits)
}
