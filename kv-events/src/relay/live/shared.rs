//! Rows of values that a snapshot shares until one of them changes.

use std::sync::Arc;

/// A row that is its owner's alone, or shared with cuts.
///
/// Not an `Arc` from the start: asking one whether it is shared costs two atomic operations, and a batch asks some hundred
/// times. A row becomes an `Arc` when a cut is taken, and its owner's again with the first change after that.
#[derive(Debug)]
pub(super) enum Row<T> {
    Own(Box<[T]>),
    Shared(SharedRow<T>),
}

/// A row as a cut holds it.
pub(in crate::relay) type SharedRow<T> = Arc<Box<[T]>>;

impl<T: Clone> Row<T> {
    pub(super) fn new(values: Box<[T]>) -> Self {
        Self::Own(values)
    }

    /// Whether no cut holds it, as far as that is known without asking.
    pub(super) fn is_own(&self) -> bool {
        matches!(self, Self::Own(_))
    }

    #[inline]
    pub(super) fn get(&self) -> &[T] {
        match self {
            Self::Own(values) => values,
            Self::Shared(values) => values,
        }
    }

    /// The row to be changed: copied first if a cut still holds it.
    #[inline]
    pub(super) fn get_mut(&mut self) -> &mut [T] {
        if let Self::Shared(_) = self {
            self.take_back();
        }
        match self {
            Self::Own(values) => values,
            Self::Shared(_) => unreachable!("it was made its owner's"),
        }
    }

    #[cold]
    fn take_back(&mut self) {
        if let Self::Shared(shared) = self {
            *self = Self::Own(Arc::unwrap_or_clone(std::mem::take(shared)));
        }
    }

    /// The row as it is now, for as long as the caller wants to look at it.
    pub(super) fn share(&mut self) -> SharedRow<T> {
        if let Self::Own(values) = self {
            *self = Self::Shared(Arc::new(std::mem::take(values)));
        }
        match self {
            Self::Shared(shared) => Arc::clone(shared),
            Self::Own(_) => unreachable!("it was shared"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shared_does_not_change_and_is_copied_once() {
        let mut row = Row::new(vec![1, 2, 3].into());
        let cut = row.share();
        row.get_mut()[0] = 7;
        row.get_mut()[1] = 8;
        assert_eq!((cut.to_vec(), row.get()), (vec![1, 2, 3], &[7, 8, 3][..]));
    }

    #[test]
    fn a_row_that_no_cut_holds_any_more_is_not_copied() {
        let mut row = Row::new(vec![1, 2, 3].into());
        let before = row.get().as_ptr();
        drop(row.share());
        assert_eq!((row.get_mut().as_ptr(), row.share().as_ptr()), (before, before));
    }
}
