//! The purpose of the emulator: each misuse of a GPU is a named error or violation.

mod machine;

use machine::{BYTES, LineEnd, PinnedOnes, TestMachine, copy, ignored, multiply};

use crate::codes::{
    self, ILLEGAL_ADDRESS, INVALID_CONTEXT, INVALID_HANDLE, INVALID_VALUE, NOT_INITIALIZED, SUCCESS,
};
use crate::cublas::{cublasCreate_v2, cublasDestroy_v2};
use crate::driver::context::{
    cuCtxPopCurrent_v2, cuCtxPushCurrent_v2, cuDevicePrimaryCtxRelease_v2,
};
use crate::driver::memory::{cuMemAlloc_v2, cuMemFree_v2, cuMemFreeHost, cuMemHostAlloc};
use crate::driver::streams::{
    cuEventCreate, cuEventDestroy_v2, cuEventRecord, cuEventSynchronize, cuStreamCreate,
    cuStreamDestroy_v2, cuStreamSynchronize, cuStreamWaitEvent,
};
use crate::settings::WorkSchedule;
use crate::state::{Violation, lock};

const SCHEDULES: [WorkSchedule; 3] =
    [WorkSchedule::Threads, WorkSchedule::Late, WorkSchedule::Early];

#[test]
fn a_host_pointer_is_no_device_pointer() {
    for schedule in SCHEDULES {
        let machine = TestMachine::new(schedule);
        let (stream, host, device) = (machine.stream(), machine.pinned(), machine.memory());
        let address = host.0 as u64;
        let taken_for_device = LineEnd::Device(address);
        assert_eq!(copy(stream, host.into(), taken_for_device), INVALID_VALUE);
        assert_eq!(copy(stream, taken_for_device, host.into()), INVALID_VALUE);
        assert_eq!(cuMemFree_v2(address), INVALID_VALUE);
        // The same holds the other way round.
        let taken_for_host = LineEnd::Host(device as usize);
        assert_eq!(copy(stream, taken_for_host, LineEnd::Device(device)), INVALID_VALUE);
        assert_eq!(copy(stream, LineEnd::Device(device), taken_for_host), INVALID_VALUE);
        // cuBLAS does not check addresses: its work fails, and the device is lost, as a GPU would be.
        let blas = machine.blas(stream);
        assert_eq!(multiply(blas, device, address, device), SUCCESS);
        assert_eq!(cuStreamSynchronize(stream), ILLEGAL_ADDRESS);
        assert_eq!(cuMemAlloc_v2(ignored(), 8), ILLEGAL_ADDRESS);
    }
}

#[test]
fn past_the_end_is_no_device_memory() {
    let machine = TestMachine::new(WorkSchedule::Late);
    let (stream, host, first, second) =
        (machine.stream(), machine.pinned(), machine.memory(), machine.memory());
    assert!(first.abs_diff(second) > BYTES as u64);
    for address in [first + 8, first - 8, second + BYTES as u64] {
        assert_eq!(copy(stream, host.into(), LineEnd::Device(address)), INVALID_VALUE);
    }
}

#[test]
fn what_a_copy_has_not_brought_yet_cannot_be_read() {
    for schedule in [WorkSchedule::Late, WorkSchedule::Early] {
        let machine = TestMachine::new(schedule);
        let (stream, device) = (machine.stream(), machine.memory());
        let (from, to) = (machine.pinned(), machine.pinned());
        assert_eq!(copy(stream, from.into(), LineEnd::Device(device)), SUCCESS);
        assert_eq!(copy(stream, LineEnd::Device(device), to.into()), SUCCESS);
        assert!(to.first().is_nan());
        assert_eq!(cuStreamSynchronize(stream), SUCCESS);
        assert_eq!(to.first(), 1.0);
        assert_eq!(machine.violations(), []);
    }
}

#[test]
fn device_memory_that_nobody_wrote_is_not_a_number() {
    let machine = TestMachine::new(WorkSchedule::Threads);
    let (stream, device, to) = (machine.stream(), machine.memory(), machine.pinned());
    assert_eq!(copy(stream, LineEnd::Device(device), to.into()), SUCCESS);
    assert_eq!(cuStreamSynchronize(stream), SUCCESS);
    assert!(to.first().is_nan());
}

