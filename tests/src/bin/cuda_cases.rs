//! Cases of the GPU path, on whatever CUDA this process finds: `isochron-cuda-cases CASE`.
//!
//! Prints `CASE: N runs on DEVICE` when all hold. Without a GPU it prints `skipped: ` and what was found, and ends with
//! 1 where `ISOCHRON_REQUIRE_GPU` is 1.

// A test program says what happens, and stops where it cannot go on.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

use isochron_devices::cuda;
use isochron_tests::emulator::Control;
use isochron_tests::{gpu, gpu_jobs};

fn main() {
    let case = std::env::args().nth(1).expect("a case");
    let survey = cuda::survey();
    if case == "survey" {
        println!("{}", survey.finding);
        println!("{}", serde_json::to_string(&survey.devices).expect("JSON"));
        return;
    }
    let Some(device) = survey.devices.first() else {
        println!("skipped: {}", survey.finding);
        let required = std::env::var_os("ISOCHRON_REQUIRE_GPU");
        std::process::exit(i32::from(required.is_some_and(|value| value == "1")));
    };
    let control = Control::find();
    let control = control.as_ref();
    let emulated = || control.expect("this case needs the emulator");
    gpu::keep_awake(control);
    let runs = match case.as_str() {
        "conformance" => gpu::conform(control),
        "out-of-core" => gpu::out_of_core(control),
        "elements" => gpu::elements(control),
        "little-memory" => gpu::little_memory(emulated()),
        "narrow-limits" => gpu::narrow_limits(control),
        "paced" => gpu::paced_conform(control) + gpu::paced_visits(control),
        "speeds" => gpu::speeds(control),
        "taken-memory" => gpu::taken_memory(emulated()),
        "refused-products" => gpu::refused_products(emulated()),
        "failures" => gpu::failures(emulated()),
        "last-update" => gpu_jobs::ends_with_last_update(emulated()),
        "less-host-memory" => gpu_jobs::less_host_memory(emulated()),
        "unknown-codes" => gpu_jobs::unknown_codes(emulated()),
        other => panic!("there is no case `{other}`"),
    };
    println!("{case}: {runs} runs on {}", device.name);
}
