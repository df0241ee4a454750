//! Log-odds that classifiers give.

/// Log-odds beyond this tell no more: classifiers are surest of what they were trained on.
pub(crate) const SUREST: f64 = 5.0;

/// Log-odds as far as they are believed.
pub(crate) fn believed(log_odds: f64) -> f64 {
    log_odds.clamp(-SUREST, SUREST)
}
