//! Masks: which voxels about a box belong to its structure.
//!
//! A box that was found gives a frame in which the structure always lies alike. There boosted trees
//! label the voxels from what the image shows, where the voxel lies, and how often a label was there
//! in training (Chu et al. 2015 for vertebrae, with forests). The labels tell where the frame is
//! off; in the better one a second round of trees labels again, and sees what the first one said
//! (auto-context: Tu and Bai 2010). Landmarks that labels determine go where these say.

pub(crate) mod decision;
pub(crate) mod frame;
pub(crate) mod groups;
pub(crate) mod held_out;
pub(crate) mod labelling;
pub(crate) mod landmarks;
pub(crate) mod mean_shapes;
pub(crate) mod moments;
pub(crate) mod need;
pub(crate) mod overlap;
pub(crate) mod places;
pub(crate) mod prior;
pub(crate) mod quality;
pub(crate) mod refit;
pub(crate) mod rounds;
pub(crate) mod samples;
pub(crate) mod stage;
pub(crate) mod training;
pub(crate) mod training_frames;
