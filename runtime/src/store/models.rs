//! The runs of all segments together, and the models that follow from them.
//!
//! Every run counts as one, however many repetitions it kept: the times of a size are the median of the runs' medians,
//! so that one bad run moves nothing. Three runs in a row that contradict all before them replace these.

mod rates;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use isochron_devices::internal::pick_fastest;
use isochron_hierarchy::model::Point;
use isochron_hierarchy::times::LogTime;

use super::key::{Conditions, DeviceIdentity, Identity, LibrarySource, StoreKey};
use super::segment::StoredRun;
use rates::{CONTRADICTING, OTHER_CONDITIONS, SAME, combine, drop_outdated, overlay, thin};

/// The runs of all segments of a store.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StoredModels {
    /// The runs by identity, in the order in which they were made.
    runs: BTreeMap<Identity, Vec<StoredRun>>,
}

/// The stored model of a device.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownModel {
    /// The times of its sizes, which ascend. The intervals count other runs, other conditions and age.
    pub points: Vec<Point>,
    /// Conditions that differ from those of the nearest runs; empty if none does.
    pub changed: Vec<String>,
    /// Number of the nearest runs that count.
    pub runs: usize,
    /// Seconds since the last of these runs.
    pub age_s: u64,
    /// The reason why older runs do not count any more, as long as they are among those that are looked at.
    pub stale: Option<String>,
}

/// Age up to which times are used without a check.
pub(crate) const KEPT_S: u64 = 30 * 86_400;

impl KnownModel {
    /// Returns `true` if a size was measured: bounds alone tell nothing.
    pub fn is_measured(&self) -> bool {
        self.points.iter().any(|point| point.reps > 0)
    }

    /// Lists the reasons why the times need a check before they are used.
    pub fn list_doubts(&self) -> Vec<String> {
        let changed = if self.changed.is_empty() {
            None
        } else {
            Some(format!("other {}", self.changed.join(", ")))
        };
        let age = (self.age_s > KEPT_S).then(|| format!("older than {} days", KEPT_S / 86_400));
        changed.into_iter().chain(age).collect()
    }

    /// Returns the reason why older runs do not count any more, as long as no run has been added since: every mark is news
    /// once.
    pub fn new_mark(&self) -> Option<&str> {
        self.stale.as_deref().filter(|_| self.runs == CONTRADICTING)
    }
}

impl StoredModels {
    /// Merges the runs of segments. A run that several segments hold counts once, in its longest form: one of them may have
    /// been copied before the job had ended.
    pub fn merge(runs: impl IntoIterator<Item = StoredRun>) -> Self {
        let mut known: BTreeMap<(String, StoreKey), StoredRun> = BTreeMap::new();
        for run in runs {
            match known.entry((run.writer.clone(), run.key.clone())) {
                Entry::Vacant(first) => {
                    first.insert(run);
                }
                Entry::Occupied(mut other) if other.get().length() < run.length() => {
                    other.insert(run);
                }
                Entry::Occupied(_) => {}
            }
        }
        let mut merged: BTreeMap<Identity, Vec<StoredRun>> = BTreeMap::new();
        for run in known.into_values() {
            merged.entry(run.key.identity.clone()).or_default().push(run);
        }
        for runs in merged.values_mut() {
            runs.sort_by(|a, b| (a.run, a.at_s, &a.writer).cmp(&(b.run, b.at_s, &b.writer)));
        }
        Self { runs: merged }
    }

    /// Returns every run.
    pub fn runs(&self) -> impl Iterator<Item = &StoredRun> {
        self.runs.values().flatten()
    }

    /// Returns the widths of updates of which times are known, for work that is otherwise the same.
    pub fn list_widths(&self, identity: &DeviceIdentity) -> Vec<usize> {
        self.runs
            .keys()
            .filter_map(|other| match other {
                Identity::Device(other) => {
                    let same = DeviceIdentity { width: other.width, ..identity.clone() };
                    (same == *other).then_some(other.width)
                }
                Identity::Links(_) | Identity::Library(_) | Identity::Kernel(_) => None,
            })
            .collect()
    }

