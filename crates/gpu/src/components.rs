//! Connected components on the device: the twin of `pbt_volume::Components` for masks.

use crate::constants::COMPONENT_THREADS;
use crate::device::{Context, GpuError, blocks_of, launch, module};
use cudarc::driver::sys::CUfunction_attribute;
use cudarc::driver::{CudaFunction, CudaSlice, DeviceRepr, LaunchConfig};
use pbt_volume::Connectivity;

/// As many voxels and more are refused: runs and voxels have numbers of 32 bits.
const TOO_MANY_VOXELS: usize = 1 << 31;

/// The kernels of `components.cu`.
pub(crate) struct ComponentsKernels {
    pack: CudaFunction,
    starts: CudaFunction,
    count: CudaFunction,
    scan: CudaFunction,
    nodes: CudaFunction,
    tiles: CudaFunction,
    join: CudaFunction,
    flatten: CudaFunction,
    mark: CudaFunction,
    number: CudaFunction,
    labels: CudaFunction,
    labels_in_fours: CudaFunction,
}

/// `Grid` of `components.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Grid {
    shape: [i32; 3],
    words: i32,
    lines: [i32; 2],
    bundle: i32,
    corners: i32,
}

// SAFETY: plain numbers in the order and with the sizes of the kernel's structure.
unsafe impl DeviceRepr for Grid {}

/// Labels of a mask's components, on the device.
pub struct DeviceComponents {
    /// Of each voxel, i fastest: 0 in the background; components count from 1 in the order of their
    /// first voxels.
    labels: CudaSlice<u32>,
    /// Sums over blocks of the marks of components; the last one is the number of components.
    counts: CudaSlice<u32>,
}

impl Grid {
    fn new(shape: [usize; 3], connectivity: Connectivity) -> Self {
        // Beams serve 26 neighbours only: of two voxels of a beam that do not share a face or an
        // edge, one may be alone with fewer.
        let (bundle, corners) = match connectivity {
            Connectivity::Six => (1, 0),
            Connectivity::Eighteen => (1, 1),
            Connectivity::TwentySix => (2, 2),
        };
        let [nx, ny, nz] = shape;
        Self {
            shape: shape.map(|n| n as i32),
            words: nx.div_ceil(32) as i32,
            lines: [ny, nz].map(|n| n.div_ceil(bundle) as i32),
            bundle: bundle as i32,
            corners,
        }
    }

    /// Words of the bits of all rows, and of all lines.
    fn word_counts(&self) -> [usize; 2] {
        let [_, ny, nz] = self.shape;
        let count = |y: i32, z: i32| self.words as usize * y as usize * z as usize;
        [count(ny, nz), count(self.lines[0], self.lines[1])]
    }

    /// Most runs of all lines: every other voxel.
    fn most_nodes(&self) -> usize {
        (self.shape[0] as usize).div_ceil(2) * self.lines[0] as usize * self.lines[1] as usize
    }
}

/// `Tile` of `components.cu`: lines that are joined in shared memory first.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Tile([i32; 2]);

// SAFETY: as above.
unsafe impl DeviceRepr for Tile {}

/// Shared memory that the kernel of tiles uses beside the numbers of runs, with some to spare.
const STATIC_SHARED: usize = 5 << 10;

/// Bytes for the numbers of all runs that so many words may have.
fn tile_bytes(words: usize) -> usize {
    16 * size_of::<u32>() * words
}

/// Words of a tile, at most.
fn tile_words(device: &Context) -> usize {
    let most = COMPONENT_THREADS as usize;
    if tile_bytes(most) + STATIC_SHARED <= device.shared_bytes { most } else { most / 2 }
}

impl Tile {
    /// As many lines as there are threads for, along y and z alike.
    fn new(grid: &Grid, words: usize) -> Self {
        let mut tile = [1, 1];
        loop {
            let a = usize::from(tile[0] > tile[1]);
            let grows = |a: usize| {
                let lines = 2 * tile[0] * tile[1];
                tile[a] < grid.lines[a] && (lines * grid.words) as usize <= words
            };
            match [a, 1 - a].into_iter().find(|&a| grows(a)) {
                Some(a) => tile[a] *= 2,
                None => break,
            }
        }
        let this = Self(tile);
        // Blocks along y of a launch have a limit.
        if this.blocks(grid).1 > u32::from(u16::MAX) { Self([1, 1]) } else { this }
    }

    fn has_many(&self) -> bool {
        self.0 != [1, 1]
    }

    fn blocks(&self, grid: &Grid) -> (u32, u32, u32) {
        let [along_y, along_z] = [0, 1].map(|a| (grid.lines[a] as u32).div_ceil(self.0[a] as u32));
        (along_y, along_z, 1)
    }
}

fn sum_blocks(words: usize) -> LaunchConfig {
    blocks_of(COMPONENT_THREADS, words)
}

