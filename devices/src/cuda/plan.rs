//! Layout of a job in the memory of a GPU: C whole, or in tiles that stream through it.
//!
//! # The arithmetic
//!
//! Elements have `s` bytes, the link carries `W` bytes/s, the GPU computes `P` flop/s, and one multiplication with
//! addition is `f` flop (2, or 8 for complex numbers). `R = s·P / (f·W)` is the number of multiplications that the GPU
//! can do while the link carries one element: 4900 in `f64` for 67 Tflop/s behind 55 GB/s.
//!
//! **Resident.** C (`m×n`) stays on the GPU from `begin` to `finish`, with the panels of two updates. Those of the next
//! update are copied while the GPU computes with the others. An update moves A (`m×k`) and B (`k×n`), and does `m·n·k`
//! multiplications. The link keeps up while `k(m + n)·R <= m·n·k`, that is `1/m + 1/n <= 1/R`, for any k.
//!
//! **Streamed.** C stays in host memory, and its tiles (`p×q`) visit the GPU. A visit moves the tile there and back,
//! and the panels of A and B that it needs: `2pq + K(p + q)` elements for `pqK` multiplications. The link keeps up
//! while
//!
//! `2/K + 1/p + 1/q <= 1/R`.
//!
//! With `K = k`, the inner dimension of one update, `2/K` alone exceeds `1/R`: the GPU would wait. So the panels of
//! several updates are gathered in pinned host memory, and a visit uses all of them. Tiles are as large as the memory
//! limit allows: two of them take three quarters of it (one is copied while the GPU computes the other). Then
//!
//! `K >= 2 / (1/R - 1/p - 1/q)`, but no more than `K = 8 / (1/p + 1/q)`.
//!
//! At the second bound the tile is a fifth of the traffic, and more gathering would gain little. It applies if the link
//! is too slow for tiles of this size, and the panels hold the GPU up.
//!
//! Gathered panels take `K(m + n)` elements of host memory, and never more than
//! * all updates of the job have, in whole updates;
//! * C takes, unless they are those of one update;
//! * the limit of pinned memory leaves after the staging slots, which take at most half of it.
//!
//! If the job is no multiple of `K`, its last update ends a visit that has less to compute, and moves all of C for it.
//!
//! **Not gathered.** If not even the panels of one update may be pinned, each update is a visit. Each tile gets its
//! parts of the panels through the staging slots, as it gets C. The link then carries the traffic of `K = k`. The host
//! copies each part once per tile that needs it: a row of A `n/q` times, and a column of B `m/p` times.
//!
//! **The least.** The smallest tiles have 16 rows and columns, or fewer that divide C evenly, and panels one element
//! deep. Every job fits into `2(pq + p + q)` elements of GPU memory, 576 at most, and 128 elements of pinned memory.
//! The exception is a dimension beyond the range of CUDA and cuBLAS (`2^31` bytes in a column of C, `2^31` columns).

use crate::contract::{ElementType, JobShape};

/// Number of tiles, of panels and of staging slots: one is filled or emptied while the other one is in use.
pub const SLOTS: usize = 2;

/// Bytes of a staging slot: large enough that a copy runs at the link's full speed (tens of microseconds of latency
/// against milliseconds), small enough that the pipeline fills quickly.
const SLOT_BYTES: usize = 8 << 20;
/// The smallest slot, in elements.
const MIN_SLOT: usize = 32;
/// The smallest side of a tile.
const MIN_TILE: usize = 16;
/// Inner dimension of one product of a streamed visit: cuBLAS is at full speed from a few hundred on.
const STEP_K: usize = 1024;
/// The largest leading dimension in bytes that CUDA copies.
const MAX_PITCH_BYTES: usize = i32::MAX as usize;

/// Limits of a plan, and the speeds it counts on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CudaLimits {
    /// Bytes of GPU memory.
    pub device_bytes: u64,
    /// Bytes of pinned host memory; with `u64::MAX` only the size of C limits the gathered panels.
    pub host_bytes: u64,
    /// Peak of the GPU in flop/s.
    pub peak_flops_per_s: f64,
    /// Speed of the link in bytes/s.
    pub link_bytes_per_s: f64,
}

