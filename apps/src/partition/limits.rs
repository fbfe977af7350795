//! The limits of devices.

use std::ops::Range;

use clap::Args;
use isochron_hierarchy::partition::{Limits, Memory};

use crate::failure::Failure;

/// The most units of a device, or none.
type Cap = Option<u64>;

/// A value for one device, or for each.
type ForDevice<T> = (Option<u64>, T);

fn parse_cap(text: &str) -> Result<Cap, String> {
    if text == "none" {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| "expected a whole number of units, or none".to_owned())
}

fn parse_forbidden(text: &str) -> Result<ForDevice<u64>, String> {
    match parse_numbers(text) {
        Some((device, [size])) if size > 0 => Ok((device, size)),
        _ => Err("expected SIZE or DEVICE:SIZE, whole numbers, SIZE from 1".to_owned()),
    }
}

fn parse_memory(text: &str) -> Result<ForDevice<Memory>, String> {
    let (device, [bytes_per_unit, fixed_bytes, available_bytes]) = parse_numbers(text).ok_or(
        "expected BYTES_PER_UNIT:FIXED:AVAILABLE or DEVICE:BYTES_PER_UNIT:FIXED:AVAILABLE, whole numbers",
    )?;
    let memory = Memory { bytes_per_unit, fixed_bytes, available_bytes };
    Ok((device, memory))
}

/// Parses `N` whole numbers with colons between them, and the number of a device if it stands before them.
fn parse_numbers<const N: usize>(text: &str) -> Option<ForDevice<[u64; N]>> {
    let numbers = text.split(':').map(|number| number.parse().ok());
    let numbers: Vec<u64> = numbers.collect::<Option<_>>()?;
    let (device, numbers) = match numbers.split_first() {
        Some((&device, rest)) if rest.len() == N => (Some(device), rest),
        _ => (None, &numbers[..]),
    };
    Some((device, numbers.try_into().ok()?))
}

/// Options that limit devices.
#[derive(Args)]
pub struct LimitArguments {
    /// Most units of each device in order, `none` for no limit, or one value for all: 100,none,50
    /// (hpopta family)
    #[arg(long, value_delimiter = ',', allow_hyphen_values = true, value_name = "CAP,...", value_parser = parse_cap)]
    caps: Vec<Cap>,
    /// Sizes that must not be given out, to device I or to any: I:SIZE or SIZE (hpopta family)
    #[arg(long, value_delimiter = ',', allow_hyphen_values = true, value_name = "[I:]SIZE,...", value_parser = parse_forbidden)]
    forbid: Vec<ForDevice<u64>>,
    /// Memory of device I, or of each device, in bytes: its units take FIXED and PER_UNIT each, of
    /// AVAILABLE; of several values for one device the last counts (hpopta family)
    #[arg(
        long,
        value_delimiter = ',', allow_hyphen_values = true,
        value_name = "[I:]PER_UNIT:FIXED:AVAILABLE,...",
        value_parser = parse_memory
    )]
    memory: Vec<ForDevice<Memory>>,
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
        let names: Vec<&str> =
            self.flags().into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag).collect();
        names.join(", ")
    }

    /// Returns the limits of each of `n` devices.
    ///
    /// # Errors
    /// Fails if there is another number of caps, or a limit is for a device that does not exist.
    pub fn for_devices(&self, n: usize) -> Result<Vec<Limits>, Failure> {
        let caps = match &self.caps[..] {
            [] => vec![None; n],
            [cap] => vec![*cap; n],
            caps if caps.len() == n => caps.to_vec(),
            caps => {
                return Err(Failure::input(format!(
                    "--caps: {} caps for {n} devices: give one each, or one for all",
                    caps.len()
                )));
            }
        };
        let limits = caps.into_iter().map(|cap| Limits { cap, ..Limits::default() });
        let mut limits: Vec<Limits> = limits.collect();
        for &(device, size) in &self.forbid {
            for limits in &mut limits[device_range("--forbid", device, n)?] {
                limits.forbidden.insert(size);
            }
        }
        for &(device, memory) in &self.memory {
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