    /// Returns the library that the first job with these libraries chose; `None` if there was none with this version of
    /// Isochron. Jobs that measured them at the same time do not change it.
    pub fn find_library<'s>(&self, source: &'s LibrarySource) -> Option<&'s str> {
        let keys = source.list_keys();
        let of_all = keys.iter().map(|key| {
            let runs = self.runs.get(&key.identity)?.iter();
            let version = &key.conditions.isochron;
            Some(runs.filter(move |run| run.key.conditions.isochron == *version))
        });
        let of_all: Vec<Vec<&StoredRun>> =
            of_all.map(|runs| runs.map(Iterator::collect)).collect::<Option<_>>()?;
        let times = of_all.first()?.iter().find_map(|first| {
            of_all
                .iter()
                .map(|runs| {
                    Some(
                        runs.iter()
                            .find(|run| run.writer == first.writer)?
                            .samples
                            .iter()
                            .filter(|sample| !sample.at_least)
                            .flat_map(|sample| sample.seconds.clone())
                            .collect(),
                    )
                })
                .collect::<Option<Vec<Vec<f64>>>>()
        })?;
        let index = pick_fastest(&times)?;
        source.libraries.get(index).map(String::as_str)
    }

    /// Returns the latest other set of libraries from which a rank like this chose; `None` without one.
    pub fn find_other_libraries(&self, source: &LibrarySource) -> Option<&[String]> {
        let sets = self.runs.iter().filter_map(|(identity, runs)| {
            let Identity::Library(known) = identity else {
                return None;
            };
            let same = LibrarySource { libraries: known.libraries.clone(), ..source.clone() };
            let is_other = same.make_key(&known.library).identity == *identity
                && known.libraries != source.libraries;
            let at_s = runs.iter().map(|run| run.at_s).max()?;
            is_other.then_some((at_s, &known.libraries[..]))
        });
        sets.max_by_key(|(at_s, _)| *at_s).map(|(_, set)| set)
    }

    /// Returns the number of the next run of a device.
    pub fn number_next(&self, identity: &Identity) -> u64 {
        let last = self.runs.get(identity).and_then(|runs| runs.last());
        last.map_or(1, |last| last.run.saturating_add(1))
    }

    /// Finds the model of a device at the moment `now_s`, in seconds since 1970.
    ///
    /// The time of a kernel may be any function of the size. Its sizes are kept as they are.
    pub fn find(&self, key: &StoreKey, now_s: u64) -> Option<KnownModel> {
        let groups = group_by_conditions(self.runs.get(&key.identity)?);
        // The order of the runs decides between conditions that differ equally.
        let (nearest, own) = groups
            .iter()
            .rev()
            .min_by_key(|(conditions, _)| conditions.list_differences(&key.conditions).len())?;
        let changed = nearest.list_differences(&key.conditions);
        let (counting, stale) = drop_outdated(own);
        let is_rugged = matches!(key.identity, Identity::Kernel(_));
        let same = if is_rugged { 1.0 } else { SAME };
        let mut times = combine(&counting, now_s, same);
        let others = groups.iter().filter(|(conditions, _)| conditions != nearest && !is_rugged);
        for (_, runs) in others {
            let other = combine(&drop_outdated(runs).0, now_s, same);
            overlay(&mut times, &other);
        }
        if !changed.is_empty() {
            times.iter_mut().for_each(|time| time.variance += OTHER_CONDITIONS.powi(2));
        }
        let latest_s = counting.iter().map(|run| run.at_s).max();
        let told = if is_rugged { times } else { thin(&times) };
        Some(KnownModel {
            age_s: now_s.saturating_sub(latest_s.unwrap_or(0)),
            points: told.into_iter().map(LogTime::to_point).collect(),
            changed,
            runs: counting.len(),
            stale,
        })
    }
}

/// Groups runs by their conditions; a group comes after another if its last run does.
fn group_by_conditions(runs: &[StoredRun]) -> Vec<(&Conditions, Vec<&StoredRun>)> {
    let mut groups: Vec<(&Conditions, Vec<&StoredRun>)> = Vec::new();
    for run in runs {
        let conditions = &run.key.conditions;
        let known = groups.iter().position(|(other, _)| *other == conditions);
        let mut group = match known {
            Some(index) => groups.remove(index),
            None => (conditions, Vec::new()),
        };
        group.1.push(run);
        groups.push(group);
    }
    groups
}

#[cfg(test)]
mod tests {
    use isochron_hierarchy::times::Series;

    use super::super::kernels::tests::{key_all, make_source as make_kernel_source};
    use super::super::key::tests::{device_identity, key, library_source, vary};
    use super::super::segment::tests::stored;
    use super::super::segment::{format_segment, parse_segment};
    use super::rates::{MONTH_S, POINTS};
    use super::*;

    const NOW_S: u64 = 1_000_000;

    /// Returns runs of one size with these times.
    fn runs_of(times_s: &[f64]) -> Vec<StoredRun> {
        (1..)
            .zip(times_s)
            .map(|(run, &t_s)| stored(&format!("w{run}"), run, &[(100, &[t_s])]))
            .collect()
    }

    fn find(runs: Vec<StoredRun>) -> KnownModel {
        StoredModels::merge(runs).find(&key(), NOW_S).unwrap()
    }

