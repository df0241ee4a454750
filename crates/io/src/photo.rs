//! 2D images without a scale: PNG, JPEG and TIFF. A pixel is a voxel of a slice in the plane z = 0:
//! x to the right, y downwards, in pixels. Resolutions in such files are those of a print or a screen
//! and say nothing of the object.

use crate::IoError;
use crate::loaded::Loaded;
use crate::memory_plan::MemoryPlan;
use crate::raw::{RawImage, VoxelType};
use crate::regular_file::{FileKind, read_file};
use crate::stored::Volumes;
use image::metadata::Orientation;
use image::{ColorType, DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits};
use pbt_volume::Geometry;
use std::io::Cursor;
use std::path::{Path, PathBuf};

/// What a user can do about a file that cannot be decoded.
const REPAIR: &str = "save it again as PNG";

/// A 2D image whose header was read and whose pixels were not.
pub(crate) struct Photo {
    path: PathBuf,
    bytes: Vec<u8>,
    format: ImageFormat,
    color: ColorType,
    geometry: Geometry,
    warnings: Vec<String>,
}

impl Photo {
    pub(crate) fn open(path: &Path, volumes: Volumes) -> Result<Self, IoError> {
        let bytes = read_file(path, FileKind::Image)?;
        let bad = |field: &str, what: String| IoError::input(path, field, what, REPAIR);
        if let Volumes::One(Some(frame @ 1..)) = volumes {
            return Err(IoError::input(
                path,
                "frame",
                format!("there is no frame {frame}: this is a single image"),
                "leave out --frame",
            ));
        }
        let format = match image::guess_format(&bytes) {
            Ok(format @ (ImageFormat::Png | ImageFormat::Jpeg | ImageFormat::Tiff)) => format,
            _ => return Err(bad("file", "is neither PNG nor JPEG nor TIFF".into())),
        };
        if format == ImageFormat::Tiff && has_more_pages(&bytes) {
            let what = "has several pages".to_owned();
            return Err(IoError::input(path, "pages", what, "save one page as a file of its own"));
        }
        if format == ImageFormat::Jpeg && is_cut_jpeg(&bytes) {
            let what =
                "have no end of image: the file is cut, or was written without one".to_owned();
            return Err(IoError::input(path, "pixels", what, "copy it again, or save it as PNG"));
        }
        let mut decoder = decoder(&bytes, format).map_err(|e| bad("header", e.to_string()))?;
        let ((width, height), color) = (decoder.dimensions(), decoder.color_type());
        let mut warnings = Vec::new();
        if decoder.orientation().is_ok_and(|turn| turn != Orientation::NoTransforms) {
            warnings.push(
                "orientation: viewers turn this image; pixels count as they are stored".to_owned(),
            );
        }
        if matches!(color, ColorType::Rgb32F | ColorType::Rgba32F) {
            return Err(bad("colour", "pixels are floating-point colours".into()));
        }
        let geometry = Geometry::isotropic([width as usize, height as usize, 1], 1.0)
            .map_err(|e| bad("size", e.to_string()))?;
        drop(decoder);
        Ok(Self { path: path.to_path_buf(), bytes, format, color, geometry, warnings })
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Bytes of a grey value.
    fn depth(&self) -> u64 {
        u64::from(self.color.bytes_per_pixel() / self.color.channel_count())
    }

    pub(crate) fn plan(&self) -> MemoryPlan {
        let voxels = self.geometry.len() as u64;
        // The pixels as they are decoded, and once more on the way to grey.
        let decoded = voxels.saturating_mul(2 * u64::from(self.color.bytes_per_pixel()));
        MemoryPlan {
            voxels,
            stored: voxels * self.depth(),
            beside: decoded.saturating_add(self.bytes.len() as u64),
        }
    }

    pub(crate) fn sha256(&self) -> String {
        pbt_volume::sha256_hex(&[&self.bytes])
    }

    /// Number of colours, without transparency: 3 or 1.
    pub(crate) fn colours(&self) -> usize {
        if self.color.has_color() { 3 } else { 1 }
    }

    /// Red, green and blue, each as an image of grey values.
    pub(crate) fn load_colours(self) -> Result<(Vec<RawImage>, Vec<String>), IoError> {
        let bad = |what: String| IoError::input(&self.path, "pixels", what, REPAIR);
        let decoder = decoder(&self.bytes, self.format).map_err(|e| bad(e.to_string()))?;
        let image = DynamicImage::from_decoder(decoder).map_err(|e| bad(e.to_string()))?;
        let (voxel_type, bytes): (_, Vec<u8>) = if self.depth() > 1 {
            let values = image.into_rgb16().into_raw();
            (VoxelType::U16, values.iter().flat_map(|value| value.to_le_bytes()).collect())
        } else {
            (VoxelType::U8, image.into_rgb8().into_raw())
        };
        let colour = |n: usize| {
            let size = voxel_type.size();
            let own = bytes.chunks_exact(3 * size).flat_map(|pixel| &pixel[n * size..][..size]);
            let raw =
                RawImage::new(self.geometry.clone(), voxel_type, own.copied().collect(), None);
            raw.ok_or_else(|| bad("are not as many as the header says".into()))
        };
        let colours = (0..3).map(colour).collect::<Result<_, _>>()?;
        Ok((colours, self.warnings))
    }

    /// The pixels; colours as their luma (ITU-R BT.709).
    pub(crate) fn load(self) -> Result<Loaded, IoError> {
        let bad = |what: String| IoError::input(&self.path, "pixels", what, REPAIR);
        let decoder = decoder(&self.bytes, self.format).map_err(|e| bad(e.to_string()))?;
        let image = DynamicImage::from_decoder(decoder).map_err(|e| bad(e.to_string()))?;
        let sha256 = self.sha256();
        let mut warnings = self.warnings;
        if is_coloured(&image) {
            warnings.push("colour: turned to grey".to_owned());
        }
        let (voxel_type, bytes) =
            if image.color().bytes_per_pixel() / image.color().channel_count() > 1 {
                let grey = image.into_luma16().into_raw();
                (VoxelType::U16, grey.iter().flat_map(|value| value.to_le_bytes()).collect())
            } else {
                (VoxelType::U8, image.into_luma8().into_raw())
            };
        let raw = RawImage::new(self.geometry, voxel_type, bytes, None).ok_or_else(|| {
            IoError::input(&self.path, "pixels", "are not as many as the header says", REPAIR)
        })?;
        Ok(Loaded { raw, sha256, warnings })
    }
}

/// Whether some pixel is not grey.
fn is_coloured(image: &DynamicImage) -> bool {
    let grey = |pixel: &[u8; 3]| pixel[0] == pixel[1] && pixel[1] == pixel[2];
    match image {
        DynamicImage::ImageRgb8(image) => !image.pixels().all(|pixel| grey(&pixel.0)),
        DynamicImage::ImageRgba8(image) => {
            !image.pixels().all(|image::Rgba([r, g, b, _])| grey(&[*r, *g, *b]))
        }
        other => other.color().has_color(),
    }
}

/// A decoder that allocates no more than the pixels take, and something to work with.
fn decoder(bytes: &[u8], format: ImageFormat) -> Result<impl ImageDecoder + '_, image::ImageError> {
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    // What the pixels take is held against the memory that there is, before they are decoded.
    reader.limits(Limits::no_limits());
    reader.into_decoder()
}

