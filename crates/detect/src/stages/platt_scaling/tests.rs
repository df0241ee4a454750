use super::*;

/// So many samples at each raw value, as many of them positive as a logistic curve says.
fn drawn_from(slope: f64, intercept: f64) -> Vec<(f64, bool)> {
    const EACH: usize = 200;
    let at = |x: f64| {
        let probability = 1.0 / (1.0 + libm::exp(-(slope * x + intercept)));
        let positives = libm::round(probability * EACH as f64) as usize;
        (0..EACH).map(move |n| (x, n < positives))
    };
    (-20..=20).flat_map(|n| at(f64::from(n) * 0.15)).collect()
}

#[test]
fn a_known_curve_is_recovered() {
    for (slope, intercept) in [(1.0, 0.0), (1.7, 0.6), (0.4, -1.2)] {
        let samples = drawn_from(slope, intercept);
        let fitted = Calibration::fit(&samples);
        // Both classes weigh the same, which shifts the curve by the logarithm of their ratio.
        let positives = samples.iter().filter(|s| s.1).count() as f64;
        let shift = libm::log((samples.len() as f64 - positives) / positives);
        assert!((fitted.slope / slope - 1.0).abs() < 0.02, "{slope}: {fitted:?}");
        assert!((fitted.intercept - intercept - shift).abs() < 0.03, "{intercept}: {fitted:?}");
        let half = -fitted.intercept / fitted.slope;
        assert!((fitted.probability(half) - 0.5).abs() < 1e-12);
    }
}

#[test]
fn separable_data_stay_finite() {
    for gap in [1e-3, 1.0, 2.0, 3.0, 8.0, 50.0, 1e3] {
        let samples: Vec<(f64, bool)> =
            (0..10).map(|n| (gap * (f64::from(n) - 4.5), n > 4)).collect();
        let fitted = Calibration::fit(&samples);
        assert!(
            fitted.slope.is_finite() && fitted.slope > 0.0 && fitted.intercept.is_finite(),
            "{gap}: {fitted:?}"
        );
        // Neither class is believed to be certain: Platt's targets of five samples are 6/7 and 1/7.
        let mean = |label| {
            let own = samples.iter().filter(|s| s.1 == label);
            own.map(|s| fitted.probability(s.0)).sum::<f64>() / 5.0
        };
        assert!(mean(true) < 0.9 && mean(false) > 0.1, "{gap}: {fitted:?}");
        assert!(fitted.probability(gap) > fitted.probability(-gap), "{gap}: {fitted:?}");
    }
}

#[test]
fn upside_down_ranks_say_nothing() {
    let samples: Vec<(f64, bool)> =
        drawn_from(1.3, 0.0).into_iter().map(|(x, label)| (x, !label)).collect();
    let fitted = Calibration::fit(&samples);
    assert_eq!(fitted.slope, 0.0);
    assert!((fitted.probability(5.0) - 0.5).abs() < 0.01, "{fitted:?}");
}

#[test]
fn upside_down_ranks_beside_the_middle_say_nothing_either() {
    let samples: Vec<(f64, bool)> =
        drawn_from(1.3, 0.0).into_iter().map(|(x, label)| (x + 7.0, !label)).collect();
    assert!((Calibration::fit(&samples).probability(7.0) - 0.5).abs() < 0.01);
}

#[test]
fn one_class_alone_changes_nothing() {
    let none = Calibration { slope: 1.0, intercept: 0.0 };
    assert_eq!(Calibration::fit(&[]), none);
    assert_eq!(Calibration::fit(&[(3.0, true), (-1.0, true)]), none);
}
