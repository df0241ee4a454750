//! Connected components on the device: the twin of `pbt_volume::Components` for masks.

use crate::constants::{COMPONENT_THREADS, ROW_LINES, TILE_WORDS, WORD_RUNS};
use crate::device::{Context, GpuError, blocks_of, launch, module};
use cudarc::driver::sys::CUfunction_attribute;
use cudarc::driver::{CudaFunction, CudaSlice, DevicePtr, DeviceRepr, LaunchConfig};
use pbt_volume::Connectivity;

/// As many voxels and more are refused: runs and voxels have numbers of 32 bits.
const TOO_MANY_VOXELS: usize = 1 << 31;

/// Words of a line that a tile takes, at most, where lines are long.
const TILE_LINE_WORDS: usize = 16;

/// Threads of a block that joins across the borders of tiles.
const BORDER_THREADS: u32 = 192;

/// The kernels of `components.cu`.
pub(crate) struct ComponentsKernels {
    /// By [`Connectivity`]: 6, 18 and 26 neighbours.
    tiles: [CudaFunction; 3],
    borders: [CudaFunction; 3],
    ends: [CudaFunction; 3],
    flatten: CudaFunction,
    mark: CudaFunction,
    count: CudaFunction,
    scan: CudaFunction,
    number: CudaFunction,
    /// Of rows and of beams, a voxel or four at a time.
    labels: [[CudaFunction; 2]; 2],
}

/// `Grid` of `lines.cuh`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Grid {
    shape: [i32; 3],
    words: i32,
    word_runs: i32,
    lines: [i32; 2],
    tile: [i32; 3],
    tiles: [i32; 2],
}

// SAFETY: plain numbers in the order and with the sizes of the kernel's structure.
unsafe impl DeviceRepr for Grid {}

/// `Nodes` of `components.cu`: addresses.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Nodes {
    starts: u64,
    before: u64,
    run_nodes: u64,
    parents: u64,
}

// SAFETY: as above.
unsafe impl DeviceRepr for Nodes {}

/// Labels of a mask's components, on the device.
pub struct DeviceComponents {
    /// Of each voxel, i fastest: 0 in the background; components count from 1 in the order of their
    /// first voxels.
    labels: CudaSlice<u32>,
    /// Sums over blocks of the marks of components; the last one is the number of components.
    counts: CudaSlice<u32>,
}

/// # Errors
/// [`GpuError::TooLarge`] where so many voxels have no numbers.
pub(crate) fn refuse_too_large(shape: [usize; 3], voxels: usize) -> Result<(), GpuError> {
    if voxels >= TOO_MANY_VOXELS { Err(GpuError::TooLarge(shape)) } else { Ok(()) }
}

/// Rows of a line along y and along z. Beams serve 26 neighbours only: of two voxels of a beam that
/// do not share a face or an edge, one may be alone with fewer.
fn bundle(connectivity: Connectivity) -> usize {
    if connectivity == Connectivity::TwentySix { 2 } else { 1 }
}

impl Grid {
    /// Tiles of at most so many words.
    fn new(shape: [usize; 3], bundle: usize, tile_words: usize) -> Self {
        let [nx, ny, nz] = shape;
        let (words, lines) = (nx.div_ceil(32), [ny, nz].map(|n| n.div_ceil(bundle)));
        let tiles_x = words.div_ceil(TILE_LINE_WORDS).max(1);
        let tile_x = words.div_ceil(tiles_x).max(1);
        let room = tile_words / tile_x;
        // As few tiles as possible, and then the most square ones.
        let of = |tile_y: usize| [tile_y, (room / tile_y).min(lines[1]).max(1)];
        let cost = |tile: &[usize; 2]| {
            let count: usize = (0..2).map(|a| lines[a].div_ceil(tile[a])).product();
            (count, tile[0] + tile[1])
        };
        let tile = (1..=room.min(lines[0].max(1))).map(of).min_by_key(cost).unwrap_or([1, 1]);
        Self {
            shape: shape.map(|n| n as i32),
            words: words as i32,
            word_runs: nx.min(32).div_ceil(2).max(1) as i32,
            lines: lines.map(|n| n as i32),
            tile: [tile_x, tile[0], tile[1]].map(|n| n as i32),
            tiles: [tiles_x, lines[0].div_ceil(tile[0])].map(|n| n as i32),
        }
    }

    fn lines(&self) -> usize {
        self.lines[0] as usize * self.lines[1] as usize
    }

