//! The settings of learning, and the numbers that it decides by.

use serde::{Deserialize, Serialize};

use super::AdaptiveError;
use crate::times::{DriftRule, NoiseRule};

/// The settings of an [`Adaptive`](super::Adaptive) run.
///
/// Plans and saved states hold the first six fields. The groups of numbers are the same in every run, and
/// `isochron-bench learning --vary` varies one of them. Each number names its holder: a test that fails, or a campaign with other
/// results, if the number is doubled or halved.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Tuning {
    /// Divisions are made in multiples of this number of units, except for the rest of the total.
    pub granule: u64,
    /// Largest growth of a part's units from one measurement to the next.
    pub growth: f64,
    /// Largest growth of a part's units in a step, beyond the largest size it was seen at.
    pub growth_in_step: f64,
    /// Largest growth of a part's units in a step if its speed was seen to fall.
    pub growth_before_fall: f64,
    /// Most steps between two decisions, so that drift is answered.
    pub check_every: u64,
    /// Steps after which the division changes even if that does not pay, for tests; 0 for never.
    pub force_every: u64,
    /// The look at the parts before the first step.
    #[serde(skip)]
    pub look: LookTuning,
    /// The noise of measured times.
    #[serde(skip)]
    pub noise: NoiseRule,
    /// Lasting changes of a part's speed.
    #[serde(skip)]
    pub drift: DriftTuning,
    /// The doubt in times that the run has not measured itself.
    #[serde(skip)]
    pub doubt: DoubtTuning,
    /// The model of a part's time.
    #[serde(skip)]
    pub fit: FitTuning,
    /// Changes of the division.
    #[serde(skip)]
    pub change: ChangeTuning,
}

impl Default for Tuning {
    /// Whole units, growth by factors of 3, 1.5 and 1.2, a decision at least every 8 steps.
    fn default() -> Self {
        Self {
            granule: 1,
            growth: 3.0,
            growth_in_step: 1.5,
            growth_before_fall: 1.2,
            check_every: 8,
            force_every: 0,
            look: LookTuning::default(),
            noise: NoiseRule::default(),
            drift: DriftTuning::default(),
            doubt: DoubtTuning::default(),
            fit: FitTuning::default(),
            change: ChangeTuning::default(),
        }
    }
}

impl Tuning {
    pub(super) fn check(&self) -> Result<(), AdaptiveError> {
        for (name, value, least) in [
            ("granule", self.granule as f64, 1.0),
            ("growth", self.growth, 1.0),
            ("growth_in_step", self.growth_in_step, 1.0),
            ("growth_before_fall", self.growth_before_fall, 1.0),
            ("check_every", self.check_every as f64, 1.0),
        ] {
            if !(value >= least && value.is_finite()) {
                return Err(AdaptiveError::InvalidConfig { name, value, least });
            }
        }
        Ok(())
    }
}