/// The place of C during a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// On the GPU.
    Resident,
    /// In host memory; tiles of it visit the GPU.
    Streamed(StreamedTiles),
}

/// The tiles of a C in host memory, and the panels that visit the GPU with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamedTiles {
    /// Rows of a tile.
    pub rows: usize,
    /// Columns of a tile.
    pub cols: usize,
    /// Inner dimension gathered for a visit; 0 if not even the panels of one update may be pinned.
    pub gather_k: usize,
    /// Inner dimension of the panels that are on the GPU at a time.
    pub step_k: usize,
}

/// The layout of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TilePlan {
    /// The place of C.
    pub placement: Placement,
    /// Elements of a staging slot in pinned memory.
    pub slot_elements: usize,
    /// Bytes of GPU memory.
    pub device_bytes: u64,
    /// Bytes of pinned host memory.
    pub host_bytes: u64,
    /// Number of updates with `k = k_max` gathered for one visit: a power of two, or all updates of the job. It is 1 if
    /// C is on the GPU, and if nothing is gathered.
    pub updates_per_visit: usize,
}

/// Lays out a job, as the module says. Returns `None` if it does not fit even in the smallest tiles, or is empty.
pub fn plan(job: &JobShape, limits: &CudaLimits) -> Option<TilePlan> {
    if job.rows == 0 || job.cols == 0 || job.depth.k_max == 0 {
        return None;
    }
    let column_bytes = job.rows.checked_mul(job.element.bytes())?;
    if column_bytes > MAX_PITCH_BYTES || job.cols > i32::MAX as usize {
        return None;
    }
    plan_resident(job, limits).or_else(|| plan_streamed(job, limits))
}

/// Returns the least bytes of host memory with which a job can be laid out in this GPU memory; `None` if no amount
/// suffices.
pub fn least_host_bytes(job: &JobShape, limits: &CudaLimits) -> Option<u64> {
    let unlimited = CudaLimits { host_bytes: u64::MAX, ..*limits };
    plan(job, &unlimited)?;
    Some((2 * SLOTS * MIN_SLOT * job.element.bytes()) as u64)
}

/// Returns the bytes of the panels of `updates` updates.
fn count_panel_bytes(job: &JobShape, updates: usize) -> u128 {
    let across = (job.rows + job.cols) as u128;
    updates as u128 * job.depth.k_max as u128 * across * job.element.bytes() as u128
}

/// Returns the elements of a staging slot: no more than there is to move; all slots take at most half of the memory
/// that may be pinned.
fn choose_slot(job: &JobShape, limits: &CudaLimits) -> Option<usize> {
    let s = job.element.bytes();
    let most = (job.rows.max(job.depth.k_max)).saturating_mul(job.cols.max(job.depth.k_max));
    let half = limits.host_bytes / 2;
    let allowed = usize::try_from(half / SLOTS as u64).unwrap_or(usize::MAX) / s;
    let slot = (SLOT_BYTES / s).min(most).max(MIN_SLOT).min(allowed);
    (slot >= MIN_SLOT).then_some(slot)
}

fn plan_resident(job: &JobShape, limits: &CudaLimits) -> Option<TilePlan> {
    let slot_elements = choose_slot(job, limits)?;
    let [rows, cols, k] = [job.rows, job.cols, job.depth.k_max].map(|n| n as u128);
    let elements = rows * cols + SLOTS as u128 * k * (rows + cols);
    let s = job.element.bytes() as u128;
    let plan = TilePlan {
        placement: Placement::Resident,
        slot_elements,
        device_bytes: u64::try_from(elements * s).ok()?,
        host_bytes: u64::try_from((SLOTS * slot_elements) as u128 * s).ok()?,
        updates_per_visit: 1,
    };
    let step_fits = job.depth.k_max <= i32::MAX as usize / job.element.bytes();
    let fits = plan.device_bytes <= limits.device_bytes && plan.host_bytes <= limits.host_bytes;
    (step_fits && fits).then_some(plan)
}