/// Whether a JPEG file has no end of image (ITU-T T.81, annex B.1.1). Its decoder makes what is missing
/// grey.
fn is_cut_jpeg(bytes: &[u8]) -> bool {
    // Of what is in a scan, FF 00 is a value, and FF D0 to FF D7 begin it anew.
    let is_marker = |pair: &[u8]| pair[0] == 0xff && !matches!(pair[1], 0x00 | 0xd0..=0xd7 | 0xff);
    let mut rest = bytes.get(2..).unwrap_or_default();
    while let Some(at) = rest.windows(2).position(is_marker) {
        let (marker, after) = (rest[at + 1], &rest[at + 2..]);
        let length = match (marker, after) {
            (0xd9, _) => return false,
            (0x01 | 0xd8, _) => 0,
            (_, [high, low, ..]) => usize::from(u16::from_be_bytes([*high, *low])),
            _ => return true,
        };
        rest = after.get(length..).unwrap_or_default();
    }
    true
}

/// Whether a TIFF file has a second directory of an image.
fn has_more_pages(bytes: &[u8]) -> bool {
    let big_endian = bytes.starts_with(b"MM");
    let number = |at: usize, size: usize| -> Option<usize> {
        let part = bytes.get(at..at.checked_add(size)?)?;
        let digits = part.iter().map(|&byte| usize::from(byte));
        let add = |value: usize, byte: usize| value << 8 | byte;
        Some(if big_endian { digits.fold(0, add) } else { digits.rev().fold(0, add) })
    };
    let next = || {
        if number(2, 2)? != 42 {
            return None;
        }
        let first = number(4, 4)?;
        let entries = number(first, 2)?;
        number(first + 2 + 12 * entries, 4)
    };
    next().is_some_and(|next| next != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::{GrayImage, ImageBuffer, Luma, Rgb, RgbImage};
    use pbt_volume::LengthUnit;

    fn saved(name: &str, image: DynamicImage) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        image.save(&path).unwrap();
        (folder, path)
    }

    #[test]
    fn a_cut_jpeg_is_refused_wherever_it_is_cut() {
        let grey = GrayImage::from_fn(70, 50, |x, y| Luma([(x * y % 251) as u8]));
        let (folder, path) = saved("a.jpg", grey.into());
        let whole = std::fs::read(&path).unwrap();
        assert!(crate::read_image(&path).is_ok());
        let cut = folder.path().join("cut.jpg");
        for length in (3..whole.len()).step_by(7).chain([whole.len() - 1]) {
            std::fs::write(&cut, &whole[..length]).unwrap();
            let error = crate::read_image(&cut).unwrap_err().to_string();
            assert!(error.contains("cut.jpg: "), "{length}: {error}");
        }
        // What follows the image does not count.
        std::fs::write(&cut, [&whole[..], b"more"].concat()).unwrap();
        assert!(crate::read_image(&cut).is_ok());
    }

    #[test]
    fn pixels_are_voxels_of_a_slice() {
        let grey = GrayImage::from_fn(7, 5, |x, y| Luma([(x * 30 + y) as u8]));
        for name in ["a.png", "a.tif", "A.TIFF"] {
            let (_folder, path) = saved(name, grey.clone().into());
            let image = crate::read_image(&path).unwrap();
            assert!(
                image.unit == LengthUnit::Pixels && image.warnings.is_empty(),
                "{:?}",
                image.warnings
            );
            assert_eq!(image.volume.geometry(), &Geometry::isotropic([7, 5, 1], 1.0).unwrap());
            assert_eq!(image.volume.at(3, 4, 0), 94.0);
        }
        // A JPEG is not exact.
        let (_folder, path) = saved("a.jpeg", GrayImage::from_pixel(16, 16, Luma([200])).into());
        let image = crate::read_image(&path).unwrap();
        assert!(image.volume.numbers().data().iter().all(|v| (v - 200.0).abs() <= 2.0));
        // 16 bits stay 16 bits.
        let wide = ImageBuffer::from_fn(4, 4, |x, y| Luma([(x * 9000 + y) as u16]));
        let (_folder, path) = saved("a.png", DynamicImage::ImageLuma16(wide));
        assert_eq!(crate::read_image(&path).unwrap().volume.at(3, 1, 0), 27001.0);
    }

    #[test]
    fn colours_become_grey_and_say_so() {
        let color = RgbImage::from_pixel(6, 6, Rgb([255, 0, 0]));
        let (_folder, path) = saved("a.png", color.into());
        let image = crate::read_image(&path).unwrap();
        assert_eq!(image.warnings, ["colour: turned to grey"]);
        // The luma of pure red, ITU-R BT.709.
        assert!((image.volume.at(0, 0, 0) - 0.2126 * 255.0).abs() <= 1.0);
        let grey = RgbImage::from_fn(6, 6, |x, _| Rgb([x as u8; 3]));
        let (_folder, path) = saved("a.png", grey.into());
        let image = crate::read_image(&path).unwrap();
        assert!(image.warnings.is_empty() && image.volume.at(5, 0, 0) == 5.0);
    }

    #[test]
    fn colours_may_be_channels() {
        let options = |names: &[&str]| crate::ReadOptions {
            channels: names.iter().map(|name| (*name).to_owned()).collect(),
            ..Default::default()
        };
        let colour = RgbImage::from_fn(5, 4, |x, y| Rgb([x as u8, 100 + y as u8, 200]));
        let wide = ImageBuffer::from_fn(5, 4, |x, y| Rgb([x as u16, 100 + y as u16, 60_000]));
        for (image, blue) in [(colour.into(), 200.0), (DynamicImage::ImageRgb16(wide), 60_000.0)] {
            let (_folder, path) = saved("a.png", image);
            let read = |names: &[&str]| crate::read_image_with(&path, &options(names));
            let image = read(&["r", "g", "b"]).unwrap();
            assert!(
                image.unit == LengthUnit::Pixels && image.warnings.is_empty(),
                "{:?}",
                image.warnings
            );
            let values: Vec<f32> = image.channels().iter().map(|c| c.at(3, 2, 0)).collect();
            assert_eq!(values, [3.0, 102.0, blue]);
            let error = read(&["x", "y"]).unwrap_err().to_string();
            assert!(error.contains("channels: has 3 channels; 2, `x`, `y`, are needed"), "{error}");
        }
        let (_folder, path) = saved("a.png", GrayImage::new(5, 4).into());
        let error = crate::read_image_with(&path, &options(&["r", "g", "b"])).unwrap_err();
        assert_eq!(error.field(), "channel `g`", "{error}");
    }

    #[test]
    fn what_is_no_single_image_is_refused() {
        let (folder, path) = saved("a.tif", GrayImage::new(6, 6).into());
        let whole = std::fs::read(&path).unwrap();
        let first = u32::from_le_bytes(whole[4..8].try_into().unwrap()) as usize;
        let entries = u16::from_le_bytes(whole[first..first + 2].try_into().unwrap()) as usize;
        let mut pages = whole.clone();
        pages[first + 2 + 12 * entries] = 8;
        let refused = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            crate::read_image(&path).unwrap_err().to_string()
        };
        assert!(refused("b.tif", &pages).contains("pages: has several pages"));
        assert!(refused("c.png", b"no picture at all").contains("is neither PNG"));
        let (_folder, png) = saved("a.png", GrayImage::new(60, 60).into());
        let png = std::fs::read(&png).unwrap();
        assert!(refused("d.png", &png[..png.len() / 2]).contains("d.png: "));
        assert!(refused("e.jpg", &[0xff, 0xd8, 0xff]).contains("e.jpg: "));
    }
}
