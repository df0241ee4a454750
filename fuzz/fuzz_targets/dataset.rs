//! Data sets and results.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let path = pbt_fuzz::file("dataset.json", bytes);
    let _ = pbt_io::Dataset::load_with_faults(&path);
    let _ = pbt_io::read_result(&path);
});
