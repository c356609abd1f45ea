//! Records: from bytes that were checked to numbers that are in range. What depends on other records is the loader's to judge.

use super::encode::Kind;
use super::error::LoadError;
use super::{STRETCH_PLACES, WORD_BYTES};
use crate::limits::{SNAPSHOT_WORKER_BYTES_MAX, VIEWS_MAX};
use crate::{BlockName, ContentHash, Digest};

/// One record. [`super`] has the layouts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Record<'a> {
    Worker { views: u8, bytes: &'a [u8] },
    Stretch(StretchRecord<'a>),
    Held(HeldRecord<'a>),
    WorkerEnd { digests: Words<'a> },
    End,
}

/// A stretch of 1 to 64 places.
#[derive(Clone, Copy, Debug)]
pub(super) struct StretchRecord<'a> {
    /// 0 is the root, and any other number that of a stretch and one more.
    pub(super) parent: u32,
    /// Places of the parent before it, at most 64.
    pub(super) after: u8,
    /// The places with an agreed name. No bits beyond the stretch.
    pub(super) agreed: u64,
    pub(super) contents: Words<'a>,
    /// One for each bit of `agreed`.
    pub(super) names: Words<'a>,
}

/// What the worker holds of a stretch.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldRecord<'a> {
    pub(super) stretch: u32,
    pub(super) views: u32,
    pub(super) mask: u64,
    /// One for each bit of `mask`; none if the agreed names are held.
    pub(super) names: Option<Words<'a>>,
}

/// Words of 64 bits, little-endian.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words<'a>(&'a [u8]);

/// The records of a payload, each with the offset where it begins.
#[derive(Debug)]
pub(super) struct Records<'a> {
    fields: Fields<'a>,
}

/// The only reader of single bytes.
#[derive(Debug)]
struct Fields<'a> {
    rest: &'a [u8],
    /// Where `rest` begins in the stream.
    offset: u64,
    /// Where the record begins.
    record: u64,
}

impl Record<'_> {
    /// What it is, in words.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Worker { .. } => "a worker",
            Self::Stretch(_) => "a stretch",
            Self::Held(_) => "what a worker holds",
            Self::WorkerEnd { .. } => "a worker's end",
            Self::End => "the snapshot's end",
        }
    }
}

impl<'a> Words<'a> {
    pub(super) fn len(self) -> usize {
        self.0.len() / WORD_BYTES
    }

    pub(super) fn iter(self) -> impl Iterator<Item = u64> + use<'a> {
        self.0.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word))
    }

    pub(super) fn contents(self) -> impl Iterator<Item = ContentHash> + use<'a> {
        self.iter().map(ContentHash)
    }

    pub(super) fn names(self) -> impl Iterator<Item = BlockName> + use<'a> {
        self.iter().map(BlockName)
    }

    /// Three words each.
    pub(super) fn digests(self) -> impl Iterator<Item = Digest> + use<'a> {
        let mut words = self.iter();
        std::iter::from_fn(move || Some(Digest { count: words.next()?, xor: words.next()?, sum: words.next()? }))
    }
}

impl<'a> Records<'a> {
    pub(super) fn new(bytes: &'a [u8], offset: u64) -> Self {
        Self { fields: Fields { rest: bytes, offset, record: offset } }
    }

    /// The next record, and where it begins; none at the payload's end.
    pub(super) fn read_record(&mut self) -> Result<Option<(u64, Record<'a>)>, LoadError> {
        if self.fields.rest.is_empty() {
            return Ok(None);
        }
        let offset = self.fields.offset;
        self.fields.record = offset;
        let kind = self.fields.byte("the record's kind", Kind::Worker as u8, Kind::End as u8)?;
        let record = self.record(kind)?;
        Ok(Some((offset, record)))
    }

