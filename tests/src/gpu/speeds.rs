//! Measured speeds of a GPU, and the yardsticks of its campaigns.

use isochron_bench::yardsticks::{BlasXt, BoundContext, PinnedVec, time_pinned_copies};
use isochron_devices::{DeviceError, View, ViewMut};

use super::case::integers;
use super::{assert_clean, first, worker};
use crate::emulator::Control;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The speeds of a GPU and its link are measured; on the emulator with every call failing in turn as well.
pub fn speeds(control: Option<&Control>) -> usize {
    let link = measure_speeds().expect("a working GPU");
    measure_yardsticks().expect("a working GPU");
    assert!(link.is_finite() && link > 1e6, "{link} bytes/s");
    let Some(control) = control else { return 1 };
    let mut number = 0;
    loop {
        number += 1;
        control.reset();
        // Out of memory first, and then another code.
        control.fail(number, [2, 801][number as usize % 2], false);
        let outcome = measure_speeds().and_then(|_| measure_yardsticks());
        let failed = control.failed();
        assert_clean(Some(control), &format!("call {number}, {failed}"));
        match outcome {
            Ok(()) if failed.is_empty() => return number as usize,
            Ok(()) => {}
            Err(error) => {
                assert!(!failed.is_empty(), "an error without a cause: {error}");
                let is_call = error
                    .downcast_ref::<DeviceError>()
                    .is_none_or(|e| matches!(e, DeviceError::Cuda { .. }));
                assert!(is_call, "call {number}, {failed}: {error}");
            }
        }
    }
}

/// Measures the link and some products; returns the bytes a second of the link.
fn measure_speeds() -> Result<f64, Failure> {
    // Room for small products, and for the trial of the link in addition to the memory of a job.
    let mut worker = worker(Some(3 * 8 * 256 * 256))?;
    let products =
        [worker.time_products::<f64>(100, 60, 40, 2)?, worker.time_products::<f32>(64, 300, 7, 1)?];
    assert!(products.iter().all(|t_s| t_s.is_some_and(|t_s| t_s > 0.0)));
    for (m, n, k) in [(1000, 1000, 1000), (usize::MAX, 2, usize::MAX), (100, 0, 1)] {
        let t_s = worker.time_products::<f64>(m, n, k, 1)?;
        assert_eq!(t_s, None, "{m}x{n}, k = {k}");
    }
    Ok(worker.link_bytes_per_s())
}

/// Copies of pinned memory take time, and the product of cuBLASXt is exact, of pinned matrices and of ordinary ones.
fn measure_yardsticks() -> Result<(), Failure> {
    let gpu = first()?;
    let copies = time_pinned_copies(&gpu, 2048, 144)?;
    assert!(copies.up_s > 0.0 && copies.down_s > 0.0 && copies.both_s > 0.0);
    // Not every library has it.
    let Some(mut xt) = BlasXt::open(&gpu)? else {
        return Ok(());
    };
    xt.set_block(32)?;
    let (m, n, k) = (70, 50, 40);
    let (a, b, mut c) = (integers(m * k, 1), integers(k * n, 2), integers(m * n, 3));
    let expected = c.iter().enumerate().map(|(at, c)| {
        let (i, j) = (at % m, at / m);
        c + (0..k).map(|p| a[p * m + i] * b[j * k + p]).sum::<f64>()
    });
    let expected: Vec<f64> = expected.collect();
    let context = BoundContext::new(&gpu)?;
    let mut pinned = PinnedVec::copy_of(&context, &c)?;
    let pinned_a = PinnedVec::copy_of(&context, &a)?;
    let b = View::new(&b, k, n, k);
    let to = ViewMut::new(&mut c, m, n, m);
    xt.multiply(View::new(&a, m, k, m), b, to)?;
    assert_eq!(c, expected);
    let to = ViewMut::new(pinned.as_mut_slice(), m, n, m);
    xt.multiply(View::new(pinned_a.as_slice(), m, k, m), b, to)?;
    assert_eq!(pinned.as_slice(), expected);
    Ok(())
}
