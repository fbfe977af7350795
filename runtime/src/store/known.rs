//! The model store in a session: looks up the job's devices and links, and adds the job's times. The head rank learns, so it
//! needs what is known; other ranks see what was found in the plan.
//!
//! # Deviations
//! * **Measuring before the run**: the papers measure before every run (Clarke et al. 2012, section 3). Here
//!   times of earlier runs replace measurements if all devices are known under equal conditions, because they
//!   are times of the same work. `--store none` measures as the papers do.

use std::collections::BTreeMap;

use isochron_devices::DeviceInfo;
use isochron_devices::internal::{HostConditions, RankGpu, read_gpu_state};
use isochron_devices::topology::Topology;
use isochron_hierarchy::learn::AdaptivePart;
use isochron_hierarchy::model::Point;
use isochron_hierarchy::network::{Survey, SurveyedPair, list_rounds};
use isochron_hierarchy::problem::Problem;
use isochron_hierarchy::times::Series;
use serde::{Deserialize, Serialize};
use strum::Display;

use crate::comm::{Comm, NetworkOrigin, NetworkProbe};
use crate::error::Error;
use crate::store::{
    DeviceIdentity, Identity, JobStore, KeySource, KeyedWork, KnownModel, LinkTimes, ModelStore,
    NoStorePlace, StoreKey, StoreMode, StorePlaces, make_link_key,
};
use isochron_devices::internal::{DeviceSpec, RankHost};

/// Ratio of panel widths up to which times of updates of one are used for the other.
const NEAR_WIDTH: usize = 2;

/// Logarithm of the ratio of their times, each relative to its width, up to which widths count as equal. Runs that
/// choose their width choose among such.
const SAME_COST: f64 = 0.05;

/// The least CPU time of messages that is stored.
const LEAST_CPU_S: f64 = 1e-12;

/// The conditions that tell a device from one elsewhere.
const OF_PLACE: [&str; 3] = ["host", "machine", "uuid"];

/// Describes a device for keys.
fn describe_source(
    topology: &Topology,
    comm: &dyn Comm,
    device: &DeviceInfo,
    gpus: &[RankGpu],
    spec: Option<&DeviceSpec>,
) -> KeySource {
    let conditions = HostConditions::read(topology, device);
    let address = device.bus_id.as_deref();
    let gpu = address.and_then(|address| gpus.iter().find(|gpu| gpu.info.pci_bus_id == address));
    let (class, conditions) = match gpu {
        None => (topology.describe_class(), conditions),
        Some(RankGpu { info, .. }) => {
            let state = read_gpu_state(&info.uuid);
            (info.describe_class(), conditions.with_gpu(&info.uuid, state))
        }
    };
    let mut device = device.clone();
    if let Some(hash) = spec.and_then(hash_points) {
        device.paced = Some(format!("points {hash:08x}"));
    }
    KeySource {
        device,
        class,
        host: comm.host_name().to_owned(),
        place: comm.host().to_owned(),
        conditions,
    }
}

/// Describes the devices of a rank for keys.
pub(crate) fn describe_sources(
    comm: &dyn Comm,
    host: &RankHost,
    devices: &[DeviceInfo],
) -> Vec<KeySource> {
    let specs = host.spec.devices();
    let sources = devices.iter().enumerate().map(|(index, device)| {
        describe_source(&host.topology, comm, device, &host.gpus, specs.get(index))
    });
    sources.collect()
}

/// Reads the store on the head rank; `None` on the others, and if it is not used. Notes on the head rank that there is no
/// place for it, unless the user wants none.
pub(crate) fn read_store(
    comm: &dyn Comm,
    mode: StoreMode,
    places: Result<StorePlaces, NoStorePlace>,
    notices: &mut Vec<String>,
) -> Option<ModelStore> {
    if comm.rank() > 0 || mode == StoreMode::None {
        return None;
    }
    match places {
        Ok(places) => ModelStore::open(mode, Some(places)),
        Err(NoStorePlace::Declined) => None,
        Err(reason @ NoStorePlace::Homeless) => {
            notices.push(format!("the model store is not used: {reason}"));
            None
        }
    }
}

impl JobStore<KeySource> {
    /// Keeps the times of libraries that this job has measured.
    pub fn with_libraries(mut self, measured: Vec<(StoreKey, Series)>) -> Self {
        let (keys, series): (Vec<_>, Vec<_>) = measured.into_iter().unzip();
        if let Some(store) = &mut self.store {
            store.keep(keys.into_iter().map(|key| (key, "")), series.into_iter().map(Some));
        }
        self
    }

