//! What the tests on a device share.

use pbt_gpu::Gpu;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// What is expected of a device.
pub(crate) const WORKS: &str = "the device works";

/// The device, or `None` where there is none and none is asked for.
pub(crate) fn gpu() -> Option<Gpu> {
    match Gpu::open(0) {
        Ok(gpu) => Some(gpu),
        Err(error) if std::env::var("PBT_REQUIRE_GPU").is_ok_and(|v| v == "1") => panic!("{error}"),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

/// Another seed every time, for results must agree exactly on whatever is drawn; the variable
/// `PBT_TEST_SEED` replays one that was printed.
pub(crate) fn fresh_rng() -> ChaCha8Rng {
    let seed = match std::env::var("PBT_TEST_SEED") {
        Ok(seed) => seed.parse().expect("PBT_TEST_SEED is a whole number"),
        Err(_) => std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |t| t.as_nanos() as u64),
    };
    println!("PBT_TEST_SEED={seed}");
    ChaCha8Rng::seed_from_u64(seed)
}
