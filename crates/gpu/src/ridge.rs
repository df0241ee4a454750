//! Ridge regression: the twin of `gram.rs` and `cholesky.rs` of `pbt-linear`.

use crate::constants::{PANEL_ROWS, PRODUCTS, RIDGE_THREADS};
use crate::device::{Context, GpuError, blocks_of, launch, module};
use cudarc::driver::{CudaFunction, CudaSlice, LaunchConfig};
use pbt_linear::SUMS;
use pbt_linear::cholesky::PANEL;

/// The kernels of `ridge.cu`.
pub(crate) struct RidgeKernels {
    products: CudaFunction,
    add_to_diagonal: CudaFunction,
    update: CudaFunction,
    square: CudaFunction,
    below: CudaFunction,
    substitute: CudaFunction,
}

impl RidgeKernels {
    pub(crate) fn load(device: &Context) -> Result<Self, GpuError> {
        let module = module!(device, "ridge")?;
        Ok(Self {
            products: module.load_function("ridge_products")?,
            add_to_diagonal: module.load_function("ridge_add_to_diagonal")?,
            update: module.load_function("ridge_update")?,
            square: module.load_function("ridge_square")?,
            below: module.load_function("ridge_below")?,
            substitute: module.load_function("ridge_substitute")?,
        })
    }

    /// The matrix of inner products of so many vectors, which are one after another; zeros above the diagonal.
    pub(crate) fn products(
        &self,
        device: &Context,
        vectors: &CudaSlice<i16>,
        count: usize,
    ) -> Result<CudaSlice<f64>, GpuError> {
        let length = vectors.len() / count;
        let mut matrix = device.zeros::<f64>(count * count)?;
        let rows = count.div_ceil(PRODUCTS);
        let config = blocks(rows * (rows + 1) / 2, RIDGE_THREADS);
        let (kernel, count, length) = (&self.products, count as u32, length as u32);
        launch!(device, kernel, config, vectors, &count, &length, &mut matrix)?;
        Ok(matrix)
    }

    /// Cholesky's factor of a matrix of so many rows, with a ridge added to its diagonal, in its place.
    pub(crate) fn factorise(
        &self,
        device: &Context,
        matrix: &mut CudaSlice<f64>,
        count: usize,
        ridge: f64,
    ) -> Result<(), GpuError> {
        let rows = count as u32;
        launch!(
            device,
            &self.add_to_diagonal,
            blocks_of(RIDGE_THREADS, count),
            &mut *matrix,
            &rows,
            &ridge
        )?;
        for first in (0..count).step_by(PANEL) {
            let (start, end) = (first as u32, (first + PANEL).min(count));
            if first > 0 {
                let config = blocks((count - first).div_ceil(PANEL_ROWS), RIDGE_THREADS);
                launch!(device, &self.update, config, &mut *matrix, &rows, &start)?;
            }
            let config = blocks(1, PANEL as u32 * SUMS as u32);
            launch!(device, &self.square, config, &mut *matrix, &rows, &start)?;
            if end < count {
                let config =
                    blocks((count - end).div_ceil(PANEL_ROWS), PANEL_ROWS as u32 * SUMS as u32);
                launch!(device, &self.below, config, &mut *matrix, &rows, &start)?;
            }
        }
        Ok(())
    }

    /// Solves for right sides, one after another in `sides`, by the factor of a matrix of so many rows; the
    /// solutions take their place.
    pub(crate) fn substitute(
        &self,
        device: &Context,
        factor: &CudaSlice<f64>,
        count: usize,
        sides: &mut CudaSlice<f64>,
    ) -> Result<(), GpuError> {
        let mut sums = device.zeros::<f64>(sides.len() * SUMS)?;
        let (config, rows) = (blocks(sides.len() / count, RIDGE_THREADS), count as u32);
        launch!(device, &self.substitute, config, factor, &rows, &mut *sides, &mut sums)
    }

    /// As [`Backend::ridge_solutions`](pbt_tree::Backend::ridge_solutions). Where the device is full the host
    /// solves.
    pub(crate) fn solutions(
        &self,
        device: &Context,
        vectors: (&[i16], usize),
        ridges: &[f64],
        right: &[Vec<f64>],
    ) -> Result<Vec<Vec<Vec<f64>>>, GpuError> {
        match self.on_device(device, vectors, ridges, right) {
            Err(GpuError::OutOfMemory { .. }) => Ok(pbt_linear::solutions(vectors, ridges, right)),
            solved => solved,
        }
    }

    fn on_device(
        &self,
        device: &Context,
        (vectors, length): (&[i16], usize),
        ridges: &[f64],
        right: &[Vec<f64>],
    ) -> Result<Vec<Vec<Vec<f64>>>, GpuError> {
        let count = vectors.len() / length;
        if count == 0 || right.is_empty() {
            return Ok(vec![right.to_vec(); ridges.len()]);
        }
        let products = self.products(device, &device.upload(vectors)?, count)?;
        let solve = |&ridge: &f64| {
            // SAFETY: all of it is copied.
            let mut matrix = unsafe { device.alloc::<f64>(products.len()) }?;
            device.stream.memcpy_dtod(&products, &mut matrix)?;
            self.factorise(device, &mut matrix, count, ridge)?;
            let mut sides = device.upload(&right.concat())?;
            self.substitute(device, &matrix, count, &mut sides)?;
            let mut found = vec![0.0; sides.len()];
            device.read(&sides, &mut found)?;
            Ok(found.chunks_exact(count).map(<[f64]>::to_vec).collect())
        };
        ridges.iter().map(solve).collect()
    }
}

fn blocks(count: usize, threads: u32) -> LaunchConfig {
    LaunchConfig { grid_dim: (count as u32, 1, 1), block_dim: (threads, 1, 1), shared_mem_bytes: 0 }
}