    /// Finds the stored times of each rank's devices, as times of updates of `kernel_width`. Returns unusual findings
    /// too, one line each.
    ///
    /// Devices of a host are measured together: if one of them has to be, all are. Devices of several hosts that no fact of
    /// their keys tells apart are checked, because the times may be those of the other one.
    pub fn find_devices(
        &self,
        problem: &Problem,
        kernel_width: usize,
    ) -> (Vec<Vec<KnownTimes>>, Vec<String>) {
        let Some(store) = &self.store else {
            return (Vec::new(), Vec::new());
        };
        // A short k is one panel.
        let width = problem.learning_panel().min(problem.k().max(1));
        let keys = self.make_keys(key_work(problem, width));
        let sought = self.list_sources().zip(&keys).map(|(source, key)| {
            let near = find_nearest(store, key);
            let mut doubts = near.iter().filter_map(|(width, _)| doubt_width(key, *width));
            SoughtTimes {
                name: format!("{} of {}", source.device.name, source.place),
                place: &source.place,
                doubt: doubts.next(),
                twin: self.has_twin(source, key, &keys).then_some("device"),
                found: near.map(|(width, mut known)| {
                    let factor = kernel_width as f64 / width as f64;
                    known.points =
                        known.points.into_iter().map(|point| point.scale_time(factor)).collect();
                    known
                }),
            }
        });
        let (devices, words) = judge_found(sought.collect());
        let counts = self.sources.iter().map(Vec::len);
        (split_ranks(devices, counts), words)
    }

    /// Finds the times that each device showed for this work on its own host, by device in the order of the ranks; `None` for a
    /// device that was not measured there, or that no fact tells from one of another host.
    pub fn find_histories(&self, work: KeyedWork) -> Vec<Option<KnownModel>> {
        let Some(store) = &self.store else {
            return Vec::new();
        };
        let keys = self.make_keys(work);
        let histories = self.list_sources().zip(&keys).map(|(source, key)| {
            let known = store.find(key)?;
            let is_of_place = |fact: &String| OF_PLACE.contains(&fact.as_str());
            let is_own =
                !known.changed.iter().any(is_of_place) && !self.has_twin(source, key, &keys);
            (is_own && known.is_measured()).then_some(known)
        });
        histories.collect()
    }

    /// Finds the stored times of messages between ranks; `None` if they are to be measured, because conditions
    /// differ or the times are old.
    fn find_network(&self, mpi: &str) -> Option<KnownNetwork> {
        let survey = self.find_survey(mpi)?;
        let mut core_s = Vec::new();
        for rank in self.list_ranks() {
            let points = self.find_fresh(mpi, LinkTimes::CpuOf(&rank.class));
            core_s.extend(points.and_then(|points| Some(1.0 / points.last()?.speed())));
        }
        // Without the CPU time of a class, that of all is measured.
        core_s.truncate(if core_s.len() == self.sources.len() { core_s.len() } else { 0 });
        Some(KnownNetwork { survey, core_s })
    }

    /// Finds the stored times between hosts in pairs; `None` if one is missing.
    fn find_survey(&self, mpi: &str) -> Option<Survey> {
        let names = self.list_hosts();
        let mut lengths: Vec<f64> = Vec::new();
        let mut find = |hosts: (usize, usize)| {
            let times = LinkTimes::Pair([hosts.0, hosts.1].map(|host| names[host]));
            let (of_pair, times_s): (Vec<f64>, Vec<f64>) = self
                .find_fresh(mpi, times)?
                .iter()
                .map(|point| (point.d as f64, point.t_s))
                .unzip();
            if lengths.is_empty() {
                lengths.clone_from(&of_pair);
            }
            (lengths == of_pair).then_some(SurveyedPair { hosts, times_s, spread: 0.0 })
        };
        let crowded = (0..names.len()).filter(|&host| {
            self.list_ranks().filter(|rank| *rank.place == *names[host]).count() > 1
        });
        let within: Vec<(usize, usize)> = crowded.map(|host| (host, host)).collect();
        let rounds = [within].into_iter().chain(list_rounds(names.len()));
        let rounds = rounds.filter(|pairs| !pairs.is_empty());
        let rounds: Option<Vec<Vec<SurveyedPair>>> =
            rounds.map(|pairs| pairs.into_iter().map(&mut find).collect()).collect();
        rounds.filter(|rounds| !rounds.is_empty()).map(|rounds| Survey { lengths, rounds })
    }

