//! Tagged maps: vLLM from 0.24, SGLang from 0.5.20, Dynamo's TensorRT-LLM publisher.
//!
//! Keys come in any order, the tag included; a null is an absent field, and the last of a repeated key counts.

use super::batch::Tag;
use super::fields;
use super::reader::{Reader, Result, Unreadable};
use crate::event::{Cleared, Event, Layout, Removed, Stored};
use crate::loss::Loss;

pub(super) fn read_event(reader: &mut Reader) -> Result<Event, Loss> {
    let pairs = reader.map_len()?;
    Ok(match find_tag(*reader, pairs)? {
        Tag::Stored => read_stored(reader, pairs)?.into(),
        Tag::Removed => Event::Removed(read_removed(reader, pairs)?),
        Tag::Cleared => Event::Cleared(read_cleared(reader, pairs)?),
    })
}

/// The tag stands first on every wire seen, so this rarely passes over anything.
fn find_tag(mut reader: Reader, pairs: usize) -> Result<Tag, Loss> {
    for _ in 0..pairs {
        if fields::key(&mut reader)? == b"type" {
            return Tag::read(&mut reader);
        }
        reader.skip()?;
    }
    Err(Loss::Malformed)
}

fn read_stored(reader: &mut Reader, pairs: usize) -> Result<Stored> {
    let mut stored = Stored { layout: Layout::Map, ..Stored::default() };
    let (mut hashes, mut tokens, mut block_size) = (None, None, None);
    for _ in 0..pairs {
        match fields::key(reader)? {
            b"block_hashes" => hashes = Some(fields::hashes(reader)?),
            b"token_ids" => tokens = Some(fields::tokens(reader)?),
            b"block_size" => block_size = Some(reader.u32()?),
            key => read_stored_option(reader, key, &mut stored)?,
        }
    }
    stored.hashes = hashes.ok_or(Unreadable)?;
    stored.tokens = tokens.ok_or(Unreadable)?;
    stored.block_size = block_size.ok_or(Unreadable)?;
    Ok(stored)
}

fn read_stored_option(reader: &mut Reader, key: &[u8], stored: &mut Stored) -> Result<()> {
    match key {
        b"parent_block_hash" => stored.parent = reader.nullable(fields::hash)?,
        b"lora_id" => stored.lora_id = reader.nullable(Reader::i64)?,
        b"lora_name" => stored.lora_name = reader.nullable(fields::text)?,
        b"cache_salt" => stored.cache_salt = reader.nullable(fields::text)?,
        b"extra_keys" => stored.extra_keys = reader.nullable(fields::extra_keys)?,
        b"block_mm_infos" => stored.extra_keys = reader.nullable(fields::multimodal_keys)?,
        b"medium" => stored.medium = reader.nullable(fields::text)?,
        b"group_idx" => stored.group = reader.nullable(Reader::u32)?,
        b"kv_cache_spec_kind" => stored.kind = reader.nullable(fields::text)?,
        b"kv_cache_spec_sliding_window" => stored.window = reader.nullable(Reader::u32)?,
        b"locality" => stored.locality = reader.nullable(fields::text)?,
        b"ownership" => stored.ownership = reader.nullable(fields::text)?,
        b"lookahead_token_ids" => stored.lookahead = reader.nullable(fields::lookahead)?,
        b"component_types" => stored.components = reader.nullable(fields::texts)?.unwrap_or_default(),
        _ => reader.skip()?,
    }
    Ok(())
}

fn read_removed(reader: &mut Reader, pairs: usize) -> Result<Removed> {
    let mut removed = Removed::default();
    let mut hashes = None;
    for _ in 0..pairs {
        match fields::key(reader)? {
            b"block_hashes" => hashes = Some(fields::hashes(reader)?),
            b"medium" => removed.medium = reader.nullable(fields::text)?,
            b"group_idx" => removed.group = reader.nullable(Reader::u32)?,
            b"locality" => removed.locality = reader.nullable(fields::text)?,
            b"ownership" => removed.ownership = reader.nullable(fields::text)?,
            _ => reader.skip()?,
        }
    }
    removed.hashes = hashes.ok_or(Unreadable)?;
    Ok(removed)
}

fn read_cleared(reader: &mut Reader, pairs: usize) -> Result<Cleared> {
    let mut cleared = Cleared::default();
    for _ in 0..pairs {
        match fields::key(reader)? {
            b"ownership" => cleared.ownership = reader.nullable(fields::text)?,
            _ => reader.skip()?,
        }
    }
    Ok(cleared)
}
