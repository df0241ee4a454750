//! What names of structures may be, and how many a file may have.

use crate::IoError;
use crate::json::Node;
use pbt_volume::MOST_STRUCTURES;

/// What is wrong with a name that follows `before` others, and what to do.
pub(crate) fn fault(name: &str, before: usize) -> Option<(String, &'static str)> {
    if name.contains(char::is_control) {
        return Some((format!("the name `{name}` has control characters"), "rename it"));
    }
    (before >= MOST_STRUCTURES).then(|| {
        (format!("there are more than {MOST_STRUCTURES} names"), "leave out what is not searched")
    })
}

/// [`fault`] of a name in JSON.
pub(crate) fn check(node: &Node, name: &str, before: usize) -> Result<(), IoError> {
    fault(name, before).map_or(Ok(()), |(problem, remedy)| Err(node.error(problem, remedy)))
}