/// Sizes and ends of the look at the parts before the first step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LookTuning {
    /// Fractions of an even share that are measured first and second.
    /// Holder: `first_look::one_measurement_scales_what_other_conditions_told`.
    pub fractions: [u64; 2],
    /// Fraction of all units in a first look at parts of likely speeds.
    /// Holder: `looks::a_first_look_at_likely_parts_is_a_small_part_of_a_short_run`.
    pub likely_fraction: u64,
    /// Fraction of the units of all steps that such a look has at most.
    /// Holder: `looks::a_first_look_at_likely_parts_is_a_small_part_of_a_short_run`.
    pub run_fraction: u64,
    /// Ratio of times up to which a second look may be longer for a slow part than for the fastest.
    /// Holder: `looks::the_second_look_takes_slow_parts_at_most_twice_as_long_as_the_fastest`.
    pub slower: f64,
    /// Ratio of speeds from which the second look is left out: on the slowest part it would take too long.
    /// Holder: `looks::the_second_look_takes_slow_parts_at_most_twice_as_long_as_the_fastest`.
    pub unlike: f64,
    /// Ratio of speeds up to which the first look is enough: an even division is a good start.
    /// Holder: `looks::alike_parts_are_looked_at_once`.
    pub similar: f64,
    /// Ratio of speeds from which the first look is repeated: the time may be that of a disturbance.
    /// Holder: `look::a_part_that_seems_500_times_slower_is_looked_at_again`.
    pub implausible: f64,
    /// Ratio of speeds from which the next look has a little more of the slow part, if no part's speed is expected to fall.
    /// Holder: `look::a_part_that_seems_far_too_slow_does_more_than_before`.
    pub suspicious: f64,
    /// Time of a measurement of larger sizes over the time that one step loses without it, up to which it is done.
    /// Holder: the campaign `learning`.
    pub patience: f64,
    /// Ratio of times up to which a look at unlike parts was balanced.
    /// Holder: `looks::a_look_at_likely_parts_is_the_only_one_if_it_is_balanced`.
    pub balanced: f64,
    /// Part of the units of a balanced look that this look had at least.
    /// Holder: `look::a_balanced_look_at_half_of_its_units_is_enough`.
    pub enough: f64,
    /// Steps until their times have corrected the first division, for each repetition of a look.
    /// Holder: `looks::a_part_that_seems_slow_is_looked_at_again_if_that_may_save_more_than_it_costs`.
    pub first_steps: f64,
    /// Ratio of two sizes that tells a fixed cost from a low speed.
    /// Holder: `looks::while_a_part_is_measured_with_more_the_others_do_what_they_would_get_instead`.
    pub notably: f64,
    /// Growth of a part from which it does more while others are measured anyway.
    /// Holder: the golden decisions.
    pub worthwhile: f64,
    /// Time over the expected one from which a part's speed has fallen for certain.
    /// Holder: `looks::a_measurement_of_more_than_was_done_has_a_limit_unless_no_fall_is_expected`.
    pub fallen: f64,
    /// Measurements that a look has at most.
    /// Holder: `look::a_look_ends_after_eight_measurements`.
    pub most: u32,
}

impl Default for LookTuning {
    fn default() -> Self {
        Self {
            fractions: [16, 4],
            likely_fraction: 16,
            run_fraction: 200,
            slower: 2.0,
            unlike: 8.0,
            similar: 1.05,
            implausible: 400.0,
            suspicious: 4.0,
            patience: 20.0,
            balanced: 1.25,
            enough: 0.5,
            first_steps: 2.0,
            notably: 1.2,
            worthwhile: 1.1,
            fallen: 3.0,
            most: 8,
        }
    }
}

impl Default for NoiseRule {
    /// 2 % within a burst and 1 % between bursts, and never less than a thousandth. Holders: the golden decisions for all,
    /// `noise::variances_are_learnt_and_outliers_cut` for the guess and the cut.
    fn default() -> Self {
        Self { within: 4e-4, between: 1e-4, guessed: 4.0, cut: 16.0, least: 1e-6 }
    }
}

impl Default for DriftRule {
    /// Three times beyond 4 deviations, or two that agree. Holders: `drift::noise_is_not_called_drift`,
    /// `drift::two_disturbances_of_unlike_length_are_not_called_drift` and
    /// `drift::a_lasting_change_is_found_in_three_times_with_its_factor`.
    fn default() -> Self {
        Self { cut: 4.0, allowed: 1.0, alarm: 8.0, clear: 8.0, agreement: 0.7 }
    }
}

/// Detection of drift, and its consequences for the times before it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DriftTuning {
    /// The numbers that tell drift from noise.
    pub rule: DriftRule,
    /// Part of a drift's logarithm by which the times before it are in doubt.
    /// Holder: the golden decisions.
    pub doubt: f64,
    /// Least factor of a time that is reported as drift, and from which a part's time to start is unknown again.
    /// Holder: `learn::a_part_that_becomes_slow_gets_less_within_few_steps_and_is_named`.
    pub reported: f64,
    /// Factor of a drift from which a later one by its inverse is the way back to the speed before.
    /// Holder: `drifts::a_part_that_works_is_never_left_without_units`.
    pub reversible: f64,
    /// Times of one size in the run that are no longer taken for disturbances. Holder: the campaign `learning`.
    pub lasting: f64,
    /// Disturbed times beyond the undisturbed ones from which they count as measured.
    /// Holder: `robust::disturbed_times_do_not_change_what_is_learnt`.
    pub disturbed: f64,
}

