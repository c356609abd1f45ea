//! One worker's section: stretches that the snapshot has not told of yet, and what the worker holds of each.
//!
//! Workers that hold the same prompts have the same stretches, and a snapshot tells of each once. Two stretches are taken for one if 128
//! bits of XXH3 are equal, over the contents from the root and the names: should two differ after all, the digests at the
//! end of a section do not fit, and the snapshot is refused when it is loaded.

use std::io::Write;

use hashbrown::HashMap;
use xxhash_rust::xxh3::xxh3_128;

use super::STRETCH_PLACES;
use super::encode;
use super::error::WriteError;
use super::frames::FrameWriter;
use super::parts::{Held, Stretch};
use crate::limits::SNAPSHOT_STRETCHES_MAX;
use crate::{BlockName, ContentHash};

/// The numbers of the stretches that a snapshot has told of, by fingerprint.
pub(super) type Numbers = HashMap<u128, u32>;

/// A section while it is written.
#[derive(Debug)]
pub(crate) struct Section<'a, W> {
    frames: &'a mut FrameWriter<W>,
    numbers: &'a mut Numbers,
    /// The worker's stretches so far, by its own ids.
    told: HashMap<u64, Told>,
    groups: Vec<Group>,
    /// Bytes in the making.
    bytes: Vec<u8>,
}

/// A stretch that the section has told of.
#[derive(Clone, Copy, Debug)]
struct Told {
    number: u32,
    /// The fingerprint of the contents before its first.
    path: u128,
}

/// Places that the same views hold, all of them by the agreed names or none.
#[derive(Debug)]
struct Group {
    views: u32,
    mask: u64,
    /// The names if they are not the agreed ones.
    names: Option<Vec<BlockName>>,
}

impl<'a, W: Write> Section<'a, W> {
    pub(super) fn new(frames: &'a mut FrameWriter<W>, numbers: &'a mut Numbers) -> Self {
        Self { frames, numbers, told: HashMap::new(), groups: Vec::new(), bytes: Vec::new() }
    }

    /// Whether the section has told of the stretch that the worker calls `id`.
    pub(crate) fn knows(&self, id: u64) -> bool {
        self.told.contains_key(&id)
    }

    /// Tells of a stretch and of what the worker holds there. The one that it leaves must be known.
    pub(crate) fn tell(&mut self, stretch: &Stretch<'_>) -> Result<(), WriteError> {
        debug_assert!((1..=usize::from(STRETCH_PLACES)).contains(&stretch.contents.len()));
        let parent = stretch.lead.map(|(parent, lead)| (self.told[&parent], lead));
        let path = parent.map_or(0, |(parent, lead)| self.fingerprint(parent.path, lead, 0, &[]));
        let print = self.fingerprint(path, stretch.contents, stretch.agreed, stretch.names);
        let number = match self.numbers.get(&print) {
            Some(&number) => number,
            None => self.define(print, parent, stretch)?,
        };
        self.told.insert(stretch.id, Told { number, path });
        self.hold(number, stretch)
    }

    /// Of contents and names behind a path of fingerprint `path`.
    fn fingerprint(&mut self, path: u128, contents: &[ContentHash], agreed: u64, names: &[BlockName]) -> u128 {
        self.bytes.clear();
        self.bytes.extend(path.to_le_bytes());
        encode::stretch_body(&mut self.bytes, contents, agreed, of_places(agreed, names));
        xxh3_128(&self.bytes)
    }

    /// Writes a stretch that is told of for the first time, and gives it a number.
    fn define(&mut self, print: u128, parent: Option<(Told, &[ContentHash])>, stretch: &Stretch<'_>) -> Result<u32, WriteError> {
        let number = u32::try_from(self.numbers.len()).ok().filter(|&number| number < SNAPSHOT_STRETCHES_MAX);
        let number = number.ok_or(WriteError::Stretches { max: SNAPSHOT_STRETCHES_MAX })?;
        let (parent, after) = parent.map_or((0, 0), |(parent, lead)| (parent.number + 1, lead.len()));
        self.bytes.clear();
        encode::stretch(&mut self.bytes, parent, u8::try_from(after).expect("a parent has at most STRETCH_PLACES"));
        encode::stretch_body(&mut self.bytes, stretch.contents, stretch.agreed, of_places(stretch.agreed, stretch.names));
        self.frames.put(&self.bytes)?;
        self.numbers.insert(print, number);
        Ok(number)
    }

    /// Writes what the worker holds of a stretch.
    fn hold(&mut self, number: u32, stretch: &Stretch<'_>) -> Result<(), WriteError> {
        for held in stretch.held {
            let is_agreed = stretch.agreed >> held.offset & 1 == 1 && stretch.names[held.offset] == held.name;
            let group = self.groups.iter_mut().find(|group| group.takes(held, is_agreed));
            if let Some(group) = group {
                group.add(held);
                continue;
            }
            // Many twins, each in a group of its own, would be compared with all of them.
            if self.groups.len() == GROUPS_MAX {
                self.write_groups(number)?;
            }
            self.groups.push(Group::new(held, is_agreed));
        }
        self.write_groups(number)
    }

    fn write_groups(&mut self, number: u32) -> Result<(), WriteError> {
        for group in self.groups.drain(..) {
            self.bytes.clear();
            encode::held(&mut self.bytes, number, group.views, group.mask, group.names.as_deref());
            self.frames.put(&self.bytes)?;
        }
        Ok(())
    }
}

impl Group {
    fn new(held: &Held, is_agreed: bool) -> Self {
        let mut group = Self { views: held.views, mask: 0, names: (!is_agreed).then(Vec::new) };
        group.add(held);
        group
    }

    fn takes(&self, held: &Held, is_agreed: bool) -> bool {
        self.views == held.views && self.names.is_none() == is_agreed && self.mask >> held.offset & 1 == 0
    }

    fn add(&mut self, held: &Held) {
        self.mask |= 1 << held.offset;
        if let Some(names) = &mut self.names {
            names.push(held.name);
        }
    }
}

/// The names of the places that `agreed` says have one.
fn of_places(agreed: u64, names: &[BlockName]) -> impl Iterator<Item = BlockName> {
    names.iter().enumerate().filter(move |&(at, _)| agreed >> at & 1 == 1).map(|(_, &name)| name)
}

/// Nearly always there is one, and two where a view or a few names differ.
const GROUPS_MAX: usize = 8;
