//! The level of a device's speed relative to its peers, and the shape of a deviation.

use std::f64::consts::SQRT_2;

use super::{DeviceRound, SlowCause};
use crate::times::{Sample, find_median, find_scatter};

/// Least part by which a slow device is below the level of its class.
const SLOWER: f64 = 0.05;

/// Least deficit of a slow device in deviations of its class: 1.4826 times the median absolute deviation.
const DEVIATIONS: f64 = 3.5;

/// Least deficit of a slow device in standard errors of its level. The factor is larger than [`DEVIATIONS`], because a job
/// has many devices and sizes.
const ERRORS: f64 = 5.0;

/// Standard error of a median, in those of a mean of normally distributed values.
const ERROR_OF_MEDIAN: f64 = 1.2533;

/// Fewest steps from round to round that tell noise: those of two looks. The scatter of fewer is too small by chance too often.
const FEWEST_STEPS: usize = 9;

/// The round of each device; `None` for one that has failed.
pub(super) type Round = Vec<Option<DeviceRound>>;

/// A way to measure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Pass {
    Together,
    Alone,
    Transfers,
}

/// The sizes over which a level is taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum LevelSpan {
    All,
    Small,
    Large,
}

const PASSES: [Pass; 3] = [Pass::Together, Pass::Alone, Pass::Transfers];
const SPANS: [LevelSpan; 3] = [LevelSpan::All, LevelSpan::Small, LevelSpan::Large];

impl LevelSpan {
    /// Returns `true` if a size, one of `sizes` in ascending order, belongs to the span.
    fn holds(self, size: usize, sizes: usize) -> bool {
        match self {
            Self::All => true,
            Self::Small => size < sizes / 2,
            Self::Large => size >= sizes - sizes.div_ceil(3),
        }
    }
}

impl DeviceRound {
    fn times_s(&self, pass: Pass) -> &[Option<f64>] {
        match pass {
            Pass::Together => &self.together_s,
            Pass::Alone => &self.alone_s,
            Pass::Transfers => &self.transfers_s,
        }
    }
}

/// The logarithm of a relative speed, and its standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
struct SpeedLevel {
    log: f64,
    error: f64,
}

impl SpeedLevel {
    /// Returns the median of some values with its error; `None` without values.
    fn of_median(values: &[f64]) -> Option<Self> {
        Self::of_noise(values, find_scatter(values))
    }

    /// Returns the median of values of rounds in their order with its error; `None` without values.
    ///
    /// A steady change is not noise. If the steps from round to round scatter less than the values, the error comes from the steps.
    fn of_course(values: &[f64]) -> Option<Self> {
        let steps: Vec<f64> = values.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let scatter = find_scatter(values);
        if steps.len() < FEWEST_STEPS {
            return Self::of_noise(values, scatter);
        }
        Self::of_noise(values, scatter.min(find_scatter(&steps) / SQRT_2))
    }

    fn of_noise(values: &[f64], scatter: f64) -> Option<Self> {
        let error = ERROR_OF_MEDIAN * scatter / (values.len() as f64).sqrt();
        (!values.is_empty()).then(|| Self { log: find_median(values), error })
    }
}

/// The distance of a device's level from that of its class.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LevelDeviation {
    /// Logarithm of the speed over that of the class.
    pub log: f64,
    /// Standard deviation of the class, or of a history.
    scatter: f64,
    /// Standard error of the level, which more rounds make smaller.
    error: f64,
}

impl LevelDeviation {
    /// Returns the logarithm down to which a level is not slow.
    fn limit(&self) -> f64 {
        let noise = (DEVIATIONS * self.scatter).max(ERRORS * self.error);
        least_log().min(-noise)
    }

    fn is_slow(&self) -> bool {
        self.log < self.limit()
    }

    /// Returns the part by which a device has to be slower to be found.
    pub fn found_from(&self) -> f64 {
        1.0 - self.limit().exp()
    }

    fn is_noisy(&self) -> bool {
        -ERRORS * self.error < least_log()
    }
}

/// Returns the logarithm of the speed below which a device may be slow.
fn least_log() -> f64 {
    (1.0 - SLOWER).ln()
}

/// The levels that may show that a device is slow, the first one first.
const SIGNS: [DeviationSign; 3] = [
    (Pass::Transfers, LevelSpan::All),
    (Pass::Together, LevelSpan::All),
    (Pass::Together, LevelSpan::Large),
];

/// A level of a device.
pub(super) type DeviationSign = (Pass, LevelSpan);

/// A deviation that makes a device slow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Slowness {
    pub cause: SlowCause,
    pub deviation: LevelDeviation,
}

/// The level of a class and its spread.
#[derive(Debug, Clone, Copy, Default)]
struct ClassLevel {
    middle: f64,
    scatter: f64,
    /// Median of the standard errors: that of one device, of few rounds, may be too small by chance.
    error: f64,
}

