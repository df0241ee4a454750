//! Times the reading of images: `load N PATH...` reads each N times and prints the least and the
//! median milliseconds, voxels as `f32`. `benches/peers/load.sh` runs it beside SimpleITK and
//! nibabel.

use std::path::PathBuf;
use std::time::Instant;

fn main() {
    let mut arguments = std::env::args_os().skip(1);
    let times: usize = arguments
        .next()
        .and_then(|n| n.to_str()?.parse().ok())
        .filter(|&n| n > 0)
        .expect("usage: load N PATH...");
    for path in arguments.map(PathBuf::from) {
        let mut milliseconds: Vec<f64> = (0..times)
            .map(|_| {
                let started = Instant::now();
                let image = pbt_io::read_image(&path).unwrap_or_else(|error| panic!("{error}"));
                assert!(!image.volume.numbers().data().is_empty());
                started.elapsed().as_secs_f64() * 1e3
            })
            .collect();
        milliseconds.sort_by(f64::total_cmp);
        println!(
            "pbt {}: least {:.0} ms, median {:.0} ms",
            path.display(),
            milliseconds[0],
            milliseconds[times / 2]
        );
    }
}
