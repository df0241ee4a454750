//! What a phantom imitates, and how it is made.

/// What a phantom imitates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhantomModality {
    /// A head with skull, jaw, ear bones and neck beside a table, in Hounsfield units.
    Ct,
    /// A bent grey structure, as a hippocampus, in textured white matter with a bias field, in
    /// units that differ by case.
    Mr,
    /// A gland with capsule, cyst and a calcification that casts a shadow, in speckle inside a
    /// fan-shaped field of view, 0 to 255.
    Ultrasound,
}

impl PhantomModality {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Ct, Self::Mr, Self::Ultrasound];

    /// The modality as `dataset.json` writes it: `CT`, `MR` or `US`.
    pub fn modality(self) -> &'static str {
        match self {
            Self::Ct => "CT",
            Self::Mr => "MR",
            Self::Ultrasound => "US",
        }
    }

    /// Name of the structure that [`crate::Phantom::pose`] encloses.
    pub fn structure(self) -> &'static str {
        match self {
            Self::Ct => "skull",
            Self::Mr => "hippocampus",
            Self::Ultrasound => "gland",
        }
    }
}

/// How phantoms are made; [`PhantomSettings::new`] gives good values for a modality.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PhantomSettings {
    /// Edge of the cubic field of view in voxels of `spacing_mm`.
    pub voxels: usize,
    /// Spacing of a plain grid, mm.
    pub spacing_mm: f64,
    /// Orientation uniform over all rotations; otherwise at most `max_tilt_deg` from the LPS axes.
    pub any_orientation: bool,
    /// Largest rotation from the LPS axes in degrees when `any_orientation` is false.
    pub max_tilt_deg: f64,
    /// Largest distance from the middle of the field of view to the middle of the structure's
    /// frame, mm.
    pub max_shift_mm: f64,
    /// Number of neighbours that look a little like the structure.
    pub distractors: usize,
    /// Strength of the noise; 1 is usual for the modality, 0 is none.
    pub noise: f64,
    /// Share of cases, 0 to 1, whose grid is oblique, anisotropic and mirrored at random; the
    /// others are plain LPS grids.
    pub oblique_share: f64,
}

impl PhantomSettings {
    /// Good values: CT in any orientation, MR and ultrasound within 25° of the LPS axes; 64 to 76
    /// voxels a side.
    pub fn new(modality: PhantomModality) -> Self {
        let common = Self {
            voxels: 64,
            spacing_mm: 1.2,
            any_orientation: false,
            max_tilt_deg: 25.0,
            max_shift_mm: 12.0,
            distractors: 4,
            noise: 1.0,
            oblique_share: 0.3,
        };
        match modality {
            PhantomModality::Ct => Self {
                voxels: 76,
                spacing_mm: 1.7,
                any_orientation: true,
                max_shift_mm: 14.0,
                ..common
            },
            PhantomModality::Mr => common,
            PhantomModality::Ultrasound => Self { spacing_mm: 1.25, max_shift_mm: 8.0, ..common },
        }
    }
}
