//! How long the stages of a detection take.

use std::time::Instant;

/// Times of stages.
pub(super) struct Clock {
    last: Instant,
    /// Stage and milliseconds, in the order of the first stops.
    pub(super) stages: Vec<(String, f64)>,
}

impl Default for Clock {
    fn default() -> Self {
        Self { last: Instant::now(), stages: Vec::new() }
    }
}

impl Clock {
    /// Adds the time since the last stop to a stage.
    pub(super) fn stop(&mut self, stage: &str) {
        let now = Instant::now();
        let ms = (now - self.last).as_secs_f64() * 1e3;
        self.last = now;
        self.add(stage, ms);
    }

    fn add(&mut self, stage: &str, ms: f64) {
        match self.stages.iter_mut().find(|(name, _)| name == stage) {
            Some((_, sum)) => *sum += ms,
            None => self.stages.push((stage.to_owned(), ms)),
        }
    }

    /// Divides the time since the last stop among the stages of what was done side by side.
    pub(super) fn share(&mut self, clocks: &[Clock]) {
        let all = || clocks.iter().flat_map(|clock| &clock.stages);
        let sum: f64 = all().map(|(_, ms)| ms).sum();
        let now = Instant::now();
        let share = (now - self.last).as_secs_f64() * 1e3 / sum.max(f64::MIN_POSITIVE);
        self.last = now;
        all().for_each(|(stage, ms)| self.add(stage, ms * share));
    }
}