    fn close(value: f64, expected: f64) -> bool {
        (value / expected - 1.0).abs() < 1e-9
    }

    #[test]
    fn every_field_of_a_key_is_found_again_and_tells_devices_apart() {
        let run = stored("w", 1, &[(100, &[0.5, 0.7, 0.6])]);
        let text = format_segment(&[run]).unwrap();
        let models = StoredModels::merge(parse_segment(text.as_bytes()).unwrap());
        let known = models.find(&key(), NOW_S).unwrap();
        assert!(known.changed.is_empty() && known.stale.is_none());
        assert!(known.points.len() == 1 && close(known.points[0].t_s, 0.6));
        for (field, identity) in vary(&device_identity()) {
            let identity = Identity::Device(identity);
            let other = StoreKey { identity, ..key() };
            assert_eq!(models.find(&other, NOW_S), None, "{field}");
        }
        for (field, conditions) in vary(&key().conditions) {
            let other = StoreKey { conditions, ..key() };
            let known = models.find(&other, NOW_S).unwrap();
            assert_eq!(known.changed, [field]);
            assert!(known.points[0].ci_s > 0.3 * known.points[0].t_s);
        }
    }

    #[test]
    fn one_bad_run_moves_nothing() {
        let good = find(runs_of(&[0.5, 0.5, 0.5]));
        let with_bad = find(runs_of(&[0.5, 0.5, 5.0, 0.5]));
        assert!(close(with_bad.points[0].t_s, good.points[0].t_s));
        // The repetitions of a run do not count by their number.
        let mut many = runs_of(&[0.5, 0.5, 0.5]);
        many.push(stored("w4", 4, &[(100, &[0.9; 30])]));
        assert!(close(find(many).points[0].t_s, 0.5));
    }

    #[test]
    fn three_runs_in_a_row_that_contradict_replace_the_others() {
        let two = find(runs_of(&[0.5, 0.51, 0.5, 0.7, 0.7]));
        assert!(two.stale.is_none() && two.new_mark().is_none() && two.points[0].t_s < 0.52);
        let broken = find(runs_of(&[0.5, 0.51, 0.5, 0.7, 0.5, 0.7, 0.7]));
        assert!(broken.stale.is_none());
        for (later, factor) in [(0.7, "1.40"), (0.35, "0.70")] {
            let three = find(runs_of(&[0.5, 0.51, 0.5, later, later, later]));
            assert!(close(three.points[0].t_s, later) && three.runs == 3, "{three:?}");
            assert_eq!(three.new_mark(), three.stale.as_deref());
            let next = find(runs_of(&[0.5, 0.51, 0.5, later, later, later, later]));
            assert!(next.stale.is_some() && next.new_mark().is_none());
            let reason = three.stale.unwrap();
            assert!(reason.contains(factor) && reason.contains("3 before"), "{reason}");
        }
        // Runs that differ among themselves contradict less.
        assert!(find(runs_of(&[0.6, 0.4, 0.5, 0.6, 0.6, 0.6])).stale.is_none());
    }

    #[test]
    fn a_clock_that_ran_backwards_changes_no_order_and_no_trust() {
        let mut runs = runs_of(&[0.5, 0.5, 0.5, 0.7, 0.7, 0.7]);
        for run in &mut runs {
            run.at_s = 10 * NOW_S - run.run;
        }
        let known = find(runs);
        assert!(known.stale.is_some() && close(known.points[0].t_s, 0.7));
        assert!(known.points[0].ci_s < 0.1 * known.points[0].t_s);
    }

    #[test]
    fn old_times_are_trusted_less() {
        let models = StoredModels::merge(runs_of(&[0.5]));
        let widths = [0, 1, 6, 1000].map(|months| {
            let now_s = NOW_S + months * MONTH_S as u64;
            models.find(&key(), now_s).unwrap().points[0].ci_s
        });
        assert!(widths.is_sorted_by(|a, b| a < b), "{widths:?}");
        assert!(widths[3] < 0.3);
    }

    #[test]
    fn a_run_counts_once_however_often_it_is_stored() {
        let run = stored("w", 1, &[(100, &[0.5])]);
        let longer = stored("w", 1, &[(100, &[0.5]), (200, &[0.5])]);
        let models = StoredModels::merge([run.clone(), longer.clone(), run]);
        assert!(models.runs().eq([&longer]));
        assert_eq!(models.number_next(&key().identity), 2);
        assert_eq!(models.list_widths(&device_identity()), [256]);
    }

