//! Images of several channels: the volumes of a 4D file, the colours of a photograph, or a file each,
//! named in a list or as nnU-Net names them: `CASE_0000.nii.gz`, `CASE_0001.nii.gz`, ….

use crate::file_names::{EXTENSIONS, extension};
use crate::loaded::ReadOptions;
use crate::open_file::OpenFile;
use crate::stored::Volumes;
use crate::{IoError, Loaded};
use pbt_volume::{Geometry, Plane, RealVolume, VoxelIndex};
use std::path::{Path, PathBuf};

/// What ends the name of nnU-Net's file of the first channel.
const FIRST: &str = "_0000";

/// Where the channels of an image lie.
pub(crate) enum Channels {
    /// There is one.
    One,
    /// So many, one after the other in one file.
    InFile(usize),
    /// The first in the image's own file, the others in files of their own; and their names.
    InFiles { first: String, further: Vec<(String, OpenFile)> },
}

impl Channels {
    /// The most bytes that reading all of them holds at a time, of which `file` is the image's own.
    pub(crate) fn memory_bytes(&self, file: &OpenFile) -> u64 {
        match self {
            Self::One => file.plan().image_bytes(),
            Self::InFile(count) => file.plan().times(*count as u64).image_bytes(),
            Self::InFiles { further, .. } => {
                further.iter().fold(file.plan().image_bytes(), |all, (_, file)| {
                    all.saturating_add(file.plan().image_bytes())
                })
            }
        }
    }

    /// Bytes a voxel of the channel that has most.
    pub(crate) fn voxel_bytes(&self, file: &OpenFile) -> u64 {
        let own = file.plan().read_bytes();
        match self {
            Self::One | Self::InFile(_) => own,
            Self::InFiles { further, .. } => {
                further.iter().fold(own, |most, (_, file)| most.max(file.plan().read_bytes()))
            }
        }
    }
}

/// Opens an image of the channels that `options` name.
pub(crate) fn open(path: &Path, options: &ReadOptions) -> Result<(OpenFile, Channels), IoError> {
    let names = &options.channels;
    let in_order = || names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let missing = |n: usize, problem: String| {
        let advice =
            format!("give a file of each channel, in the order {}, or one 4D file", in_order());
        IoError::input(path, format!("channel `{}`", names[n]), problem, advice)
    };
    let mut files = options.further.clone();
    if files.is_empty() {
        let volumes = match options.frame {
            None => Volumes::All,
            Some(frame) => Volumes::One(Some(frame)),
        };
        let image = OpenFile::open(path, options, volumes)?;
        let count = if options.frame.is_some() { 1 } else { image.volumes() };
        if count == names.len() {
            return Ok((image, Channels::InFile(names.len())));
        }
        files = match channel_files(path, names.len()) {
            Some(siblings) if count == 1 => siblings,
            _ if count > names.len() => {
                let problem =
                    format!("has {count} channels; {}, {}, are needed", names.len(), in_order());
                return Err(IoError::input(path, "channels", problem, "take the others out"));
            }
            _ => {
                let has =
                    if count == 1 { "one channel".to_owned() } else { format!("{count} channels") };
                return Err(missing(count, format!("is missing: the file has {has}")));
            }
        };
    }
    if files.len() + 1 < names.len() {
        let problem = format!("is missing: {} of {} files are given", files.len() + 1, names.len());
        return Err(missing(files.len() + 1, problem));
    }
    if let Some(extra) = files.get(names.len() - 1) {
        let problem = format!("is one file too many: the channels are {}", in_order());
        return Err(IoError::input(extra, "channel", problem, "leave it out"));
    }
    let opened = |path: &Path| OpenFile::open(path, options, Volumes::One(options.frame));
    let first = opened(path).map_err(|e| e.of_channel(&names[0]))?;
    let further = |(name, file): (&String, &PathBuf)| {
        let image = opened(file).map_err(|e| e.of_channel(name))?;
        check_place(file, name, image.geometry(), first.geometry())?;
        Ok((name.clone(), image))
    };
    let further = names[1..].iter().zip(&files).map(further).collect::<Result<_, IoError>>()?;
    Ok((first, Channels::InFiles { first: names[0].clone(), further }))
}

