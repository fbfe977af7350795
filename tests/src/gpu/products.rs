//! Products for which cuBLAS finds no memory.

use isochron_devices::internal::Placement;
use isochron_devices::{DeviceError, Scalar};

use super::assert_clean;
use super::case::Case;
use super::elements::{DEEP, MANY, limited_worker};
use crate::emulator::Control;

/// Products that cuBLAS refuses are computed in parts, of every element type, on the GPU and streaming.
pub fn refused_products(control: &Control) -> usize {
    by_type!(refused(control))
}

/// Of the smallest parts, C has sides below 16, and the inner dimension is below 16.
const SMALLEST: u64 = 15 * 15 * 15;

fn refused<T: Scalar>(control: &Control) -> usize {
    let mut runs = 0;
    for case in [DEEP, MANY].map(Case::<T>::of_job) {
        for device in [None, Some(9000 * size_of::<T>() as u64)] {
            for product in [20_000, SMALLEST] {
                let what = format!("limit {device:?}, products of {product}");
                control.reset();
                control.set_product(u64::MAX);
                let mut worker = limited_worker(device, None);
                let resident =
                    worker.plan(&case.shape()).expect("a plan").placement == Placement::Resident;
                assert_eq!(resident, device.is_none(), "{what}");
                control.set_product(product);
                case.run_exactly(&mut worker, &what);
                assert!(control.refused_products() > 0, "{what}");
                // Not even the smallest: an error, after which the worker is as good as new.
                control.set_product(0);
                match case.run(&mut worker) {
                    Err(DeviceError::Cuda { call, code, .. }) => {
                        assert!(call.starts_with("cublas") && call.contains("gemm"), "{call}");
                        assert!(code.contains("CUBLAS_STATUS_ALLOC_FAILED"), "{code}");
                    }
                    other => panic!("{what}: {other:?}"),
                }
                control.set_product(u64::MAX);
                case.run_exactly(&mut worker, &what);
                drop(worker);
                assert_clean(Some(control), &what);
                runs += 3;
            }
        }
    }
    runs
}
