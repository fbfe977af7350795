//! The measurements of the devices of one node.

use isochron_devices::measure::{UpdateOperands, repeat_alone};
use isochron_devices::{
    Depth, DeviceError, DeviceInfo, DeviceTeam, Element, ElementType, MeasureConfig, Measurement,
    measure_team,
};
use serde::Serialize;

use super::peak::{self, Peak};

/// What was measured of a node.
#[derive(Serialize)]
pub struct Measured {
    /// The type of the elements.
    pub element: ElementType,
    /// Its devices.
    pub devices: Vec<DeviceMeasured>,
}

/// What was measured of one device.
#[derive(Serialize)]
pub struct DeviceMeasured {
    #[serde(flatten)]
    pub info: DeviceInfo,
    /// What its speeds are compared with.
    pub peak: Peak,
    /// Its updates, by ascending size.
    pub sizes: Vec<SizeMeasured>,
}

/// The update `C (n×n) += A (n×b) · B (b×n)` of one device, in the middle of a long job: C is where it is computed.
#[derive(Serialize)]
pub struct SizeMeasured {
    pub n: usize,
    /// `2·n²·b`, or `8·n²·b` of complex numbers.
    pub flop: f64,
    /// While the other devices did nothing.
    pub alone: Measurement,
    /// While each of the other devices did the same update, started at the same moment; `null` where there are none.
    pub together: Option<Measurement>,
}

impl SizeMeasured {
    /// Speed in 10⁹ flop/s; of a bound, what it is at most.
    pub fn gflops(&self, measurement: &Measurement) -> f64 {
        self.flop / measurement.t_s / 1e9
    }

    /// How many times as long the update takes together as alone, where both are known.
    pub fn slowdown(&self) -> Option<f64> {
        let together = self.together.filter(|together| !together.is_bound())?;
        (!self.alone.is_bound()).then(|| together.t_s / self.alone.t_s)
    }
}

/// Measures every device of the team at every size, alone and, where there are several, all together; after each size
/// `progress` is told about it.
///
/// # Errors
/// Those of [`measure_team`].
pub fn measure<T: Element>(
    team: &mut DeviceTeam,
    sizes: &[usize],
    block: usize,
    config: &dyn Fn(usize) -> MeasureConfig,
    progress: &mut dyn FnMut(&str),
) -> Result<Measured, DeviceError> {
    let mut operands = UpdateOperands::<T>::default();
    let mut devices = Vec::new();
    for index in 0..team.len() {
        progress(&format!("{}: peak", team.infos()[index].name));
        devices.push(DeviceMeasured {
            info: team.infos()[index].clone(),
            peak: peak::measure(team, index, &mut operands)?,
            sizes: Vec::new(),
        });
    }
    for &n in sizes {
        progress(&format!("n = {n}"));
        let mut one_size = |slices: &[usize]| {
            // What a larger size left for gathering is no limit for this one.
            team.limit_memory(u64::MAX);
            measure_team(
                team,
                n,
                slices,
                Depth::endless(block),
                &config(n),
                &mut operands,
                &mut repeat_alone,
            )
        };
        let count = devices.len();
        let together = (count > 1).then(|| one_size(&vec![n; count])).transpose()?;
        for (index, device) in devices.iter_mut().enumerate() {
            let mut slices = vec![0; count];
            slices[index] = n;
            device.sizes.push(SizeMeasured {
                n,
                flop: T::TYPE.flop() * (n * n) as f64 * block as f64,
                alone: one_size(&slices)?[index],
                together: together.as_ref().map(|found| found[index]),
            });
        }
    }
    Ok(Measured {
        element: T::TYPE,
        devices,
    })
}

/// Two devices that were never measured, for tests: as fast together as half alone, and too slow for the last size.
#[cfg(test)]
pub fn made_up() -> Measured {
    use super::peak::OperandsIn;
    use isochron_devices::{DeviceClock, DeviceKind, MeasureOutcome};
    let precise = |t_s: f64| Measurement {
        t_s,
        ci_s: 0.01 * t_s,
        reps: 5,
        outcome: MeasureOutcome::Precise,
        ..Measurement::default()
    };
    let size = |n: usize, alone, together| SizeMeasured {
        n,
        flop: 2.0 * (n * n * 64) as f64,
        alone,
        together: Some(together),
    };
    let device = |name: &str| DeviceMeasured {
        info: DeviceInfo {
            name: name.to_owned(),
            kind: DeviceKind::Cpu,
            blas: "made up".to_owned(),
            paced: None,
            clock: DeviceClock::Cores,
            cores: vec![0, 2],
            pinned: true,
            bus_id: None,
        },
        peak: Peak {
            gflops: 1.0,
            size: 256,
            operands: OperandsIn::HostMemory,
        },
        sizes: vec![
            size(64, precise(2.0_f64.powi(-10)), precise(2.0_f64.powi(-9))),
            size(
                128,
                precise(2.0_f64.powi(-8)),
                Measurement::lower_bound(10.0),
            ),
        ],
    };
    Measured {
        element: ElementType::F64,
        devices: vec![device("fast/one"), device("slow")],
    }
}
