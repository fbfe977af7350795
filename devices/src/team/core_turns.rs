//! Turns on the cores that teams of one process share.

use crate::contract::DeviceInfo;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A lock for each core, by its logical number. Cores with the same remainder share one.
static CORES: [Mutex<()>; 256] = [const { Mutex::new(()) }; 256];

/// Waits until no other call of this process computes on the cores of `device`, and keeps the others waiting while the returned
/// value lives.
///
/// A program may have several teams, in threads of their own, and only some hosts have cores for all of them. A turn lasts one
/// call of a device, in which no message is waited for, so the ranks of two jobs cannot wait for each other in a circle.
/// Devices that are not always at work on their cores take no turns.
pub(super) fn take_turn(device: &DeviceInfo) -> Vec<MutexGuard<'static, ()>> {
    let is_busy = device.clock.keeps_cores_busy();
    let mut locks: Vec<usize> =
        device.cores.iter().filter(|_| is_busy).map(|&core| core as usize % CORES.len()).collect();
    // In ascending order, so that no two devices wait for each other.
    locks.sort_unstable();
    locks.dedup();
    locks
        .into_iter()
        .map(|lock| CORES[lock].lock().unwrap_or_else(PoisonError::into_inner))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{DeviceClock, DeviceKind};
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn device(clock: DeviceClock, cores: &[u32]) -> DeviceInfo {
        DeviceInfo { cores: cores.to_vec(), ..DeviceInfo::new("a", DeviceKind::Cpu, clock) }
    }

    #[test]
    fn devices_on_common_cores_take_turns() {
        let [users, most] = [AtomicUsize::new(0), AtomicUsize::new(0)];
        std::thread::scope(|scope| {
            // Also in other orders, and with a number of the same lock.
            for cores in [[250, 251], [251, 250], [251 + 256, 250]] {
                let (users, most) = (&users, &most);
                scope.spawn(move || {
                    for _ in 0..1000 {
                        let _turn = take_turn(&device(DeviceClock::Cores, &cores));
                        most.fetch_max(1 + users.fetch_add(1, Ordering::SeqCst), Ordering::SeqCst);
                        std::thread::yield_now();
                        users.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(most.into_inner(), 1);
    }

    #[test]
    fn devices_on_other_cores_and_those_that_wait_take_no_turns() {
        let _turn = take_turn(&device(DeviceClock::Cores, &[240, 241]));
        assert_eq!(take_turn(&device(DeviceClock::Cores, &[242])).len(), 1);
        for clock in [DeviceClock::Slowed, DeviceClock::Prescribed, DeviceClock::Accelerator] {
            assert!(take_turn(&device(clock, &[240, 241])).is_empty());
        }
    }
}
