//! How a job is laid out in the memory of a GPU: whole, or in tiles that stream through it.
//!
//! # The arithmetic
//!
//! Elements have `s` bytes, the link carries `W` bytes/s, the GPU computes `P` flop/s, `f` flop are one multiplication
//! with addition (2, or 8 for complex numbers). `R = s·P / (f·W)` is how many multiplications the GPU could do in the
//! time in which the link carries one element: 4900 in `f64` for 67 Tflop/s behind 55 GB/s.
//!
//! **Resident.** C (`m×n`) stays on the GPU from `begin` to `finish`, and beside it the panels of two updates: those of
//! the next one travel while one is computed. An update moves A (`m×k`) and B (`k×n`) and does `m·n·k` multiplications:
//! the link keeps up while `k(m + n)·R <= m·n·k`, that is `1/m + 1/n <= 1/R`, whatever k is.
//!
//! **Streamed.** C stays in host memory, and its tiles (`p×q`) visit the GPU. A visit moves the tile there and back and
//! the panels of A and B that it needs, `2pq + K(p + q)` elements, for `pqK` multiplications. The link keeps up while
//!
//! `2/K + 1/p + 1/q <= 1/R`.
//!
//! With the `K = k` of a single update, `2/K` alone is beyond `1/R`: the GPU would wait. So the panels of several updates
//! are gathered in pinned host memory, and a visit uses all of them. Tiles are as large as the memory limit allows,
//! three quarters of it for two of them (one comes and goes while the other one is computed), and then
//!
//! `K >= 2 / (1/R - 1/p - 1/q)`, but no more than `K = 8 / (1/p + 1/q)`,
//!
//! where the tile itself is a fifth of the traffic and more gathering would gain little: the second bound counts where
//! the link is too slow for tiles of this size, and the panels are what holds the GPU up. What is gathered takes
//! `K(m + n)` elements of host memory, which is kept below half of C, or below the limit that was set. It is never more
//! than the whole job has, in whole updates. Where the job is no multiple of it, the last visit has less to do, with the
//! last update, and moves all of C for it.

use serde::{Deserialize, Serialize};

/// How many tiles, panels and staging slots there are of each: one is filled or emptied while the other one is in use.
pub const SLOTS: usize = 2;

/// Bytes of a staging slot: large enough that a copy runs at the link's full speed (tens of microseconds of latency
/// against milliseconds), small enough that the pipeline fills quickly.
const SLOT_BYTES: usize = 8 << 20;
/// The smallest slot, in elements.
const MIN_SLOT: usize = 32;
/// The smallest side of a tile.
const MIN_TILE: usize = 16;
/// Inner dimension of what is multiplied at once in a streamed visit: cuBLAS is at full speed from a few hundred on.
const STEP_K: usize = 1024;
/// The largest leading dimension in bytes that CUDA copies.
const MAX_PITCH_BYTES: usize = i32::MAX as usize;

/// What a plan may use, and how fast things are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Bytes of GPU memory.
    pub device_bytes: u64,
    /// Bytes of pinned host memory; `u64::MAX` for no other limit than half of C for gathered panels.
    pub host_bytes: u64,
    /// What the GPU computes at best, flop/s.
    pub peak_flops_per_s: f64,
    /// What the link carries, bytes/s.
    pub link_bytes_per_s: f64,
}

/// A job: C is `rows × cols`, updates have `k <= k_max`, and `k_total` together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Rows of C.
    pub rows: usize,
    /// Columns of C.
    pub cols: usize,
    /// Largest inner dimension of an update.
    pub k_max: usize,
    /// The inner dimensions of all updates together, or more; at least `k_max`.
    pub k_total: usize,
    /// Bytes of an element.
    pub element_bytes: usize,
}

/// Where C is during a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// On the GPU.
    Resident,
    /// In host memory; tiles of this size visit the GPU.
    Streamed {
        /// Rows of a tile.
        tile_rows: usize,
        /// Columns of a tile.
        tile_cols: usize,
        /// Inner dimension that is gathered for a visit.
        gather_k: usize,
        /// Inner dimension that is on the GPU at a time.
        step_k: usize,
    },
}