    fn record(&mut self, kind: u8) -> Result<Record<'a>, LoadError> {
        const WORKER: u8 = Kind::Worker as u8;
        const STRETCH: u8 = Kind::Stretch as u8;
        const HELD: u8 = Kind::Held as u8;
        const HELD_OTHERWISE: u8 = Kind::HeldOtherwise as u8;
        const WORKER_END: u8 = Kind::WorkerEnd as u8;
        Ok(match kind {
            WORKER => self.worker()?,
            STRETCH => Record::Stretch(self.stretch()?),
            HELD => Record::Held(self.held(false)?),
            HELD_OTHERWISE => Record::Held(self.held(true)?),
            WORKER_END => self.worker_end()?,
            _ => Record::End,
        })
    }

    fn worker(&mut self) -> Result<Record<'a>, LoadError> {
        let views = self.fields.byte("the number of views", 1, VIEWS_MAX)?;
        let length = self.fields.number("the length of the worker's bytes", 0, SNAPSHOT_WORKER_BYTES_MAX)?;
        Ok(Record::Worker { views, bytes: self.fields.take("the worker's bytes", length as usize)? })
    }

    fn stretch(&mut self) -> Result<StretchRecord<'a>, LoadError> {
        let parent = u32::from_le_bytes(self.fields.array("the parent")?);
        let (least, most) = if parent == 0 { (0, 0) } else { (1, STRETCH_PLACES) };
        let after = self.fields.byte("the places before the stretch", least, most)?;
        let len = self.fields.byte("the stretch's length", 1, STRETCH_PLACES)?;
        let agreed = u64::from_le_bytes(self.fields.array("the places with agreed names")?);
        let allowed = u64::MAX >> (STRETCH_PLACES - len);
        if agreed & !allowed != 0 {
            return Err(LoadError::Bits {
                offset: self.fields.record,
                field: "the places with agreed names",
                allowed,
                got: agreed,
            });
        }
        let contents = self.fields.words("the contents", usize::from(len))?;
        let names = self.fields.words("the names", agreed.count_ones() as usize)?;
        Ok(StretchRecord { parent, after, agreed, contents, names })
    }

    fn held(&mut self, otherwise: bool) -> Result<HeldRecord<'a>, LoadError> {
        let stretch = u32::from_le_bytes(self.fields.array("the stretch")?);
        let views = u32::from_le_bytes(self.fields.array("the holding views")?);
        let mask = u64::from_le_bytes(self.fields.array("the held places")?);
        let names = if otherwise { Some(self.fields.words("the names", mask.count_ones() as usize)?) } else { None };
        Ok(HeldRecord { stretch, views, mask, names })
    }

    fn worker_end(&mut self) -> Result<Record<'a>, LoadError> {
        let views = self.fields.byte("the number of views", 1, VIEWS_MAX)?;
        let words = usize::from(views) * DIGEST_WORDS;
        Ok(Record::WorkerEnd { digests: self.fields.words("the digests", words)? })
    }
}

impl<'a> Fields<'a> {
    fn take(&mut self, field: &'static str, needed: usize) -> Result<&'a [u8], LoadError> {
        let short = LoadError::Short { offset: self.offset, field, needed, left: self.rest.len() };
        let (taken, rest) = self.rest.split_at_checked(needed).ok_or(short)?;
        self.rest = rest;
        self.offset += needed as u64;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], LoadError> {
        Ok(self.take(field, N)?.try_into().expect("as long as asked for"))
    }

    fn words(&mut self, field: &'static str, count: usize) -> Result<Words<'a>, LoadError> {
        self.take(field, count * WORD_BYTES).map(Words)
    }

    fn byte(&mut self, field: &'static str, min: u8, max: u8) -> Result<u8, LoadError> {
        let [byte] = self.array(field)?;
        self.within(field, byte.into(), min.into(), max.into())?;
        Ok(byte)
    }

    fn number(&mut self, field: &'static str, min: usize, max: usize) -> Result<u32, LoadError> {
        let number = u32::from_le_bytes(self.array(field)?);
        self.within(field, number.into(), min as u64, max as u64)?;
        Ok(number)
    }

    fn within(&self, field: &'static str, got: u64, min: u64, max: u64) -> Result<(), LoadError> {
        let in_range = (min..=max).contains(&got);
        if in_range { Ok(()) } else { Err(LoadError::Range { offset: self.record, field, min, max, got }) }
    }
}

/// Count, exclusive or, sum.
const DIGEST_WORDS: usize = 3;