    /// Words of all lines.
    fn line_words(&self) -> usize {
        self.words as usize * self.lines()
    }

    /// All tiles.
    fn tile_count(&self) -> usize {
        let along_z = (self.lines[1] as usize).div_ceil(self.tile[2] as usize);
        self.tiles[0] as usize * self.tiles[1] as usize * along_z
    }

    /// Words of a tile that lie at its borders along y and z.
    fn border_words(&self) -> usize {
        let [x, y, z] = self.tile.map(|n| n as usize);
        x * (y + y.min(2) * (z - 1))
    }
}

/// Shared memory that the kernel of tiles uses beside the numbers of runs, with some to spare.
const STATIC_SHARED: usize = 26 << 10;

/// Bytes for the numbers of all runs that so many words may have.
fn tile_bytes(words: usize, word_runs: usize) -> usize {
    word_runs * size_of::<u32>() * words
}

/// Words of a tile, at most: a thread each.
fn tile_words(device: &Context) -> usize {
    if tile_bytes(TILE_WORDS, WORD_RUNS) + STATIC_SHARED <= device.shared_bytes {
        TILE_WORDS
    } else {
        TILE_WORDS / 2
    }
}

impl ComponentsKernels {
    pub(crate) fn load(device: &Context) -> Result<Self, GpuError> {
        let module = module!(device, "components")?;
        let load = |name: &str| module.load_function(name);
        let by_connectivity = |stem: &str| -> Result<[CudaFunction; 3], GpuError> {
            Ok([
                load(&format!("{stem}_6"))?,
                load(&format!("{stem}_18"))?,
                load(&format!("{stem}_26"))?,
            ])
        };
        let tiles = by_connectivity("components_tiles")?;
        for kernel in &tiles {
            kernel.set_attribute(
                CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                tile_bytes(tile_words(device), WORD_RUNS) as i32,
            )?;
        }
        Ok(Self {
            tiles,
            borders: by_connectivity("components_borders")?,
            ends: by_connectivity("components_ends")?,
            flatten: load("components_flatten")?,
            mark: load("components_mark")?,
            count: load("components_count")?,
            scan: load("components_scan")?,
            number: load("components_number")?,
            labels: [
                [load("components_labels_1_1")?, load("components_labels_1_4")?],
                [load("components_labels_2_1")?, load("components_labels_2_4")?],
            ],
        })
    }

