//! The check of all devices, step by step.

use std::collections::BTreeMap;

use super::levels::{DeviationSign, Pass, Reference, Round, Slowness};
use super::{CheckedDevice, ComparedWith, DeviceHealth, DeviceRound, Health, ROUNDS, RoundRequest};
use crate::balance::BalanceStep;

/// Fewest devices, equal in model and limits, that make a class.
const ALIKE: usize = 4;

/// The check of all devices of a job. It asks for rounds with [`step`](Self::step), and is told their times with
/// [`observe`](Self::observe).
///
/// After the first look, a suspicion or much noise causes a second one of as many rounds, with each device alone too if there
/// is a suspicion. A device is slow if all rounds show it beyond their noise, and each look by itself is below the least
/// level: a disturbance that lasts for a whole look accuses no one. Levels are taken of copies, of all sizes and of the largest
/// sizes. The first one that shows this tells the speed and the cause.
///
/// Classes are equal models and limits. A device whose class is too small is compared with the largest class of its model, so
/// that a quota that it alone has shows as its cause; without one, with its own history.
///
/// ```
/// use isochron_hierarchy::balance::BalanceStep;
/// use isochron_hierarchy::health::{CheckedDevice, DeviceRound, Health, HealthCheck, SlowCause};
///
/// // Five alike devices. The last one is slower at the two largest sizes.
/// let mut check = HealthCheck::new(vec![CheckedDevice::default(); 5]);
/// let found = loop {
///     match check.step() {
///         BalanceStep::Done(found) => break found,
///         BalanceStep::Measure(_) => check.observe(
///             (0..5)
///                 .map(|device| {
///                     let slower = if device == 4 { 1.5 } else { 1.0 };
///                     Some(DeviceRound {
///                         together_s: [0.1, 0.2, 0.4, 0.8, 1.6 * slower, 3.2 * slower].map(Some).into(),
///                         ..DeviceRound::default()
///                     })
///                 })
///                 .collect(),
///         ),
///     }
/// };
/// assert_eq!(found[0].health, Health::Healthy);
/// assert_eq!((found[4].health, found[4].cause), (Health::Slow, Some(SlowCause::Memory)));
/// ```
#[derive(Debug, Clone)]
pub struct HealthCheck {
    devices: Vec<CheckedDevice>,
    rounds: Vec<Round>,
}

/// Some of the rounds, with the reference of each device.
struct Look<'c> {
    references: Vec<Reference<'c>>,
    /// For each device, the kind of its comparison and the index of its reference.
    compared: Vec<(ComparedWith, Option<usize>)>,
}

impl<'c> Look<'c> {
    fn refer(&self, device: usize) -> Option<&Reference<'c>> {
        Some(&self.references[self.compared[device].1?])
    }

    fn is_below(&self, device: usize, sign: DeviationSign) -> bool {
        let reference = self.refer(device);
        reference.is_some_and(|it| it.is_below(device, sign))
    }

    /// Returns `true` if this holds for any device with a reference.
    fn has_any(&self, holds: impl Fn(&Reference<'c>, usize) -> bool) -> bool {
        (0..self.compared.len()).any(|device| {
            let reference = self.refer(device);
            reference.is_some_and(|it| holds(it, device))
        })
    }

    fn list_speeds(&self, device: usize, pass: Pass) -> Vec<Option<f64>> {
        let reference = self.refer(device);
        reference.map_or_else(Vec::new, |it| it.list_speeds(device, pass))
    }
}

impl HealthCheck {
    /// Begins a check of these devices.
    pub fn new(devices: Vec<CheckedDevice>) -> Self {
        Self { devices, rounds: Vec::new() }
    }

    /// Returns the next request, or the health of each device.
    pub fn step(&self) -> BalanceStep<RoundRequest, Vec<DeviceHealth>> {
        match self.find_request() {
            Some(request) => BalanceStep::Measure(request),
            None => BalanceStep::Done(self.judge()),
        }
    }

    fn find_request(&self) -> Option<RoundRequest> {
        let done = self.rounds.len();
        if done < ROUNDS {
            return Some(RoundRequest { done, is_alone: false });
        }
        let first = self.look(&self.rounds[..ROUNDS]);
        let is_alone = first.has_any(Reference::is_suspicious);
        let goes_on = done < 2 * ROUNDS && (is_alone || first.has_any(Reference::is_noisy));
        goes_on.then_some(RoundRequest { done, is_alone })
    }