fn plan_streamed(job: &JobShape, limits: &CudaLimits) -> Option<TilePlan> {
    let s = job.element.bytes();
    let slot_elements = choose_slot(job, limits)?;
    let slot_bytes = (SLOTS * slot_elements * s) as u64;
    // One tile and its panels have half of the memory.
    let half = usize::try_from(limits.device_bytes / s as u64).ok()? / SLOTS;
    let (rows, cols) = choose_tile(job, half)?;
    let wanted = choose_depth(rows, cols, job.element, limits);
    let updates = count_gathered(job, wanted, limits.host_bytes - slot_bytes);
    let gather_k = updates * job.depth.k_max;
    let step_k = (half - rows * cols) / (rows + cols);
    let step_k = step_k.min(STEP_K).min(gather_k.max(job.depth.k_max));
    let device = SLOTS * (rows * cols + step_k * (rows + cols));
    Some(TilePlan {
        placement: Placement::Streamed(StreamedTiles { rows, cols, gather_k, step_k }),
        slot_elements,
        device_bytes: (device * s) as u64,
        host_bytes: slot_bytes + u64::try_from(count_panel_bytes(job, updates)).ok()?,
        updates_per_visit: updates.max(1),
    })
}

/// Returns the number of updates gathered for a visit; 0 if not even one fits. It is enough for the `wanted` inner
/// dimension, unless the job has fewer or `host_bytes` of pinned memory hold fewer.
fn count_gathered(job: &JobShape, wanted: f64, host_bytes: u64) -> usize {
    if !may_gather(job, 1, host_bytes) {
        return 0;
    }
    let all = job.depth.k_total.div_ceil(job.depth.k_max);
    let mut updates = 1;
    while ((updates * job.depth.k_max) as f64) < wanted && updates < all {
        let more = (2 * updates).min(all);
        if !may_gather(job, more, host_bytes) {
            break;
        }
        updates = more;
    }
    updates
}

/// Returns `true` if the panels of `updates` updates fit into `host_bytes` and into C's size, and no copy of them is
/// too long for CUDA. The panels of one update may be larger than C.
fn may_gather(job: &JobShape, updates: usize, host_bytes: u64) -> bool {
    let s = job.element.bytes() as u128;
    let whole_c = job.rows as u128 * job.cols as u128 * s;
    let bytes = count_panel_bytes(job, updates);
    let pitch = updates as u128 * job.depth.k_max as u128 * s;
    bytes <= u128::from(host_bytes)
        && (bytes <= whole_c || updates == 1)
        && pitch <= MAX_PITCH_BYTES as u128
}

/// Returns the sides of the largest tile, as square as C allows, that takes three quarters of `elements` and leaves
/// room for panels. The sides divide those of C nearly evenly. If that tile is too small, the smallest one is taken;
/// `None` if it does not fit.
fn choose_tile(job: &JobShape, elements: usize) -> Option<(usize, usize)> {
    let side = tile_area(elements).isqrt();
    let rows = if job.cols < side {
        other_side(job.cols, elements).min(job.rows)
    } else {
        side.min(job.rows)
    };
    let rows = even_part(job.rows, rows.max(MIN_TILE.min(job.rows)));
    // The other side takes the area that even parts leave.
    let cols = other_side(rows, elements).min(job.cols);
    let cols = even_part(job.cols, cols.max(MIN_TILE.min(job.cols)));
    (rows * cols + rows + cols <= elements).then_some((rows, cols))
}

/// Returns the largest area of a tile in elements, if the tile and its panels have room for `elements`.
fn tile_area(elements: usize) -> usize {
    elements / 4 * 3
}

/// Returns the longest other side of a tile with side `part` that keeps the tile's area, and leaves room for panels one
/// element deep.
fn other_side(part: usize, elements: usize) -> usize {
    (tile_area(elements) / part).min(elements.saturating_sub(part) / (part + 1))
}

/// Cuts `whole` nearly evenly into parts of at most `part`. Returns the largest of them.
fn even_part(whole: usize, part: usize) -> usize {
    whole.div_ceil(whole.div_ceil(part))
}

