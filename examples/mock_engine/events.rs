//! Cache events and the two wires they are published on.
//!
//! Both wires are msgpack: `[timestamp, events, rank]` around one tagged map for each event.
//!
//! | | vLLM (0.30 to 0.33) | SGLang (0.5.20 to 0.5.23) |
//! |---|---|---|
//! | hashes | unsigned 64 bits | signed 64 bits |
//! | store | + `lora_name`, `extra_keys`, `group_idx`, `kv_cache_spec_kind` | `lora_id`, `medium` |
//! | removal | one event for each block, with `group_idx` | one event for all blocks |
//! | first batch | whatever is computed first | `AllBlocksCleared` |

use rmp::encode::{self, ByteBuf, RmpWrite, ValueWriteError};

/// Something that happened to the named blocks of one engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheEvent {
    /// Consecutive blocks appeared.
    Stored {
        /// The block in front of the first one; `None` at the start of a prompt.
        parent: Option<u64>,
        /// Names, first block first; at least one.
        names: Vec<u64>,
        /// The tokens of exactly these blocks.
        tokens: Vec<u32>,
    },
    /// Blocks left the cache, in this order.
    Removed(Vec<u64>),
    /// All blocks left the cache.
    Cleared,
}

/// Whose wire an engine speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// vLLM 0.33: tagged maps, unsigned hashes.
    Vllm,
    /// SGLang 0.5.23: tagged maps, signed hashes, a clear in front.
    Sglang,
}

/// What the events of one stream have in common.
#[derive(Debug, Clone, Copy)]
pub struct StreamFormat {
    /// Whose wire.
    pub dialect: Dialect,
    /// Data-parallel rank, stamped on every batch.
    pub rank: u32,
    /// Tokens of a block.
    pub block_size: usize,
}

impl StreamFormat {
    /// The payload of one batch. `timestamp_s` is seconds since the Unix epoch.
    pub fn encode(&self, timestamp_s: f64, events: &[CacheEvent]) -> Vec<u8> {
        let mut writer = Writer { bytes: ByteBuf::new(), format: *self };
        // A byte buffer takes anything, and the type of its error says so.
        let Ok(()) = writer.batch(timestamp_s, events);
        writer.bytes.into_vec()
    }
}

type Written = Result<(), ValueWriteError<<ByteBuf as RmpWrite>::Error>>;

struct Writer {
    bytes: ByteBuf,
    format: StreamFormat,
}

impl Writer {
    fn batch(&mut self, timestamp_s: f64, events: &[CacheEvent]) -> Written {
        self.array(3)?;
        encode::write_f64(&mut self.bytes, timestamp_s)?;
        self.array(events.iter().map(|event| self.format.wire_events(event)).sum())?;
        for event in events {
            self.event(event)?;
        }
        self.uint(u64::from(self.format.rank))
    }

    fn event(&mut self, event: &CacheEvent) -> Written {
        match (event, self.format.dialect) {
            (CacheEvent::Stored { parent, names, tokens }, _) => self.stored(*parent, names, tokens),
            (CacheEvent::Removed(names), Dialect::Vllm) => names.chunks(1).try_for_each(|name| self.removed(name)),
            (CacheEvent::Removed(names), Dialect::Sglang) => self.removed(names),
            (CacheEvent::Cleared, _) => {
                self.map(1)?;
                self.tag("AllBlocksCleared")
            }
        }
    }

    fn stored(&mut self, parent: Option<u64>, names: &[u64], tokens: &[u32]) -> Written {
        let of_vllm = self.format.dialect == Dialect::Vllm;
        if of_vllm {
            self.map16(11)?;
        } else {
            self.map(7)?;
        }
        self.tag("BlockStored")?;
        self.hashes(names)?;
        self.key("parent_block_hash")?;
        match parent {
            Some(parent) => self.hash(parent)?,
            None => self.nil()?,
        }
        self.key("token_ids")?;
        self.array(tokens.len())?;
        tokens.iter().try_for_each(|&token| self.uint(u64::from(token)))?;
        self.key("block_size")?;
        self.uint(self.format.block_size as u64)?;
        self.key("lora_id")?;
        self.nil()?;
        self.medium()?;
        if of_vllm { self.vllm_store_fields(names.len()) } else { Ok(()) }
    }

    fn vllm_store_fields(&mut self, blocks: usize) -> Written {
        self.key("lora_name")?;
        self.nil()?;
        self.key("extra_keys")?;
        self.array(blocks)?;
        (0..blocks).try_for_each(|_| self.nil())?;
        self.key("group_idx")?;
        self.uint(0)?;
        self.key("kv_cache_spec_kind")?;
        self.key("full_attention")
    }

    fn removed(&mut self, names: &[u64]) -> Written {
        let of_vllm = self.format.dialect == Dialect::Vllm;
        self.map(if of_vllm { 4 } else { 3 })?;
        self.tag("BlockRemoved")?;
        self.hashes(names)?;
        self.medium()?;
        if of_vllm {
            self.key("group_idx")?;
            self.uint(0)?;
        }
        Ok(())
    }

    fn hashes(&mut self, names: &[u64]) -> Written {
        self.key("block_hashes")?;
        self.array(names.len())?;
        names.iter().try_for_each(|&name| self.hash(name))
    }

    fn hash(&mut self, name: u64) -> Written {
        match self.format.dialect {
            Dialect::Vllm => self.uint(name),
            Dialect::Sglang => encode::write_sint(&mut self.bytes, name.cast_signed()).map(drop),
        }
    }

