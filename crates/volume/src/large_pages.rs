//! Memory in large pages.
//!
//! A system gives memory page by page as it is touched. With pages of 4 KB that takes longer than to
//! fill them: 67 MB are 16,384 pages. Linux gives pages of 2 MB to those who ask, which `Vec` does not.

use crate::{NotEnoughMemory, check_memory};
use bytemuck::Pod;
use memmap2::MmapMut;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// Values that begin as zeros, in large pages where the system has them.
#[derive(Debug)]
pub struct LargePages<T> {
    bytes: MmapMut,
    values: PhantomData<T>,
}

impl<T: Pod> LargePages<T> {
    /// So many zeros; none of them is touched.
    ///
    /// # Errors
    /// When there is no memory for them.
    pub fn zeroed(count: usize) -> Result<Self, NotEnoughMemory> {
        let asked = (count as u64).saturating_mul(size_of::<T>() as u64);
        check_memory(asked)?;
        let refused = NotEnoughMemory { asked, limit: None };
        let bytes = usize::try_from(asked).map_err(|_| refused)?;
        let bytes = MmapMut::map_anon(bytes).map_err(|_| refused)?;
        // Whoever has no large pages has small ones.
        #[cfg(target_os = "linux")]
        let _ = bytes.advise(memmap2::Advice::HugePage);
        Ok(Self { bytes, values: PhantomData })
    }
}

impl<T: Pod> Deref for LargePages<T> {
    type Target = [T];

    /// Pages begin where any type may lie.
    fn deref(&self) -> &[T] {
        bytemuck::cast_slice(&self.bytes)
    }
}

impl<T: Pod> DerefMut for LargePages<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(&mut self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_can_be_overwritten() {
        for count in [0, 1, 3, 5000, 3 << 20] {
            let mut values = LargePages::<[u8; 3]>::zeroed(count).unwrap();
            assert_eq!(values.len(), count);
            assert!(values.iter().all(|&v| v == [0; 3]));
            values.fill([1, 2, 3]);
            assert!(values.iter().all(|&v| v == [1, 2, 3]));
        }
        assert!(LargePages::<u64>::zeroed(1 << 59).is_err());
    }
}
