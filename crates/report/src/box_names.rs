//! Names beside the boxes of a slice, where there are boxes of several names.

use crate::encode::shortened;
use std::collections::BTreeSet;

/// Height of a name, and about what a letter takes, in units of the picture.
pub(crate) const FONT_SIZE: f64 = 11.0;
const LETTER: f64 = 6.2;
/// More names than this hide what they are beside.
const MOST_NAMES: usize = 16;

/// A name and the left end of its baseline.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlacedName {
    pub(crate) text: String,
    pub(crate) at: [f64; 2],
}

/// Where names go that are written above their boxes, inside a panel and not over each other. `boxes` are the names of
/// a slice's boxes and the polygons that they make in it; `corner` and `size` are the panel's. Of two boxes of one name
/// the last has it.
///
/// There are none where all boxes have one name, or too many do.
pub(crate) fn placed_names(
    boxes: &[(&str, Vec<[f64; 2]>)],
    corner: [f64; 2],
    size: [f64; 2],
) -> Vec<Option<PlacedName>> {
    let mut placed: Vec<Option<PlacedName>> = vec![None; boxes.len()];
    let names: BTreeSet<&str> = boxes.iter().map(|(name, _)| *name).collect();
    if !(2..=MOST_NAMES).contains(&names.len()) {
        return placed;
    }
    let mut taken: Vec<[f64; 4]> = Vec::new();
    for (n, (name, polygon)) in boxes.iter().enumerate() {
        let is_last = boxes[n + 1..].iter().all(|(other, _)| other != name);
        if !is_last || polygon.is_empty() {
            continue;
        }
        let text = shortened(name);
        let width = LETTER * text.chars().count() as f64;
        let least = |axis: usize| polygon.iter().map(|p| p[axis]).fold(f64::INFINITY, f64::min);
        let x = least(0).min(corner[0] + size[0] - width).max(corner[0] + 2.0);
        let mut y = (least(1) - 3.0).max(corner[1] + FONT_SIZE);
        let overlaps = |y: f64| {
            taken.iter().any(|[left, right, top, bottom]| {
                x < *right && x + width > *left && y - FONT_SIZE < *bottom && y > *top
            })
        };
        while overlaps(y) && y + FONT_SIZE < corner[1] + size[1] {
            y += 1.0;
        }
        taken.push([x, x + width, y - FONT_SIZE, y]);
        placed[n] = Some(PlacedName { text, at: [x, y] });
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    const PANEL: ([f64; 2], [f64; 2]) = ([100.0, 50.0], [264.0, 264.0]);

    fn square(x: f64, y: f64) -> Vec<[f64; 2]> {
        vec![[x, y], [x + 30.0, y], [x + 30.0, y + 30.0], [x, y + 30.0]]
    }

    fn of(boxes: &[(&str, Vec<[f64; 2]>)]) -> Vec<Option<PlacedName>> {
        placed_names(boxes, PANEL.0, PANEL.1)
    }

    #[test]
    fn several_names_stand_above_their_boxes() {
        let names = of(&[("L1", square(150.0, 100.0)), ("L2", square(150.0, 150.0))]);
        let at: Vec<_> = names.iter().flatten().map(|name| name.at).collect();
        assert_eq!(at, [[150.0, 97.0], [150.0, 147.0]]);
    }

    #[test]
    fn one_name_and_a_crowd_have_none() {
        assert_eq!(of(&[("L1", square(150.0, 100.0)), ("L1", square(151.0, 100.0))]), [None, None]);
        let crowd: Vec<String> = (0..=MOST_NAMES).map(|n| n.to_string()).collect();
        let crowd: Vec<_> = crowd.iter().map(|name| (&name[..], square(150.0, 100.0))).collect();
        assert!(of(&crowd).iter().all(Option::is_none));
    }

    #[test]
    fn a_name_is_written_once_beside_the_last_box_of_it() {
        let two = square(150.0, 150.0);
        let names = of(&[("L1", square(150.0, 100.0)), ("L2", two), ("L1", square(152.0, 103.0))]);
        assert_eq!(names[0], None);
        assert_eq!(names[2].as_ref().unwrap().at, [152.0, 100.0]);
    }

    #[test]
    fn names_stay_in_the_panel_and_apart() {
        let at_the_edge = || square(355.0, 40.0);
        let names = of(&[
            ("left kidney", at_the_edge()),
            ("right kidney", at_the_edge()),
            ("nowhere", Vec::new()),
        ]);
        assert_eq!(names[2], None);
        let [first, second] = [0, 1].map(|n| names[n].clone().unwrap());
        assert!(second.at[1] >= first.at[1] + FONT_SIZE, "{first:?} {second:?}");
        for name in [first, second] {
            let width = LETTER * name.text.len() as f64;
            assert!(name.at[0] + width <= PANEL.0[0] + PANEL.1[0], "{name:?}");
            assert!(name.at[1] - FONT_SIZE >= PANEL.0[1], "{name:?}");
        }
    }
}