    #[test]
    fn another_device_of_the_class_tells_sizes_that_were_never_done() {
        let own = stored("a", 1, &[(100, &[0.5])]);
        let mut other = stored("b", 1, &[(100, &[1.0]), (1000, &[12.0])]);
        other.key.conditions.host = "b".to_owned();
        let known = find(vec![own.clone(), other.clone()]);
        assert!(known.changed.is_empty() && known.points.len() == 2);
        assert!(close(known.points[1].t_s, 6.0), "{:?}", known.points);
        // A third one starts from the latest of the nearest conditions, with doubt.
        let mut key = key();
        key.conditions.host = "c".to_owned();
        let known = StoredModels::merge([own, other]).find(&key, NOW_S).unwrap();
        assert_eq!((known.points.len(), known.changed), (2, vec!["host".to_owned()]));
    }

    /// Returns the runs of a job that timed each library of this source.
    fn time_libraries(
        source: &LibrarySource,
        writer: &str,
        run: u64,
        times_s: &[f64],
    ) -> Vec<StoredRun> {
        let keys = source.list_keys().into_iter().zip(times_s);
        keys.map(|(key, &time_s)| StoredRun {
            key,
            ..stored(writer, run, &[(100, &[2.0 * time_s, time_s])])
        })
        .collect()
    }

    #[test]
    fn the_first_job_with_the_same_libraries_chooses_for_all() {
        let source = library_source();
        let first = time_libraries(&source, "w1", 1, &[2.0, 1.0]);
        let later = time_libraries(&source, "w2", 2, &[1.0, 2.0]);
        let text = format_segment(&[later.clone(), first.clone()].concat()).unwrap();
        let models = StoredModels::merge(parse_segment(text.as_bytes()).unwrap());
        assert_eq!(models.find_library(&source), Some("gemm (embedded)"));
        assert_eq!(models.find_other_libraries(&source), None);
        for (field, other) in vary(&source) {
            let known = models.find_library(&other);
            assert_eq!(known.is_some(), field == "host", "{field}");
            let others = models.find_other_libraries(&other);
            assert_eq!(others.is_some(), field == "libraries", "{field}");
        }
        // A job that did not time all of them chooses nothing.
        let partly = [&first[1..], &later].concat();
        let models = StoredModels::merge(partly);
        assert_eq!(models.find_library(&source), Some("OpenBLAS 0.3.21 (x.so)"));
        assert_eq!(StoredModels::merge(first[1..].to_vec()).find_library(&source), None);
        let mut older = first;
        older.iter_mut().for_each(|run| run.key.conditions.isochron = "0.0.1".to_owned());
        assert_eq!(StoredModels::merge(older).find_library(&source), None);
    }

    #[test]
    fn hopeless_sizes_are_bounds_until_they_are_measured() {
        let mut run = stored("a", 1, &[(100, &[0.5])]);
        run.samples.push(Series { units: 1000, seconds: vec![60.0], at_least: true });
        let known = find(vec![run.clone()]);
        assert!(known.points[1].reps == 0 && close(known.points[1].t_s, 60.0));
        let known = find(vec![run, stored("b", 2, &[(1010, &[90.0])])]);
        assert!(known.points[1].reps == 1 && known.points.len() == 2);
        assert!(close(known.points[1].t_s, 90.0));
    }

    #[test]
    fn many_sizes_are_thinned_to_the_ends() {
        let sizes: Vec<u64> = (0..60).map(|i| (100.0 * 1.1f64.powi(i)) as u64).collect();
        let samples: Vec<(u64, &[f64])> = sizes.iter().map(|&d| (d, &[1.0][..])).collect();
        let points = find(vec![stored("a", 1, &samples)]).points;
        assert_eq!(points.len(), POINTS);
        assert_eq!([points[0].d, points[POINTS - 1].d], [sizes[0], sizes[59]]);
        assert!(points.is_sorted_by_key(|point| point.d));
    }

    #[test]
    fn sizes_of_a_kernel_stay_as_they_are() {
        let key = key_all(&[make_kernel_source()]).remove(0);
        let sizes: Vec<u64> = (1..=60).map(|index| 1000 + index).collect();
        let rugged = sizes.iter().map(|&units| Series {
            units,
            seconds: vec![1.0 + (units % 2) as f64],
            at_least: false,
        });
        let own = StoredRun { key: key.clone(), samples: rugged.collect(), ..stored("a", 1, &[]) };
        let mut other = own.clone();
        other.writer = "b".to_owned();
        other.key.conditions.host = "b".to_owned();
        other.samples[0].units = 5000;
        let points = StoredModels::merge([own, other]).find(&key, NOW_S).unwrap().points;
        assert!(points.iter().map(|point| point.d).eq(sizes));
        for point in points {
            assert!(close(point.t_s, 1.0 + (point.d % 2) as f64), "{point:?}");
        }
    }
}
