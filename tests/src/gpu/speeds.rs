//! What is measured of a GPU.

use isochron_devices::cuda::{BlasXt, Engine, PinnedVec};
use isochron_devices::{DeviceError, View, ViewMut};

use super::case::integers;
use super::{assert_clean, config, first};
use crate::emulator::Control;

/// What is measured of a GPU and its link; on the emulator with every call failing in turn as well.
pub fn speeds(control: Option<&Control>) -> usize {
    // Room for the smallest square, and for the probe of the link beside what a job may use.
    let config = config(Some(3 * 8 * 256 * 256));
    let measure = || {
        let mut engine = Engine::new("cuda0", &first()?, &config)?;
        let peak = engine.resident_peak::<f64>()?;
        let copies = engine.transfers(300_000)?.expect("two such matrices fit");
        let products = [
            engine.time_products::<f64>((100, 60, 40), 2)?,
            engine.time_products::<f32>((64, 300, 7), 1)?,
        ];
        let too_large = engine.time_products::<f64>((1000, 1000, 1000), 1)?;
        assert!(too_large.is_none(), "it is beyond the limit");
        let times_s = [
            [copies.up_s, copies.down_s, copies.both_s],
            [copies.staged_up_s, copies.staged_down_s, 1.0],
        ];
        let times_s = times_s
            .into_iter()
            .flatten()
            .chain(products.into_iter().flatten());
        assert_eq!(times_s.filter(|&t_s| t_s > 0.0).count(), 8);
        Ok::<_, DeviceError>((engine.link_bytes_per_s(), peak))
    };
    let (link, peak) = measure().expect("a working GPU");
    match streams_with_cublasxt() {
        // Not every library has it.
        Ok(()) | Err(DeviceError::CudaLibrary { .. }) => {}
        Err(error) => panic!("cuBLASXt: {error}"),
    }
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
        let outcome = measure().and_then(|_| streams_with_cublasxt());
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

/// The product of cuBLASXt, of pinned matrices and of ordinary ones, is exact.
fn streams_with_cublasxt() -> Result<(), DeviceError> {
    let gpu = first()?;
    let engine = Engine::new("cuda0", &gpu, &config(Some(1 << 20)))?;
    let mut xt = BlasXt::new("cuda0", &gpu)?;
    xt.set_block(32)?;
    let (m, n, k) = (70, 50, 40);
    let (a, b, mut c) = (integers(m * k, 1), integers(k * n, 2), integers(m * n, 3));
    let sum = |(i, j): (usize, usize)| (0..k).map(|p| a[p * m + i] * b[j * k + p]).sum::<f64>();
    let expected = |at: usize| integers(m * n, 3)[at] + sum((at % m, at / m));
    let expected: Vec<f64> = (0..m * n).map(expected).collect();
    let mut pinned = PinnedVec::copy_of(&engine, &c)?;
    let pinned_a = PinnedVec::copy_of(&engine, &a)?;
    let view_b = View::new(&b, k, n, k);
    xt.multiply(
        View::new(&a, m, k, m),
        view_b,
        ViewMut::new(&mut c, m, n, m),
    )?;
    assert_eq!(c, expected);
    let to = ViewMut::new(pinned.as_mut_slice(), m, n, m);
    xt.multiply(View::new(pinned_a.as_slice(), m, k, m), view_b, to)?;
    assert_eq!(pinned.as_slice(), expected);
    Ok(())
}