impl ComponentsKernels {
    pub(crate) fn load(device: &Context) -> Result<Self, GpuError> {
        let module = module!(device, "components")?;
        let load = |name| module.load_function(name);
        let tiles = load("components_tiles")?;
        tiles.set_attribute(
            CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
            tile_bytes(tile_words(device)) as i32,
        )?;
        Ok(Self {
            pack: load("components_pack")?,
            starts: load("components_starts")?,
            count: load("components_count")?,
            scan: load("components_scan")?,
            nodes: load("components_nodes")?,
            tiles,
            join: load("components_join")?,
            flatten: load("components_flatten")?,
            mark: load("components_mark")?,
            number: load("components_number")?,
            labels: load("components_labels")?,
            labels_in_fours: load("components_labels_in_fours")?,
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
        if shape.iter().product::<usize>() >= TOO_MANY_VOXELS {
            return Err(GpuError::TooLarge(shape));
        }
        let count: usize = shape.iter().product();
        assert_eq!(voxels.len(), count, "voxels and shape disagree");
        let grid = Grid::new(shape, connectivity);
        let [row_words, line_words] = grid.word_counts();
        let mark_words = count.div_ceil(32);
        let scanned = |words: usize| words.div_ceil(COMPONENT_THREADS as usize);
        // SAFETY: what is read of them was written by a kernel before; the marks are set to 0 below.
        let (mut bits, mut starts, mut before, mut runs) = unsafe {
            (
                device.alloc::<u32>(row_words)?,
                device.alloc::<u32>(line_words)?,
                device.alloc::<u32>(line_words)?,
                device.alloc::<u32>(scanned(line_words) + 1)?,
            )
        };
        let in_fours = i32::from(shape[0].is_multiple_of(16));
        launch!(
            device,
            &self.pack,
            blocks_of(256, row_words),
            &grid,
            voxels,
            &in_fours,
            &mut bits
        )?;
        let config = sum_blocks(line_words);
        launch!(device, &self.starts, config, &grid, &bits, &mut starts, &mut before, &mut runs)?;
        self.scan(device, &mut runs, scanned(line_words))?;
        // SAFETY: as above.
        let (mut parents, mut first_voxels) = unsafe {
            (device.alloc::<u32>(grid.most_nodes())?, device.alloc::<u32>(grid.most_nodes())?)
        };
        launch!(
            device,
            &self.nodes,
            blocks_of(256, line_words),
            &grid,
            &bits,
            &starts,
            &runs,
            &mut before,
            &mut parents,
            &mut first_voxels
        )?;
        let words = tile_words(device);
        let tile = Tile::new(&grid, words);
        if tile.has_many() {
            let config = LaunchConfig {
                grid_dim: tile.blocks(&grid),
                block_dim: (COMPONENT_THREADS, 1, 1),
                shared_mem_bytes: tile_bytes(words) as u32,
            };
            launch!(
                device,
                &self.tiles,
                config,
                &grid,
                &tile,
                &bits,
                &starts,
                &before,
                &mut parents
            )?;
        }
        let config = blocks_of(256, line_words);
        launch!(device, &self.join, config, &grid, &tile, &bits, &starts, &before, &mut parents)?;
        // How many nodes there are is known on the device only: as many threads as run at a time.
        let node_count = runs.slice(scanned(line_words)..);
        let resident = |kernel| -> Result<LaunchConfig, GpuError> {
            let blocks = device.resident_blocks(kernel, 256, 0)?;
            Ok(blocks_of(256, (256 * blocks).min(grid.most_nodes())))
        };
        let config = resident(&self.flatten)?;
        launch!(device, &self.flatten, config, &node_count, &mut parents, &mut first_voxels)?;
        // SAFETY: as above.
        let (mut marks, mut marks_before, mut counts) = unsafe {
            (
                device.alloc::<u32>(mark_words)?,
                device.alloc::<u32>(mark_words)?,
                device.alloc::<u32>(scanned(mark_words) + 1)?,
            )
        };
        device.stream.memset_zeros(&mut marks)?;
        let config = resident(&self.mark)?;
        launch!(device, &self.mark, config, &node_count, &parents, &first_voxels, &mut marks)?;
        let (config, words) = (sum_blocks(mark_words), mark_words as u32);
        launch!(device, &self.count, config, &marks, &words, &mut marks_before, &mut counts)?;
        self.scan(device, &mut counts, scanned(mark_words))?;
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
        let (kernel, each) = match shape[0] % 4 {
            0 => (&self.labels_in_fours, 4),
            _ => (&self.labels, 1),
        };
        launch!(
            device,
            kernel,
            blocks_of(256, count / each),
            &grid,
            &bits,
            &starts,
            &before,
            &parents,
            &mut labels
        )?;
        Ok(DeviceComponents { labels, counts })
    }

    fn scan(
        &self,
        device: &Context,
        values: &mut CudaSlice<u32>,
        count: usize,
    ) -> Result<(), GpuError> {
        let config = blocks_of(COMPONENT_THREADS, 1);
        launch!(device, &self.scan, config, values, &(count as u32))
    }
}

impl DeviceComponents {
    /// The label of each voxel, and the number of components.
    pub(crate) fn read(&self, device: &Context) -> Result<(Vec<u32>, u32), GpuError> {
        let mut labels = vec![0; self.labels.len()];
        let mut counts = vec![0; self.counts.len()];
        device.read(&self.labels, &mut labels)?;
        device.read(&self.counts, &mut counts)?;
        Ok((labels, counts.last().copied().unwrap_or(0)))
    }
}