    fn medium(&mut self) -> Written {
        self.key("medium")?;
        self.key("GPU")
    }

    fn tag(&mut self, tag: &str) -> Written {
        self.key("type")?;
        self.key(tag)
    }

    fn key(&mut self, text: &str) -> Written {
        encode::write_str(&mut self.bytes, text)
    }

    fn uint(&mut self, value: u64) -> Written {
        encode::write_uint(&mut self.bytes, value).map(drop)
    }

    fn nil(&mut self) -> Written {
        encode::write_nil(&mut self.bytes).map_err(ValueWriteError::InvalidMarkerWrite)
    }

    fn array(&mut self, len: usize) -> Written {
        encode::write_array_len(&mut self.bytes, wire_len(len)).map(drop)
    }

    /// vLLM's encoder reserves the long header for a struct of 16 fields before it knows which of them it omits.
    fn map16(&mut self, len: u8) -> Written {
        self.bytes.write_bytes(&[0xde, 0, len]).map_err(ValueWriteError::InvalidMarkerWrite)
    }

    fn map(&mut self, len: u32) -> Written {
        encode::write_map_len(&mut self.bytes, len).map(drop)
    }
}

impl StreamFormat {
    fn wire_events(&self, event: &CacheEvent) -> usize {
        match (event, self.dialect) {
            (CacheEvent::Removed(names), Dialect::Vllm) => names.len(),
            _ => 1,
        }
    }
}

/// Lengths of one batch are bounded by the tokens of one pass.
fn wire_len(len: usize) -> u32 {
    u32::try_from(len).expect("a batch holds fewer than 2^32 tokens")
}

#[cfg(test)]
mod tests {
    use super::*;

    const VLLM: StreamFormat = StreamFormat { dialect: Dialect::Vllm, rank: 0, block_size: 16 };
    const SGLANG: StreamFormat = StreamFormat { dialect: Dialect::Sglang, rank: 0, block_size: 16 };
    /// The timestamp of the publishers' captures.
    const CAPTURED_S: f64 = 1_700_000_000.25;

    #[track_caller]
    fn same_bytes(payload: &[u8], captured: &str) {
        let captured: Vec<u8> =
            (0..captured.len()).step_by(2).map(|at| u8::from_str_radix(&captured[at..at + 2], 16).unwrap()).collect();
        assert_eq!(payload, captured);
    }

    fn stored(parent: Option<u64>, names: &[u64], first_token: u32) -> CacheEvent {
        let tokens = u32::try_from(names.len()).unwrap() * 16;
        CacheEvent::Stored { parent, names: names.to_vec(), tokens: (first_token..first_token + tokens).collect() }
    }

    #[test]
    fn a_store_is_what_sglang_publishes() {
        // Sequence 0 of the capture sglang-0.5.23-basic.
        same_bytes(
            &SGLANG.encode(CAPTURED_S, &[stored(None, &[0x9a45_83fe_ab56_8e62], 1)]),
            "93cb41d954fc401000009187a474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657391d39a4583feab568e62b1706172656e\
             745f626c6f636b5f68617368c0a9746f6b656e5f696473dc00100102030405060708090a0b0c0d0e0f10aa626c6f636b5f73697a6510a76c\
             6f72615f6964c0a66d656469756da347505500",
        );
    }

    #[test]
    fn a_removal_is_what_sglang_publishes() {
        // Sequence 3 of the capture sglang-0.5.23-basic.
        same_bytes(
            &SGLANG.encode(CAPTURED_S, &[CacheEvent::Removed(vec![0x66, 0x9a45_83fe_ab56_8e62])]),
            "93cb41d954fc401000009183a474797065ac426c6f636b52656d6f766564ac626c6f636b5f6861736865739266d39a4583feab568e62a66d65\
             6469756da347505500",
        );
    }

    #[test]
    fn a_removal_is_what_vllm_publishes() {
        // Sequence 3 of the capture vllm-0.33.0-basic.
        same_bytes(
            &VLLM.encode(CAPTURED_S, &[CacheEvent::Removed(vec![0x68])]),
            "93cb41d954fc401000009184a474797065ac426c6f636b52656d6f766564ac626c6f636b5f68617368657391\
             68a66d656469756da3475055a967726f75705f6964780000",
        );
    }

    #[test]
    fn a_store_is_what_vllm_publishes() {
        // Sequence 1 of the capture vllm-0.33.0-basic, with the `extra_keys` that a running 0.32.0 sends for plain text.
        same_bytes(
            &VLLM.encode(CAPTURED_S, &[stored(Some(0x65), &[0x66, 0x67, 0x68], 17)]),
            "93cb41d954fc4010000091\
             de000ba474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657393666768b1706172656e745f626c6f636b5f68617368\
             65a9746f6b656e5f696473dc00301112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f30313233343536\
             3738393a3b3c3d3e3f40aa626c6f636b5f73697a6510a76c6f72615f6964c0a66d656469756da3475055a96c6f72615f6e616d65c0\
             aa65787472615f6b65797393c0c0c0\
             a967726f75705f69647800b26b765f63616368655f737065635f6b696e64ae66756c6c5f617474656e74696f6e00",
        );
    }

    #[test]
    fn vllm_lists_one_block_a_removal_and_stamps_its_rank() {
        let format = StreamFormat { rank: 3, ..VLLM };
        let payload = format.encode(CAPTURED_S, &[CacheEvent::Removed(vec![1, 2]), CacheEvent::Cleared]);
        assert_eq!(payload[10], 0x93, "three events");
        assert_eq!(payload.last(), Some(&3));
    }
}
