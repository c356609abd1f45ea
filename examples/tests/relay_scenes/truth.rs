//! What the index must hold, from the names that the engine says it caches and the prompts that it was sent.

use std::collections::HashMap;
use std::num::NonZeroU32;

use kv_examples::mock_engine::BlockChain;
use kv_index::{BlockName, ContentHash, Digest, Namespace, Scheme};

pub(crate) const BLOCK: u32 = 16;

/// Every block that a load may leave behind.
pub(crate) struct Truth {
    places: HashMap<u64, (u32, ContentHash)>,
}

impl Truth {
    pub(crate) fn of(prompts: impl IntoIterator<Item = Vec<u32>>) -> Self {
        let scheme = Scheme::plain(NonZeroU32::new(BLOCK).unwrap());
        let (mut places, mut contents) = (HashMap::new(), Vec::new());
        for prompt in prompts {
            scheme.hash_prompt(Namespace::default(), &prompt, &mut contents);
            let chain = BlockChain::of(&prompt, BLOCK as usize);
            for ((position, name), content) in (0..).zip(chain.names()).zip(&contents) {
                places.insert(*name, (position, *content));
            }
        }
        Self { places }
    }

    /// The digest of an index that holds exactly `names`.
    pub(crate) fn digest(&self, names: &[u64]) -> Digest {
        let mut digest = Digest::default();
        for name in names {
            let (position, content) = self.places.get(name).expect("the engine caches what it was sent");
            digest.add(*position, *content, BlockName(*name));
        }
        digest
    }
}
