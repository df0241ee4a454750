//! How many bytes something takes.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A sum of bytes that several threads add to.
#[derive(Debug, Default)]
pub struct Meter(AtomicUsize);

impl Meter {
    /// None.
    pub const fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// So many more.
    pub fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many fewer, which were added before.
    pub fn remove(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// How many they are.
    pub fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