/// Copies on one stream, lets `order` act on both streams, and computes with the copy on the other stream. Returns the
/// violations.
fn copy_and_use(schedule: WorkSchedule, order: impl Fn(&TestMachine, u64, u64)) -> Vec<Violation> {
    let machine = TestMachine::new(schedule);
    let (copies, computes) = (machine.stream(), machine.stream());
    let (a, c, host) = (machine.memory(), machine.memory(), machine.pinned());
    assert_eq!(copy(copies, host.into(), LineEnd::Device(c)), SUCCESS);
    assert_eq!(cuStreamSynchronize(copies), SUCCESS);
    assert_eq!(copy(copies, host.into(), LineEnd::Device(a)), SUCCESS);
    order(&machine, copies, computes);
    let blas = machine.blas(computes);
    assert_eq!(multiply(blas, a, a, c), SUCCESS);
    assert_eq!(cuStreamSynchronize(computes), SUCCESS);
    assert_eq!(cuStreamSynchronize(copies), SUCCESS);
    machine.violations()
}

#[test]
fn a_missing_wait_between_streams_is_a_violation_under_every_schedule() {
    for schedule in SCHEDULES {
        let found = copy_and_use(schedule, |_, _, _| {});
        assert_eq!(found, [Violation::Unordered], "{schedule:?}");
        let found = copy_and_use(schedule, |machine, copies, computes| {
            // Recorded, and not waited for; waited for, and recorded too early; waited for on the wrong stream.
            let (event, early) = (machine.event(), machine.event());
            assert_eq!(cuStreamWaitEvent(computes, early, 0), SUCCESS);
            assert_eq!(cuEventRecord(event, copies), SUCCESS);
            assert_eq!(cuStreamWaitEvent(copies, event, 0), SUCCESS);
        });
        assert_eq!(found, [Violation::Unordered], "{schedule:?}");
    }
}

#[test]
fn a_wait_by_the_stream_or_by_the_host_is_enough() {
    for schedule in SCHEDULES {
        assert_eq!(copy_and_use(schedule, wait_by_stream), []);
        assert_eq!(copy_and_use(schedule, wait_over_another_stream), []);
        assert_eq!(copy_and_use(schedule, wait_by_event), []);
        assert_eq!(copy_and_use(schedule, wait_by_host), []);
    }
}

fn wait_by_stream(machine: &TestMachine, copies: u64, computes: u64) {
    let event = machine.event();
    assert_eq!(cuEventRecord(event, copies), SUCCESS);
    assert_eq!(cuStreamWaitEvent(computes, event, 0), SUCCESS);
}

fn wait_over_another_stream(machine: &TestMachine, copies: u64, computes: u64) {
    let (first, second, between) = (machine.event(), machine.event(), machine.stream());
    assert_eq!(cuEventRecord(first, copies), SUCCESS);
    assert_eq!(cuStreamWaitEvent(between, first, 0), SUCCESS);
    assert_eq!(cuEventRecord(second, between), SUCCESS);
    assert_eq!(cuStreamWaitEvent(computes, second, 0), SUCCESS);
}

fn wait_by_event(machine: &TestMachine, copies: u64, _: u64) {
    let event = machine.event();
    assert_eq!(cuEventRecord(event, copies), SUCCESS);
    assert_eq!(cuEventSynchronize(event), SUCCESS);
}

fn wait_by_host(_: &TestMachine, copies: u64, _: u64) {
    assert_eq!(cuStreamSynchronize(copies), SUCCESS);
}

