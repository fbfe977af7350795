//! The local matrices of a spread in the memory of the program.

use std::ops::Deref;

use super::super::stored::{LocalMemory, Order, StoredMut};
use super::Spread;
use super::error::SpreadError;

impl Spread {
    /// Sets every element that `rank` holds to `element(row, col)`, with indices in the whole matrix.
    ///
    /// # Errors
    /// [`SpreadError::LeadingDimension`] and [`SpreadError::Storage`] for memory that cannot hold them.
    pub fn fill<T>(
        &self,
        rank: usize,
        local: StoredMut<'_, T>,
        element: impl Fn(usize, usize) -> T,
    ) -> Result<(), SpreadError> {
        self.check_memory(rank, &local)?;
        for held in self.elements(rank) {
            let place = local.order.index(held.local_row, held.local_col, local.ld);
            local.data[place] = element(held.row, held.col);
        }
        Ok(())
    }

    /// Checks that the local matrix of `rank` lies in this memory, if the rank holds any element.
    ///
    /// # Errors
    /// [`SpreadError::LeadingDimension`], [`SpreadError::Storage`].
    pub(in crate::matrix) fn check_memory<T, D: Deref<Target = [T]>>(
        &self,
        rank: usize,
        local: &LocalMemory<D>,
    ) -> Result<(), SpreadError> {
        if self.held(rank) == 0 {
            return Ok(());
        }
        let (len, ld) = (local.data.len(), local.ld);
        let (rows, cols) = self.local_shape(rank);
        let (line, along, lines) = match local.order {
            Order::Columns => ("column", rows, cols),
            Order::Rows => ("row", cols, rows),
        };
        if ld < along {
            return Err(SpreadError::LeadingDimension {
                ld,
                line,
                needed: along,
            });
        }
        let needed = (lines - 1).saturating_mul(ld).saturating_add(along);
        if len < needed {
            return Err(SpreadError::Storage {
                len,
                rows,
                cols,
                ld,
                needed,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::stored::Stored;

    #[test]
    fn memory_that_is_too_short_is_refused() {
        let data = [0.0; 11];
        assert_eq!(
            Spread::whole(3, 3).check_memory(0, &Stored::by_columns(&data, 4)),
            Ok(())
        );
        assert_eq!(
            Spread::whole(3, 3).check_memory(0, &Stored::by_rows(&data, 4)),
            Ok(())
        );
        let text = Spread::whole(3, 3)
            .check_memory(0, &Stored::by_columns(&data, 5))
            .unwrap_err()
            .to_string();
        assert!(text.contains("of 11") && text.contains("need 13"), "{text}");
        let text = Spread::whole(2, 5)
            .check_memory(0, &Stored::by_rows(&data, 4))
            .unwrap_err()
            .to_string();
        assert!(text.contains("where a row has 5"), "{text}");
        assert_eq!(
            Spread::whole(0, 5).check_memory(0, &Stored::<f64>::by_rows(&[], 0)),
            Ok(())
        );
    }
}
