//! Cores that are left to the program around.

use crate::contract::DeviceError;
use crate::host::topology::Topology;

/// Takes the `reserved` cores away from this process.
///
/// # Errors
/// Returns [`DeviceError::Parameter`] for a core that this process may not use, and if none would be left.
pub fn reserve_cores(topology: Topology, reserved: &[u32]) -> Result<Topology, DeviceError> {
    if reserved.is_empty() {
        return Ok(topology);
    }
    let cores = topology.cores();
    let is_here = |wanted: &u32| cores.iter().any(|core| core.core == *wanted);
    if let Some(missing) = reserved.iter().find(|wanted| !is_here(wanted)) {
        let n = cores.len();
        let reason = format!("this process may use {n} cores of its host, not this one");
        return Err(DeviceError::parameter("reserved cores", missing, reason));
    }
    let left = cores.iter().filter(|core| !reserved.contains(&core.core));
    let left: Vec<u32> = left.flat_map(|core| core.pus.clone()).collect();
    if left.is_empty() {
        let reason = "no core is left to compute on";
        return Err(DeviceError::parameter("reserved cores", format!("{reserved:?}"), reason));
    }
    Ok(topology.with_allowed_pus(&left))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(reserved: &[u32]) -> Result<Vec<u32>, DeviceError> {
        let topology = Topology::from_synthetic("core:4 pu:2").unwrap();
        Ok(reserve_cores(topology, reserved)?.cores().iter().map(|core| core.core).collect())
    }

    #[test]
    fn reserved_cores_are_left_to_the_host_program() {
        assert_eq!(left(&[]).unwrap(), [0, 1, 2, 3]);
        assert_eq!(left(&[0, 2]).unwrap(), [1, 3]);
    }

    #[test]
    fn reserved_cores_that_are_not_here_and_all_cores_are_refused() {
        let text = left(&[1, 7]).unwrap_err().to_string();
        assert!(text.contains("reserved cores = 7"), "{text}");
        let text = left(&[0, 1, 2, 3]).unwrap_err().to_string();
        assert!(text.contains("no core is left"), "{text}");
    }
}