#[test]
fn memory_is_not_freed_while_a_copy_needs_it() {
    for schedule in SCHEDULES {
        let machine = TestMachine::new(schedule);
        let (stream, device, host) = (machine.stream(), machine.memory(), machine.pinned());
        assert_eq!(copy(stream, host.into(), LineEnd::Device(device)), SUCCESS);
        assert_eq!(cuMemFree_v2(device), SUCCESS);
        assert_eq!(machine.violations(), [Violation::FreedInUse], "{schedule:?}");

        let machine = machine_again(machine, schedule);
        let (stream, device, host) = (machine.stream(), machine.memory(), machine.pinned());
        assert_eq!(copy(stream, LineEnd::Device(device), host.into()), SUCCESS);
        assert_eq!(cuMemFreeHost(host.0.cast()), SUCCESS);
        assert_eq!(machine.violations(), [Violation::FreedInUse], "{schedule:?}");

        // After a wait both may go.
        let machine = machine_again(machine, schedule);
        let (stream, device, host) = (machine.stream(), machine.memory(), machine.pinned());
        assert_eq!(copy(stream, host.into(), LineEnd::Device(device)), SUCCESS);
        assert_eq!(cuStreamSynchronize(stream), SUCCESS);
        assert_eq!(cuMemFree_v2(device), SUCCESS);
        assert_eq!(cuMemFreeHost(host.0.cast()), SUCCESS);
        assert_eq!(machine.violations(), []);
    }
}

fn machine_again(machine: TestMachine, schedule: WorkSchedule) -> TestMachine {
    drop(machine);
    TestMachine::new(schedule)
}

#[test]
fn a_context_is_released_empty() {
    let left: [fn(&TestMachine); 5] = [
        |machine| _ = machine.memory(),
        |machine| _ = machine.pinned(),
        |machine| _ = machine.stream(),
        |machine| _ = machine.event(),
        |machine| {
            let stream = machine.stream();
            machine.blas(stream);
            assert_eq!(cuStreamDestroy_v2(stream), SUCCESS);
        },
    ];
    for (case, leave) in left.iter().enumerate() {
        let machine = TestMachine::new(WorkSchedule::Late);
        leave(&machine);
        // The context has a second hold, until the second release.
        machine.retain(0);
        assert_eq!(cuDevicePrimaryCtxRelease_v2(0), SUCCESS);
        assert_eq!(machine.violations(), []);
        assert_eq!(cuDevicePrimaryCtxRelease_v2(0), SUCCESS);
        let found = machine.violations();
        assert_eq!(found, [Violation::ContextNotEmpty], "case {case}");
        assert!(lock().count_live() > 0);
    }
    let machine = TestMachine::new(WorkSchedule::Late);
    let (memory, event) = (machine.memory(), machine.event());
    assert_eq!(cuMemFree_v2(memory), SUCCESS);
    assert_eq!(cuEventDestroy_v2(event), SUCCESS);
    assert_eq!(cuDevicePrimaryCtxRelease_v2(0), SUCCESS);
    assert_eq!(machine.violations(), []);
    assert_eq!(cuDevicePrimaryCtxRelease_v2(0), INVALID_VALUE);
}

#[test]
fn what_was_freed_is_gone() {
    for schedule in SCHEDULES {
        let machine = TestMachine::new(schedule);
        let (stream, host) = (machine.stream(), machine.pinned());
        let (freed, memory) = (machine.memory(), machine.memory());
        assert_eq!(cuMemFree_v2(freed), SUCCESS);
        assert_eq!(cuMemFree_v2(freed), INVALID_VALUE);
        assert_eq!(copy(stream, host.into(), LineEnd::Device(freed)), INVALID_VALUE);
        assert_eq!(copy(stream, LineEnd::Device(freed), host.into()), INVALID_VALUE);
        // Its address is not used again, so stale uses cannot hit another allocation.
        assert_ne!(machine.memory(), freed);
        let (event, other) = (machine.event(), machine.stream());
        assert_eq!(cuEventDestroy_v2(event), SUCCESS);
        assert_eq!(cuEventRecord(event, stream), INVALID_HANDLE);
        assert_eq!(cuEventSynchronize(event), INVALID_HANDLE);
        assert_eq!(cuStreamDestroy_v2(other), SUCCESS);
        assert_eq!(cuStreamSynchronize(other), INVALID_HANDLE);
        assert_eq!(copy(other, host.into(), LineEnd::Device(memory)), INVALID_HANDLE);
        let blas = machine.blas(stream);
        assert_eq!(multiply(blas, memory, freed, memory), SUCCESS);
        assert_eq!(cuStreamSynchronize(stream), ILLEGAL_ADDRESS);
        assert_eq!(cublasDestroy_v2(blas), codes::as_blas(ILLEGAL_ADDRESS));
        assert_eq!(multiply(blas, memory, memory, memory), codes::blas::INVALID_VALUE);
    }
}

