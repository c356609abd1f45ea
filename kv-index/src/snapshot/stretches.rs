//! The stretches that a snapshot has told of, while it is loaded.

use super::STRETCH_PLACES;
use super::error::LoadError;
use super::record::StretchRecord;
use crate::limits::SNAPSHOT_STRETCHES_MAX;
use crate::{Block, BlockName, ContentHash};

/// All stretches, by number: 16 bytes for each place, and a head.
#[derive(Debug, Default)]
pub(super) struct Stretches {
    heads: Vec<Head>,
    contents: Vec<ContentHash>,
    names: Vec<BlockName>,
}

#[derive(Clone, Copy, Debug)]
struct Head {
    /// 0 is the root, and any other number that of a stretch and one more.
    parent: u32,
    /// Places of the parent before it.
    after: u8,
    len: u8,
    agreed: u64,
    /// Where the contents and names begin.
    contents: usize,
    names: usize,
    /// Places between the root and the end of the stretch.
    depth: u32,
}

impl Stretches {
    /// Takes the next stretch in. `offset` is where its record begins.
    pub(super) fn push(&mut self, offset: u64, record: &StretchRecord<'_>) -> Result<(), LoadError> {
        let out_of = |field, min, max, got| LoadError::Range { offset, field, min, max, got };
        let max = u64::from(SNAPSHOT_STRETCHES_MAX);
        if self.heads.len() as u64 >= max {
            return Err(out_of("the number of stretches", 0, max, max + 1));
        }
        let before = self.depth_before(offset, record)?;
        let depth = before + record.contents.len() as u64;
        let depth = u32::try_from(depth).map_err(|_| out_of("the depth", 1, u32::MAX.into(), depth))?;
        self.heads.push(Head {
            parent: record.parent,
            after: record.after,
            len: u8::try_from(record.contents.len()).expect("at most STRETCH_PLACES"),
            agreed: record.agreed,
            contents: self.contents.len(),
            names: self.names.len(),
            depth,
        });
        self.contents.extend(record.contents.contents());
        self.names.extend(record.names.names());
        Ok(())
    }

    /// Places between the root and a stretch that is to come.
    fn depth_before(&self, offset: u64, record: &StretchRecord<'_>) -> Result<u64, LoadError> {
        let Some(number) = record.parent.checked_sub(1) else { return Ok(0) };
        self.check(offset, number)?;
        let parent = self.head(number);
        if record.after > parent.len {
            let (max, got) = (parent.len.into(), record.after.into());
            return Err(LoadError::Range { offset, field: "the places before the stretch", min: 1, max, got });
        }
        Ok(u64::from(parent.depth) - u64::from(parent.len - record.after))
    }

    /// Whether there is such a stretch, of which the record at `offset` speaks.
    pub(super) fn check(&self, offset: u64, stretch: u32) -> Result<(), LoadError> {
        let known = self.heads.len();
        if (stretch as usize) < known { Ok(()) } else { Err(LoadError::UnknownStretch { offset, stretch, known }) }
    }

    /// The stretch that another leaves, and after how many of its places; none below the root.
    pub(super) fn parent(&self, number: u32) -> Option<(u32, usize)> {
        let head = self.head(number);
        Some((head.parent.checked_sub(1)?, usize::from(head.after)))
    }

    pub(super) fn contents(&self, number: u32) -> &[ContentHash] {
        let head = self.head(number);
        &self.contents[head.contents..][..usize::from(head.len)]
    }

    /// A bit for each place, and for each that has an agreed name.
    pub(super) fn masks(&self, number: u32) -> (u64, u64) {
        let head = self.head(number);
        (u64::MAX >> (STRETCH_PLACES - head.len), head.agreed)
    }

    /// The blocks of a stretch up to the last that is in `mask`, which is not empty. Those in `mask` have names, `own` ones or the
    /// agreed ones.
    pub(super) fn blocks(&self, number: u32, mask: u64, mut own: Option<impl Iterator<Item = BlockName>>, out: &mut Vec<Block>) {
        let head = self.head(number);
        let mut agreed = self.names[head.names..].iter();
        let contents = &self.contents(number)[..64 - mask.leading_zeros() as usize];
        out.extend(contents.iter().enumerate().map(|(at, &content)| {
            let agreed = if head.agreed >> at & 1 == 1 { agreed.next().copied() } else { None };
            let is_held = mask >> at & 1 == 1;
            let name = if is_held { own.as_mut().map_or(agreed, Iterator::next) } else { None };
            Block { name, content }
        }));
    }

    fn head(&self, number: u32) -> &Head {
        &self.heads[number as usize]
    }
}