/// Returns the inner dimension to gather for a visit of a `p×q` tile, as the module says.
fn choose_depth(p: usize, q: usize, element: ElementType, limits: &CudaLimits) -> f64 {
    let link_flops_per_s = element.flop() * limits.link_bytes_per_s;
    let ratio = element.bytes() as f64 * limits.peak_flops_per_s / link_flops_per_s;
    let panels = 1.0 / p as f64 + 1.0 / q as f64;
    let enough = 8.0 / panels;
    let spare = 1.0 / ratio - panels;
    if spare > 0.0 { enough.min(2.0 / spare) } else { enough }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Depth;
    use proptest::prelude::*;

    const H200: CudaLimits = CudaLimits {
        device_bytes: 140 << 30,
        host_bytes: u64::MAX,
        peak_flops_per_s: 67e12,
        link_bytes_per_s: 55e9,
    };

    fn shape(rows: usize, cols: usize, k_max: usize) -> JobShape {
        JobShape::of::<f64>(rows, cols, Depth::endless(k_max))
    }

    #[test]
    fn what_fits_stays_on_the_gpu() {
        let plan = plan(&shape(60_000, 60_000, 512), &H200).unwrap();
        assert_eq!(plan.placement, Placement::Resident);
        assert_eq!(plan.device_bytes, 8 * (60_000 * 60_000 + 2 * 512 * 120_000));
        assert_eq!((plan.updates_per_visit, plan.host_bytes), (1, 2 * (8 << 20)));
    }

    #[test]
    fn a_streamed_job_keeps_the_link_behind_the_gpu() {
        let plan = plan(&shape(200_000, 200_000, 512), &H200).unwrap();
        let Placement::Streamed(tiles) = plan.placement else {
            panic!("{plan:?}");
        };
        let traffic =
            2.0 / tiles.gather_k as f64 + 1.0 / tiles.rows as f64 + 1.0 / tiles.cols as f64;
        assert!(traffic * 8.0 * 67e12 / (2.0 * 55e9) <= 1.0, "{plan:?}");
        assert!(plan.device_bytes <= H200.device_bytes);
        assert!(plan.updates_per_visit.is_power_of_two() && tiles.step_k == STEP_K);
        assert!(plan.host_bytes < 8 * 200_000 * 200_000 + (17 << 20));
    }

    #[test]
    fn no_more_is_gathered_than_the_job_has() {
        fn gathers(k_total: usize) -> (usize, u64) {
            let depth = Depth { k_max: 128, k_total };
            let job = JobShape::of::<f64>(200_000, 200_000, depth);
            let plan = plan(&job, &H200).unwrap();
            (plan.updates_per_visit, plan.host_bytes)
        }
        fn bytes(updates: usize) -> u64 {
            2 * (8 << 20) + 8 * updates as u64 * 128 * 400_000
        }
        let (most, all_bytes) = gathers(usize::MAX);
        assert!(most.is_power_of_two() && most > 16, "{most}");
        assert_eq!(all_bytes, bytes(most));
        // In whole updates: the last of them is narrower, and has room all the same.
        for (k_total, updates) in [(1, 1), (128, 1), (129, 2), (10 * 128, 10), (11 * 128 - 1, 11)] {
            assert_eq!(gathers(k_total), (updates, bytes(updates)));
        }
        assert_eq!(gathers(most * 128 + 1).0, most);
    }

    fn limits(device_bytes: u64, host_bytes: u64) -> CudaLimits {
        CudaLimits { device_bytes, host_bytes, ..H200 }
    }

    #[test]
    fn too_little_memory_is_no_plan() {
        fn of(job: JobShape, device_bytes: u64, host_bytes: u64) -> Option<Placement> {
            plan(&job, &limits(device_bytes, host_bytes)).map(|plan| plan.placement)
        }
        assert_eq!(of(shape(100, 100, 10), 1000, u64::MAX), None);
        assert_eq!(of(shape(100, 100, 10), 1 << 30, 100), None);
        assert_eq!(of(shape(1 << 40, 1, 1), 1 << 40, u64::MAX), None);
        let endless = shape(usize::MAX, usize::MAX, usize::MAX);
        assert_eq!(of(endless, u64::MAX, u64::MAX), None);
    }

    #[test]
    fn what_may_not_be_pinned_is_not_gathered() {
        // The panels of one update would take 1.44 MB.
        fn gathered(host_bytes: u64) -> (usize, usize) {
            let plan = plan(&shape(300, 300, 300), &limits(512 << 10, host_bytes)).unwrap();
            assert!(plan.host_bytes <= host_bytes && plan.updates_per_visit == 1);
            match plan.placement {
                Placement::Streamed(tiles) => (tiles.gather_k, tiles.step_k),
                Placement::Resident => panic!("{plan:?}"),
            }
        }
        let (gather_k, step_k) = gathered(10_000_000);
        assert!(gather_k == 300 && step_k > 0);
        assert_eq!(gathered(1_000_000), (0, step_k));
        assert_eq!(gathered(128 * 8), (0, step_k));
        // Panels that are too long for a copy are not gathered either.
        let deep = JobShape { depth: Depth::endless(1 << 30), ..shape(300, 300, 300) };
        let plan = plan(&deep, &limits(512 << 10, u64::MAX)).unwrap();
        assert!(matches!(plan.placement, Placement::Streamed(StreamedTiles { gather_k: 0, .. })));
    }

    /// Returns the elements of GPU memory for two of the smallest tiles with panels one element deep.
    fn smallest(job: &JobShape) -> usize {
        let [p, q] = [job.rows, job.cols].map(|whole| even_part(whole, MIN_TILE.min(whole)));
        SLOTS * (p * q + p + q)
    }

    proptest! {
        #[test]
        fn plans_keep_their_limits(
            rows in 1usize..3000, cols in 1usize..3000, k_max in 1usize..300, updates in 1usize..40,
            device in 5u32..26, host in 8u32..40,
        ) {
            let job = JobShape::of::<f64>(rows, cols, Depth::of(k_max, updates));
            let limits = limits(1 << device, 1 << host);
            let least = least_host_bytes(&job, &limits);
            let found = plan(&job, &limits);
            prop_assert_eq!(found.is_some(), least.is_some_and(|least| least <= limits.host_bytes));
            if let Some(plan) = found {
                prop_assert!(plan.device_bytes <= limits.device_bytes && plan.host_bytes <= limits.host_bytes);
                prop_assert!(plan.slot_elements >= MIN_SLOT);
                if let Placement::Streamed(tiles) = plan.placement {
                    prop_assert!((1..=rows).contains(&tiles.rows) && (1..=cols).contains(&tiles.cols));
                    let gather_k = tiles.gather_k;
                    prop_assert!((1..=gather_k.max(k_max)).contains(&tiles.step_k));
                    let slots = (SLOTS * plan.slot_elements * 8) as u64;
                    let one = (8 * k_max * (rows + cols)) as u64;
                    if gather_k == 0 {
                        prop_assert!(slots + one > limits.host_bytes, "one would have fitted");
                        prop_assert_eq!((plan.updates_per_visit, plan.host_bytes), (1, slots));
                    } else {
                        prop_assert_eq!(gather_k, k_max * plan.updates_per_visit);
                        prop_assert_eq!(plan.host_bytes, slots + one * plan.updates_per_visit as u64);
                    }
                    let together = plan.updates_per_visit;
                    prop_assert!(together == updates || together < updates && together.is_power_of_two());
                    prop_assert!(rows * cols + SLOTS * k_max * (rows + cols) > (1 << device) / 8, "it would have fitted");
                }
            }
        }

        #[test]
        fn every_job_fits_that_has_room_for_the_least(
            rows in 1usize..100_000, cols in 1usize..100_000, k_max in 1usize..1_000_000, kind in 0usize..4,
            device in 1usize..4000, host in 64usize..4000, is_ample in any::<bool>(),
        ) {
            let element = ElementType::ALL[kind];
            let element_bytes = element.bytes();
            // Small ones too, which are rare otherwise.
            let (rows, cols) = if is_ample { (rows, cols) } else { (rows % 40 + 1, cols % 40 + 1) };
            let job = JobShape { element, ..shape(rows, cols, k_max) };
            let limits = limits((device * element_bytes) as u64, (host * element_bytes) as u64);
            let resident = rows * cols + SLOTS * k_max * (rows + cols);
            let fits = device >= smallest(&job).min(resident) && host >= 2 * SLOTS * MIN_SLOT;
            let found = plan(&job, &limits);
            prop_assert_eq!(found.is_some(), fits, "{:?}", found);
            let more = CudaLimits { host_bytes: 2 * limits.host_bytes, ..limits };
            let [less, more] = [found, plan(&job, &more)]
                .map(|plan| plan.map_or(0, |plan| plan.updates_per_visit));
            prop_assert!(less <= more);
        }
    }
}