#[test]
fn a_product_that_is_too_large_is_not_queued() {
    for schedule in SCHEDULES {
        let machine = TestMachine::new(schedule);
        let (stream, host, memory) = (machine.stream(), machine.pinned(), machine.memory());
        let (blas, to) = (machine.blas(stream), machine.pinned());
        assert_eq!(copy(stream, host.into(), LineEnd::Device(memory)), SUCCESS);
        // Squares of 8.
        lock().settings.product = 511;
        let code = multiply(blas, memory, memory, memory);
        assert_eq!(code, codes::blas::ALLOC_FAILED);
        assert_eq!(lock().refused_products, 1);
        assert_eq!(copy(stream, LineEnd::Device(memory), to.into()), SUCCESS);
        assert_eq!(cuStreamSynchronize(stream), SUCCESS);
        assert_eq!(to.first(), 1.0);
        let (a, c) = (memory, machine.memory());
        assert_eq!(copy(stream, host.into(), LineEnd::Device(c)), SUCCESS);
        lock().settings.product = 512;
        assert_eq!(multiply(blas, a, a, c), SUCCESS);
        assert_eq!(cuStreamSynchronize(stream), SUCCESS);
        assert_eq!(lock().refused_products, 1);
        assert_eq!(machine.violations(), []);
    }
}

#[test]
fn nothing_works_without_the_context() {
    let machine = TestMachine::new(WorkSchedule::Late);
    let (stream, host, memory) = (machine.stream(), machine.pinned(), machine.memory());
    let blas = machine.blas(stream);
    let resources = Resources { stream, host, memory, blas };
    assert_eq!(cuCtxPopCurrent_v2(ignored()), SUCCESS);
    resources.assert_unusable(INVALID_CONTEXT);
    assert_eq!(cuCtxPopCurrent_v2(ignored()), INVALID_CONTEXT);
    assert_eq!(cuCtxPushCurrent_v2(2), INVALID_CONTEXT);
    // It is current on the thread that has pushed it, and on no other.
    assert_eq!(cuCtxPushCurrent_v2(1), SUCCESS);
    std::thread::scope(|scope| {
        let other = scope.spawn(move || cuStreamSynchronize(stream));
        assert_eq!(other.join().ok(), Some(INVALID_CONTEXT));
    });
    // Resources of one device are of no use to another.
    machine.retain(1);
    assert_eq!(cuCtxPushCurrent_v2(2), SUCCESS);
    let other = machine.stream();
    assert_eq!(cuStreamSynchronize(stream), INVALID_HANDLE);
    assert_eq!(copy(other, host.into(), LineEnd::Device(memory)), INVALID_VALUE);
    assert_eq!(cuCtxPopCurrent_v2(ignored()), SUCCESS);
    // A released context is unusable even while it is current.
    assert_eq!(cuDevicePrimaryCtxRelease_v2(0), SUCCESS);
    resources.assert_unusable(INVALID_CONTEXT);
    lock().initialised = false;
    resources.assert_unusable(NOT_INITIALIZED);
}

/// Resources of a context.
struct Resources {
    stream: u64,
    host: PinnedOnes,
    memory: u64,
    blas: u64,
}

impl Resources {
    /// Checks that every call returns the code `expected`.
    fn assert_unusable(&self, expected: u32) {
        assert_eq!(cuMemAlloc_v2(ignored(), 8), expected);
        assert_eq!(cuMemHostAlloc(ignored(), 8, 1), expected);
        assert_eq!(cuStreamCreate(ignored(), 1), expected);
        assert_eq!(cuEventCreate(ignored(), 2), expected);
        assert_eq!(cublasCreate_v2(ignored()), codes::as_blas(expected));
        assert_eq!(cuStreamSynchronize(self.stream), expected);
        let to = LineEnd::Device(self.memory);
        assert_eq!(copy(self.stream, self.host.into(), to), expected);
        let code = multiply(self.blas, self.memory, self.memory, self.memory);
        assert_eq!(code, codes::as_blas(expected));
    }
}