    /// The components of the voxels that are not 0.
    pub(crate) fn components(
        &self,
        device: &Context,
        voxels: &CudaSlice<u8>,
        shape: [usize; 3],
        connectivity: Connectivity,
    ) -> Result<DeviceComponents, GpuError> {
        let count: usize = shape.iter().product();
        refuse_too_large(shape, count)?;
        assert_eq!(voxels.len(), count, "voxels and shape disagree");
        let which = match connectivity {
            Connectivity::Six => 0,
            Connectivity::Eighteen => 1,
            Connectivity::TwentySix => 2,
        };
        let bundle = bundle(connectivity);
        let threads = tile_words(device);
        let grid = Grid::new(shape, bundle, threads);
        let (words, tiles) = (grid.line_words(), grid.tile_count());
        let word_runs = grid.word_runs as usize;
        let most_runs = tiles * threads * word_runs;
        // SAFETY: what is read of them was written by a kernel before, or is set to 0 below.
        let (mut bits, mut starts, mut before, mut run_nodes) = unsafe {
            (
                device.alloc::<u32>(words * bundle * bundle)?,
                device.alloc::<u32>(words)?,
                device.alloc::<u32>(words)?,
                device.alloc::<u32>(most_runs)?,
            )
        };
        let most_nodes = words * word_runs;
        // SAFETY: as above. Marks are read four words at a time.
        let (mut parents, mut first_voxels, mut marks, mut node_count) = unsafe {
            (
                device.alloc::<u32>(most_nodes)?,
                device.alloc::<u32>(most_nodes)?,
                device.alloc::<u32>(words * bundle * bundle + 3)?,
                device.alloc::<u32>(1)?,
            )
        };
        device.stream.memset_zeros(&mut node_count)?;
        let config = LaunchConfig {
            grid_dim: (tiles as u32, 1, 1),
            block_dim: (threads as u32, 1, 1),
            shared_mem_bytes: tile_bytes(threads, word_runs) as u32,
        };
        launch!(
            device,
            &self.tiles[which],
            config,
            &grid,
            voxels,
            &i32::from(shape[0].is_multiple_of(16)),
            &mut bits,
            &mut starts,
            &mut before,
            &mut run_nodes,
            &mut parents,
            &mut first_voxels,
            &mut marks,
            &mut node_count
        )?;
        let stream = &device.stream;
        let nodes = Nodes {
            starts: starts.device_ptr(stream).0,
            before: before.device_ptr(stream).0,
            run_nodes: run_nodes.device_ptr(stream).0,
            parents: parents.device_ptr(stream).0,
        };
        let parts = grid.border_words().div_ceil(BORDER_THREADS as usize);
        let config = LaunchConfig {
            grid_dim: (tiles as u32, parts as u32, 1),
            block_dim: (BORDER_THREADS, 1, 1),
            shared_mem_bytes: 0,
        };
        launch!(device, &self.borders[which], config, &grid, &bits, &nodes)?;
        if grid.tiles[0] > 1 {
            let config = blocks_of(128, grid.lines() * (grid.tiles[0] as usize - 1));
            launch!(device, &self.ends[which], config, &grid, &bits, &nodes)?;
        }
        // How many nodes there are is known on the device only: as many threads as run at a time.
        let resident = |kernel| -> Result<LaunchConfig, GpuError> {
            let blocks = device.resident_blocks(kernel, 256, 0)?;
            Ok(blocks_of(256, (256 * blocks).min(most_nodes)))
        };
        let config = resident(&self.flatten)?;
        launch!(device, &self.flatten, config, &node_count, &mut parents, &mut first_voxels)?;
        let config = resident(&self.mark)?;
        launch!(device, &self.mark, config, &node_count, &parents, &first_voxels, &mut marks)?;
        let (marks_before, counts) = self.count(device, &marks, count)?;
        launch!(
            device,
            &self.number,
            resident(&self.number)?,
            &node_count,
            &first_voxels,
            &marks,
            &marks_before,
            &counts,
            &mut parents
        )?;
        // SAFETY: the kernel writes all of them.
        let mut labels = unsafe { device.alloc::<u32>(count) }?;
        let in_fours = shape[0].is_multiple_of(4);
        let kernel = &self.labels[bundle - 1][usize::from(in_fours)];
        let in_row = if in_fours { shape[0] / 4 } else { shape[0] };
        let lines = if bundle == 1 { grid.lines().div_ceil(ROW_LINES) } else { grid.lines() };
        launch!(
            device,
            kernel,
            blocks_of(256, lines * in_row),
            &grid,
            &bits,
            &starts,
            &before,
            &run_nodes,
            &parents,
            &mut labels
        )?;
        Ok(DeviceComponents { labels, counts })
    }

    /// How many of the marks of so many voxels come before each group of four words within its block,
    /// and before each block; the last number is that of all. There are marks up to a whole group.
    pub(crate) fn count(
        &self,
        device: &Context,
        marks: &CudaSlice<u32>,
        voxels: usize,
    ) -> Result<(CudaSlice<u32>, CudaSlice<u32>), GpuError> {
        let groups = voxels.div_ceil(128);
        let blocks = groups.div_ceil(COMPONENT_THREADS as usize);
        // SAFETY: the kernels write all of them.
        let (mut before, mut counts) =
            unsafe { (device.alloc::<u32>(groups)?, device.alloc::<u32>(blocks + 1)?) };
        let config = blocks_of(COMPONENT_THREADS, groups);
        launch!(device, &self.count, config, marks, &(groups as u32), &mut before, &mut counts)?;
        let config = blocks_of(COMPONENT_THREADS, 1);
        launch!(device, &self.scan, config, &mut counts, &(blocks as u32))?;
        Ok((before, counts))
    }
}

impl DeviceComponents {
    pub(crate) fn new(labels: CudaSlice<u32>, counts: CudaSlice<u32>) -> Self {
        Self { labels, counts }
    }

    /// The label of each voxel, and the number of components.
    pub(crate) fn read(&self, device: &Context) -> Result<(Vec<u32>, u32), GpuError> {
        let mut labels = vec![0; self.labels.len()];
        let mut counts = vec![0; self.counts.len()];
        device.read(&self.labels, &mut labels)?;
        device.read(&self.counts, &mut counts)?;
        Ok((labels, counts.last().copied().unwrap_or(0)))
    }
}
