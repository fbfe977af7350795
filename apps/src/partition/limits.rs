//! The limits of devices.

use std::ops::Range;
use std::str::FromStr;

use clap::Args;
use isochron_hierarchy::partition::{Limits, Memory};

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
    device: Option<u64>,
    size: u64,
}

impl FromStr for Forbidden {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = match parse_numbers(text).as_deref() {
            Some(&[size]) => Some((None, size)),
            Some(&[device, size]) => Some((Some(device), size)),
            _ => None,
        };
        match parsed {
            Some((device, size)) if size > 0 => Ok(Self { device, size }),
            _ => Err("expected SIZE or DEVICE:SIZE, whole numbers, SIZE from 1".to_owned()),
        }
    }
}

/// The memory of a device in bytes, `DEVICE:PER_UNIT:FIXED:AVAILABLE`, or without a device that of each.
#[derive(Clone, Copy)]
pub struct MemoryLimit {
    device: Option<u64>,
    memory: Memory,
}

impl FromStr for MemoryLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (device, [bytes_per_unit, fixed_bytes, available_bytes]) =
            match parse_numbers(text).as_deref() {
                Some(&[device, per_unit, fixed, available]) => {
                    (Some(device), [per_unit, fixed, available])
                }
                Some(&[per_unit, fixed, available]) => (None, [per_unit, fixed, available]),
                _ => {
                    return Err("expected BYTES_PER_UNIT:FIXED:AVAILABLE or \
                            DEVICE:BYTES_PER_UNIT:FIXED:AVAILABLE, whole numbers"
                        .to_owned());
                }
            };
        Ok(Self {
            device,
            memory: Memory {
                bytes_per_unit,
                fixed_bytes,
                available_bytes,
            },
        })
    }
}

/// Parses whole numbers with colons between them.
fn parse_numbers(text: &str) -> Option<Vec<u64>> {
    text.split(':').map(|number| number.parse().ok()).collect()
}

/// Options that limit devices.
#[derive(Args)]
pub struct LimitArguments {
    /// Most units of each device in order, `none` for no limit, or one value for all: 100,none,50
    /// (hpopta family)
    #[arg(long, value_delimiter = ',', value_name = "CAP,...")]
    caps: Vec<Cap>,
    /// Sizes that must not be given out, to device I or to any: I:SIZE or SIZE (hpopta family)
    #[arg(long, value_delimiter = ',', value_name = "[I:]SIZE,...")]
    forbid: Vec<Forbidden>,
    /// Memory of device I, or of each device, in bytes: its units take FIXED and PER_UNIT each, of
    /// AVAILABLE; of several values for one device the last counts (hpopta family)
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "[I:]PER_UNIT:FIXED:AVAILABLE,..."
    )]
    memory: Vec<MemoryLimit>,
}

impl LimitArguments {
    /// Returns the flags, each with `true` if it was given.
    pub fn flags(&self) -> [(&'static str, bool); 3] {
        [
            ("--caps", !self.caps.is_empty()),
            ("--forbid", !self.forbid.is_empty()),
            ("--memory", !self.memory.is_empty()),
        ]
    }

    /// Returns the flags that were given, in words.
    pub fn given_names(&self) -> String {
        let given = self.flags().into_iter().filter(|(_, given)| *given);
        let names: Vec<&str> = given.map(|(flag, _)| flag).collect();
        names.join(", ")
    }

    /// Returns the limits of each of `n` devices.
    ///
    /// # Errors
    /// If there is another number of caps, or a limit is for a device that does not exist.
    pub fn for_devices(&self, n: usize) -> Result<Vec<Limits>, Failure> {
        let mut limits = vec![Limits::default(); n];
        match &self.caps[..] {
            [] => {}
            [Cap(cap)] => limits.iter_mut().for_each(|limits| limits.cap = *cap),
            caps if caps.len() == n => {
                for (limits, Cap(cap)) in limits.iter_mut().zip(caps) {
                    limits.cap = *cap;
                }
            }
            caps => {
                return Err(Failure::input(format!(
                    "--caps: {} caps for {n} devices: give one each, or one for all",
                    caps.len()
                )));
            }
        }
        for &Forbidden { device, size } in &self.forbid {
            for limits in &mut limits[device_range("--forbid", device, n)?] {
                limits.forbidden.insert(size);
            }
        }
        for &MemoryLimit { device, memory } in &self.memory {
            for limits in &mut limits[device_range("--memory", device, n)?] {
                limits.memory = Some(memory);
            }
        }
        Ok(limits)
    }
}

/// Returns one device, or all.
fn device_range(flag: &str, device: Option<u64>, n: usize) -> Result<Range<usize>, Failure> {
    match device {
        None => Ok(0..n),
        // It is an index, since it is less than `n`.
        Some(device) if device < n as u64 => Ok(device as usize..device as usize + 1),
        Some(device) => Err(Failure::input(format!(
            "{flag}: device {device}: there are {n} devices, counted from 0"
        ))),
    }
}
