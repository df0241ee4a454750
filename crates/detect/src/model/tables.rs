//! Named tables in a safetensors file, little-endian, with every length and type checked on
//! reading.

use crate::DetectError;
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use std::collections::{BTreeSet, HashMap};

/// A number that tables hold.
pub(crate) trait Element: Copy {
    const DTYPE: Dtype;
    const BYTES: usize;
    fn push(self, bytes: &mut Vec<u8>);
    fn read(bytes: &[u8]) -> Self;
}

macro_rules! element {
    ($($t:ty => $d:ident),*) => {$(
        impl Element for $t {
            const DTYPE: Dtype = Dtype::$d;
            const BYTES: usize = size_of::<$t>();
            fn push(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }
            fn read(bytes: &[u8]) -> Self {
                let mut array = [0; size_of::<$t>()];
                array.copy_from_slice(bytes);
                <$t>::from_le_bytes(array)
            }
        }
    )*};
}
element!(u8 => U8, i16 => I16, u16 => U16, i32 => I32, u32 => U32, i64 => I64, u64 => U64, f64 => F64);

/// The key under which the card is stored: the only one, since several would come out in random
/// order.
const CARD_KEY: &str = "pbt";

/// Tables to be written.
#[derive(Default)]
pub(crate) struct TableWriter {
    tables: Vec<(String, Dtype, Vec<usize>, Vec<u8>)>,
}

impl TableWriter {
    /// Adds a table of rows of `width` numbers.
    pub(crate) fn put<T: Element>(
        &mut self,
        name: String,
        width: usize,
        values: impl IntoIterator<Item = T>,
    ) {
        let mut bytes = Vec::new();
        for value in values {
            value.push(&mut bytes);
        }
        let rows = bytes.len() / T::BYTES / width.max(1);
        self.tables.push((name, T::DTYPE, vec![rows, width], bytes));
    }

    /// The file's bytes: the same for the same tables and card.
    pub(crate) fn finish(self, card: String) -> Result<Vec<u8>, DetectError> {
        let failed = |e: safetensors::SafeTensorError| DetectError::model("tables", e.to_string());
        let views = self
            .tables
            .iter()
            .map(|(name, dtype, shape, bytes)| {
                Ok((name.as_str(), TensorView::new(*dtype, shape.clone(), bytes).map_err(failed)?))
            })
            .collect::<Result<Vec<_>, DetectError>>()?;
        safetensors::serialize(views, Some(HashMap::from([(CARD_KEY.to_owned(), card)])))
            .map_err(failed)
    }
}

/// Tables of a file, taken one by one; what is left at the end does not belong there.
pub(crate) struct TableReader<'a> {
    tensors: SafeTensors<'a>,
    left: BTreeSet<String>,
}

impl<'a> TableReader<'a> {
    /// Reads the header; the card comes beside.
    pub(crate) fn new(bytes: &'a [u8]) -> Result<(Self, String), DetectError> {
        let is_json = bytes.trim_ascii_start().starts_with(b"{");
        let failed = |e: safetensors::SafeTensorError| match is_json {
            true => DetectError::model(
                "header",
                "is JSON, not a pbt model (`pbt validate` looks at data sets)",
            ),
            false => DetectError::model(
                "header",
                format!("not a pbt model, or cut or damaged: {e} (train or copy the model again)"),
            ),
        };
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(failed)?;
        let card = header.metadata().as_ref().and_then(|m| m.get(CARD_KEY)).cloned();
        let Some(card) = card else {
            return Err(DetectError::model(
                "header",
                "a safetensors file, but not a pbt model (there is no card)",
            ));
        };
        let tensors = SafeTensors::deserialize(bytes).map_err(failed)?;
        let left = tensors.names().into_iter().map(str::to_owned).collect();
        Ok((Self { tensors, left }, card))
    }

    /// The rows of a table of this type and width.
    pub(crate) fn take<T: Element>(
        &mut self,
        name: &str,
        width: usize,
    ) -> Result<Vec<T>, DetectError> {
        let damaged = |what: String| {
            DetectError::model(
                name,
                format!("{what}; the model is damaged (train or copy it again)"),
            )
        };
        self.left.remove(name);
        let view =
            self.tensors.tensor(name).map_err(|_| damaged("the table is missing".to_owned()))?;
        if view.dtype() != T::DTYPE || view.shape().len() != 2 || view.shape()[1] != width {
            return Err(damaged(format!(
                "{:?} of {:?}, expected rows of {width} {:?}",
                view.shape(),
                view.dtype(),
                T::DTYPE
            )));
        }
        Ok(view.data().chunks_exact(T::BYTES).map(T::read).collect())
    }

    /// Checks that every table was taken.
    pub(crate) fn finish(self) -> Result<(), DetectError> {
        match self.left.first() {
            None => Ok(()),
            Some(name) => {
                Err(DetectError::model(name.as_str(), "a table that this version does not know"))
            }
        }
    }
}