impl Default for DriftTuning {
    fn default() -> Self {
        Self {
            rule: DriftRule::default(),
            doubt: 0.3,
            reported: 1.1,
            reversible: 1.5,
            lasting: 3.0,
            disturbed: 6.0,
        }
    }
}

/// Doubt in times of earlier runs, of measurements before the run, and of other parts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DoubtTuning {
    /// Relative variance of a point from an earlier run without an interval, and the most of one that was scaled, as a
    /// rugged function is: other temperatures, other neighbours.
    /// Holder: `part::an_earlier_time_without_an_interval_may_be_off_by_five_percent`.
    pub prior: f64,
    /// Relative variance of a measurement before the run as one of the run: caches and transfers differ.
    /// Holder: `looks::parts_of_likely_speeds_share_what_a_look_tells_of_their_kind`.
    pub measurement: f64,
    /// Ratio of sizes whose times tell the time that a part needs to start.
    /// Holder: `part::a_size_tells_the_start_of_sizes_up_to_four_times_as_large`.
    pub support: u64,
    /// Points that are kept of a part.
    /// Holder: `robust::a_part_that_becomes_slower_twice_is_divided_anew_twice`.
    pub points: usize,
    /// Ratio of sizes up to which their times tell the noise between bursts.
    /// Holder: `learn::noise_does_not_move_work_back_and_forth`.
    pub nearby: f64,
    /// Ratio of sizes up to which a part may be like others of its kind.
    /// Holder: `learn::alike_parts_stay_even_despite_noise`.
    pub alike: f64,
    /// Times that differ by more standard deviations than this contradict each other.
    /// Holder: `learn::alike_parts_stay_even_despite_noise`.
    pub clearly: f64,
}

impl Default for DoubtTuning {
    fn default() -> Self {
        Self {
            prior: 0.05 * 0.05,
            measurement: 0.02 * 0.02,
            support: 4,
            points: 32,
            nearby: 1.2,
            alike: 2.0,
            clearly: 4.0,
        }
    }
}

/// The model of a part's time: a fixed cost, a speed that hardly depends on the size, and a fall of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FitTuning {
    /// Standard deviation by which a speed differs from the model of constant speed and fixed cost, for sizes
    /// that are a factor e apart.
    /// Holder: `learn::alike_parts_stay_even_despite_noise`.
    pub roughness: f64,
    /// Standard deviation of the fixed cost, as a part of the time at the size of interest, before anything
    /// is measured.
    /// Holder: `curve::one_point_makes_a_constant_speed_that_is_unsure_elsewhere`.
    pub fixed_cost: f64,
    /// The same in seconds for a part that starts at once.
    /// Holder: `curve::a_steady_part_that_was_disturbed_has_neither_a_start_nor_a_fall`.
    pub steady_start_s: f64,
    /// Least part of the time at the size of interest that is no fixed cost.
    /// Holder: `curve::a_time_that_falls_with_the_size_is_nearly_all_fixed_cost`.
    pub least_slope: f64,
    /// Growth up to which a size counts as seen.
    /// Holder: `curve::sizes_up_to_those_seen_are_known_and_some_way_before_a_fall`.
    pub nearly: f64,
    /// Standard deviations beyond which a time clearly exceeds the model.
    /// Holder: `cliffs::a_short_loop_loses_nothing_beyond_a_cliff`.
    pub clearly: f64,
    /// Excess over the model, as a logarithm, that is called a fall of the speed.
    /// Holder: `curve::bounds_lift_the_line_and_are_not_seen`.
    pub fall: f64,
    /// The same if the time grows with the square of the size, or faster.
    /// Holder: the golden decisions.
    pub steep_fall: f64,
    /// Power of the size from which growth is so steep.
    /// Holder: the golden decisions.
    pub steep: f64,
    /// The same before a size that has clearly fallen.
    /// Holder: `curve::a_slight_excess_before_a_fall_belongs_to_it`.
    pub slight_fall: f64,
    /// Slopes behind a fall, relative to the slope before it.
    /// Holders: `curve::behind_a_fall_the_slope_is_expected_to_double_at_least`, `cliffs::a_slower_division_is_left_again`.
    pub steepness: [f64; 2],
    /// Place in the interval of possible capacities that is taken for the capacity.
    /// Holder: `cliffs::a_slower_division_is_left_again`.
    pub caution: f64,
    /// Part of the least size of a fall up to which times are those before it.
    /// Holder: `curve::sizes_up_to_those_seen_are_known_and_some_way_before_a_fall`.
    pub before_fall: f64,
    /// Power of the size with which the speed of a part falls that pages (Clarke's thesis, section 2.3.1).
    /// Holder: `drifts::a_part_that_becomes_slower_keeps_its_share`.
    pub paging: f64,
}