    /// Returns the health of each device by the rounds so far. A check that was cut off finds devices that both halves of its
    /// rounds show to be slow. After the first look it knows those that are healthy beyond doubt, too.
    pub fn judge(&self) -> Vec<DeviceHealth> {
        let (first, second) = self.rounds.split_at(self.rounds.len().div_ceil(2));
        let (first, second) = (self.look(first), self.look(second));
        let all = self.look(&self.rounds);
        let is_whole = self.find_request().is_none();
        let is_settled = |device| {
            let is_clear = |it: &Reference<'_>| !it.is_suspicious(device) && !it.is_noisy(device);
            let is_clear = all.refer(device).is_some_and(is_clear);
            is_whole || self.rounds.len() >= ROUNDS && is_clear
        };
        let found = (0..self.devices.len()).map(|device| {
            // A disturbance that lasted for a whole look does not concern the device.
            let is_confirmed =
                |sign| [&first, &second].iter().all(|look| look.is_below(device, sign));
            let slowness = all.refer(device).and_then(|it| it.find_slowness(device, is_confirmed));
            self.describe(device, &all, slowness, is_settled(device))
        });
        found.collect()
    }

    /// Takes in the times of a round, by device; `None` for a device that has failed.
    ///
    /// # Panics
    /// If the round is not one of all devices.
    pub fn observe(&mut self, round: Vec<Option<DeviceRound>>) {
        assert_eq!(round.len(), self.devices.len(), "a round of each device");
        self.rounds.push(round);
    }

    fn has_failed(&self, device: usize) -> bool {
        self.rounds.iter().any(|round| round[device].is_none())
    }

    /// Lists the devices that have not failed, by model and limits.
    fn list_classes(&self) -> BTreeMap<(&str, &str), Vec<usize>> {
        let mut classes: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
        for device in (0..self.devices.len()).filter(|&device| !self.has_failed(device)) {
            let CheckedDevice { model, limits, .. } = &self.devices[device];
            classes.entry((model, limits)).or_default().push(device);
        }
        classes
    }

    /// Finds the reference of each device in some rounds.
    fn look<'c>(&'c self, rounds: &'c [Round]) -> Look<'c> {
        let mut classes = self.list_classes();
        classes.retain(|_, members| members.len() >= ALIKE);
        let mut references: Vec<Reference<'c>> =
            classes.values().map(|members| Reference::of_class(rounds, members)).collect();
        let compared = self.devices.iter().map(|device| {
            let of_model =
                classes.iter().enumerate().filter(|(_, ((model, _), _))| *model == device.model);
            let own = of_model.clone().find(|(_, ((_, limits), _))| *limits == device.limits);
            if let Some((class, _)) = own {
                return (ComparedWith::Class, Some(class));
            }
            if let Some((class, _)) = of_model.max_by_key(|(_, (_, members))| members.len()) {
                return (ComparedWith::OtherLimits, Some(class));
            }
            if device.history.is_empty() {
                return (ComparedWith::Nothing, None);
            }
            references.push(Reference::of_history(rounds, &device.history));
            (ComparedWith::History, Some(references.len() - 1))
        });
        Look { compared: compared.collect(), references }
    }

    /// Describes a device by a look at all rounds, which may have settled its health, and what was confirmed.
    fn describe(
        &self,
        device: usize,
        all: &Look<'_>,
        slowness: Option<Slowness>,
        is_settled: bool,
    ) -> DeviceHealth {
        let whole = all.refer(device).and_then(|it| it.find_whole(device));
        let health = if self.has_failed(device) {
            Health::Failed
        } else if slowness.is_some() {
            Health::Slow
        } else if whole.is_some() && is_settled {
            Health::Healthy
        } else {
            Health::Unknown
        };
        let slowness = slowness.filter(|_| health == Health::Slow);
        let shown = slowness.map(|slowness| slowness.deviation).or(whole);
        DeviceHealth {
            health,
            cause: slowness.map(|slowness| slowness.cause),
            compared_with: all.compared[device].0,
            speed: shown.map(|deviation| deviation.log.exp()),
            found_from: whole.map(|deviation| deviation.found_from()),
            speeds: all.list_speeds(device, Pass::Together),
            alone: all.list_speeds(device, Pass::Alone),
            transfers: all.list_speeds(device, Pass::Transfers),
        }
    }
}