/// The times that devices are compared with, in some rounds.
pub(super) struct Reference<'r> {
    rounds: &'r [Round],
    /// Seconds by pass, round and size.
    times_s: [Vec<Vec<Option<f64>>>; PASSES.len()],
    /// The levels of a class, by pass and span.
    levels: [[ClassLevel; SPANS.len()]; PASSES.len()],
    /// `true` for a class, in whose ratios what disturbs the whole machine cancels out.
    has_peers: bool,
}

impl<'r> Reference<'r> {
    /// Makes the reference of a class with these devices.
    pub fn of_class(rounds: &'r [Round], members: &[usize]) -> Self {
        let times_s = PASSES.map(|pass| {
            let rounds = rounds.iter();
            rounds.map(|round| find_medians_s(round, members, pass)).collect()
        });
        let mut reference = Self { rounds, times_s, levels: Default::default(), has_peers: true };
        reference.levels = PASSES.map(|pass| {
            SPANS.map(|span| {
                let levels =
                    members.iter().filter_map(|&member| reference.find_level(member, pass, span));
                let (logs, errors): (Vec<f64>, Vec<f64>) =
                    levels.map(|level| (level.log, level.error)).unzip();
                ClassLevel {
                    middle: find_median(&logs),
                    scatter: find_scatter(&logs),
                    error: find_median(&errors),
                }
            })
        });
        reference
    }

    /// Makes the reference of a device with a history.
    pub fn of_history(rounds: &'r [Round], history: &[Sample]) -> Self {
        let known = history.iter().map(|time| Some(time.seconds).filter(|&time_s| time_s > 0.0));
        let errors = history.iter().map(|time| time.error_s / time.seconds);
        let errors: Vec<f64> = errors.filter(|error| error.is_finite()).collect();
        let level = ClassLevel { scatter: find_median(&errors), ..ClassLevel::default() };
        let [mut together_s, alone_s, transfers_s] = [(); PASSES.len()].map(|()| Vec::new());
        together_s.resize(rounds.len(), known.collect());
        Self {
            rounds,
            times_s: [together_s, alone_s, transfers_s],
            levels: [[level; SPANS.len()]; PASSES.len()],
            has_peers: false,
        }
    }

    /// Finds out if a device is slow by a sign that is confirmed, and why.
    pub fn find_slowness(
        &self,
        device: usize,
        is_confirmed: impl Fn(DeviationSign) -> bool,
    ) -> Option<Slowness> {
        let (sign, deviation) = SIGNS.into_iter().find_map(|sign| {
            let deviation = self.find_deviation(device, sign)?;
            (deviation.is_slow() && is_confirmed(sign)).then_some((sign, deviation))
        })?;
        let cause = match sign {
            // No clock of the device makes a copy slower, while a slow link makes updates slower too.
            (Pass::Transfers, _) => SlowCause::Link,
            _ if self.is_fast_alone(device, deviation.log) => SlowCause::Neighbours,
            _ if self.becomes_slower(device, sign) => SlowCause::Heat,
            _ => self.read_shape(device),
        };
        Some(Slowness { cause, deviation })
    }

    /// Returns `true` if the device is below the least level of a healthy one, be it by noise.
    pub fn is_suspicious(&self, device: usize) -> bool {
        SIGNS.into_iter().any(|sign| self.is_below(device, sign))
    }

    /// Returns `true` if the noise of a device hides what makes one slow.
    pub fn is_noisy(&self, device: usize) -> bool {
        SIGNS.into_iter().any(|sign| {
            let deviation = self.find_deviation(device, sign);
            deviation.is_some_and(|deviation| deviation.is_noisy())
        })
    }

    /// Returns `true` if this level of the device is below the least one of a healthy device.
    pub fn is_below(&self, device: usize, sign: DeviationSign) -> bool {
        let deviation = self.find_deviation(device, sign);
        deviation.is_some_and(|deviation| deviation.log < least_log())
    }

    /// Returns `true` if a slow device has less than half of its deviation while its neighbours are idle, at the largest size at
    /// which it is slow beside them: the longest times have the least noise.
    fn is_fast_alone(&self, device: usize, slow_log: f64) -> bool {
        let [together, alone] =
            [Pass::Together, Pass::Alone].map(|pass| self.list_speeds(device, pass));
        let known = together.iter().zip(&alone).rev();
        let mut slow = known.filter_map(|(together, alone)| {
            let logs = (together.as_ref()?.ln(), alone.as_ref()?.ln());
            (logs.0 < 0.5 * slow_log).then_some(logs)
        });
        slow.next().is_some_and(|(together, alone)| alone > 0.5 * together)
    }

    /// Returns `true` if a slow device becomes slower during the check: each of the later half of its rounds is slower than each
    /// of the earlier half, and their medians differ by the least part. Of ten rounds in a random order, one in 252 has the slowest
    /// five at its end.
    ///
    /// A history has no peers, so that heat of the whole machine would seem to be that of the device.
    fn becomes_slower(&self, device: usize, (pass, span): DeviationSign) -> bool {
        let logs = self.list_levels(device, pass, span);
        let (first, second) = logs.split_at(logs.len() / 2);
        let slowest = first.iter().copied().fold(f64::INFINITY, f64::min);
        self.has_peers
            && !first.is_empty()
            && second.iter().all(|&later| later < slowest)
            && find_median(second) - find_median(first) < least_log()
    }