impl Default for FitTuning {
    fn default() -> Self {
        Self {
            roughness: 0.04,
            fixed_cost: 0.5,
            steady_start_s: 2e-4,
            least_slope: 0.05,
            nearly: 1.005,
            clearly: 4.0,
            fall: 0.25,
            steep_fall: 0.08,
            steep: 2.0,
            slight_fall: 0.03,
            steepness: [2.0, 40.0],
            caution: 0.35,
            before_fall: 0.9,
            paging: 4.0,
        }
    }
}

/// The conditions under which a division changes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ChangeTuning {
    /// Part of a step that a change must save at least: less is chasing noise.
    /// Holder: `learn::noise_does_not_move_work_back_and_forth`.
    pub least_gain: f64,
    /// Part of a step that a change must save at least after the first step with a division. Its caches are cold and its pages
    /// new, and it may take a quarter longer than the next.
    /// Holders: `learn::a_first_step_of_cold_caches_changes_nothing`, and the campaign `learning` from above.
    pub first_gain: f64,
    /// Standard deviations of the slowest part's time that a change must save beyond that: the part may only have been disturbed.
    /// Holders: `learn::noise_does_not_move_work_back_and_forth`, and the campaign `learning` from above.
    pub doubt: f64,
    /// Placements of a division that are tried beyond the first.
    /// Holder: `proposal::a_late_division_is_laid_out_three_times_again`.
    pub placements: u32,
    /// Time of a division as laid out over that as asked for, from which it is laid out again.
    /// Holder: `proposal::what_is_asked_for_again_is_in_whole_granules`.
    pub late: f64,
    /// Standard deviation of a part's time, as a part of it, from which the part is left out on trial.
    /// Holder: `drifts::a_part_that_works_is_never_left_without_units`.
    pub doubtful: f64,
    /// Part of what the steps left can win that a trial may lose.
    /// Holder: `cliffs::a_slower_division_is_left_again`.
    pub at_risk: f64,
    /// Part of the gain of other changes that a trial has to promise: the fall that it looks for makes it promise too little.
    /// Holder: `cliffs::loops_on_parts_that_page_settle_near_the_best_division`.
    pub trial_gain: f64,
    /// Steps of one division from which what the models doubt is tried.
    /// Holder: `cliffs::loops_on_parts_that_page_settle_near_the_best_division`.
    pub settled: u64,
    /// Part of the step below which a part hardly works, and may do more than its times suggest.
    /// Holder: `cliffs::loops_on_parts_that_page_settle_near_the_best_division`.
    pub idle: f64,
    /// Halvings of the sizes in reach of a rugged function, until what moves is little enough.
    /// Holder: `rugged::a_limited_move_of_rugged_times_has_sizes_of_the_functions`.
    pub halvings: u32,
}

impl Default for ChangeTuning {
    fn default() -> Self {
        Self {
            least_gain: 0.002,
            first_gain: 0.25,
            doubt: 1.5,
            placements: 3,
            late: 1.01,
            doubtful: 0.2,
            at_risk: 0.5,
            trial_gain: 0.5,
            settled: 64,
            idle: 0.5,
            halvings: 8,
        }
    }
}
