//! Models: as they come, and with a seal that fits. What is taken for a model must detect, too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pbt_cpu::Cpu;
use pbt_detect::Model;
use pbt_volume::{Geometry, Volume};

fuzz_target!(|bytes: &[u8]| {
    let _ = Model::from_bytes(bytes);
    let Some(sealed) = pbt_fuzz::sealed(bytes) else { return };
    if let Ok(model) = Model::from_bytes(&sealed) {
        let geometry = Geometry::isotropic([20, 18, 16], 3.0).expect("a grid");
        let image = Volume::from_fn(geometry, |i, j, k| ((i * 7 + j * 5 + k * 3) % 31) as f32);
        let _ = model.detect(&Cpu, &vec![image; model.channels().len().max(1)]);
    }
});