    /// Lists the hosts by their first ranks.
    fn list_hosts(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for rank in self.list_ranks() {
            if !names.contains(&&*rank.place) {
                names.push(&rank.place);
            }
        }
        names
    }

    fn find_fresh(&self, mpi: &str, times: LinkTimes<'_>) -> Option<Vec<Point>> {
        let known = self.store.as_ref()?.find(&self.make_link_key(mpi, times))?;
        known.list_doubts().is_empty().then_some(known.points)
    }

    fn make_link_key(&self, mpi: &str, times: LinkTimes<'_>) -> StoreKey {
        let ranks: Vec<&KeySource> = self.list_ranks().collect();
        make_link_key(mpi, &ranks, times)
    }

    /// Returns a device of each rank.
    fn list_ranks(&self) -> impl Iterator<Item = &KeySource> {
        self.sources.iter().filter_map(|devices| devices.first())
    }

    /// Keeps the times of messages over this library, if this job has measured them.
    pub fn keep_network(&mut self, mpi: &str, probe: &NetworkProbe) {
        let survey = probe.survey();
        let names = self.list_hosts();
        let is_new = self.store.is_some() && probe.origin() == NetworkOrigin::Measured;
        // The pairs of more hosts would fill the store.
        let Some(&longest) = survey.lengths.last().filter(|_| is_new && names.len() <= MOST_KEPT)
        else {
            return;
        };
        // Of the pairs of ranks within a host the fastest.
        let mut pairs: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
        for pair in survey.rounds.iter().flatten() {
            let known = pairs.entry(pair.hosts).or_insert_with(|| pair.times_s.clone());
            known.iter_mut().zip(&pair.times_s).for_each(|(known, time)| *known = known.min(*time));
        }
        let mut kept = Vec::new();
        for (hosts, times_s) in pairs {
            let times = LinkTimes::Pair([hosts.0, hosts.1].map(|host| names[host]));
            let messages = survey.lengths.iter().zip(times_s);
            let messages = messages.map(|(&bytes, seconds)| time_message(bytes as usize, seconds));
            kept.push((self.make_link_key(mpi, times), messages.collect()));
        }
        let classes: BTreeMap<&str, f64> = self
            .list_ranks()
            .zip(probe.core_s())
            .map(|(rank, &core_s)| (rank.class.as_str(), core_s))
            .collect();
        kept.extend(classes.into_iter().map(|(class, core_s)| {
            // A store has no time of 0.
            let seconds = (core_s * longest).max(LEAST_CPU_S);
            let key = self.make_link_key(mpi, LinkTimes::CpuOf(class));
            (key, vec![time_message(longest as usize, seconds)])
        }));
        let store = self.store.iter_mut();
        store.for_each(|store| kept.drain(..).for_each(|(key, times)| store.keep_only(key, times)));
    }

    /// Keeps the times of a run's steps, by device in the order of the ranks, but not those of devices that heat has
    /// slowed down. `width` is that of the panels.
    pub fn keep_steps(
        &mut self,
        problem: &Problem,
        width: usize,
        series: Vec<Vec<Series>>,
        slowed: &[bool],
    ) {
        let devices = series
            .into_iter()
            .zip(slowed)
            .map(|(series, slowed)| if *slowed { Vec::new() } else { series });
        self.keep_series(key_work(problem, width), devices);
    }

    /// Explains why nothing is kept of devices that had work, one line for each reason; nothing if the store is not
    /// written anyway.
    pub fn explain_losses(
        &self,
        series: &[Vec<Series>],
        stopped: &[bool],
        slowed: &[bool],
    ) -> Vec<String> {
        if !self.store.as_ref().is_some_and(ModelStore::may_write) {
            return Vec::new();
        }
        let sources = self.sources.iter().enumerate();
        let names = sources
            .flat_map(|(rank, devices)| devices.iter().map(move |of| (rank, of)))
            .map(|(rank, KeySource { device, place, .. })| {
                format!("{} of rank {rank} on {place}", device.name)
            });
        explain_losses(&names.collect::<Vec<String>>(), series, stopped, slowed)
    }

