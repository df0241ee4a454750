//! Images in two steps: the header, which says what the voxels will take, and then the voxels. All
//! images of `pbt` come in by this door.

use crate::IoError;
use crate::channels::{self, Channels};
use crate::loaded::{Loaded, ReadOptions};
use crate::open_file::OpenFile;
use crate::read_image::{Image, no_label};
use crate::stored::Volumes;
use pbt_volume::{Geometry, Volume, check_memory};
use std::path::Path;

/// An image of which the header was read and checked, and no voxel yet; of an image of several
/// channels the headers of all of them.
pub struct OpenImage {
    /// Of several channels the file of the first.
    file: OpenFile,
    channels: Channels,
}

impl OpenImage {
    /// Reads the header of an image, of any format that [`crate::read_image`] takes.
    ///
    /// # Errors
    /// [`IoError`] (an input error) when a file cannot be read, its header is damaged or asks for
    /// more than the file can hold, it is not one 3D volume of real numbers, or does not say where
    /// its voxels lie in the patient; and when a channel that `options` name is not there.
    pub fn open(path: &Path, options: &ReadOptions) -> Result<Self, IoError> {
        if options.channels.len() > 1 {
            let (file, channels) = channels::open(path, options)?;
            return Ok(Self { file, channels });
        }
        if let Some(extra) = options.further.first() {
            let problem = "is one file too many: the image has one channel";
            return Err(IoError::input(extra, "channel", problem, "give one file"));
        }
        let file = OpenFile::open(path, options, Volumes::One(options.frame))?;
        Ok(Self { file, channels: Channels::One })
    }

    /// Shape and placement; of several channels those of the first.
    pub fn geometry(&self) -> &Geometry {
        self.file.geometry()
    }

    /// The most bytes that [`OpenImage::read`] holds at a time.
    pub fn memory_bytes(&self) -> u64 {
        self.channels.memory_bytes(&self.file)
    }

    /// The most bytes that reading one channel holds at a time where 32 bits a voxel are made of it, as of
    /// labels.
    pub fn wide_bytes(&self) -> u64 {
        self.file.plan().wide_bytes()
    }

    /// Bytes a voxel and channel of what [`OpenImage::read`] gives, at most.
    pub fn voxel_bytes(&self) -> u64 {
        self.channels.voxel_bytes(&self.file)
    }

    /// Whether [`OpenImage::read`] may take what it needs.
    pub(crate) fn check_memory(&self) -> Result<(), IoError> {
        self.check(self.memory_bytes())
    }

    fn check(&self, bytes: u64) -> Result<(), IoError> {
        check_memory(bytes).map_err(|error| IoError::memory(self.file.path(), &error))
    }

    /// The image as real values.
    ///
    /// # Errors
    /// [`IoError`] (an input error) when there is no memory for it, or the voxels are damaged.
    pub fn read(self) -> Result<Image, IoError> {
        self.check_memory()?;
        let unit = self.file.unit();
        let image = match self.channels {
            Channels::One => {
                let path = self.file.path().to_path_buf();
                let Loaded { raw, sha256, warnings } = self.file.load()?;
                let volume = raw.into_real().map_err(|error| IoError::memory(&path, &error))?;
                Image::new(volume, sha256, warnings)
            }
            several => {
                let (volumes, warnings) = channels::read(self.file, several)?;
                Image::of_channels(volumes, warnings)
            }
        };
        Ok(Image { unit, ..image })
    }

    /// The image with the voxel type of its file.
    ///
    /// # Errors
    /// As [`OpenImage::read`], and when it has several channels.
    pub fn read_raw(self) -> Result<Loaded, IoError> {
        self.check_one_channel()?;
        self.check(self.file.plan().raw_bytes())?;
        let unit = self.file.unit();
        let mut loaded = self.file.load()?;
        if !unit.is_mm() {
            loaded.warnings.push("spacing: the file has no scale; a pixel counts as 1 mm".into());
        }
        Ok(loaded)
    }

    /// The image as labels of up to 32 bits, and its warnings.
    ///
    /// # Errors
    /// As [`OpenImage::read_raw`], and when a voxel is not an integer from 0 to 2³² − 1.
    pub fn read_labels(self) -> Result<(Volume<u32>, Vec<String>), IoError> {
        let path = self.file.path().to_path_buf();
        let Loaded { raw, warnings, .. } = self.load()?;
        let labels = raw.to_wide_labels().map_err(|value| no_label(&path, value, u32::MAX))?;
        Ok((labels, warnings))
    }

    /// The image as labels of up to 16 bits.
    ///
    /// # Errors
    /// As [`OpenImage::read_raw`], and when a voxel is not an integer from 0 to 65535.
    pub(crate) fn read_narrow_labels(self) -> Result<Volume<u16>, IoError> {
        let path = self.file.path().to_path_buf();
        let Loaded { raw, .. } = self.load()?;
        raw.to_labels().map_err(|value| no_label(&path, value, u16::MAX.into()))
    }

    /// The hash that [`Image::sha256`] has, without the voxels where they are not needed for it.
    ///
    /// # Errors
    /// As [`OpenImage::read`].
    pub fn sha256(self) -> Result<String, IoError> {
        match self.channels {
            Channels::One => self.file.sha256(),
            Channels::InFile(_) | Channels::InFiles { .. } => Ok(self.read()?.sha256),
        }
    }

    /// The only channel as its file holds it, where there is memory to make a volume of it.
    pub(crate) fn load(self) -> Result<Loaded, IoError> {
        self.check_one_channel()?;
        self.check_memory()?;
        self.file.load()
    }

    /// Refuses several channels where one volume is needed.
    fn check_one_channel(&self) -> Result<(), IoError> {
        match &self.channels {
            Channels::One => Ok(()),
            Channels::InFile(_) | Channels::InFiles { .. } => Err(IoError::input(
                self.file.path(),
                "channel",
                "the image has several; one is needed here",
                "give the file of one channel",
            )),
        }
    }
}
