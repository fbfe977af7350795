use fastrand::Rng;

use super::*;

/// Campaigns in a simulation.
const CAMPAIGNS: usize = 1000;

/// Rounds of a simulated campaign.
const ROUNDS: usize = 15;

/// Returns a number of the standard normal distribution.
fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}

/// Returns the times of some contenders in each round of a campaign. The machine drifts by up to 2 %, so that rounds next to
/// each other are alike, and each time has heavy-tailed noise on top: Student's with three degrees of freedom, and now and then
/// another job.
fn simulate(contenders: usize, true_s: f64, rng: &mut Rng) -> Vec<Vec<f64>> {
    const NOISE: f64 = 0.01;
    let (size, likeness) = (0.02 * rng.f64(), 0.7 * rng.f64());
    let mut times = vec![Vec::new(); contenders];
    let mut drift = size * normal(rng);
    for _ in 0..ROUNDS {
        drift = likeness * drift + (1.0 - likeness * likeness).sqrt() * size * normal(rng);
        for times in &mut times {
            let squares: f64 = (0..3).map(|_| normal(rng).powi(2)).sum();
            let noise = NOISE * normal(rng) / (squares / 3.0).sqrt();
            let job = if rng.f64() < 0.05 { 0.3 * rng.f64() } else { 0.0 };
            times.push(true_s * (drift + noise.abs() + job).exp());
        }
    }
    times
}

/// Compares simulated campaigns of some points; returns all verdicts.
fn judge_simulated(points: usize, change: f64, rng: &mut Rng) -> Vec<ComparedPoint> {
    let [baseline, compared] = [1.0, change].map(|true_s| simulate(points, true_s, rng));
    let pairs = baseline.into_iter().zip(compared).map(|(baseline, compared)| {
        let values = RoundValues { baseline: vec![baseline], compared };
        (ComparedPoint::default(), values, Better::Less)
    });
    judge_all(pairs.collect())
}

fn count(points: &[ComparedPoint], verdict: PointVerdict) -> usize {
    points.iter().filter(|point| point.verdict == verdict).count()
}

#[test]
fn campaigns_of_the_same_are_seldom_told_apart() {
    let mut rng = Rng::with_seed(1);
    for points in [1, 6, 24] {
        let judged: Vec<_> =
            (0..CAMPAIGNS).map(|_| judge_simulated(points, 1.0, &mut rng)).collect();
        let wrong = |points: &Vec<ComparedPoint>| {
            count(points, PointVerdict::Faster) + count(points, PointVerdict::Slower) > 0
        };
        let wrong = judged.iter().filter(|points| wrong(points)).count();
        assert!(wrong <= CAMPAIGNS / 20, "{points} points: {wrong}");
    }
}

#[test]
fn a_difference_of_5_percent_is_found_where_there_is_a_verdict() {
    let mut rng = Rng::with_seed(2);
    let judged: Vec<_> = (0..CAMPAIGNS).flat_map(|_| judge_simulated(1, 1.05, &mut rng)).collect();
    let [slower, inconclusive] =
        [PointVerdict::Slower, PointVerdict::Inconclusive].map(|verdict| count(&judged, verdict));
    let conclusive = CAMPAIGNS - inconclusive;
    assert!(10 * slower >= 9 * conclusive, "{slower} of {conclusive}");
    // A tool that never decides would pass as well.
    assert!(2 * conclusive >= CAMPAIGNS, "{conclusive}");
    for point in judged.iter().filter(|point| point.verdict == PointVerdict::Inconclusive) {
        assert!(point.more_rounds.is_some_and(|more| more > 0));
    }
}

