//! Images: the first byte chooses the format, the rest is the file.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((first, bytes)) = input.split_first() else { return };
    let names = ["a.nii", "a.nii.gz", "a.mha", "a.nrrd", "a.dcm", "a.zip"];
    let path = pbt_fuzz::file(names[usize::from(*first) % names.len()], bytes);
    let _ = pbt_io::read_image(&path);
    let _ = pbt_io::list_series(&path);
});