/// nnU-Net's files of the channels after the first, of which so many are wanted, where the file of
/// the first is named as one. They need not exist.
pub fn channel_files(path: &Path, channels: usize) -> Option<Vec<PathBuf>> {
    let name = path.file_name()?.to_str()?;
    let ending = name.len() - extension(path, &EXTENSIONS)?.len() - 1;
    let case = name[..ending].strip_suffix(FIRST)?;
    let sibling = |n: usize| path.with_file_name(format!("{case}_{n:04}{}", &name[ending..]));
    Some((1..channels).map(sibling).collect())
}

/// A channel may have a grid of its own, and is resampled then; but it must show the same place.
fn check_place(path: &Path, name: &str, own: &Geometry, first: &Geometry) -> Result<(), IoError> {
    let wrong = |problem: &str, advice: &str| {
        Err(IoError::input(path, format!("channel `{name}`"), problem, advice))
    };
    if own.is_same_grid(first) {
        return Ok(());
    }
    if Plane::of(first).is_some() || Plane::of(own).is_some() {
        let problem = "lies on another grid than the first channel of this 2D image";
        return wrong(problem, "bring all channels to the same pixels");
    }
    if covered(own, first) == 0.0 {
        let problem = "shows another place than the first channel: they do not overlap";
        return wrong(problem, "give channels of one scan, registered to each other");
    }
    Ok(())
}

/// Which share of points all over one grid lies inside another.
fn covered(by: &Geometry, grid: &Geometry) -> f64 {
    const ACROSS: usize = 12;
    let at = |a: usize, n: usize| n as f64 / (ACROSS - 1) as f64 * (grid.shape()[a] - 1) as f64;
    let count = (0..ACROSS.pow(3))
        .filter(|n| {
            let [i, j, k] = [n % ACROSS, n / ACROSS % ACROSS, n / ACROSS / ACROSS];
            let point = grid.to_lps(VoxelIndex::new(at(0, i), at(1, j), at(2, k)));
            !by.is_outside(point)
        })
        .count();
    count as f64 / ACROSS.pow(3) as f64
}

/// Reads the voxels of all channels, and warnings.
pub(crate) fn read(
    file: OpenFile,
    channels: Channels,
) -> Result<(Vec<RealVolume>, Vec<String>), IoError> {
    let path = file.path().to_path_buf();
    let memory = |error| IoError::memory(&path, &error);
    let (mut volumes, mut warnings): (Vec<RealVolume>, Vec<String>);
    match channels {
        Channels::One | Channels::InFile(_) => {
            let (all, of_file) = file.load_all()?;
            volumes = all
                .into_iter()
                .map(|raw| raw.into_real().map_err(memory))
                .collect::<Result<_, _>>()?;
            warnings = of_file;
        }
        Channels::InFiles { first, further } => {
            (volumes, warnings) = (Vec::new(), Vec::new());
            let grid = file.geometry().clone();
            for (name, file) in std::iter::once((first, file)).chain(further) {
                let Loaded { raw, warnings: own, .. } =
                    file.load().map_err(|e| e.of_channel(&name))?;
                warnings.extend(own.into_iter().map(|text| format!("channel `{name}`: {text}")));
                warnings.extend(about_grid(&name, raw.geometry(), &grid));
                let volume = raw.into_real().map_err(memory)?;
                // Files that differ by the rounding of their affines alone have one grid.
                volumes.push(match volume.geometry().is_same_grid(&grid) {
                    true => volume.on(grid.clone()),
                    false => volume,
                });
            }
        }
    }
    Ok((volumes, warnings))
}

/// What a user should know of a channel with a grid of its own.
fn about_grid(name: &str, own: &Geometry, first: &Geometry) -> Option<String> {
    if own.is_same_grid(first) {
        return None;
    }
    let share = covered(own, first);
    let part = if share < 1.0 {
        format!("; it covers {:.0} % of it, and what lies beyond is filled up", 100.0 * share)
    } else {
        String::new()
    };
    Some(format!("channel `{name}`: is resampled to the grid of the first{part}"))
}
