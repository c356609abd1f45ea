//! TokenSpeed and TensorRT-LLM.

use kv_events::engine_hash::{tokenspeed, trtllm};

use super::copies;

#[test]
fn tokenspeed_chain_tail_and_negative_token() {
    for file in copies("hash_vectors.json") {
        let expected = &file["tokenspeed 0.1.42 HashKvBlock"];
        let first = tokenspeed::block(None, &range(1, 16));
        assert_eq!(Some(first), expected["1..16"].as_u64());
        let second = tokenspeed::block(Some(first), &range(17, 32));
        assert_eq!(Some(second), expected["17..32 after it"].as_u64());
        let tail = tokenspeed::block(Some(first), &range(17, 21));
        assert_eq!(Some(tail), expected["17..21 (tail) after the first"].as_u64());
        let negative = tokenspeed::block(None, &[(-1_i32).cast_unsigned(), 0, 151_643]);
        assert_eq!(Some(negative), expected["[-1,0,151643] root"].as_u64());
    }
}

/// The file says of these that they are a transcription, not the engine's word.
#[test]
fn trtllm_chain_and_lora() {
    for file in copies("hash_vectors.json") {
        let expected = &file["trtllm v1_block_key (transcribed, unverified)"];
        let first = trtllm::block(None, &range(1, 16), None);
        assert_eq!(Some(first), expected["1..16"].as_u64());
        let second = trtllm::block(Some(first), &range(17, 32), None);
        assert_eq!(Some(second), expected["17..32"].as_u64());
        let adapted = trtllm::block(None, &range(1, 16), Some(7));
        assert_eq!(Some(adapted), expected["1..16 lora 7"].as_u64());
    }
}

fn range(first: u32, last: u32) -> Vec<u32> {
    (first..=last).collect()
}
