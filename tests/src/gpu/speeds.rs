//! What is measured of a GPU.

use isochron_devices::DeviceError;
use isochron_devices::cuda::Engine;

use super::{assert_clean, config, first};
use crate::emulator::Control;

/// What is measured of a GPU and its link; on the emulator with every call failing in turn as well.
pub fn speeds(control: Option<&Control>) -> usize {
    // Room for the smallest square, and for the probe of the link beside what a job may use.
    let config = config(Some(3 * 8 * 256 * 256));
    let measure = || {
        let mut engine = Engine::new("cuda0", &first()?, &config)?;
        let peak = engine.resident_peak::<f64>()?;
        Ok::<_, DeviceError>((engine.link_bytes_per_s(), peak))
    };
    let (link, peak) = measure().expect("a working GPU");
    let peak = peak.expect("the smallest square fits");
    assert!(link.is_finite() && link > 1e6, "{link} bytes/s");
    assert!(peak.flops_per_s.is_finite() && peak.flops_per_s > 1e6);
    assert_eq!(peak.side, 256);
    let Some(control) = control else { return 1 };
    let mut number = 0;
    loop {
        number += 1;
        control.reset();
        // Out of memory first, and then whatever else.
        control.fail(number, [2, 801][number as usize % 2], false);
        let outcome = measure();
        let failed = control.failed();
        assert_clean(Some(control), &format!("call {number}, {failed}"));
        match outcome {
            Ok(_) if failed.is_empty() => return number as usize,
            Ok(_) => {}
            Err(DeviceError::Cuda { .. }) => {
                assert!(!failed.is_empty(), "an error without a cause")
            }
            Err(other) => panic!("call {number}, {failed}: {other}"),
        }
    }
}
