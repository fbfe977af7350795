//! Prediction of the program's own algorithms: the platform as it is now, and the group of ranks that runs the fastest one.
//!
//! A program describes its algorithm by an [`Algorithm`]: processes, their work and their messages, and the order of both.
//! [`Session::recon`] measures the speed of all ranks with the program's own kernel, and the network between them. By this [`Platform`]
//! [`timeof()`] predicts the seconds of an algorithm, and [`choose()`] the fastest of several with the places of its processes.
//! [`make_group()`] makes a communicator of these places.
//!
//! # References
//! Lastovetsky and Reddy 2006, and Alonso, Reddy and Lastovetsky 2009, section 4: `HMPI_Recon`, `HMPI_Timeof`,
//! `HMPI_Group_auto_create` and `HMPI_Get_comm`.

use std::collections::BTreeSet;
use std::sync::Arc;

use isochron_devices::kernel::Kernel;
use isochron_hierarchy::model::{Fit, Point, SpeedModel};
use isochron_hierarchy::network::Network;
pub use isochron_hierarchy::predict::{
    Algorithm, AlgorithmError, Binding, Choice, Platform, PredictedRun, Scheme, choose, timeof,
};
use isochron_hierarchy::times::find_noise;

use crate::comm::{CollectiveCall, Comm};
use crate::error::Error;
use crate::partition::BenchmarkConfig;
use crate::session::Session;
use crate::session::models::measure_session_network;

/// Model of the points of a place. A prediction follows the points; only partitioners need a shape.
const FIT: Fit = Fit::RawPiecewise;

impl Session {
    /// Measures a kernel of the program's own with each of `sizes` units on all ranks, as [`benchmark`](Self::benchmark) does, and the
    /// network between them. Returns the platform whose places are the ranks: the speed of each is linear between the sizes, and
    /// constant beyond. It is the same on all ranks.
    ///
    /// The network is measured for at most about a second. A network that the session knows from the model store is checked by a message.
    ///
    /// # Errors
    /// On every rank, returns [`Error::Device`] if the kernel fails on any rank; [`Error::Parameter`] without sizes, for a size of
    /// 0, or a number of the configuration that is out of range; [`Error::Settings`] for ranks with different sizes or
    /// configurations.
    ///
    /// # Collective
    /// All ranks, with the same sizes and configuration.
    ///
    /// # References
    /// Alonso, Reddy and Lastovetsky 2009, section 4.1.1 (`HMPI_Recon`).
    pub fn recon(
        &mut self,
        kernel: &mut dyn Kernel,
        sizes: &[u64],
        config: &BenchmarkConfig,
    ) -> Result<Platform, Error> {
        let comm = Arc::clone(&self.comm);
        let checked = if sizes.is_empty() || sizes.contains(&0) {
            let reason = "give the units of one size or several, each above 0";
            Err(Error::parameter("sizes", format!("{sizes:?}"), reason))
        } else {
            Ok(())
        };
        let call = CollectiveCall::new(&*comm, "measuring a platform").with("sizes", &sizes);
        let (_call, ()) = call.enter_with(checked)?;
        let mine = sizes.iter().map(|&d| self.benchmark(kernel, d, config));
        let all = comm.gather(&mine.collect::<Result<Vec<Point>, Error>>()?)?;
        let speeds = all.iter().map(|points| FIT.model(points)).collect::<Result<_, _>>()?;
        let noise = all.iter().map(|points| find_noise(points)).fold(0.0, f64::max);
        measure_session_network(self)?;
        // Logarithms may differ between hosts in the last bit, and all must choose alike.
        let network = (comm.rank() == 0).then(|| self.models.network.network());
        let network = comm.share(0, network)?.unwrap_or_else(|| Network::flat(0.0, f64::INFINITY));
        Ok(Platform { speeds, network, noise })
    }
}

/// Makes the speed of a node of its devices' points, each with the part of the units that lets all end together.
///
/// # Errors
/// Returns [`Error::Model`] if the points of a device make no model.
pub(crate) fn join_devices(devices: &[Vec<Point>]) -> Result<Box<dyn SpeedModel>, Error> {
    if let [points] = devices {
        return Ok(FIT.model(points)?);
    }
    let models = devices.iter().map(|points| Fit::PiecewiseSpeed.model(points));
    let models = &models.collect::<Result<Vec<_>, _>>()?;
    // Within the seconds of each point of a device, the others do their parts.
    let points = devices.iter().zip(models).flat_map(|(points, model)| {
        points.iter().map(move |point| {
            let t_s = model.time_s(point.d as f64);
            let d: f64 = models.iter().map(|model| model.units_within(t_s)).sum();
            Point { d: d.round() as u64, t_s: t_s * d.round() / d, reps: 1, ci_s: 0.0 }
        })
    });
    Ok(FIT.model(&points.collect::<Vec<_>>())?)
}

/// Makes a communicator of the ranks that are these places, such as the places of a [`Choice`], in their order: the rank `places[i]` has the
/// rank `i` there. Returns `None` on the other ranks, which are free.
///
/// # Errors
/// On every rank, returns [`Error::Parameter`] for a place that no rank has, or that comes twice; [`Error::Settings`] for ranks with
/// different places; the errors of [`Comm`].
///
/// # Collective
/// All ranks, with the same places.
///
/// # References
/// Alonso, Reddy and Lastovetsky 2009, section 4.1.2 (`HMPI_Group_create`).
pub fn make_group(comm: &dyn Comm, places: &[usize]) -> Result<Option<Arc<dyn Comm>>, Error> {
    comm.split(find_process(comm, places)?)
}

/// Returns the number of this rank among the places of a group, which are checked.
///
/// # Errors
/// On every rank, returns the errors of [`make_group`].
///
/// # Collective
/// All ranks.
pub fn find_process(comm: &dyn Comm, places: &[usize]) -> Result<Option<usize>, Error> {
    let different: BTreeSet<&usize> = places.iter().collect();
    let is_sound = different.len() == places.len() && different.last() < Some(&&comm.size());
    let checked = if is_sound {
        Ok(())
    } else {
        let reason = format!("give different ranks, each below {}", comm.size());
        Err(Error::parameter("places", format!("{places:?}"), reason))
    };
    let call = CollectiveCall::new(comm, "making a group").with("places", &places);
    call.enter_with(checked)?;
    Ok(places.iter().position(|&place| place == comm.rank()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(speed: f64, sizes: &[u64]) -> Vec<Point> {
        let point = |&d: &u64| Point { d, t_s: d as f64 / speed, reps: 3, ci_s: 0.0 };
        sizes.iter().map(point).collect()
    }

    #[test]
    fn a_node_is_as_fast_as_its_devices_together() {
        let alone = join_devices(&[points(50.0, &[100])]).unwrap();
        assert_eq!(alone.time_s(200.0), 4.0);
        let both = join_devices(&[points(30.0, &[10, 1000]), points(10.0, &[5, 40])]).unwrap();
        for d in [1.0, 100.0, 5000.0] {
            assert!((both.time_s(d) / (d / 40.0) - 1.0).abs() < 1e-9, "{d}: {}", both.time_s(d));
        }
        // Beyond 100 units the slow one pages: the other one does the rest.
        let paging = [&points(10.0, &[10, 100])[..], &points(1.0, &[200])].concat();
        let both = join_devices(&[points(10.0, &[10, 1000]), paging]).unwrap();
        assert!((both.time_s(200.0) - 10.0).abs() < 0.5, "{both:?}");
        assert!(both.speed(900.0) < 15.0, "{both:?}");
        assert!(join_devices(&[Vec::new()]).is_err());
    }
}
