//! `--shard i/n`: one of the equal parts that a batch is divided into.

use std::fmt;
use std::str::FromStr;

/// One of the equal parts that a batch is divided into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Which part, from 1.
    number: usize,
    /// How many parts there are.
    of: usize,
}

impl Shard {
    /// Whether the case at this index of the whole list belongs to the part. Neighbours go to
    /// different parts, so that a folder that begins with large images burdens all parts alike.
    pub fn has(self, index: usize) -> bool {
        index % self.of == self.number - 1
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, of) = text.split_once('/').ok_or("expected i/n, as in 1/4")?;
        let parse = |text: &str| {
            text.parse::<usize>()
                .map_err(|_| format!("`{text}` is no number; expected i/n, as in 1/4"))
        };
        let shard = Self { number: parse(number)?, of: parse(of)? };
        if (1..=shard.of).contains(&shard.number) {
            Ok(shard)
        } else {
            Err(format!("i must be from 1 to n, here 1 to {}", shard.of))
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_share_the_cases_out() {
        for of in 1..6 {
            let shards: Vec<Shard> =
                (1..=of).map(|i| format!("{i}/{of}").parse().unwrap()).collect();
            for index in 0..20 {
                assert_eq!(shards.iter().filter(|s| s.has(index)).count(), 1);
            }
        }
        for wrong in ["", "1", "0/3", "4/3", "1/0", "a/b", "-1/2", "1/2/3"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
