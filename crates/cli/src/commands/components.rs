//! `pbt components`

mod table;

use super::image_output::{check_format, refuse_another_image, refuse_same, warn_of_rounding};
use crate::Failure;
use crate::args::{Components as Arguments, Global};
use crate::output::{Written, refuse_another_kind, say};
use pbt_io::{IoError, OpenImage, RawImage, ReadOptions, VoxelType, check_writable, write_image};
use pbt_volume::{
    Components, ComponentsError, Geometry, Joining, NotEnoughMemory, TOO_MANY_VOXELS, Volume,
    check_memory, try_zeroed,
};
use std::path::Path;
use std::process::ExitCode;
use table::Columns;

pub(super) fn run(args: &Arguments, global: &Global) -> Result<ExitCode, Failure> {
    check_outputs(args)?;
    let memory = |error: NotEnoughMemory| Failure::from(IoError::memory(&args.input, &error));
    let (labels, image) = read(args, global)?;
    let intensity = image.as_ref().zip(args.step);
    let joining = Joining { same_label: args.labels, intensity };
    let mut components =
        Components::new(&labels, |label| label != 0, args.connectivity.into(), joining).map_err(
            |error| match error {
                ComponentsError::TooLarge(shape) => too_large(&args.input, shape),
                ComponentsError::Memory(error) => memory(error),
            },
        )?;
    let all = components.len();
    if let Some(least_mm3) = args.min_mm3 {
        components.keep_from_mm3(least_mm3).map_err(memory)?;
    }
    if let Some(count) = args.largest {
        components.keep_largest(count as usize).map_err(memory)?;
    }
    write_image(&args.output, &label_map(&components).map_err(memory)?)?;
    warn_of_rounding(&args.output, labels.geometry(), global.quiet);
    if let Some(path) = &args.table {
        let columns = Columns {
            voxel_mm3: components.voxel_mm3(),
            values: args.labels.then_some(&labels),
            with_intensity: image.is_some(),
        };
        columns.write(path, &components.statistics(image.as_ref()).map_err(memory)?)?;
    }
    say(global.quiet, summary(&args.input, all, components.len()));
    Ok(ExitCode::SUCCESS)
}

/// Before anything is read: no output may be another file of the command, or be out of reach.
fn check_outputs(args: &Arguments) -> Result<(), Failure> {
    check_format(&args.output)?;
    refuse_same(&args.output, "OUT", &args.input, "the input itself, or has its file of voxels")?;
    if let Some(image) = &args.intensity {
        refuse_same(&args.output, "OUT", image, "the image of --intensity")?;
    }
    if let Some(table) = &args.table {
        refuse_same(table, "--table", &args.input, "the input itself, or has its file of voxels")?;
        refuse_same(table, "--table", &args.output, "OUT, too")?;
        if let Some(image) = &args.intensity {
            refuse_same(table, "--table", image, "the image of --intensity")?;
        }
        refuse_another_kind(table, Written::Components)?;
        check_writable(table)?;
    }
    refuse_another_image(&args.output)?;
    Ok(check_writable(&args.output)?)
}

/// The labels and the intensities. Both headers are read before any voxel, so that what does not fit
/// together or into memory is told at once.
fn read(args: &Arguments, global: &Global) -> Result<(Volume<u32>, Option<Volume<f32>>), Failure> {
    let labels = OpenImage::open(&args.input, &args.volume.options())?;
    let geometry = labels.geometry();
    if geometry.len() >= TOO_MANY_VOXELS {
        return Err(too_large(&args.input, geometry.shape()));
    }
    let image = match &args.intensity {
        Some(path) => Some((path, open_on_grid(path, geometry, &args.input)?)),
        None => None,
    };
    let beside = image.as_ref().map_or(0, |(_, image)| image.wide_bytes());
    check_memory(labels.wide_bytes().saturating_add(beside))
        .map_err(|error| IoError::memory(&args.input, &error))?;
    let warn = |path: &Path, warnings: &[String]| {
        for warning in warnings {
            say(global.quiet, format_args!("warning: {}: {warning}", path.display()));
        }
    };
    let (labels, warnings) = labels.read_labels()?;
    warn(&args.input, &warnings);
    let Some((path, image)) = image else { return Ok((labels, None)) };
    let image = image.read()?;
    warn(path, &image.warnings);
    Ok((labels, Some(image.volume.numbers())))
}

fn too_large(path: &Path, [i, j, k]: [usize; 3]) -> Failure {
    let what = format!("{i} x {j} x {k} are 2^31 voxels or more");
    Failure::input(path, format!("shape: {what} (crop or downsample the image)"))
}

/// The header of an image that must be on the labels' grid.
fn open_on_grid(path: &Path, grid: &Geometry, labels: &Path) -> Result<OpenImage, Failure> {
    let image = OpenImage::open(path, &ReadOptions::default())?;
    if image.geometry().is_same_grid(grid) {
        return Ok(image);
    }
    let (here, there, labels) = (image.geometry(), grid, labels.display());
    let what = format!("grid: {here}, where {labels} has {there}");
    Err(Failure::input(path, format!("{what} (bring both to one grid)")))
}

/// The components as an image of their grid, in as many bits as their number needs.
fn label_map(components: &Components) -> Result<RawImage, NotEnoughMemory> {
    let (voxel_type, bytes) = match components.len() {
        0..=0xff => (VoxelType::U8, voxels(components, |label| label as u8)?),
        0x100..=0xffff => {
            let voxels = voxels(components, |label| (label as u16).to_le_bytes())?;
            (VoxelType::U16, voxels.into_flattened())
        }
        _ => (VoxelType::U32, voxels(components, u32::to_le_bytes)?.into_flattened()),
    };
    let image = RawImage::new(components.geometry().clone(), voxel_type, bytes, None);
    Ok(image.expect("a label a voxel"))
}

fn voxels<L: Copy + Default + Send>(
    components: &Components,
    of_label: impl Fn(u32) -> L + Sync,
) -> Result<Vec<L>, NotEnoughMemory> {
    let mut voxels = try_zeroed(components.geometry().len())?;
    components.fill(&mut voxels, of_label);
    Ok(voxels)
}

fn summary(input: &Path, all: usize, kept: usize) -> String {
    let input = input.display();
    match (all, kept) {
        (0, _) => {
            format!("warning: {input}: voxel data: all voxels are 0, so there is no component")
        }
        (_, 0) => format!("warning: {input}: no component of {all} is as large as --min-mm3 says"),
        _ if kept < all => format!("{kept} of {} kept", counted(all)),
        _ => counted(all),
    }
}

fn counted(count: usize) -> String {
    format!("{count} component{}", if count == 1 { "" } else { "s" })
}
