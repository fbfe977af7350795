//! The function by which tests ask for counters and order failures.
//!
//! | order | answer, or effect |
//! |---|---|
//! | `live` | number of contexts, allocations, streams, events and cuBLAS handles that are alive |
//! | `calls` | number of calls so far |
//! | `violations` | number of violations, such as freeing memory that queued work needs |
//! | `violation` | description of the first violation since the last reset; empty if there was none |
//! | `pageable-copies` | number of asynchronous copies from or to host memory that is not pinned |
//! | `refused-products` | number of products that cuBLAS has refused because they exceed the largest |
//! | `device-peak` | most bytes of the first device's memory that were allocated at one time since the last reset |
//! | `pinned-peak` | the same for pinned host memory |
//! | `failed` | name of the call that was made to fail; empty if none was since the last reset |
//! | `fail NUMBER CODE LATER` | makes the `NUMBER`-th call from now on return `CODE`. With `LATER` other than 0, a call that queues work succeeds, and its work fails |
//! | `set-product N` | sets the multiplications of the largest product for which cuBLAS finds a workspace |
//! | `set-memory BYTES` | sets the first device's memory |
//! | `reset` | forgets failures to come, lost devices and the counters. Live resources stay |

use crate::settings::PlannedFailure;
use crate::state::{Emulator, lock};
use std::ffi::{CStr, c_char};

/// Obeys an order; aborts if it is unknown. Writes the answer, ended by 0, to `answer`, which has room for `bytes`
/// bytes.
///
/// # Safety
/// `order` is a text that is ended by 0; `answer` points to `bytes` bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn isochron_cuda_emulator_order(
    order: *const c_char,
    answer: *mut c_char,
    bytes: usize,
) {
    // SAFETY: by this function's contract.
    let order = unsafe { CStr::from_ptr(order) }.to_string_lossy();
    let text = lock().obey(&order);
    // SAFETY: as above.
    unsafe { crate::text::write_text(answer, bytes, &text) };
}

impl Emulator {
    fn obey(&mut self, order: &str) -> String {
        let words: Vec<&str> = order.split(' ').collect();
        match words[..] {
            ["live"] => self.count_live().to_string(),
            ["calls"] => self.calls.to_string(),
            ["violations"] => self.violations.len().to_string(),
            ["violation"] => self.violations.first().map_or("", |v| v.text()).to_owned(),
            ["pageable-copies"] => self.pageable_copies.to_string(),
            ["refused-products"] => self.refused_products.to_string(),
            ["device-peak"] => self.devices[0].peak.to_string(),
            ["pinned-peak"] => self.pinned_peak.to_string(),
            ["failed"] => self.failed.unwrap_or_default().to_owned(),
            ["fail", from_now, code, later] => {
                self.settings.failures = vec![PlannedFailure {
                    call: "*".to_owned(),
                    number: self.calls + read_number(from_now),
                    code: read_number(code) as u32,
                    later: read_number(later) != 0,
                }];
                self.failed = None;
                String::new()
            }
            ["set-product", multiplications] => {
                self.settings.product = read_number(multiplications);
                String::new()
            }
            ["set-memory", bytes] => {
                self.settings.visible[0].memory = read_number(bytes);
                String::new()
            }
            ["reset"] => {
                self.reset();
                String::new()
            }
            _ => panic!("there is no order `{order}`"),
        }
    }

    fn reset(&mut self) {
        self.settings.failures.clear();
        self.failed = None;
        self.violations.clear();
        self.pageable_copies = 0;
        self.refused_products = 0;
        self.pinned_peak = self.pinned_bytes;
        for device in &mut self.devices {
            device.lost = None;
            device.peak = device.used;
        }
    }
}

fn read_number(word: &str) -> u64 {
    word.parse().unwrap_or_else(|_| panic!("`{word}` is no number"))
}