/// How a job is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TilePlan {
    /// Where C is.
    pub placement: Placement,
    /// Elements of a staging slot in pinned memory.
    pub slot_elements: usize,
    /// Bytes of GPU memory.
    pub device_bytes: u64,
    /// Bytes of pinned host memory.
    pub host_bytes: u64,
    /// How many updates with `k = k_max` are gathered for one visit: a power of two, or all of the job's; 1 when C is on the
    /// GPU.
    pub updates_per_visit: usize,
}

/// Lays out a job; `None` when it does not fit in however small tiles.
pub fn plan(shape: Shape, f_flop: f64, limits: &Limits) -> Option<TilePlan> {
    let column_bytes = shape.rows.checked_mul(shape.element_bytes)?;
    if column_bytes > MAX_PITCH_BYTES || shape.cols > i32::MAX as usize {
        return None;
    }
    resident(shape, limits).or_else(|| streamed(shape, f_flop, limits))
}

/// The least bytes of host memory with which a job can be laid out in this GPU memory; `None` when none are enough.
pub fn least_host_bytes(shape: Shape, f_flop: f64, limits: &Limits) -> Option<u64> {
    let unlimited = Limits {
        host_bytes: u64::MAX,
        ..*limits
    };
    let gathered = match plan(shape, f_flop, &unlimited)?.placement {
        Placement::Resident => 0,
        Placement::Streamed { .. } => gathered_bytes(shape, 1),
    };
    let slots = (2 * SLOTS * MIN_SLOT * shape.element_bytes) as u128;
    u64::try_from(slots + gathered).ok()
}

/// Bytes of the panels of so many updates.
fn gathered_bytes(shape: Shape, updates: usize) -> u128 {
    let across = (shape.rows + shape.cols) as u128;
    updates as u128 * shape.k_max as u128 * across * shape.element_bytes as u128
}

/// Elements of a staging slot: no more than there is to move, and all of them at most half of what may be pinned besides
/// `gathered` bytes.
fn slot(shape: Shape, gathered: u128, limits: &Limits) -> Option<usize> {
    let s = shape.element_bytes;
    let most = (shape.rows.max(shape.k_max)).saturating_mul(shape.cols.max(shape.k_max));
    let left = u128::from(limits.host_bytes).checked_sub(gathered)?;
    let allowed = usize::try_from(left / (2 * SLOTS as u128)).unwrap_or(usize::MAX) / s;
    let slot = (SLOT_BYTES / s).min(most).max(MIN_SLOT).min(allowed);
    (slot >= MIN_SLOT).then_some(slot)
}

fn resident(shape: Shape, limits: &Limits) -> Option<TilePlan> {
    let slot_elements = slot(shape, 0, limits)?;
    let [rows, cols, k] = [shape.rows, shape.cols, shape.k_max].map(|n| n as u128);
    let elements = rows * cols + SLOTS as u128 * k * (rows + cols);
    let s = shape.element_bytes as u128;
    let plan = TilePlan {
        placement: Placement::Resident,
        slot_elements,
        device_bytes: u64::try_from(elements * s).ok()?,
        host_bytes: u64::try_from((SLOTS * slot_elements) as u128 * s).ok()?,
        updates_per_visit: 1,
    };
    let step_fits = shape.k_max <= i32::MAX as usize / shape.element_bytes;
    (step_fits && plan.fits(limits)).then_some(plan)
}