    /// Keeps times that were measured before a run, of updates of this width, by device in the order of the ranks.
    pub fn keep_measured(&mut self, problem: &Problem, width: usize, measured: Vec<Vec<Series>>) {
        self.keep_series(key_work(problem, width), measured);
    }
}

/// Finds the stored model of a device by updates of the near width that is nearest to its own, and this width.
fn find_nearest(store: &ModelStore, key: &StoreKey) -> Option<(usize, KnownModel)> {
    let Identity::Device(device) = &key.identity else {
        return None;
    };
    store
        .models()
        .list_widths(device)
        .into_iter()
        .filter(|&width| is_near(width, device.width))
        .filter_map(|width| {
            let found = StoreKey {
                identity: Identity::Device(DeviceIdentity { width, ..device.clone() }),
                conditions: key.conditions.clone(),
            };
            let known = store.find(&found)?;
            known.is_measured().then_some((width, known))
        })
        .min_by(|(a, _), (b, _)| {
            let [a, b] = [*a, *b].map(|width| find_distance(width as f64, device.width as f64));
            a.total_cmp(&b)
        })
}

/// Stored times of a device or kernel, before they are judged.
pub(super) struct SoughtTimes<'s> {
    pub name: String,
    /// The name of its host.
    pub place: &'s str,
    /// The stored times; `None` if it was never seen.
    pub found: Option<KnownModel>,
    /// A reason of its own to check them.
    pub doubt: Option<String>,
    /// What it is, if another host has one with the same key.
    pub twin: Option<&'static str>,
}

/// Tells which stored times hold as they are. Returns unusual findings too, one line each.
///
/// Devices and kernels of a host are measured together: if one of them has to be, all are. Those of several hosts that no fact
/// of their keys tells apart are checked, because the times may be those of the other one.
pub(super) fn judge_found(sought: Vec<SoughtTimes<'_>>) -> (Vec<KnownTimes>, Vec<String>) {
    let (mut words, mut doubtful) = (Vec::new(), Vec::new());
    for SoughtTimes { name, place, found, doubt, twin } in &sought {
        let Some(found) = found else {
            doubtful.push(*place);
            continue;
        };
        if let Some(reason) = found.new_mark() {
            words.push(format!("older models of {name} are stale: {reason}"));
        }
        let mut doubts = found.list_doubts();
        doubts.extend(doubt.clone());
        doubts
            .extend(twin.map(|kind| format!("another host has an equal {kind} and the same name")));
        if !doubts.is_empty() {
            words.push(format!("models of {name} are checked: {}", doubts.join(", ")));
            doubtful.push(*place);
        }
    }
    let known = sought.into_iter().map(|SoughtTimes { place, found, .. }| match found {
        None => KnownTimes::fresh(),
        Some(found) => KnownTimes {
            points: found.points,
            from: if doubtful.contains(&place) {
                KnownFrom::StoreAndProbe
            } else {
                KnownFrom::Store
            },
        },
    });
    (known.collect(), words)
}

/// Explains why no times of steps are kept of devices with these names, one line for each reason. The first device stands
/// for many.
fn explain_losses(
    names: &[String],
    series: &[Vec<Series>],
    stopped: &[bool],
    slowed: &[bool],
) -> Vec<String> {
    let (mut without, mut hot) = (Vec::new(), Vec::new());
    let losses = stopped.iter().zip(slowed);
    for ((name, series), (&stopped, &slowed)) in names.iter().zip(series).zip(losses) {
        let has_times = !series.is_empty();
        if has_times && slowed {
            hot.push(name);
        } else if !has_times && stopped {
            without.push(name);
        }
    }
    [(without, "other programs had the cores in every step"), (hot, "heat made it slower")]
        .iter()
        .filter_map(|(names, reason)| {
            let (first, others) = names.split_first()?;
            let others = match others.len() {
                0 => String::new(),
                1 => " and of 1 other device".to_owned(),
                count => format!(" and of {count} other devices"),
            };
            Some(format!("the store keeps no times of this run of {first}{others}: {reason}"))
        })
        .collect()
}

/// The origin of the first model of a device or of links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Display)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub enum KnownFrom {
    /// A model that was given by hand.
    #[serde(rename = "models")]
    #[strum(serialize = "models")]
    Models,
    /// Times of earlier runs.
    #[serde(rename = "store")]
    #[strum(serialize = "store")]
    Store,
    /// Times of earlier runs, checked or scaled by a measurement.
    #[serde(rename = "store+probe")]
    #[strum(serialize = "store+probe")]
    StoreAndProbe,
    /// Measurements of this run alone.
    #[serde(rename = "fresh")]
    #[strum(serialize = "fresh")]
    Fresh,
}

