//! Whole trainings, through the public interface, on images that are drawn. One program, since each would compile all of
//! the training again.

mod device_errors;
mod instances_beside_others;
mod odd_data;
mod search_regions;
mod side_by_side;
mod support;