fn streamed(shape: Shape, f_flop: f64, limits: &Limits) -> Option<TilePlan> {
    let s = shape.element_bytes;
    let slot_elements = slot(shape, gathered_bytes(shape, 1), limits)?;
    let elements = usize::try_from(limits.device_bytes / s as u64).ok()?;
    let (tile_rows, tile_cols) = tile(shape, elements)?;
    // Two tiles, and what is left for two panels of A and of B.
    let left = elements.checked_sub(SLOTS * tile_rows * tile_cols)?;
    let step_k = (left / (SLOTS * (tile_rows + tile_cols))).min(STEP_K);
    let wanted = wanted_k(tile_rows, tile_cols, shape.element_bytes, f_flop, limits);
    let half_of_c = shape.rows as u128 * shape.cols as u128 * s as u128 / 2;
    let for_slots = (SLOTS * slot_elements * s) as u128;
    let host = u128::from(limits.host_bytes).checked_sub(for_slots)?;
    let all = shape.k_total.div_ceil(shape.k_max);
    let mut updates = 1;
    while ((updates * shape.k_max) as f64) < wanted && updates < all {
        let more = (2 * updates).min(all);
        let gathered = gathered_bytes(shape, more);
        if gathered > half_of_c || gathered > host {
            break;
        }
        updates = more;
    }
    let gather_k = shape.k_max.checked_mul(updates)?;
    let step_k = step_k.min(gather_k);
    let device = SLOTS * (tile_rows * tile_cols + step_k * (tile_rows + tile_cols));
    let plan = TilePlan {
        placement: Placement::Streamed {
            tile_rows,
            tile_cols,
            gather_k,
            step_k,
        },
        slot_elements,
        device_bytes: (device * s) as u64,
        host_bytes: u64::try_from(for_slots + gathered_bytes(shape, updates)).ok()?,
        updates_per_visit: updates,
    };
    let pitch_fits = gather_k <= MAX_PITCH_BYTES / s;
    (step_k > 0 && pitch_fits && plan.fits(limits)).then_some(plan)
}

/// The largest tile, as square as C allows, two of which take three quarters of the memory; its sides divide those of C
/// nearly evenly.
fn tile(shape: Shape, elements: usize) -> Option<(usize, usize)> {
    let area = elements / 8 * 3;
    let side = area.isqrt();
    let rows = if shape.cols < side {
        (area / shape.cols.max(1)).min(shape.rows)
    } else {
        side.min(shape.rows)
    };
    let cols = (area / rows.max(1)).min(shape.cols);
    let even = |whole: usize, part: usize| whole.div_ceil(whole.div_ceil(part.max(1)).max(1));
    let (rows, cols) = (even(shape.rows, rows), even(shape.cols, cols));
    let large_enough = |part: usize, whole: usize| part >= MIN_TILE.min(whole) && part > 0;
    (large_enough(rows, shape.rows) && large_enough(cols, shape.cols)).then_some((rows, cols))
}

/// The inner dimension that is to be gathered for a visit of a `p×q` tile, as the module says.
fn wanted_k(p: usize, q: usize, element_bytes: usize, f_flop: f64, limits: &Limits) -> f64 {
    let ratio = element_bytes as f64 * limits.peak_flops_per_s / (f_flop * limits.link_bytes_per_s);
    let panels = 1.0 / p as f64 + 1.0 / q as f64;
    let enough = 8.0 / panels;
    let spare = 1.0 / ratio - panels;
    if spare > 0.0 {
        enough.min(2.0 / spare)
    } else {
        enough
    }
}

