//! The measurements of the devices of one host.

use isochron_devices::measure::{UpdateOperands, repeat_alone};
use isochron_devices::{
    Depth, DeviceError, DeviceInfo, DeviceTeam, Element, ElementType, Measurement, measure_team,
};
use serde::Serialize;

use super::bench::{BenchArguments, show_progress};
use super::peak::{Peak, measure_peak};

/// The measurements of a host.
#[derive(Serialize)]
pub struct HostMeasurements {
    /// The type of the elements.
    pub element: ElementType,
    /// Its devices.
    pub devices: Vec<DeviceMeasurements>,
}

/// The measurements of one device.
#[derive(Serialize)]
pub struct DeviceMeasurements {
    #[serde(flatten)]
    pub info: DeviceInfo,
    /// The speed that its speeds are compared with.
    pub peak: Peak,
    /// Its updates, by ascending size.
    pub sizes: Vec<SizeMeasurements>,
}

/// The update `C (n×n) += A (n×b) · B (b×n)` of one device in the middle of a long job, when C is already there.
#[derive(Serialize)]
pub struct SizeMeasurements {
    pub n: usize,
    /// `2·n²·b`, or `8·n²·b` of complex numbers.
    pub flop: f64,
    /// The update while the other devices were idle.
    pub alone: Measurement,
    /// The update while each of the other devices did the same, started at the same moment; `null` without others.
    pub together: Option<Measurement>,
}

/// The names of a size's measurements.
pub const MEASUREMENT_NAMES: [&str; 2] = ["alone", "together"];

impl SizeMeasurements {
    /// Returns the measurement alone, and the one together if there is one.
    pub fn measurements(&self) -> [Option<Measurement>; 2] {
        [Some(self.alone), self.together]
    }

    /// Returns the speed together over the speed alone, if both are known.
    pub fn relative_speed(&self) -> Option<f64> {
        let together = self.together.filter(|together| !together.is_bound())?;
        (!self.alone.is_bound()).then(|| self.alone.t_s / together.t_s)
    }
}

impl BenchArguments {
    /// Measures every device of the team at every size n, ascending, alone and, if there are several, all together.
    ///
    /// # Errors
    /// Those of [`measure_team`].
    pub fn measure<T: Element>(
        &self,
        sizes: &[usize],
        team: &mut DeviceTeam,
    ) -> Result<HostMeasurements, DeviceError> {
        let mut operands = UpdateOperands::<T>::default();
        let mut devices = Vec::new();
        for index in 0..team.len() {
            show_progress(&format!("measuring {}: peak", team.infos()[index].name));
            devices.push(DeviceMeasurements {
                info: team.infos()[index].clone(),
                peak: measure_peak(team, index, &mut operands)?,
                sizes: Vec::new(),
            });
        }
        for &n in sizes {
            show_progress(&format!("measuring n = {n}"));
            let count = devices.len();
            let together = (count > 1)
                .then(|| self.measure_size(team, n, &vec![n; count], &mut operands))
                .transpose()?;
            for (index, device) in devices.iter_mut().enumerate() {
                let mut slices = vec![0; count];
                slices[index] = n;
                device.sizes.push(SizeMeasurements {
                    n,
                    flop: T::TYPE.flop() * (n * n) as f64 * self.block as f64,
                    alone: self.measure_size(team, n, &slices, &mut operands)?[index],
                    together: together.as_ref().map(|found| found[index]),
                });
            }
        }
        Ok(HostMeasurements {
            element: T::TYPE,
            devices,
        })
    }

    /// Measures an update of `n` rows and of `slices[i]` columns on device i.
    fn measure_size<T: Element>(
        &self,
        team: &mut DeviceTeam,
        n: usize,
        slices: &[usize],
        operands: &mut UpdateOperands<T>,
    ) -> Result<Vec<Measurement>, DeviceError> {
        // The memory that a larger size left for gathering is no limit for this one.
        team.limit_memory(u64::MAX);
        let depth = Depth::endless(self.block);
        let config = self.config(n);
        measure_team(team, n, slices, depth, &config, operands, &mut repeat_alone)
    }
}

/// Made-up measurements, for tests.
#[cfg(test)]
pub mod made_up {
    use super::super::peak::OperandsIn;
    use super::*;
    use isochron_devices::{DeviceClock, DeviceKind, MeasureOutcome};

    /// Makes two devices that are half as fast together as alone, and too slow for the last size together.
    pub fn make_test_measurements() -> HostMeasurements {
        HostMeasurements {
            element: ElementType::F64,
            devices: ["fast/one", "slow"].map(make_device).into(),
        }
    }

    fn make_device(name: &str) -> DeviceMeasurements {
        let [fast, half, slow] = [-10, -9, -8].map(|power| make_precise(2.0_f64.powi(power)));
        DeviceMeasurements {
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
                make_size(64, fast, half),
                make_size(128, slow, Measurement::lower_bound(10.0)),
            ],
        }
    }

    fn make_precise(t_s: f64) -> Measurement {
        Measurement {
            t_s,
            ci_s: 0.01 * t_s,
            reps: 5,
            outcome: MeasureOutcome::Precise,
            ..Measurement::default()
        }
    }

    fn make_size(n: usize, alone: Measurement, together: Measurement) -> SizeMeasurements {
        SizeMeasurements {
            n,
            flop: 2.0 * (n * n * 64) as f64,
            alone,
            together: Some(together),
        }
    }
}