    /// Returns the cause that the speeds of a slow device tell, small sizes against large ones.
    fn read_shape(&self, device: usize) -> SlowCause {
        let [small, large] = [LevelSpan::Small, LevelSpan::Large]
            .map(|span| self.find_deviation(device, (Pass::Together, span)));
        match (small, large) {
            (Some(small), Some(large)) if is_minor(small, large) => SlowCause::Memory,
            (Some(small), Some(large)) if is_minor(large, small) => SlowCause::Start,
            _ => SlowCause::Clock,
        }
    }

    /// Returns the deviation of a device over all sizes; `None` without times.
    pub fn find_whole(&self, device: usize) -> Option<LevelDeviation> {
        self.find_deviation(device, (Pass::Together, LevelSpan::All))
    }

    /// Returns the median speed of a device over that of its class, at each size.
    pub fn list_speeds(&self, device: usize, pass: Pass) -> Vec<Option<f64>> {
        let rounds = self.list_ratios(device, pass);
        let sizes = rounds.iter().map(Vec::len).max().unwrap_or(0);
        (0..sizes)
            .map(|size| {
                let known = rounds.iter().filter_map(|round| *round.get(size)?);
                Some(SpeedLevel::of_median(&known.collect::<Vec<f64>>())?.log.exp())
            })
            .collect()
    }

    fn find_deviation(&self, device: usize, (pass, span): DeviationSign) -> Option<LevelDeviation> {
        let own = self.find_level(device, pass, span)?;
        let class = self.levels[pass as usize][span as usize];
        Some(LevelDeviation {
            log: own.log - class.middle,
            scatter: class.scatter,
            error: own.error.max(class.error),
        })
    }

    /// Returns the median over rounds of the median over the sizes of a span.
    fn find_level(&self, device: usize, pass: Pass, span: LevelSpan) -> Option<SpeedLevel> {
        let levels = self.list_levels(device, pass, span);
        // Without peers a drift of the whole machine would seem to be the device's.
        if self.has_peers { SpeedLevel::of_course(&levels) } else { SpeedLevel::of_median(&levels) }
    }

    /// Returns the median over the sizes of a span, in each round that has one.
    fn list_levels(&self, device: usize, pass: Pass, span: LevelSpan) -> Vec<f64> {
        let rounds = self.list_ratios(device, pass);
        let of_rounds = rounds.iter().filter_map(|ratios| {
            let sizes = ratios.iter().enumerate();
            let held = sizes.filter(|(size, _)| span.holds(*size, ratios.len()));
            let known: Vec<f64> = held.filter_map(|(_, ratio)| *ratio).collect();
            (!known.is_empty()).then(|| find_median(&known))
        });
        of_rounds.collect()
    }

    /// Returns the logarithms of a device's relative speeds, by round and size.
    fn list_ratios(&self, device: usize, pass: Pass) -> Vec<Vec<Option<f64>>> {
        let rounds = self.rounds.iter().zip(&self.times_s[pass as usize]);
        let ratios = rounds.filter_map(|(round, reference_s)| {
            let own_s = round[device].as_ref()?.times_s(pass).iter();
            let ratios = own_s.zip(reference_s).map(|(own_s, reference_s)| {
                let own_s = own_s.filter(|&own_s| own_s > 0.0)?;
                Some(((*reference_s)? / own_s).ln())
            });
            Some(ratios.collect())
        });
        ratios.collect()
    }
}

/// Returns the median times of some devices in a round, by size.
fn find_medians_s(round: &Round, members: &[usize], pass: Pass) -> Vec<Option<f64>> {
    let times_s: Vec<&[Option<f64>]> =
        members.iter().filter_map(|&member| Some(round[member].as_ref()?.times_s(pass))).collect();
    let sizes = times_s.iter().map(|times_s| times_s.len()).max().unwrap_or(0);
    (0..sizes)
        .map(|size| {
            let known = times_s.iter().filter_map(|times_s| *times_s.get(size)?);
            let mut known: Vec<f64> = known.filter(|&time_s| time_s > 0.0).collect();
            known.sort_unstable_by(f64::total_cmp);
            let lower = known.get(known.len().saturating_sub(1) / 2).copied()?;
            // Few rounds measure devices alone, so that one disturbed time beside that of a slow device would count: the lower
            // of two middle times is not disturbed. It is the time of a device, whose own noise would seem to vanish elsewhere.
            Some(match pass {
                Pass::Alone => lower,
                Pass::Together | Pass::Transfers => find_median(&known),
            })
        })
        .collect()
}

/// Returns `true` if a slow device's `deviation` is less than half of its `other` deviation.
fn is_minor(deviation: LevelDeviation, other: LevelDeviation) -> bool {
    deviation.log > 0.5 * other.log
}