/// Knowledge of a device or kernel before a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KnownTimes {
    /// Its times by size, which ascend; a size with 0 repetitions takes at least its time. A unit of a device is an element of
    /// C. Empty if it was never seen.
    pub points: Vec<Point>,
    /// Their origin. With [`KnownFrom::StoreAndProbe`] a measurement has to scale them.
    pub from: KnownFrom,
}

impl KnownTimes {
    /// Nothing is known.
    pub(crate) fn fresh() -> Self {
        Self { points: Vec::new(), from: KnownFrom::Fresh }
    }

    /// Returns `true` if its times hold without a measurement.
    pub(crate) fn is_certain(&self) -> bool {
        matches!(self.from, KnownFrom::Models | KnownFrom::Store)
    }

    /// Adds this knowledge to a part of a run that learns.
    pub(crate) fn add_to(&self, part: &mut AdaptivePart) {
        part.prior.clone_from(&self.points);
        part.needs_probe = self.from == KnownFrom::StoreAndProbe;
    }
}

/// Stored times of messages.
#[derive(Serialize, Deserialize)]
struct KnownNetwork {
    /// Messages between hosts in pairs.
    survey: Survey,
    /// The CPU time of a byte by rank; empty if it is not known.
    core_s: Vec<f64>,
}

/// Most hosts whose pairs are kept.
const MOST_KEPT: usize = 64;

/// Recalls the times of messages between ranks on these hosts, by number, from the store of the head rank.
///
/// # Errors
/// Returns [`Error::Unreadable`] on every rank.
///
/// # Collective
/// All ranks.
pub(crate) fn recall_network(
    comm: &dyn Comm,
    store: Option<&JobStore<KeySource>>,
    hosts: Vec<usize>,
) -> Result<NetworkProbe, Error> {
    let known = (comm.rank() == 0)
        .then(|| store.and_then(|store| store.find_network(comm.implementation())));
    let known: Option<KnownNetwork> = comm.share(0, known)?;
    let probe = NetworkProbe::on(hosts);
    Ok(match known {
        Some(known) => probe.recall(known.survey, known.core_s),
        None => probe,
    })
}

/// Splits the devices of all ranks by these counts, one for each rank.
pub(crate) fn split_ranks(
    devices: Vec<KnownTimes>,
    counts: impl Iterator<Item = usize>,
) -> Vec<Vec<KnownTimes>> {
    let mut devices = devices.into_iter();
    counts.map(|count| devices.by_ref().take(count).collect()).collect()
}

/// Returns the work of a problem with updates of this width.
fn key_work(problem: &Problem, width: usize) -> KeyedWork {
    KeyedWork { element: problem.element(), width }
}

/// Returns a checksum of the times that a device's points prescribe; `None` without points. Their file may change under its
/// name.
fn hash_points(spec: &DeviceSpec) -> Option<u32> {
    let model = serde_json::to_string(spec.saved_model()?).ok()?;
    Some(crc32fast::hash(model.as_bytes()))
}

/// Makes the series of a message.
fn time_message(bytes: usize, seconds: f64) -> Series {
    Series::measured(bytes as u64, vec![seconds])
}

/// Returns the reason why stored times of updates of this width need a check before they are used for this key.
fn doubt_width(key: &StoreKey, width: usize) -> Option<String> {
    match &key.identity {
        Identity::Device(device) if !is_alike(device, width) => {
            Some(format!("panels of {width}, not of {}", device.width))
        }
        _ => None,
    }
}

/// Returns `true` if times of updates of one width are used for the other.
fn is_near(one: usize, other: usize) -> bool {
    one.max(other) <= NEAR_WIDTH * one.min(other)
}

/// Returns `true` if times of updates of this width are in proportion to those of the device's own width. Those of a GPU
/// are not: its memory and its link bound narrow updates.
fn is_alike(device: &DeviceIdentity, width: usize) -> bool {
    let [own, other] = [device.width, width].map(Problem::relative_cost);
    device.width == width || (!device.transfers && find_distance(own, other) <= SAME_COST)
}

/// Returns the distance of two sizes: the logarithm of their ratio.
fn find_distance(one: f64, other: f64) -> f64 {
    (one / other).ln().abs()
}

#[cfg(test)]
pub(super) mod tests;