#[test]
fn quiet_campaigns_have_verdicts() {
    let compare = |baseline: Vec<f64>, compared: Vec<f64>, better| {
        let values = RoundValues { baseline: vec![baseline], compared };
        judge_all(vec![(ComparedPoint::default(), values, better)]).remove(0)
    };
    let quiet = |level: f64| -> Vec<f64> {
        (0..8).map(|round| level * (1.0 + 0.001 * f64::from(round % 3))).collect()
    };
    assert_eq!(compare(quiet(1.0), quiet(1.0), Better::Less).verdict, PointVerdict::Same);
    assert_eq!(compare(quiet(1.0), quiet(1.1), Better::Less).verdict, PointVerdict::Slower);
    assert_eq!(compare(quiet(1.0), quiet(1.1), Better::More).verdict, PointVerdict::Faster);
    assert_eq!(compare(quiet(1.0), quiet(0.9), Better::Less).verdict, PointVerdict::Faster);
    let few = compare(quiet(1.0), quiet(1.0)[..2].to_vec(), Better::Less);
    assert_eq!((few.verdict, few.more_rounds), (PointVerdict::Inconclusive, Some(4)));
    let constant = compare(vec![1.0; 8], vec![1.0; 8], Better::Less);
    assert_eq!((constant.verdict, constant.ratio), (PointVerdict::Same, Some(1.0)));
    let zero = compare(vec![0.0; 8], vec![1.0; 8], Better::Less);
    assert_eq!((zero.verdict, zero.ratio), (PointVerdict::Inconclusive, None));
}

#[test]
fn an_outlier_among_baselines_does_not_poison_the_comparison() {
    let quiet = |level: f64| -> Vec<f64> {
        (0..8).map(|round| level * (1.0 + 0.001 * f64::from(round % 3))).collect()
    };
    let values = RoundValues {
        baseline: vec![quiet(1.0), quiet(1.003), quiet(1.5), quiet(0.998), quiet(1.001)],
        compared: quiet(1.002),
    };
    let point = judge_all(vec![(ComparedPoint::default(), values, Better::Less)]).remove(0);
    assert!((point.ratio.unwrap() - 1.0).abs() < 0.005, "{point:?}");
    assert_ne!(point.verdict, PointVerdict::Faster);
}

#[test]
fn equal_programs_of_two_speeds_or_a_coarse_clock_are_seldom_told_apart() {
    type Draw = fn(&mut Rng) -> f64;
    let draws: [Draw; 4] = [
        |rng| if rng.f64() < 0.4 { 1.4 } else { 1.0 },
        |rng| (if rng.f64() < 0.5 { 1.4 } else { 1.0 }) * (1.0 + 0.001 * normal(rng)),
        |rng| (100.0 * (0.03 + 0.01 * rng.f64())).round() / 100.0,
        |rng| 1.0 + rng.f64().powi(8),
    ];
    let mut rng = Rng::with_seed(3);
    for (number, draw) in draws.into_iter().enumerate() {
        for rounds in [4, 6, 8, 15] {
            let wrong = (0..200).filter(|_| {
                let points = (0..8).map(|_| {
                    let [baseline, compared] =
                        [(); 2].map(|()| (0..rounds).map(|_| draw(&mut rng)).collect());
                    let values = RoundValues { baseline: vec![baseline], compared };
                    (ComparedPoint::default(), values, Better::Less)
                });
                let judged = judge_all(points.collect());
                count(&judged, PointVerdict::Faster) + count(&judged, PointVerdict::Slower) > 0
            });
            let wrong = wrong.count();
            assert!(wrong <= 10, "{number}, {rounds} rounds: {wrong} of 200");
        }
    }
}

#[test]
fn too_few_rounds_bear_no_verdict() {
    for (rounds, verdict) in [
        (2, PointVerdict::Inconclusive),
        (4, PointVerdict::Inconclusive),
        (5, PointVerdict::Inconclusive),
        (6, PointVerdict::Slower),
    ] {
        let values = RoundValues { baseline: vec![vec![1.0; rounds]], compared: vec![1.4; rounds] };
        let point = (ComparedPoint::default(), values, Better::Less);
        assert_eq!(judge_all(vec![point])[0].verdict, verdict, "{rounds}");
    }
}

#[test]
fn many_points_that_are_clearly_slower_are_told_with_six_rounds() {
    let side =
        |times: f64| (0..6).map(|round| times * (1.0 + 0.01 * f64::from(round % 3))).collect();
    let pairs = (0..20).map(|_| {
        let values = RoundValues { baseline: vec![side(1.0)], compared: side(3.0) };
        let point = ComparedPoint::default();
        (point, values, Better::Less)
    });
    let judged = judge_all(pairs.collect());
    assert_eq!(count(&judged, PointVerdict::Slower), 20);
}