impl TilePlan {
    fn fits(&self, limits: &Limits) -> bool {
        self.device_bytes <= limits.device_bytes && self.host_bytes <= limits.host_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const H200: Limits = Limits {
        device_bytes: 140 << 30,
        host_bytes: u64::MAX,
        peak_flops_per_s: 67e12,
        link_bytes_per_s: 55e9,
    };

    fn shape(rows: usize, cols: usize, k_max: usize) -> Shape {
        Shape {
            rows,
            cols,
            k_max,
            k_total: usize::MAX,
            element_bytes: 8,
        }
    }

    #[test]
    fn what_fits_stays_on_the_gpu() {
        let plan = plan(shape(60_000, 60_000, 512), 2.0, &H200).unwrap();
        assert_eq!(plan.placement, Placement::Resident);
        assert_eq!(plan.device_bytes, 8 * (60_000 * 60_000 + 2 * 512 * 120_000));
        assert_eq!(
            (plan.updates_per_visit, plan.host_bytes),
            (1, 2 * (8 << 20))
        );
    }

    #[test]
    fn a_streamed_job_keeps_the_link_behind_the_gpu() {
        let plan = plan(shape(200_000, 200_000, 512), 2.0, &H200).unwrap();
        let Placement::Streamed {
            tile_rows: p,
            tile_cols: q,
            gather_k,
            step_k,
        } = plan.placement
        else {
            panic!("{plan:?}");
        };
        let traffic = 2.0 / gather_k as f64 + 1.0 / p as f64 + 1.0 / q as f64;
        assert!(traffic * 8.0 * 67e12 / (2.0 * 55e9) <= 1.0, "{plan:?}");
        assert!(plan.device_bytes <= H200.device_bytes);
        assert!(plan.updates_per_visit.is_power_of_two() && step_k == STEP_K);
        assert!(plan.host_bytes < 8 * 200_000 * 200_000 / 2 + (17 << 20));
    }

    #[test]
    fn no_more_is_gathered_than_the_job_has() {
        let gathers = |k_total| {
            let shape = Shape {
                k_total,
                ..shape(200_000, 200_000, 128)
            };
            let plan = plan(shape, 2.0, &H200).unwrap();
            (plan.updates_per_visit, plan.host_bytes)
        };
        let slots = 2 * (8 << 20);
        let bytes = |updates: u64| slots + 8 * updates * 128 * 400_000;
        let (most, all_bytes) = gathers(usize::MAX);
        assert!(most.is_power_of_two() && most > 16, "{most}");
        assert_eq!(all_bytes, bytes(most as u64));
        // In whole updates: the last of them is narrower, and has room all the same.
        for (k_total, updates) in [
            (1, 1),
            (128, 1),
            (129, 2),
            (10 * 128, 10),
            (11 * 128 - 1, 11),
        ] {
            assert_eq!(gathers(k_total), (updates, bytes(updates as u64)));
        }
        assert_eq!(gathers(most * 128 + 1).0, most);
    }

    #[test]
    fn too_little_memory_is_no_plan() {
        let little = |device_bytes, host_bytes| Limits {
            device_bytes,
            host_bytes,
            ..H200
        };
        assert_eq!(
            plan(shape(100, 100, 10), 2.0, &little(1000, u64::MAX)),
            None
        );
        assert_eq!(plan(shape(100, 100, 10), 2.0, &little(1 << 30, 100)), None);
        assert_eq!(plan(shape(1 << 40, 1, 1), 2.0, &H200), None);
        assert_eq!(
            plan(shape(usize::MAX, usize::MAX, usize::MAX), 2.0, &H200),
            None
        );
    }

    proptest! {
        #[test]
        fn plans_keep_their_limits(
            rows in 1usize..3000, cols in 1usize..3000, k_max in 1usize..300, updates in 1usize..40,
            device in 12u32..26, host in 12u32..40,
        ) {
            let shape = Shape { k_total: k_max * updates, ..shape(rows, cols, k_max) };
            let limits = Limits { device_bytes: 1 << device, host_bytes: 1 << host, ..H200 };
            let least = least_host_bytes(shape, 2.0, &limits);
            let found = plan(shape, 2.0, &limits);
            prop_assert_eq!(found.is_some(), least.is_some_and(|least| least <= limits.host_bytes));
            if let Some(plan) = found {
                prop_assert!(plan.device_bytes <= limits.device_bytes && plan.host_bytes <= limits.host_bytes);
                prop_assert!(plan.slot_elements >= MIN_SLOT);
                if let Placement::Streamed { tile_rows, tile_cols, gather_k, step_k } = plan.placement {
                    prop_assert!((1..=rows).contains(&tile_rows) && (1..=cols).contains(&tile_cols));
                    prop_assert!((1..=gather_k).contains(&step_k));
                    prop_assert_eq!(gather_k, k_max * plan.updates_per_visit);
                    let together = plan.updates_per_visit;
                    prop_assert!(together == updates || together < updates && together.is_power_of_two());
                    prop_assert!(rows * cols + SLOTS * k_max * (rows + cols) > (1 << device) / 8, "it would have fitted");
                }
            }
        }
    }
}
