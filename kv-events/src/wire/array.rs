//! Tag-first arrays: vLLM up to 0.23, SGLang up to 0.5.19, TokenSpeed.
//!
//! The slots after the tag, with the wires that end there:
//!
//! | slot | store | removal | clear |
//! | --- | --- | --- | --- |
//! | 1 | hashes | hashes (vLLM 0.9, SGLang 0.4, TokenSpeed) | ownership |
//! | 2 | parent | medium (vLLM 0.10.2, SGLang 0.5.9) | |
//! | 3 | tokens | group (vLLM 0.20) | |
//! | 4 | block size (TokenSpeed) | locality | |
//! | 5 | LoRA id (vLLM 0.9, SGLang 0.4) | ownership | |
//! | 6 | medium (vLLM 0.10.2, SGLang 0.5.9) | | |
//! | 7 | vLLM: LoRA name (0.14); SGLang: a map with the salt (0.5.18), or component labels | | |
//! | 8 | extra keys (vLLM 0.17) | | |
//! | 9 | group (vLLM 0.20) | | |
//! | 10, 11 | attention kind, sliding window (vLLM 0.22) | | |
//! | 12, 13 | locality, ownership: in the order in which the later maps got them | | |

use super::batch::Tag;
use super::fields;
use super::reader::{Reader, Result, Shape, Unreadable};
use crate::event::{Cleared, Event, Layout, Removed, Stored};
use crate::loss::Loss;

pub(super) fn read_event(reader: &mut Reader) -> Result<Event, Loss> {
    let len = reader.array_len()?;
    let unread = len.checked_sub(1).ok_or(Unreadable)?;
    let tag = Tag::read(reader)?;
    let mut slots = Slots { reader, unread, foreign: false };
    let event = match tag {
        Tag::Stored => read_stored(&mut slots, len)?.into(),
        Tag::Removed => Event::Removed(read_removed(&mut slots)?),
        Tag::Cleared => Event::Cleared(Cleared { ownership: slots.text()? }),
    };
    slots.skip_unread()?;
    Ok(event)
}

/// The slots of one event that are not read yet.
struct Slots<'r, 'a> {
    reader: &'r mut Reader<'a>,
    unread: usize,
    /// Set once a slot held what no known build puts there: what follows has no known meaning either.
    foreign: bool,
}

impl<'a> Slots<'_, 'a> {
    fn required<T>(&mut self, read: impl FnOnce(&mut Reader<'a>) -> Result<T>) -> Result<T> {
        self.unread = self.unread.checked_sub(1).ok_or(Unreadable)?;
        read(self.reader)
    }

    fn optional<T>(&mut self, expected: Shape, read: impl FnOnce(&mut Reader<'a>) -> Result<T>) -> Result<Option<T>> {
        match self.next_shape()? {
            None => Ok(None),
            Some(Shape::Nil) => self.required(Reader::skip).map(|()| None),
            Some(shape) if shape == expected => self.required(read).map(Some),
            Some(_) => {
                self.foreign = true;
                Ok(None)
            }
        }
    }

    fn text(&mut self) -> Result<Option<String>> {
        self.optional(Shape::Text, fields::text)
    }

    fn u32(&mut self) -> Result<Option<u32>> {
        self.optional(Shape::Int, Reader::u32)
    }

    /// The family of the next slot that may be read.
    fn next_shape(&self) -> Result<Option<Shape>> {
        if self.unread == 0 || self.foreign { Ok(None) } else { self.reader.shape().map(Some) }
    }

    fn skip_unread(&mut self) -> Result<()> {
        self.reader.skip_many(self.unread)
    }
}

fn read_stored(slots: &mut Slots, len: usize) -> Result<Stored> {
    let mut stored = Stored {
        hashes: slots.required(fields::hashes)?,
        parent: slots.required(|reader| reader.nullable(fields::hash))?,
        tokens: slots.required(fields::tokens)?,
        block_size: slots.required(Reader::u32)?,
        lora_id: slots.optional(Shape::Int, Reader::i64)?,
        medium: slots.text()?,
        layout: Layout::Array(u8::try_from(len).unwrap_or(u8::MAX)),
        ..Stored::default()
    };
    read_slot_7(slots, &mut stored)?;
    stored.extra_keys = slots.optional(Shape::Array, fields::extra_keys)?;
    stored.group = slots.u32()?;
    stored.kind = slots.text()?;
    stored.window = slots.u32()?;
    stored.locality = slots.text()?;
    stored.ownership = slots.text()?;
    Ok(stored)
}

/// The slot in which vLLM and two builds of SGLang differ. What SGLang puts there is its last known one.
fn read_slot_7(slots: &mut Slots, stored: &mut Stored) -> Result<()> {
    match slots.next_shape()? {
        Some(Shape::Map) => {
            stored.cache_salt = read_salt(*slots.reader)?;
            slots.foreign = true;
        }
        Some(Shape::Array) => {
            let mut labels = *slots.reader;
            stored.components = fields::texts(&mut labels).unwrap_or_default();
            slots.foreign = true;
        }
        _ => stored.lora_name = slots.text()?,
    }
    Ok(())
}

fn read_removed(slots: &mut Slots) -> Result<Removed> {
    Ok(Removed {
        hashes: slots.required(fields::hashes)?,
        medium: slots.text()?,
        group: slots.u32()?,
        locality: slots.text()?,
        ownership: slots.text()?,
    })
}

/// The salt in SGLang's map. A map without one is a build's that we do not know.
fn read_salt(mut reader: Reader) -> Result<Option<String>> {
    for _ in 0..reader.map_len()? {
        if fields::key(&mut reader)? == b"cache_salt" {
            return reader.nullable(fields::text);
        }
        reader.skip()?;
    }
    Ok(None)
}
