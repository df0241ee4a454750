//! Models.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = pbt_detect::Model::from_bytes(bytes);
});
